"""What a person orders, checked and completed: the one place that decides what a job may be started with.

Everything that starts a job goes through `prepare_order`, so commands need not check again what it checks, and whoever explains
what an agent would be allowed sees exactly what it would be given.
"""

from __future__ import annotations

import hashlib
import math
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from swarm.agent.results import check_schema
from swarm.agent.spec import DEFAULT_AGENT, AgentSpec, Files, Limits
from swarm.capabilities.batching.batches import refuse_more_turns
from swarm.capabilities.context.instructions import Instructions
from swarm.capabilities.memory.files import Folder, find_memory_folders
from swarm.capabilities.memory.shelves import Places, find_places
from swarm.capabilities.skills.commands import Place, call_command
from swarm.capabilities.skills.model import Skills
from swarm.capabilities.webhooks.addresses import read_address
from swarm.client.gathering import Gathered, gather
from swarm.core.errors import ConfigurationError
from swarm.core.ids import job_id_for, new_job_id, root_agent_id
from swarm.core.settings import LOOPBACK, Settings
from swarm.definitions.addressing import split_address
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.grants import Grant
from swarm.definitions.mcp.reading import explain_absent
from swarm.definitions.mcp.servers import JobServers
from swarm.definitions.model import AgentDefinition, Isolation, Outcome, PermissionMode
from swarm.definitions.setups import Setup
from swarm.models import Usage
from swarm.models.catalogue import cost_usd, resolve_model
from swarm.permissions.ceiling import UNLIMITED, Ceiling, Wanted
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.modes import MODES, first_mode
from swarm.permissions.rules import Action, Rules, parse_rule
from swarm.permissions.sources import COMMAND_LINE, PermissionSettings
from swarm.store.sequels import Sequel
from swarm.tools.outside import declare_outside_tools
from swarm.workspace.checkouts import place_checkout
from swarm.workspace.home import refuse_home

DEFAULT_MODE: PermissionMode = "acceptEdits"
"""Agents edit in the workspace and run what the sandbox holds to it; whatever goes beyond is asked about."""
MAX_PROMPT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Order:
    """What a person asks for; the fields are the arguments of `Swarm.submit`, which says what each means."""

    prompt: str
    agent: str = DEFAULT_AGENT
    workspace: str | Path = "."
    limits: Limits | None = None
    model: str | None = None
    base_url: str | None = None
    title: str | None = None
    mode: PermissionMode | None = None
    allow: Sequence[str] = ()
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    network: bool = False
    ask_seconds: float | None = None
    result_schema: dict[str, Any] | None = None
    check: str | None = None
    rubric: str | None = None
    tries: int | None = None
    check_seconds: float | None = None
    summaries: bool = False
    home_workspace: bool = False
    instruction_files: bool = True
    priority: int = 1
    idempotency_key: str | None = None
    snapshots: bool | None = None
    isolation: Isolation | None = None
    on_end: Mapping[str, Any] | None = None
    broker: str | None = None
    commands: bool = False
    """A prompt that begins with `/name` calls that command, or that skill."""
    patient: bool = False
    webhook: str | None = None
    """Where people are told of it, if workers allow that."""

    @property
    def digest(self) -> str:
        """Tells whether two orders with one idempotency key ask for the same."""
        asked: tuple[str | None, ...]
        asked = (self.prompt, str(self.workspace), self.agent, self.model, self.mode, self.base_url)
        if self.check or self.rubric:
            asked += (self.check, self.rubric)
        return hashlib.sha256(repr(asked).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class PreparedJob:
    """A job that can be put on the queue."""

    spec: AgentSpec
    """Its root agent; where files are carried, still without the commit that they begin as."""
    folder: Path
    """The person's folder."""
    gathered: Gathered
    """What files say about it."""
    ask_seconds: float
    priority: int
    """Its weight when jobs wait for the fleet."""
    declined: bool = False
    """The person was asked about that just now, and does not want it."""
    instructions: Instructions | None = None
    """The instruction files that travel with it; None if they are switched off."""
    sequel: Sequel | None = None
    """What is published when it ends."""
    webhook: str = field(default="", repr=False)
    """The address that it brings, with its secret, as JSON."""
    places: Places | None = None
    """Where its agents find what they remember …"""
    memory_folders: tuple[Folder, ...] = ()
    """… and what lies in files for that."""
    digest: str = ""
    """Of the order, if it may be submitted again; empty otherwise."""

    @property
    def documents(self) -> dict[str, str]:
        """What travels with it besides definitions, by what it is."""
        servers, skills = self.gathered.configured.servers, self.skills
        given = {
            "instructions": self.instructions,
            "skills": skills if skills.skills else None,
            "servers": JobServers(servers=list(servers)) if servers else None,
            "hooks": self.gathered.hooks.holding(trusted=self.trusted) or None,
        }
        return {name: document.model_dump_json() for name, document in given.items() if document is not None}

    @property
    def catalogue(self) -> Catalogue:
        """The types of agents that it may have."""
        return self.gathered.catalogue

    @property
    def permissions(self) -> PermissionSettings:
        """What settings files and the order say."""
        return self.gathered.permissions

    @property
    def trusted(self) -> bool:
        """What files of the workspace loosen holds."""
        return self.gathered.trusted

    @property
    def skills(self) -> Skills:
        """The skills and commands that travel with it."""
        return self.gathered.skills

    @property
    def rules(self) -> Rules:
        """All rules that hold for its root."""
        return self.permissions.rules + self.spec.rules

    @property
    def grants(self) -> list[Grant]:
        """What files of the workspace would loosen, or loosen, if it is trusted."""
        return self.gathered.grants

    @property
    def ignored(self) -> str:
        """What is not trusted and therefore does not hold, and how it would, in a line; empty if there is nothing to say."""
        if self.trusted or self.declined or not self.grants:
            return ""
        sources = ", ".join(dict.fromkeys(grant.source for grant in self.grants))
        ignored = f"{len(self.grants)} things that files of this workspace would allow are ignored ({sources})"
        command = f"swarm trust {shlex.quote(str(self.folder))}"
        return f"{ignored}; `{command} --show` lists them, without --show it grants them"

    @property
    def warnings(self) -> list[str]:
        """What the settings files held that could not be used, or was not."""
        found = [*self.gathered.problems, *(self.instructions.problems if self.instructions else ())]
        problems = [str(problem) for problem in found]
        if lack := explain_absent(self.spec.definition, self.gathered.configured, self.catalogue.unapproved):
            problems.append(f"{self.spec.definition.name}: {lack}")
        return [*problems, self.ignored] if self.ignored else problems


def find_workspace(given: str | Path) -> Path:
    """The folder, resolved. Raises `ConfigurationError` if there is none."""
    folder = Path(given).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigurationError(f"the workspace {folder} is not a folder; name one that exists with --workspace")
    return folder


def prepare_order(
    order: Order, settings: Settings, *, any_type: bool = False, ceiling: Ceiling = UNLIMITED
) -> PreparedJob:
    """Check an order and read what it refers to, once; nothing is written. `any_type` also takes types that only agents start.

    Raises `ConfigurationError` for what cannot be used, `BeyondCeiling` for what goes beyond the caller's, `UnknownDefinition`,
    `InvalidRule` for a rule that the person typed.
    """
    # Definitions and rules may name them.
    declare_outside_tools(settings.tools)
    folder = find_workspace(order.workspace)
    ceiling.hold(_wanted_by(order, folder))
    if not order.home_workspace:
        refuse_home(folder)
    check_prompt(order.prompt)
    if order.base_url is not None and urlsplit(order.base_url).hostname not in LOOPBACK:
        raise ConfigurationError(
            f"{order.base_url}: a rehearsal server must be on this host; set SWARM_BASE_URL on the workers instead"
        )
    if not 1 <= order.priority <= 100:
        raise ConfigurationError(f"a priority of {order.priority} cannot be given; use 1 to 100")
    _check_rules(order)
    found = gather(folder, settings, allow=order.allow, ask=order.ask, deny=order.deny)
    catalogue, permissions = found.catalogue, found.permissions
    digest, asked = "" if order.idempotency_key is None else order.digest, order.prompt
    if order.commands:
        place = Place(folder, permissions.rules, settings)
        chosen = None if order.agent == DEFAULT_AGENT else order.agent
        if (called := call_command(order.prompt, chosen, found.skills, catalogue, place)) is not None:
            check_prompt(called.prompt)
            agent, model = called.agent or order.agent, order.model or called.model
            order = replace(order, prompt=called.prompt, agent=agent, model=model)
    order, addressed = _address(order, catalogue)
    asked = order.prompt if addressed else asked
    definition = catalogue.get(order.agent)
    # Who only finds things out needs nobody above it.
    if not (definition.may_be_first or any_type or addressed):
        raise ConfigurationError(
            f"{order.agent!r} can only be started by other agents; `swarm agents` shows those a job can start with"
        )
    limits = order.limits or Limits()
    limits = limits.model_copy(update={"budget_usd": ceiling.bound_cost(limits.budget_usd)})
    if definition.max_turns is not None and "max_turns" not in limits.model_fields_set:
        limits = limits.model_copy(update={"max_turns": definition.max_turns})
    if catalogue.max_depth is not None and "max_depth" not in limits.model_fields_set:
        limits = limits.model_copy(update={"max_depth": min(limits.max_depth, catalogue.max_depth)})
    if order.result_schema is not None:
        definition = definition.model_copy(update={"result_schema": order.result_schema})
    definition = definition.model_copy(update={"outcome": _find_outcome(order, definition.outcome)})
    if definition.result_schema is not None and (fault := check_schema(definition.result_schema)):
        raise ConfigurationError(f"the result schema cannot be used: {fault}")
    if order.patient:
        copies = settings.hub is not None or (order.isolation or definition.isolation or "none") != "none"
        provider = settings.provider if order.base_url is None else "anthropic"
        refuse_more_turns(definition, provider, summaries=order.summaries, copies=copies)
    mode = first_mode(definition, ceiling.bound_mode(order.mode or permissions.default_mode or DEFAULT_MODE))
    isolation = _choose_isolation(order, definition, settings)
    job_id = new_job_id() if order.idempotency_key is None else job_id_for(order.idempotency_key)
    spec = AgentSpec(
        agent_id=root_agent_id(job_id),
        job_id=job_id,
        definition=definition,
        description=(order.title or " ".join(asked.split()))[:80],
        prompt=order.prompt,
        model=_choose_model(order, definition, limits, settings),
        workspace=str(_place_workspace(folder, job_id, settings, isolation)),
        isolation=isolation,
        files=_choose_files(order, settings, found.setup if found.trusted else None),
        mode=mode,
        after_plan=ceiling.bound_mode("bypassPermissions") if mode == "plan" else None,
        rules=definition_rules(definition),
        folders=ceiling.bound_folders(list(permissions.folders)),
        network=(order.network or definition.network) and ceiling.network,
        base_url=order.base_url,
        summaries=order.summaries,
        patient=order.patient,
        limits=limits,
        created_at=time.time(),
    )
    seconds = settings.question_seconds if order.ask_seconds is None else order.ask_seconds
    return PreparedJob(
        spec,
        folder,
        found,
        seconds,
        order.priority,
        instructions=found.instructions if order.instruction_files and settings.instruction_files else None,
        sequel=_sequel(order, job_id),
        webhook="" if order.webhook is None else read_address(order.webhook, settings).model_dump_json(),
        places=(places := find_places(folder, settings.memory_owner)),
        memory_folders=tuple(find_memory_folders(catalogue.definitions.values(), places, folder, Path.home())),
        digest=digest,
    )


def _wanted_by(order: Order, folder: Path) -> Wanted:
    return Wanted(
        workspace=folder,
        mode=order.mode,
        network=order.network,
        allow=bool(order.allow),
        check=order.check is not None,
        budget_usd=None if order.limits is None else order.limits.budget_usd,
    )


def wanted_of(spec: AgentSpec, workspace: str, rules: str) -> Wanted:
    """What a job has, by its root, its folder and its rules (JSON), as if somebody had ordered it."""
    known = Rules.model_validate_json(rules).rules if rules else ()
    modes = [spec.mode, *([spec.after_plan] if spec.after_plan is not None else [])]
    return Wanted(
        workspace=workspace,
        mode=max(modes, key=MODES.index),
        network=spec.network,
        allow=any(rule.action == "allow" and rule.source == COMMAND_LINE for rule in known),
        check=spec.definition.outcome is not None and spec.definition.outcome.by_person,
        budget_usd=math.inf if spec.limits.budget_usd is None else spec.limits.budget_usd,
    )


def _address(order: Order, catalogue: Catalogue) -> tuple[Order, bool]:
    """The order for the type that its prompt begins with (`@explore …`), and whether there is one."""
    type_name, task = split_address(order.prompt, catalogue)
    if not type_name or order.agent != DEFAULT_AGENT:
        return order, False
    return replace(order, agent=type_name, prompt=task), True


def _choose_files(order: Order, settings: Settings, setup: Setup | None) -> Files | None:
    """Decided here, once for the job: workers see what it has, not what they are set to."""
    if settings.hub is not None:
        return Files(hub=settings.hub, setup=setup)
    wanted = settings.snapshots if order.snapshots is None else order.snapshots
    return Files() if wanted else None


def _choose_isolation(order: Order, definition: AgentDefinition, settings: Settings) -> Isolation:
    isolation = order.isolation or definition.isolation or "none"
    if settings.hub is not None:
        return "none"  # Its files are its own in any case.
    if isolation == "remote":
        raise ConfigurationError(
            "`isolation: remote` needs a hub, by which files reach other hosts: set SWARM_HUB, or use worktree"
        )
    return isolation


def _place_workspace(folder: Path, job_id: str, settings: Settings, isolation: Isolation) -> Path:
    """The folder itself, or where its copy lies on whatever host."""
    if settings.hub is None and isolation == "none":
        return folder
    return place_checkout(settings.checkouts_folder(), root_agent_id(job_id), folder.name)


def check_prompt(prompt: str) -> None:
    """Raise `ConfigurationError` for a prompt that no job can have."""
    if not prompt.strip():
        raise ConfigurationError("the prompt is empty; say what is to be done")
    try:
        size = len(prompt.encode())
    except UnicodeEncodeError:
        raise ConfigurationError("the prompt is not UTF-8 text; write it in UTF-8") from None
    if size > MAX_PROMPT_BYTES:
        raise ConfigurationError(
            f"the prompt is longer than {MAX_PROMPT_BYTES // 1024} KiB; put it into a file of the workspace and name that"
        )


def _sequel(order: Order, job_id: str) -> Sequel | None:
    if order.on_end is None:
        return None
    if order.broker is None:
        raise ConfigurationError(
            "on_end needs `broker`: the name by which the swarm's workers know where to publish it"
        )
    from swarm.tasks.sequels import read_signature  # Celery is loaded by those who name a task

    return Sequel(broker=order.broker, signature=read_signature(order.on_end, job_id))


def _check_rules(order: Order) -> None:
    # In a settings file it would be a problem among others; whoever types a rule wants it to hold.
    given: dict[Action, Sequence[str]] = {"allow": order.allow, "ask": order.ask, "deny": order.deny}
    for action, entries in given.items():
        for entry in entries:
            parse_rule(entry, action, COMMAND_LINE)


def _find_outcome(order: Order, own: Outcome | None) -> Outcome | None:
    """What the root's work must satisfy: what the order says, beside what its definition does."""
    asked = {"check": order.check, "rubric": order.rubric, "tries": order.tries, "check_seconds": order.check_seconds}
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        return own
    for name in ("check", "rubric"):
        if not str(given.get(name, "text")).strip():
            raise ConfigurationError(f"the {name} is empty; say what must hold, or leave it away")
    known = {} if own is None else own.model_dump()
    try:
        outcome = Outcome.model_validate(
            {**known, **given, "by_person": bool(order.check) or known.get("by_person", False)}
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"{first['loc'][0]} cannot be used: {first['msg']}") from None
    if not outcome.check and not outcome.rubric:
        raise ConfigurationError("there is nothing that the work is tried by; give a check, a rubric, or both")
    return outcome


def _choose_model(order: Order, definition: AgentDefinition, limits: Limits, settings: Settings) -> str:
    prices = settings.prices_file
    model = resolve_model(order.model or definition.model, default=settings.model, parent=None, prices_file=prices)
    if limits.budget_usd is not None and cost_usd(model, Usage(), prices_file=prices) is None:
        raise ConfigurationError(
            f"no price is known for the model {model}, so a budget cannot be kept; "
            "add its price to the file that SWARM_PRICES_FILE names, or limit tokens instead"
        )
    return model
