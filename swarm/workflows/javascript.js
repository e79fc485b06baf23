// The globals of a workflow in Claude Code's dialect. Calls leave as data, results come in as data; no function of the host exists here.
"use strict";
(() => {
  const calls = [], notes = [], waiting = new Map();
  const LONGEST_SECONDS = 1e9, parse = JSON.parse;
  let made = 0, done = null, use = { total: null, spent: 0 };
  const refuse = (what) => { throw new Error(`${what} is not available in a workflow, because it is repeated after each wait; pass it in args`); };

  const RealDate = Date;
  const OnlyGiven = function (...given) {
    if (!new.target || given.length === 0) refuse("the current date");
    return Reflect.construct(RealDate, given, new.target === OnlyGiven ? RealDate : new.target);
  };
  OnlyGiven.prototype = RealDate.prototype;
  OnlyGiven.parse = RealDate.parse;
  OnlyGiven.UTC = RealDate.UTC;
  OnlyGiven.now = () => refuse("Date.now()");
  RealDate.prototype.constructor = OnlyGiven;
  globalThis.Date = OnlyGiven;
  Math.random = () => refuse("Math.random()");
  for (const name of ["eval", "Function", "WeakRef", "FinalizationRegistry", "Atomics", "SharedArrayBuffer", "performance", "navigator", "gc", "print"]) {
    delete globalThis[name];
  }
  for (const one of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    Object.defineProperty(Object.getPrototypeOf(one), "constructor", { value: undefined });
  }

  const copy = (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const RealError = Error;
  const ask = (kind, given) => {
    const stack = String(new RealError().stack);
    return new Promise((resolve, reject) => {
      made += 1;
      waiting.set(made, [resolve, reject]);
      calls.push({ id: made, kind, stack, ...given });
    });
  };
  const log = (...parts) => { notes.push(["log", parts.map(text).join(" ")]); };
  const bounded = (list, name) => {
    if (!Array.isArray(list)) throw new TypeError(`${name}() takes an array`);
    if (list.length > 4096) throw new Error(`${name}() takes at most 4096 items`);
  };

  globalThis.agent = (prompt, opts) => {
    if (opts != null && typeof opts !== "object") throw new TypeError("agent() takes its options as an object: { label: … }");
    const given = text(prompt);
    return ask("agent", { given: given ? [given] : [], opts: copy(opts) });
  };
  globalThis.workflow = (name, args) => ask("workflow", { given: [String(name), ...(args == null ? [] : [copy(args)])] });
  // Beyond the dialect: a script's own names hide these.
  globalThis.call = (tool, given) => ask("call", { given: [String(tool), copy(given) ?? {}] });
  globalThis.check = (command, opts) => ask("check", { given: [String(command)], opts: copy(opts) });
  globalThis.ask = (question, choices, opts) => ask("ask", { given: [String(question), copy(choices) ?? []], opts: copy(opts) });
  globalThis.event = (key, opts) => ask("event", { given: [String(key)], opts: copy(opts) });
  globalThis.send = (to, message) => ask("send", { given: [String(to), text(message)] });
  globalThis.merge = (name, opts) => ask("merge", { given: [String(name)], opts: copy(opts) });
  globalThis.readRows = (path) => ask("read_rows", { given: [String(path)] });
  globalThis.mapRows = async (rows, template, opts) => {
    const { limit = 50, ...options } = opts ?? {}, parts = [], found = [];
    let size = 0;
    for (const row of typeof rows === "string" ? await readRows(rows) : rows) {
      const length = JSON.stringify(row).length;
      if (parts.length === 0 || parts.at(-1).length >= 250 || size + length > 400_000) { parts.push([]); size = 0; }
      parts.at(-1).push(row);
      size += length;
    }
    const lanes = Math.max(1, Math.floor(limit / 250)), queue = parts.map((part, number) => [part, number]);
    const lane = async () => {
      for (let next; (next = queue.shift()); ) {
        const [part, number] = next;
        try {
          const done = await ask("_map_part", { given: [copy(part), String(template), limit], opts: copy(options) });
          found[number] = done.map((one) => { if (!one.ok) log(one.error); return one.ok ? one.value : null; });
        } catch (error) { log(`mapRows failed: ${error && error.message}`); found[number] = part.map(() => null); }
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    return found.flat();
  };
  globalThis.sleep = (seconds) => ask("timer", { seconds: Math.max(0, Number(seconds) || 0) });
  globalThis.progress = (done, of) => { notes.push(["progress", `${Number(done)} of ${Number(of)}`]); };
  globalThis.phase = (title) => { notes.push(["phase", String(title)]); };
  globalThis.log = log;
  globalThis.console = { log, info: log, warn: log, error: log, debug: log };
  globalThis.setTimeout = (run, ms = 0, ...given) => {
    const id = made + 1;
    ask("timer", { seconds: Math.min(Math.max(0, Number(ms) || 0) / 1000, LONGEST_SECONDS) }).then(() => run(...given), () => {});
    return id;
  };
  globalThis.clearTimeout = (id) => { waiting.delete(id); };
  globalThis.parallel = async (thunks) => {
    bounded(thunks, "parallel");
    if (thunks.some((thunk) => typeof thunk !== "function")) throw new TypeError("parallel() takes functions, not promises: () => agent(…)");
    return Promise.all(thunks.map(async (thunk, number) => {
      try { return await thunk(); } catch (error) { log(`parallel[${number}] failed: ${error && error.message}`); return null; }
    }));
  };
  globalThis.pipeline = async (items, ...stages) => {
    bounded(items, "pipeline");
    return Promise.all(items.map(async (item, number) => {
      let value = item;
      for (const stage of stages) {
        try { value = await stage(value, item, number); } catch (error) { log(`pipeline[${number}] failed: ${error && error.message}`); return null; }
        if (value === null) return null;
      }
      return value;
    }));
  };
  globalThis.budget = Object.freeze({
    get total() { return use.total; },
    spent: () => use.spent,
    remaining: () => (use.total === null ? Infinity : Math.max(0, use.total - use.spent)),
  });

  // For the runtime, which takes these functions and deletes them before the script runs.
  const end = (error) => { done = { error: error && error.name ? `${error.name}: ${error.message}` : String(error) }; };
  globalThis.$take = () => JSON.stringify({ calls: calls.splice(0), notes: notes.splice(0), done });
  globalThis.$start = (run) => { run().then((value) => { done = { value: value === undefined ? null : copy(value) }; }).catch(end); };
  globalThis.$settle = (told) => {
    const { id, ok, value, spent, total } = parse(told);
    use = { total, spent };
    const found = waiting.get(id);
    waiting.delete(id);
    if (found) found[ok ? 0 : 1](ok ? value : new Error(value));
  };
})();
