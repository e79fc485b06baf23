// A workflow's phases with their calls: state, cost, and the value of each on request.
import { html } from "../html.mjs";
import { cost, number } from "../format.mjs";
import { line, plain } from "../plain.mjs";

export default function Workflow({ data, agents, amend, open }) {
  const others = [...agents.values()].filter((agent) => agent.workflow && agent.id !== data.agent);
  const links = others.map((agent) => html`<button key=${agent.id} type="button" class="more" onClick=${() => amend({ of: agent.id })}>${line(agent.label, 60)}</button>`);
  if (!data.agent) return html`<p class="empty">The job's first agent is no workflow. ${links}</p>`;
  return html`<p class="cost-sum"><b>${line(data.now, 200)}</b> ${links}</p>
    ${data.phases.map(
      (phase) => html`<section key=${phase.title} class="cost-table" aria-label=${line(phase.title, 80) || "without a phase"}>
      <h2>${line(phase.title, 80) || "Without a phase"} <span class="aside">${phase.done} of ${number(phase.calls, "call")}${phase.failed ? `, ${phase.failed} failed` : ""}, ${cost(phase.cost_usd)}</span></h2>
      <ul>${data.calls.filter((call) => call.phase === phase.title).map((call, place) => html`<${Call} key=${place} call=${call} open=${open} />`)}</ul></section>`,
    )}`;
}

function Call({ call, open }) {
  const name = `${call.tool}: ${call.label}`;
  return html`<li><p class="task-facts">${call.agent ? html`<button type="button" class="more" onClick=${() => open({ agent: call.agent })}>${line(name, 120)}</button>` : line(name, 120)}
      <span class="tag">${call.state}</span>${call.agent ? html`<span>${cost(call.cost_usd)}</span>` : null}</p>
    ${call.value !== null && html`<details class="rest"><summary>value</summary><pre>${plain(call.value)}</pre></details>`}</li>`;
}
