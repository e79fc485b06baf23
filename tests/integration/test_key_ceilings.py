"""What a key may order at most, at real servers: every field of an order has a decision here, and a new one fails until it has.

Tests of swarm/api/application.py, swarm/api/keys.py, swarm/api/mcp/tools.py, swarm/cli/keys.py, swarm/permissions/ceiling.py,
swarm/store/api_keys.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner

from swarm import Job, Limits
from swarm.api.application import MOUNTED, PREFIX
from swarm.api.mcp.tools import TOOLS
from swarm.cli.app import app
from swarm.core.ids import root_agent_id
from swarm.permissions.ceiling import KEY_CEILING, Ceiling
from swarm.store.api_keys import ApiKeys
from tests.fleet import Fleet
from tests.serving import serving
from tests.waiting import wait_for

BEYOND: dict[str, tuple[Any, str]] = {
    "mode": ("bypassPermissions", "--mode bypassPermissions"),
    "allow": (["Bash"], "--allow-rules"),
    "network": (True, "--network"),
    "check": ("true", "--check"),
    "workspace": ("/", "--workspace /"),
    "limits": ({"budget_usd": 2.5}, "--max-cost 2.5"),
    "budget_usd": (2.5, "--max-cost 2.5"),
    "repo": ("octo/cat", "--network"),
    "branch": ("fix", "--network"),
    "pr": (True, "--network"),
    "issue": (7, "--network"),
    "commit_status": (True, "--network"),
}
"""Fields that a ceiling bounds: a value beyond it, and the option of `swarm keys add` that allows it."""
FREE: dict[str, Any] = {
    "agent": "general-purpose",
    "ask": ["Bash"],
    "ask_seconds": 10,
    "check_seconds": 600,
    "deny": ["Bash"],
    "idempotency_key": "one",
    "instruction_files": False,
    "isolation": "none",
    "lines": ["a", "b"],
    "max_running": 2,
    "model": "haiku",
    "batch": True,
    "priority": 100,
    "prompt": "do {it}",
    "result_schema": {"type": "object"},
    "retries": 1,
    "rubric": "It is short.",
    "snapshots": False,
    "summaries": True,
    "title": "x",
    "tries": 2,
    "wait_seconds": 0,
    "workflow": False,
}
"""Fields that give an agent no right, with a value that everybody may order."""
TOGETHER = {
    "check_seconds": {"rubric": "x"},
    "tries": {"rubric": "x"},
    "batch": {"agent": "answer"},
    "branch": {"repo": "octo/cat"},
    "pr": {"repo": "octo/cat"},
    "issue": {"repo": "octo/cat"},
    "commit_status": {"repo": "octo/cat"},
}
"""What must be given beside them."""
NAMED = {"limits": "budget_usd", "branch": "repo", "pr": "repo", "issue": "repo", "commit_status": "repo"}
"""The field that a refusal names, if it is another one."""
OF_TRIGGERS = ("apply_trigger", "fire_trigger", "replay_event", "resume_trigger")
"""Their orders come from a trigger's file."""
ORDERS = {one.name: one for one in MOUNTED if one.scope == "submit" and one.content and one.name not in OF_TRIGGERS}
NEEDED: dict[str, dict[str, Any]] = {"start_job": {"prompt": "x"}, "start_map": {"prompt": "do {it}", "lines": ["a"]}}
BOUNDED = (
    "start_job",
    "start_map",
    "retry_map",
    "send_message",
    "compact_agent",
    "choose_model",
    "answer_question",
    "send_review",
    *OF_TRIGGERS,
)
"""Start or change work with what it may."""
HARMLESS = (
    "cancel_job",
    "cancel_map",
    "cancel_agent",
    "forget_job",
    "mark_read",
    "tell_event",
    "pause_trigger",
    "delete_trigger",
    "score_job",
)
"""Only end, remove or score it; or say what agents have asked to be told, as something from outside."""


class Served:
    """A server of the API, and keys."""

    def __init__(self, fleet: Fleet, url: str) -> None:
        self.fleet, self.url, self.keys = fleet, url, ApiKeys(fleet.swarm.store.keyspace)

    @contextmanager
    def key(self, *scopes: str, **ceiling: Any) -> Iterator[httpx.Client]:
        """A client with a key of its own."""
        token = self.keys.create("tried", scopes, KEY_CEILING.model_copy(update=ceiling))
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
            yield client
        self.keys.remove("tried")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with closing(Fleet()) as fleet, serving(fleet) as url:
        yield Served(fleet, url)


def check_refused(answer: httpx.Response, field: str, option: str) -> None:
    """It is a refusal that names the field, and how more is given."""
    assert answer.status_code == 403, (field, answer.text)
    error = answer.json()["error"]
    assert error["code"] == "forbidden" and error["message"].startswith(f"{field}: "), error
    assert f"swarm keys add NAME {option}" in error["message"], error


def test_every_field_of_an_order_has_been_decided_about() -> None:
    known = BEYOND.keys() | FREE.keys()
    for name, endpoint in ORDERS.items():
        assert endpoint.takes.model_fields.keys() <= known, (
            f"{name}: decide whether a key's ceiling bounds the new field"
        )
    for tool in (tool for tool in TOOLS if tool.scope == "submit" and tool.name not in OF_TRIGGERS):
        assert tool.takes.model_fields.keys() <= known, f"{tool.name}: decide whether a ceiling bounds the new field"
    acting = {one.name for one in MOUNTED if one.method != "GET"}
    assert acting == {*BOUNDED, *HARMLESS}, "decide whether a key's ceiling bounds what the new endpoint does"
    assert ORDERS.keys() == NEEDED.keys()


def test_a_trigger_orders_nothing_beyond_the_ceiling_of_the_key_that_puts_it(served: Served) -> None:
    workspace = served.fleet.workspace
    with served.key("submit", "cancel", workspaces=(workspace,), max_cost_usd=2) as client:
        for field in BEYOND.keys() - {"issue", "budget_usd"}:
            value, option = BEYOND[field]
            where = {} if field == "repo" else TOGETHER.get(field, {"workspace": str(workspace)})
            head = json.dumps({"name": "tried", **where, field: value})[1:-1].replace(', "', '\n"')
            answer = client.post("/v1/triggers", json={"text": f"---\n{head}\n---\nx"})
            check_refused(answer, NAMED.get(field, field), option)
        for field in ("base_url", "webhook", "on_end", "broker", "home_workspace"):
            given = {"text": f"---\nname: tried\nworkspace: {workspace}\n{field}: x\n---\nx"}
            assert client.post("/v1/triggers", json=given).status_code == 400, field


@pytest.mark.parametrize("name", ORDERS)
def test_a_key_with_submit_alone_orders_nothing_beyond_the_safe_ceilings(served: Served, name: str) -> None:
    workspace = served.fleet.workspace
    path, fields = PREFIX + ORDERS[name].path, ORDERS[name].content
    with served.key("submit", workspaces=(workspace,), max_cost_usd=2) as client:
        for field in fields:
            order = {"workspace": str(workspace), **NEEDED[name], **TOGETHER.get(field, {})}
            if field in BEYOND:
                value, option = BEYOND[field]
                check_refused(client.post(path, json={**order, field: value}), NAMED.get(field, field), option)
            else:
                answer = client.post(path, json={**order, field: FREE[field] if field != "prompt" else order["prompt"]})
                assert answer.status_code == 201, (field, answer.text)
        for unknown in ("base_url", "webhook", "on_end", "broker", "home_workspace"):
            assert client.post(path, json={**order, unknown: "http://127.0.0.1:1"}).status_code == 400
    assert "base_url" not in json.dumps(httpx.get(f"{served.url}/v1/openapi.json").json())


@pytest.mark.long
def test_the_tools_of_the_mcp_server_are_held_as_the_api_is(served: Served) -> None:
    workspace = served.fleet.workspace
    ceiling = KEY_CEILING.model_copy(update={"workspaces": (workspace,), "max_cost_usd": 2})
    token = served.keys.create("client", ["submit", "read"], ceiling)

    async def drive(url: str) -> None:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
        async with http, Client(streamable_http_client(url, http_client=http)) as client:
            [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "start_job"]
            for field in tool.input_schema["properties"]:
                value, option = BEYOND.get(field, (FREE.get(field), ""))
                order = {"prompt": "x", "workspace": str(workspace), **TOGETHER.get(field, {}), field: value}
                found = await client.call_tool("start_job", order)
                said = str(found.content[0].text)  # type: ignore[union-attr]
                assert found.is_error == (field in BEYOND), (field, said)
                named = NAMED.get(field, field)
                assert field not in BEYOND or (said.startswith(f"{named}: ") and option in said), said
            found = await client.call_tool("start_job", {"prompt": "x", "base_url": "http://127.0.0.1:1"})
            assert found.is_error and "base_url: Extra inputs" in str(found.content[0].text)  # type: ignore[union-attr]
            assert (await client.call_tool("list_agent_types", {"workspace": "/"})).is_error

    worker = served.fleet.start_worker(1)  # so that the server starts none
    with serving(served.fleet, "swarm", "mcp", "serve", "--http", "--workspace", str(workspace)) as url:
        asyncio.run(drive(f"{url}/mcp"))
    worker.stop()


def test_what_an_order_leaves_open_stays_within_the_ceilings(served: Served) -> None:
    workspace = served.fleet.workspace / "open"
    workspace.mkdir()
    with served.key("submit", mode="default", max_cost_usd=3) as client:
        order = {"prompt": "x", "workspace": str(workspace)}
        plain = client.post("/v1/jobs", json=order).json()["job"]["id"]
        planning = client.post("/v1/jobs", json={**order, "mode": "plan"}).json()["job"]["id"]
        its_map = client.post("/v1/maps", json={**order, "prompt": "do {it}", "lines": ["a"]}).json()["map"]
    spec = served.fleet.swarm.store.agents.spec(root_agent_id(plain))
    assert (spec.mode, spec.network, spec.limits.budget_usd) == ("default", False, 3)
    spec = served.fleet.swarm.store.agents.spec(root_agent_id(planning))
    assert (spec.mode, spec.after_plan) == ("plan", "default")
    assert its_map["budget_usd"] == 3


def test_a_raised_ceiling_lets_the_same_order_pass(served: Served) -> None:
    order = {"prompt": "x", "workspace": str(served.fleet.workspace)}
    more = {
        "mode": "bypassPermissions",
        "network": True,
        "allow": ["Bash"],
        "check": "true",
        "limits": {"budget_usd": 5},
    }
    with served.key("submit", **dict(Ceiling(max_cost_usd=5))) as client:
        answer = client.post("/v1/jobs", json={**order, **more})
        assert answer.status_code == 201, answer.text
        spec = served.fleet.swarm.store.agents.spec(root_agent_id(answer.json()["job"]["id"]))
        assert (spec.mode, spec.network, spec.limits.budget_usd) == ("bypassPermissions", True, 5)


MORE: dict[str, dict[str, Any]] = {
    "mode": {"mode": "bypassPermissions"},
    "network": {"network": True},
    "allow": {"allow": ["Bash"]},
    "check": {"check": "true"},
    "budget_usd": {"limits": Limits(budget_usd=50)},
}


@pytest.mark.parametrize("field", MORE)
def test_a_key_does_not_write_to_a_job_that_it_could_not_have_started(served: Served, field: str) -> None:
    swarm, workspace = served.fleet.swarm, served.fleet.workspace
    within: dict[str, Any] = {"workspace": workspace, "limits": Limits(budget_usd=1)}
    own, more = swarm.submit("x", **within), swarm.submit("x", **{**within, **MORE[field]})
    with served.key("send", max_cost_usd=2) as client:

        def send(job: Job) -> list[httpx.Response]:
            about = {"text": "do this"}
            outgoing = client.post(f"/v1/jobs/{job.id}/messages", json=about)
            return [outgoing, client.post(f"/v1/agents/{root_agent_id(job.id)}/compact", json={"focus": "this"})]

        assert [answer.status_code for answer in send(own)] == [200, 200]
        for answer in send(more):
            assert answer.status_code == 403 and answer.json()["error"]["message"].startswith(f"{field}: ")
    assert not swarm.mailbox(root_agent_id(more.id)).messages
    with served.key("send", max_cost_usd=2, workspaces=(workspace / "elsewhere",)) as client:
        assert {answer.status_code for answer in send(own)} == {403}


@pytest.mark.parametrize("field", MORE)
def test_a_key_does_not_try_a_map_again_that_it_could_not_have_started(served: Served, field: str) -> None:
    order: dict[str, Any] = {"limits": Limits(budget_usd=1), "workspace": served.fleet.workspace, "budget_usd": 1}
    own = served.fleet.swarm.map("do {it}", ["a"], **order)
    more = served.fleet.swarm.map("do {it}", ["a"], **{**order, **MORE[field]})
    with served.key("submit", max_cost_usd=2) as client:
        assert client.post(f"/v1/maps/{own.id}/retry").status_code == 200
        answer = client.post(f"/v1/maps/{more.id}/retry")
        assert answer.status_code == 403 and answer.json()["error"]["message"].startswith(f"{field}: ")


def test_an_answer_gives_no_more_than_the_ceiling_of_the_key(served: Served) -> None:
    path = "/v1/questions/question-none/answer"
    with served.key("answer") as client:
        beyond = client.post(path, json={"answer": "allow", "mode": "bypassPermissions"})
        check_refused(beyond, "mode", "--mode bypassPermissions")
        check_refused(client.post(path, json={"answer": "allow", "always": True}), "allow", "--allow-rules")
        assert client.post(path, json={"answer": "allow", "mode": "acceptEdits"}).status_code == 404


PLAN = """
name: plan
rules:
  - when: {turn: 0}
    reply: {tools: [{name: ExitPlanMode, input: {plan: "make it"}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Write, input: {file_path: made, content: x}}]}
  - reply: {text: over}
"""


def test_a_plan_that_a_key_approves_is_carried_out_within_its_ceiling(served: Served) -> None:
    fleet, path = served.fleet, "/v1/questions"
    worker = fleet.start_worker(1)
    job = fleet.swarm.submit(
        "go",
        agent="general-purpose",
        workspace=fleet.workspace,
        base_url=fleet.rehearse(PLAN).url,
        mode="plan",
        ask_seconds=60,
    )
    with served.key("read", "answer", mode="default") as client:

        def asked(kind: str) -> Any:
            return wait_for(
                kind,
                lambda: [
                    one for one in client.get(path, params={"job": job.id}).json()["questions"] if one["kind"] == kind
                ],
            )[0]["id"]

        assert client.post(f"{path}/{asked('plan')}/answer", json={"answer": "allow"}).status_code == 200
        # In acceptEdits, the mode that plans are carried out in, it would not be asked about.
        assert client.post(f"{path}/{asked('permission')}/answer", json={"answer": "deny"}).status_code == 200
    assert job.wait(30).ended and not (fleet.workspace / "made").exists()
    worker.stop()


def test_the_commands_make_keys_with_ceilings_and_list_them(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in fleet.environment().items():
        monkeypatch.setenv(name, value)

    def swarm(*words: str) -> str:
        ran = CliRunner().invoke(app, ["keys", *words])
        assert ran.exit_code == 0, ran.output
        return ran.output

    swarm("add", "ci", "--scope", "submit")
    swarm("add", "ops", "--mode", "bypassPermissions", "--network", "--allow-rules", "--check", "--max-cost", "2.5")
    swarm("add", "there", "--workspace", str(fleet.workspace))
    listed = {line.split()[0]: " ".join(line.split()) for line in swarm("list").splitlines()}
    assert listed["ci"].endswith(" submit mode acceptEdits, no network, no allow rules, no check, any cost")
    assert listed["ops"].endswith("mode bypassPermissions, network, allow rules, check, $2.5 at most")
    assert listed["there"].endswith(f", in {fleet.workspace}")
    found = {key["name"]: key["ceiling"] for key in json.loads(swarm("list", "--json"))}
    assert Ceiling.model_validate(found["ci"]) == KEY_CEILING
    assert found["there"]["workspaces"] == [str(Path(fleet.workspace).resolve())]
