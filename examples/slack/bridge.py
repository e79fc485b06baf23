"""Slack and a swarm, on the HTTP API alone: `uvicorn bridge:app`.

A mention of the bot or its slash command starts a job. Its thread gets the answer, agents' messages, and their questions with buttons;
what people write in the thread goes to the job. Slack's addresses: `/slack/events`, `/slack/commands`, `/slack/actions`.

| variable | |
|---|---|
| `SLACK_SIGNING_SECRET`, `SLACK_BOT_TOKEN` | of an app with `app_mentions:read`, `channels:history`, `chat:write`, `commands` |
| `SLACK_PEOPLE` | ids of those who may start jobs, write to them and answer: `U024BE7LH,U0G9QF9C6` |
| `BRIDGE_API`, `BRIDGE_KEY` | address of `swarm serve`, and a key with the scopes `read`, `submit`, `send` and `answer` |
| `BRIDGE_ORDER` | further fields of each job as JSON: `{"workspace": "/srv/app", "limits": {"budget_usd": 2}}` |
| `SLACK_THREADS` | the file that holds which thread is of which job; default `threads.db` |
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from swarm.capabilities.triggers.sources import Forged, UnreadableEvent, check_signature, read_event

MOST = 3_500
TABLES = """
create table if not exists threads (job text primary key, channel text, thread text, after text, read text, told text);
create table if not exists asked (question text primary key, job text, channel text, ts text, text text);
create table if not exists heard (event text primary key, kind text, data text, done integer default 0);
"""


class Bridge:
    """The threads of one workspace of Slack, each with its job."""

    def __init__(self) -> None:
        env = os.environ
        self.secret, self.people = env["SLACK_SIGNING_SECRET"], set(env["SLACK_PEOPLE"].split(","))
        self.order = json.loads(env.get("BRIDGE_ORDER", "{}"))
        self.db = sqlite3.connect(env.get("SLACK_THREADS", "threads.db"), isolation_level=None)
        self.db.executescript(TABLES)
        self.db.row_factory = sqlite3.Row
        slack, swarm = env.get("SLACK_API", "https://slack.com/api"), env["BRIDGE_API"]
        self.slack = httpx2.AsyncClient(
            base_url=slack, headers={"Authorization": f"Bearer {env['SLACK_BOT_TOKEN']}"}, timeout=30
        )
        self.swarm = httpx2.AsyncClient(
            base_url=swarm, headers={"Authorization": f"Bearer {env['BRIDGE_KEY']}"}, timeout=90
        )
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.in_turn = asyncio.Lock()

    # -- both sides ----------------------------------------------------------------------------------------

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Ask the API; waits while it is away. Raises `Refused` with its sentence."""
        while True:
            try:
                answer = await self.swarm.request(method, f"/v1/{path}", json=body, headers=headers)
            except httpx2.HTTPError:
                answer = None
            if answer is not None and answer.status_code < 500:
                found = answer.json()
                if answer.is_success:
                    return found
                raise Refused(found["error"]["message"])
            await asyncio.sleep(1)

    async def say(self, method: str, **fields: Any) -> str:
        """Call Slack, later if it asks for patience; returns the message's `ts`."""
        while True:
            try:
                answer = await self.slack.post(f"/{method}", json=fields)
            except httpx2.HTTPError:
                await asyncio.sleep(1)
                continue
            if answer.status_code != 429:
                found = answer.json()
                if not found.get("ok"):
                    print(f"Slack refuses {method}: {found.get('error')}", flush=True)
                return str(found.get("ts", ""))
            await asyncio.sleep(float(answer.headers.get("retry-after", "1")))

    # -- from Slack ----------------------------------------------------------------------------------------

    def take(self, event: str, kind: str, data: dict[str, Any]) -> None:
        """Keep a delivery, once; Slack repeats what was not answered within three seconds."""
        row = [event, kind, json.dumps(data)]
        if self.db.execute("insert or ignore into heard (event, kind, data) values (?, ?, ?)", row).rowcount:
            self.tasks[event] = asyncio.create_task(self.act(event, kind, data))

    async def act(self, event: str, kind: str, data: dict[str, Any]) -> None:
        """Do what a kept delivery asks for; a bridge that dies before does it when it starts again."""
        async with self.in_turn:
            match kind:
                case "events":
                    await self.hear(data["event"], event)
                case "commands":
                    await self.command(data, event)
                case _:
                    await self.press(data)
            self.db.execute("update heard set done = 1, data = '' where event = ?", [event])
        self.tasks.pop(event, None)

    async def begin(self, event: str, channel: str, thread: str, user: str, text: str) -> None:
        """Start the thread's job."""
        try:
            order = {"title": f"{text[:60]} ({user})", **self.order, "prompt": text}
            started = await self.call("POST", "jobs", order, **{"Idempotency-Key": event})
        except Refused as error:
            await self.say("chat.postMessage", channel=channel, thread_ts=thread, text=escape(str(error)))
            return
        job = started["job"]["id"]
        self.db.execute("insert or ignore into threads values (?, ?, ?, '0', '0-0', '')", [job, channel, thread])
        self.watch(job)

    async def hear(self, event: dict[str, Any], event_id: str) -> None:
        """Take in a mention, or a message of a thread that has a job."""
        channel, ts, text = event["channel"], event["ts"], re.sub(r"<@\w+>", "", unescape(event["text"])).strip()
        thread = event.get("thread_ts", ts)
        known = self.db.execute("select job from threads where channel = ? and thread = ?", [channel, thread])
        if row := known.fetchone():
            # A mention in a thread comes as a message, too.
            if event["type"] == "message" and text and thread != ts:
                try:
                    await self.call("POST", f"jobs/{row['job']}/messages", {"text": text})
                except Refused as error:
                    await self.say("chat.postMessage", channel=channel, thread_ts=thread, text=escape(str(error)))
                self.watch(row["job"])
        elif event["type"] == "app_mention" and text:
            await self.begin(event_id, channel, thread, event["user"], text)

    async def command(self, form: dict[str, str], event_id: str) -> None:
        """Take in the slash command: the thread begins with the task."""
        told = f"<@{form['user_id']}>: {escape(form['text'])}"
        ts = await self.say("chat.postMessage", channel=form["channel_id"], text=told)
        await self.begin(event_id, form["channel_id"], ts, form["user_id"], unescape(form["text"]))

    async def press(self, data: dict[str, Any]) -> None:
        """Take in a button."""
        question, _, answer = data["actions"][0]["value"].partition(" ")
        try:
            await self.call(
                "POST", f"questions/{question}/answer", {"answer": answer, "reason": f"by {data['user']['id']}"}
            )
        except Refused as error:  # somebody else was faster
            print(error, flush=True)

    # -- to Slack ------------------------------------------------------------------------------------------

    def watch(self, job: str) -> None:
        """Follow a job until its end, in one task; one that is about to end looks once more."""
        if job in self.tasks and not self.tasks[job].done():
            self.tasks[job].add_done_callback(lambda task: None if task.cancelled() else self.watch(job))
        else:
            self.tasks[job] = asyncio.create_task(self.follow(job))

    async def follow(self, job: str) -> None:
        ended = False
        while not ended:
            row = self.db.execute("select * from threads where job = ?", [job]).fetchone()
            try:
                found = await self.call("GET", f"jobs/{job}/events?after={row['after']}&wait_seconds=50")
                if found["events"] or found["ended"]:
                    ended = await self.show(row, found["ended"])
            except Refused:  # it has expired
                return
            self.db.execute("update threads set after = ? where job = ?", [found["next"], job])

    async def show(self, row: sqlite3.Row, ended: bool) -> bool:
        """Bring the thread up to date with the job: messages, questions, the end. Returns whether the job has ended."""
        job, there = row["job"], {"channel": row["channel"], "thread_ts": row["thread"]}
        inbox = await self.call("GET", f"jobs/{job}/messages?after={row['read']}")
        for message in inbox["messages"]:
            await self.say("chat.postMessage", text=cut(message["body"]), **there)
            self.db.execute("update threads set read = ? where job = ?", [message["id"], job])
        open_ones = {one["id"]: one for one in (await self.call("GET", f"questions?job={job}"))["questions"]}
        for one in open_ones.values():
            if not self.db.execute("select 1 from asked where question = ?", [one["id"]]).fetchone():
                told = cut(f"{one['label']}: {one['title']}\n{one['detail']}")
                ts = await self.say("chat.postMessage", text=told, blocks=ask(told, one), **there)
                self.db.execute("insert into asked values (?, ?, ?, ?, ?)", [one["id"], job, row["channel"], ts, told])
        for old in self.db.execute("select * from asked where job = ?", [job]).fetchall():
            if old["question"] not in open_ones:
                told = f"{old['text']}\n_answered_"
                await self.say("chat.update", channel=old["channel"], ts=old["ts"], text=told, blocks=[section(told)])
                self.db.execute("update asked set job = '' where question = ?", [old["question"]])
        view = await self.call("GET", f"jobs/{job}")
        if not (ended and view["ended_at"]):
            return False
        if row["told"] != str(view["ended_at"]):
            text = (
                view["text"] if view["state"] == "completed" else f"{view['state']}: {view['reason'] or view['text']}"
            )
            await self.say("chat.postMessage", text=cut(text + "\n" + view["pull_request"]), **there)
            self.db.execute("update threads set told = ? where job = ?", [str(view["ended_at"]), job])
        return True

    # -- HTTP ----------------------------------------------------------------------------------------------

    async def receive(self, request: Request) -> Response:
        """Check a delivery of Slack's, and act on it once it has been answered."""
        body, headers = await request.body(), {name.lower(): value for name, value in request.headers.items()}
        try:
            check_signature("slack", headers, body, self.secret, time.time())
            event = read_event("slack", headers, body)
        except (Forged, UnreadableEvent) as error:
            return JSONResponse({"error": str(error)}, 401)
        data, kind = event.data, request.path_params["kind"]
        if event.type == "url_verification":
            return JSONResponse({"challenge": data["challenge"]})
        inner = data.get("event", {})
        user = data.get("user_id") or inner.get("user") or data.get("user", {}).get("id")
        # The bot's own messages come, too; edits and joins have a subtype.
        if user in self.people and not inner.get("bot_id") and not inner.get("subtype"):
            self.take(event.id, kind, data)
        return Response()


class Refused(Exception):
    """The API's sentence."""


def escape(text: str) -> str:
    """Text as Slack shows it: an agent's words can then call nobody (`<!channel>`) and hide no link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def cut(text: str) -> str:
    text = text.strip() or "(no text)"
    return escape(text if len(text) <= MOST else f"{text[:MOST]}\n… (cut)")[: MOST * 2]


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:3_000]}}


def ask(told: str, question: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a question. One in words without choices is answered by the page or the command."""
    lines = question["detail"].rstrip().split("\n")
    choices = (
        [line[2:] for line in lines if line.startswith("- ")] if question["kind"] == "question" else ["allow", "deny"]
    )
    buttons = [
        {
            "type": "button",
            "action_id": f"answer-{number}",
            "text": {"type": "plain_text", "text": choice[:75]},
            "value": f"{question['id']} {choice}"[:2_000],
        }
        for number, choice in enumerate(choices[:5])
    ]
    return [section(told), *([{"type": "actions", "elements": buttons}] if buttons else [])]


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    bridge = app.state.bridge = Bridge()
    for row in bridge.db.execute("select event, kind, data from heard where done = 0").fetchall():
        bridge.tasks[row["event"]] = asyncio.create_task(bridge.act(row["event"], row["kind"], json.loads(row["data"])))
    for row in bridge.db.execute("select job from threads").fetchall():
        bridge.watch(row["job"])
    yield
    for task in [*bridge.tasks.values()]:
        task.cancel()


async def receive(request: Request) -> Response:
    bridge: Bridge = request.app.state.bridge
    return await bridge.receive(request)


app = Starlette(lifespan=lifespan, routes=[Route("/slack/{kind}", receive, methods=["POST"])])
