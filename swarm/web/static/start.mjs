// Start a job: the task, the folder, the agent; the rest has the server's defaults.
import { about, get, post } from "./api.mjs";
import { html, useEffect, useState } from "./html.mjs";
import { line, plain } from "./plain.mjs";
import { amend, go } from "./route.mjs";
import { Empty, Failure, Link, Loading, useAct, useDraft } from "./ui.mjs";
import { sendOnEnter } from "./question.mjs";

const LIMITS = [
  ["budget_usd", "Budget (dollars)", "0.01"],
  ["timeout_seconds", "Time limit (seconds)", "1"],
  ["max_depth", "Nesting", "1"],
  ["max_agents", "Agents in all", "1"],
  ["max_running", "Running at once", "1"],
  ["max_turns", "Turns of an agent", "1"],
  ["max_tokens", "Tokens", "1"],
  ["max_resumes", "Times an agent may continue", "1"],
];

export function Start({ route }) {
  const [offer, setOffer] = useState(null);
  const act = useAct();
  const { workspace = "" } = route.query;
  useEffect(() => {
    let current = true;
    get("start", { workspace }).then(
      (found) => current && setOffer(found),
      (error) => current && setOffer({ error }),
    );
    return () => (current = false);
  }, [workspace]);
  if (about.read_only) return html`<${Empty}>Flower is read-only: start jobs with <code>swarm run</code>.<//>`;
  if (!offer) return html`<${Loading} what="the options" />`;
  return html`<div class="scroll start"><nav class="crumbs" aria-label="Where you are"><${Link} to=${{}}>Jobs<//></nav><h1>Start a job</h1>
    ${offer.error && html`<${Failure} error=${offer.error} />`}
    <${Form} offer=${offer.error ? {} : offer} workspace=${workspace} act=${act} /></div>`;
}

function Form({ offer, workspace, act }) {
  const [prompt, setPrompt] = useDraft("start");
  const [repo, setRepo] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target.closest("form");
    if (!form.reportValidity() || act.busy) return;
    const found = await act.run(
      () => post("jobs", readForm(new FormData(form), offer)),
      ({ warnings = [] }) => ["The job has begun", ...warnings.map(plain)].join(". "),
    );
    if (!found) return;
    setPrompt("");
    go({ job: found.job.id });
  };
  const chosen = workspace || offer.workspaces?.[0] || "";
  return html`<form class="start-form" onSubmit=${submit}>
    ${(offer.warnings ?? []).map((warning) => html`<p class="notice notice-warn">${plain(warning)}</p>`)}
    <label class="field field-wide">Task<textarea class="form-control" name="prompt" rows="6" required value=${prompt} onInput=${(event) => setPrompt(event.target.value)} onKeyDown=${(event) => sendOnEnter(event, submit)}></textarea></label>
    <label class="field field-wide">Folder it works in<input class="form-control" name="workspace" list="workspaces" required=${!repo} value=${chosen} onChange=${(event) => amend({ workspace: event.target.value })} /></label>
    <div class="fields"><label class="field">Or a repository<input class="form-control" name="repo" placeholder="owner/name, URL or path, with @REF" value=${repo} onInput=${(event) => setRepo(event.target.value.trim())} /></label>
      <label class="field">Branch for the work<input class="form-control" name="branch" placeholder="swarm/JOB" /></label>
      <label class="check"><input type="checkbox" name="pr" /> open a pull request</label></div>
    <datalist id="workspaces">${(offer.workspaces ?? []).map((each) => html`<option value=${each}></option>`)}</datalist>
    <div class="fields">
      <${Choice} name="agent" title="Agent" options=${(offer.agents ?? []).map((agent) => [agent.name, `${plain(agent.name)}: ${line(agent.description, 60)}`])} chosen=${offer.default_agent} />
      <${Choice} name="model" title="Model" options=${(offer.models ?? []).map((model) => [model, model])} chosen=${offer.default_model} />
      <${Choice} name="mode" title="Mode" options=${(offer.modes ?? about.modes).map((mode) => [mode, mode])} chosen=${offer.default_mode} />
    </div>
    <details class="rest"><summary>Limits, rules and the rest</summary>
      <div class="fields">${LIMITS.map(([name, title, step]) => html`<label class="field" key=${name}>${title}<input class="form-control form-control-sm" type="number" min="0" step=${step} name=${`limit ${name}`} placeholder=${offer.limits?.[name] ?? "no limit"} /></label>`)}</div>
      <div class="fields"><label class="field">Title<input class="form-control form-control-sm" name="title" /></label>
        <label class="field">Wait for answers (seconds)<input class="form-control form-control-sm" type="number" min="0" name="ask_seconds" /></label></div>
      <div class="fields">${["allow", "ask", "deny"].map((rule) => html`<label class="field" key=${rule}>Rules: ${rule} (one a line)<textarea class="form-control form-control-sm" rows="2" name=${rule}></textarea></label>`)}</div>
      <label class="check"><input type="checkbox" name="network" /> the network may be used</label>
    </details>
    ${act.error && html`<${Failure} error=${act.error} />`}
    <div class="buttons"><button type="submit" class="btn btn-primary" disabled=${act.busy}>Start</button></div>
  </form>`;
}

const Choice = ({
  name,
  title,
  options,
  chosen,
}) => html`<label class="field">${title}<select class="form-select" name=${name} key=${chosen}>
  ${options.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === chosen}>${text}</option>`)}</select></label>`;

/** The request's body without empty fields, so that the server's defaults apply. */
function readForm(data, offer) {
  const body = { prompt: data.get("prompt"), network: data.has("network") };
  const repo = (data.get("repo") ?? "").trim();
  if (repo) Object.assign(body, { repo, pr: data.has("pr") }, data.get("branch") ? { branch: data.get("branch") } : {});
  else body.workspace = data.get("workspace");
  for (const name of ["agent", "model", "mode", "title"]) if (data.get(name)) body[name] = data.get(name);
  // The definition's own model, and the type that the prompt addresses, unless others were chosen.
  for (const name of ["agent", "model"]) if (body[name] === offer[`default_${name}`]) delete body[name];
  if (data.get("ask_seconds")) body.ask_seconds = Number(data.get("ask_seconds"));
  const limits = LIMITS.map(([name]) => [name, data.get(`limit ${name}`)]).filter(([, value]) => value);
  if (limits.length) body.limits = Object.fromEntries(limits.map(([name, value]) => [name, Number(value)]));
  for (const rule of ["allow", "ask", "deny"]) {
    const lines = (data.get(rule) ?? "")
      .split("\n")
      .map((each) => each.trim())
      .filter(Boolean);
    if (lines.length) body[rule] = lines;
  }
  return body;
}
