"""The repository of an order. Its server is asked early if this machine can, so a mistake appears at once."""

from __future__ import annotations

from pathlib import Path

from swarm.agent.spec import JobRepository
from swarm.client.order import Order
from swarm.core.errors import BeyondCeiling, ConfigurationError, GitFailed, NoSuchRef
from swarm.core.ids import root_agent_id
from swarm.core.settings import Settings
from swarm.permissions.ceiling import Ceiling
from swarm.workspace.checkouts import place_checkout
from swarm.workspace.remotes import resolve
from swarm.workspace.sites import LOCAL, check_ref, find_site, name_of, read_name

_ASK_SECONDS = 10.0


def find_repository(order: Order, settings: Settings, ceiling: Ceiling) -> JobRepository | None:
    """Return the repository that an order names, if any. Raises `ConfigurationError`, `BeyondCeiling`."""
    if order.repo is None:
        if order.branch is not None or order.pr or order.issue is not None or order.commit_status:
            raise ConfigurationError(
                "only a repository has branches, pull requests, issues and statuses; name it with --repo, or use `swarm apply --branch`"
            )
        return None
    url, ref = read_name(order.repo)
    if ceiling.workspaces or not ceiling.network:
        # A worker fetches and pushes with its own token.
        raise BeyondCeiling("repo", url, "no repositories", "`swarm keys add NAME --network`, without --workspace")
    if str(order.workspace) != ".":
        raise ConfigurationError("a job works on a repository or in a workspace; give one of --repo and --workspace")
    branch = check_ref(order.branch or "")
    asked = JobRepository(
        url=url,
        ref=ref,
        branch=branch,
        pull_request=order.pr,
        issue=order.issue or 0,
        commit_status=order.commit_status,
    )
    return _ask(asked, settings)


def _ask(asked: JobRepository, settings: Settings) -> JobRepository:
    # The workers of this machine can do what this process can; others may reach more.
    is_local, site = settings.redis_url is None, find_site(settings, asked.url)
    if site is None:
        if is_local:
            raise ConfigurationError(
                f'SWARM_FORGES does not name {asked.site}; add it: {{"{asked.site}": "gitea:VARIABLE"}}'
            )
        return asked
    if asked.needs_forge and site.name == LOCAL:
        raise ConfigurationError(
            f"{asked.url} is a path, which has no pull requests, issues and statuses; name its forge's URL, or omit those options"
        )
    if is_local and asked.needs_forge and not site.kind:
        raise ConfigurationError(
            f'SWARM_FORGES does not say what {site.name} is; pull requests, issues and statuses need "github:", "gitlab:" or "gitea:" there'
        )
    try:
        found = resolve(asked.url, asked.ref, site, seconds=_ASK_SECONDS)
    except GitFailed as error:
        if isinstance(error, NoSuchRef) or (is_local and error.trouble in ("missing", "denied")):
            raise ConfigurationError(str(error)) from None
        return asked
    return asked.model_copy(update={"commit": found.commit, "target": found.target})


def place_repository(repository: JobRepository, job_id: str, settings: Settings) -> Path:
    """Return the place of the first agent's copy."""
    return place_checkout(settings.checkouts_folder(), root_agent_id(job_id), name_of(repository.url))
