// The page: the view that the address names, the state of the connection, and the title, which counts open questions.
import { about } from "./api.mjs";
import { html, render, useEffect, useRef } from "./html.mjs";
import { Fleet, titleOf } from "./fleet.mjs";
import { Job } from "./job.mjs";
import { Jobs } from "./jobs.mjs";
import { Keys } from "./keys.mjs";
import { line } from "./plain.mjs";
import { useRoute } from "./route.mjs";
import { Start } from "./start.mjs";
import { Said, say } from "./ui.mjs";
import { start, useWorld } from "./world.mjs";

const VIEWS = { jobs: Jobs, start: Start, fleet: Fleet, job: Job };

function App() {
  const route = useRoute();
  const world = useWorld();
  const View = VIEWS[route.view];
  const waiting = world.fleet?.needsYou ?? 0;
  const place = route.view === "job" ? line(world.job?.job.title, 60) || "Job" : { jobs: "Jobs", start: "Start a job", fleet: titleOf(route.panel) }[route.view];
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${place} · Swarm`;
  }, [waiting, place]);
  useEffect(() => {
    if (world.reset) say("Redis no longer has some events: all data on the page was read again.");
  }, [world.reset]);
  return html`<${Connection} link=${world.link} full=${world.fleet?.full} /><${View} key=${route.job ?? route.panel ?? route.view} route=${route} /><${Said} /><${Keys} />`;
}

const TROUBLES = {
  away: "Redis does not answer. The page shows the last known state and continues when Redis is back.",
  lost: "The connection to Flower is lost. The page shows the last known state and tries again.",
};

/** What holds up the whole fleet, or keeps the page from knowing it; `full`: why nothing new starts. */
function Connection({ link, full }) {
  const before = useRef("open");
  useEffect(() => {
    if (link !== before.current) say(TROUBLES[link] ?? "The connection is back, and nothing was missed.");
    before.current = link;
  }, [link]);
  const trouble = TROUBLES[link] ?? full;
  return trouble ? html`<div class="banner">${trouble}</div>` : null;
}

document.documentElement.classList.toggle("is-read-only", about.read_only);
render(html`<${App} />`, document.getElementById("swarm"));
start();
