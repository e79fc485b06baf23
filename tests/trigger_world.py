"""What tests of triggers share: signed deliveries, what became of an event, and an end without leftovers."""

from __future__ import annotations

import hashlib
import hmac

from swarm.capabilities.triggers.store import Firing, Triggers
from tests.fleet import Fleet
from tests.waiting import wait_for

ISSUES = """---
name: issues
webhook: github
secret: HOOK_SECRET
when: type == "issues.labeled" && event.label.name == "agents"
key: string(event.issue.number)
concurrency: continue
title: event.issue.title
issue: event.issue.number
fields: {title: event.issue.title, body: event.issue.body}
repo: REPO
pr: true
base_url: URL
---
Solve the issue below.
"""
"""A trigger of labelled issues, for the repository REPO with a model at URL."""
CHECKS = """---
name: checks
webhook: github
secret: HOOK_SECRET
when: >-
  type == "workflow_run.completed" && event.workflow_run.conclusion == "failure" &&
  event.workflow_run.head_repository.full_name == event.repository.full_name
key: event.workflow_run.head_branch
concurrency: continue
fields: {checks: event.workflow_run.html_url}
repo: REPO
base_url: URL
---
The checks failed. Mend it.
"""
"""A trigger of failed checks, which go to the job of the branch."""


def sign(secret: str, text: bytes) -> str:
    """The HMAC that most senders use."""
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def settled(fleet: Fleet, name: str, one: str) -> Firing:
    """An event of a trigger once workers have settled it."""
    triggers = Triggers(fleet.swarm.store.keyspace)

    def look() -> Firing | None:
        found = triggers.firing(name, one)
        return found if found.state not in ("waiting", "starting") else None

    return wait_for(f"{name}/{one} is settled", look, 100)


def remove_triggers(fleet: Fleet) -> None:
    """Delete all triggers of a shared fleet, and cancel their jobs."""
    triggers = Triggers(fleet.swarm.store.keyspace)
    for one in triggers.all():
        for firing in triggers.firings(one.name, 100):
            if firing.job and fleet.swarm.store.jobs.exists(firing.job):
                fleet.swarm.job(firing.job).cancel()
        triggers.delete(one.name)
