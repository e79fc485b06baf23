// All jobs, grouped by their need of the person. The address holds the filter.
import { about } from "./api.mjs";
import { ago, cacheShare, cost, count, elapsed, number, spent, tokens } from "./format.mjs";
import { html, memo } from "./html.mjs";
import { line } from "./plain.mjs";
import { amend } from "./route.mjs";
import { Empty, Failure, Link, Loading, State, useAct, useTick } from "./ui.mjs";
import { fetchOlder, serverNow, useWorld } from "./world.mjs";

const GROUPS = [
  { name: "needs_you", title: "Needs you", none: "No job waits for you." },
  { name: "running", title: "Running", none: "No job is running." },
  { name: "ended", title: "Ended", none: "No job has ended yet." },
];

export function Jobs({ route }) {
  const world = useWorld();
  useTick(5000);
  const { show = "", q = "" } = route.query;
  if (!world.fleet) return world.failed.fleet ? html`<${Failure} error=${world.failed.fleet} />` : html`<${Loading} what="jobs" />`;
  const all = [...world.fleet.jobs.values()].sort((one, other) => other.created_at - one.created_at);
  const found = all.filter((job) => matches(job, q));
  const groups = GROUPS.filter(({ name }) => !show || show === name).map((group) => ({
    ...group,
    jobs: found.filter((job) => job.group === group.name),
  }));
  return html`<div class="jobs scroll">
    <header class="jobs-head">
      <h1>Jobs</h1>
      <${Filter} show=${show} q=${q} jobs=${found} />
      ${about.panels.filter((panel) => panel.scope === "fleet").map(({ name, title }) => html`<${Link} key=${name} class="btn btn-sm" to=${{ view: "fleet", panel: name }}>${title}<//>`)}
      ${about.read_only ? html`<span class="read-only">Flower is read-only</span>` : html`<${Link} class="btn btn-sm btn-primary" to=${{ view: "start" }}>Start a job<//>`}
    </header>
    ${all.length === 0 ? html`<${Empty}>There is no job yet. Start one here, or with <code>swarm run</code>.<//>` : groups.map((group) => html`<${Group} key=${group.name} group=${group} filtered=${Boolean(q)} />`)}
    ${world.fleet.last && html`<${Older} amount=${all.length} />`}
  </div>`;
}

/** Older jobs, which are not loaded yet and which the filter cannot find. */
function Older({ amount }) {
  const act = useAct();
  return html`<p class="aside">These are the newest ${amount} jobs. <button type="button" class="more" disabled=${act.busy} onClick=${() => act.run(fetchOlder, () => "Older jobs are shown")}>Show older ones</button>
    ${act.error && html`<${Failure} error=${act.error} />`}</p>`;
}

function matches(job, q) {
  const text = `${job.title} ${job.workspace} ${job.id} ${job.state} ${job.map}`.toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function Filter({ show, q, jobs }) {
  const amount = (name) => jobs.filter((job) => !name || job.group === name).length;
  const choices = [{ name: "", title: "All" }, ...GROUPS];
  return html`<form class="filter" role="search" onSubmit=${(event) => event.preventDefault()}>
    <input class="form-control form-control-sm" type="search" aria-label="Filter jobs by title, folder or id" placeholder="Filter" value=${q} onInput=${(event) => amend({ q: event.target.value })} />
    <div class="choices" role="group" aria-label="Show">
      ${choices.map(({ name, title }) => html`<button type="button" key=${name} class="choice" aria-pressed=${String(show === name)} onClick=${() => amend({ show: name })}>${title} <span class="choice-count">${amount(name)}</span></button>`)}
    </div>
  </form>`;
}

function Group({ group, filtered }) {
  if (!group.jobs.length && (filtered || group.name === "ended")) return null;
  const now = serverNow();
  return html`<section class="job-group" aria-labelledby=${`group-${group.name}`}>
    <h2 id=${`group-${group.name}`} class=${`group-title g-${group.name}`}>${group.title} <span class="group-count">${group.jobs.length}</span></h2>
    ${group.jobs.length ? html`<ul class="job-list">${group.jobs.map((job) => html`<${JobRow} key=${job.id} job=${job} age=${age(job, now)} />`)}</ul>` : html`<${Empty}>${group.none}<//>`}
  </section>`;
}

const age = (job, now) =>
  job.ended_at ? `took ${elapsed(job.ended_at - job.created_at)}, ended ${ago(now - job.ended_at)}` : elapsed(now - job.created_at);

const JobRow = memo(({ job, age }) => {
  const share = cacheShare(job);
  return html`<li class="job-row">
    <${Link} class="job-link" to=${{ job: job.id }}><span class="job-title">${line(job.title, 160) || job.id}</span><//>
    <span class="job-what">
      <${State} state=${job.state} />
      ${job.questions > 0 && html`<span class="bubble b-asks">${number(job.questions, "question")}</span>`}
      ${job.unread > 0 && html`<span class="bubble b-asks">${number(job.unread, "message")}</span>`}
      ${job.map && html`<button type="button" class="more job-map" title="Show only the jobs of this map" onClick=${() => amend({ q: job.map })}>${job.map}</button>`}
      ${job.reason && html`<span class="job-reason">${line(job.reason, 160)}</span>`}
      <span class="job-age">${age}</span>
      <span class="job-folder">${line(job.workspace, 120)}</span>
    </span>
    <span class="job-figures">
      <span class="figure"><b>${number(job.agents, "agent")}</b> ${job.ended_at ? "" : html`<span>${atWork(job)}</span>`}</span>
      <span class="figure"><b>${cost(spent(job), job.unpriced_tokens)}</b>${" "}<span>${[job.budget_usd && `of ${cost(job.budget_usd)}`, job.rehearsed && "rehearsed"].filter(Boolean).join(", ")}</span><${Meter} of=${job.budget_usd} used=${spent(job)} /></span>
      <span class="figure"><b>${count(tokens(job))} tokens</b> <span>${share && `${share} cached`}</span></span>
    </span>
  </li>`;
});

/** How many of a job's agents are at work, in words. */
export function atWork({ running, queued }) {
  return running || queued ? [running && `${running} running`, queued && `${queued} queued`].filter(Boolean).join(", ") : "none at work";
}

/** The used part of a limit; nothing without a limit. */
export function Meter({ used, of, name = "budget used" }) {
  if (!of) return null;
  const share = Math.min(1, used / of);
  return html`<span class=${`meter ${share > 0.8 ? "meter-high" : ""}`} role="meter" aria-label=${name} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(share * 100)}>
    <span ref=${(node) => node && (node.style.width = `${share * 100}%`)}></span></span>`;
}
