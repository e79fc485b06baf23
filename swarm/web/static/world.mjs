// The tab's state: the fleet, the open job and agent, and the connection. It follows the address, loads
// snapshots, folds the stream's patches into them, and notifies components. It knows nothing of their looks.
import { about, get } from "./api.mjs";
import { addAgents, addOlder, addPage, foldAgent, foldFleet, foldJob, isAtEnd, newAgent, newFleet, newJob } from "./fold.mjs";
import { useEffect, useReducer } from "./html.mjs";
import { currentRoute, go, onRoute } from "./route.mjs";
import { Stream } from "./stream.mjs";

export const PAGE = 200; // entries of a journal, or jobs, in one fetch
const FIRST = 300; // agents in a job's snapshot: more than a screen shows
const PART = 2000; // agents in each later fetch

/** `link`: open, lost (no connection), away (Redis does not answer). `failed`: part → why it could not be loaded. */
export const world = { fleet: null, job: null, agent: null, link: "open", failed: {}, loading: new Set(), reset: 0 };

const skew = { server: about.now, local: performance.now() };
const listeners = new Set();
const cursors = {};
const held = { fleet: [], job: [], agent: [] }; // patches that arrived while a snapshot was loading
const wanted = { job: null, agent: null };
const wide = matchMedia("(min-width: 60rem)");

/** The server's clock now, in Unix seconds; the browser's may be wrong. */
export const serverNow = () => skew.server + (performance.now() - skew.local) / 1000;

/** Draw again whenever the state changes. */
export function useWorld() {
  const [, draw] = useReducer((count) => count + 1, 0);
  useEffect(() => {
    listeners.add(draw);
    return () => listeners.delete(draw);
  }, []);
  return world;
}

/** Start following the address until the tab closes. */
export function start() {
  onRoute(follow);
  wide.addEventListener("change", () => follow(currentRoute()));
  return Promise.all([follow(currentRoute()), load("fleet")]);
}

/** Fetch the journal's page before or after the loaded entries, or its newest. */
export async function turnPage(where) {
  const { agent } = world;
  const query = { before: { before: agent.first, count: PAGE }, after: { after: agent.last, count: PAGE }, end: { count: PAGE } }[where];
  const page = await get(`agents/${agent.id}/journal`, query);
  if (world.agent?.id !== agent.id) return;
  const stretch = { entries: page.entries, first: page.first, last: page.last, length: page.length };
  tell({ agent: where === "end" ? { ...world.agent, ...stretch } : addPage(world.agent, page) });
}

/** Fetch the next older jobs. */
export async function fetchOlder() {
  const before = world.fleet.last;
  const listing = await get("jobs", { count: PAGE, before });
  if (world.fleet?.last === before) tell({ fleet: addOlder(world.fleet, listing) });
}

function tell(changes) {
  Object.assign(world, changes);
  for (const listener of listeners) listener();
}

// -- following the address -----------------------------------------------------------------------------------

async function follow(route) {
  if (route.job !== wanted.job) {
    wanted.job = route.job;
    wanted.agent = null;
    tell({ job: null, agent: null });
    if (route.job) await load("job");
  }
  if (route.job !== wanted.job) return; // the person has moved on meanwhile
  const agent = currentRoute().agent ?? (world.job && wide.matches ? chooseAgent(world.job) : null);
  if (agent && !currentRoute().agent) return go({ ...currentRoute(), agent }, { replace: true });
  if (agent !== wanted.agent) {
    wanted.agent = agent;
    tell({ agent: null });
    if (agent) await load("agent");
  } else if (isOutside(route.entry)) await load("agent");
  listen();
}

function chooseAgent(job) {
  const asks = job.questions.find((question) => !question.to);
  return asks?.agent_id ?? job.job.root_id;
}

function isOutside(entry) {
  return entry && world.agent && (entry < world.agent.first || entry > world.agent.last) && entry <= world.agent.length;
}

// -- snapshots -------------------------------------------------------------------------------------------------

const LOADERS = {
  async fleet() {
    const listing = await get("jobs", { count: PAGE });
    return { at: { feed: listing.feed }, now: listing.now, found: newFleet(listing) };
  },
  async job() {
    const snapshot = await get(`jobs/${wanted.job}/snapshot`, { count: FIRST });
    return { at: { events: snapshot.events }, now: snapshot.now, found: newJob(snapshot) };
  },
  async agent() {
    const { entry } = currentRoute();
    const around = entry ? { after: Math.max(0, entry - PAGE / 4), count: PAGE } : { count: PAGE };
    const path = `agents/${wanted.agent}`;
    const [detail, journal, mail] = await Promise.all([get(path), get(`${path}/journal`, around), get(`${path}/mail`)]);
    return { at: { journal: journal.length, mail: mail.mail }, now: detail.now, found: newAgent(detail, journal, mail) };
  },
};
const FOLDS = { fleet: foldFleet, job: foldJob, agent: foldAgent };
const wantedId = (part) => (part === "fleet" ? "fleet" : wanted[part]);

async function load(part) {
  const id = wantedId(part);
  world.loading.add(part);
  held[part] = [];
  tell({ failed: { ...world.failed, [part]: null } });
  try {
    const { at, now, found } = await LOADERS[part]();
    if (wantedId(part) !== id) return;
    setClock(now);
    Object.assign(cursors, at);
    world.loading.delete(part);
    tell({ [part]: held[part].reduce(FOLDS[part], found) });
    if (part === "job") fill(id, ++fills);
  } catch (error) {
    if (wantedId(part) !== id) return;
    world.loading.delete(part);
    tell({ failed: { ...world.failed, [part]: error } });
    if (error.code === "redis_away" || error.code === "offline") setTimeout(() => retry(part, id), 2000);
  } finally {
    if (part === "fleet") listen();
  }
}

let fills = 0;

/** Load the rest of a large tree, part after part, while its beginning is shown. */
async function fill(id, mine) {
  const isOurs = () => mine === fills && world.job?.id === id && !world.loading.has("job");
  while (isOurs() && world.job.left) {
    held.job = [];
    try {
      const part = await get(`jobs/${id}/rows`, { after: world.job.agents.size, count: PART });
      if (isOurs()) tell({ job: held.job.reduce(foldJob, addAgents(world.job, part)), failed: { ...world.failed, job: null } });
    } catch (error) {
      if (isOurs()) tell({ failed: { ...world.failed, job: error } });
      await new Promise((again) => setTimeout(again, 2000));
    }
  }
}

async function retry(part, id) {
  if (wantedId(part) !== id || world.loading.has(part)) return;
  await load(part);
  if (part === "job") await follow(currentRoute());
  listen();
}

// -- the stream --------------------------------------------------------------------------------------------------

export const stream = new Stream(hear);
let asked = "";

function listen() {
  if (world.loading.size) return;
  const query = {};
  if (world.fleet) Object.assign(query, { jobs: 1, feed: cursors.feed });
  if (world.job) Object.assign(query, { job: world.job.id, events: cursors.events });
  if (world.agent) Object.assign(query, { agent: world.agent.id, journal: cursors.journal, mail: cursors.mail, words: 1 });
  const key = [query.jobs, query.job, query.agent].join();
  if (key === asked || !Object.keys(query).length) return;
  asked = key;
  stream.want(query);
}

function hear(name, data) {
  if (data.at) Object.assign(cursors, data.at);
  if (data.now) setClock(data.now);
  if (name === "lost") tell({ link: world.link === "away" ? "away" : "lost" });
  else if (name === "away") tell({ link: "away" });
  else if (name === "hello" || name === "back") tell({ link: "open" });
  else if (name === "reset") reset(data.what);
  else if (name === "gone") tell({ failed: { ...world.failed, [data.what]: { code: "gone", message: `This ${data.what} has expired.` } } });
  else if (name === "patch") fold(data);
}

function fold(patch) {
  const changes = { link: "open" };
  for (const part of ["fleet", "job", "agent"]) {
    const given = aboutWanted(part, patch);
    if (given && (world.loading.has(part) || world[part]?.left)) held[part].push(given);
    if (given && world[part]) changes[part] = FOLDS[part](world[part], given);
  }
  tell(changes);
}

/** The part of a patch for the current job and agent: until it is opened again, the stream reports on the earlier ones. */
function aboutWanted(part, patch) {
  if (part === "fleet" || stream.query[part] === wanted[part]) return patch;
  return part === "agent" && stream.query.job === wanted.job ? { events: patch.events } : null;
}

async function reset(what) {
  const parts = what.map((part) => (part === "jobs" ? "fleet" : part)).filter((part) => world[part]);
  await Promise.all(parts.map(load));
  tell({ reset: world.reset + 1 });
}

function setClock(now) {
  Object.assign(skew, { server: now, local: performance.now() });
}

export { isAtEnd };
