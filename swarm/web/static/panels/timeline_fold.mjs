// Lanes of spans from the server's data and later events. Pure.

const STATES = {
  spawned: "queued",
  woken: "queued",
  handed_over: "queued",
  rescued: "queued",
  resumed: "queued",
  running: "running",
  parked: "parked",
};

/** `lanes`: `[{id, spans: [[state, from, to]]}]`, the last `to` null while it lasts. */
export function moveOn(lanes, events) {
  if (!events.length) return lanes;
  const byId = new Map(lanes.map((lane) => [lane.id, { ...lane, spans: [...lane.spans] }]));
  for (const event of events) {
    const state = STATES[event.kind];
    if (!state && event.kind !== "ended") continue;
    if (!byId.has(event.agent_id)) byId.set(event.agent_id, { id: event.agent_id, spans: [] });
    const { spans } = byId.get(event.agent_id);
    const last = spans.at(-1);
    if (last && (last[1] > event.at || (last[2] === null && last[0] === state))) continue; // known already
    if (last && last[2] === null) spans[spans.length - 1] = [last[0], last[1], event.at];
    if (state) spans.push([state, event.at, null]);
  }
  return [...byId.values()];
}

/** A lane's time in a state, in seconds. */
export function timeIn(lane, state, now) {
  return lane.spans.filter((span) => span[0] === state).reduce((sum, [, from, to]) => sum + Math.max(0, (to ?? now) - from), 0);
}

/** Round marks for an axis of `seconds`, about `most` of them. */
export function marks(seconds, most = 8) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];
  const step = steps.find((each) => seconds / each <= most) ?? Math.ceil(seconds / most / 86_400) * 86_400;
  return Array.from({ length: Math.floor(seconds / step) + 1 }, (_, place) => place * step);
}
