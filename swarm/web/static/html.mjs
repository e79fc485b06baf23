// What every module of the page builds with: Preact, its hooks, and htm instead of JSX, so that there is no build step.
// Text reaches the page as text nodes alone: there is no place here, or in any module, where a string becomes markup.
import { Component, h } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export { Component, Fragment, render } from "./vendor/preact.mjs";
export { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/hooks.mjs";

export const html = htm.bind(h);

/** A component that is drawn again only when one of its props is another one (or when `same(before, after)` says so). */
export function memo(draw, same = shallowEqual) {
  return class extends Component {
    shouldComponentUpdate(next) {
      return !same(this.props, next);
    }
    render(props) {
      return draw(props);
    }
  };
}

function shallowEqual(before, after) {
  const names = Object.keys(after);
  return names.length === Object.keys(before).length && names.every((name) => Object.is(before[name], after[name]));
}
