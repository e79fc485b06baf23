"""The strict provider, and the server that plays a scenario with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from swarm.rehearsal import scenario as shipped
from swarm.rehearsal import server
from swarm.rehearsal.connection import Headers, Request, RequestRefused
from swarm.rehearsal.provider import InputUsage, Play, Provider
from swarm.rehearsal.scenario import Scenario
from swarm.rehearsal.tree import answer_tree
from swarm.rehearsal.wire import encode_json
from tests.rehearsal.batches import BatchDesk
from tests.rehearsal.chatter import answer_chatter
from tests.rehearsal.checks import check_request
from tests.rehearsal.prompt_cache import Prefix, PromptCache, measure_request
from tests.rehearsal.rate_limits import RateLimiter
from tests.rehearsal.scenario import SimulatedScenario
from tests.rehearsal.summaries import Summaries, bind_thinking

_OWN = Path(__file__).parent / "scenarios"


class Simulation(Provider):
    """What the API itself does, as far as a scenario says so."""

    scripts = {"tree": answer_tree, "chatter": answer_chatter}

    def __init__(self, scenario: SimulatedScenario) -> None:
        self._scenario = scenario
        self._summaries = Summaries()
        self._cache = PromptCache(scenario.cache_minimum_tokens)
        self._limiter = RateLimiter(scenario.rate_limits)
        self._batches = BatchDesk(scenario.batches)

    def check(self, body: dict[str, Any], betas: str, *, counting: bool = False) -> None:
        check_request(body, counting=counting, may_end_with_assistant=self._scenario.pauses)
        if not counting:
            self._summaries.check(body, betas, able=self._scenario.summarizes)

    def measure(self, body: dict[str, Any]) -> Prefix:
        return measure_request(body)

    def look_up(self, scope: str, measured: Any) -> InputUsage:
        return self._cache.look_up(scope, measured)

    def store(self, scope: str, measured: Any) -> None:
        self._cache.store(scope, measured)

    def admit(self, fresh_tokens: int, in_flight: int) -> None:
        wait = self._limiter.admit(fresh_tokens, in_flight)
        if wait is not None:
            message = "The simulated rate limit is used up."
            raise RequestRefused(message, status=429, kind="rate_limit_error", retry_after=wait)

    def spend(self, output_tokens: int) -> None:
        self._limiter.spend(output_tokens)

    def headers(self) -> Headers:
        return self._limiter.headers()

    def bind_thinking(self, body: dict[str, Any]) -> str:
        return bind_thinking(body)

    def summarize(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        return self._summaries.make(body, text)

    def route(self, request: Request, path: str, play: Play) -> bytes | None:
        base = f"http://{request.headers.get('host', '')}"
        match request.method, path.removeprefix("/v1/messages/batches").strip("/").split("/"):
            case _ if not path.startswith("/v1/messages/batches"):
                return super().route(request, path, play)
            case "POST", [""]:
                batch, heard = self._batches.post(request.json())
                return encode_json(batch) if heard else None
            case "GET", [""]:
                return encode_json(self._batches.page(base))
            case "GET", [batch_id]:
                return encode_json(self._batches.get(batch_id, base))
            case "GET", [batch_id, "results"]:
                return b"".join(encode_json(result) + b"\n" for result in self._batches.results(batch_id, play))
        return super().route(request, path, play)

    def stats(self) -> dict[str, Any]:
        return {"batches": self._batches.stats()}


class RehearsalServer(server.RehearsalServer):
    """Plays one scenario, strictly."""

    def __init__(self, scenario: Scenario, *where: Any, **options: Any) -> None:
        if not isinstance(scenario, SimulatedScenario):
            scenario = SimulatedScenario.model_validate(dict(scenario))
        super().__init__(scenario, *where, provider=Simulation(scenario), **options)


def load_scenario(name_or_path: str | Path) -> SimulatedScenario:
    """The scenario of the tests or the shipped one of that name, or the one in that file."""
    own = _OWN / f"{name_or_path}.yaml"
    return cast(SimulatedScenario, shipped.load_scenario(own if own.is_file() else name_or_path, SimulatedScenario))


def parse_scenario(text: str, source: str = "scenario") -> SimulatedScenario:
    """Read a scenario from YAML; `source` names it in errors, and is its name if it states none."""
    return cast(SimulatedScenario, shipped.parse_scenario(text, source, SimulatedScenario))
