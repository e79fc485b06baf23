// The fleet's share of the model: the server's limits, the rest of them, and waiting agents.
import { html } from "../html.mjs";
import { count, number } from "../format.mjs";
import { line } from "../plain.mjs";

const KNOWLEDGE = {
  told: "as the server states them",
  blind: "the server states none; learned from its refusals",
  new: "nothing is known yet",
};
const WINDOWS = { start: "", refusal: " after a refusal", storm: " after a storm of overloads" };
const HOLDS = { server: "as the server asked", refusal: "after a refusal", storm: "in a storm of overloads", operator: "by an operator" };

export default function Limits({ data }) {
  if (!data.classes.length) return html`<p class="aside">No agent has asked a model yet.</p>`;
  return data.classes.map((one) => html`<${Class} key=${one.name} one=${one} />`);
}

function Class({ one }) {
  const refused = [one.limited && `${one.limited} refused by a limit`, one.overloaded && `${one.overloaded} by overload`].filter(Boolean);
  return html`<section class="cost-table"><h2>${line(one.name, 80)} <span class="aside">${KNOWLEDGE[one.knowledge]}</span></h2>
    <div class="wide-table" tabindex="0" role="region" aria-label=${line(one.name, 80)}><table class="list">
    <thead><tr><th scope="col">A minute</th><th scope="col" class="num">Stated</th><th scope="col" class="num">Set here</th><th scope="col" class="num">Kept to</th><th scope="col" class="num">Left now</th></tr></thead>
    <tbody>${Object.entries(one.buckets).map(
      ([kind, bucket]) => html`<tr key=${kind}><th scope="row">${kind}</th>
      ${["stated", "ceiling", "used", "left"].map((name) => html`<td key=${name} class="num">${bucket[name] === null ? "–" : count(bucket[name])}</td>`)}</tr>`,
    )}</tbody></table></div>
    <p>${number(one.asking, "agent")} asking now${one.waiting ? `, ${one.waiting} waiting (${one.waiting_here} of this job)` : ", none waiting"}; ${[number(one.sent, "request") + " in all", ...refused].join(", ")}${one.window === null ? "" : `; ${one.window} at once${WINDOWS[one.window_cause]}`}${one.held_by ? `; held for ${one.held_seconds} s, ${HOLDS[one.held_by]}` : ""}.</p></section>`;
}
