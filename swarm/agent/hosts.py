"""The state of a host, as its workers announce it, and the differences between the hosts of a fleet. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import install_command

if TYPE_CHECKING:
    from swarm.agent.needs import Has

Value = TypeVar("Value")
CLOCK_WORRY_SECONDS, CLOCK_FAULT_SECONDS = 2.0, 300.0
"""Offsets of a clock that `doctor` reports, and with which a worker takes no agents: providers refuse requests signed at such a time."""


class HostState(BaseModel):
    """One worker's host. Fields of newer versions are ignored."""

    model_config = ConfigDict(frozen=True)

    free_mib: int | None = None
    """Free space of the checkouts' disk."""
    hub_ms: int | None = None
    """How long the hub took to answer the last time."""
    hub_at: float = 0.0
    """When it did, in Unix seconds by Redis' clock."""
    hub_trouble: str = ""
    """Why the hub cannot be used now."""
    clock_offset: float = 0.0
    """Seconds by which the host's clock is ahead of Redis' clock."""
    sandbox: str = ""
    """The sandbox's name; empty: none works."""
    extras: tuple[str, ...] = ()
    """The installed extras of the package."""
    python: str = ""
    git: str = ""
    settings: Mapping[str, str] = {}
    """Settings of the worker that the fleet's hosts should share: variable → value, without secrets."""
    secrets: tuple[str, ...] = ()
    """Variables of secrets that it has."""


@dataclass(frozen=True)
class HostDifference:
    """Something in which hosts differ, or a fault of some, and the remedy; the remedy is empty if there is neither."""

    name: str
    found: str
    remedy: str = ""


def compare_hosts(workers: Iterable[Has]) -> list[HostDifference]:
    """Compare the hosts of these workers, and name for each difference the setting, command or extra that ends it."""
    hosts: dict[str, Has] = {}
    for has in workers:
        hosts.setdefault(has.host or has.node, has)

    def each(read: Callable[[Has], Value]) -> dict[str, Value]:
        return {host: read(has) for host, has in hosts.items()}

    def state(read: Callable[[HostState], Value]) -> dict[str, Value]:
        return each(lambda has: read(has.host_state))

    hubbed = {host: has for host, has in hosts.items() if has.hub}
    found = [
        _compare("hub", each(lambda has: has.hub), "set SWARM_HUB={}"),
        _compare("checkouts", {host: has.checkouts for host, has in hubbed.items()}, "set SWARM_CHECKOUTS={}"),
        _list_faults(
            "hub in reach", {host: has.host_state.hub_trouble for host, has in hubbed.items()}, "see its message"
        ),
        _list_faults("health", each(lambda has: has.sick), "see its message"),
        _compare_lists("extras", state(lambda one: one.extras), install_command),
        _compare_lists("secrets", state(lambda one: one.secrets), _name_secrets),
        _compare("sandbox", state(lambda one: one.sandbox), "install bubblewrap for {}"),
        _compare("version", each(lambda has: has.version), "pip install 'celery-swarm=={}'", newest),
        _compare("Python", state(lambda one: _minor(one.python)), "install Python {}", newest),
        _compare("Git", state(lambda one: _minor(one.git)), "install git {}", newest),
        _list_faults("clock", state(_explain_clock), "timedatectl set-ntp true"),
    ]
    others = {name for has in hosts.values() for name in has.host_state.settings} - {"SWARM_HUB", "SWARM_CHECKOUTS"}
    for name in sorted(others):
        setting = _compare(name, state(lambda one, name=name: one.settings.get(name, "")), f"set {name}={{}}")  # type: ignore[misc]
        found += [setting] if setting.remedy else []
    return found


def most_common(values: Iterable[str]) -> str:
    """The value that most have; of several the smallest, so that all hosts choose the same."""
    counted = Counter(values)
    return min(counted, key=lambda value: (-counted[value], value), default="")


def settings_in_common(workers: Iterable[Has]) -> dict[str, str]:
    """The variables that most of these workers' hosts have, with their values: a new host needs them, too."""
    hosts = {has.host: {**has.host_state.settings, "SWARM_HUB": has.hub} for has in workers}
    names = sorted({name for settings in hosts.values() for name in settings})
    found = {name: most_common(settings.get(name, "") for settings in hosts.values()) for name in names}
    return {name: value for name, value in found.items() if value}


def newest(versions: Iterable[str]) -> str:
    """The newest of some versions."""
    return max(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)], default="")


def _compare(
    name: str, values: Mapping[str, str], remedy: str, choose: Callable[[Iterable[str]], str] = most_common
) -> HostDifference:
    if len(set(values.values())) < 2:
        return HostDifference(name, next(iter(values.values()), "") or "none")
    wanted = choose(filter(None, values.values()))
    others = [host for host, value in values.items() if value != wanted]
    found = "; ".join(f"{host}: {value or 'none'}" for host, value in values.items())
    return HostDifference(name, found, f"{remedy.format(wanted)} on {', '.join(others)}")


def _compare_lists(name: str, lists: Mapping[str, tuple[str, ...]], remedy: Callable[..., str]) -> HostDifference:
    every = sorted({one for names in lists.values() for one in names})
    lacking = {
        host: missing for host, names in lists.items() if (missing := [one for one in every if one not in names])
    }
    if not lacking:
        return HostDifference(name, ", ".join(every) or "none")
    found = "; ".join(f"{host} lacks {', '.join(missing)}" for host, missing in lacking.items())
    return HostDifference(name, found, "; ".join(f"on {host}: {remedy(*missing)}" for host, missing in lacking.items()))


def _name_secrets(*names: str) -> str:
    return f"{' '.join(f'{name}=…' for name in names)} swarm join"


def _list_faults(name: str, faults: Mapping[str, str], remedy: str) -> HostDifference:
    found = "; ".join(f"{host}: {fault}" for host, fault in faults.items() if fault)
    return HostDifference(name, found or "no fault", remedy if found else "")


def _explain_clock(state: HostState) -> str:
    offset = state.clock_offset
    if abs(offset) < CLOCK_WORRY_SECONDS:
        return ""
    return f"its clock is {abs(offset):.0f} s {'ahead of' if offset > 0 else 'behind'} Redis' clock"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
