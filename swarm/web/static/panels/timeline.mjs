// Times of each agent in the queue, at work and waiting, one lane for each.
import { duration, elapsed } from "../format.mjs";
import { html, useMemo, useState } from "../html.mjs";
import { line } from "../plain.mjs";
import { useTick } from "../ui.mjs";
import { serverNow } from "../world.mjs";
import { marks, moveOn, timeIn } from "./timeline_fold.mjs";

const WORDS = { queued: "in the queue", running: "at work", parked: "waiting" };
const SHOWN = 200; // lanes drawn at once

export default function Timeline({ data, events, job, agents, open }) {
  useTick();
  const [most, setMost] = useState(SHOWN);
  const lanes = useMemo(() => moveOn(data.lanes, events), [data, events.length]);
  const now = job.ended_at ?? serverNow();
  const from = data.from;
  const length = Math.max(0.1, now - from);
  if (!lanes.length) return html`<p class="empty">Nothing has happened yet.</p>`;
  return html`<div class="timeline">
    <p class="legend">${Object.entries(WORDS).map(([state, word]) => html`<span key=${state}><span class=${`swatch t-${state}`} aria-hidden="true"></span>${word}</span>`)}</p>
    ${data.cut && html`<p class="notice notice-warn">The beginning of this job is no longer kept.</p>`}
    <div class="axis" aria-hidden="true"><span></span><div class="axis-line">${marks(length, matchMedia("(min-width: 60rem)").matches ? 8 : 3).map((mark) => html`<span key=${mark} ref=${(node) => node && (node.style.left = `${(100 * mark) / length}%`)}>${mark < 10 && mark % 1 ? `${mark.toFixed(1)} s` : elapsed(mark)}</span>`)}</div><span class="lane-figures">queued</span></div>
    <ul class="lanes">${lanes.slice(0, most).map((lane) => html`<${Lane} key=${lane.id} lane=${lane} agent=${agents.get(lane.id)} from=${from} length=${length} now=${now} open=${open} />`)}</ul>
    ${lanes.length > most && html`<button type="button" class="more" onClick=${() => setMost(most + SHOWN)}>${lanes.length - most} more agents</button>`}
  </div>`;
}

function Lane({ lane, agent, from, length, now, open }) {
  const queued = timeIn(lane, "queued", now);
  const told = Object.entries(WORDS)
    .map(([state, word]) => [timeIn(lane, state, now), word])
    .filter(([seconds]) => seconds > 0)
    .map(([seconds, word]) => `${duration(seconds)} ${word}`)
    .join(", ");
  const name = agent ? line(agent.name ? `${agent.name} · ${agent.label}` : agent.label, 80) : lane.id;
  return html`<li class="lane">
    <button type="button" class="lane-name" onClick=${() => open({ agent: lane.id })} title=${name} ref=${(node) => node?.style.setProperty("--level", Math.min(agent?.depth ?? 0, 6))}>${name}</button>
    <div class="lane-spans" role="img" aria-label=${`${name}: ${told || "nothing yet"}`}>${lane.spans.map(
      (
        [state, begin, end],
        at,
      ) => html`<span key=${at} class=${`span t-${state}`} title=${`${WORDS[state] ?? state}, ${duration((end ?? now) - begin)}`}
      ref=${(node) => node && place(node, begin - from, (end ?? now) - begin, length)}></span>`,
    )}</div>
    <span class="lane-figures">${duration(queued)}</span></li>`;
}

function place(node, begin, seconds, length) {
  node.style.left = `${(100 * Math.max(0, begin)) / length}%`;
  node.style.width = `${(100 * Math.max(0, seconds)) / length}%`;
}
