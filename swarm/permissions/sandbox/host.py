"""The host's files in every sandbox: programs, libraries, the public part of /etc, the runtime's Python."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from swarm.permissions.sandbox.obeyed import may_run, named_paths
from swarm.permissions.sandbox.policy import SandboxPolicy
from swarm.workspace.git import settings_in_effect

SYSTEM_FOLDERS = tuple(
    Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
)
CONFIGURATION = Path("/etc")
PROCESSORS = Path("/sys/devices/system")
"""Lists the processors, by which thread pools choose their size."""
CREDENTIALS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh"),
    *(".config/git/credentials", ".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc"),
    *(".cargo/credentials.toml", ".anthropic", ".vault-token", ".claude/.credentials.json", ".codex/auth.json"),
    *(".local/share/opencode/auth.json", ".config/containers/auth.json", ".m2/settings.xml"),
    *(".m2/settings-security.xml", ".gradle/gradle.properties", ".terraform.d", ".terraformrc", ".config/hub"),
    *(".config/glab-cli", ".gem/credentials", ".bundle/config", ".composer/auth.json", ".nuget"),
    *(".config/composer/auth.json", ".config/pip/pip.conf", ".pip/pip.conf", ".databrickscfg", ".boto", ".s3cfg"),
    *(".config/rclone", ".config/op", ".config/sops", ".config/doctl", ".config/heroku", ".yarnrc.yml", ".yarnrc"),
    *(".bash_history", ".zsh_history", ".password-store", ".mozilla"),
    *(".config/google-chrome", ".local/share/keyrings"),
)
"""Credentials below a home; they matter if the home, or a folder above it, is a workspace."""
HOME_SETTINGS = (".config", ".local/bin", ".local/share/systemd", ".ssh")
"""Folders below a home that programs and the next login obey. In a workspace they are protected from changes."""
_PR_SET_DUMPABLE = 4
UNSET = (
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
    *("GOCACHE", "GOMODCACHE", "GOPATH", "CARGO_HOME", "GRADLE_USER_HOME", "npm_config_cache", "NPM_CONFIG_CACHE"),
)
"""Variables that point into the home. Without them, programs use folders below HOME, the scratch folder."""


def python_folders() -> tuple[Path, ...]:
    """Return the folders of the runtime's Python and its packages, except system folders."""
    found = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    return tuple(sorted(path for path in found if not path.is_relative_to("/usr") and path != path.parent))


@lru_cache(maxsize=1)
def package_folders() -> tuple[Path, ...]:
    """Return the folders of the running swarm; an editable checkout has several."""
    package = Path(__file__).resolve().parents[2]
    parts = [package, *(entry.resolve() for entry in package.iterdir() if entry.is_symlink() and entry.is_dir())]
    return tuple(path for path in parts if path == package or not path.is_relative_to(package))


def own_folders(roots: Iterable[Path]) -> tuple[Path, ...]:
    """Return folders of the running swarm and its Python that are one of these folders or lie in one."""
    own = {*package_folders(), *python_folders()}
    return tuple(sorted(path for path in own if any(path.is_relative_to(root) for root in roots)))


def name_server_file() -> Path | None:
    """Return the target of /etc/resolv.conf, if that is a link."""
    path = Path("/etc/resolv.conf")
    return path.resolve() if path.is_symlink() and path.exists() else None


@lru_cache(maxsize=1)
def private_configuration() -> tuple[Path, ...]:
    """Return the private files in /etc, for root only, because other users cannot read them anyway."""
    return tuple(_find_private(CONFIGURATION)) if os.geteuid() == 0 else ()


@lru_cache(maxsize=1)
def public_configuration() -> tuple[Path, ...]:
    """Return the rest of /etc, as few paths as possible."""
    return tuple(_without(CONFIGURATION, private_configuration()))


def hidden_paths(policy: SandboxPolicy) -> tuple[Path, ...]:
    """Return the paths that must be hidden in the policy's folders."""
    home = Path(os.path.expanduser("~")).resolve()
    given = [policy.workspace, policy.scratch, CONFIGURATION, *policy.readable, *policy.writable]
    given += [*python_folders(), *SYSTEM_FOLDERS]
    wanted = [*policy.hidden, *(home / name for name in CREDENTIALS)]
    return tuple(
        path for path in wanted if any(path != root and path.is_relative_to(root) for root in given) and path.exists()
    )


def close_to_others() -> None:
    """Close this process's memory and environment, which hold keys, to other processes of its user.

    Forked children inherit it; exec opens the process again. Only Linux supports it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def home_settings(roots: Iterable[Path]) -> tuple[Path, ...]:
    """Return `HOME_SETTINGS` if the home lies in one of these folders; of a missing path, its first missing folder."""
    home = Path(os.path.expanduser("~")).resolve()
    if not any(home.is_relative_to(root) for root in roots):
        return ()
    ways = [[*reversed((home / name).relative_to(home).parents), Path(name)][1:] for name in HOME_SETTINGS]
    return tuple(
        dict.fromkeys(next((home / p for p in way if not (home / p).exists()), home / way[-1]) for way in ways)
    )


def settings_of_people(policy: SandboxPolicy) -> tuple[tuple[str, str], ...]:
    """Return the settings that make further files obeyed: the files that hooks run, and git's settings."""
    paths = {str(path) for hook in policy.hooks for path in (hook, hook.resolve())}
    return (*(("hook", path) for path in sorted(paths)), *git_settings(policy.workspace))


def git_settings(workspace: Path) -> tuple[tuple[str, str], ...]:
    """Return this user's git settings, from any file, that name files to run or read in the workspace."""
    return _choose_running(settings_in_effect(workspace))


@lru_cache(maxsize=64)
def _choose_running(settings: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    found: dict[tuple[str, str], None] = {}
    for name, value in settings:
        section, _, rest = name.partition(".")
        one, _, last = rest.rpartition(".")
        value = " ".join(map(os.path.expanduser, value.split(" ")))
        if may_run(section, last, value, one=bool(one)) and named_paths(f"{section}.{last}", value):
            found[f"{section}.{last}", value] = None
    return tuple(found)


def _find_private(folder: Path) -> list[Path]:
    found: list[Path] = []
    for entry in os.scandir(folder):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            continue
        is_folder = stat.S_ISDIR(mode)
        needed = stat.S_IROTH | stat.S_IXOTH if is_folder else stat.S_IROTH
        if mode & needed != needed:
            found.append(Path(entry.path))
        elif is_folder:
            found += _find_private(Path(entry.path))
    return found


def _without(folder: Path, excluded: tuple[Path, ...]) -> list[Path]:
    below = tuple(path for path in excluded if path.is_relative_to(folder))
    if not below:
        return [folder]
    if folder in below:
        return []
    return [part for entry in sorted(folder.iterdir()) for part in _without(entry, below)]
