"""Blows that fall on the hosts of a network, one after the other, and what each was good for."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from swarm import Job
from tests.hosts.network import HostNetwork, Station


@dataclass(frozen=True)
class Fall:
    """An agent whose host lost its power while it ran."""

    agent_id: str
    generation: int
    lease_until: float
    """By Redis' clock, in seconds since the epoch."""


@dataclass
class Storm:
    """Power cuts, pulled cables, hosts that hear nothing, loss, a hub that is killed; the same in the same order for a seed."""

    network: HostNetwork
    seed: int
    pause_seconds: tuple[float, float] = (1.0, 4.0)
    hold_seconds: tuple[float, float] = (1.0, 7.0)
    blows: Counter[str] = field(default_factory=Counter)
    falls: list[Fall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._rage, name="storm")
        self.job: Job | None = None
        """Whose falls are noted."""
        self.failure: BaseException | None = None
        self.hub_is_used = threading.Lock()
        """Held by whoever needs the hub now: a person is told to submit again, an agent waits."""

    def begin(self) -> None:
        """Let it begin."""
        self._thread.start()

    def end(self) -> None:
        """End it when the blow of now is over, with everything mended; raises what went wrong in it."""
        self._over.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _rage(self) -> None:
        kinds: list[Callable[[Station], None]] = [self.cut_power, self.cut_power, self.pull, self.deafen, self.lose]
        try:
            while not self._over.wait(self._random.uniform(*self.pause_seconds)):
                station = self._random.choice(self.network.stations)
                [self._kill_hub, *kinds][self._random.randrange(len(kinds) + 1)](station)
        except BaseException as error:
            self.failure = error

    def _hold(self) -> None:
        self._over.wait(self._random.uniform(*self.hold_seconds))

    # -- the blows ---------------------------------------------------------------------------------------------

    def cut_power(self, station: Station) -> None:
        """A power cut, and the power back."""
        running = [] if self.job is None else [one for one in self.job.agents() if one.state == "running"]
        station.host.cut_power()
        store = self.network.swarm.store
        for one in running:
            until = store.keyspace.client.zscore(store.keyspace.key("leases"), one.id)
            now = self.network.swarm.agent(one.id)
            if station.ran(now) and now.state == "running" and until is not None:
                self.falls.append(Fall(one.id, now.generation, float(until)))
        self._hold()
        station.host.switch_on()
        station.begin_work()
        station.wait_ready()
        self.blows["power cut"] += 1

    def pull(self, station: Station) -> None:
        """The cable is pulled, and put back."""
        station.host.cable.pull()
        self._hold()
        station.host.cable.plug_in()
        self.blows["cable pulled"] += 1

    def deafen(self, station: Station) -> None:
        """It hears nothing of Redis and the hub, which hear it."""
        station.host.deafen(self.network.store)
        self._hold()
        station.host.hear()
        self.blows["one-way cut"] += 1

    def lose(self, station: Station) -> None:
        """A fifth of what it is sent is lost."""
        station.host.lose(20)
        self._hold()
        station.host.hear()
        self.blows["loss of 20 %"] += 1

    def _kill_hub(self, _: Station) -> None:
        with self.hub_is_used:
            self.network.kill_hub()
            time.sleep(self._random.uniform(0, 2))
            self.network.start_hub()
        self.blows["hub killed"] += 1


def measure_moves(network: HostNetwork, job: Job, falls: list[Fall]) -> list[tuple[float, float]]:
    """Of agents that fell: from the end of the lease, and from the next claim, until their files were there and they went on."""
    events = network.swarm.store.keyspace.client.xrange(network.swarm.store.keyspace.key("events", job.id))
    logs = "\n".join(station.whole_log() for station in network.stations)
    moves = []
    for fall in falls:
        claimed = [
            int(at.partition("-")[0]) / 1000
            for at, event in events
            if event["agent"] == fall.agent_id and event["kind"] == "running" and int(event["gen"]) > fall.generation
        ]
        brought = re.findall(rf"files\.brought agent_id={fall.agent_id} commit=\S+ seconds=([\d.]+)", logs)
        if claimed and brought:
            moves.append((claimed[0] + float(brought[-1]) - fall.lease_until, float(brought[-1])))
    return moves
