// A tool call and its result in one foldable line: name, subject, success, duration.
import { get } from "./api.mjs";
import { duration } from "./format.mjs";
import { html, useState } from "./html.mjs";
import { Markdown } from "./markdown.mjs";
import { line, plain, reveal } from "./plain.mjs";
import { Failure, Link, useAct } from "./ui.mjs";

const OPENED = 3; // lines of a result shown without unfolding
const LOOKS = { good: "call-done", bad: "call-failed" };
const INSIDE = new Set(["result", "answer"]);
const BELOW = new Set(["ruling", "hooks"]);

/** `call`: the part of a reply; `fate`: its outcome (outcome, level, agent, items); `job` for links. */
export function Call({ call, fate, job, agents, agentId }) {
  const result = fate.items.find((item) => item.kind === "result");
  const kid = agents.get(fate.agent);
  const took = result?.seconds >= 0.1 ? ` · ${duration(result.seconds)}` : "";
  return html`<details class=${`call ${LOOKS[fate.level] ?? "call-open"}`} open=${call.diff && fate.level === "good" ? true : undefined}>
    <summary><span class="call-name">${plain(call.name)}</span> <span class="call-about">${line(call.about, 160)}</span> <span class="call-fate">${fate.outcome}${took}</span></summary>
    ${call.diff ? html`<${Diff} lines=${call.diff} />` : null}
    <${Input} input=${call.input} open=${!call.diff} without=${call.diff ? ["old_string", "new_string", "content", "edits"] : []} />
    ${fate.items.filter(({ kind }) => INSIDE.has(kind)).map((item) => html`<${Come} key=${item.n} item=${item} agentId=${agentId} />`)}
  </details>
  ${fate.items.filter(({ kind }) => BELOW.has(kind)).map((item) => html`<${Come} key=${item.n} item=${item} agentId=${agentId} />`)}
  ${fate.agent && html`<p class="child-link">→ <${Link} to=${{ job, agent: fate.agent }}>${kid ? line(kid.label, 120) : fate.agent}<//>${kid ? html` <span class="aside">${kid.state.replace("_", " ")}</span>` : ""}</p>`}`;
}

/** A call's result or answer. */
function Come({ item, agentId }) {
  return html`<div class=${`result ${item.kind === "result" && item.level === "bad" ? "result-bad" : ""}`}>
    ${item.kind !== "result" && html`<p class=${item.level === "quiet" ? "aside" : "call-answer"}>${line(item.title, 300)}</p>`}
    ${(item.parts ?? []).map((part, at) => (part.text ? html`<${Passage} key=${at} item=${item} at=${at} agentId=${agentId} />` : html`<p class="aside">no output</p>`))}
  </div>`;
}

/** One text of an item, by its form. */
export function Passage({ item, at, job, agentId }) {
  const { text, title, form, detail, agent } = item.parts[at];
  const path = `parts.${at}.text`;
  const shown =
    form === "plain" || item.cut?.[path] ? html`<${Output} entry=${item} path=${path} agentId=${agentId} />` : html`<${Markdown} text=${text} />`;
  if (item.kind === "mail")
    return html`<div class="outgoing"><p class="letter-head">${agent ? html`<${Link} to=${{ job, agent }}>${line(title, 300)}<//>` : html`<b>${line(title, 300)}</b>`}</p>${shown}</div>`;
  return title ? html`<details class=${form === "thought" ? "thinking" : "rest"} open=${!detail && form !== "thought"}><summary>${plain(title)}</summary>${shown}</details>` : shown;
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

/** Text of an entry: a few lines first, then all loaded text, then, if it was cut, the whole text. */
function Output({ entry, path, agentId }) {
  const [whole, setWhole] = useState(null);
  const [long, setLong] = useState(false);
  const act = useAct();
  const given = whole ?? readPath(entry, path);
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
    ${missing && shown.length === given.length ? html`<button type="button" class="more" disabled=${act.busy} onClick=${fetchWhole}>Show all ${missing.toLocaleString()} characters</button>` : null}
    ${act.error && html`<${Failure} error=${act.error} />`}`;
}

const readPath = (entry, path) => path.split(".").reduce((value, name) => value?.[name], entry) ?? "";

const SIGNS = { "+": ["diff-new", "added"], "-": ["diff-old", "removed"], "=": ["diff-same", ""], "@": ["diff-gap", ""] };

/** An edit, line by line. */
export function Diff({ lines }) {
  return html`<div class="diff" role="group" aria-label="edit" tabindex="0">${lines.map(([sign, text]) => {
    const [look, word] = SIGNS[sign] ?? SIGNS["="];
    return html`<div class=${look}><span class="diff-sign" aria-hidden="true">${sign === "=" ? " " : sign}</span>${word && html`<span class="visually-hidden">${word}: </span>`}<span class="diff-text">${reveal(text)}</span></div>`;
  })}</div>`;
}
