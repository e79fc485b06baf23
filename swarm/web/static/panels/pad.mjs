// The scratchpad: its pages, and the page that the address names.
import { html } from "../html.mjs";
import { clock, count } from "../format.mjs";
import { Markdown } from "../markdown.mjs";
import { line, plain } from "../plain.mjs";

export default function Pad({ data, query, amend, open, now }) {
  if (data.page) return html`<${Page} page=${data.page} text=${data.text} amend=${amend} open=${open} now=${now} />`;
  if (query.page || !data.pages) return html`<p class="loading" aria-busy="true">Loading the page …</p>`;
  if (!data.pages.length)
    return html`<p class="empty">The scratchpad is empty: agents of this job write pages that all of them can read.</p>`;
  return html`<table class="list"><thead><tr><th scope="col">Page</th><th scope="col">Last written by</th><th scope="col">When</th><th scope="col" class="num">Version</th><th scope="col" class="num">Size</th></tr></thead>
    <tbody>${data.pages.map(
      (
        page,
      ) => html`<tr key=${page.name}><th scope="row"><button type="button" class="more" onClick=${() => amend({ page: page.name })}>${plain(page.name)}</button></th>
      <td>${line(page.by_name || page.by, 60)}</td><td>${clock(page.at, now)}</td><td class="num">${page.version}</td><td class="num">${count(page.size)}</td></tr>`,
    )}</tbody></table>`;
}

function Page({ page, text, amend, open, now }) {
  return html`<article class="pad-page"><button type="button" class="more" onClick=${() => amend({ page: "" })}>‹ All pages</button>
    <h2>${plain(page.name)}</h2><p class="aside">version ${page.version}, written ${clock(page.at, now)} by <button type="button" class="more" onClick=${() => open({ agent: page.by })}>${line(page.by_name || page.by, 60)}</button></p>
    <${Markdown} text=${text} /></article>`;
}
