"""Checks and completes an order: the only place that decides what a job may start with.

Every start of a job goes through `prepare_order`, so commands need no checks of their own. An explanation of an agent's permissions
therefore matches its actual permissions.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from swarm.agent.results import check_schema
from swarm.agent.spec import DEFAULT_AGENT, AgentSpec, Files, JobRepository, Limits
from swarm.client.order import Order
from swarm.client.preferred import find_default, require_available
from swarm.client.prepared import PreparedJob
from swarm.client.project import Project, gather
from swarm.client.repositories import find_repository, place_repository
from swarm.core.errors import ConfigurationError
from swarm.core.ids import job_id_for, new_job_id, root_agent_id
from swarm.core.settings import LOOPBACK, Settings
from swarm.definitions.grants import Grant
from swarm.definitions.mcp.lacks import NO_EXTRA
from swarm.definitions.mentions import split_address
from swarm.definitions.model import AgentDefinition, Isolation, Outcome, PermissionMode
from swarm.definitions.names import split_chain
from swarm.definitions.setups import Setup
from swarm.definitions.tools import WORKFLOW
from swarm.models import Usage
from swarm.models.catalogue import cost_usd, resolve_model
from swarm.permissions.ceiling import UNLIMITED, Ceiling, Privileges
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.modes import MODES, first_mode
from swarm.permissions.rules import Action, Rules, parse_rule
from swarm.permissions.sources import COMMAND_LINE
from swarm.store.callbacks import Callback
from swarm.tools.outside import declare_outside_tools
from swarm.workspace.checkouts import place_checkout
from swarm.workspace.home import refuse_home

DEFAULT_MODE: PermissionMode = "acceptEdits"
"""Agents edit the workspace and run commands inside the sandbox; anything beyond needs approval."""
PLANNER = "flow-planner"
"""Type of the agent that writes workflows."""
BATCH_AGENT = "answer"
MAX_PROMPT_BYTES = 4 * 1024 * 1024


def find_workspace(given: str | Path) -> Path:
    """Resolve the workspace folder. Raises `ConfigurationError` if it does not exist."""
    try:
        folder = Path(given).expanduser().resolve()
        found = folder.is_dir()
    except (OSError, RuntimeError, ValueError):  # a loop of links, an unknown home, a null character
        folder, found = Path(given), False
    if not found:
        raise ConfigurationError(f"the workspace {folder} is not a folder; name one that exists with --workspace")
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"the name of the workspace {str(folder)!a} is not UTF-8; rename it") from None
    return folder


Trust = Callable[[Path, Sequence[Grant]], bool]
"""Asks the person whether to trust what a folder's files would loosen, and keeps the answer."""


def prepare_order(
    order: Order,
    settings: Settings,
    *,
    any_type: bool = False,
    ceiling: Ceiling = UNLIMITED,
    trust: Trust | None = None,
    home: Path | None = None,
    definitions: Path | None = None,
) -> PreparedJob:
    """Check an order and read the files it refers to, without writing a record. `any_type` also takes types that only agents start;
    `home` replaces the person's; agent definitions come from the folder `definitions` instead of the workspace.

    Raises `ConfigurationError` for unusable input, `BeyondCeiling` for anything beyond the caller's ceiling, `UnknownDefinition`, and
    `InvalidRule` for a rule that the person typed.
    """
    # Definitions and rules may name outside tools.
    declare_outside_tools(settings.tools)
    job_id = new_job_id() if order.idempotency_key is None else job_id_for(order.idempotency_key)
    repository = find_repository(order, settings, ceiling)
    folder = find_workspace(order.workspace) if repository is None else place_repository(repository, job_id, settings)
    ceiling.hold(_wanted_by(order, "" if repository else folder))
    _check(order, folder)
    if order.workflow:
        order = _plan_workflow(order)
    read = partial(gather, folder, settings, allow=order.allow, ask=order.ask, deny=order.deny, home=home)
    found, declined = read(), False
    if trust is not None and found.grants and not found.trusted:
        declined = not trust(folder, found.grants)
        found = found if declined else read()
    if definitions is not None:
        found = replace(found, catalogue=gather(find_workspace(definitions), settings, home=home).catalogue)
    digest = "" if order.idempotency_key is None else order.digest
    order, title, addressed = _resolve_prompt(order, found)
    definition = _choose_definition(order, found, any_type=any_type or addressed)
    spec = _make_spec(order, definition, job_id, title, _JobPlace(folder, found, settings, ceiling, repository))
    if order.batch:
        found.part("batching").check(spec)
    job = PreparedJob(
        spec,
        folder,
        found,
        settings.question_seconds if order.ask_seconds is None else order.ask_seconds,
        order.priority,
        declined,
        instructions=found.instructions if order.instruction_files and settings.instruction_files else None,
        callback=_callback(order, job_id),
        webhook="" if order.webhook is None else found.part("webhooks").read_address(order.webhook),
        digest=digest,
    )
    if job.needed_servers and not found.can_serve:
        raise ConfigurationError(
            f"the type {definition.name} needs the MCP server {job.needed_servers[0].name}, and {NO_EXTRA}"
        )
    return job


class _JobPlace(NamedTuple):
    """The sources that complete an order."""

    folder: Path
    found: Project
    settings: Settings
    ceiling: Ceiling
    repository: JobRepository | None


def _make_spec(order: Order, definition: AgentDefinition, job_id: str, title: str, place: _JobPlace) -> AgentSpec:
    folder, found, settings, ceiling, repository = place
    mode = first_mode(definition, ceiling.bound_mode(order.mode or found.permissions.default_mode or DEFAULT_MODE))
    isolation = _choose_isolation(order, definition, settings, is_copy=repository is not None)
    limits = _choose_limits(order, definition, place)
    models = _choose_models(order, definition, limits, place)
    return AgentSpec(
        agent_id=root_agent_id(job_id),
        job_id=job_id,
        definition=definition,
        description=title,
        prompt=order.prompt,
        model=models[0],
        fallbacks=tuple(models[1:]),
        workspace=str(_place_workspace(folder, job_id, settings, isolation)),
        isolation=isolation,
        repository=repository,
        files=_choose_files(order, settings, found.setup if found.trusted else None),
        mode=mode,
        after_plan=ceiling.bound_mode("bypassPermissions") if mode == "plan" else None,
        rules=definition_rules(definition),
        folders=ceiling.bound_folders(list(found.permissions.folders)),
        network=(order.network or definition.network) and ceiling.network,
        base_url=order.base_url,
        summaries=order.summaries,
        batch=order.batch,
        limits=limits,
        created_at=time.time(),
    )


def _check(order: Order, folder: Path) -> None:
    """Raise `ConfigurationError` for faults that the order alone shows."""
    if not order.home_workspace and order.repo is None:
        refuse_home(folder)
    check_prompt(order.prompt)
    if order.base_url is not None and not _is_here(order.base_url):
        raise ConfigurationError(
            f"{order.base_url}: a rehearsal server must be on this host; set SWARM_BASE_URL on the workers instead"
        )
    # A settings file's invalid rule is one problem among others; a typed rule must hold.
    given: dict[Action, Sequence[str]] = {"allow": order.allow, "ask": order.ask, "deny": order.deny}
    for action, entries in given.items():
        for entry in entries:
            parse_rule(entry, action, COMMAND_LINE)


def _is_here(url: str) -> bool:
    try:
        return urlsplit(url).hostname in LOOPBACK
    except ValueError:
        return False


def _resolve_prompt(order: Order, found: Project) -> tuple[Order, str, bool]:
    """Resolve a prompt's command (`/review …`) or type (`@explore …`). Returns the order, a title, and whether a type was named."""
    title = order.title or order.prompt
    for part in found.parts.values() if order.commands else ():
        if (called := part.expand(order.prompt, order.agent, found.permissions.rules)) is not None:
            check_prompt(called.prompt)
            agent, model = called.agent or order.agent, order.model or called.model
            order = replace(order, prompt=called.prompt, agent=agent, model=model)
            break
    type_name, task = split_address(order.prompt, found.catalogue)
    addressed = bool(type_name) and order.agent is None
    if addressed:
        order, title = replace(order, agent=type_name, prompt=task), order.title or task
    return order, " ".join(title.split())[:80], addressed


def _choose_definition(order: Order, found: Project, *, any_type: bool) -> AgentDefinition:
    """The root's type, with the order's requirements for its answer."""
    preferred = found.preferences.agent or DEFAULT_AGENT
    definition = found.catalogue.get(order.agent or (BATCH_AGENT if order.batch else preferred))
    # An agent that only explores needs no agent above it.
    if not (definition.may_be_first or any_type):
        raise ConfigurationError(
            f"{definition.name!r} can only be started by other agents; `swarm agents` lists the types a job can start with"
        )
    schema = definition.result_schema if order.result_schema is None else order.result_schema
    if schema is not None:
        _check_schema(schema)
    outcome = _find_outcome(order, definition.outcome)
    return definition.model_copy(update={"result_schema": schema, "outcome": outcome})


def _check_schema(schema: dict[str, Any]) -> None:
    try:
        json.dumps(schema)
        fault = check_schema(schema)
    except (TypeError, ValueError, RecursionError) as error:
        fault = f"it is not JSON ({error})"
    if fault:
        raise ConfigurationError(f"the result schema cannot be used: {fault}")


def _choose_limits(order: Order, definition: AgentDefinition, place: _JobPlace) -> Limits:
    limits = order.limits or Limits()
    most: dict[str, Any] = {"budget_usd": place.ceiling.bound_cost(limits.budget_usd)}
    if definition.max_turns is not None and "max_turns" not in limits.model_fields_set:
        most["max_turns"] = definition.max_turns
    depth = place.found.catalogue.max_depth
    if depth is not None and "max_depth" not in limits.model_fields_set:
        most["max_depth"] = min(limits.max_depth, depth)
    return limits.model_copy(update=most)


def _wanted_by(order: Order, folder: str | Path) -> Privileges:
    return Privileges(
        workspace=folder,
        mode=order.mode,
        network=order.network,
        allow=bool(order.allow),
        check=order.check is not None,
        budget_usd=None if order.limits is None else order.limits.budget_usd,
    )


def wanted_of(spec: AgentSpec, workspace: str, rules: str) -> Privileges:
    """Return the privileges of a job from its root, its folder and its rules (JSON)."""
    known = Rules.model_validate_json(rules).rules if rules else ()
    modes = [spec.mode, *([spec.after_plan] if spec.after_plan is not None else [])]
    return Privileges(
        workspace=workspace,
        mode=max(modes, key=MODES.index),
        network=spec.network,
        allow=any(rule.action == "allow" and rule.source == COMMAND_LINE for rule in known),
        check=spec.definition.outcome is not None and spec.definition.outcome.by_person,
        budget_usd=math.inf if spec.limits.budget_usd is None else spec.limits.budget_usd,
    )


def _choose_files(order: Order, settings: Settings, setup: Setup | None) -> Files | None:
    """Decide once for the job: workers use this, not their own settings."""
    if settings.hub is not None:
        return Files(hub=settings.hub, setup=setup)
    wanted = settings.snapshots if order.snapshots is None else order.snapshots
    return Files() if wanted else None


def _choose_isolation(order: Order, definition: AgentDefinition, settings: Settings, *, is_copy: bool) -> Isolation:
    isolation = "worktree" if is_copy else order.isolation or definition.isolation or "none"
    if settings.hub is not None:
        return "none"  # The hub gives it its own files anyway.
    if isolation == "remote":
        raise ConfigurationError(
            "`isolation: remote` needs a hub to send files to other hosts: set SWARM_HUB, or use worktree"
        )
    return isolation


def _place_workspace(folder: Path, job_id: str, settings: Settings, isolation: Isolation) -> Path:
    """The folder itself, or the place of its copy on any host."""
    if settings.hub is None and isolation == "none":
        return folder
    return place_checkout(settings.checkouts_folder(), root_agent_id(job_id), folder.name)


def _plan_workflow(order: Order) -> Order:
    """Return the order for the planner of workflows, whose program a person approves."""
    if order.agent not in (None, PLANNER):
        raise ConfigurationError(f"--workflow begins with {PLANNER}, not with {order.agent}; omit one of them")
    asks = () if order.mode == "bypassPermissions" else (WORKFLOW,)
    return replace(order, agent=PLANNER, ask=(*order.ask, *asks))


def check_prompt(prompt: str) -> None:
    """Raise `ConfigurationError` for a prompt that no job can have."""
    if not prompt.strip():
        raise ConfigurationError("the prompt is empty; describe the task, or give a workflow its arguments: {}")
    try:
        size = len(prompt.encode())
    except UnicodeEncodeError:
        raise ConfigurationError("the prompt is not UTF-8 text; write it in UTF-8") from None
    if size > MAX_PROMPT_BYTES:
        raise ConfigurationError(
            f"the prompt is longer than {MAX_PROMPT_BYTES // 1024} KiB; put it into a file of the workspace and name that"
        )


def _callback(order: Order, job_id: str) -> Callback | None:
    if order.on_end is None:
        return None
    if order.broker is None:
        raise ConfigurationError(
            "on_end needs `broker`: the name of your application's broker in the workers' SWARM_BROKERS"
        )
    from swarm.tasks.callbacks import read_callback  # loads Celery only for orders with a task

    return read_callback(order.on_end, order.broker, job_id)


def _find_outcome(order: Order, own: Outcome | None) -> Outcome | None:
    """Requirements for the root's work, from the order and its definition."""
    asked = {"check": order.check, "rubric": order.rubric, "tries": order.tries, "check_seconds": order.check_seconds}
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        return own
    for name in ("check", "rubric"):
        if not str(given.get(name, "text")).strip():
            raise ConfigurationError(f"the {name} is empty; say what must hold, or remove it")
    known = {"by_person": False} if own is None else own.model_dump()
    outcome = Outcome.model_validate({**known, **given, "by_person": bool(order.check) or known["by_person"]})
    if not outcome.check and not outcome.rubric:
        raise ConfigurationError("the order has nothing to check the work by; give a check, a rubric, or both")
    return outcome


def _choose_models(order: Order, definition: AgentDefinition, limits: Limits, place: _JobPlace) -> list[str]:
    """Choose the root's chain of models: the order's, or the definition's."""
    prices, preferred = place.settings.prices_file, place.found.preferences
    default = find_default(place.settings, preferred)
    named: Sequence[str | None] = (definition.model, *definition.fallbacks)
    if order.model:
        named = split_chain(order.model) if "," in order.model else (order.model,)
    models = list[str]()
    for name in named:
        model = resolve_model(name, default=default, parent=None, prices_file=prices)
        require_available(model, preferred)
        models.append(model)
        if limits.budget_usd is not None and cost_usd(model, Usage(), prices_file=prices) is None:
            raise ConfigurationError(
                f"no price is known for the model {model}, so a budget cannot be kept; "
                "add its price to the file that SWARM_PRICES_FILE names, or limit tokens instead"
            )
    return models
