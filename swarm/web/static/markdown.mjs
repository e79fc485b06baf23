// Markdown of models as elements: headings, paragraphs, lists, quotes, tables, code, emphasis. No images, no HTML, and no links that
// can be followed: an address is shown as text. Unknown syntax stays as it was written.
import { html } from "./html.mjs";
import { plain, reveal } from "./plain.mjs";

const FENCE = /^\s*(```+|~~~+)\s*([\w+-]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const QUOTE = /^\s*>\s?(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/;
const WRAPPED = /([^\n]{60,})\n(?=\S)/g; // a long line was wrapped by its writer's window; the end of a short one is intended
const DEEPEST = 12; // nesting of quotes and lists
const LONGEST = 20_000; // characters; longer text is shown as it is

/** The text's blocks as elements. */
export function Markdown({ text }) {
  const given = String(text ?? "").replaceAll("\r", "");
  if (given.length > LONGEST) return html`<pre class="output">${reveal(given)}</pre>`;
  return html`<div class="markdown">${readBlocks(given.split("\n"), 0)}</div>`;
}

function readBlocks(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    const reader = depth < DEEPEST && READERS.find(({ begins }) => begins(lines, at));
    const [block, next] = (reader?.read ?? readParagraph)(lines, at, depth);
    if (block) blocks.push(block);
    at = next;
  }
  return blocks;
}

const READERS = [
  { begins: (lines, at) => !lines[at].trim(), read: (lines, at) => [null, at + 1] },
  { begins: (lines, at) => FENCE.test(lines[at]), read: readFence },
  { begins: (lines, at) => HEADING.test(lines[at]), read: readHeading },
  { begins: (lines, at) => RULE.test(lines[at]), read: (lines, at) => [html`<hr />`, at + 1] },
  { begins: (lines, at) => QUOTE.test(lines[at]), read: readQuote },
  { begins: (lines, at) => ITEM.test(lines[at]), read: readList },
  { begins: (lines, at) => lines[at].includes("|") && DIVIDER.test(lines[at + 1] ?? ""), read: readTable },
];

function readFence(lines, at) {
  const mark = FENCE.exec(lines[at])[1];
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end++;
  return [html`<pre class="code"><code>${reveal(lines.slice(at + 1, end).join("\n"))}</code></pre>`, end + 1];
}

function readHeading(lines, at) {
  const [, marks, text] = HEADING.exec(lines[at]);
  // Below the page's own headings, at any level.
  return [
    html`<p class=${`md-h md-h${Math.min(marks.length, 4)}`} role="heading" aria-level=${Math.min(6, marks.length + 3)}>${readSpans(text)}</p>`,
    at + 1,
  ];
}

function readQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  return [
    html`<blockquote>${readBlocks(
      lines.slice(at, end).map((line) => QUOTE.exec(line)[1]),
      depth + 1,
    )}</blockquote>`,
    end,
  ];
}

function readList(lines, at, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const items = [];
  let end = at;
  for (; end < lines.length; end++) {
    const found = ITEM.exec(lines[end]);
    if (found && found[1].length <= indent.length) {
      if (/\d/.test(found[2]) !== /\d/.test(mark)) break;
      items.push([found[3]]);
    } else if (!lines[end].trim() ? !/^\s+\S/.test(lines[end + 1] ?? "") && !ITEM.test(lines[end + 1] ?? "") : !/^\s/.test(lines[end]))
      break;
    else items.at(-1).push(lines[end].slice(Math.min(indent.length + 2, lines[end].search(/\S|$/))));
  }
  const made = items.map((item) => html`<li>${tight(readBlocks(item, depth + 1))}</li>`);
  return [/\d/.test(mark) ? html`<ol start=${parseInt(mark, 10)}>${made}</ol>` : html`<ul>${made}</ul>`, end];
}

/** An item of one paragraph is its text. */
function tight(blocks) {
  return blocks.length && blocks[0].type === "p" && !blocks[0].props.class ? [blocks[0].props.children, ...blocks.slice(1)] : blocks;
}

function readTable(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end++;
  const [head, ...rows] = [lines[at], ...lines.slice(at + 2, end)].map(readCells);
  const body = rows.map((row) => html`<tr>${head.map((_, column) => html`<td>${readSpans(row[column] ?? "")}</td>`)}</tr>`);
  const made = html`<table><thead><tr>${head.map((cell) => html`<th scope="col">${readSpans(cell)}</th>`)}</tr></thead><tbody>${body}</tbody></table>`;
  return [html`<div class="md-table" tabindex="0" role="region" aria-label="table">${made}</div>`, end];
}

const readCells = (line) =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => cell.trim());

function readParagraph(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && !(depth < DEEPEST && READERS.some(({ begins }) => begins(lines, end)))) end++;
  return [html`<p>${readSpans(lines.slice(at, end).join("\n").replace(WRAPPED, "$1 "))}</p>`, end];
}

// -- within a line -----------------------------------------------------------------------------------------

const SPAN =
  /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([^\n]*?\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![\w*])|~~(?=\S)([^\n~]*\S)~~|!?\[([^\]\n]*)\]\(([^)\s]*)[^)\n]*\)/;

function readSpans(text, depth = 0) {
  const parts = [];
  let rest = text;
  for (let found = SPAN.exec(rest); found && depth < DEEPEST; found = SPAN.exec(rest)) {
    if (found.index) parts.push(reveal(rest.slice(0, found.index)));
    parts.push(makeSpan(found, depth + 1));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest) parts.push(reveal(rest));
  return parts;
}

function makeSpan([all, , code, strong, emphasis, struck, label, target], depth) {
  if (code !== undefined) return html`<code>${reveal(code.trim() || code)}</code>`;
  if (strong !== undefined) return html`<strong>${readSpans(strong, depth)}</strong>`;
  if (emphasis !== undefined) return html`<em>${readSpans(emphasis, depth)}</em>`;
  if (struck !== undefined) return html`<s>${readSpans(struck, depth)}</s>`;
  if (target === undefined) return reveal(all);
  return html`<span class="md-link">${readSpans(label, depth)} <span class="address">(${plain(target)})</span></span>`;
}
