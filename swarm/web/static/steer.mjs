// Acts on an agent: write to it, choose its model, cancel it; and each message's effect: sent, then read in turn N.
import { post } from "./api.mjs";
import { clock, number } from "./format.mjs";
import { html, useState } from "./html.mjs";
import { line, plain } from "./plain.mjs";
import { sendOnEnter } from "./question.mjs";
import { Dialog, Failure, useAct, useDraft } from "./ui.mjs";
import { serverNow } from "./world.mjs";

/** A message to the agent. */
export function Send({ job, agent }) {
  const [text, set] = useDraft(`message ${agent.id}`);
  const act = useAct();
  const to = agent.name || (agent.parent_id ? "it" : "the root");
  const submit = (event) => {
    event.preventDefault();
    if (!text.trim() || act.busy) return;
    act
      .run(
        () => post(`jobs/${job.id}/messages`, { to: agent.id, text, reply_to: "" }),
        () => `Sent to ${line(to, 60)}`,
      )
      .then((found) => found && set(""));
  };
  return html`<form class="send" onSubmit=${submit}>
    ${act.error && html`<${Failure} error=${act.error} />`}
    <textarea class="form-control form-control-sm" rows="1" aria-label=${`Message to ${plain(to)}`} placeholder=${`Message to ${line(to, 40)}`} value=${text}
      onInput=${(event) => set(event.target.value)} onKeyDown=${(event) => sendOnEnter(event, submit)}></textarea>
    <button type="submit" class="btn btn-sm btn-primary" disabled=${act.busy || !text.trim()}>Send</button>
  </form>`;
}

/** The effect of a message: `sent → read in turn 7`. */
export function Effect({ message }) {
  const read = message.read_in_turn;
  return html`<span class=${`effect ${read === null ? "" : "effect-read"}`}>sent${read === null ? ", not read yet" : html` → <b>read in turn ${read}</b>`}</span>`;
}

const TOLD = 2;

/** People's last messages to this agent, and their effects. */
export function Effects({ agent }) {
  const own = agent.mail.filter((message) => message.sender_name === "user" && message.kind === "message").slice(-TOLD);
  if (!own.length) return null;
  return html`<ul class="effects" aria-label="Your last messages">${own.map((message) => html`<li key=${message.id}><q>${line(message.body, 60)}</q> <span class="aside">${clock(message.sent_at, serverNow())}</span> <${Effect} message=${message} /></li>`)}</ul>`;
}

/** Choose the model that the agent asks from its next request on. */
export function ChooseModel({ agent, close }) {
  const [model, set] = useState("");
  const act = useAct();
  const choose = (event) => {
    event.preventDefault();
    if (!model.trim() || act.busy) return;
    act
      .run(
        () => post(`agents/${agent.id}/model`, { model: model.trim() }),
        () => "Chosen for its next request",
      )
      .then((found) => found && close());
  };
  return html`<${Dialog} title="Another model?" close=${close}>
    <form onSubmit=${choose}>
      <p><b>${line(agent.label, 120)}</b> asks ${plain(agent.model)} now. Its conversation stays as it is.</p>
      <label class="field field-wide">Model<input class="form-control form-control-sm" placeholder="sonnet, openai:gpt-6, ollama:qwen3 …" value=${model} onInput=${(event) => set(event.target.value)} /></label>
      ${act.error && html`<${Failure} error=${act.error} />`}
      <div class="buttons"><button type="submit" class="btn btn-sm btn-primary" disabled=${act.busy || !model.trim()}>Ask this model</button>
        <button type="button" class="btn btn-sm sw-plain" onClick=${close}>Keep</button></div>
    </form>
  <//>`;
}

/** Ask for confirmation, with the number of agents that end. */
export function Cancel({ agent, sums, close }) {
  const [reason, set] = useState("");
  const act = useAct();
  const below = sums.agents - 1;
  const cancel = (event) => {
    event.preventDefault();
    act
      .run(
        () => post(`agents/${agent.id}/cancel`, { reason }),
        ({ ended }) => `${number(ended, "agent")} ended`,
      )
      .then((found) => found && close());
  };
  return html`<${Dialog} title="Cancel?" close=${close}>
    <form onSubmit=${cancel}>
      <p><b>${line(agent.label, 120)}</b> ${agent.parent_id ? "" : "is the root: the whole job ends. "}${number(sums.alive, "agent ends", "agents end")}: ${sums.alive === 1 && !below ? "only itself" : `all of it and the ${below} below that have not ended`}. This cannot be undone.</p>
      <label class="field field-wide">Reason<input class="form-control form-control-sm" value=${reason} onInput=${(event) => set(event.target.value)} /></label>
      ${act.error && html`<${Failure} error=${act.error} />`}
      <div class="buttons"><button type="submit" class="btn btn-sm sw-no-full" disabled=${act.busy}>${number(sums.alive, "agent", "agents")}: cancel</button>
        <button type="button" class="btn btn-sm sw-plain" onClick=${close}>Keep</button></div>
    </form>
  <//>`;
}
