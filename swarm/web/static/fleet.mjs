// A panel of the whole fleet. It is read again when the list of jobs changes, because what a fleet's panel shows makes jobs.
import { about } from "./api.mjs";
import { html, useRef } from "./html.mjs";
import { Panel } from "./panel.mjs";
import { Failure, Link } from "./ui.mjs";
import { useWorld } from "./world.mjs";

const find = (name) => about.panels.find((panel) => panel.scope === "fleet" && panel.name === name);

/** The title of a panel of the fleet, by its name. */
export const titleOf = (name) => find(name)?.title ?? "Fleet";

export function Fleet({ route }) {
  const { fleet } = useWorld();
  const seen = useRef({ fleet, changes: 0 });
  if (seen.current.fleet !== fleet) seen.current = { fleet, changes: seen.current.changes + 1 };
  const panel = find(route.panel);
  return html`<div class="scroll panel"><nav class="crumbs" aria-label="Where you are"><${Link} to=${{}}>Jobs<//></nav><h1>${titleOf(route.panel)}</h1>
    ${panel ? html`<${Panel} panel=${panel} route=${route} stale=${seen.current.changes} />` : html`<${Failure} error=${new Error("There is no such panel.")} />`}</div>`;
}
