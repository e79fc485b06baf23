// Messages: sender, text and whether it was read; the content of the runtime's notices; and an agent's whole mailbox.
import { clock } from "./format.mjs";
import { html } from "./html.mjs";
import { Markdown } from "./markdown.mjs";
import { line, plain, reveal } from "./plain.mjs";
import { Effect } from "./steer.mjs";
import { Empty, Link } from "./ui.mjs";
import { serverNow } from "./world.mjs";

export function Mail({ agent, job }) {
  if (!agent.mail.length) return html`<${Empty}>This agent has no messages.<//>`;
  return html`<ol class="letters" aria-label="mail">${agent.mail.map(
    (message) => html`<li key=${message.id} class="outgoing">
    <${Outgoing} message=${message} job=${job.id}><${Effect} message=${message} /><//></li>`,
  )}</ol>`;
}

/** One message; `job` is the id for links, the children follow the heading. */
export function Outgoing({ message, job, children }) {
  return html`<p class="letter-head"><${Sender} message=${message} job=${job} /> <span class="aside">${sort(message)} ${clock(message.sent_at, serverNow())}</span>${children}</p>
    ${message.notice ? html`<${Notice} notice=${message.notice} />` : html`<${Markdown} text=${message.body} />`}`;
}

const sort = ({ kind, notice }) => (notice ? told(notice) : kind === "message" ? "" : kind.replaceAll("_", " "));

/** Notices of the board, by kind. */
const TASKS = { offer: "a task is open to it", given: "a task is given to it" };

function told({ what, state, task, subject }) {
  const about = TASKS[what];
  if (about) return `${about}: ${line(`#${task} ${subject}`, 200)}`;
  return what === "ended"
    ? `has ${state === "timed_out" ? "timed out" : plain(state ?? "ended")}`
    : what === "idle"
      ? "is idle"
      : line(what, 80);
}

/** A notice of the runtime: the words of the agent it is about. */
function Notice({ notice }) {
  return html`${notice.reason && html`<p class="bad">${reveal(notice.reason)}</p>`}${notice.text && html`<${Markdown} text=${notice.text} />`}
    ${!notice.text && !notice.reason && !TASKS[notice.what] && html`<pre class="output">${reveal(JSON.stringify(notice, null, 1))}</pre>`}`;
}

/** The sender, as a link if it is an agent. */
function Sender({ message, job }) {
  const name = line(message.sender_name || message.notice?.name || message.sender, 60);
  return message.sender?.startsWith("agent-") ? html`<${Link} to=${{ job, agent: message.sender }}>${name}<//>` : html`<b>${name}</b>`;
}
