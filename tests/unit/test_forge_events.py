"""The conditions of docs/forges.md, judged over events in the form that the forges publish.

Forms: docs.github.com/webhooks/webhook-events-and-payloads, docs.gitlab.com/user/project/integrations/webhook_events.

Tests of swarm/capabilities/triggers/model.py, swarm/capabilities/triggers/sources.py.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from swarm.capabilities.triggers.model import Trigger, accepts, issue_of, key_of, ref_of
from swarm.capabilities.triggers.sources import read_event

PAGE = (Path(__file__).parents[2] / "docs" / "forges.md").read_text()
APP = {"id": 5, "full_name": "acme/app", "default_branch": "main"}
ANN = {"login": "ann", "id": 1, "type": "User"}
AGENTS = {"login": "agents", "id": 2, "type": "User"}
ISSUE = {
    "number": 7,
    "title": "It breaks",
    "body": None,
    "user": ANN,
    "labels": [{"name": "agents"}],
    "assignee": AGENTS,
}
HEAD = {"ref": "fix/7", "sha": "ec26c3e57ca3a959ca5aad62de7213c562f8c821", "repo": APP}
PULL = {"number": 8, "title": "Mend it", "body": None, "user": ANN, "head": HEAD, "base": {"ref": "main", "repo": APP}}
GITHUB: dict[str, tuple[str, dict[str, Any]]] = {
    "an issue gets a label": ("issues", {"action": "labeled", "issue": ISSUE, "label": {"name": "agents"}}),
    "an issue is assigned": ("issues", {"action": "assigned", "issue": ISSUE, "assignee": AGENTS}),
    "a comment mentions it": (
        "issue_comment",
        {
            "action": "created",
            "issue": ISSUE,
            "comment": {"id": 1, "body": "@agents, mend it", "user": ANN, "author_association": "MEMBER"},
        },
    ),
    "a pull request is opened": ("pull_request", {"action": "opened", "number": 8, "pull_request": PULL}),
    "a review is asked for": (
        "pull_request",
        {"action": "review_requested", "number": 8, "pull_request": PULL, "requested_reviewer": AGENTS},
    ),
    "a check fails": (
        "workflow_run",
        {
            "action": "completed",
            "workflow_run": {
                "conclusion": "failure",
                "head_branch": "swarm/job-0123456789abcdef",
                "head_repository": APP,
                "head_sha": HEAD["sha"],
                "html_url": "https://github.com/acme/app/actions/runs/30433642",
            },
        },
    ),
}
PROJECT = {"id": 5, "path_with_namespace": "acme/app", "default_branch": "main"}
LABEL = {"id": 206, "title": "agents", "type": "ProjectLabel"}
PERSON = {"id": 2, "name": "Agents", "username": "agents"}
MERGE = {"iid": 8, "title": "Mend it", "source_branch": "fix/7", "target_branch": "main", "source_project_id": 5}
GITLAB: dict[str, tuple[str, dict[str, Any]]] = {
    "an issue gets a label": (
        "Issue Hook",
        {
            "object_kind": "issue",
            "object_attributes": {"iid": 7, "title": "It breaks", "description": "", "action": "update"},
            "labels": [LABEL],
            "changes": {"labels": {"previous": [], "current": [LABEL]}},
        },
    ),
    "an issue is assigned": (
        "Issue Hook",
        {
            "object_kind": "issue",
            "object_attributes": {"iid": 7, "title": "It breaks", "description": "", "action": "update"},
            "assignees": [PERSON],
            "changes": {"assignees": {"previous": [], "current": [PERSON]}},
        },
    ),
    "a comment mentions it": (
        "Note Hook",
        {
            "object_kind": "note",
            "object_attributes": {"note": "@agents, mend it", "noteable_type": "Issue", "action": "create"},
            "issue": {"iid": 7, "title": "It breaks"},
        },
    ),
    "a pull request is opened": (
        "Merge Request Hook",
        {"object_kind": "merge_request", "object_attributes": {**MERGE, "target_project_id": 5, "action": "open"}},
    ),
    "a review is asked for": (
        "Merge Request Hook",
        {
            "object_kind": "merge_request",
            "object_attributes": {**MERGE, "target_project_id": 5, "action": "update"},
            "changes": {"reviewers": {"previous": [], "current": [PERSON]}},
            "reviewers": [PERSON],
        },
    ),
    "a check fails": (
        "Pipeline Hook",
        {
            "object_kind": "pipeline",
            "object_attributes": {
                "id": 31,
                "ref": "swarm/job-0123456789abcdef",
                "status": "failed",
                "sha": HEAD["sha"],
            },
        },
    ),
}


def cells(title: str) -> tuple[str, str]:
    """The expressions of a row of the page, for GitHub and for GitLab."""
    found = re.search(rf"^\| {re.escape(title)} \| `(.+?)` \| `(.+?)` \|$", PAGE, re.M)
    assert found, title
    return found[1], found[2]


def judge(forge: int, kind: str, data: dict[str, Any], when: str) -> bool:
    trigger = Trigger.model_validate({"name": "x", "prompt": "x", "when": when})
    if forge == 0:
        data = {"repository": APP, "sender": ANN, **data}
        return accepts(trigger, read_event("github", {"x-github-event": kind}, json.dumps(data).encode()))
    data = {"user": {"username": "ann"}, "project": PROJECT, **data}
    return accepts(trigger, read_event("gitlab", {"x-gitlab-event": kind}, json.dumps(data).encode()))


@pytest.mark.parametrize("title", GITHUB)
@pytest.mark.parametrize("forge", [0, 1], ids=["github", "gitlab"])
def test_a_condition_takes_its_own_event_and_no_other(forge: int, title: str) -> None:
    when = cells(title)[forge]
    taken = [other for other, (kind, data) in (GITHUB, GITLAB)[forge].items() if judge(forge, kind, data, when)]
    assert taken == [title]


@pytest.mark.parametrize(
    ("forge", "title", "place", "value"),
    [
        (0, "an issue gets a label", ("label", "name"), "bug"),
        (0, "an issue is assigned", ("assignee", "login"), "ann"),
        (0, "a comment mentions it", ("comment", "author_association"), "NONE"),
        (0, "a comment mentions it", ("comment", "body"), "no mention"),
        (0, "a pull request is opened", ("pull_request", "head", "repo"), None),
        (0, "a pull request is opened", ("pull_request", "head", "repo", "full_name"), "mallory/app"),
        (0, "a review is asked for", ("requested_reviewer", "login"), "ann"),
        (0, "a check fails", ("workflow_run", "head_repository", "full_name"), "mallory/app"),
        (0, "a check fails", ("workflow_run", "conclusion"), "success"),
        (1, "an issue gets a label", ("changes", "labels", "previous"), [LABEL]),
        (1, "a comment mentions it", ("user",), {"username": "mallory"}),
        (1, "a comment mentions it", ("object_attributes", "action"), "update"),
        (1, "a pull request is opened", ("object_attributes", "source_project_id"), 99),
        (1, "a review is asked for", ("changes", "reviewers", "current"), []),
        (1, "a check fails", ("object_attributes", "ref"), "main"),
    ],
)
def test_a_stranger_or_another_matter_is_not_taken(forge: int, title: str, place: tuple[str, ...], value: Any) -> None:
    kind, data = copy.deepcopy((GITHUB, GITLAB)[forge][title])
    if place[0] not in data:
        data[place[0]] = value
    else:
        inner: Any = data
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1]] = value
    assert not judge(forge, kind, data, cells(title)[forge])


@pytest.mark.parametrize("forge", [0, 1], ids=["github", "gitlab"])
def test_what_a_trigger_names_is_in_the_event(forge: int) -> None:
    events, source = (GITHUB, GITLAB)[forge], ("x-github-event", "x-gitlab-event")[forge]

    def read(title: str, field: str, row: str) -> Any:
        kind, data = events[title]
        trigger = Trigger.model_validate({"name": "x", "prompt": "x", field: cells(row)[forge]})
        event = read_event("github" if forge == 0 else "gitlab", {source: kind}, json.dumps(data).encode())
        return {"issue": issue_of, "ref": ref_of, "key": key_of}[field](trigger, event)

    assert read("an issue gets a label", "issue", "`issue` of an issue's event") == 7
    assert read("a comment mentions it", "issue", "`issue` of a comment") == 7
    assert read("a review is asked for", "ref", "`ref` of a pull request") == "fix/7"
    assert read("a check fails", "key", "`key` of a failed check") == "swarm/job-0123456789abcdef"
