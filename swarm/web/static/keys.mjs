// The page's keys, and the dialog that lists them.
import { html, useEffect, useState } from "./html.mjs";
import { currentRoute, go } from "./route.mjs";
import { Dialog, say } from "./ui.mjs";
import { world } from "./world.mjs";

const KEYS = [
  ["↑ ↓", "in the tree: the agent above, below; Page up and Page down: ten of them"],
  ["→ ←", "in the tree: unfold, or to the first child; fold, or to the parent"],
  ["Home, End", "in the tree: the first, the last agent"],
  ["letters", "in the tree: the next agent whose name begins with them"],
  ["Enter", "in the tree: open the agent"],
  ["← →", "in tabs: the tab before, after"],
  ["Ctrl Enter", "in a text: send it"],
  [".", "open the next agent that asks you"],
  ["Escape", "back: from a text to the page, from a panel to the tree, from the agent to the job, from the job to all jobs"],
  ["?", "these keys"],
];

/** Listens to keys while it is drawn. */
export function Keys() {
  const [shown, show] = useState(false);
  useEffect(() => {
    const hear = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      const typing = event.target.matches?.("input, textarea, select");
      if (event.key === "Escape") typing ? event.target.blur() : back();
      else if (typing) return;
      else if (event.key === "?") show(true);
      else if (event.key === ".") nextQuestion();
    };
    addEventListener("keydown", hear);
    return () => removeEventListener("keydown", hear);
  }, []);
  return shown
    ? html`<${Dialog} title="Keys" close=${() => show(false)}>
    <dl class="keys">${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
    <form method="dialog"><button class="btn btn-sm sw-plain">Close</button></form><//>`
    : html`<button type="button" class="keys-button" aria-label="Keys" title="Keys (?)" onClick=${() => show(true)}>?</button>`;
}

function back() {
  const { view, job, agent, entry, query } = currentRoute();
  if (view === "jobs") return;
  if (view === "start" || (!query.panel && !query.tab && !entry && !inAgent(agent))) go({});
  else if (query.panel || query.tab || entry) go({ job, agent, query: {} });
  else if (matchMedia("(min-width: 60rem)").matches) document.querySelector('[role="treeitem"][tabindex="0"]')?.focus();
  else go({ job });
}

/** Whether going back leaves the agent's pane: if both are shown side by side, from it to the tree. */
function inAgent(agent) {
  if (!agent) return false;
  return !matchMedia("(min-width: 60rem)").matches || Boolean(document.activeElement?.closest(".agent-pane"));
}

function nextQuestion() {
  const asks = (world.job?.questions ?? []).filter((question) => !question.to);
  const at = asks.findIndex((question) => question.agent_id === currentRoute().agent);
  const next = asks[(at + 1) % asks.length];
  if (next) go({ job: next.job_id, agent: next.agent_id });
  else say("No agent asks you here");
}
