// An agent's journal as a conversation. What comes while one is at the end keeps the end in sight; who has scrolled up stays there.
import { cost, clock, count, duration, number } from "./format.mjs";
import { Call, Output, RULED } from "./call.mjs";
import { html, memo, useEffect, useLayoutEffect, useRef, useState } from "./html.mjs";
import { Letter } from "./mail.mjs";
import { Markdown } from "./markdown.mjs";
import { line, plain, reveal } from "./plain.mjs";
import { waitsFor } from "./transcript_fold.mjs";
import { Failure, Link, useAct } from "./ui.mjs";
import { isAtEnd, serverNow, turnPage } from "./world.mjs";

const NEAR = 60; // pixels from the end that count as being there

/** `agent`: what the world knows of it; `folded`: its items and fates; `entry`: the one the address names. */
export function Transcript({ agent, folded, agents, job, entry }) {
  const box = useRef();
  const follows = useRef(!entry);
  const [away, setAway] = useState(Boolean(entry));
  const act = useAct();
  const scroll = () => {
    const node = box.current;
    follows.current = node.scrollHeight - node.scrollTop - node.clientHeight < NEAR;
    setAway(!follows.current);
  };
  const last = agent.entries.at(-1)?.n;
  useLayoutEffect(() => {
    if (follows.current && isAtEnd(agent)) box.current.scrollTop = box.current.scrollHeight;
  }, [last, agent.words]);
  useEffect(() => {
    if (entry) document.getElementById(`entry-${entry}`)?.scrollIntoView({ block: "start" });
  }, [entry, agent.first]);
  const turn = (where) =>
    act.run(
      () => turnPage(where),
      () => "",
    );
  const toEnd = async () => {
    if (!isAtEnd(agent)) await turn("end");
    follows.current = true;
    requestAnimationFrame(() => box.current && (box.current.scrollTop = box.current.scrollHeight));
  };
  return html`<div class="transcript-scroll" ref=${box} onScroll=${scroll}>
    <div class="transcript" role="log" aria-label="transcript" aria-live="off" aria-busy=${String(act.busy)}>
      ${agent.first > 1 && html`<button type="button" class="more" disabled=${act.busy} onClick=${() => turn("before")}>Show what was before (${agent.first - 1} entries)</button>`}
      ${folded.items.map((item) => html`<${Item} key=${item.n} item=${item} fates=${fatesOf(item, folded.fates)} kids=${kidsOf(item, folded.fates, agents)} job=${job} agentId=${agent.id} chosen=${item.n === entry} repeats=${folded.repeats.has(item.n)} />`)}
      ${!isAtEnd(agent) && html`<button type="button" class="more" disabled=${act.busy} onClick=${() => turn("after")}>Show what came after (${agent.length - agent.last} entries)</button>`}
      ${isAtEnd(agent) && agent.words && html`<${Words} words=${agent.words} />`}
      ${act.error && html`<${Failure} error=${act.error} />`}
    </div>
  </div>
  ${away && html`<button type="button" class="to-end" onClick=${toEnd}>To the newest ↓</button>`}`;
}

const callsOf = (item) =>
  item.kind === "assistant" ? item.content.filter((block) => block.type === "tool_use").map((block) => block.id) : [];
const fatesOf = (item, fates) => callsOf(item).map((id) => fates.get(id));
const kidsOf = (item, fates, agents) => fatesOf(item, fates).map((fate) => agents.get(fate?.child));

function sameItem(before, after) {
  const parts = (fates) =>
    fates.flatMap((fate) => [fate?.started, fate?.finished, fate?.answered, fate?.ruled, fate?.refused, fate?.parked, fate?.child, fate?.background]);
  const same = (one, other) => one.length === other.length && one.every((each, at) => each === other[at]);
  const looks = (kids) => kids.map((kid) => kid && kid.state + kid.label);
  return (
    before.item === after.item &&
    before.chosen === after.chosen &&
    same(parts(before.fates), parts(after.fates)) &&
    same(looks(before.kids), looks(after.kids))
  );
}

const Item = memo(({ item, fates, kids, job, agentId, chosen, repeats }) => {
  const Kind = KINDS[item.kind] ?? Other;
  return html`<article class=${`item item-${KINDS[item.kind] ? item.kind : "other"} ${chosen ? "chosen" : ""}`} id=${`entry-${item.n}`} aria-label=${`entry ${item.n}`}>
    <${Kind} item=${item} fates=${fates} agents=${new Map(kids.filter(Boolean).map((kid) => [kid.id, kid]))} job=${job} agentId=${agentId} repeats=${repeats} />
  </article>`;
}, sameItem);

function Title({ item, what, children }) {
  return html`<header class="item-head"><span class="item-what">${what}</span>${children}<span class="item-at">${clock(item.at, serverNow())}</span></header>`;
}

function Started({ item }) {
  return html`<${Title} item=${item} what="began"><span class="aside">${plain(item.definition)} · ${plain(item.model)} · mode ${plain(item.mode)} · depth ${item.depth} of ${item.max_depth}</span><//>
    <details class="rest"><summary>${number(item.tools?.length ?? 0, "tool")} and the system prompt</summary><p class="tools">${(item.tools ?? []).map((name) => html`<code>${plain(name)}</code> `)}</p>
    ${item.system ? html`<${Output} entry=${item} path="system" agentId=${null} />` : null}
    ${item.guidance ? html`<p class="aside">Instruction files</p><${Output} entry=${item} path="guidance" agentId=${null} />` : null}</details>`;
}

const PURPOSES = {
  task: "task",
  continue: "goes on",
  warning: "warning of the runtime",
  last_words: "asked for its last words",
  schema: "the answer was sent back",
};

function Prompt({ item, agentId }) {
  return html`<${Title} item=${item} what=${PURPOSES[item.purpose] ?? item.purpose}>${item.limit && html`<span class="aside">limit of ${item.limit}</span>`}<//>
    ${item.cut ? html`<${Output} entry=${item} path="text" agentId=${agentId} />` : html`<${Markdown} text=${item.text} />`}`;
}

function Assistant({ item, fates, agents, job, agentId }) {
  const usage = item.usage ?? {};
  const input = (usage.input_tokens ?? 0) + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
  const figures = `${count(input)} in, ${count(usage.output_tokens ?? 0)} out${input ? `, ${Math.round((100 * (usage.cache_read_input_tokens ?? 0)) / input)}% cached` : ""}, ${cost(item.cost_usd)}, ${duration(item.duration_seconds ?? 0)}`;
  let call = 0;
  return html`<${Title} item=${item} what=${`turn ${item.turn}`}><span class="aside" title=${`stopped: ${item.stop_reason}, ${item.model}`}>${item.model === "program" ? "of a program" : figures}</span><//>
    ${item.content.map((block, at) =>
      block.type === "tool_use"
        ? html`<${Call} key=${block.id} call=${block} fate=${fates[call++]} agents=${agents} job=${job} agentId=${agentId} />`
        : html`<${Block} key=${at} block=${block} cut=${item.cut?.[`content.${at}.text`]} entry=${item} path=${`content.${at}.text`} agentId=${agentId} />`,
    )}`;
}

function Block({ block, cut, entry, path, agentId }) {
  if (block.type === "text")
    return cut
      ? html`<${Output} entry=${entry} path=${path} text=${block.text} agentId=${agentId} />`
      : html`<${Markdown} text=${block.text} />`;
  if (block.type === "thinking")
    return html`<details class="thinking"><summary>thinking</summary><${Markdown} text=${block.thinking} /></details>`;
  return html`<p class="aside">${plain(block.type)}</p>`;
}

function ModelFailed({ item }) {
  return html`<${Title} item=${item} what="the model failed"><span class="aside">${plain(item.error_kind)}</span><//>
    <p class="bad">${reveal(item.error)}</p>${item.retry_at > item.at && html`<p class="aside">tries again after ${duration(item.retry_at - item.at)}</p>`}`;
}

function Mail({ item, job }) {
  return html`<${Title} item=${item} what="mail"><span class="aside">read in turn ${item.turn}</span><//>
    ${(item.messages ?? []).map((message) => html`<div key=${message.id} class="letter"><${Letter} message=${message} job=${job} /></div>`)}
    ${item.messages?.length ? null : html`<pre class="output">${reveal(item.text)}</pre>`}`;
}

function Compacted({ item, agentId }) {
  const how = `${item.trigger}, ${count(item.tokens_before ?? 0)} tokens before${item.model ? `, by ${plain(item.model)}` : ""}`;
  return html`<${Title} item=${item} what="✂ cut"><span class="aside">${how}</span><//>
    <p class="aside">The model no longer sees what stands above${item.kept ? ", but for the last turn," : ""} but a summary of it.</p>
    ${item.summary ? (item.cut?.summary ? html`<${Output} entry=${item} path="summary" text=${item.summary} agentId=${agentId} />` : html`<${Markdown} text=${item.summary} />`) : html`<p class="bad">No summary could be made: it goes on from records alone.</p>`}
    <details class="rest"><summary>what it was told again, from records</summary><pre class="output">${reveal(item.state)}</pre></details>`;
}

function CompactionFailed({ item }) {
  return html`<${Title} item=${item} what="no summary came about"><span class="aside">${plain(item.error_kind)}</span><//><p class="bad">${reveal(item.error)}</p>`;
}

const Parked = ({ item }) =>
  html`<p class="thin">waits for ${waitsFor(item.condition)} <span class="item-at">${clock(item.at, serverNow())}</span></p>`;
const Resumed = ({ item }) => html`<p class="thin">goes on after its end <span class="item-at">${clock(item.at, serverNow())}</span></p>`;

const Replayed = ({ item }) => html`<p class="thin">goes on from here: what comes before is another job's past <span class="item-at">${clock(item.at, serverNow())}</span></p>`;

function Finished({ item, agentId, repeats }) {
  const good = item.state === "completed";
  return html`<${Title} item=${item} what=${item.state.replace("_", " ")}>${item.reason && html`<span class="aside">${line(item.reason, 300)}</span>`}<//>
    ${item.text && !repeats && (item.cut ? html`<${Output} entry=${item} path="text" agentId=${agentId} />` : html`<div class=${good ? "" : "bad-end"}><${Markdown} text=${item.text} /></div>`)}
    ${item.data !== null && item.data !== undefined && html`<details class="rest"><summary>as data</summary><pre class="output">${reveal(JSON.stringify(item.data, null, 2))}</pre></details>`}`;
}

const Grading = ({ item, job }) =>
  html`<p class="thin"><span>attempt ${item.attempt} is judged by <${Link} to=${{ job, agent: item.grader }}>a grader<//></span> <span class="item-at">${clock(item.at, serverNow())}</span></p>`;

function Verdict({ item, agentId }) {
  const what = `${item.by} of attempt ${item.attempt} ${item.passed ? "passed" : item.void ? "could not be had" : "refused"}`;
  return html`<${Title} item=${item} what=${what}>${item.duration_seconds ? html`<span class="aside">${duration(item.duration_seconds)}</span>` : null}<//>
    <p class=${item.passed ? "" : "bad"}>${reveal(item.summary)}</p>
    ${item.report && html`<details class="rest" open=${!item.passed}><summary>${item.by === "check" ? "its output" : "its findings"}</summary><${Output} entry=${item} path="report" text=${item.report} agentId=${agentId} /></details>`}`;
}

const HooksBegun = ({ item }) => html`<p class="thin">hooks run: ${plain(item.event)} <span class="item-at">${clock(item.at, serverNow())}</span></p>`;

const HEARD = { deny: "denied", block: "sent back", ask: "wants a person asked", allow: "allowed" };

function Hooked({ item, agentId }) {
  const wrong = (item.runs ?? []).filter((run) => run.why);
  const told = [HEARD[item.decision], item.input && "changed what the call is given", item.output !== null && "changed what it returned", item.stop].filter(Boolean);
  if (!told.length && !wrong.length && !item.text && !item.said)
    return html`<p class="thin">hooks on ${plain(item.name)} ran <span class="item-at">${clock(item.at, serverNow())}</span></p>`;
  return html`<${Title} item=${item} what=${`hook on ${plain(item.name)}`}><span class="aside">${line(told.join(", "), 200)}</span><//>
    ${item.reason && html`<p class=${item.decision === "deny" || item.decision === "block" ? "bad" : ""}>${reveal(item.reason)}</p>`}
    ${item.said && html`<p>${reveal(item.said)}</p>`}
    ${item.input && html`<pre class="output">${reveal(JSON.stringify(item.input, null, 2))}</pre>`}
    ${item.text && item.decision !== "block" && html`<${Output} entry=${item} path="text" text=${item.text} agentId=${agentId} />`}
    ${wrong.map((run) => html`<p key=${run.id} class="bad">${line(`${run.label} (${run.source}): ${run.why}`, 300)}</p>`)}`;
}

const Ruled = ({ item }) =>
  html`<p class="thin">an earlier call is ${RULED[item.answer]} by a small model: ${line(item.reason, 300)} <span class="item-at">${clock(item.at, serverNow())}</span></p>`;

function Exchanged({ item, agentId }) {
  const what = item.to ? `sent to ${plain(item.to)}` : "read by the program";
  return html`<${Title} item=${item} what=${what} /><${Output} entry=${item} path="text" text=${item.text} agentId=${agentId} />`;
}

function Stray({ item, agentId }) {
  const what = {
    tool_finished: "result of an earlier call",
    tool_started: "an earlier call begins",
    answered: `${item.allowed ? "allowed" : "denied"}${item.by ? ` by ${plain(item.by)}` : ""}`,
  }[item.kind];
  return html`<${Title} item=${item} what=${what}>${item.reason && html`<span class="aside">${line(item.reason, 200)}</span>`}<//>${item.text && html`<${Output} entry=${item} path="text" agentId=${agentId} />`}`;
}

function Other({ item }) {
  return html`<${Title} item=${item} what=${plain(item.kind)} /><details class="rest"><summary>its data</summary><pre class="output">${reveal(JSON.stringify(item, null, 2))}</pre></details>`;
}

const KINDS = {
  started: Started,
  prompt: Prompt,
  assistant: Assistant,
  model_failed: ModelFailed,
  mail: Mail,
  parked: Parked,
  compacted: Compacted,
  compaction_failed: CompactionFailed,
  grading: Grading,
  verdict: Verdict,
  hooked: Hooked,
  hooks_begun: HooksBegun,
  ruled: Ruled,
  exchanged: Exchanged,
  resumed: Resumed,
  redefined: Started,
  replayed: Replayed,
  finished: Finished,
  tool_finished: Stray,
  tool_started: Stray,
  answered: Stray,
};

/** The reply that is being written. */
function Words({ words }) {
  return html`<article class="item item-words" aria-label="being written"><header class="item-head"><span class="item-what">writes</span></header>
    ${words.blocks.filter(Boolean).map((block, at) => html`<${Writing} key=${at} block=${block} />`)}<span class="caret" aria-hidden="true"></span></article>`;
}

function Writing({ block }) {
  if (block.type === "tool")
    return html`<p class="writing-call"><span class="call-name">${plain(block.name)}</span> <code>${line(block.text.slice(-160), 160)}</code></p>`;
  if (block.type === "thinking")
    return html`<details class="thinking"><summary>thinking</summary><pre>${reveal(block.text)}</pre></details>`;
  return html`<${Markdown} text=${block.text} />`;
}
