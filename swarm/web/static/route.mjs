// The place in the page, from the address: `#/`, `#/start`, `#/JOB`, `#/JOB/AGENT`, `#/JOB/AGENT/ENTRY`, `#/fleet/PANEL`, each with a query.
// The address holds the whole view, so that a reload, a bookmark and a link show the same.
import { useEffect, useState } from "./html.mjs";

/** The parts of an address; null for a foreign hash. */
export function parseRoute(hash) {
  if (hash && !hash.startsWith("#/")) return null;
  const [path, query = ""] = hash.slice(2).split("?");
  const [first = "", agent = "", entry = ""] = path.split("/").map(decodeURIComponent);
  const found = Object.fromEntries(new URLSearchParams(query));
  if (first === "start") return { view: "start", job: null, agent: null, entry: null, query: found };
  if (first === "fleet") return { view: "fleet", panel: agent, job: null, agent: null, entry: null, query: found };
  return {
    view: first ? "job" : "jobs",
    job: first || null,
    agent: agent || null,
    entry: /^\d+$/.test(entry) ? Number(entry) : null,
    query: found,
  };
}

/** The address of these parts: `{view?, panel?, job?, agent?, entry?, query?}`. */
export function formatRoute({ view, panel, job, agent, entry, query = {} }) {
  const views = { start: ["start"], fleet: ["fleet", panel] };
  const parts = views[view] ?? [job, job && agent, job && agent && entry].filter(Boolean);
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${asked ? `?${asked}` : ""}`;
}

let current = parseRoute(location.hash) ?? parseRoute("");
const listeners = new Set();

export const currentRoute = () => current;

/** Go to a place; `replace` adds no step to the history. */
export function go(parts, { replace = false } = {}) {
  const address = formatRoute(parts);
  if (address !== (location.hash || "#/")) history[replace ? "replaceState" : "pushState"](null, "", address);
  settle();
}

/** Stay at this place with other values in the query. */
export function amend(query, options = { replace: true }) {
  go({ ...current, query: { ...current.query, ...query } }, options);
}

export function useRoute() {
  const [route, set] = useState(current);
  useEffect(() => onRoute(set), []);
  return route;
}

export function onRoute(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function settle() {
  const found = parseRoute(location.hash);
  if (!found) return history.replaceState(null, "", formatRoute(current)); // the skip link leads to an element, not to a view
  current = found;
  for (const listener of listeners) listener(current);
}

addEventListener("popstate", settle);
addEventListener("hashchange", settle);
