// A job's scores, the table of its evaluation, and another job beside it.
import { html, useState } from "../html.mjs";
import { cost, count, duration } from "../format.mjs";
import { line, reveal } from "../plain.mjs";
import { Failure, useAct } from "../ui.mjs";

const isNone = (value) => value === null || value === undefined;
const verdict = (score) => (!score ? "not scored" : score.passed === true ? "passed" : score.passed === false ? "failed" : "a note");
const WRITE = {
  tokens: count,
  cost_usd: (dollars) => cost(dollars ?? 0),
  seconds: duration,
  state: (state) => String(state).replaceAll("_", " "),
};
const FIGURES = { state: "State", agents: "Agents", turns: "Turns", tools: "Calls", tokens: "Tokens", cost_usd: "Cost", seconds: "Time" };

export default function Compare(given) {
  const { data, query, amend } = given;
  return html`<${Scores} ...${given} />
    ${data.evaluation && html`<${Evaluation} ...${given} evaluation=${data.evaluation} />`}
    <section class="cost-table"><h2>Beside another job</h2>
      <label>Job <select value=${query.beside ?? ""} onChange=${(event) => amend({ beside: event.target.value })}>
        <option value="">choose one</option>
        ${query.beside && !data.others.some((one) => one.id === query.beside) && html`<option value=${query.beside}>${query.beside}</option>`}
        ${data.others.map((one) => html`<option key=${one.id} value=${one.id}>${line(one.title, 60)} (${one.id})</option>`)}
      </select></label></section>
    ${data.beside && html`<${Beside} found=${data.beside} />`}`;
}

function Scores({ data, act, readOnly }) {
  const names = Object.entries(data.scores);
  return html`<section class="cost-table"><h2>Scores</h2>
    ${names.length === 0 && html`<p class="aside">Nobody has scored this job.</p>`}
    ${names.length > 0 && html`<ul class="scores">${names.map(([name, one]) => html`<li key=${name}><b>${line(name, 60)}</b> ${verdict(one)}${isNone(one.points) ? "" : `, ${one.points.toFixed(2)} points`}${one.note ? html`: ${line(one.note, 500)}` : ""} <span class="aside">${line(one.by, 60)}</span></li>`)}</ul>`}
    ${!readOnly && html`<${ScoreForm} act=${act} />`}</section>`;
}

function ScoreForm({ act }) {
  const [note, setNote] = useState("");
  const { busy, error, run } = useAct();
  const send = (passed) => run(() => act("score", { passed, note }), () => (setNote(""), "The score is kept."));
  return html`<form class="score-form" onSubmit=${(event) => (event.preventDefault(), send(null))}>
    <label>Note <input type="text" maxlength="2000" value=${note} onInput=${(event) => setNote(event.target.value)} /></label>
    <button type="button" disabled=${busy} onClick=${() => send(true)}>Right</button>
    <button type="button" disabled=${busy} onClick=${() => send(false)}>Wrong</button>
    <button type="submit" disabled=${busy || !note}>Only a note</button>
    ${error && html`<${Failure} error=${error} />`}</form>`;
}

function Evaluation({ evaluation, job, amend, open }) {
  const { variants, cases, runs, times } = evaluation;
  const runsOf = (name, variant) => runs.filter((one) => one.case === name && one.variant === variant);
  return html`<section class="cost-table"><h2>Evaluation ${line(evaluation.name, 60)}</h2>
    <div class="wide-table" tabindex="0" role="region" aria-label="Variants"><table class="list">
      <thead><tr><th scope="col">Variant</th>${["Passed", "Points", "Turns", "Tokens", "Cost", "Time"].map((name) => html`<th scope="col" class="num">${name}</th>`)}</tr></thead>
      <tbody>${variants.map((row) => html`<tr key=${row.variant}><th scope="row">${line(row.variant, 60)}</th><td class="num">${row.passed} of ${row.runs}</td><td class="num">${isNone(row.points) ? "" : row.points.toFixed(2)}</td><td class="num">${row.turns}</td><td class="num">${count(row.tokens)}</td><td class="num">${cost(row.cost_usd)}</td><td class="num">${duration(row.seconds)}</td></tr>`)}</tbody></table></div>
    <div class="wide-table" tabindex="0" role="region" aria-label="Cases"><table class="list">
      <thead><tr><th scope="col">Case</th>${variants.map((row) => html`<th scope="col">${line(row.variant, 60)}</th>`)}</tr></thead>
      <tbody>${cases.map((row) => html`<tr key=${row.case}><th scope="row">${line(row.case, 60)}</th>${variants.map(({ variant }) => html`<td key=${variant}>${row.passed[variant]}/${times}
        ${runsOf(row.case, variant).map((one) => html` <button key=${one.job_id} type="button" class="more" disabled=${one.job_id === job.id} title=${line(one.score?.note ?? one.unscored, 300)} onClick=${() => amend({ beside: one.job_id })}>${one.job_id === job.id ? "this job" : verdict(one.score)}</button>
          <button type="button" class="more" aria-label=${`open ${one.case}, ${one.variant}`} onClick=${() => open({ job: one.job_id, panel: "compare" })}>↗</button>`)}</td>`)}</tr>`)}</tbody></table></div></section>`;
}

function Beside({ found }) {
  const figures = Object.entries(found.figures).map(([name, pair]) => [FIGURES[name] ?? name, pair.map(WRITE[name] ?? String)]);
  return html`<${Pairs} title="Figures" first="" rows=${figures} />
    <${Pairs} title="Calls of tools" first="Tool" rows=${Object.entries(found.tools)} />
    <${Pairs} title="Changed files" first="File" rows=${Object.entries(found.files)} />
    <section class="cost-table"><h2>Agents</h2><ul>${found.agents.map((one) => html`<li key=${one.place}>${line(one.place, 200)}: ${isNone(one.diverges) ? `the same, ${one.turns[0]} turns` : `parts at turn ${one.diverges}`}
      ${!isNone(one.diverges) && html`<div class="side-by-side">${one.replies.map((text, side) => html`<pre key=${side} aria-label=${side ? "the other job" : "this job"}>${reveal(text || "(nothing)")}</pre>`)}</div>`}</li>`)}
      ${found.only.map((places, side) => places.map((place) => html`<li key=${side + place}>only in ${side ? "the other job" : "this job"}: ${line(place, 200)}</li>`))}</ul></section>
    <section class="cost-table"><h2>Answers</h2><div class="side-by-side">${found.answers.map((text, side) => html`<pre key=${side} aria-label=${side ? "the other job" : "this job"}>${reveal(text || "(nothing)")}</pre>`)}</div></section>`;
}

function Pairs({ title, first, rows }) {
  if (!rows.length) return null;
  return html`<section class="cost-table"><h2>${title}</h2><div class="wide-table" tabindex="0" role="region" aria-label=${title}><table class="list">
    <thead><tr><th scope="col">${first || html`<span class="visually-hidden">Figure</span>`}</th><th scope="col" class="num">This job</th><th scope="col" class="num">The other job</th></tr></thead>
    <tbody>${rows.map(([name, [one, other]]) => html`<tr key=${name}><th scope="row">${line(name, 200)}</th><td class="num">${line(String(one), 60)}</td><td class="num">${line(String(other), 60)}</td></tr>`)}</tbody></table></div></section>`;
}
