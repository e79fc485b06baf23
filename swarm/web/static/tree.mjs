// A job's agents as a tree: its order, its sums, its rows. Pure. The order is that of creation and never changes; the row of a
// folded branch shows the events in it.
import { hasFailed, isOver, spent, tokens } from "./format.mjs";

/** `children`: id → ids in order; `sums`: id → totals of the agent and all below it. */
export function buildTree(agents, questions) {
  const children = new Map([[null, []]]);
  for (const agent of agents.values()) {
    const parent = agents.has(agent.parent_id) ? agent.parent_id : null;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(agent.id);
  }
  const asking = new Set(questions.filter((question) => !question.to).map((question) => question.agent_id));
  return { agents, children, sums: sumUp(agents, asking) };
}

function sumUp(agents, asking) {
  const sums = new Map();
  for (const agent of agents.values()) {
    sums.set(agent.id, {
      agents: 1,
      cost: spent(agent),
      unpriced: agent.unpriced_tokens,
      tokens: tokens(agent),
      asking: asking.has(agent.id) ? 1 : 0,
      failed: hasFailed(agent.state) ? 1 : 0,
      running: agent.state === "running" ? 1 : 0,
      queued: agent.state === "queued" ? 1 : 0,
      alive: isOver(agent.state) ? 0 : 1,
    });
  }
  for (const agent of [...agents.values()].reverse()) {
    // children come after their parents
    const above = sums.get(agent.parent_id);
    if (!above) continue;
    for (const [name, value] of Object.entries(sums.get(agent.id))) above[name] += value;
  }
  return sums;
}

/** The visible rows, in order. `folded`: ids whose children are hidden; `keep`: the agents to show at all. */
export function listRows(tree, folded, keep = null) {
  const shown = keep ? withAncestors(tree.agents, keep) : null;
  const rows = [];
  const walk = (ids, level) => {
    const some = shown ? ids.filter((id) => shown.has(id)) : ids;
    some.forEach((id, position) => {
      const below = tree.children.get(id) ?? [];
      const open = below.length > 0 && !folded.has(id);
      rows.push({
        id,
        agent: tree.agents.get(id),
        level,
        position: position + 1,
        siblings: some.length,
        open: below.length ? open : null,
        sums: tree.sums.get(id),
      });
      if (open) walk(below, level + 1);
    });
  };
  walk(tree.children.get(null), 1);
  return rows;
}

/** The ids above this one, root first. */
export function pathTo(agents, id) {
  const path = [];
  for (let agent = agents.get(agents.get(id)?.parent_id); agent; agent = agents.get(agent.parent_id)) path.unshift(agent.id);
  return path;
}

/** The target of a key in the tree: an index, or a change of folding, or null for other keys. */
export function stepTo(key, rows, index) {
  const row = rows[index];
  const found = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: rows.length - 1, PageDown: index + 10, PageUp: index - 10 }[key];
  if (found !== undefined) return { index: Math.min(rows.length - 1, Math.max(0, found)) };
  if (!row) return null;
  if (key === "ArrowRight") return row.open === false ? { unfold: row.id } : row.open ? { index: index + 1 } : null;
  if (key !== "ArrowLeft") return null;
  if (row.open) return { fold: row.id };
  const parent = rows.findLastIndex((other, place) => place < index && other.level < row.level);
  return parent < 0 ? null : { index: parent };
}

/** The target of typed letters: the next row, from `index` on, with a text that begins with them. Repeating one letter visits
 * all rows that begin with it. */
export function typeAhead(typed, rows, index, texts) {
  const sought = new Set(typed).size === 1 ? typed[0] : typed;
  const from = sought.length > 1 ? index : index + 1;
  for (let step = 0; step < rows.length; step++) {
    const place = (from + step) % rows.length;
    if (texts(rows[place].agent).some((text) => text.toLowerCase().startsWith(sought))) return place;
  }
  return -1;
}

function withAncestors(agents, keep) {
  const shown = new Set();
  for (const agent of agents.values()) {
    if (!keep(agent)) continue;
    for (let each = agent; each && !shown.has(each.id); each = agents.get(each.parent_id)) shown.add(each.id);
  }
  return shown;
}
