// The open agent: its question first, then its transcript, its mail, and its order; below, a message to it.
import { about } from "./api.mjs";
import { activityInWords, cacheShare, clock, cost, count, duration, queueDelay, spent, tokens } from "./format.mjs";
import { html, useMemo, useState } from "./html.mjs";
import { Mail } from "./mail.mjs";
import { Panel } from "./panel.mjs";
import { line, plain, reveal } from "./plain.mjs";
import { QuestionBox } from "./question.mjs";
import { go } from "./route.mjs";
import { Cancel, ChooseModel, Effects, Send } from "./steer.mjs";
import { Transcript } from "./transcript.mjs";
import { findDiff, foldItems } from "./transcript_fold.mjs";
import { pathTo } from "./tree.mjs";
import { Fact, Failure, Link, Loading, State, Tabs, useTick } from "./ui.mjs";
import { serverNow, useWorld } from "./world.mjs";

export function AgentPane({ state, tree, route }) {
  const world = useWorld();
  const open = world.agent?.id === route.agent ? world.agent : null;
  const row = state.agents.get(route.agent) ?? open?.detail.agent;
  if (!row) return world.failed.agent ? html`<${Failure} error=${world.failed.agent} />` : html`<${Loading} what="the agent" />`;
  const tab = route.query.tab ?? "transcript";
  const panels = about.panels.filter((panel) => panel.scope === "agent");
  const tabs = [
    { name: "transcript", title: "Transcript" },
    { name: "mail", title: "Mail", count: row.unread },
    ...panels.map(({ name, title }) => ({ name, title })),
    { name: "about", title: "About" },
  ];
  const choose = (name) => go({ ...route, entry: null, query: { ...route.query, tab: name === "transcript" ? "" : name } });
  const panel = panels.find(({ name }) => name === tab);
  return html`<${Head} agent=${row} state=${state} tree=${tree} />
    ${world.failed.agent && html`<${Failure} error=${world.failed.agent} />`}
    <${Tabs} label="the agent" class="agent-tabs" tabs=${tabs} chosen=${tab} choose=${choose}>
      ${
        !open
          ? html`${tab === "transcript" && html`<${Questions} state=${state} id=${row.id} />`}<${Loading} what="the agent" />`
          : panel
            ? html`<div class="scroll"><${Panel} key=${panel.name} panel=${panel} state=${state} route=${route} agent=${row} /></div>`
            : tab === "mail"
              ? html`<div class="scroll"><${Mail} agent=${open} job=${state} /></div>`
              : tab === "about"
                ? html`<div class="scroll"><${About} detail=${open.detail} agent=${row} /></div>`
                : html`<${Conversation} open=${open} state=${state} route=${route} />`
      }
    <//>
    ${open && html`<footer class="steer"><${Effects} agent=${open} />${about.read_only ? html`<p class="read-only">Flower is read-only: nothing can be sent, answered or cancelled here.</p>` : html`<${Send} job=${state} agent=${row} />`}</footer>`}`;
}

function Conversation({ open, state, route }) {
  const folded = useMemo(() => foldItems(open.entries), [open.entries]);
  return html`<${Questions} state=${state} id=${open.id} open=${open} folded=${folded} />
    <${Transcript} key=${open.id} agent=${open} folded=${folded} agents=${state.agents} job=${state.id} entry=${route.entry} />`;
}

function Questions({ state, id, open, folded }) {
  const asked = state.questions.filter((question) => question.agent_id === id);
  return (
    asked.length > 0 &&
    html`<div class="questions">${asked.map((question) => html`<${QuestionBox} key=${question.id} question=${question} called=${called(state.agents.get(question.to))} diff=${folded ? findDiff(open.entries, folded.calls, question) : null} />`)}</div>`
  );
}

const called = (agent) => (agent ? agent.name || agent.label : "");

function Head({ agent, state, tree }) {
  useTick();
  const [ends, setEnds] = useState(false);
  const [chooses, setChooses] = useState(false);
  const sums = tree.sums.get(agent.id);
  const now = serverNow();
  const delay = queueDelay(agent, now);
  const back = { job: state.id, query: {} };
  const told = agent.reason || [agent.summary, activityInWords(agent)].filter(Boolean).join(" · ");
  return html`<header class="agent-head">
    <nav class="crumbs agent-crumbs" aria-label="Above this agent"><span class="only-narrow"><${Link} to=${back}>‹ Agents<//></span>
      ${pathTo(state.agents, agent.id).map((id) => html`<${Link} key=${id} to=${{ job: state.id, agent: id }}>${line(state.agents.get(id).label || "root", 40)}<//>`)}</nav>
    <div class="agent-title"><h2>${agent.name && html`<span class="agent-name">${plain(agent.name)}</span> `}${line(agent.label, 200) || agent.id}</h2>
      ${!about.read_only && agent.model && html`<button type="button" class="btn btn-sm sw-plain" onClick=${() => setChooses(true)}>Model …</button>`}
      ${!about.read_only && sums?.alive > 0 && html`<button type="button" class="btn btn-sm sw-no" onClick=${() => setEnds(true)}>Cancel …</button>`}</div>
    <p class="agent-state"><${State} agent=${agent} /> ${told ? html`<span class="row-aside">${line(told, 300)}</span>` : null}</p>
    <dl class="facts facts-small">
      <${Fact} name="Turns">${agent.turns}<//><${Fact} name="Tokens">${count(tokens(agent))}<//>
      <${Fact} name="Cached">${cacheShare(agent) || "–"}<//>
      <${Fact} name="Cost">${cost(spent(agent), agent.unpriced_tokens)}${agent.rehearsed ? html` <span class="aside">rehearsed</span>` : null}${sums?.agents > 1 ? html` <span class="aside">${cost(sums.cost)} with ${sums.agents - 1} below</span>` : null}<//>
      <${Fact} name="In the queue" title="Total time in the queue">${duration(delay)}<//>
      <${Fact} name="Since it began">${agent.started_at ? duration((agent.ended_at ?? now) - agent.started_at) : "–"}<//>
    </dl>
    ${chooses && html`<${ChooseModel} agent=${agent} close=${() => setChooses(false)} />`}
    ${ends && html`<${Cancel} agent=${agent} sums=${sums} close=${() => setEnds(false)} />`}
  </header>`;
}

function About({ detail, agent }) {
  const { spec } = detail;
  const limits = Object.entries(spec.limits ?? {}).filter(([, value]) => value !== null);
  const rows = [
    ["Id", agent.id],
    ["Definition", agent.definition],
    ["Name", spec.name],
    ["Role", spec.role],
    ["Model", agent.model || spec.model],
    ["Takes over", (spec.fallbacks ?? []).join(", ")],
    ["Mode", spec.mode],
    ["Workspace", spec.workspace],
    ["Folders", (spec.folders ?? []).join(", ")],
    ["Network", spec.network ? "allowed" : "none"],
    ["Worker", agent.worker],
    ["Made", clock(agent.created_at, serverNow())],
    ["Limits", limits.map(([name, value]) => `${name} ${value}`).join(", ")],
    ["Tools", (spec.tools ?? []).join(", ")],
  ].filter(([, value]) => value);
  return html`<dl class="about">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${reveal(value)}</dd>`)}<dt>Prompt</dt><dd><pre class="output" tabindex="0">${reveal(spec.prompt)}</pre></dd></dl>`;
}
