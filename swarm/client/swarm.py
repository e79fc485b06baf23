"""The client for the CLI and Python programs: submit a job, follow it, read it, cancel it.

    from swarm import Swarm

    job = Swarm().submit("Which public functions in this repository have no test?")
    print(job.wait().text)

A client needs only Redis: it runs no agent itself. Workers (`swarm up`, `swarm worker`, `celery -A swarm.tasks worker`) do.
`swarm.client.aio` has the asyncio version.
"""

from __future__ import annotations

import copy
import json
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from swarm.agent.entries import Entry, Exchanged, Mail
from swarm.agent.needs import Has, Needs, asks_anywhere, find_common_lack, read_needs, read_workers, with_model
from swarm.agent.spec import AgentSpec
from swarm.client.ends import JobEnds
from swarm.client.jobs import Job as Job
from swarm.client.jobs import show_lack
from swarm.client.messages import Mailbox
from swarm.client.order import MapOrder, Order, takes
from swarm.core.errors import ConfigurationError
from swarm.core.log import EventLog
from swarm.core.plain import clean_text
from swarm.core.records import AgentView, JobView, ListedState
from swarm.core.settings import Settings, load_settings
from swarm.core.usage import Usage
from swarm.mailbox import USER
from swarm.objects import open_shared_objects
from swarm.permissions.ceiling import UNLIMITED, Ceiling, Privileges
from swarm.permissions.modes import AFTER_PLAN, MODES
from swarm.store.connection import connect, hide_password, redis_url
from swarm.store.external_events import KEEP_SECONDS, ExternalEvent, ExternalEvents
from swarm.store.questions import Questions
from swarm.store.store import Store
from swarm.store.values import Signals

if TYPE_CHECKING:
    from swarm.capabilities.mapping.maps import MapView
    from swarm.client.maps import Map
    from swarm.client.prepared import PreparedJob
    from swarm.client.work import Work

log = EventLog("swarm.client")
MAX_FOCUS_BYTES = 2_000
"""Maximum size of a summary's focus."""
_LOOKED_AT_IN_LINE = 20


class Swarm:
    """A connection to one swarm. Thread-safe; connects on first use."""

    def __init__(self, settings: Settings | None = None, *, tell: Callable[[str], None] | None = None) -> None:
        self.settings = settings or load_settings()
        self.store = Store(
            connect(self.settings), self.settings.key_prefix, partial(open_shared_objects, self.settings)
        )
        self.ends = JobEnds(self.store.streams)
        """The ends of jobs, for waits."""
        self.ceiling: Ceiling = UNLIMITED
        self._senders: list[Any] = []
        self.tell = tell or (lambda what: log.warning("redis.away", what=what))
        """Called while a client waits for Redis, with the job's name; default: the log."""

    def __repr__(self) -> str:
        return f"Swarm({hide_password(redis_url(self.settings))!r})"

    def __enter__(self) -> Swarm:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections; the next use opens new ones."""
        self.store.close()

    def outlasting(self, job_id: str) -> Swarm:
        """A client for watching one job: every call waits for an unavailable Redis, and reports that in the job's name."""
        waiting = copy.copy(self)
        waiting.store = self.store.outlasting(self.store.outage(self.tell, job_id))
        return waiting

    def within(self, ceiling: Ceiling) -> Swarm:
        """A client with a ceiling: submissions, messages and answers beyond it raise `BeyondCeiling`."""
        bounded = copy.copy(self)
        bounded.ceiling = ceiling
        return bounded

    @takes(Order)
    def submit(self, order: Order) -> Job:
        """Put a job on the queue and return its handle; the job is durable on return.

        The options are the fields of `Order`. With a hub in the settings (`SWARM_HUB`), the workspace's files go there, also
        uncommitted ones. Agents then work on copies on any host; `Job.work` takes over their changes. The result for a `result_schema` is
        `JobView.data`; its checks are `JobView.verdicts`. The same order submitted again with its `idempotency_key` makes no second job and
        returns the first one's handle. The handle's `warnings` list unusable entries of settings files.

        Raises `ConfigurationError` for input that cannot be used, `UnknownDefinition`, `BeyondCeiling`, `RedisUnavailable`, `GitFailed`.
        """
        from swarm.client.preparation import prepare_order

        return self.place(prepare_order(order, self.settings, ceiling=self.ceiling))

    @takes(MapOrder)
    def map(self, order: MapOrder) -> Map:
        """Submit a job for each line of `over`; the map is durable on return.

        The options are the fields of `MapOrder`. Questions to a person are denied unless `ask_seconds` gives time to answer.

        Raises `ConfigurationError` for input that cannot be used, and the errors of `submit`.
        """
        from swarm.client.maps import place_map, prepare_map

        return place_map(self, prepare_map(order, self.settings, ceiling=self.ceiling))

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
        """Put a prepared job on the queue; it is durable on return.

        Raises `RedisUnavailable`, `IdempotencyConflict`, and `GitFailed` if its files cannot be sent to the hub.
        """
        from swarm.client.submission import place_job

        return place_job(self, prepared)

    def job(self, job_id: str) -> Job:
        """The handle of an existing job. Raises `UnknownAgent`."""
        self.store.jobs.get(job_id)
        return Job(self, job_id)

    def jobs(
        self,
        count: int = 50,
        *,
        state: ListedState | None = None,
        before: str = "",
        since: float = 0.0,
        text: str = "",
    ) -> list[JobView]:
        """The newest jobs, newest first: only those in a `state` (`running`: all that are open), older than a `JobView.position`, made
        since a time, or with these words in title, workspace or id. Raises `ConfigurationError` for a position that is none.

        The time depends on the jobs returned, not on those kept; with `text`, the server looks through the others."""
        return self.store.jobs.find(count, state=state, before=before, since=since, text=text)

    def find_lacks(self) -> dict[str, str]:
        """The open jobs with agents that no worker can run: job id → reason."""
        workers, found = self.workers(), dict[str, str]()
        for job_id, documents in self.store.fleet.waiting(_LOOKED_AT_IN_LINE).items():
            needs = filter(None, map(read_needs, documents))
            if lack := next(filter(None, (find_common_lack(each, workers) for each in needs)), ""):
                found[job_id] = lack
        return found

    def agent(self, agent_id: str) -> AgentView:
        """One agent's current state. Raises `UnknownAgent`."""
        record = self.store.agents.get(agent_id)
        return show_lack(record, self.workers() if record.state == "queued" else None)

    def work(self, agent_id: str) -> Work:
        """The file changes of an agent that works on a copy: read or take over. Raises `NoWork`, `UnknownAgent`, `GitFailed`."""
        from swarm.client.work import find_work

        return find_work(self.store, self.settings, agent_id)

    def workers(self) -> list[Has]:
        """The capabilities that live workers have announced."""
        return list(self.fleet().values())

    def fleet(self) -> dict[str, Has]:
        """The capabilities that live workers have announced, by worker."""
        said = sorted(self.store.fleet.workers().items())
        return {worker: has for worker, document in said for has in read_workers([document])}

    def journal(self, agent_id: str) -> Sequence[Entry]:
        """An agent's whole journal. Raises `UnknownAgent`, `JournalError`."""
        self.store.agents.get(agent_id)
        return list(self.store.journals.read(agent_id))

    @property
    def questions(self) -> Questions:
        """The questions of agents to people."""
        return self.store.questions

    def answer(
        self, question_id: str, answer: str, *, reason: str = "", mode: str = "", always: bool = False, by: str = USER
    ) -> None:
        """Answer a question: `allow` or `deny` for a permission or a plan, else free text; the agent continues.

        `always` also allows calls plainly of the same kind for the rest of the job; `mode` is the permission mode for an approved plan.
        Raises `UnknownQuestion`, `QuestionClosed`, `BeyondCeiling`.
        """
        if not mode and (most := self.ceiling.bound_mode(AFTER_PLAN)) != AFTER_PLAN:
            mode = most
        self.ceiling.hold(Privileges(mode=next((one for one in MODES if one == mode), None), allow=always))
        self.publish(self.questions.answer(question_id, answer, reason=reason, mode=mode, by=by, always=always))

    def event(self, key: str, data: str = "", *, keep_seconds: float = KEEP_SECONDS, by: str = USER) -> ExternalEvent:
        """Report an external event: agents that wait for its key (the tool `WaitFor`) continue. It is kept for `keep_seconds`.

        The first event of a key stays: a second one changes nothing and returns the first, with `new` false. All jobs of the swarm share
        keys; `by` names the sender. Raises `ConfigurationError` for a key or data that cannot be used.
        """
        told, effect = ExternalEvents(self.store.keyspace).tell(key, data, by=by, keep_seconds=keep_seconds)
        self.publish(effect)
        return told

    def mailbox(self, agent_id: str) -> Mailbox:
        """An agent's mailbox and its read position. Raises `UnknownAgent`, `JournalError`."""
        self.store.agents.get(agent_id)
        # The mailbox first: messages read meanwhile are then shown as read.
        messages = list(self.store.mail.all(agent_id))
        read = (entry for entry in self.store.journals.read(agent_id) if isinstance(entry, Mail | Exchanged))
        cursors = [entry.cursor for entry in read if entry.cursor]
        return Mailbox(messages=messages, read_up_to=cursors[-1] if cursors else "0-0")

    def cancel(self, agent_id: str, reason: str = "cancelled by a person", *, by: str = USER) -> None:
        """Cancel an agent and everything below it, never above. An ended agent is left unchanged. Raises `UnknownAgent`.

        `by` names the author for the job's events.
        """
        self.publish(self.store.agents.cancel(agent_id, reason, by=(by, 0)))

    def compact(self, agent_id: str, focus: str = "") -> str:
        """Have an agent's conversation summarized before its next turn, mainly on `focus`; this wakes no agent.

        Returns the agent's state. Raises `UnknownAgent`, `AgentCancelled`, `BeyondCeiling`.
        """
        self.hold_job(self.store.agents.get(agent_id).job_id)
        if len(focus.encode()) > MAX_FOCUS_BYTES:
            raise ConfigurationError(f"the focus has more than {MAX_FOCUS_BYTES:,} bytes; shorten it")
        wanted = json.dumps({"id": secrets.token_hex(8), "focus": focus})
        return self.store.agents.want(agent_id, "summary", wanted)[0]

    def choose_model(self, agent_id: str, model: str, *, by: str = "") -> str:
        """Have an agent ask another model from its next request on, for good; one that waits for its model continues at once.

        The name can be an alias. Returns the agent's state before. Raises `UnknownAgent`, `AgentCancelled`, `ConfigurationError` and
        `BeyondCeiling`.
        """
        from swarm.models.catalogue import cost_usd, resolve_model

        record = self.store.agents.get(agent_id)
        self.hold_job(record.job_id)
        spec, prices = self.store.agents.spec(agent_id), self.settings.prices_file
        if not model.strip() or "," in model:
            raise ConfigurationError(f"{model!r} is not a model: name one, for example sonnet or openai:gpt-6")
        if not spec.definition.asks_model or spec.batch:
            raise ConfigurationError(f"{agent_id} ({spec.definition.name}) asks no model whose name could change")
        full = resolve_model(model, default=model, parent=spec.model, prices_file=prices)
        if spec.limits.budget_usd is not None and cost_usd(full, Usage(), prices_file=prices) is None:
            raise ConfigurationError(
                f"no price is known for the model {full}, so the job's budget cannot be kept; "
                "add its price to the file that SWARM_PRICES_FILE names"
            )
        wanted = json.dumps({"id": secrets.token_hex(8), "model": full, "by": clean_text(by)})
        instead = self._needs_for(record, spec, full)
        state, effect = self.store.agents.want(agent_id, "model", wanted, instead=instead)
        self.publish(effect)
        return state

    def _needs_for(self, record: AgentView, spec: AgentSpec, model: str) -> tuple[str, Needs] | None:
        """An agent's needs as recorded, and those for another model, if no worker can take the agent as it is."""
        needs, workers = read_needs(record.needs), self.workers()
        if needs is None or not workers or not find_common_lack(needs, workers):
            return None
        other = with_model(needs, "" if asks_anywhere(spec) else model)
        return None if other == needs else (record.needs, other)

    def hold_job(self, job_id: str) -> None:
        """Raise `BeyondCeiling` for a job that could not start within the ceiling, because its writer directs it."""
        if self.ceiling != UNLIMITED:
            from swarm.client.preparation import wanted_of

            job = self.store.jobs.get(job_id)
            self.ceiling.hold(
                wanted_of(self.store.agents.spec(job.root_id), job.workspace, self.store.jobs.permissions(job_id).rules)
            )

    @property
    def _sender(self) -> Any:
        from swarm.tasks.app import make_app  # loads Celery only to send, not to read

        if not self._senders:  # Copies share one sender.
            self._senders.append(make_app(self.settings))
        return self._senders[0]

    def publish(self, effect: Signals) -> None:
        """Send a step's signals: wake agents, stop them."""
        from swarm.tasks.publish import carry_out

        carry_out(self._sender, self.store, effect)
