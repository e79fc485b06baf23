// Numbers, times and states in words. Pure.

export const STATES = {
  queued: { glyph: "○", word: "queued" },
  running: { glyph: "●", word: "running" },
  parked: { glyph: "◐", word: "waiting" },
  completed: { glyph: "✔", word: "completed" },
  failed: { glyph: "✘", word: "failed" },
  cancelled: { glyph: "⊘", word: "cancelled" },
  timed_out: { glyph: "◷", word: "timed out" },
};
const ENDED = new Set(["completed", "failed", "cancelled", "timed_out"]);
const WRONG = new Set(["failed", "timed_out"]);

export const isOver = (state) => ENDED.has(state);
export const hasFailed = (state) => WRONG.has(state);

/** An agent's state in words: its activity, or its condition. */
export function stateInWords(agent) {
  if (agent.question) return "asks";
  if (agent.state === "queued" && agent.unserved) return "no worker takes it";
  if (agent.idle) return "idle";
  return STATES[agent.state]?.word ?? agent.state;
}

const COPIES = {
  merged: "merged",
  unchanged: "nothing to merge",
  conflict: "not merged: it conflicts",
  kept: "not merged",
  left: "not merged",
  failed: "not merged: that failed",
};

/** The state of an agent's own copy of the workspace; empty without one. */
export function copyInWords(agent) {
  if (!agent.isolation || agent.isolation === "none") return "";
  return (isOver(agent.state) && COPIES[agent.merge]) || "in its own copy";
}

/** An agent's activity, without the word of its state, which precedes it. */
export function activityInWords(agent) {
  const [told, word] = [agent.activity ?? "", stateInWords(agent)];
  return told.startsWith(word) ? told.slice(word.length).trim() : told;
}

/** The text after the state: the reason of an end, or the activity; and the state of its copy. */
export function aside(agent) {
  if (agent.unserved && agent.state === "queued") return agent.unserved;
  return [isOver(agent.state) ? agent.reason : agent.summary || activityInWords(agent), copyInWords(agent)].filter(Boolean).join(" · ");
}

/** 950, 12.3k, 4.1M. */
export function count(number) {
  if (number < 1000) return String(Math.round(number));
  for (const [limit, divisor, unit] of [
    [999_950, 1e3, "k"],
    [999_950_000, 1e6, "M"],
  ]) {
    if (number < limit) return `${(number / divisor).toFixed(1)}${unit}`;
  }
  return `${(number / 1e9).toFixed(1)}G`;
}

/** Dollars, with enough digits for small amounts; `?` stands for tokens without a known price. */
export function cost(dollars, unpriced) {
  if (dollars === null) return "?";
  if (unpriced) return `${cost(dollars)} + ?`;
  if (!dollars) return "$0";
  if (dollars < 0.0001) return "<$0.0001";
  return `$${dollars.toFixed(dollars < 0.01 ? 4 : dollars < 1 ? 3 : 2)}`;
}

/** A row's cost in dollars. For a rehearsal, the cost with a model, which counts for its limits. */
export const spent = (row) => (row.rehearsed ? row.reckoned_usd : row.cost_usd);

export function number(amount, what, many = `${what}s`) {
  return `${amount} ${amount === 1 ? what : many}`;
}

/** 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds) {
  const given = Math.max(0, seconds);
  if (given < 9.95) return `${given.toFixed(1)} s`;
  const whole = Math.round(given);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return joined(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86_400) return joined(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return joined(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3600), "h");
}

/** A growing duration, in whole seconds. */
export const elapsed = (seconds) => (seconds < 60 ? `${Math.max(0, Math.floor(seconds))} s` : duration(seconds));

export const ago = (seconds) => (seconds < 5 ? "just now" : `${elapsed(seconds)} ago`);

/** A time of day; with the date when it is another day than `now`. */
export function clock(at, now = Date.now() / 1000) {
  if (!at) return "";
  const when = new Date(at * 1000);
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return new Date(now * 1000).toDateString() === when.toDateString() ? time : `${when.toLocaleDateString()} ${time}`;
}

export const tokens = (sums) => sums.input + sums.output + sums.cache_write + sums.cache_read;

/** The share of input that came from the prompt cache, as text; empty without input. */
export function cacheShare(sums) {
  const input = sums.input + sums.cache_write + sums.cache_read;
  return input ? `${Math.round((100 * sums.cache_read) / input)}%` : "";
}

/** An agent's total time in the queue, in seconds. */
export function queueDelay(agent, now) {
  const heartbeat = agent.state === "queued" && agent.queued_at ? Math.max(0, now - agent.queued_at) : 0;
  return (agent.queued_seconds || 0) + heartbeat;
}

function joined(big, unit, small, smaller) {
  return small ? `${big} ${unit} ${small} ${smaller}` : `${big} ${unit}`;
}
