"""Pull requests of a repository, by its forge's REST API. Each failure is a `GitFailed` with one sentence, an answer of another form too.

Guarantee: an open pull request of a branch is found before one is made, and a forge refuses a second one, so a repeat makes no second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import urlsplit

import httpx2

from swarm.capabilities.repositories.forges import FORGES, ApiCall, Comment, CommitState
from swarm.core.errors import GitFailed, GitTrouble
from swarm.workspace.sites import Site

SECONDS = 30.0
MOST_PAGES = 20
MOST_OF_STATUS = 140
"""GitHub's bound of a status' description."""
MARK = "<!-- swarm -->"
"""Stands before and after the text that later pushes replace."""
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class PullRequest(NamedTuple):
    """An open pull request."""

    number: int
    address: str
    text: str


def _reads(
    act: Callable[Concatenate[PullRequests, Given], Answer],
) -> Callable[Concatenate[PullRequests, Given], Answer]:
    """Explain an answer without the documented fields: a proxy, another kind of server, or a release that is too old or too new."""

    @wraps(act)
    def explained(self: PullRequests, /, *given: Given.args, **named: Given.kwargs) -> Answer:
        try:
            return act(self, *given, **named)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise GitFailed(self._explain_form(error), "failed") from error

    return explained


class PullRequests:
    """The pull requests of one repository."""

    def __init__(self, site: Site, url: str) -> None:
        if site.kind not in FORGES:
            raise GitFailed(
                f'SWARM_FORGES does not say what {site.name} is; put "github:", "gitlab:" or "gitea:" before its secret',
                "denied",
            )
        self._site, self._forge = site, FORGES[site.kind]
        self._name = urlsplit(url).path.strip("/").removesuffix(".git")
        self._project = self._forge.project(self._name)

    @_reads
    def find(self, branch: str) -> PullRequest | None:
        """Return the open pull request of a branch of the repository."""
        query = self._forge.find(self._name.partition("/")[0], branch)
        for one in self._list(ApiCall("GET", f"{self._project}{self._forge.pulls}", query=query)):
            if self._forge.head(one) == branch:
                return self._read(one)
        return None

    @_reads
    def open(self, branch: str, target: str, title: str, text: str) -> PullRequest:
        """Return the open pull request of a branch, made if there is none."""
        if (found := self.find(branch)) is not None:
            return found
        marked = MARK.join(["", _own(text), ""])
        body = dict(zip(self._forge.create, (title, marked, branch, target), strict=True))
        try:
            return self._read(self._ask(ApiCall("POST", f"{self._project}{self._forge.pulls}", body))[0])
        except GitFailed as error:
            # Another worker may just have made it.
            if error.trouble == "refused" and (found := self.find(branch)) is not None:
                return found
            raise

    @_reads
    def get(self, number: int) -> tuple[PullRequest, bool]:
        """Return a pull request, and whether it is open."""
        answer = self._ask(ApiCall("GET", f"{self._project}{self._forge.pulls}/{number}"))[0]
        return self._read(answer), answer["state"] == self._forge.is_open

    def rewrite(self, known: PullRequest, text: str) -> None:
        """Replace the swarm's part of a pull request's text; people's words stay."""
        parts = known.text.split(MARK)
        if len(parts) != 3 or (new := MARK.join([parts[0], _own(text), parts[2]])) == known.text:
            return
        path = f"{self._project}{self._forge.pulls}/{known.number}"
        self._ask(ApiCall(self._forge.update, path, {self._forge.create[1]: new}))

    @_reads
    def comments(self, number: int) -> list[Comment]:
        """Return the review comments that are not resolved."""
        first, *then = self._forge.review(self._project, self._name, number)
        if first.method == "POST":
            return self._forge.comments(self._ask(first)[0])
        listed = list(self._list(first))
        found = self._forge.comments(listed)
        for ask in then:
            for one in listed:
                found += self._forge.comments(list(self._list(ask._replace(path=ask.path.format(id=one["id"])))))
        return found

    @_reads
    def comment(self, issue: int, mark: str, text: str) -> None:
        """Comment on an issue, unless it has a comment that begins with the mark, an HTML comment."""
        path = f"{self._project}{self._forge.notes.format(number=issue)}"
        asked = ApiCall("GET", path, query={"per_page": "100"})
        if not any(str(one.get("body") or "").startswith(mark) for one in self._list(asked)):
            self._ask(ApiCall("POST", path, {"body": f"{mark}\n{text}"}))

    @_reads
    def set_status(self, commit: str, state: CommitState, name: str, told: str, link: str) -> None:
        """Show a check of this name at a commit, in one line, with a link if there is one. Setting it again changes nothing."""
        about = {"state": self._forge.states[state], "context": name, "description": told[:MOST_OF_STATUS]}
        try:
            self._ask(
                ApiCall(
                    "POST", f"{self._project}/statuses/{commit}", {**about, **({"target_url": link} if link else {})}
                )
            )
        except GitFailed as error:
            # GitLab refuses a state that the commit has already.
            if "annot transition status" not in str(error):
                raise

    # -- requests ------------------------------------------------------------------------------------------

    def _read(self, one: Any) -> PullRequest:
        text = one.get(self._forge.create[1]) or ""
        return PullRequest(int(one[self._forge.number]), str(one[self._forge.address]), text.replace("\r\n", "\n"))

    def _list(self, ask: ApiCall) -> Iterator[Any]:
        url = ""
        for _ in range(MOST_PAGES):
            found, url = self._ask(ask, url)
            yield from found
            if not url:
                return

    def _ask(self, ask: ApiCall, url: str = "") -> tuple[Any, str]:
        """Make a request; returns the answer, and the address of its next page or nothing."""
        root = self._forge.root(self._site)
        if ask.path == "/graphql" and root.endswith("/api/v3"):
            root = root.removesuffix("/v3")
        if url and not url.startswith(f"{root}/"):
            raise GitFailed(f"{self._site.name} names a next page at another address: {url[:200]}", "failed")
        headers = {"User-Agent": "swarm", **self._forge.headers(self._site.secret)}
        try:
            with httpx2.Client(headers=headers, timeout=SECONDS, follow_redirects=False) as client:
                query = None if url else dict(ask.query) or None
                answer = client.request(ask.method, url or f"{root}{ask.path}", params=query, json=ask.body)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise GitFailed(f"{self._site.name} cannot be reached: {type(error).__name__}: {error}", "away") from error
        if not answer.is_success:
            raise self._explain(answer)
        try:
            told = answer.json()
        except ValueError as error:
            raise GitFailed(f"{self._site.name} did not answer in JSON to {ask.method} {ask.path}", "failed") from error
        if isinstance(told, dict) and told.get("errors"):
            raise GitFailed(f"{self._site.name} refuses a query: {str(told['errors'])[:300]}", "failed")
        return told, answer.links.get("next", {}).get("url", "")

    def _explain_form(self, error: Exception) -> str:
        lack = f"{type(error).__name__}: {error}"[:200]
        return (
            f"{self._site.name} answers, but not as the API of {self._site.kind} does ({lack}); "
            "check its kind and address in SWARM_FORGES"
        )

    def _explain(self, answer: httpx2.Response) -> GitFailed:
        status, name = answer.status_code, self._site.name
        told = " ".join(answer.text.split())[:300]
        trouble: GitTrouble = "failed"
        if status == 401 or (status == 403 and "rate limit" not in told.lower()):
            trouble, why = "denied", f"{name} refuses the token (status {status}): {self._site.lack}"
        elif status == 404:
            trouble, why = "missing", f"{name} shows no {self._name} to this token: {self._site.lack}"
        elif status in (403, 429) or status >= 500:
            trouble, why = "away", f"{name} answers with status {status}: {told}"
        elif status in (409, 422):
            trouble, why = "refused", f"{name} refuses the pull request (status {status}): {told}"
        else:
            why = f"{name} answers with status {status}: {told}"
        return GitFailed(why, trouble)


def _own(text: str) -> str:
    # A mark in the text would end it, and later pushes could not replace it.
    return f"\n{text.replace(MARK, 'swarm')}\n"
