"""The forges whose REST APIs are known: a forge is a row. Pure.

GitHub: docs.github.com/rest/pulls and /rest/commits/statuses; only its GraphQL API tells which review threads are resolved. Gitea and
Forgejo: /api/swagger of each server. GitLab: docs.gitlab.com/api/merge_requests, /api/discussions and /api/commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from swarm.workspace.sites import Site


class Comment(NamedTuple):
    """A review comment that is not resolved."""

    author: str
    place: str
    """File and line; empty for one about the whole."""
    text: str


class ApiCall(NamedTuple):
    """A request below the API's root."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = {}


CommitState = Literal["running", "success", "failure"]


class Forge(NamedTuple):
    """One kind of server."""

    root: Callable[[Site], str]
    """The address of its API."""
    headers: Callable[[str], Mapping[str, str]]
    """The headers with a token."""
    project: Callable[[str], str]
    """The path of a project, from `owner/name`."""
    pulls: str
    """The path of its pull requests, below that."""
    create: tuple[str, str, str, str]
    """The names of the title, the text, the work's branch and the target branch."""
    number: str
    address: str
    update: str
    """The method that changes a pull request."""
    is_open: str
    """The state of an open pull request."""
    find: Callable[[str, str], Mapping[str, str]]
    """The query that lists open pull requests; takes the owner and the branch."""
    head: Callable[[Mapping[str, Any]], str]
    """The branch of a listed pull request; empty if another repository has it: anybody can open one from a fork."""
    notes: str
    """The path of an issue's comments, below the project. `{number}` stands for the issue's."""
    states: Mapping[CommitState, str]
    """The forge's words for the states of a commit."""
    review: Callable[[str, str, int], list[ApiCall]]
    """The requests for review comments, by project, `owner/name` and number. `{id}` stands for each object of the first answer."""
    comments: Callable[[Any], list[Comment]]
    """Reads the unresolved comments of one answer."""


def _place(path: object, line: object) -> str:
    return f"{path}:{line}" if path and line else str(path or "")


def _github_root(site: Site) -> str:
    return "https://api.github.com" if site.name == "github.com" else f"{site.origin}/api/v3"


_THREADS = """query($owner: String!, $name: String!, $number: Int!) {
 repository(owner: $owner, name: $name) { pullRequest(number: $number) {
 reviews(first: 100) { nodes { state body author { login } } }
 reviewThreads(first: 100) { nodes { isResolved path line comments(first: 50) { nodes { body author { login } } } } } } } }"""


def _github_review(project: str, name: str, number: int) -> list[ApiCall]:
    owner, _, repository = name.partition("/")
    body = {"query": _THREADS, "variables": {"owner": owner, "name": repository, "number": number}}
    return [ApiCall("POST", "/graphql", body)]


def _github_comments(answer: Any) -> list[Comment]:
    found = answer["data"]["repository"]["pullRequest"]
    told = [
        Comment(_login(one), "", one["body"])
        for one in found["reviews"]["nodes"]
        if one["body"] and one["state"] in ("CHANGES_REQUESTED", "COMMENTED")
    ]
    for thread in found["reviewThreads"]["nodes"]:
        if not thread["isResolved"]:
            place = _place(thread["path"], thread["line"])
            told += [Comment(_login(one), place, one["body"]) for one in thread["comments"]["nodes"]]
    return told


def _login(one: Mapping[str, Any]) -> str:
    # An account may be gone.
    return (one.get("author") or {}).get("login") or "somebody"


def _head(one: Mapping[str, Any]) -> str:
    # A fork may be gone.
    there, here = one["head"].get("repo") or {}, one["base"]["repo"]
    return str(one["head"]["ref"]) if there.get("id") == here["id"] else ""


def _gitlab_comments(answer: Any) -> list[Comment]:
    told = []
    for discussion in answer:
        notes = [one for one in discussion["notes"] if not one["system"]]
        if any(one.get("resolvable") and not one.get("resolved") for one in notes):
            for one in notes:
                at = one.get("position") or {}
                place = _place(at.get("new_path") or at.get("old_path"), at.get("new_line") or at.get("old_line"))
                told.append(Comment(one["author"]["username"], place, one["body"]))
    return told


def _gitea_comments(answer: Any) -> list[Comment]:
    told = []
    for one in answer if isinstance(answer, list) else []:
        author = (one.get("user") or {}).get("login") or "somebody"
        if "state" in one:
            if one.get("body") and one["state"] in ("REQUEST_CHANGES", "COMMENT") and not one.get("dismissed"):
                told.append(Comment(author, "", one["body"]))
        elif not one.get("resolver"):
            line = one.get("position") or one.get("original_position")
            told.append(Comment(author, _place(one.get("path"), line), one["body"]))
    return told


FORGES: Mapping[str, Forge] = {
    "github": Forge(
        root=_github_root,
        headers=lambda token: {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        project=lambda name: f"/repos/{name}",
        pulls="/pulls",
        create=("title", "body", "head", "base"),
        number="number",
        address="html_url",
        update="PATCH",
        is_open="open",
        find=lambda owner, branch: {"state": "open", "head": f"{owner}:{branch}", "per_page": "100"},
        head=_head,
        notes="/issues/{number}/comments",
        states={"running": "pending", "success": "success", "failure": "failure"},
        review=_github_review,
        comments=_github_comments,
    ),
    "gitlab": Forge(
        root=lambda site: f"{site.origin}/api/v4",
        headers=lambda token: {"PRIVATE-TOKEN": token},
        project=lambda name: f"/projects/{quote(name, safe='')}",
        pulls="/merge_requests",
        create=("title", "description", "source_branch", "target_branch"),
        number="iid",
        address="web_url",
        update="PUT",
        is_open="opened",
        find=lambda owner, branch: {"state": "opened", "source_branch": branch, "per_page": "100"},
        head=lambda one: str(one["source_branch"]) if one["source_project_id"] == one["target_project_id"] else "",
        notes="/issues/{number}/notes",
        states={"running": "running", "success": "success", "failure": "failed"},
        review=lambda project, name, number: [
            ApiCall("GET", f"{project}/merge_requests/{number}/discussions", query={"per_page": "100"})
        ],
        comments=_gitlab_comments,
    ),
    "gitea": Forge(
        root=lambda site: f"{site.origin}/api/v1",
        headers=lambda token: {"Authorization": f"token {token}"},
        project=lambda name: f"/repos/{name}",
        pulls="/pulls",
        create=("title", "body", "head", "base"),
        number="number",
        address="html_url",
        update="PATCH",
        is_open="open",
        find=lambda owner, branch: {"state": "open", "limit": "50"},
        head=_head,
        notes="/issues/{number}/comments",
        states={"running": "pending", "success": "success", "failure": "failure"},
        review=lambda project, name, number: [
            ApiCall("GET", f"{project}/pulls/{number}/reviews", query={"limit": "50"}),
            ApiCall("GET", f"{project}/pulls/{number}/reviews/{{id}}/comments"),
        ],
        comments=_gitea_comments,
    ),
}
"""Kind → its row."""
