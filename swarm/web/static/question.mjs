// The answer box of a question: the facts for a decision, and the ways to answer. Typed text stays until it is sent.
import { about, post } from "./api.mjs";
import { Diff, Input } from "./call.mjs";
import { clock, duration } from "./format.mjs";
import { html, useState } from "./html.mjs";
import { Markdown } from "./markdown.mjs";
import { line, plain, reveal } from "./plain.mjs";
import { Failure, useAct, useDraft, useTick } from "./ui.mjs";
import { serverNow } from "./world.mjs";

const ASKS = { permission: "asks for permission", plan: "asks you to approve a plan", question: "asks you", event: "waits for an event" };

/** `diff`: the call's edit, if its journal entry shows one. `called`: the name of the asked lead. */
export function QuestionBox({ question, diff, called = "" }) {
  const act = useAct();
  const answer = (given, done) =>
    act.run(
      () => post(`questions/${question.id}/answer`, { answer: "", reason: "", mode: "", always: false, ...given }),
      () => done,
    );
  const event = question.kind === "event";
  const heading = question.to && !event ? `asks ${line(called, 60) || question.to}` : (ASKS[question.kind] ?? "asks");
  return html`<section class="question" aria-label=${`Question: ${line(question.title, 120)}`}>
    <h3 class="question-head"><span class="question-sign" aria-hidden="true">?</span> <span>${line(question.label, 80)} ${heading}</span></h3>
    <p class="question-title">${question.kind === "permission" && !question.title.startsWith(question.tool) && html`<span class="tool-name">${plain(question.tool)}</span> `}${reveal(question.title)}</p>
    <div class="question-detail" tabindex="0" role="group" aria-label="details"><${Detail} question=${question} diff=${diff} /></div>
    <${Expiry} question=${question} />
    ${act.error && html`<${Refusal} error=${act.error} />`}
    ${
      event
        ? html`<p class="read-only">It continues when the event is reported: <code>swarm event ${plain(question.title)} DATA</code>.</p>`
        : about.read_only
        ? html`<p class="read-only">Flower is read-only: answer with <code>swarm answer</code>.</p>`
        : question.kind === "question"
          ? html`<${Words} question=${question} busy=${act.busy} answer=${answer} />`
          : html`<${Decision} question=${question} busy=${act.busy} answer=${answer} />`
    }
  </section>`;
}

/** The refusal of an answer, with the earlier answer if the question is closed already. */
function Refusal({ error }) {
  const closed = error.details?.question;
  if (!closed) return html`<${Failure} error=${error} />`;
  const what =
    closed.state === "answered" ? `${plain(closed.by) || "Another person"} has answered: ${line(closed.answer, 120)}` : `It is ${closed.state}`;
  return html`<${Failure} error=${{ message: `This question is closed. ${what}.` }} />`;
}

function Detail({ question, diff }) {
  if (question.kind === "plan") return html`<div class="question-plan"><${Markdown} text=${question.detail} /></div>`;
  if (question.kind === "event") return null;
  if (question.kind === "question")
    return question.detail && question.detail !== question.title ? html`<${Markdown} text=${question.detail} />` : null;
  return html`<${Because} reasons=${question.because ?? []} />${diff ? html`<${Diff} lines=${diff} />` : null}
    ${question.input ? html`<${Input} input=${question.input} open=${!diff} without=${diff ? ["old_string", "new_string", "content", "edits"] : []} />` : html`<pre class="output">${reveal(question.detail)}</pre>`}`;
}

const Because = ({ reasons }) =>
  reasons.length ? html`<ul class="because">${reasons.map((reason) => html`<li>${reveal(reason)}</li>`)}</ul>` : null;

function Expiry({ question }) {
  useTick();
  if (!question.expires_at) return null;
  const left = question.expires_at - serverNow();
  return html`<p class="expiry">asked at ${clock(question.asked_at)}, ${left > 0 ? `${question.kind === "event" ? "it can come" : "can be answered"} for ${duration(Math.max(10, left))}` : "its time has passed"}</p>`;
}

// -- allow or deny -------------------------------------------------------------------------------------------

function Decision({ question, busy, answer }) {
  const [reason, setReason] = useDraft(`reason ${question.id}`);
  const [mode, setMode] = useState("acceptEdits");
  const plan = question.kind === "plan";
  const modes = about.modes.filter((each) => !["plan", "bubble"].includes(each));
  const decide = (given, done) => answer({ reason, ...given }, done).then((found) => found && setReason(""));
  const said = plan ? "Your feedback" : "Why not (the agent reads it)";
  return html`<form class="answer" onSubmit=${(event) => event.preventDefault()}>
    <div class="answer-fields">${
      plan &&
      html`<label class="field">Mode from now on <select class="form-select form-select-sm" value=${mode} onChange=${(event) => setMode(event.target.value)}>
      ${modes.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>`
    }
    <label class="field field-wide">${said}<textarea class="form-control form-control-sm" rows="1" value=${reason} onInput=${(event) => setReason(event.target.value)}></textarea></label></div>
    <div class="buttons">
      <button type="button" class="btn btn-sm sw-yes" disabled=${busy} onClick=${() => decide({ answer: "allow", mode: plan ? mode : "" }, plan ? "The plan is approved" : "Allowed")}>${plan ? "Approve the plan" : "Allow once"}</button>
      ${question.always && html`<button type="button" class="btn btn-sm sw-plain" disabled=${busy} onClick=${() => decide({ answer: "allow", always: true }, `Allowed, and from now on ${plain(question.always)}`)}>Always allow <code>${plain(question.always)}</code></button>`}
      <button type="button" class="btn btn-sm sw-no" disabled=${busy} onClick=${() => decide({ answer: "deny" }, plan ? "The plan is sent back" : "Denied")}>${plan ? "Send it back" : "Deny"}</button>
    </div>
  </form>`;
}

// -- words ---------------------------------------------------------------------------------------------------

function Words({ question, busy, answer }) {
  const [text, set] = useDraft(`answer ${question.id}`);
  const send = (words) => answer({ answer: words }, "Answered").then((found) => found && set(""));
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) send(text);
  };
  return html`<form class="answer" onSubmit=${submit}>
    ${
      question.options?.length > 0 &&
      html`<div class="options" role="group" aria-label="Offered answers">
      ${question.options.map((option) => html`<button type="button" key=${option} class="btn btn-sm sw-plain option" disabled=${busy} onClick=${() => send(option)}>${reveal(option)}</button>`)}</div>`
    }
    <label class="field field-wide">In your own words<textarea class="form-control form-control-sm" rows="2" value=${text} onInput=${(event) => set(event.target.value)} onKeyDown=${(event) => sendOnEnter(event, submit)}></textarea></label>
    <div class="buttons"><button type="submit" class="btn btn-sm sw-yes" disabled=${busy || !text.trim()}>Answer</button></div>
  </form>`;
}

/** Control or command and Enter sends; Enter alone makes a line. */
export function sendOnEnter(event, submit) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
}
