// The seam of panels: a panel is one module with a component as its default export. This loads it when it is first shown, fetches
// its data, fetches it again when the server marks it stale, and passes both on. A panel knows no streams or addresses.
import { about, base, get, post } from "./api.mjs";
import { html, useEffect, useRef, useState } from "./html.mjs";
import { amend, go } from "./route.mjs";
import { Failure, Loading } from "./ui.mjs";
import { serverNow, world } from "./world.mjs";

const NONE = { id: null, job: null, agents: new Map(), events: [] };
const OWN = new Set(["panel", "tab", "hide"]); // the page's names in the address's query; the rest are the panel's
const REST = 1000; // least milliseconds between two fetches

const modules = new Map();

function load(panel) {
  if (!modules.has(panel.module))
    modules.set(
      panel.module,
      import(`${base}/${panel.module}`).catch((error) => (modules.delete(panel.module), Promise.reject(error))),
    );
  return modules.get(panel.module);
}

/** A panel of a job or of an agent; without `state` one of the fleet, read again whenever `stale` changes. */
export function Panel({ panel, state = NONE, route, agent = null, stale = state.stale?.[panel.name] ?? 0 }) {
  const [View, setView] = useState(null);
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const asked = useRef({ at: 0, number: 0 });
  const query = Object.fromEntries(Object.entries(route.query).filter(([name]) => !OWN.has(name)));
  const address = JSON.stringify(query);
  const path = `${state.id ? `jobs/${state.id}/` : ""}panel/${panel.name}`;
  const reload = async (more = {}) => {
    const number = (asked.current.number += 1);
    asked.current.at = Date.now();
    const events = world.job?.events.length ?? 0;
    try {
      const answer = await get(path, { ...query, ...more, agent: agent?.id });
      if (number !== asked.current.number) return;
      setFound({ ...answer, seen: events });
      setError(null);
    } catch (problem) {
      if (number === asked.current.number) setError(problem);
    }
  };
  const act = async (name, body = {}) => {
    const answer = await post(`${path}/${name}`, body);
    await reload();
    return answer.data;
  };
  useEffect(() => void load(panel).then((module) => setView(() => module.default), setError), [panel.module]);
  useEffect(() => {
    const pause = Math.max(0, asked.current.at + REST - Date.now());
    const timer = setTimeout(reload, stale ? pause : 0, {});
    return () => clearTimeout(timer);
  }, [path, address, stale, agent?.id, world.reset]);
  if (!View || !found) return error ? html`<${Failure} error=${error} />` : html`<${Loading} what=${panel.title.toLowerCase()} />`;
  return html`${error && html`<${Failure} error=${error} />`}
    <${View} panel=${panel} data=${found.data} job=${state.job} agents=${state.agents} agent=${agent} now=${serverNow()} query=${query} events=${state.events.slice(found.seen)}
      readOnly=${about.read_only} reload=${reload} act=${act} amend=${(changes) => amend(changes, { replace: false })} open=${(to) => open(to, state.id)} html=${html} />`;
}

/** Go to `{job?, agent?, entry?, panel?, tab?}`; without a job: in this one. */
function open({ job, agent = null, entry = null, panel, tab }, here) {
  go({ job: job ?? here, agent, entry, query: { panel, tab } });
}
