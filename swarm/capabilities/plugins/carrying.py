"""A job's plugins: the folders that travel with it, and one line about absent ones."""

from __future__ import annotations

from swarm.core.errors import ConfigurationError
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.model import JobPlugins, Plugin
from swarm.definitions.sources import Problem, enumerate_briefly
from swarm.runtime.additions import OrderPart, OrderPlace

MAX_TOTAL_BYTES = 24 * 1024 * 1024
"""Most bytes of all bundles of a job, as stored."""


class PluginsOfOrder(OrderPart):
    """The plugins of one order."""

    def __init__(self, place: OrderPlace) -> None:
        super().__init__(place)
        self.found = found = load_plugins(place.folder, place.home)
        counting = found.counting(trusted=place.trusted)
        self.bundles = [one for one in counting if one.bundle]
        self.grants = found.grants
        self.problems = [
            *found.problems,
            *(fault for one in counting for fault in one.problems),
            *_tell_absent(found.absent),
        ]
        self.packages = {one.bundle_digest: one.bundle for one in self.bundles}

    def document(self) -> JobPlugins | None:
        """The places of the folders that travel. Raises `ConfigurationError` if they are too large together."""
        if not self.bundles:
            return None
        refuse_size(self.bundles)
        return JobPlugins(bundles={one.place: one.bundle_digest for one in self.bundles})


def _tell_absent(absent: tuple[tuple[str, str], ...]) -> list[Problem]:
    """Say in one line for each file which plugins it enables that are not installed."""
    sources = dict.fromkeys(source for _, source in absent)
    return [
        Problem(
            path=source,
            message=f"it enables plugins that are not installed: {enumerate_briefly(names)}",
            remedy=f"`swarm plugins add {names[0]}` installs one.",
        )
        for source in sources
        for names in [[one for one, of in absent if of == source]]
    ]


def refuse_size(bundles: list[Plugin]) -> None:
    """Raise `ConfigurationError` if these folders are more than a job carries."""
    size = sum(len(one.bundle) for one in bundles)
    if size > MAX_TOTAL_BYTES:
        largest = max(bundles, key=lambda one: len(one.bundle))
        raise ConfigurationError(
            f"the folders of the enabled plugins have {size / 2**20:,.1f} MiB, and a job carries {MAX_TOTAL_BYTES // 2**20} MiB; "
            f"disable one of them, for example {largest.id}"
        )
