// Triggers: what starts jobs by itself, the events of the chosen one, and what became of each.
import { ago, clock } from "../format.mjs";
import { html } from "../html.mjs";
import { line, plain, reveal } from "../plain.mjs";
import { Failure, Link, useAct } from "../ui.mjs";

export default function Triggers({ data, query, amend, act, readOnly, now }) {
  const doing = useAct();
  if (!data.triggers.length)
    return html`<p class="empty">There are no triggers. Write one to <code>.swarm/triggers/NAME.md</code> and run <code>swarm triggers apply</code>.</p>`;
  const chosen = data.triggers.find((one) => one.name === query.trigger);
  const run = (name, body, said) => doing.run(() => act(name, body), said);
  return html`${doing.error && html`<${Failure} error=${doing.error} />`}
    <table class="list"><thead><tr><th scope="col">Trigger</th><th scope="col">Starts</th><th scope="col">Now</th><th scope="col" class="num">Events</th><th scope="col">Last</th><th scope="col">Put by</th></tr></thead>
    <tbody>${data.triggers.map(
      (one) => html`<tr key=${one.name}><th scope="row"><button type="button" class="more" aria-pressed=${String(one === chosen)} onClick=${() => amend({ trigger: one === chosen ? "" : one.name })}>${plain(one.name)}</button></th>
      <td>${line(one.starts, 80)}</td><td>${state(one, now)}</td><td class="num">${one.events}</td><td>${one.last_at ? ago(now - one.last_at) : ""}</td><td>${line(one.by, 40)}</td></tr>`,
    )}</tbody></table>
    ${chosen && html`<${Chosen} key=${chosen.name} one=${chosen} events=${data.events} run=${run} busy=${doing.busy} readOnly=${readOnly} now=${now} />`}`;
}

function state(one, now) {
  if (one.paused_at) return "paused";
  if (one.waiting) return `${one.waiting} waiting`;
  return one.next_at ? `next ${clock(one.next_at, now)}` : "ready";
}

function Chosen({ one, events, run, busy, readOnly, now }) {
  const about = { trigger: one.name };
  const remove = () => confirm(`Delete the trigger ${one.name} with the list of its events? Its jobs stay.`) && run("delete", about, () => "It is deleted");
  const acts = [
    ["Start it now", () => run("fire", about, () => "A worker starts its job")],
    one.paused_at ? ["Go on", () => run("resume", about, () => "It takes in events again")] : ["Pause", () => run("pause", about, () => "It takes in no events")],
    ["Delete", remove],
  ];
  return html`<section aria-label=${one.name}><h2>${plain(one.name)}</h2>
    ${one.description && html`<p>${line(one.description, 400)}</p>`}
    <p class="aside">${[one.host && `on ${one.host}`, one.bounds].filter(Boolean).map(plain).join(" · ")}</p>
    <details class="rest"><summary>Prompt and options</summary><pre>${reveal(one.text)}</pre></details>
    ${!readOnly && html`<p class="buttons">${acts.map(([title, press]) => html`<button type="button" class="btn btn-sm" key=${title} disabled=${busy} onClick=${press}>${title}</button>`)}</p>`}
    ${
      events.length === 0
        ? html`<p class="empty">It has had no events.</p>`
        : html`<table class="list"><thead><tr><th scope="col">Event</th><th scope="col">Came</th><th scope="col">State</th><th scope="col">Job</th><th scope="col">Reason</th>${!readOnly && html`<th scope="col"><span class="visually-hidden">Act</span></th>`}</tr></thead>
    <tbody>${events.map(
      (each) => html`<tr key=${each.id}><th scope="row">${line(each.id, 60)}</th><td>${ago(now - each.at)}</td><td>${plain(each.state)}</td>
      <td>${each.job && (each.state === "started" || each.state === "skipped") ? html`<${Link} to=${{ job: each.job }}>${plain(each.job)}<//>` : ""}</td><td>${line(each.why, 200)}</td>
      ${!readOnly && html`<td><button type="button" class="more" disabled=${busy} onClick=${() => run("replay", { ...about, event: each.id }, () => "It is taken in once more")}>Replay</button></td>`}</tr>`,
    )}</tbody></table>`
    }</section>`;
}
