// The page's requests. Paths are relative to BASE from the shell, because Flower may be served below a prefix.

const main = document.getElementById("swarm");
export const base = main.dataset.base;
export const about = JSON.parse(main.dataset.about);

/** A refusal, with the server's own words. `code` as in the server's errors; `offline` if there was no answer. */
export class Refused extends Error {
  constructor(code, message, details = {}) {
    super(message);
    Object.assign(this, { code, details });
  }
}

/** GET `BASE/api/PATH` with this query (empty values are left out); the JSON, or `Refused`. */
export function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = new URLSearchParams(given).toString();
  return ask(`${base}/api/${path}${asked ? `?${asked}` : ""}`, {});
}

/** POST JSON to `BASE/api/PATH`; the JSON, or `Refused`. */
export function post(path, body = {}) {
  return ask(`${base}/api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Swarm": "1" },
    body: JSON.stringify(body),
  });
}

async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options });
  } catch {
    throw new Refused("offline", "Flower does not answer. It was asked once; try again when it is back.");
  }
  const found = await response.json().catch(() => null);
  if (response.ok && found) return found;
  const error = found?.error ?? {};
  throw new Refused(error.code ?? "failed", error.message ?? `Flower returned ${response.status}.`, error);
}
