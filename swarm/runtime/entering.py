"""What has to be before an agent works here: leave to work in its folder, the files its journal names, its first entries."""

from __future__ import annotations

import socket
from pathlib import Path

from swarm.agent.entries import Finished, Prompt, Redefined, Started
from swarm.agent.journaled import Condition
from swarm.agent.needs import needs_of
from swarm.agent.prompts import first_message
from swarm.capabilities.memory.mounts import tell_memory
from swarm.capabilities.skills.skill_tool import preload
from swarm.core.errors import HubAway
from swarm.core.log import EventLog
from swarm.permissions.modes import MODES
from swarm.runtime.carrying import AWAY_AGAIN_SECONDS, Keeping
from swarm.runtime.guidance import Guidance
from swarm.runtime.isolation import Isolation
from swarm.runtime.segment import Segment
from swarm.runtime.summing import Summing
from swarm.runtime.toolbox import Toolbox

log = EventLog("swarm.segment")


def enter(segment: Segment, isolation: Isolation, files: Keeping) -> Finished | Condition | None:
    """Have the workspace be what the journal says, before anything else looks at it.

    Returns why the agent ends instead, or what it waits for; None: it can go on. Raises `HubAway` for one that has not begun.
    """
    if segment.life.finished is not None:
        return None
    why = _keep_below_ceiling(segment) or ("" if segment.spec.is_carried else isolation.enter())
    if why:
        return Finished(state="failed", reason=why)
    try:
        files.enter()
    except HubAway:
        if segment.life.length == 0:
            raise  # Nothing can be parked that has not begun.
        return Condition(until=segment.claim.now() + AWAY_AGAIN_SECONDS)
    return None


def _keep_below_ceiling(segment: Segment) -> str:
    """Why the agent may not work in its folder here, if it may not; people are told once what another one loses here."""
    host, ceiling, wanted = socket.gethostname(), segment.ceiling, segment.claim.spec
    # A copy lies where this worker says, which is checked when it is entered.
    is_copy = segment.spec.is_carried or segment.spec.isolation != "none"
    if not is_copy and (refusal := ceiling.refuse_workspace(segment.spec.workspace, host)):
        return refusal
    modes = [wanted.mode, wanted.after_plan or "plan", segment.life.mode if segment.life.spec else "plan"]
    why = ceiling.explain_bounds(max(modes, key=MODES.index), network=wanted.network)
    if why and segment.store.events.emit_once(wanted.job_id, "bounded", wanted.agent_id, why=why):
        log.warning("agent.bounded", agent_id=wanted.agent_id, host=host, why=why)
    return ""


def begin(segment: Segment, toolbox: Toolbox, guidance: Guidance, summing: Summing) -> Finished | None:
    """Write the journal's first entries. Returns why the agent ends instead, if it cannot begin here."""
    spec = segment.spec
    if not Path(spec.workspace).is_dir():
        where = f"the workspace {spec.workspace} does not exist on the worker's host {socket.gethostname()}"
        remedy = "share the folder with the workers under the same path, run a worker where it is, or have files carried (SWARM_HUB)"
        return Finished(state="failed", reason=f"{where}; {remedy}")
    now = segment.claim.now()
    told = first_message(spec, now=spec.created_at or now)
    if spec.fork is not None:
        segment.journal.append([Started(spec=spec), Prompt(text=told)], activity="starting")
        # The parent's conversation comes before the task.
        segment.journal.load()
        return None
    begins = (tell_memory(segment.store, spec, now=now), preload(segment.store, spec))
    opened = _open(segment, toolbox, Started(spec=spec))
    if isinstance(opened, Finished):
        return opened
    summing.name_job()
    task = Prompt(text="\n\n".join(filter(None, [*begins, told])))
    segment.journal.append([guidance.begin(opened), task], activity="starting")
    return None


def redefine(segment: Segment, toolbox: Toolbox) -> Finished | None:
    """Have its requests begin as its definition has it, where that is not the one that it has lived by. Returns why it ends instead."""
    life, spec = segment.life, segment.spec
    if life.spec is None or life.finished or spec.fork is not None or life.spec.definition == spec.definition:
        return None
    opened = _open(segment, toolbox, Redefined(spec=spec))
    if isinstance(opened, Finished):
        return opened
    segment.journal.append([opened], activity="starting")
    return None


def _open(segment: Segment, toolbox: Toolbox, entry: Started) -> Started | Finished:
    """The entry with what the agent's requests begin with; or why it cannot work."""
    # Not validated, which would copy them: what is encoded once is known by its identity.
    opening = toolbox.open()
    if why := toolbox.servers.refusal:
        return Finished(state="failed", reason=why)
    given = [tool["name"] for tool in opening.tools]
    needs = needs_of(segment.claim.spec, given, servers=toolbox.servers.at_home)
    if needs.wants:
        # Before it has them: whoever goes on with it must have them, too.
        segment.store.agents.need(segment.claim, needs)
    return entry.model_copy(update={**opening._asdict(), "kinds": toolbox.servers.kinds(given)})
