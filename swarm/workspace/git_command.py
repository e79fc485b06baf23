"""Git commands in a git folder of the runtime, outside the workspace and without the workspace's settings.

`swarm.workspace.git` is for a repository that a person works in; here its settings are never read. No settings, hooks, filters or
drivers exist except the ones below, so names in a workspace's files (`.gitattributes` can only name drivers) have no effect.
A token is passed in the environment, which no other user can read, never as an argument; no error repeats it.
"""

from __future__ import annotations

import base64
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from swarm.core.errors import GitBusy, GitFailed, GitTrouble
from swarm.workspace.git import config_variables

Form = Literal["sha1", "sha256"]
"""The hash that a repository names its objects by. Repositories of different forms share no objects."""
OBJECT_ID = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
LOCAL_SECONDS = 600.0
"""Time limit of a command that reaches no other host."""
LOCK_SECONDS = 60.0
NEVER_CHECKED = (
    # Old histories have such commits. No part of a file's name or content depends on them.
    *(
        f"{fault}{what}"
        for fault in ("bad", "missing")
        for what in ("Email", "Name")
        if (fault, what) != ("missing", "Name")
    ),
    *("badDate", "badDateOverflow", "badTimezone", "missingNameBeforeEmail", "missingSpaceBeforeDate"),
    *("missingSpaceBeforeEmail", "zeroPaddedDate", "zeroPaddedFilemode", "multipleAuthors", "missingTaggerEntry"),
    *(f"gitmodules{fault}" for fault in ("Blob", "Large", "Name", "Parse", "Path", "Symlink", "Update", "Url")),
    *(f"gitattributes{fault}" for fault in ("Blob", "Large", "LineLength")),
)
"""Ignored faults of a history's names and dates, and of files that only git interprets and the runtime never obeys."""
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.ignoreCase": "false",
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "core.pager": "cat",
    "core.fsyncMethod": "batch",
    "core.untrackedCache": "false",
    # Making files is the kernel's work, and most of a new checkout's time.
    "checkout.workers": "4",
    "index.version": "4",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "merge.conflictStyle": "diff3",
    "transfer.fsckObjects": "true",
    "safe.bareRepository": "explicit",
    "safe.directory": "*",
    "credential.helper": "",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "20",
    "protocol.allow": "never",
    "protocol.http.allow": "always",
    "protocol.https.allow": "always",
    "protocol.ssh.allow": "always",
    "protocol.file.allow": "always",
    **{f"fetch.fsck.{fault}": "ignore" for fault in NEVER_CHECKED},
    **{f"receive.fsck.{fault}": "ignore" for fault in NEVER_CHECKED},
}
BARE_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""Environment in which git reads no user's configuration, replaces no object and never prompts."""
_ENVIRONMENT = {
    **BARE_ENVIRONMENT,
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=10",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_ALLOW_PROTOCOL": "http:https:ssh:file",
    "GIT_AUTHOR_NAME": "swarm",
    "GIT_AUTHOR_EMAIL": "swarm@localhost",
    "GIT_COMMITTER_NAME": "swarm",
    "GIT_COMMITTER_EMAIL": "swarm@localhost",
}
_TAKEN_OVER = re.compile(
    r"PATH|TMPDIR|SSH_AUTH_SOCK|SSL_CERT_(FILE|DIR)|GIT_SSL_CA(INFO|PATH)|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy"
)
_AWAY = (
    r"[Cc]ould not (resolve|connect)|[Cc]ouldn't connect|[Ff]ailed to connect|Connection (refused|reset|closed)|timed out|too slow|"
    r"No route to host|Network is unreachable|Empty reply|unexpectedly|hung up|early EOF|Recv failure|Send failure|"
    # Storage that is not mounted yet.
    r"does not appear to be a git repository|repository .* not found|error: 404|"
    r"error: 5\d\d|HTTP 5\d\d|error: 429|HTTP 429|unpack failed|No space left|transfer closed"
)
_NO_SPACE = re.compile(
    r"^(?!remote:).*(No space left on device|Disk quota exceeded|unable to write file)", re.MULTILINE
)
"""Git marks the lines of the other side, whose disk is not this one. It gives no reason for a file that it could make and not write."""
_NEARLY_NONE = 1 << 20
"""Free bytes below which a failure without a stated reason is the disk's: some commands do not say why a file could not be written."""
_FULL = r"error: 413|HTTP 413|exceeds maximum allowed size"
_DENIED = (
    r"Authentication failed|could not read Username|Permission denied|error: 40[13]|HTTP 40[13]|Host key verification"
)
_MISSING = (
    r"not our ref|couldn't find remote ref|bad object|unknown revision|not a valid object|not a tree object|"
    # An object that a partial clone has left at its server.
    r"not a valid commit|failed to unpack tree|unable to read [0-9a-f]{40}"
)
_SHOWN_CHARACTERS = 800
_SECRET = re.compile(r"//[^@/\s]*@")


@dataclass(frozen=True)
class SiteToken:
    """A token that git sends to one site only: `https://host/`."""

    site: str
    user: str
    secret: str = field(repr=False)


def find_git() -> str:
    """Return the path of git. Raises `GitFailed` if it is missing."""
    program = shutil.which("git")
    if program is None:
        raise GitFailed("git is not on the PATH; install git 2.38 or newer with the system's package manager", "failed")
    return program


def call_git(
    git_dir: Path,
    arguments: Sequence[str],
    *,
    tree: Path | None = None,
    stdin: bytes | None = None,
    accept: Sequence[int] = (0,),
    token: str | SiteToken | None = None,
    seconds: float = LOCAL_SECONDS,
    keep: Sequence[int] = (),
    index: Path | None = None,
    borrow: Path | None = None,
) -> tuple[int, bytes]:
    """Run a command in the git folder, with `tree` as work tree; return its exit code, one of `accept`, and its output.

    `keep` are descriptors that it holds while it runs; `index` replaces the git folder's index; `borrow` is a folder of further
    objects. Raises `GitFailed`.
    """
    where = ["--no-pager", f"--git-dir={git_dir}", *([] if tree is None else [f"--work-tree={tree}"])]
    command = next(word for word in arguments if word != "-c" and "=" not in word)
    try:
        running = subprocess.Popen(
            [find_git(), *where, *arguments],
            cwd=git_dir if tree is None else tree,
            env=_environment(token)
            | ({} if index is None else {"GIT_INDEX_FILE": str(index)})
            | ({} if borrow is None else {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(borrow)}),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            pass_fds=keep,
        )
    except OSError as error:
        raise GitFailed(f"git {command} in {git_dir} could not be started: {error}", "failed") from error
    try:
        printed, complaint = running.communicate(stdin, seconds)
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {command} took longer than {seconds:g} s and was ended", "away") from error
    finally:
        if running.returncode is None:
            # Kill the helpers, too, because they hold the connection.
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    if running.returncode not in accept:
        # Both streams may say why a push was refused.
        failure = read_failure(command, (complaint + b"\n" + printed[-500:]).decode("utf-8", "replace"))
        if failure.trouble == "failed" and _is_full(git_dir):
            failure.trouble = "disk"
        raise failure
    return running.returncode, printed


def form_of(object_id: str) -> Form:
    """Return the form of the repository that an object's id comes from; of an empty id, the usual one."""
    return "sha256" if len(object_id) == 64 else "sha1"


def make_git_folder(folder: Path, form: Form) -> None:
    """Make a folder a bare repository of this form. Raises `GitFailed`."""
    call_git(folder, ["init", "-q", "--bare", "--template=", f"--object-format={form}", str(folder)])


def read_form(git_dir: Path) -> Form:
    """Return the form of a git folder of the runtime. Raises `OSError` if there is none."""
    return "sha256" if "objectformat = sha256" in (git_dir / "config").read_text() else "sha1"


def write_object(git_dir: Path, kind: Literal["blob", "commit", "tag", "tree"], content: bytes) -> str:
    """Write an object into the git folder; returns its id. Raises `GitFailed`."""
    return call_git(git_dir, ["hash-object", "-t", kind, "-w", "--stdin"], stdin=content)[1].decode().strip()


def has_commit(git_dir: Path, commit: str) -> bool:
    """Whether the git folder has the commit."""
    return call_git(git_dir, ["cat-file", "-e", f"{commit}^{{commit}}"], accept=(0, 1, 128))[0] == 0


def read_failure(command: str, complaint: str) -> GitFailed:
    """Classify git's message about a failure, without URLs' passwords."""
    told = _SECRET.sub("//", " ".join(complaint.split()))
    if len(told) > _SHOWN_CHARACTERS:
        # The end says most; it begins with a whole word.
        end = told[-_SHOWN_CHARACTERS:]
        told = f"… {end.partition(' ')[2] or end}"
    trouble: GitTrouble = "disk" if _NO_SPACE.search(complaint) else "failed"
    for kind, words in (("full", _FULL), ("denied", _DENIED), ("missing", _MISSING), ("away", _AWAY)):
        if trouble == "failed" and re.search(words, told):
            trouble = kind  # type: ignore[assignment]
    return GitFailed(f"git {command}: {told or 'it failed and did not say why'}", trouble)


def _is_full(folder: Path) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(folder).free < _NEARLY_NONE
    return False


@contextmanager
def locked(git_dir: Path) -> Iterator[int]:
    """Lock the git folder, also against a git whose caller has died. Raises `GitBusy` after a minute."""
    opened = os.open(git_dir / "swarm.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise GitBusy(git_dir) from None
                time.sleep(0.01)
        # The lock is held, so these files belong to a dead process.
        for left in ("index.lock", "shallow.lock"):
            (git_dir / left).unlink(missing_ok=True)
        yield opened
    finally:
        os.close(opened)


def _environment(token: str | SiteToken | None) -> dict[str, str]:
    taken = {name: value for name, value in os.environ.items() if _TAKEN_OVER.fullmatch(name)}
    return {**taken, **_ENVIRONMENT, **config_variables({**_SETTINGS, **_header(token)})}


def _header(token: str | SiteToken | None) -> Mapping[str, str]:
    # A token in the URL would cost a refused request each time.
    match token:
        case SiteToken(site, user, secret):
            return {f"http.{site}.extraHeader": _authorize(user, secret)}
        case str() if token:
            return {"http.extraHeader": _authorize("swarm", token)}
    return {}


def _authorize(user: str, secret: str) -> str:
    return f"Authorization: Basic {base64.b64encode(f'{user}:{secret}'.encode()).decode()}"
