"""The Git folder in an agent's copy: the history that the copy has, without anything of the person's repository that acts.

It has no hooks, no remotes, no settings but the ones below, and borrows its objects from the job's store, which agents can only read.
What an agent commits lies in it alone until a snapshot takes it in. Nothing that the agent wrote there is obeyed: refs are read as
text, and objects are copied without following links, then checked by Git.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from swarm.core.errors import GitFailed, ToolError
from swarm.workspace.files import open_file
from swarm.workspace.git_command import OBJECT_ID, call_git, form_of, write_object
from swarm.workspace.origin import GitFolders, Standing

MOST_BYTES = 256 << 20
"""More bytes of objects than this are not taken in from a copy: an agent's own commits are small."""
MAIL = "agents.swarm.localhost"
_OBJECT = re.compile(rf"[0-9a-f]{{2}}/[0-9a-f]{{38}}(?:[0-9a-f]{{24}})?|pack/pack-{OBJECT_ID}\.pack")
_CONFIG = {
    "core.repositoryFormatVersion": "0",
    "core.bare": "false",
    "core.fileMode": "true",
    "core.logAllRefUpdates": "true",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "advice.detachedHead": "false",
}


def make_inner(
    git_dir: Path, tree: Path, standing: Standing, author: str, *, absent: Collection[str], large: Collection[bytes]
) -> None:
    """Put a Git folder with this history into a copy, instead of any other; `author` is an agent's id. Raises `GitFailed`.

    Git does not miss the `absent` files of the history: it takes the copy for a sparse checkout. `large` files have pointers in the
    git folder's index, which are nothing to this Git.
    The files must be those of the git folder's index: so Git need not read them to tell which differ from the history.
    """
    new, old = git_dir / f"inner-{secrets.token_hex(8)}", git_dir / f"inner-{secrets.token_hex(8)}"
    try:
        for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            (new / folder).mkdir(mode=0o700, parents=True)
        (new / "objects/info/alternates").write_text(f"{(git_dir / 'objects').resolve()}\n")
        (new / "info/exclude").write_bytes(standing.rules.encode("utf-8", "surrogateescape"))
        if standing.shallow:
            (new / "shallow").write_text(standing.shallow)
        sparse = {"core.sparseCheckout": "true"} if absent else {}
        (new / "config").write_text("".join(_write_config(standing, author, sparse)))
        (new / "packed-refs").write_text("".join(_write_refs(git_dir, standing)))
        (new / "HEAD").write_text(f"{standing.head}\n")
        shutil.copyfile(git_dir / "index", new / "index")
        if large:
            given = b"".join(path + b"\0" for path in large)
            forget = ["update-index", "-z", "--force-remove", "--stdin"]
            call_git(git_dir, forget, tree=tree, index=new / "index", stdin=given)
        call_git(git_dir, ["read-tree", "-m", standing.commit], tree=tree, index=new / "index")
        if absent:
            given = b"".join(os.fsencode(path) + b"\0" for path in absent)
            skip = ["update-index", "-z", "--skip-worktree", "--stdin"]
            call_git(git_dir, skip, tree=tree, index=new / "index", stdin=given)
        with suppress(FileNotFoundError):
            (tree / ".git").rename(old)
        new.rename(tree / ".git")
    except OSError as error:
        raise GitFailed(f"{tree} cannot be given its history: {error}", "failed") from error
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


def _write_config(standing: Standing, author: str, more: Mapping[str, str]) -> Iterator[str]:
    own = {"user.name": author, "user.email": f"{author}@{MAIL}"} | _CONFIG
    if (form := form_of(standing.commit)) != "sha1":
        own |= {"core.repositoryFormatVersion": "1", "extensions.objectFormat": form}
    for name, value in {**own, **more, **standing.settings}.items():
        section, key = name.split(".")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'[{section}]\n\t{key} = "{escaped}"\n'


def _write_refs(git_dir: Path, standing: Standing) -> Iterator[str]:
    refs = dict(standing.branches)
    for name, text in standing.tags.items():
        refs[f"refs/tags/{name}"] = text
        if "\n" in text:
            refs[f"refs/tags/{name}"] = write_object(git_dir, "tag", text.encode())
    yield "# pack-refs with: sorted\n"
    yield from (f"{refs[name]} {name}\n" for name in sorted(refs))


# -- objects -------------------------------------------------------------------------------------------------


def take_history(git_dir: Path, git: GitFolders, standing: Standing) -> None:
    """Give the git folder the history of a person's repository, independent of what happens there. Raises `GitFailed`.

    On one file system its files of objects, which never change, get a second name; else the missing objects are copied.
    """
    source, target = git.common / "objects", (git_dir / "objects").resolve()
    if standing.shallow:
        mark_shallow(git_dir, standing.shallow)
    try:
        for lender in _lenders(source):
            link_objects(lender, target)
    except OSError:
        wanted = "".join(f"{commit}\n" for commit in standing.tips).encode()
        words = ["pack-objects", "-q", "--revs", "--non-empty", str(target / "pack/pack")]
        call_git(git_dir, words, stdin=wanted, borrow=source)


def mark_shallow(git_dir: Path, ends: str) -> None:
    """Tell a git folder, and the one whose objects it uses, that the history ends at these commits."""
    for file in (git_dir / "shallow", (git_dir / "objects").resolve().with_name("shallow")):
        file.write_text(ends)


def _lenders(objects: Path) -> Iterator[Path]:
    """Yield a folder of objects, and all folders that it borrows from."""
    seen, todo = set[Path](), [objects.resolve()]
    while todo:
        one = todo.pop()
        if one in seen or not one.is_dir():
            continue
        seen.add(one)
        yield one
        with suppress(OSError):
            listed = (one / "info/alternates").read_text().splitlines()
            todo += [(one / line).resolve() for line in listed if line and not line.startswith("#")]


def link_objects(source: Path, target: Path) -> None:
    """Give files of objects a second name in another folder of objects. Raises `OSError` on another file system."""
    for folder in os.scandir(source):
        if not (folder.name == "pack" or len(folder.name) == 2):
            continue
        (target / folder.name).mkdir(exist_ok=True)
        # An index of a pack comes last, because it makes the pack known.
        for entry in sorted(os.scandir(folder.path), key=lambda one: (one.name.endswith(".idx"), one.name)):
            if entry.name.startswith("tmp_") or entry.name.endswith((".keep", ".bitmap", ".mtimes", ".lock")):
                continue
            with suppress(FileExistsError, FileNotFoundError):
                os.link(entry.path, target / folder.name / entry.name, follow_symlinks=False)


def take_commits(git_dir: Path, tree: Path, wanted: Iterable[str], known: Iterable[str]) -> None:
    """Take commits of an agent's copy in, with all that they need beyond the `known` ones. Raises `GitFailed`."""
    left = MOST_BYTES
    with tempfile.TemporaryDirectory(prefix="taken-", dir=git_dir) as folder:
        for name in _list_objects(tree):
            if (git_dir / "objects" / name).exists():
                continue
            place = Path(folder, name)
            place.parent.mkdir(exist_ok=True)
            try:
                opened, seen = open_file(tree, tree / ".git/objects" / name)
            except ToolError:
                continue
            with open(opened, "rb") as file, place.open("wb") as copy:
                left -= seen.st_size
                if left < 0:
                    raise GitFailed(f"the commits in {tree} have more than {MOST_BYTES >> 20} MiB", "failed")
                copy.write(file.read(seen.st_size))
            if name.startswith("pack/"):
                call_git(git_dir, ["index-pack", str(place)])
        revisions = "".join([f"{one}\n" for one in wanted] + [f"^{one}\n" for one in known]).encode()
        pack = call_git(git_dir, ["pack-objects", "-q", "--revs", "--stdout"], stdin=revisions, borrow=Path(folder))[1]
    call_git(git_dir, ["unpack-objects", "-q", "--strict"], stdin=pack)


def _list_objects(tree: Path) -> Iterator[str]:
    objects = tree / ".git/objects"
    for top, _, names in os.walk(objects):
        for name in names:
            found = os.path.relpath(os.path.join(top, name), objects)
            if _OBJECT.fullmatch(found):
                yield found
