// Text as a person must see it: a model, a file or a tool wrote it, and somebody decides by it. What cannot be seen, or turns the
// writing around, is written out, as the command does in a terminal.
import { html } from "./html.mjs";

const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\u{e0100}-\u{e01ef}]/u;
const SEVERAL = new RegExp(`(${HIDDEN.source})`, "u");
const KEPT = new Set(["\n", "\t"]);

/** How a hidden character is written out: `\u202e`. */
export function escapeCharacter(character) {
  const code = character.codePointAt(0);
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** The text with hidden characters written out, as a string: for titles, labels, attributes. */
export function plain(text) {
  const given = String(text ?? "").replaceAll("\r", "");
  return HIDDEN.test(given) ? given.split(SEVERAL).map(writeOut).join("") : given;
}

/** The same as children of an element, the written-out characters marked so that they cannot be taken for the text's own. */
export function reveal(text) {
  const given = String(text ?? "").replaceAll("\r", "");
  if (!HIDDEN.test(given)) return given;
  return given
    .split(SEVERAL)
    .map((part, number) =>
      number % 2 && !KEPT.has(part)
        ? html`<span class="hidden-char" title="A character that cannot be seen">${escapeCharacter(part)}</span>`
        : part,
    );
}

/** At most `length` characters of one line. */
export function line(text, length = 200) {
  const found = plain(text).split(/\s+/u).filter(Boolean).join(" ");
  return found.length <= length ? found : `${found.slice(0, length - 1)}…`;
}

function writeOut(part, number) {
  return number % 2 && !KEPT.has(part) ? escapeCharacter(part) : part;
}
