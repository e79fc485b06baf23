// The MCP servers of a job, and their tools.
import { html } from "../html.mjs";
import { number } from "../format.mjs";
import { line, plain } from "../plain.mjs";

const KINDS = { look: "changes nothing, by its own word", idempotent: "may be repeated, by its own word", effect: "" };

export default function Servers({ data }) {
  if (!data.servers.length)
    return html`<p class="empty">This job has no MCP servers: none is configured where it was submitted, or none is approved.</p>`;
  return data.servers.map((server) => html`<${Server} key=${server.name + server.source} server=${server} />`);
}

function Server({ server }) {
  const { offer } = server;
  const tools = offer ? number(offer.tools.length, "tool") : "not asked yet: no agent that may use its tools has begun";
  const more = offer ? [offer.resources && "resources", offer.prompts && "prompts"].filter(Boolean) : [];
  return html`<section class="cost-table"><h2>${line(server.name, 60)}</h2>
    <p class="aside">${[line(server.what, 200), line(server.source, 200), tools, ...more].filter(Boolean).join(" · ")}</p>
    ${offer && offer.left_out.length > 0 && html`<p class="aside">Left out: ${line(offer.left_out.join("; "), 500)}</p>`}
    ${offer && html`<details><summary>Tools</summary><table class="list"><thead><tr><th scope="col">Tool</th><th scope="col">Purpose</th><th scope="col">A call</th></tr></thead>
    <tbody>${offer.tools.map((tool) => html`<tr key=${tool.called}><th scope="row">${plain(tool.called)}</th><td>${line(tool.description, 200)}</td><td>${KINDS[tool.kind]}</td></tr>`)}</tbody></table></details>`}</section>`;
}
