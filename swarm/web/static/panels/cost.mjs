// A job's cost: total, by definition, by model, by agent.
import { html } from "../html.mjs";
import { cacheShare, cost, count, number, tokens } from "../format.mjs";
import { line } from "../plain.mjs";

const FIGURES = [
  ["Turns", (sums) => sums.turns],
  ["Input", (sums) => count(sums.input)],
  ["Cache written", (sums) => count(sums.cache_write)],
  ["Cache read", (sums) => count(sums.cache_read)],
  ["Output", (sums) => count(sums.output)],
  ["Cached", (sums) => cacheShare(sums) || "–"],
  ["Cost", (sums) => cost(sums.cost_usd, sums.unpriced_tokens)],
];

/** The data of a rehearsal, with the cost that counts for limits in place of the paid cost, 0. */
function reckon(data) {
  const row = (sums) => ({ ...sums, cost_usd: sums.reckoned_usd ?? 0, below_usd: sums.below_reckoned_usd });
  const rows = Object.fromEntries(["by_definition", "by_model", "by_agent"].map((name) => [name, data[name].map(row)]));
  return { ...data, ...rows, total: row(data.total) };
}

export default function Cost({ data: given, job, open }) {
  const data = job.rehearsed ? reckon(given) : given;
  const { total, limits } = data;
  return html`<p class="cost-sum"><b>${cost(total.cost_usd, total.unpriced_tokens)}</b>${total.estimated_usd ? `, of which ${cost(total.estimated_usd)} estimated` : ""} ${job.rehearsed ? "is the cost with a model: this was rehearsed, " : ""}${limits.budget_usd ? `of ${cost(limits.budget_usd)}` : "without a budget"}${limits.reserved_usd > 0 ? `, ${cost(limits.reserved_usd)} reserved for calls under way` : ""};
      ${" "}${count(tokens(total))} tokens${limits.max_tokens ? ` of ${count(limits.max_tokens)}` : ""}${cacheShare(total) && `, ${cacheShare(total)} of the input from the cache`}</p>
    <${Table} title="By definition" first="Definition" rows=${data.by_definition} name=${(row) => html`${line(row.name, 60)} <span class="aside">${number(row.agents, "agent")}</span>`} most=${total.cost_usd} />
    <${Table} title="By model" first="Model" rows=${data.by_model} name=${(row) => line(row.name, 60) || "unknown"} most=${total.cost_usd} />
    <${Table} title="The most expensive agents" first="Agent" rows=${data.by_agent} most=${total.cost_usd} below=${true}
      name=${(row) => html`<button type="button" class="more" onClick=${() => open({ agent: row.id })}>${line(row.label, 80)}</button>`} />`;
}

function Table({ title, first, rows, name, most, below = false }) {
  if (!rows.length) return null;
  return html`<section class="cost-table"><h2>${title}</h2><div class="wide-table" tabindex="0" role="region" aria-label=${title}><table class="list">
    <thead><tr><th scope="col">${first}</th>${FIGURES.map(([heading]) => html`<th scope="col" class="num">${heading}</th>`)}${below && html`<th scope="col" class="num">With all below</th>`}</tr></thead>
    <tbody>${rows.map(
      (
        row,
      ) => html`<tr key=${row.id ?? row.name}><th scope="row">${name(row)}<span class="bar" ref=${(node) => node && (node.style.width = `${most ? (100 * row.cost_usd) / most : 0}%`)}></span></th>
      ${FIGURES.map(([heading, figure]) => html`<td key=${heading} class="num">${figure(row)}</td>`)}${below && html`<td class="num">${row.below_usd ? cost(row.cost_usd + row.below_usd) : ""}</td>`}</tr>`,
    )}</tbody></table></div></section>`;
}
