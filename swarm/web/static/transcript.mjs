// An agent's journal as a conversation. A reader at the end stays at the end; a reader who has scrolled up stays there.
import { cost, clock, count, duration } from "./format.mjs";
import { Call, Passage } from "./call.mjs";
import { html, memo, useEffect, useLayoutEffect, useRef, useState } from "./html.mjs";
import { Markdown } from "./markdown.mjs";
import { line, plain, reveal } from "./plain.mjs";
import { Failure, Link, useAct } from "./ui.mjs";
import { isAtEnd, serverNow, turnPage } from "./world.mjs";

const NEAR = 60; // pixels from the end that count as being there

/** `agent`: its known state; `folded`: its items and calls; `entry`: the entry that the address names. */
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
      ${agent.first > 1 && html`<button type="button" class="more" disabled=${act.busy} onClick=${() => turn("before")}>Show earlier entries (${agent.first - 1})</button>`}
      ${folded.items.map((item) => html`<${Item} key=${item.n} item=${item} calls=${callsOf(item, folded.calls)} kids=${callsOf(item, folded.calls).map((call) => agents.get(call.agent))} job=${job} agentId=${agent.id} chosen=${item.n === entry} repeats=${folded.repeats.has(item.n)} />`)}
      ${!isAtEnd(agent) && html`<button type="button" class="more" disabled=${act.busy} onClick=${() => turn("after")}>Show later entries (${agent.length - agent.last})</button>`}
      ${isAtEnd(agent) && agent.words && html`<${Words} words=${agent.words} />`}
      ${act.error && html`<${Failure} error=${act.error} />`}
    </div>
  </div>
  ${away && html`<button type="button" class="to-end" onClick=${toEnd}>To the newest ↓</button>`}`;
}

const callsOf = (item, calls) => (item.parts ?? []).filter((part) => part.call).map((part) => calls.get(part.call));

function sameItem(before, after) {
  const parts = (given) => given.flatMap((call) => call.items);
  const same = (one, other) => one.length === other.length && one.every((each, at) => each === other[at]);
  const looks = (kids) => kids.map((kid) => kid && kid.state + kid.label);
  return (
    before.item === after.item &&
    before.chosen === after.chosen &&
    same(parts(before.calls), parts(after.calls)) &&
    same(looks(before.kids), looks(after.kids))
  );
}

const Item = memo(({ item, calls, kids, job, agentId, chosen, repeats }) => {
  const agents = new Map(kids.filter(Boolean).map((kid) => [kid.id, kid]));
  let call = 0;
  const part = (each, at) =>
    each.call
      ? html`<${Call} key=${each.call} call=${each} fate=${calls[call++]} agents=${agents} job=${job} agentId=${agentId} />`
      : !(repeats && !each.title) && html`<${Passage} key=${at} item=${item} at=${at} job=${job} agentId=${agentId} />`;
  return html`<article class=${`item item-${item.kind} ${item.level ? `level-${item.level}` : ""} ${chosen ? "chosen" : ""}`} id=${`entry-${item.n}`} aria-label=${`entry ${item.n}`}>
    <header class=${item.parts ? "item-head" : "thin"}><span class="item-what">${reveal(item.title)}${item.agent && html`: <${Link} to=${{ job, agent: item.agent }}>${item.agent}<//>`}</span>
      <span class="aside">${line(asideOf(item), 400)}</span><span class="item-at">${clock(item.at, serverNow())}</span></header>
    ${(item.parts ?? []).map(part)}
  </article>`;
}, sameItem);

/** The origin and the cost of an item. */
function asideOf({ aside, tokens, cost_usd: dollars, seconds, fates }) {
  const read = tokens?.read ?? 0;
  return [
    aside,
    fates && "of an earlier call",
    tokens && `${count(read)} in, ${count(tokens.written ?? 0)} out${read ? `, ${Math.round((100 * (tokens.cached ?? 0)) / read)}% cached` : ""}`,
    dollars !== undefined && cost(dollars),
    seconds && duration(seconds),
  ]
    .filter(Boolean)
    .join(", ");
}

/** The reply in progress. */
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
