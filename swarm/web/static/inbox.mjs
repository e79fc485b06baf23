// Messages of a job's agents to the person, and a message to several of them.
import { about, post } from "./api.mjs";
import { number } from "./format.mjs";
import { html, useState } from "./html.mjs";
import { Outgoing } from "./mail.mjs";
import { plain } from "./plain.mjs";
import { sendOnEnter } from "./question.mjs";
import { Empty, Failure, useAct, useDraft } from "./ui.mjs";

export function Inbox({ state }) {
  const act = useAct();
  const [reply, setReply] = useState(null);
  const newest = state.inbox.at(-1);
  const mark = () =>
    act.run(
      () => post(`jobs/${state.id}/messages/read`, { up_to: newest.id }),
      () => "All messages are marked as read",
    );
  return html`<section class="inbox" aria-label="Messages to you">
    <div class="pane-head"><h2>Messages to you</h2>${state.job.unread > 0 && newest && !about.read_only && html`<button type="button" class="btn btn-sm sw-plain" disabled=${act.busy} onClick=${mark}>Mark ${number(state.job.unread, "message")} as read</button>`}</div>
    ${act.error && html`<${Failure} error=${act.error} />`}
    ${
      state.inbox.length
        ? html`<ol class="letters">${state.inbox.map(
            (message) => html`<li key=${message.id} class="outgoing">
      <${Outgoing} message=${message} job=${state.id}>
        ${!about.read_only && state.agents.has(message.sender) && html`<button type="button" class="more" onClick=${() => setReply(message)}>Reply</button>`}<//></li>`,
          )}</ol>`
        : html`<${Empty}>No agent has written to you.<//>`
    }
    ${!about.read_only && html`<${Write} key=${reply?.id ?? ""} state=${state} reply=${reply} done=${() => setReply(null)} />`}
  </section>`;
}

/** A message to one of the job's agents by its name, or to all. */
function Write({ state, reply, done }) {
  const named = [...state.agents.values()].filter((agent) => agent.name);
  const [to, setTo] = useState(reply?.sender ?? "root");
  const [text, set] = useDraft(`job ${state.id} ${reply?.id ?? ""}`);
  const [sent, setSent] = useState(null);
  const act = useAct();
  const submit = (event) => {
    event.preventDefault();
    if (!text.trim() || act.busy) return;
    act
      .run(
        () => post(`jobs/${state.id}/messages`, { to, text, reply_to: reply?.id ?? "" }),
        (found) => `Sent to ${found.names.map(plain).join(", ")}`,
      )
      .then((found) => {
        if (!found) return;
        set("");
        setSent(found);
        done();
      });
  };
  return html`<form class="write" onSubmit=${submit}>
    <label class="field">To <select class="form-select form-select-sm" value=${to} onChange=${(event) => setTo(event.target.value)}>
      ${reply && html`<option value=${reply.sender}>${plain(reply.sender_name)} (reply)</option>`}<option value="root">root</option>
      ${named.map((agent) => html`<option key=${agent.id} value=${agent.id}>${plain(agent.name)}</option>`)}<option value="*">all agents with a name</option></select></label>
    <label class="field field-wide">Message<textarea class="form-control form-control-sm" rows="2" value=${text} onInput=${(event) => set(event.target.value)} onKeyDown=${(event) => sendOnEnter(event, submit)}></textarea></label>
    <div class="buttons"><button type="submit" class="btn btn-sm btn-primary" disabled=${act.busy || !text.trim()}>Send</button></div>
    ${act.error && html`<${Failure} error=${act.error} />`}
    ${sent?.left_out?.length > 0 && html`<p class="aside">Not sent to ${sent.left_out.map(plain).join(", ")}: they have ended or their mailbox is full.</p>`}
  </form>`;
}
