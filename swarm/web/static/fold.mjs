// Fold patches into a snapshot. Pure: a patch yields a new state, and untouched parts stay the same
// objects, so that only changes are drawn again. A repeated patch changes nothing.

/** Compares two ids of a stream, `ms-n`. */
export function compareIds(one, other) {
  const [a, b] = [one, other].map((id) => (id || "0-0").split("-").map(Number));
  return a[0] - b[0] || (a[1] || 0) - (b[1] || 0);
}

// -- the fleet ---------------------------------------------------------------------------------------------

export function newFleet(listing) {
  return { jobs: new Map(listing.jobs.map((job) => [job.id, job])), needsYou: listing.needs_you, full: listing.full ?? "", last: listing.last };
}

/** Add an older page of the listing; known jobs are newer than it. */
export function addOlder(fleet, listing) {
  return { ...fleet, jobs: new Map([...newFleet(listing).jobs, ...fleet.jobs]), last: listing.last };
}

export function foldFleet(fleet, patch) {
  if (!patch.jobs && patch.needs_you === undefined && patch.full === undefined) return fleet;
  const jobs = new Map(fleet.jobs);
  for (const job of patch.jobs ?? []) jobs.set(job.id, job);
  return { ...fleet, jobs, needsYou: patch.needs_you ?? fleet.needsYou, full: patch.full ?? fleet.full };
}

// -- a job -------------------------------------------------------------------------------------------------

/** `left`: how many agents, the youngest, are still to be loaded; `events`: all events since the snapshot; `stale`: panel → how
 *  often its data has changed since. */
export function newJob(snapshot) {
  return {
    id: snapshot.job.id,
    job: snapshot.job,
    agents: new Map(snapshot.agents.map((agent) => [agent.id, agent])),
    left: snapshot.left ?? 0,
    questions: snapshot.questions,
    inbox: snapshot.inbox,
    events: [],
    stale: {},
  };
}

/** Add the next part of the job's agents. */
export function addAgents(state, part) {
  return { ...state, agents: new Map([...state.agents, ...part.agents.map((agent) => [agent.id, agent])]), left: part.left };
}

const KEPT_EVENTS = 5000;

export function foldJob(state, patch) {
  const next = { ...state };
  if (patch.job) next.job = { ...state.job, ...patch.job };
  if (patch.questions) next.questions = patch.questions;
  if (patch.inbox) next.inbox = appendNew(state.inbox, patch.inbox, (message) => message.id);
  if (patch.events) next.events = appendNew(state.events, patch.events, eventKey).slice(-KEPT_EVENTS);
  if (patch.agents) {
    next.agents = new Map(state.agents);
    // An agent that is still to be loaded comes in its place, with a later part.
    for (const agent of patch.agents) if (!state.left || state.agents.has(agent.id)) next.agents.set(agent.id, agent);
  }
  if (patch.stale) {
    next.stale = { ...state.stale };
    for (const panel of patch.stale) next.stale[panel] = (next.stale[panel] ?? 0) + 1;
  }
  return next;
}

// -- the open agent ------------------------------------------------------------------------------------------

/** `entries` is a stretch of the journal, `first` to `last`; `length` is the journal's. `words`: the reply in progress. */
export function newAgent(detail, journal, mail) {
  return {
    id: detail.agent.id,
    detail,
    entries: journal.entries,
    first: journal.first,
    last: journal.last,
    length: journal.length,
    mail: mail.messages,
    mailCursor: mail.mail,
    words: null,
  };
}

export const isAtEnd = (agent) => agent.last >= agent.length;

export function foldAgent(state, patch) {
  let next = state;
  if (patch.entries?.length) next = foldEntries(next, patch.entries);
  if (patch.mail?.length) {
    const given = patch.mail.map((message) => ({ read_in_turn: null, read_at_entry: null, ...message }));
    next = { ...next, mail: appendNew(next.mail, given, (message) => message.id) };
  }
  for (const event of patch.events ?? []) {
    if (event.kind === "read" && event.agent_id === next.id) next = { ...next, mail: markRead(next.mail, event) };
  }
  if (patch.words) next = { ...next, words: patch.words.reduce(addWords, next.words) };
  if (patch.words_over) next = { ...next, words: null };
  return next;
}

function foldEntries(state, entries) {
  const length = Math.max(state.length, ...entries.map((entry) => entry.n));
  const written = state.words && entries.some((entry) => entry.n >= state.words.entry);
  const fresh = isAtEnd(state) ? entries.filter((entry) => entry.n > state.last) : []; // else the reader has scrolled up
  return {
    ...state,
    length,
    words: written ? null : state.words,
    entries: fresh.length ? [...state.entries, ...fresh] : state.entries,
    first: state.first || (fresh[0]?.n ?? 0),
    last: fresh.at(-1)?.n ?? state.last,
  };
}

/** Put an older page in front, or a later one behind. */
export function addPage(state, page) {
  if (!page.entries.length) return { ...state, length: Math.max(state.length, page.length) };
  const before = page.entries.filter((entry) => entry.n < state.first);
  const after = page.entries.filter((entry) => entry.n > state.last);
  const entries = [...before, ...state.entries, ...after];
  return { ...state, entries, first: entries[0].n, last: entries.at(-1).n, length: Math.max(state.length, page.length) };
}

function markRead(mail, { fields }) {
  const unread = (message) => message.read_in_turn === null && compareIds(message.id, fields.up_to) <= 0;
  if (!mail.some(unread)) return mail;
  const read = { read_in_turn: Number(fields.turn), read_at_entry: Number(fields.entry) || null };
  return mail.map((message) => (unread(message) ? { ...message, ...read } : message));
}

function addWords(words, part) {
  const begun = words?.entry === part.entry && !(part.from === 0 && part.block === 0);
  const blocks = begun ? [...words.blocks] : [];
  const old = blocks[part.block]?.text ?? "";
  blocks[part.block] = { type: part.type, name: part.name, text: old.slice(0, part.from) + part.text };
  return { entry: part.entry, blocks };
}

// -- common --------------------------------------------------------------------------------------------------

const eventKey = (event) => event.seq ?? `${event.at} ${event.kind} ${event.agent_id}`;

function appendNew(list, more, key) {
  const known = new Set(list.slice(-1000).map(key));
  const fresh = more.filter((one) => !known.has(key(one)));
  return fresh.length ? [...list, ...fresh] : list;
}
