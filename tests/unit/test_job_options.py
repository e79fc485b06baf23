"""An option of a job is on every surface, or is left out there for a reason; a bad one is refused in our own words.

Tests of swarm/client/order.py, swarm/cli/order_options.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from swarm import Settings, Swarm, signature
from swarm.api.mcp.tools import TOOLS
from swarm.cli import map as map_command
from swarm.cli import run as run_command
from swarm.cli.app import app
from swarm.cli.failures import report
from swarm.client import aio
from swarm.client.acts import ACTS, NewJob, NewMap
from swarm.client.operations import Invocation
from swarm.client.order import REMOTE_LEAVES_OUT, MapOrder, Order, StepOrder
from swarm.core.errors import ConfigurationError, SwarmError
from swarm.core.records import Limits
from swarm.web.operations import MOUNTED
from tests.bad_orders import BAD, REMOTE

ON_PAGE, AS_TOOL = (next(one for one in table if one.name == "start_job").takes for table in (MOUNTED, TOOLS))


def options_of_command(command: Callable[..., None]) -> set[str]:
    known = set(inspect.signature(command).parameters)
    return known | ({"limits"} if Limits.model_fields.keys() <= known else set())


@pytest.mark.parametrize(
    ("order", "known", "left_out"),
    [
        (Order, set(inspect.signature(Swarm.submit).parameters), set()),
        (Order, set(inspect.signature(aio.Swarm.submit).parameters), set()),
        (StepOrder, set(inspect.signature(signature).parameters), set()),
        (MapOrder, set(inspect.signature(Swarm.map).parameters), set()),
        (MapOrder, set(inspect.signature(aio.Swarm.map).parameters), set()),
        (Order, options_of_command(run_command.run), set(run_command.LEAVES_OUT)),
        # Its --over is a command that prints the lines.
        (MapOrder, options_of_command(map_command.map_lines) - {"over"}, set(map_command.LEAVES_OUT)),
        (Order, set(NewJob.model_fields), set(REMOTE_LEAVES_OUT)),
        (MapOrder, set(NewMap.model_fields), {*REMOTE_LEAVES_OUT, "over"}),
        (Order, set(AS_TOOL.model_fields), set(REMOTE_LEAVES_OUT)),
        (Order, set(ON_PAGE.model_fields), set(REMOTE_LEAVES_OUT)),
    ],
    ids=[
        "submit",
        "aio.submit",
        "signature",
        "map",
        "aio.map",
        "swarm run",
        "swarm map",
        "HTTP job",
        "HTTP map",
        "MCP",
        "page",
    ],
)
def test_a_surface_has_every_option_but_those_that_it_leaves_out(
    order: type, known: set[str], left_out: set[str]
) -> None:
    options = {each.name for each in fields(order)}
    assert options - left_out <= known, "a new option must reach this surface, or be left out for a reason"
    assert not left_out & known, "what is left out must not be there"


SWARM = Swarm(Settings(redis_url="redis://127.0.0.1:1/0"))


def order_map(prompt: Any, **given: Any) -> None:
    SWARM.map(f"{prompt} {{it}}" if prompt == "x" else prompt, ["a"], **given)


SURFACES: dict[str, Callable[..., Any]] = {"submit": SWARM.submit, "map": order_map, "signature": signature}


PREPARED = {
    "rule-that-cannot-be-read", "empty-check", "tries-of-nothing", "no-schema", "no-folder", "unknown-agent", "patient-with-tools",
    "empty-prompt",
}  # fmt: skip
"""Looked at where the job is made: a step of a canvas is only written down."""


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("fault", BAD)
def test_a_bad_call_from_python_raises_our_error_in_one_sentence(surface: str, fault: str, tmp_path: Path) -> None:
    if surface == "signature" and fault in PREPARED:
        return
    given = {"workspace": str(tmp_path), **BAD[fault]}
    with pytest.raises(SwarmError) as caught:
        SURFACES[surface](given.pop("prompt", "x"), **given)
    said = str(caught.value)
    assert said and "\n" not in said and "validation error" not in said and "pydantic" not in said, said
    assert isinstance(caught.value, ConfigurationError) or fault in PREPARED, type(caught.value)
    assert fault in PREPARED or any(name in said for name in BAD[fault]), said


def test_a_misspelt_option_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigurationError, match=r"there is no option modle; did you mean mode"):
        SURFACES["submit"]("x", modle="haiku")
    with pytest.raises(ConfigurationError, match=r"no option limits.max_turn; did you mean limits.max_turns\?"):
        SURFACES["submit"]("x", limits={"max_turn": 3})
    with pytest.raises(ConfigurationError, match="prompt is missing"):
        SURFACES["submit"]()
    with pytest.raises(ConfigurationError, match="give each option by its name"):
        SURFACES["submit"]("x", "haiku")


@pytest.mark.parametrize("fault", [*BAD, *REMOTE])
def test_a_bad_body_of_the_page_is_refused_with_its_field(fault: str, tmp_path: Path) -> None:
    given = {"prompt": "x", "workspace": str(tmp_path), **(BAD.get(fault) or {fault: REMOTE[fault]})}
    start = next(one for one in ACTS if one.name == "start_job")
    with pytest.raises(SwarmError) as caught:
        start.run(Invocation(SWARM, "tester"), start.read({}, given, "the body"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ["--modle", "haiku"],
        ["--colour", "red"],
        ["--mode", "zzz"],
        ["--isolation", "yes"],
        ["--network=perhaps"],
        ["--priority", "high"],
        ["--priority", "0"],
        ["--priority", "101"],
        ["--ask", "Bash(("],
        ["--ask-timeout", "soon"],
        ["--ask-timeout", "-1"],
        ["--check", "true", "--tries", "21"],
        ["--check", "true", "--check-timeout", "0"],
        ["--check", "true", "--check-timeout", "2h"],
        ["--check", " "],
        ["--tries", "2"],
        ["--schema", "/no/such/file"],
        ["--rubric", "/no/such/file"],
        ["--max-depth", "-1"],
        ["--budget", "0"],
        ["--workspace", "/no/such/folder"],
        ["--agent", "nobody"],
        ["--batch", "--agent", "build"],
        ["--webhook", "nowhere"],
    ],
    ids=" ".join,
)
def test_a_bad_option_of_the_command_ends_it_with_code_2(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWARM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SWARM_REDIS_URL", "redis://127.0.0.1:1/0")
    where = [] if "--workspace" in words else ["--workspace", str(tmp_path)]
    found = CliRunner().invoke(app, ["run", "-", "--detach", *where, *words], input="x")
    code = report(found.exception) if isinstance(found.exception, SwarmError) else found.exit_code
    assert code == 2, (found.output, found.exception, capsys.readouterr())
