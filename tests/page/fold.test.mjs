// Tests of swarm/web/static/fold.mjs: a patch yields a new state, twice it changes nothing, and what it does not touch stays the same.
import assert from "node:assert/strict";
import { test } from "node:test";

import { addAgents, addOlder, addPage, compareIds, foldAgent, foldFleet, foldJob, isAtEnd, newAgent, newFleet, newJob } from "../../swarm/web/static/fold.mjs";

const entries = (...numbers) => numbers.map((n) => ({ n, kind: "assistant" }));
const snapshot = () => newJob({ job: { id: "job-1", state: "running" }, agents: [{ id: "a", state: "running" }], questions: [], inbox: [] });
const agent = (journal = { entries: entries(1, 2), first: 1, last: 2, length: 2 }, messages = []) =>
  newAgent({ agent: { id: "a" } }, journal, { messages, mail: "0-0" });

test("ids of a stream are compared as numbers", () => {
  assert.ok(compareIds("9-0", "10-0") < 0);
  assert.ok(compareIds("5-10", "5-9") > 0);
  assert.equal(compareIds("5-1", "5-1"), 0);
  assert.ok(compareIds(null, "0-1") < 0);
});

test("a job of an older page does not replace what is known of it", () => {
  const fleet = newFleet({ jobs: [{ id: "b", state: "ended" }], needs_you: 1, last: "b" });
  const more = addOlder(fleet, { jobs: [{ id: "b", state: "running" }, { id: "a", state: "ended" }], needs_you: 0, last: "a" });
  assert.equal(more.jobs.get("b").state, "ended");
  assert.deepEqual([more.last, more.needsYou, more.jobs.size], ["a", 1, 2]);
});

test("a patch without jobs leaves the fleet the same object", () => {
  const fleet = newFleet({ jobs: [], needs_you: 0, last: null });
  assert.equal(foldFleet(fleet, { at: {} }), fleet);
  assert.equal(foldFleet(fleet, { needs_you: 0 }).jobs.size, 0);
  assert.equal(foldFleet(fleet, { needs_you: 2 }).needsYou, 2);
  const full = foldFleet(fleet, { full: "no room" });
  assert.deepEqual([full.full, foldFleet(full, { needs_you: 1 }).full, foldFleet(full, { full: "" }).full], ["no room", "no room", ""]);
});

test("a patch of a job that comes twice changes nothing", () => {
  const patch = {
    job: { state: "ended" },
    agents: [{ id: "b", state: "queued" }],
    events: [{ seq: 1, kind: "spawned" }, { at: 2, kind: "woken", agent_id: "b" }],
    inbox: [{ id: "m-1" }],
  };
  const once = foldJob(snapshot(), patch);
  assert.deepEqual(foldJob(once, patch), once);
  assert.deepEqual([once.job, [...once.agents.keys()], once.events.length, once.inbox.length], [{ id: "job-1", state: "ended" }, ["a", "b"], 2, 1]);
});

test("what a patch of a job does not touch stays the same object", () => {
  const before = snapshot();
  const after = foldJob(before, { agents: [{ id: "a", state: "parked" }] });
  assert.equal(before.agents.get("a").state, "running");
  for (const part of ["job", "questions", "inbox", "events", "stale"]) assert.equal(after[part], before[part]);
});

test("a large job's later agents come in their place, not with a patch", () => {
  const first = newJob({ job: { id: "job-1" }, agents: [{ id: "a", state: "running" }], left: 2, questions: [], inbox: [] });
  const patch = { agents: [{ id: "a", state: "parked" }, { id: "c", state: "running" }] };
  const patched = foldJob(first, patch);
  assert.deepEqual([[...patched.agents.keys()], patched.left], [["a"], 2]);
  const whole = foldJob(addAgents(patched, { agents: [{ id: "b", state: "queued" }, { id: "c", state: "queued" }], left: 0 }), patch);
  assert.deepEqual([...whole.agents].map(([id, { state }]) => `${id} ${state}`), ["a parked", "b queued", "c running"]);
  assert.deepEqual([...foldJob(whole, { agents: [{ id: "d", state: "queued" }] }).agents.keys()], ["a", "b", "c", "d"]);
});

test("each change of a panel's data is counted", () => {
  const once = foldJob(snapshot(), { stale: ["board", "cost"] });
  assert.deepEqual(foldJob(once, { stale: ["board"] }).stale, { board: 2, cost: 1 });
});

test("entries are added once, in order, behind what is there", () => {
  const after = foldAgent(agent(), { entries: entries(2, 3, 4) });
  assert.deepEqual([after.entries.map(({ n }) => n), after.last, after.length], [[1, 2, 3, 4], 4, 4]);
  assert.deepEqual(foldAgent(after, { entries: entries(2, 3, 4) }), after);
});

test("a reader further up is told of the length and gets no gap", () => {
  const after = foldAgent(agent({ entries: entries(1, 2), first: 1, last: 2, length: 9 }), { entries: entries(10) });
  assert.deepEqual([after.entries.length, after.last, after.length, isAtEnd(after)], [2, 2, 10, false]);
});

test("pages are put where they belong, and none of their entries twice", () => {
  const middle = agent({ entries: entries(3, 4), first: 3, last: 4, length: 6 });
  const before = addPage(middle, { entries: entries(1, 2, 3), length: 6 });
  const all = addPage(before, { entries: entries(4, 5, 6), length: 7 });
  assert.deepEqual([all.entries.map(({ n }) => n), all.first, all.last, all.length], [[1, 2, 3, 4, 5, 6], 1, 6, 7]);
  assert.equal(addPage(middle, { entries: [], length: 8 }).length, 8);
});

test("words grow, are repeated without harm, and go when their entry is there", () => {
  const part = (from, text, entry = 3) => ({ words: [{ entry, block: 0, type: "text", from, text }] });
  const begun = foldAgent(agent(), part(0, "It is "));
  const more = foldAgent(begun, part(6, "done."));
  assert.equal(more.words.blocks[0].text, "It is done.");
  assert.deepEqual(foldAgent(more, part(6, "done.")).words, more.words);
  assert.equal(foldAgent(more, part(0, "Anew", 3)).words.blocks[0].text, "Anew");
  assert.equal(foldAgent(more, { entries: entries(3) }).words, null);
  assert.equal(foldAgent(more, { words_over: true }).words, null);
  assert.notEqual(foldAgent(foldAgent(agent(), part(0, "Later", 5)), { entries: entries(3) }).words, null);
});

test("mail is read up to the message that the event names, by its own agent alone", () => {
  const mail = [{ id: "1-0", read_in_turn: null, read_at_entry: null }, { id: "10-0", read_in_turn: null, read_at_entry: null }];
  const event = { kind: "read", agent_id: "a", fields: { up_to: "2-0", turn: "4", entry: "7" } };
  const before = agent(undefined, mail);
  assert.deepEqual(foldAgent(before, { events: [event] }).mail.map((one) => [one.read_in_turn, one.read_at_entry]), [[4, 7], [null, null]]);
  assert.equal(foldAgent(before, { events: [{ ...event, agent_id: "b" }] }).mail, before.mail);
  assert.equal(foldAgent(before, { mail: [{ id: "11-0" }] }).mail.at(-1).read_in_turn, null);
});
