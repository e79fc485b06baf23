"""Objects on the hub, beside the files of their job, for hosts that share nothing."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2

from swarm.core.errors import ObjectMissing, ObjectRefused, ObjectsAway
from swarm.objects.port import Content, Objects

_PATIENCE = httpx2.Timeout(120.0, connect=10.0)


class HubObjects(Objects):
    """Objects as `/jobs/JOB.git/swarm/DIGEST` of `swarm hub`, within the job's share of it."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url, self._token = url, token

    def _write(self, owner: str, digest: str, content: Content) -> None:
        # A refusal is also learnt before the content is sent.
        if self._has(owner, digest):
            return
        if isinstance(content, Path):
            with content.open("rb") as file:
                self._ask("PUT", owner, digest, content=file)
        else:
            self._ask("PUT", owner, digest, content=content)

    def _read(self, owner: str, digest: str, offset: int, length: int | None) -> bytes:
        if offset == 0 and length is None:
            return self._ask("GET", owner, digest).content
        last = "" if length is None else offset + length - 1
        answer = self._ask("GET", owner, digest, headers={"Range": f"bytes={offset}-{last}"})
        return b"" if answer.status_code == httpx2.codes.RANGE_NOT_SATISFIABLE else answer.content

    def _has(self, owner: str, digest: str) -> bool:
        try:
            self._ask("HEAD", owner, digest)
        except ObjectMissing:
            return False
        return True

    def _remove(self, owner: str) -> None:
        """Do nothing: the hub removes all that it has of a job once the job is forgotten."""

    def _discard(self, owner: str, digest: str) -> None:
        with suppress(ObjectMissing):
            self._ask("DELETE", owner, digest)

    @cached_property
    def _client(self) -> httpx2.Client:
        return httpx2.Client(auth=("swarm", self._token or ""), timeout=_PATIENCE)

    def _ask(self, method: str, owner: str, digest: str, **given: Any) -> httpx2.Response:
        try:
            answer = self._client.request(method, f"{self._url}/jobs/{owner}.git/swarm/{digest}", **given)
        except httpx2.HTTPError as error:
            raise ObjectsAway(f"the hub {self._url} cannot be reached: {error or type(error).__name__}") from error
        told = answer.text.strip()[:300] if method == "PUT" or answer.is_error else ""
        match answer.status_code:
            case 401 | 403:
                raise ObjectRefused(f"the hub {self._url} refuses the token; set SWARM_HUB_TOKEN to the hub's")
            case 404 if method != "PUT":
                raise ObjectMissing(owner, digest, f"is not on the hub {self._url}")
            case 404 | 405:
                raise ObjectRefused(f"{self._url} is no `swarm hub` and keeps no objects; set SWARM_OBJECTS")
            case 413:
                raise ObjectRefused(told)
            case status if status >= 400 and status != httpx2.codes.RANGE_NOT_SATISFIABLE:
                raise ObjectsAway(f"the hub {self._url} answered {status}: {told}")
        return answer
