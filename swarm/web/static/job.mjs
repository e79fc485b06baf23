// One job: its figures, its open questions, and below them the tree with the open agent, or a panel.
import { about } from "./api.mjs";
import { AgentPane } from "./agent.mjs";
import { cacheShare, cost, count, elapsed, number, spent, tokens } from "./format.mjs";
import { html, useEffect, useMemo, useState } from "./html.mjs";
import { Inbox } from "./inbox.mjs";
import { Meter, atWork } from "./jobs.mjs";
import { Panel } from "./panel.mjs";
import { line, reveal } from "./plain.mjs";
import { amend, go } from "./route.mjs";
import { buildTree, pathTo } from "./tree.mjs";
import { TreeView } from "./treeview.mjs";
import { Empty, Fact, Failure, Link, Loading, State, Tabs, useTick } from "./ui.mjs";
import { serverNow, useWorld } from "./world.mjs";

export function Job({ route }) {
  const { job: state, failed } = useWorld();
  if (!state)
    return failed.job
      ? html`<div class="scroll"><${Failure} error=${failed.job}><${Link} to=${{}}>All jobs<//><//></div>`
      : html`<${Loading} what="the job" />`;
  const chosen = route.query.panel ?? "agents";
  const hasWorkflow = [...state.agents.values()].some((agent) => agent.workflow);
  const panels = about.panels.filter((panel) => panel.scope === "job" && (hasWorkflow || panel.name !== "workflow"));
  const tabs = [
    { name: "agents", title: "Agents" },
    ...panels.map(({ name, title }) => ({ name, title })),
    { name: "messages", title: "Messages", count: state.job.unread },
  ];
  const panel = panels.find(({ name }) => name === chosen);
  return html`<div class=${`job ${route.agent ? "has-agent" : ""} shows-${panel ? "panel" : chosen}`}>
    <${Head} state=${state} failed=${failed.job} />
    <${Tabs} label="the job" class="job-tabs" tabs=${tabs} chosen=${chosen} choose=${(name) => choosePanel(route, name)}>
      ${
        panel
          ? html`<div class="panel scroll"><${Panel} key=${panel.name} panel=${panel} state=${state} route=${route} /></div>`
          : chosen === "messages"
            ? html`<div class="panel scroll"><${Inbox} state=${state} /></div>`
            : html`<${Agents} state=${state} route=${route} />`
      }
    <//>
  </div>`;
}

function choosePanel(route, name) {
  go({ job: route.job, agent: route.agent, query: name === "agents" ? {} : { panel: name } });
}

function Head({ state, failed }) {
  useTick();
  const { job } = state;
  const asks = state.questions.filter((question) => !question.to);
  const lasted = elapsed((job.ended_at ?? serverNow()) - job.created_at);
  return html`<header class="job-head">
    <nav aria-label="Where you are" class="crumbs"><${Link} to=${{}}>Jobs<//></nav>
    <h1 class="job-name" title=${line(job.title, 1000)}>${line(job.title, 200) || job.id}</h1>
    <dl class="facts">
      <${Fact} name="State"><${State} state=${job.state} />${job.reason ? html` <span class="aside">${line(job.reason, 160)}</span>` : null}<//>
      <${Fact} name="Agents">${job.agents}${job.ended_at ? "" : html` <span class="aside">${atWork(job)}</span>`}<//>
      <${Fact} name="Cost">${cost(spent(job), job.unpriced_tokens)}${job.rehearsed ? html` <span class="aside">rehearsed</span>` : null}${job.budget_usd ? html` <span class="aside">of ${cost(job.budget_usd)}</span>` : null}<${Meter} of=${job.budget_usd} used=${spent(job)} /><//>
      <${Fact} name="Tokens">${count(tokens(job))}${cacheShare(job) ? html` <span class="aside">${cacheShare(job)} cached</span>` : null}<//>
      <${Fact} name="Turns">${job.turns}<//>
      <${Fact} name="Time">${lasted}<//>
    </dl>
    ${job.digest && html`<p class="aside">${reveal(job.digest)}</p>`}
    ${failed && html`<${Failure} error=${failed} />`}
    ${job.unserved && html`<p class="notice notice-warn">No worker takes the queued agents: ${line(job.unserved, 300)}</p>`}
    ${asks.length > 0 && html`<${Asking} job=${job} asks=${asks} />`}
  </header>`;
}

const TOLD = 3;

/** Open questions for the person, each a link to the answer. */
function Asking({ job, asks }) {
  return html`<div class="asking"><span class="asking-count">${number(asks.length, "question")} for you</span>
    <ul>${asks.slice(0, TOLD).map((question) => html`<li key=${question.id}><${Link} to=${{ job: job.id, agent: question.agent_id }}>${line(question.label, 60)}: ${line(question.title, 100)}<//></li>`)}
    ${asks.length > TOLD && html`<li>and ${asks.length - TOLD} more</li>`}</ul></div>`;
}

function Agents({ state, route }) {
  const [folded, setFolded] = useState(() => new Set());
  const tree = useMemo(() => buildTree(state.agents, state.questions), [state.agents, state.questions]);
  const fold = useMemo(
    () => (id, close) =>
      setFolded((before) => {
        const next = new Set(before);
        if (close) next.add(id);
        else next.delete(id);
        return next;
      }),
    [],
  );
  useEffect(() => {
    // show the open agent in the tree
    const above = pathTo(state.agents, route.agent).filter((id) => folded.has(id));
    if (above.length) setFolded((before) => new Set([...before].filter((id) => !above.includes(id))));
  }, [route.agent]);
  const hide = route.query.hide === "over";
  return html`<div class="split">
    <section class="pane tree-pane" aria-label="Agents of the job">
      <div class="pane-head"><span>${state.left ? `${state.agents.size} of ` : ""}${number(state.agents.size + state.left, "agent")}</span>
        <label class="check"><input type="checkbox" checked=${hide} onChange=${() => amend({ hide: hide ? "" : "over" })} /> hide ended agents</label></div>
      <${TreeView} tree=${tree} route=${route} folded=${folded} fold=${fold} />
    </section>
    <section class="pane agent-pane" aria-label="The open agent">
      ${route.agent ? html`<${AgentPane} key=${route.agent} state=${state} tree=${tree} route=${route} />` : html`<${Empty}>Choose an agent.<//>`}
    </section>
  </div>`;
}
