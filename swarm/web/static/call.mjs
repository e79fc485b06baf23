// A tool call, and what came of it, in one foldable line: name, what it is about, whether it succeeded, how long it took.
import { get } from "./api.mjs";
import { duration } from "./format.mjs";
import { html, useState } from "./html.mjs";
import { line, plain, reveal } from "./plain.mjs";
import { Failure, Link, useAct } from "./ui.mjs";

const TELLING = ["command", "file_path", "pattern", "path", "query", "url", "description", "subject", "to", "page", "question", "prompt"];
const OPENED = 3; // lines of a result that are shown without unfolding

/** What a call is about, in a line. */
export function aboutCall(input) {
  if (typeof input !== "object" || input === null) return line(JSON.stringify(input), 160);
  const name = TELLING.find((each) => typeof input[each] === "string" && input[each]);
  return name
    ? line(input[name], 160)
    : line(
        Object.values(input)
          .filter((value) => typeof value === "string")
          .join(" "),
        160,
      );
}

/** `call`: the block; `fate`: what the journal says of it (started, finished, child, answered, parked); `job` for links. */
export function Call({ call, fate = {}, job, agents, agentId }) {
  const { finished, child, answered, ruled } = fate;
  const [outcome, look] = judge(fate);
  const kid = child && agents.get(child);
  return html`<details class=${`call ${look}`} open=${call.diff && finished && !finished.is_error ? true : undefined}>
    <summary><span class="call-name">${plain(call.name)}</span> <span class="call-about">${aboutCall(call.input)}</span> <span class="call-fate">${outcome}</span></summary>
    ${call.diff ? html`<${Diff} lines=${call.diff} />` : null}
    <${Input} input=${call.input} open=${!call.diff} without=${call.diff ? ["old_string", "new_string", "content", "edits"] : []} />
    ${answered && html`<p class="call-answer">${answered.allowed ? "Allowed" : "Denied"}${answered.by ? ` by ${plain(answered.by)}` : ""}${answered.reason ? html`: ${reveal(answered.reason)}` : ""}</p>`}
    ${finished && html`<${Result} finished=${finished} agentId=${agentId} />`}
  </details>
  ${ruled && html`<p class="child-link aside">${RULED[ruled.answer]} by a small model: ${line(ruled.reason, 300)}</p>`}
  ${child && html`<p class="child-link">→ <${Link} to=${{ job, agent: child }}>${kid ? line(kid.label, 120) : child}<//>${kid ? html` <span class="aside">${kid.state.replace("_", " ")}</span>` : ""}</p>`}`;
}

/** What a small model says of a call, in words. */
export const RULED = { allow: "allowed", deny: "denied", ask: "left to a person" };

function judge({ ruled, refused, finished, started, child, background, answered, parked }) {
  const took = finished?.duration_seconds >= 0.1 ? ` · ${duration(finished.duration_seconds)}` : "";
  if (finished?.denied || refused || ruled?.answer === "deny") return ["denied", "call-failed"];
  if (finished) return finished.is_error ? [`failed${took}`, "call-failed"] : [`done${took}`, "call-done"];
  if (background) return ["in the background", "call-open"];
  if (child) return ["at work", "call-open"];
  if (answered && !answered.allowed) return ["denied", "call-failed"];
  if (parked) return ["waits", "call-open"];
  return [started ? "running" : "to be done", "call-open"];
}

/** A call's parameters, each with its name. */
export function Input({ input, open, without = [] }) {
  const names =
    typeof input === "object" && input !== null && !Array.isArray(input)
      ? Object.keys(input).filter((name) => !without.includes(name))
      : null;
  if (names && !names.length) return null;
  if (!names) return html`<pre class="output">${reveal(JSON.stringify(input, null, 2))}</pre>`;
  const made = html`<dl class="input">${names.map((name) => html`<dt>${plain(name)}</dt><dd>${typeof input[name] === "string" ? html`<pre>${reveal(input[name])}</pre>` : html`<pre>${reveal(JSON.stringify(input[name], null, 2))}</pre>`}</dd>`)}</dl>`;
  return open
    ? made
    : html`<details class="rest"><summary>${names.length === 1 ? plain(names[0]) : `${names.length} parameters`}</summary>${made}</details>`;
}

function Result({ finished, agentId }) {
  const images = (finished.blocks ?? []).filter((block) => block.type === "image");
  return html`<div class=${`result ${finished.is_error ? "result-bad" : ""}`}>
    ${finished.text ? html`<${Output} entry=${finished} path="text" agentId=${agentId} />` : html`<p class="aside">no output</p>`}
    ${images.map((image) => html`<p class="aside">an image, ${plain(image.media_type)}, ${image.bytes} bytes</p>`)}
  </div>`;
}

/** Text of an entry: a few lines first, then all that came with the page, then, if it was cut, all there is. */
export function Output({ entry, path, agentId, text = entry[path] }) {
  const [whole, setWhole] = useState(null);
  const [long, setLong] = useState(false);
  const act = useAct();
  const given = whole ?? text;
  const lines = given.split("\n");
  const missing = whole === null && entry.cut?.[path];
  const shown = long || lines.length <= OPENED + 2 ? given : lines.slice(0, OPENED).join("\n");
  const fetchWhole = () =>
    act.run(
      () => get(`agents/${agentId}/entry/${entry.n}`),
      (found) => {
        setWhole(String(readPath(found.entry, path)));
        setLong(true);
        return `All ${missing} characters are shown`;
      },
    );
  return html`<pre class="output" tabindex="0">${reveal(shown)}</pre>
    ${
      shown.length < given.length
        ? html`<button type="button" class="more" onClick=${() => setLong(true)}>${lines.length - OPENED} more lines</button>`
        : long && html`<button type="button" class="more" onClick=${() => setLong(false)}>Show less</button>`
    }
    ${missing && shown.length === given.length ? html`<button type="button" class="more" disabled=${act.busy} onClick=${fetchWhole}>It goes on: show all ${missing.toLocaleString()} characters</button>` : null}
    ${act.error && html`<${Failure} error=${act.error} />`}`;
}

export const readPath = (entry, path) => path.split(".").reduce((value, name) => value?.[name], entry) ?? "";

const SIGNS = { "+": ["diff-new", "added"], "-": ["diff-old", "removed"], "=": ["diff-same", ""], "@": ["diff-gap", ""] };

/** An edit, line by line. */
export function Diff({ lines }) {
  return html`<div class="diff" role="group" aria-label="edit" tabindex="0">${lines.map(([sign, text]) => {
    const [look, word] = SIGNS[sign] ?? SIGNS["="];
    return html`<div class=${look}><span class="diff-sign" aria-hidden="true">${sign === "=" ? " " : sign}</span>${word && html`<span class="visually-hidden">${word}: </span>`}<span class="diff-text">${reveal(text)}</span></div>`;
  })}</div>`;
}
