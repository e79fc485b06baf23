// A journal's items for readers: each call with its outcome. Pure.

/** `items`: items shown by themselves; `calls`: tool_use id → outcome; `repeats`: ends that repeat the text just before. */
export function foldItems(entries) {
  const calls = new Map();
  const repeats = new Set();
  const items = [];
  let said = null;
  for (const item of entries) {
    const parts = item.parts ?? [];
    const fates = item.fates ?? [];
    for (const part of parts) if (part.call) calls.set(part.call, { outcome: "to be done", level: "", agent: "", items: [] });
    for (const fate of fates) if (calls.has(fate.call)) take(calls.get(fate.call), fate, item);
    if (item.kind === "reply") said = proseOf(parts);
    if (item.kind === "end" && proseOf(parts) === said) repeats.add(item.n);
    const isFolded = fates.length > 0 && fates.every((fate) => calls.has(fate.call));
    if (!isFolded && (item.kind !== "begun" || item === entries.at(-1))) items.push(item);
  }
  return { items, calls, repeats };
}

function take(call, fate, item) {
  call.items.push(item);
  call.agent ||= fate.agent ?? "";
  if (fate.outcome && call.outcome !== "denied") Object.assign(call, { outcome: fate.outcome, level: fate.level ?? "" });
}

const proseOf = (parts) =>
  parts
    .filter((part) => part.text && !part.title)
    .map((part) => part.text)
    .join("\n\n")
    .trim();

/** The edit that an open question is about: the diff of the newest call of this tool that has no result. */
export function findDiff(entries, calls, question) {
  const made = entries.flatMap((item) => (item.parts ?? []).filter((part) => part.call && part.diff && part.name === question.tool));
  const isOpen = (call) => !calls.get(call.call)?.items.some((item) => item.kind === "result");
  return made.findLast((call) => isOpen(call) && sameInput(call.input, question.input))?.diff ?? null;
}

const sameInput = (one, other) => !other || ["file_path", "path", "notebook_path"].every((name) => one?.[name] === other?.[name]);
