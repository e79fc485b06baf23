// Tests of swarm/web/static/markdown.mjs and plain.mjs: what a model wrote is shown, and nothing of it becomes markup, a link or a picture.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Markdown } from "../../swarm/web/static/markdown.mjs";
import { escapeCharacter, line, plain } from "../../swarm/web/static/plain.mjs";

/** An element as a line of text: `<p>one <em>two</em></p>`, without attributes. */
function show(node) {
  if (node === null || node === undefined || typeof node === "boolean") return "";
  if (Array.isArray(node)) return node.map(show).join("");
  return typeof node === "object" ? `<${node.type}>${show(node.props.children)}</${node.type}>` : String(node);
}

const read = (text) => show(Markdown({ text })).replace(/^<div>|<\/div>$/g, "");

const CASES = {
  "a paragraph": ["one **two** *three* `four` ~~five~~", "<p>one <strong>two</strong> <em>three</em> <code>four</code> <s>five</s></p>"],
  "a list in a list": ["- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"],
  "a numbered list behind another": ["- a\n1. b", "<ul><li>a</li></ul><ol><li>b</li></ol>"],
  "a heading": ["# Done #", "<p>Done</p>"],
  "a rule": ["a\n\n---\nb", "<p>a</p><hr></hr><p>b</p>"],
  "a quote": ["> a\n> b", "<blockquote><p>a\nb</p></blockquote>"],
  "code is as it was written": ["```py\n**x**\n# y\n```", "<pre><code>**x**\n# y</code></pre>"],
  "code without an end": ["~~~\nx", "<pre><code>x</code></pre>"],
  "a table": [
    "| a | b |\n|---|:-:|\n| 1 |",
    "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td></td></tr></tbody></table></div>",
  ],
  "marks that mean nothing": ["2 * 3 * 4, a_b, **", "<p>2 * 3 * 4, a_b, **</p>"],
  "markup is text": ["<script>x</script>", "<p><script>x</script></p>"],
  "a link is its address": ["[here](https://a.example \"t\")", "<p><span>here <span>(https://a.example)</span></span></p>"],
  "a picture is its address": ["![x](https://a.example/p.png)", "<p><span>x <span>(https://a.example/p.png)</span></span></p>"],
  "nothing": ["", ""],
};

for (const [name, [text, shown]] of Object.entries(CASES)) test(name, () => assert.equal(read(text), shown));

test("no text yields an element that loads or leads", () => {
  const allowed = new Set("div p pre code ul ol li blockquote strong em s span table thead tbody tr th td hr".split(" "));
  const types = (node) => (Array.isArray(node) ? node.flatMap(types) : node?.type ? [node.type, ...types(node.props.children)] : []);
  const texts = ["<img src=x onerror=y>", "[a](javascript:b)", "![a](data:b)", "<a href=x>y</a>", "`<b>`", "> - [x](y) **![a](b)**"];
  for (const text of texts) assert.deepEqual(types(Markdown({ text })).filter((type) => !allowed.has(type)), [], text);
});

test("quotes and lists within each other end somewhere, and long texts stay as they are", () => {
  assert.equal(read("> ".repeat(1000) + "x").split("<blockquote>").length - 1, 12);
  assert.equal(Markdown({ text: "*x* ".repeat(10_000) }).type, "pre");
});

test("what cannot be seen is written out", () => {
  assert.equal(plain("a\u202eb\tc\nd\r"), "a\\u202eb\tc\nd");
  assert.equal(escapeCharacter("\u{e0041}"), "\\U000e0041");
  assert.equal(read("a\u200bb"), "<p>a<span>\\u200b</span>b</p>");
  assert.equal(line("  one\n two  ", 20), "one two");
  assert.equal(line("x".repeat(30), 10), `${"x".repeat(9)}…`);
});
