// The board of a job's agents: its tasks in three columns, with their prerequisites.
import { html } from "../html.mjs";
import { clock } from "../format.mjs";
import { Markdown } from "../markdown.mjs";
import { line, plain } from "../plain.mjs";

const COLUMNS = [
  ["pending", "To do"],
  ["in_progress", "In progress"],
  ["completed", "Completed"],
];

export default function Board({ data, open, now }) {
  if (!data.tasks.length && !data.team) return html`<p class="empty">This job has no board yet: its agents put tasks on it.</p>`;
  return html`${data.team && html`<p class="team"><b>${line(data.team.name, 80)}</b> ${line(data.team.description, 300)}</p>`}
    <div class="board">${COLUMNS.map(([state, title]) => {
      const tasks = data.tasks.filter((task) => task.state === state);
      return html`<section key=${state} class=${`column c-${state}`} aria-labelledby=${`column-${state}`}><h2 id=${`column-${state}`}>${title} <span class="group-count">${tasks.length}</span></h2>
        <ul>${tasks.map((task) => html`<${Task} key=${task.number} task=${task} open=${open} now=${now} />`)}</ul></section>`;
    })}</div>`;
}

function Task({ task, open, now }) {
  const waits = task.waits_for ?? [];
  return html`<li class=${`task ${waits.length ? "task-waits" : ""}`}>
    <p class="task-head"><span class="task-number">#${task.number}</span> <b>${line(task.subject, 300)}</b></p>
    <p class="task-facts">${task.role && html`<span class="tag">for a ${plain(task.role)}</span>`}
      ${task.owner && html`<button type="button" class="more" onClick=${() => open({ agent: task.owner })}>${line(task.owner_name || task.owner, 60)}</button>`}
      ${waits.length > 0 && html`<span>waits for ${waits.map((number) => `#${number}`).join(", ")}</span>`}
      <span>${clock(task.changed ?? task.created, now)}</span></p>
    ${["description", "result", "notes"].filter((name) => task[name]).map((name) => html`<details key=${name} class="rest" open=${name === "result"}><summary>${name}</summary><${Markdown} text=${task[name]} /></details>`)}
  </li>`;
}
