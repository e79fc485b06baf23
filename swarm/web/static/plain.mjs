// Text as a person must see it: a model, a file or a tool wrote it, and a person decides by it. Characters that cannot be seen, or
// that reverse the text, are written out, as the command does in a terminal.
import { html } from "./html.mjs";

const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\u{e0100}-\u{e01ef}]/u;
const SEVERAL = new RegExp(`(${HIDDEN.source})`, "u");
const KEPT = new Set(["\n", "\t"]);

/** Write out a hidden character: `\u202e`. */
export function escapeCharacter(character) {
  const code = character.codePointAt(0);
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** The text with hidden characters written out, as a string: for titles, labels, attributes. */
export function plain(text) {
  const given = String(text ?? "").replaceAll("\r", "");
  return HIDDEN.test(given) ? given.split(SEVERAL).map(writeOut).join("") : given;
}

/** The text as children of an element, with written-out characters marked to tell them from the text's own. */
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
