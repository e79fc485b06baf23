// Small parts of several views.
import { html, useEffect, useLayoutEffect, useReducer, useRef, useState } from "./html.mjs";
import { STATES, stateInWords } from "./format.mjs";
import { plain } from "./plain.mjs";
import { formatRoute, go } from "./route.mjs";

/** Announce the result of an act: in the page's one status region for screen readers, and in a visible line below. */
export function say(text) {
  const region = document.getElementById("said");
  if (region) region.textContent = text;
  for (const listener of sayings) listener(text);
}
const sayings = new Set();

/** The last announcement, for a while. */
export function Said() {
  const [text, set] = useState("");
  useEffect(() => {
    let timer;
    const show = (said) => {
      clearTimeout(timer);
      set(said);
      timer = setTimeout(() => set(""), 8000);
    };
    sayings.add(show);
    return () => sayings.delete(show);
  }, []);
  return text ? html`<div class="said" aria-hidden="true">${text}</div>` : null;
}

/** Draw again periodically, to show a growing time. */
export function useTick(milliseconds = 1000) {
  const [, tick] = useReducer((count) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || tick(), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
}

/** A draft that survives a reload of the tab until it is sent: `[text, set]`. */
export function useDraft(key) {
  const name = `swarm-draft ${key}`;
  const [, draw] = useReducer((count) => count + 1, 0);
  const set = (text) => {
    if (text) sessionStorage.setItem(name, text);
    else sessionStorage.removeItem(name);
    draw();
  };
  return [sessionStorage.getItem(name) ?? "", set];
}

/** An act of the person: `run(work, done)` runs one at a time; `done(result)` returns the announcement. */
export function useAct() {
  const [state, set] = useState({ busy: false, error: null });
  const run = async (work, done) => {
    set({ busy: true, error: null });
    try {
      const result = await work();
      set({ busy: false, error: null });
      const text = done(result);
      if (text) say(text);
      return result;
    } catch (error) {
      set({ busy: false, error });
      say(error.message);
      return null;
    }
  };
  return { ...state, run, clear: () => set({ busy: false, error: null }) };
}

/** A state: a visible sign, and words for all readers. */
export function State({ agent, state = agent.state, words = agent ? stateInWords(agent) : STATES[state]?.word, quiet = false }) {
  const look = agent?.question ? "asks" : state;
  return html`<span class=${`state s-${look}`}><span class="glyph" aria-hidden="true">${agent?.question ? "?" : (STATES[state]?.glyph ?? "·")}</span>${" "}<span class=${quiet ? "visually-hidden" : ""}>${words}</span></span>`;
}

/** A link to a place of the page. */
export function Link({ to, children, class: look = "", ...rest }) {
  const follow = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(to);
  };
  return html`<a class=${look} href=${formatRoute(to)} onClick=${follow} ...${rest}>${children}</a>`;
}

export const Failure = ({ error, children }) =>
  html`<div class="notice notice-bad" role="note"><p>${plain(error.message)}</p>${children}</div>`;
export const Loading = ({ what }) => html`<p class="loading" aria-busy="true">Loading ${what} …</p>`;
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** Tabs: `[{name, title, count?}]`; the chosen one's panel is the child. Arrows move, as in any tab list. */
export function Tabs({ label, tabs, chosen, choose, children, class: look = "" }) {
  const list = useRef();
  const key = (event) => {
    const at = tabs.findIndex((tab) => tab.name === chosen);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const place = (next + tabs.length) % tabs.length;
    choose(tabs[place].name);
    list.current.children[place].focus();
  };
  const id = (name) => `tab-${label}-${name}`.replaceAll(" ", "-");
  return html`<div class=${`tabs ${look}`}>
    <div class="tab-list" role="tablist" aria-label=${label} ref=${list} onKeyDown=${key}>
      ${tabs.map(
        (
          tab,
        ) => html`<button key=${tab.name} type="button" role="tab" id=${id(tab.name)} class="tab" aria-selected=${String(tab.name === chosen)}
        aria-controls=${`${id(tab.name)}-panel`} tabindex=${tab.name === chosen ? 0 : -1} onClick=${() => choose(tab.name)}>${tab.title}${tab.count ? html`<span class="badge-count">${tab.count}</span>` : null}</button>`,
      )}
    </div>
    <div class="tab-panel" role="tabpanel" id=${`${id(chosen)}-panel`} aria-labelledby=${id(chosen)}>${children}</div>
  </div>`;
}

/** A dialog that takes the focus and gives it back; Escape closes it. */
export function Dialog({ title, close, children }) {
  const dialog = useRef();
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby="dialog-title" onClose=${close}>
    <h2 id="dialog-title">${title}</h2>${children}
  </dialog>`;
}

/** A figure with its name, as in a list of facts. */
export const Fact = ({ name, children, title }) => html`<div class="fact" title=${title}><dt>${name}</dt><dd>${children}</dd></div>`;
