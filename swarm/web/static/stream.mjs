// One event stream for the tab: opened with the cursors of the shown parts, closed while the tab is hidden (a browser allows six
// connections to a host), opened again where it stopped. An EventSource reconnects by itself and loses nothing; if the server
// refuses it for a while, this tries again with growing pauses.
import { base } from "./api.mjs";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;

export class Stream {
  /** `hear(name, data)` receives every event: hello, patch, reset, gone, away, back, and `lost` / `open` of the connection. */
  constructor(hear) {
    this.hear = hear;
    this.query = null;
    this.source = null;
    this.pause = FIRST_PAUSE;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => event.persisted && this.open());
  }

  /** Set the stream's query: the parts to watch from now on. */
  want(query) {
    this.query = query;
    this.close();
    this.open();
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  open() {
    if (this.source || document.hidden || !this.query) return;
    const given = Object.entries(this.query).filter(([, value]) => value !== undefined && value !== null && value !== "");
    const source = new EventSource(`${base}/api/stream?${new URLSearchParams(given)}`);
    this.source = source;
    for (const name of ["hello", "patch", "reset", "gone", "away", "back"]) {
      source.addEventListener(name, (event) => this.source === source && this.take(name, JSON.parse(event.data)));
    }
    source.addEventListener("error", () => this.source === source && this.miss(source));
  }

  take(name, data) {
    this.pause = FIRST_PAUSE;
    for (const [cursor, value] of Object.entries(data.at ?? {})) {
      if (cursor in this.query) this.query[cursor] = value;
    }
    this.hear(name, data);
  }

  miss(source) {
    this.hear("lost", {});
    if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
    this.close();
    this.timer = setTimeout(() => this.open(), this.pause);
    this.pause = Math.min(LONGEST_PAUSE, this.pause * 2);
  }
}
