"""Additions of capabilities to an order and to a worker, besides steps of the loop. The base classes add nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic import BaseModel

from swarm.core.settings import Settings
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.foreign_keys import ForeignEntry
from swarm.definitions.grants import Grant
from swarm.definitions.memory_stores import Places
from swarm.definitions.model import AgentDefinition
from swarm.definitions.sources import Problem
from swarm.definitions.tools import ToolRow
from swarm.permissions.rules import Rules
from swarm.runtime.steps import Offer
from swarm.store.store import Store
from swarm.store.values import Signals

if TYPE_CHECKING:
    from swarm.models.router import AnyModel


class OrderPlace(NamedTuple):
    """The place of an order."""

    folder: Path
    home: Path
    """The person's."""
    settings: Settings
    catalogue: Catalogue
    trusted: bool
    """Grants of the folder's files count."""
    memory: Places
    """Places of agents' memory."""


class ExpandedPrompt(NamedTuple):
    """The job that a prompt stands for."""

    prompt: str
    agent: str | None
    model: str | None


class PromptCommand(NamedTuple):
    """A command that a person may call in a prompt: `/name …`."""

    name: str
    about: str
    hint: str
    """The arguments that it takes."""


class OrderPart:
    """The additions of one capability to an order; made from files, once per reading of them."""

    grants: Sequence[Grant] = ()
    """Grants of the workspace's files; they apply only if it is trusted."""
    problems: Sequence[Problem] = ()
    """Unusable entries of files."""
    rules = Rules()
    """Rules for the job."""
    entries: Sequence[ForeignEntry] = ()
    """Entries of other systems' files with their fates, for `swarm compat`."""
    packages: Mapping[str, str] = {}
    """Texts that travel with the job, by digest."""

    def __init__(self, place: OrderPlace) -> None:
        self.place = place

    def expand(self, prompt: str, agent: str | None, rules: Rules) -> ExpandedPrompt | None:
        """The job that a prompt stands for; None if it stands for itself. Raises `ConfigurationError`."""
        return None

    def commands(self) -> Sequence[PromptCommand]:
        """The commands that a prompt may call."""
        return ()

    def names_of(self, row: ToolRow, given: dict[str, Any]) -> Sequence[str]:
        """Every name of a call's subject, as `Step.names_of` of the job's agents says it."""
        return ()

    def document(self) -> BaseModel | None:
        """The document that travels with the job under the capability's name."""
        return None

    def place_first(self, store: Store) -> Sequence[str]:
        """Do what must be done before an agent exists. Returns problems."""
        return ()

    def offer(self) -> Offer | None:
        """The additions to each agent's request prefix, as far as the order shows them."""
        return None

    def tell(self, store: Store, definition: AgentDefinition, now: float) -> str:
        """The text before the task of agents of this type, as far as the order shows it."""
        return ""


class WorkerHost(Protocol):
    """The worker process that does a capability's duties."""

    settings: Settings
    store: Store

    def model_at(self, url: str | None) -> AnyModel:
        """The model of the settings' provider, or of a rehearsal server."""

    def is_draining(self) -> bool:
        """Report whether the worker takes on nothing new."""

    def publish(self, effect: Signals) -> None:
        """Send a step's signals."""


class Duty(NamedTuple):
    """Work that a worker's main process repeats, beginning at once."""

    name: str
    every_seconds: float
    work: Callable[[], float | None]
    """Returns the seconds until it is due again, if that is sooner."""


class WorkerPart:
    """The work of one capability in a worker, besides agents. Raises `ConfigurationError` if no agent may run with these settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def offers(self) -> Mapping[str, str]:
        """Offers that not every worker has, with their versions."""
        return {}

    def duties(self, host: WorkerHost) -> Iterable[Duty]:
        """The repeated work."""
        return ()
