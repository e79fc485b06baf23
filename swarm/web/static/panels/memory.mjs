// The memory of a job's project across jobs: pages by memory store, one page with its versions, and taking back this job's changes.
import { html } from "../html.mjs";
import { clock, count } from "../format.mjs";
import { Markdown } from "../markdown.mjs";
import { line, plain } from "../plain.mjs";

export default function Memory({ data, query, amend, open, act, reload, readOnly, now }) {
  if (data.page) return html`<${Page} data=${data} amend=${amend} open=${open} now=${now} />`;
  if (query.page || !data.memory_stores) return html`<p class="loading" aria-busy="true">Loading the page …</p>`;
  const memory_stores = data.memory_stores.filter((memory_store) => memory_store.pages.length);
  if (!memory_stores.length)
    return html`<p class="empty">Memory is empty: agents whose definition has <code>memory:</code> write pages that later jobs can read.</p>`;
  const wrote = memory_stores.some((memory_store) => memory_store.pages.some((page) => page.job === data.job));
  const forget = async () => {
    if (!confirm("Take back this job's changes to memory? Changes of other jobs stay.")) return;
    await act("forget", {});
    reload();
  };
  return html`${wrote && !readOnly && html`<p><button type="button" class="more" onClick=${forget}>Take back this job's changes</button></p>`}
    ${memory_stores.map(
      (memory_store) => html`<section key=${memory_store.id}><h2>${plain(memory_store.id)}</h2>
      <table class="list"><thead><tr><th scope="col">Page</th><th scope="col">About</th><th scope="col">Last written by</th><th scope="col">When</th><th scope="col" class="num">Size</th></tr></thead>
      <tbody>${memory_store.pages.map(
        (
          page,
        ) => html`<tr key=${page.name}><th scope="row"><button type="button" class="more" onClick=${() => amend({ memory_store: memory_store.id, page: page.name })}>${plain(page.name)}</button></th>
        <td>${line(page.title, 120)}</td><td>${line(page.by, 60)}${page.job === data.job ? " (this job)" : ""}</td><td>${clock(page.at, now)}</td><td class="num">${count(page.size)}</td></tr>`,
      )}</tbody></table></section>`,
    )}`;
}

function Page({ data, amend, open, now }) {
  const { page, text, versions } = data;
  return html`<article class="pad-page"><button type="button" class="more" onClick=${() => amend({ page: "", memory_store: "" })}>‹ All pages</button>
    <h2>${plain(page.name)}</h2><p class="aside">${plain(data.memory_store)}, version ${page.version}</p>
    <${Markdown} text=${text} />
    <details class="rest"><summary>Versions</summary><ul>${versions.map(
      (each) => html`<li key=${each.version}>${each.version}: ${plain(each.op)} by ${line(each.by, 60)}, ${clock(each.at, now)}
      ${each.job && html` <button type="button" class="more" onClick=${() => open({ job: each.job, agent: each.agent })}>${plain(each.job)}</button>`}</li>`,
    )}</ul></details></article>`;
}
