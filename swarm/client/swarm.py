"""What the CLI and Python programs call: submit a job, follow it, read it, cancel it.

    from swarm import Swarm

    job = Swarm().submit("Which public functions in this repository have no test?")
    print(job.wait().text)

A client needs Redis, nothing else: it runs no agent itself. Workers (`swarm up`, `swarm worker`, `celery -A swarm.tasks
worker`) do. `swarm.client.aio` has the same for asyncio.
"""

from __future__ import annotations

import copy
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm.agent.entries import Entry, Exchanged, Mail
from swarm.agent.needs import Has, read_workers
from swarm.agent.spec import DEFAULT_AGENT, Limits
from swarm.client.correspondence import Mailbox
from swarm.client.jobs import Job as Job
from swarm.client.jobs import show_lack
from swarm.core.errors import ConfigurationError
from swarm.core.log import EventLog
from swarm.core.records import AgentView, JobView
from swarm.core.settings import Settings, load_settings
from swarm.definitions.model import Isolation, PermissionMode
from swarm.mailbox import USER
from swarm.permissions.ceiling import UNLIMITED, Ceiling, Wanted
from swarm.permissions.modes import AFTER_PLAN, MODES
from swarm.store.connection import connect, hide_password, redis_url
from swarm.store.happenings import KEEP_SECONDS, Happening, Happenings
from swarm.store.outage import Outage
from swarm.store.questions import Questions
from swarm.store.store import Store
from swarm.store.values import Signals

if TYPE_CHECKING:
    from swarm.capabilities.mapping.maps import MapView
    from swarm.client.maps import Map
    from swarm.client.orders import PreparedJob
    from swarm.client.work import Work

log = EventLog("swarm.client")
MAX_FOCUS_BYTES = 2_000
"""Of what a person wants a summary to hold above all."""


class Swarm:
    """A connection to one swarm. Thread-safe; connects on first use."""

    def __init__(self, settings: Settings | None = None, *, tell: Callable[[str], None] | None = None) -> None:
        self.settings = settings or load_settings()
        self.store = Store(connect(self.settings), self.settings.key_prefix)
        self.ceiling: Ceiling = UNLIMITED
        self._senders: list[Any] = []
        self.tell = tell or (lambda what: log.warning("redis.away", what=what))
        """Told that somebody waits for Redis, and for what job, whenever and as long as that is so; default: the log."""

    def __repr__(self) -> str:
        return f"Swarm({hide_password(redis_url(self.settings))!r})"

    def __enter__(self) -> Swarm:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back; they are made anew if it is used again."""
        self.store.close()

    def outlasting(self, job_id: str) -> Swarm:
        """The same for somebody who watches one job: every call waits for a Redis that is away, and says that the job does."""
        patient = copy.copy(self)
        patient.store = self.store.outlasting(Outage(self.tell, who=job_id))
        return patient

    def within(self, ceiling: Ceiling) -> Swarm:
        """A client whose submissions, messages and answers are held to a ceiling: what goes beyond it raises `BeyondCeiling`."""
        bounded = copy.copy(self)
        bounded.ceiling = ceiling
        return bounded

    def submit(
        self,
        prompt: str,
        *,
        agent: str = DEFAULT_AGENT,
        workspace: str | Path = ".",
        limits: Limits | None = None,
        model: str | None = None,
        base_url: str | None = None,
        title: str | None = None,
        mode: PermissionMode | None = None,
        allow: Sequence[str] = (),
        ask: Sequence[str] = (),
        deny: Sequence[str] = (),
        network: bool = False,
        ask_seconds: float | None = None,
        result_schema: dict[str, Any] | None = None,
        check: str | None = None,
        rubric: str | None = None,
        tries: int | None = None,
        check_seconds: float | None = None,
        summaries: bool = False,
        priority: int = 1,
        home_workspace: bool = False,
        instruction_files: bool = True,
        idempotency_key: str | None = None,
        snapshots: bool | None = None,
        isolation: Isolation | None = None,
        on_end: Mapping[str, Any] | None = None,
        broker: str | None = None,
        patient: bool = False,
        webhook: str | None = None,
    ) -> Job:
        """Put a job on the queue and return its handle; the job is durable when this returns.

        `agent` is the definition of the root, `workspace` the folder it works in, `base_url` a rehearsal server on this host.
        `mode` is the most that any of its agents may be permitted (default: the settings files', else `acceptEdits`); `allow`, `ask`
        and `deny` are rules beside those of the settings files; `network` lets the agents' processes use the network.
        `ask_seconds` is how long a question to the person can be answered (default: the settings'; 0: nobody is there). With
        `result_schema`, the answer is one JSON document that is valid for it: `JobView.data`. A workspace that is a home, or holds
        one, needs `home_workspace`. With `instruction_files` (and the setting of that name) the agents are given the instruction files
        that apply in the workspace, as they are now.

        With `check`, a shell command that must exit with 0 (within `check_seconds`, 600), or `rubric`, criteria that an independent grader
        finds met, the answer is accepted only then: else it is sent back, and after `tries` times (3) the job has failed. See
        `JobView.verdicts`.

        With `summaries`, a small model tells people what agents do (`AgentView.summary`), names the job, and sums up its end
        (`JobView.digest`); the job pays for it.

        Jobs have their turns on the fleet; one of `priority` 3 has three where others have one.

        With a hub in the settings (`SWARM_HUB`) the folder's files, uncommitted ones among them, are sent there, and agents work on copies
        of them, on any host. Without one, `snapshots` keeps the folder in a snapshot after each call that may change it (default: the
        settings'); with `isolation` `worktree` the agents work on a copy of the folder on this machine. What was done on copies is
        taken over with `Job.work`.

        Submitted again with the same `idempotency_key`, an order makes no second job: the handle is that of the first.

        `on_end` is the signature of a Celery task of your own application: it is published when the job has ended, however it has,
        and given `{"id", "state", "text", "data", "reason"}` before its own arguments, if it is not immutable. `broker` is the name by
        which the swarm's workers know where (`SWARM_BROKERS`). It is published once in effect: under an id that the job has.

        With `patient` the one request that it takes goes with others by the Message Batches API: at half the price, within an hour
        mostly, and within a day. It takes an `agent` without tools, as `answer` is.

        `webhook` is an address that is told when the job ends, when a question of it waits, and when four fifths of its budget are used, as
        CloudEvents signed with `SWARM_WEBHOOK_SECRET`, if workers allow it (`SWARM_JOB_WEBHOOKS`).

        What the settings files hold that cannot be used is in the handle's `warnings`.
        Raises `ConfigurationError` for input that cannot be used, `UnknownDefinition`, `BeyondCeiling`, `RedisUnavailable`, `GitFailed`.
        """
        from swarm.client.orders import Order, prepare_order

        order = Order(
            prompt=prompt,
            agent=agent,
            workspace=workspace,
            limits=limits,
            model=model,
            base_url=base_url,
            title=title,
            mode=mode,
            allow=allow,
            ask=ask,
            deny=deny,
            network=network,
            ask_seconds=ask_seconds,
            result_schema=result_schema,
            check=check,
            rubric=rubric,
            tries=tries,
            check_seconds=check_seconds,
            summaries=summaries,
            priority=priority,
            home_workspace=home_workspace,
            instruction_files=instruction_files,
            idempotency_key=idempotency_key,
            snapshots=snapshots,
            isolation=isolation,
            on_end=on_end,
            broker=broker,
            patient=patient,
            webhook=webhook,
        )
        return self.place(prepare_order(order, self.settings, ceiling=self.ceiling))

    def map(
        self,
        prompt: str,
        over: Iterable[str | Mapping[str, Any]],
        *,
        max_running: int | None = None,
        retries: int = 0,
        budget_usd: float | None = None,
        title: str | None = None,
        **order: Any,
    ) -> Map:
        """Give the same order for each line of `over`, as a job of its own; the map is durable when this returns.

        In the prompt `{name}` stands for the line, or for that field of a line that is a mapping. `max_running` is how many lines are
        at work at once (20; with `patient`, where they only wait, 10,000), `retries` how often one that failed is tried again,
        `budget_usd` what all of it may cost: once that is spent no
        further line begins. `order` is what else `submit` takes, for each line: its `limits` are those of one line.

        Raises `ConfigurationError` for input that cannot be used, and as `submit`.
        """
        from swarm.capabilities.mapping.lines import check_lines
        from swarm.client.maps import PATIENT_AGENT, fill_prompts, place_map
        from swarm.client.orders import Order, prepare_order

        for unfit in ("idempotency_key", "on_end", "broker", "webhook"):
            if order.get(unfit) is not None:
                raise ConfigurationError(f"a map cannot be given {unfit}, which is for one job")
        lines = check_lines(over)
        prompts = fill_prompts(prompt, lines)
        self.ceiling.hold(Wanted(budget_usd=budget_usd))
        own = {"ask_seconds": 0.0, "commands": False, "agent": PATIENT_AGENT if order.get("patient") else DEFAULT_AGENT}
        prepared = prepare_order(Order(prompt=prompts[0], **{**own, **order}), self.settings, ceiling=self.ceiling)
        return place_map(
            self,
            prepared,
            lines,
            prompts,
            title=title or prompt,
            max_running=max_running,
            retries=retries,
            budget_usd=self.ceiling.bound_cost(budget_usd),
        )

    def find_map(self, map_id: str) -> Map:
        """The handle of an existing map. Raises `UnknownMap`."""
        from swarm.client.maps import Map

        found = Map(self, map_id)
        found.view()
        return found

    def maps(self, count: int = 50) -> list[MapView]:
        """The newest maps, newest first."""
        from swarm.capabilities.mapping.maps import Maps

        return Maps(self.store.keyspace).all(count)

    def place(self, prepared: PreparedJob) -> Job:
        """Put a job that was prepared on the queue; it is durable when this returns.

        Raises `RedisUnavailable`, `IdempotencyConflict`, and `GitFailed` where its files cannot be sent to the hub.
        """
        from swarm.client.placing import place_job

        return place_job(self, prepared)

    def job(self, job_id: str) -> Job:
        """The handle of an existing job. Raises `UnknownAgent`."""
        self.store.jobs.get(job_id)
        return Job(self, job_id)

    def jobs(self, count: int = 50) -> list[JobView]:
        """The newest jobs, newest first."""
        return self.store.jobs.newest(count)

    def find_lacks(self, count: int = 20) -> dict[str, str]:
        """Of the newest jobs, by id, those with agents that nobody can serve, and why."""
        jobs = [self.job(record.id) for record in self.store.jobs.newest(count) if not record.ended]
        return {job.id: lack for job in jobs if (lack := job.find_lack())}

    def agent(self, agent_id: str) -> AgentView:
        """One agent as it stands. Raises `UnknownAgent`."""
        record = self.store.agents.get(agent_id)
        return show_lack(record, self.workers() if record.state == "queued" else None)

    def work(self, agent_id: str) -> Work:
        """What an agent that works on a copy did to files: to read, and to take over. Raises `NoWork`, `UnknownAgent`, `GitFailed`."""
        from swarm.client.work import find_work

        return find_work(self.store, self.settings, agent_id)

    def workers(self) -> list[Has]:
        """What the workers that are there have said of themselves."""
        return list(self.fleet().values())

    def fleet(self) -> dict[str, Has]:
        """The same by worker."""
        said = sorted(self.store.fleet.workers().items())
        return {worker: has for worker, document in said for has in read_workers([document])}

    def journal(self, agent_id: str) -> Sequence[Entry]:
        """Everything an agent has lived. Raises `UnknownAgent`, `JournalError`."""
        self.store.agents.get(agent_id)
        return list(self.store.journals.read(agent_id))

    @property
    def questions(self) -> Questions:
        """The questions that agents have asked people."""
        return self.store.questions

    def answer(
        self, question_id: str, answer: str, *, reason: str = "", mode: str = "", always: bool = False, by: str = USER
    ) -> None:
        """Answer a question: `allow` or `deny` for a permission or a plan, else in words; the agent goes on.

        `always` allows what is plainly of the same kind for the rest of the job; `mode` is what an approved plan is carried
        out in. Raises `UnknownQuestion`, `QuestionClosed`, `BeyondCeiling`.
        """
        if not mode and (most := self.ceiling.bound_mode(AFTER_PLAN)) != AFTER_PLAN:
            mode = most
        self.ceiling.hold(Wanted(mode=next((one for one in MODES if one == mode), None), allow=always))
        self.publish(self.questions.answer(question_id, answer, reason=reason, mode=mode, by=by, always=always))

    def event(self, key: str, data: str = "", *, keep_seconds: float = KEEP_SECONDS, by: str = USER) -> Happening:
        """Tell an event from outside: agents that wait for its key (the tool `WaitFor`) go on, and others find it for `keep_seconds`.

        The first event of a key stays: what a second one says changes nothing, and the first is returned, with `new` false. Keys are
        the swarm's; `by` says who told it. Raises `ConfigurationError` for a key or data that cannot be used.
        """
        told, effect = Happenings(self.store.keyspace).tell(key, data, by=by, keep_seconds=keep_seconds)
        self.publish(effect)
        return told

    def mailbox(self, agent_id: str) -> Mailbox:
        """An agent's mailbox, and how far the agent has read it. Raises `UnknownAgent`, `JournalError`."""
        self.store.agents.get(agent_id)
        # The mailbox first: what is read meanwhile is then shown as read.
        messages = list(self.store.mail.all(agent_id))
        read = (entry for entry in self.store.journals.read(agent_id) if isinstance(entry, Mail | Exchanged))
        cursors = [entry.cursor for entry in read if entry.cursor]
        return Mailbox(messages=messages, read_up_to=cursors[-1] if cursors else "0-0")

    def cancel(self, agent_id: str, reason: str = "cancelled by a person", *, by: str = USER) -> None:
        """Cancel an agent and everything below it, never above; one that has ended stays as it is. Raises `UnknownAgent`.

        `by` is the name of who does it, for the job's events.
        """
        self.publish(self.store.agents.cancel(agent_id, reason, by=(by, 0)))

    def compact(self, agent_id: str, focus: str = "") -> str:
        """Have an agent's conversation summarized before its next turn, with `focus` above all; nobody is woken for it.

        Returns the agent's state. Raises `UnknownAgent`, `AgentCancelled`, `BeyondCeiling`.
        """
        self.hold_job(self.store.agents.get(agent_id).job_id)
        if len(focus.encode()) > MAX_FOCUS_BYTES:
            raise ConfigurationError(f"the focus has more than {MAX_FOCUS_BYTES:,} bytes: say it shorter")
        wanted = json.dumps({"id": secrets.token_hex(8), "focus": focus})
        return self.store.agents.want_summary(agent_id, wanted)

    def hold_job(self, job_id: str) -> None:
        """Raise `BeyondCeiling` for a job that could not have been started within the ceiling: a writer directs what the job may do."""
        if self.ceiling != UNLIMITED:
            from swarm.client.orders import wanted_of

            job = self.store.jobs.get(job_id)
            self.ceiling.hold(
                wanted_of(self.store.agents.spec(job.root_id), job.workspace, self.store.jobs.permissions(job_id).rules)
            )

    @property
    def _sender(self) -> Any:
        from swarm.tasks.app import make_app  # Celery is loaded by those who send, not by those who look

        if not self._senders:  # Copies share the one that is made.
            self._senders.append(make_app(self.settings))
        return self._senders[0]

    def publish(self, effect: Signals) -> None:
        """Carry out what a step of the store asks for: wake agents, stop them."""
        from swarm.tasks.publish import carry_out

        carry_out(self._sender, self.store, effect)
