"""Names of repositories that jobs work on, and the servers that hold them: which a worker may use, and with which token.

Only a server that the settings name is ever asked. A token has a name in records and messages, and is read when it is used.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings

LOCAL = "file"
"""The name of the site that stands for paths."""
_REF = re.compile(r"(?!.*(\.\.|//|/\.|@\{|\.lock(/|$)|[./]$))[A-Za-z0-9_][A-Za-z0-9_./+#=-]{0,200}")
_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_.-]+")
_SCP = re.compile(r"^([A-Za-z0-9_.-]+@[A-Za-z0-9.-]+):(?!//)(.+)$")
_TOKEN = re.compile(r"[!-~]+")
_SCHEMES = ("http", "https", "ssh")
_STRANGE = re.compile(r"[\x00-\x1f\x7f]|%00")


def read_name(given: str) -> tuple[str, str]:
    """Return the URL and the ref of `owner/name`, a URL or a path, each with `@REF` if wanted. Raises `ConfigurationError`."""
    text, ref = given.strip(), ""
    begin = max(text.find("/", text.find("://") + 3) if "://" in text else text.find(":"), 0)
    if "@" in text[begin:] and not Path(text).expanduser().exists():
        text, _, ref = text.rpartition("@")
    return _make_url(text, given), check_ref(ref)


def check_ref(name: str) -> str:
    """Return the name of a branch, a tag or a commit; empty is none. Raises `ConfigurationError` if Git would not take it."""
    if name and not _REF.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot name a branch, a tag or a commit; use letters, digits, `/`, `.`, `-` and `_`"
        )
    return name


def _make_url(text: str, given: str) -> str:
    if _SHORT.fullmatch(text) and not text.startswith("."):
        return f"https://github.com/{text.removesuffix('.git')}"
    if "://" not in text and text[:1] in ("/", ".", "~"):
        return Path(text).expanduser().resolve().as_uri()
    text = _SCP.sub(lambda found: f"ssh://{found[1]}/{found[2].lstrip('/')}", text)
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if fault := _find_fault(parts, text, given):
        raise ConfigurationError(fault)
    return Path(path_of(text)).as_uri() if parts.scheme == LOCAL else text.rstrip("/")


def _find_fault(parts: SplitResult, text: str, given: str) -> str:
    """Return why nothing may use a URL, without its secrets; empty if all is well."""
    host, is_path = parts.hostname or "", parts.scheme == LOCAL and not parts.netloc
    if parts.password or (parts.username and parts.scheme != "ssh"):
        return "the repository's URL holds a name or password that everybody would see; remove it, and name the token in SWARM_FORGES"
    if parts.query or parts.fragment:
        return "the repository's URL has a `?` or `#`, which Git cannot fetch; remove what follows the path"
    if not (is_path and parts.path.startswith("/")) and not (parts.scheme in _SCHEMES and host and len(parts.path) > 1):
        return f"{given!r} names no repository; give owner/name of GitHub, an https, ssh or file URL, or a path that begins with / or ."
    if host.startswith("-") or _STRANGE.search(text) or (host and ".." in unquote(parts.path).split("/")):
        return f"{given!r} is no URL that Git can fetch; remove control characters, `..`, and `-` before the host"
    return ""


def path_of(url: str) -> str:
    """Return the path of a `file://` URL, as Git reads it."""
    return unquote(urlsplit(url).path, errors="surrogateescape")


def site_of(url: str) -> str:
    """Return the name in SWARM_FORGES of a repository's server."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return LOCAL
    host = parts.netloc.rpartition("@")[2] if parts.scheme != "ssh" else parts.hostname or ""
    return f"http://{host}" if parts.scheme == "http" else host


def name_of(url: str) -> str:
    """Return the name for the folder of a repository's files."""
    name = urlsplit(url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name).lstrip(".-") or "repository"


@dataclass(frozen=True)
class Site:
    """A server of repositories, as a worker's settings know it."""

    name: str
    kind: str
    """`github`, `gitlab`, `gitea`, or empty."""
    secret_name: str
    """The variable or file of its token; empty for none."""

    @property
    def user(self) -> str:
        """The user name that Git sends with the token."""
        return {"github": "x-access-token", "gitlab": "oauth2"}.get(self.kind, "swarm")

    @property
    def origin(self) -> str:
        """The beginning of its URLs."""
        return self.name if self.name.startswith("http://") else f"https://{self.name}"

    @property
    def secret(self) -> str:
        """The token, read now; empty without one, and for text that no header can hold, because errors would show it."""
        found = ""
        with suppress(OSError, UnicodeDecodeError):
            is_file = self.secret_name.startswith("/")
            found = Path(self.secret_name).read_text() if is_file else os.environ.get(self.secret_name, "")
        return found.strip() if _TOKEN.fullmatch(found.strip()) else ""

    @property
    def lack(self) -> str:
        """The end of a sentence: a remedy if the site refuses the worker."""
        if self.name == LOCAL:
            return "check the path and its permissions on the worker's host"
        if not self.secret_name:
            return f'name a token for {self.name} in the worker\'s SWARM_FORGES: {{"{self.name}": "gitea:VARIABLE"}}'
        what = "holds a token that may not do this" if self.secret else "holds no token"
        return f"{self.secret_name}, which SWARM_FORGES names on the worker for {self.name}, {what}"


def find_site(settings: Settings, url: str) -> Site | None:
    """Return the server of a repository; None if the settings do not name it."""
    name = site_of(url)
    if name not in settings.forges:
        return None
    kind, _, secret = settings.forges[name].rpartition(":")
    return Site(name, kind, secret)
