// A chat with the root agent of one job. Its id stands in the address, so a reload goes on with the same conversation.
const settings = new URLSearchParams(location.search); // ?workspace=/srv/repository
const key = sessionStorage.apiKey ??= prompt("Key of the API (`swarm keys add chat` makes one)");
const talk = document.querySelector("#talk"), state = document.querySelector("#state");

async function call(path, body) {
  const answer = await fetch(`api/v1/${path}`, {
    method: body ? "POST" : "GET",
    headers: { Authorization: `Bearer ${key}`, ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error.message);
  return found;
}

function show(kind, text, id) {
  const line = (id && document.getElementById(id)) || talk.appendChild(document.createElement("div"));
  line.className = kind;
  if (id) line.id = id;
  line.textContent = text;
  return line;
}

function showEntry(entry) {
  document.querySelectorAll(".words").forEach((line) => line.remove());
  const kind = { prompt: "me", mail: "me", reply: "agent" }[entry.kind];
  if (!kind) return;
  for (const [at, part] of (entry.parts ?? []).entries()) {
    const id = `entry-${entry.n}-${at}`;
    if (part.call) show("tool", `${part.name} ${part.about}`, id);
    else if (part.form !== "thought" && !part.detail) show(kind, part.text, id);
  }
}

function showWords({ entry, block, type, from, text }) {
  if (type !== "text") return;
  const id = `words-${entry}-${block}`, before = document.getElementById(id)?.textContent ?? "";
  show("words", before.slice(0, from) + text, id);
}

function showQuestion(question) {
  if (question.to || document.getElementById(question.id)) return; // those to another agent are not ours
  const line = show("question", `${question.title}\n${question.detail}\n`, question.id);
  const choices = question.kind === "question" ? question.options : ["allow", "deny"];
  for (const answer of choices) {
    const button = line.appendChild(document.createElement("button"));
    button.textContent = answer;
    button.onclick = () => call(`questions/${question.id}/answer`, { answer }).then(() => line.remove(), tell);
  }
}

function tell(what) { state.textContent = String(what?.message ?? what); }

async function* events(path) { // server-sent events over fetch, because EventSource sends no key; goes on where it broke off
  for (let last = ""; ; await new Promise((done) => setTimeout(done, 500))) {
    try {
      const headers = { Authorization: `Bearer ${key}`, ...(last && { "Last-Event-ID": last }) };
      const answer = await fetch(`api/v1/${path}`, { headers });
      if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
      tell("");
      let text = "";
      for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
        text += part;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          const fields = Object.fromEntries(text.slice(0, end).split("\n").map((line) => line.split(/: (.*)/s, 2)));
          last = fields.id ?? last;
          if (fields.event) yield [fields.event, JSON.parse(fields.data)];
        }
      }
    } catch (error) { tell(`not connected (${error.message}), trying again`); }
  }
}

async function follow(job) {
  const { job: { root_id: root }, questions, events: at } = await call(`jobs/${job}/snapshot`);
  questions.forEach(showQuestion);
  for await (const [, patch] of events(`jobs/${job}/stream?agent=${root}&events=${at}&journal=0&words=true`)) {
    patch.entries?.forEach(showEntry);
    patch.words?.forEach(showWords);
    patch.questions?.forEach(showQuestion);
    if (patch.job) tell(patch.job.state);
  }
}

document.querySelector("#say").onsubmit = async (event) => {
  event.preventDefault();
  const text = event.target.text.value;
  try {
    if (location.hash) await call(`jobs/${location.hash.slice(1)}/messages`, { text });
    else {
      const workspace = settings.get("workspace") ?? prompt("Folder to work in");
      const started = await call("jobs", { prompt: text, workspace });
      location.hash = started.job.id;
      follow(started.job.id).catch(tell);
    }
    event.target.reset();
  } catch (error) { tell(error); }
};

if (location.hash) follow(location.hash.slice(1)).catch(tell);
