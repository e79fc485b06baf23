"""A forge of a test's own on a loopback port: real Git over HTTP, and the part of a published REST API that pull requests use.

It is strict about what the published APIs require: headers, methods, names of fields, their types, and that branches exist. Its answers
have the documented fields. `hold` names a moment at which its answer waits, so that a test can end a worker there.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.needs import need_program

SECRET = "a-secret-of-the-tests-4711"
_ROOTS = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}
_NOTES = {
    "github": r"/repos/owner/project/issues/(\d+)/comments",
    "gitlab": r"/projects/owner%2Fproject/issues/(\d+)/notes",
    "gitea": r"/repos/owner/project/issues/(\d+)/comments",
}
_STATUSES = {
    "github": r"/repos/owner/project/statuses/([0-9a-f]{40})",
    "gitlab": r"/projects/owner%2Fproject/statuses/([0-9a-f]{40})",
    "gitea": r"/repos/owner/project/statuses/([0-9a-f]{40})",
}
_PULLS = {
    "github": r"/repos/([^/]+/[^/]+)/pulls(?:/(\d+))?",
    "gitlab": r"/projects/([^/]+)/merge_requests(?:/(\d+))?",
    "gitea": r"/repos/([^/]+/[^/]+)/pulls(?:/(\d+))?",
}
_FIELDS = {
    "github": ("title", "body", "head", "base"),
    "gitlab": ("title", "description", "source_branch", "target_branch"),
    "gitea": ("title", "body", "head", "base"),
}
_UPDATES = {"github": "PATCH", "gitlab": "PUT", "gitea": "PATCH"}


def git(folder: Path, *words: str) -> str:
    """What git printed in a folder; it must succeed."""
    who = ["-c", "user.name=p", "-c", "user.email=p@x", "-c", "safe.bareRepository=all", "-c", "safe.directory=*"]
    alone = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run([need_program("git"), *who, *words], cwd=folder, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Refusal(Exception):
    """An answer with a status of failure."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Forge:
    """A running forge with one repository, `owner/project`, which only the token's owner sees."""

    def __init__(self, folder: Path, kind: str, address: str = "127.0.0.1", port: int = 0) -> None:
        self.kind, self.folder = kind, folder
        self.bare, self.clone = folder / "owner/project.git", folder / "clone"
        self.bare.mkdir(parents=True)
        git(self.bare, "init", "-q", "--bare", "-b", "main")
        git(self.bare, "config", "http.receivepack", "true")
        git(folder, "clone", "-q", str(self.bare), str(self.clone))
        self.commit(**{"README": "a project\n", "AGENTS.md": "Write in lines.\n"})
        git(self.clone, "push", "-q", "origin", "HEAD:main")
        self.pulls: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {7: []}
        """Of each issue."""
        self.statuses: dict[str, list[dict[str, str]]] = {}
        """Of each commit, oldest first."""
        self.reviews: list[dict[str, str]] = []
        """Unresolved comments: `path`, `line`, `body`, `author`."""
        self.made = 0
        self.refuse: Callable[[str, str], tuple[int, str] | None] = lambda method, path: None
        self.tell = ""
        """The API's answer to all requests, in the place of the documented ones."""
        self.held, self.go_on, self.hold = threading.Event(), threading.Event(), ""
        self._lock = threading.Lock()
        forge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *about: Any) -> None:
                pass

            def do_GET(self) -> None:
                forge.answer(self)

            do_POST = do_PATCH = do_PUT = do_GET

        self._server = ThreadingHTTPServer((address, port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.site = f"http://{address}:{self._server.server_port}"
        self.url = f"{self.site}/owner/project.git"

    @property
    def forges(self) -> dict[str, str]:
        """SWARM_FORGES for a worker with the token."""
        return {self.site: f"{self.kind}:FORGE_TOKEN"}

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()

    def commit(self, **files: str) -> str:
        """Commit these files in the person's clone."""
        for name, content in files.items():
            (self.clone / name).write_text(content)
        git(self.clone, "add", "-A")
        git(self.clone, "commit", "-q", "-m", "by a person")
        return git(self.clone, "rev-parse", "HEAD").strip()

    def branches(self) -> dict[str, str]:
        """The branches and their commits."""
        listed = git(self.bare, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
        return dict(line.split(" ") for line in listed.splitlines())

    def read(self, branch: str, path: str) -> str:
        """A file of a branch."""
        return git(self.bare, "show", f"{branch}:{path}")

    def wait_at(self, moment: str) -> None:
        """Hold the next answer at `fetched`, `pushed` or `made` until `go_on` is set."""
        self.held.clear()
        self.go_on.clear()
        self.hold = moment

    # -- requests ------------------------------------------------------------------------------------------

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        body = self._read(request)
        try:
            if (refusal := self.refuse(request.command, parts.path)) is not None:
                raise Refusal(*refusal)
            if parts.path.startswith("/owner/project.git/"):
                return self._serve_git(request, parts.path, parts.query, body)
            if not parts.path.startswith("/api/"):
                raise Refusal(404, "Not Found")
            if self.tell:
                return self._send(request, 200, self.tell.encode(), "application/json")
            status, told = self._serve_api(request, parts.path, parts.query, body)
        except Refusal as error:
            status, told = error.status, {"message": str(error)}
        self._send(request, status, json.dumps(told).encode(), "application/json")

    def _send(self, request: BaseHTTPRequestHandler, status: int, body: bytes, kind: str, **headers: str) -> None:
        try:
            request.send_response(status)
            request.send_header("Content-Type", kind)
            for name, value in headers.items():
                request.send_header(name.replace("_", "-"), value)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            request.close_connection = True

    def _read(self, request: BaseHTTPRequestHandler) -> bytes:
        if request.headers.get("Transfer-Encoding") == "chunked":
            found = b""
            while size := int(request.rfile.readline().split(b";")[0], 16):
                found += request.rfile.read(size)
                request.rfile.readline()
            request.rfile.readline()
            return found
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))

    def _wait(self, moment: str) -> None:
        if self.hold == moment:
            self.hold = ""
            self.held.set()
            self.go_on.wait(60)

    def _serve_git(self, request: BaseHTTPRequestHandler, path: str, query: str, body: bytes) -> None:
        given = request.headers.get("Authorization", "")
        password = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")[2] if given else ""
        if password != SECRET:
            return self._send(request, 401, b"sign in\n", "text/plain", WWW_Authenticate='Basic realm="forge"')
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.command,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "owner",
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run([need_program("git"), "http-backend"], env=env, input=body, capture_output=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        if request.command == "POST" and (path.endswith("git-receive-pack") or b"command=fetch" in body):
            self._wait("pushed" if path.endswith("git-receive-pack") else "fetched")
        status = int(headers.pop("Status", "200").split()[0])
        self._send(request, status, content, headers.get("Content-Type", "text/plain"))

    def _check(self, request: BaseHTTPRequestHandler) -> None:
        headers = request.headers
        known = {
            "github": headers.get("Authorization") == f"Bearer {SECRET}",
            "gitlab": headers.get("PRIVATE-TOKEN") == SECRET,
            "gitea": headers.get("Authorization") == f"token {SECRET}",
        }[self.kind]
        if not known:
            raise Refusal(401, "Bad credentials")
        if self.kind == "github" and not headers.get("User-Agent"):
            raise Refusal(403, "Request forbidden by administrative rules: User-Agent header is required")
        if self.kind == "github" and "json" not in headers.get("Accept", ""):
            raise Refusal(415, "Must accept 'application/json'")

    def _serve_api(self, request: BaseHTTPRequestHandler, path: str, query: str, body: bytes) -> tuple[int, Any]:
        self._check(request)
        given = {}
        if request.command != "GET":
            if not request.headers.get("Content-Type", "").startswith("application/json"):
                raise Refusal(415, "the body must be JSON")
            given = json.loads(body)
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        if path == "/api/graphql" and self.kind == "github":
            return 200, self._graphql(given)
        root = _ROOTS[self.kind]
        path = path.removeprefix(root) if path.startswith(f"{root}/") else "-"
        if (found := re.fullmatch(_NOTES[self.kind], path)) is not None:
            return self._serve_notes(request.command, int(found[1]), given)
        if (found := re.fullmatch(_STATUSES[self.kind], path)) is not None:
            return self._serve_status(request.command, found[1], given)
        if (found := re.fullmatch(_PULLS[self.kind], path)) is None:
            return self._serve_review(path)
        project = unquote(found[1]) if self.kind == "gitlab" else found[1]
        if project != "owner/project" or (self.kind == "gitlab" and "/" in found[1]):
            raise Refusal(404, "Not Found")
        with self._lock:
            match request.command, found[2]:
                case "GET", None:
                    return 200, self._list(asked)
                case "POST", None:
                    made = self._make(given)
                case "GET", number:
                    return 200, self._get(number)
                case method, number if method == _UPDATES[self.kind] and number:
                    one = self._get(number)
                    unknown = set(given) - {*_FIELDS[self.kind], "state", "state_event"}
                    if unknown:
                        raise Refusal(422, f"unknown fields: {unknown}")
                    one.update(given)
                    return 200, one
                case method, _:
                    raise Refusal(405, f"{method} is not allowed")
        self._wait("made")
        return 201, made

    def _serve_notes(self, method: str, number: int, given: dict[str, Any]) -> tuple[int, Any]:
        if number not in self.comments:
            raise Refusal(404, "Not Found")
        if method == "GET":
            return 200, self.comments[number]
        if set(given) != {"body"} or not given["body"].strip():
            raise Refusal(422, "Validation Failed: body")
        self.comments[number].append({"id": 70 + len(self.comments[number]), "body": given["body"]})
        self._wait("commented")
        return 201, self.comments[number][-1]

    def _serve_status(self, method: str, commit: str, given: dict[str, Any]) -> tuple[int, Any]:
        if method != "POST":
            raise Refusal(405, f"{method} is not allowed")
        if subprocess.run([need_program("git"), "cat-file", "-e", commit], cwd=self.bare).returncode:
            raise Refusal(422 if self.kind == "github" else 404, f"No commit found for SHA: {commit}")
        known = self.statuses.setdefault(commit, [])
        states = ("running", "success", "failed") if self.kind == "gitlab" else ("pending", "success", "failure")
        if given.get("state") not in states or set(given) - {"state", "context", "description", "target_url"}:
            raise Refusal(422, f"Validation Failed: {given}")
        if self.kind == "github" and len(given.get("description", "")) > 140:
            raise Refusal(422, "Validation Failed: description is too long (maximum is 140 characters)")
        if self.kind == "gitlab" and known and known[-1]["state"] == given["state"]:
            raise Refusal(400, f"Cannot transition status via :run from :{given['state']}")
        known.append(given)
        return 201, {"id": len(known), **given}

    def _list(self, asked: dict[str, str]) -> list[dict[str, Any]]:
        state = asked.get("state", "open")
        found = [one for one in self.pulls if one["state"] == state]
        if self.kind == "github" and "head" in asked:
            owner, parted, branch = asked["head"].partition(":")
            # Without an owner GitHub ignores the filter.
            found = [one for one in found if not parted or (owner == "owner" and one["head"]["ref"] == branch)]
        if self.kind == "gitlab" and "source_branch" in asked:
            found = [one for one in found if one["source_branch"] == asked["source_branch"]]
        return found

    def _make(self, given: dict[str, Any]) -> dict[str, Any]:
        title, text, head, base = _FIELDS[self.kind]
        for name in (title, head, base):
            if not isinstance(given.get(name), str) or not given[name]:
                raise Refusal(400 if self.kind == "gitlab" else 422, f"{name} is missing")
        if unknown := set(given) - set(_FIELDS[self.kind]):
            raise Refusal(422, f"unknown fields: {unknown}")
        branches = self.branches()
        if given[head] not in branches or given[base] not in branches:
            raise Refusal(404 if self.kind == "gitea" else 422, "Validation Failed: head or base is invalid")
        opened = "opened" if self.kind == "gitlab" else "open"
        if any(_head(one) == given[head] and one["state"] == opened for one in self.pulls):
            status, said = (422, "A pull request already exists") if self.kind == "github" else (409, "already exists")
            raise Refusal(status, said)
        number = len(self.pulls) + 1
        one = {**given, "state": opened, text: given.get(text)}
        if self.kind == "gitlab":
            one |= {
                "iid": number,
                "id": 900 + number,
                "web_url": f"{self.site}/owner/project/-/merge_requests/{number}",
                "source_project_id": 1,
                "target_project_id": 1,
            }
        else:
            one |= {"number": number, "id": 900 + number, "html_url": f"{self.site}/owner/project/pulls/{number}"}
            here = {"repo": {"id": 1}}
            one |= {"head": {"ref": given[head], **here}, "base": {"ref": given[base], **here}}
        self.pulls.append(one)
        self.made += 1
        return one

    def _get(self, number: str | None) -> dict[str, Any]:
        if number is None or int(number) > len(self.pulls):
            raise Refusal(404, "Not Found")
        return self.pulls[int(number) - 1]

    def _serve_review(self, path: str) -> tuple[int, Any]:
        told = [{"path": one["path"], "body": one["body"], "line": one["line"]} for one in self.reviews]
        resolved = {"path": "README", "body": "settled already", "line": "1"}
        if self.kind == "gitlab" and path.endswith("/discussions"):
            notes = [(one, False) for one in told] + [(resolved, True)]
            return 200, [{"id": "x", "notes": [self._note(one, is_resolved)]} for one, is_resolved in notes]
        if self.kind == "gitea" and path.endswith("/reviews"):
            return 200, [
                {"id": 5, "state": "REQUEST_CHANGES", "body": "", "user": {"login": "rita"}, "dismissed": False}
            ]
        if self.kind == "gitea" and path.endswith("/reviews/5/comments"):
            who = {"user": {"login": "rita"}}
            found = [{**who, "path": one["path"], "body": one["body"], "position": int(one["line"])} for one in told]
            return 200, [*found, {**who, "path": "README", "body": "settled already", "resolver": {"login": "rita"}}]
        raise Refusal(404, "Not Found")

    def _note(self, one: dict[str, str], is_resolved: bool) -> dict[str, Any]:
        at = {"new_path": one["path"], "new_line": int(one["line"])}
        about = {"system": False, "resolvable": True, "resolved": is_resolved}
        return {"body": one["body"], "author": {"username": "rita"}, "position": at, **about}

    def _graphql(self, given: dict[str, Any]) -> dict[str, Any]:
        assert given["variables"]["owner"] == "owner" and given["variables"]["name"] == "project", given
        assert "reviewThreads" in given["query"]

        def thread(path: str, line: str, body: str, is_resolved: bool) -> dict[str, Any]:
            comments = {"nodes": [{"body": body, "author": {"login": "rita"}}]}
            return {"isResolved": is_resolved, "path": path, "line": int(line), "comments": comments}

        threads = [thread(one["path"], one["line"], one["body"], False) for one in self.reviews]
        threads.append(thread("README", "1", "settled already", True))
        if given["variables"]["number"] > len(self.pulls):
            error = {"type": "NOT_FOUND", "message": "Could not resolve to a PullRequest"}
            return {"data": {"repository": {"pullRequest": None}}, "errors": [error]}
        pull = {"reviews": {"nodes": []}, "reviewThreads": {"nodes": threads}}
        return {"data": {"repository": {"pullRequest": pull}}}


def fork(one: dict[str, Any]) -> dict[str, Any]:
    """The same pull request, from a branch of another repository."""
    if "source_branch" in one:
        return {**one, "source_project_id": 2}
    return {**one, "head": {**one["head"], "repo": None}}


def _head(one: dict[str, Any]) -> str:
    if fork(one) == one or one.get("source_project_id") == 2:
        return ""
    return one["source_branch"] if "source_branch" in one else one["head"]["ref"]


if __name__ == "__main__":
    # On a host of its own.
    place, address, port = sys.argv[1:]
    print(Forge(Path(place), "gitea", address, int(port)).url, flush=True)
    threading.Event().wait()
