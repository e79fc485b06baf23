// The tree of a job's agents: one row each, in the order of creation. Beyond 200 rows, the document has only visible
// ones; `aria-setsize` and `aria-posinset` give their positions. One row has the focus; keys move it as in any tree.
import { aside, cacheShare, cost, count, duration, elapsed, isOver, number, queueDelay, spent, stateInWords, tokens } from "./format.mjs";
import { html, memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.mjs";
import { line } from "./plain.mjs";
import { currentRoute, go } from "./route.mjs";
import { listRows, stepTo, typeAhead } from "./tree.mjs";
import { State, useTick } from "./ui.mjs";
import { serverNow } from "./world.mjs";

const WHOLE = 200; // up to so many rows, all are in the document
const SPARE = 12; // rows above and below the visible ones
const TYPING = 1000; // most milliseconds between letters that belong together
const QUEUE_TOLD = 1; // least seconds in the queue that a row shows

/** An agent's text in a row. */
export const rowText = (agent) => line(agent.name ? `${agent.name} · ${agent.label}` : agent.label || agent.definition || agent.id, 160);

/** An agent's text in a row, with the definition pale because many agents share it. */
function rowTitle(agent) {
  const [text, kind] = [rowText(agent), `${agent.definition}: `];
  const at = text.indexOf(kind);
  return at < 0 ? text : html`${text.slice(0, at)}<span class="row-kind">${kind}</span>${text.slice(at + kind.length)}`;
}

/** Texts that find an agent: its name, its label, and the label without the definition. */
const callsOf = (agent) => [agent.name ?? "", agent.label, agent.label.slice(agent.label.indexOf(": ") + 2)];

export function TreeView({ tree, route, folded, fold }) {
  useTick();
  const hide = route.query.hide === "over";
  const rows = useMemo(() => listRows(tree, folded, hide ? (agent) => !isOver(agent.state) : null), [tree, folded, hide]);
  const [at, setAt] = useState(null);
  const active = Math.max(
    0,
    rows.findIndex((row) => row.id === (at ?? route.agent)),
  );
  const box = useRef();
  const view = useWindow(box, rows.length);
  const typed = useRef({ text: "", time: 0 });
  useEffect(() => setAt(null), [route.agent]);
  const place = rows.findIndex((row) => row.id === route.agent);
  useLayoutEffect(() => view.show(place), [route.agent, view.height, place < 0]);

  const focus = (index) => {
    setAt(rows[index].id);
    view.show(index);
    requestAnimationFrame(() => box.current?.querySelector('[tabindex="0"]')?.focus({ preventScroll: true }));
  };
  const key = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = stepTo(event.key, rows, active);
    if (step) {
      event.preventDefault();
      if (step.index !== undefined) focus(step.index);
      else fold(step.fold ?? step.unfold, Boolean(step.fold));
    } else if (event.key === "Enter" || (event.key === " " && Date.now() - typed.current.time > TYPING)) {
      event.preventDefault();
      if (rows[active]) pick(rows[active].id);
    } else if (event.key.length === 1 && !"?.".includes(event.key)) {
      event.preventDefault();
      const now = Date.now();
      const text = (now - typed.current.time < TYPING ? typed.current.text : "") + event.key.toLowerCase();
      typed.current = { text, time: now };
      const found = typeAhead(text, rows, active, callsOf);
      if (found >= 0) focus(found);
    }
  };
  const [from, to] = rows.length > WHOLE ? view.range : [0, rows.length];
  const reachable = active >= from && active < to ? active : Math.min(from + SPARE, to - 1); // with the tab key, at any scroll position
  const now = serverNow();
  return html`<div class="tree-scroll" ref=${box} onScroll=${view.scroll}>
    <div role="tree" aria-label="agents" class="tree" onKeyDown=${key} ref=${(node) => node && pad(node, from, rows.length - to, view.height)}>
      ${rows.slice(from, to).map(
        (row, place) => html`<${Row} key=${row.id} row=${row} since=${since(row.agent, now)} delay=${told(row.agent, now)}
        chosen=${row.id === route.agent} active=${from + place === reachable} fold=${fold} />`,
      )}
    </div>
  </div>`;
}

function pad(node, above, below, height) {
  node.style.paddingTop = `${above * height}px`;
  node.style.paddingBottom = `${below * height}px`;
}

function pick(id) {
  const { job, query } = currentRoute();
  go({ job, agent: id, query: { ...query, panel: undefined, tab: undefined } });
}

const since = (agent, now) => (agent.state === "running" && agent.active_at ? elapsed(now - agent.active_at) : "");
const told = (agent, now) => {
  const delay = queueDelay(agent, now);
  return agent.state === "queued" ? elapsed(delay) : delay >= QUEUE_TOLD ? duration(delay) : "";
};

// -- a row ---------------------------------------------------------------------------------------------------

const sameSums = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

function sameRow(before, after) {
  const [old, now] = [before.row, after.row];
  return (
    ["since", "delay", "chosen", "active", "fold"].every((name) => before[name] === after[name]) &&
    ["agent", "level", "position", "siblings", "open"].every((name) => old[name] === now[name]) &&
    sameSums(old.sums, now.sums)
  );
}

const Row = memo(({ row, since, delay, chosen, active, fold }) => {
  const { agent, sums } = row;
  const below = sums.agents - 1;
  const doing = waitsBelow(agent, sums) ? `for ${number(sums.alive - 1, "agent")} below` : aside(agent);
  const total = below ? `${cost(sums.cost, sums.unpriced)} with all below, ${cost(spent(agent), agent.unpriced_tokens)} of its own` : `${cost(spent(agent), agent.unpriced_tokens)}`;
  return html`<div role="treeitem" class="row" id=${`row-${agent.id}`} aria-level=${row.level} aria-posinset=${row.position} aria-setsize=${row.siblings}
      aria-selected=${String(chosen)} aria-expanded=${row.open === null ? undefined : String(row.open)} tabindex=${active ? 0 : -1}
      ref=${(node) => node?.style.setProperty("--level", Math.min(row.level - 1, 8))} onClick=${() => pick(agent.id)}>
    <span class="twist" aria-hidden="true" onClick=${(event) => twist(event, row, fold)}>${row.open === null ? "" : row.open ? "▾" : "▸"}</span>
    <span class="row-top"><span class="row-title">${rowTitle(agent)}</span>${agent.phase ? html`<span class="tag" title="phase of the workflow">${line(agent.phase, 40)}</span>` : null}<${Bubbles} row=${row} />
      <span class="row-cost" title=${total}>${cost(sums.cost, sums.unpriced)}<span class="visually-hidden">${below ? " with all below" : ""}</span></span></span>
    <span class="row-sub"><${State} agent=${agent} /> ${doing ? html`<span class="row-aside">${line(doing, 160)}</span>` : null}${since ? html`<span class="row-since">${since}</span>` : null}
      <span class="row-figures">${delay ? html`<span class=${`row-delay ${agent.state === "queued" ? "" : "row-delay-past"}`} title="time in the queue">${agent.state === "queued" ? "" : "queued "}${delay}</span>` : null}
        <span title="turns">${number(agent.turns, "turn")}</span><span title="tokens of its own">${count(tokens(agent))} tok</span><span class="row-cache" title="share of its input that came from the prompt cache">${cacheShare(agent) && `${cacheShare(agent)} cached`}</span></span></span>
  </div>`;
}, sameRow);

/** Whether the agent is parked until its children end, and does nothing else. */
const waitsBelow = (agent, sums) => stateInWords(agent) === "waiting" && sums.alive > 1 && !agent.summary && /^(Agent\b|$)/.test(agent.activity ?? "");

function twist(event, row, fold) {
  if (row.open === null) return;
  event.stopPropagation();
  fold(row.id, row.open);
}

/** Events of the row's agent and, if it is folded, of the agents below it. */
function Bubbles({ row }) {
  const { agent, sums, open } = row;
  const own = {
    asking: agent.question && stateInWords(agent) === "asks" ? 1 : 0,
    failed: ["failed", "timed_out"].includes(agent.state) ? 1 : 0,
  };
  const asking = sums.asking - Math.min(own.asking, sums.asking);
  const failed = sums.failed - own.failed;
  return html`<span class="bubbles">
    ${asking > 0 && html`<span class="bubble b-asks">${asking} ${asking === 1 ? "asks" : "ask"} below</span>`}
    ${failed > 0 && html`<span class="bubble b-failed">${failed} failed below</span>`}
    ${open === false && html`<span class="bubble">${sums.agents - 1} below${sums.running ? `, ${sums.running} running` : ""}</span>`}
    ${agent.unread > 0 && html`<span class="bubble">${agent.unread} unread</span>`}
    ${agent.deaths > 0 && html`<span class="bubble b-failed">${number(agent.deaths, "worker")} died</span>`}
  </span>`;
}

// -- the part in sight ---------------------------------------------------------------------------------------------

function useWindow(box, length) {
  const [sight, set] = useState({ top: 0, room: 24, height: 48 });
  const measure = () => {
    const node = box.current;
    if (!node) return;
    const height = node.querySelector(".row")?.getBoundingClientRect().height || sight.height;
    const top = Math.floor(node.scrollTop / height);
    const room = Math.ceil(node.clientHeight / height);
    if (top !== sight.top || room !== sight.room || height !== sight.height) set({ top, room, height });
  };
  useLayoutEffect(() => {
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [length > 0, sight]);
  const show = (index) => {
    const node = box.current;
    if (!node || index < 0) return;
    const [top, bottom] = [index * sight.height, (index + 1) * sight.height];
    if (top < node.scrollTop) node.scrollTop = top;
    else if (bottom > node.scrollTop + node.clientHeight) node.scrollTop = bottom - node.clientHeight;
    measure();
  };
  const first = Math.max(0, Math.min(sight.top, length) - SPARE);
  return { range: [first, Math.min(length, sight.top + sight.room + SPARE)], height: sight.height, scroll: measure, show };
}
