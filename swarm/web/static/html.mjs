// Building blocks of every module: Preact, its hooks, and htm instead of JSX, so that there is no build step.
// Text reaches the page only as text nodes: no module turns a string into markup.
import { Component, h } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export { Component, Fragment, render } from "./vendor/preact.mjs";
export { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/hooks.mjs";

export const html = htm.bind(h);

/** A component that is drawn again only when a prop changes (or unless `same(before, after)`). */
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
