// A journal's entries as what is read: each call with its result, its child and its answer in one place. Pure.

import { number } from "./format.mjs";

const FATES = new Set(["tool_started", "tool_finished", "answered", "ruled"]);

/** `items`: entries in order, without those that belong to a call that is among them; `fates`: tool_use id → what became of it;
 * `repeats`: ends whose text is what was said just before. */
export function foldEntries(entries) {
  const fates = new Map();
  const calls = new Set();
  const repeats = new Set();
  const heard = new Set(entries.filter((entry) => entry.kind === "hooked").map((entry) => entry.event));
  let said = null;
  const fate = (id) => fates.get(id) ?? fates.set(id, {}).get(id);
  for (const entry of entries) {
    if (entry.kind === "assistant") for (const block of entry.content) if (block.type === "tool_use") calls.add(block.id);
    if (entry.kind === "assistant")
      said = entry.content
        .filter((block) => block.type === "text")
        .map((block) => block.text)
        .join("\n\n")
        .trim();
    if (entry.kind === "finished" && entry.text?.trim() === said) repeats.add(entry.n);
    if (entry.kind === "tool_started") fate(entry.tool_use_id).started = entry;
    if (entry.kind === "tool_finished") fate(entry.tool_use_id).finished = entry;
    if (entry.kind === "answered") fate(entry.tool_use_id).answered = entry;
    if (entry.kind === "ruled") fate(entry.tool_use_id).ruled = entry;
    if (entry.kind === "hooked" && entry.decision === "deny" && entry.tool_use_id) fate(entry.tool_use_id).refused = true;
    if (entry.kind === "parked" && entry.tool_use_id) fate(entry.tool_use_id).parked = entry;
    if (entry.kind === "spawned") takeChildren(entry, fate);
  }
  const folded = (entry) => (FATES.has(entry.kind) || entry.kind === "parked") && calls.has(entry.tool_use_id);
  const isKnown = (entry) => entry.kind === "spawned" && Object.keys(entry.children).every((id) => calls.has(id));
  const isHeard = (entry) => entry.kind === "hooks_begun" && heard.has(entry.event);
  return { items: entries.filter((entry) => !folded(entry) && !isKnown(entry) && !isHeard(entry)), fates, repeats };
}

function takeChildren(entry, fate) {
  for (const [call, child] of Object.entries(entry.children)) fate(call).child = child;
  for (const call of entry.background ?? []) fate(call).background = true;
}

/** The edit that an open question is about: the diff of the newest call of this tool that has no result. */
export function findDiff(entries, fates, question) {
  for (const entry of [...entries].reverse()) {
    if (entry.kind !== "assistant") continue;
    for (const block of entry.content) {
      const waits = block.type === "tool_use" && block.name === question.tool && !fates.get(block.id)?.finished;
      if (waits && block.diff && sameInput(block.input, question.input)) return block.diff;
    }
  }
  return null;
}

const sameInput = (one, other) => !other || ["file_path", "path", "notebook_path"].every((name) => one?.[name] === other?.[name]);

/** What a parked agent waits for, in words. */
export function waitsFor(condition = {}) {
  const parts = [];
  if (condition.question) parts.push("an answer");
  if (condition.children?.length) parts.push(`${condition.mode === "any" ? "one of " : ""}${number(condition.children.length, "agent")}`);
  if (condition.tasks?.length) parts.push(`${condition.mode === "any" ? "one of " : ""}${number(condition.tasks.length, "task")}`);
  if (condition.mail) parts.push("a message");
  if (condition.rest) parts.push("those who work for it");
  if (condition.purse) parts.push("its share of the budget");
  if (!parts.length && condition.until) parts.push("the time");
  return parts.join(" or ") || "something";
}
