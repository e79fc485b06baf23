"""A job's work comes out as Git would merge it, whatever happened to the folder meanwhile; `git merge` is the oracle.

Tests of swarm/client/result_branch.py, swarm/client/work.py, swarm/workspace/inner.py, swarm/workspace/merge.py.
"""

from __future__ import annotations

import random
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from swarm.client.work import Work
from swarm.core.errors import ConfigurationError, GitFailed, NoWork
from tests.git_world import JOB, World, listing, sh
from tests.needs import need_program


class DirtyWorld(World):
    """A person's repository with changes that are not committed, and a job that works on a copy of it."""

    def __init__(self, top: Path) -> None:
        folder = top / "w"
        folder.mkdir(parents=True)
        lines = "\n".join(f"line {number}" for number in range(30))
        (folder / "t").write_text(f"{lines}\n")
        sh(folder, "git init -q -b main; printf '\\0one' > bin; echo f > f; mkdir d; echo 1 > d/x; echo 2 > d/y")
        sh(folder, "ln -s t link; echo '#!/bin/sh' > run; seq 50 > long; echo '*.ign' > .gitignore")
        sh(folder, "git add -A; git commit -qm first; echo new > untracked; echo dirty >> f; echo s > secret.ign")
        super().__init__(top, folder)
        self.began = listing(self.copy)

    def merge(self, top: Path) -> dict[str, tuple[int, bytes]] | None:
        """What `git merge` makes of the same three states of the files; None if it finds a conflict."""
        oracle = top / "oracle"
        shutil.rmtree(oracle, ignore_errors=True)
        oracle.mkdir()
        sh(oracle, "git init -q -b main; git commit -q --allow-empty -m none")
        for branch, files in (("main", None), ("theirs", self.copy), ("main", self.folder)):
            sh(oracle, f"git checkout -q {'-b ' if branch == 'theirs' else ''}{branch}; git rm -rq --ignore-unmatch .")
            found = self.began if files is None else listing(files)
            for name, (mode, content) in found.items():
                place = oracle / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(content.decode()) if stat.S_ISLNK(mode) else place.write_bytes(content)
                if mode == stat.S_IFREG | 0o100:
                    place.chmod(0o755)
            sh(oracle, "git add -A; git commit -q --allow-empty -m x")
        who = ["-c", "user.name=p", "-c", "user.email=p@x"]
        done = subprocess.run(["git", *who, "merge", "-q", "--no-edit", "theirs"], cwd=oracle, capture_output=True)
        return listing(oracle) if done.returncode == 0 else None


@pytest.fixture
def world(tmp_path: Path) -> DirtyWorld:
    need_program("git")
    return DirtyWorld(tmp_path)


MERGES = {
    "nothing of the person's": ("sed -i 's/line 3$/J/' t; rm untracked; echo a > added", "true"),
    "both edit far apart": ("sed -i 's/line 3$/J/' t", "sed -i 's/line 25$/P/' t"),
    "both edit one line": ("sed -i 's/line 3$/J/' t", "sed -i 's/line 3$/P/' t; echo mine > mine"),
    "both make the same edit": ("sed -i 's/line 3$/J/' t", "sed -i 's/line 3$/J/' t"),
    "binary on both sides": ("printf '\\0job' > bin; echo J >> f", "printf '\\0person' > bin"),
    "binary on one side": ("printf '\\0job' > bin", "echo P >> f"),
    "rename and edit": ("mv long longer", "sed -i 's/^25$/P/' long"),
    "edit and rename": ("sed -i 's/^25$/J/' long", "mv long longer"),
    "renamed twice": ("mv long a-name", "mv long another-name"),
    "renamed alike": ("mv long longer", "mv long longer; sed -i 's/^25$/P/' longer"),
    "edit and delete": ("sed -i 's/^25$/J/' long", "rm long"),
    "delete and edit": ("rm long; echo J >> f", "sed -i 's/^25$/P/' long"),
    "deleted on both sides": ("rm long", "rm long"),
    "added alike": ("echo same > new", "echo same > new"),
    "added differently": ("echo J > new", "echo P > new"),
    "file of the person's, folder of the job's": ("mkdir l; echo J > l/f", "echo P > l"),
    "folder of the person's, file of the job's": ("echo J > l", "mkdir l; echo P > l/f"),
    "file turns into a folder, and is edited": ("rm f; mkdir f; echo J > f/in", "echo P >> f"),
    "folder turns into a file, and is edited": ("rm -r d; echo J > d", "echo P > d/x"),
    "folder turns into a file": ("rm -r d; echo J > d", "echo P >> f"),
    "link on both sides": ("ln -sf f link", "ln -sf long link"),
    "link turns into a file": ("rm link; echo J > link", "true"),
    "file turns into a link, and is edited": ("rm f; ln -s t f", "echo P >> f"),
    "made to run, and edited": ("chmod +x run", "echo true >> run"),
    "made to run on both sides": ("chmod +x run", "chmod +x run"),
    "a file in a folder that was renamed": ("echo J > d/z", "mv d e"),
    "a folder that was renamed, a file added": ("mv d e", "echo P > d/z"),
    "no more end of line": ("printf 'f\\ndirty' > f", "true"),
    "line ends": ("sed -i 's/$/\\r/' long", "true"),
    "odd names": ("echo J > '-rf'; echo J > \"$(printf 'new\\nline')\"; echo J > ' sp '", "echo P > mine"),
}


QUICK = (
    *(
        "both edit far apart",
        "both edit one line",
        "binary on both sides",
        "rename and edit",
        "edit and delete",
        "odd names",
    ),
    *("file of the person's, folder of the job's", "folder of the person's, file of the job's", "link on both sides"),
)


@pytest.mark.parametrize("case", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.long) for one in MERGES])
def test_work_is_merged_as_git_would(world: DirtyWorld, tmp_path: Path, case: str) -> None:
    check_merge(world, tmp_path, *MERGES[case])


def _change(chance: random.Random, who: str) -> str:
    """A script with some changes of any kind, of which those that cannot be made are left out."""
    names = ("t", "long", "f", "d/x", "d/y", "bin", "run", "link", "untracked", "d", "new", "e/z")
    made = []
    for number in range(chance.randint(1, 5)):
        name, other = chance.choice(names), chance.choice(names)
        made.append(
            chance.choice(
                (
                    f"sed -i '{chance.randint(1, 30)}s/.*/{who} {number}/' {name}",
                    f"sed -i '{chance.randint(1, 30)}a {who} {number}' {chance.choice(('t', 'long'))}",
                    f"rm -r {name}",
                    f"mv {name} {other}",
                    f"mv {name} renamed",
                    f"echo {who} > {name}",
                    f"echo same > {name}",
                    f"mkdir -p $(dirname {name}) && echo {who} > {name}",
                    f"rm -r {name} && mkdir {name} && echo {who} > {name}/in",
                    f"printf '\\0{who}' > {name}",
                    f"ln -sfn {other} {name}",
                    f"chmod +x {name}",
                )
            )
        )
    return "; ".join(f"{{ {one}; }} 2>/dev/null || true" for one in made)


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(one, marks=pytest.mark.long) for one in range(100, 160))])
def test_any_changes_are_merged_as_git_would_and_nothing_is_lost(world: DirtyWorld, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    check_merge(world, tmp_path, _change(chance, "J"), _change(chance, "P"), told=False)


def check_merge(world: DirtyWorld, tmp_path: Path, job: str, person: str, *, told: bool = True) -> None:
    """Apply a job's changes beside a person's: as Git merges them, or not at all; `told` is what each strategy must do."""
    work = world.work(job)
    sh(world.folder, person)
    before, wanted = listing(world.folder), world.merge(tmp_path)
    index = (world.folder / ".git/index").read_bytes()
    if wanted is None:
        applied = work.apply()
        assert applied.conflicts and not applied.changed and listing(world.folder) == before
        if told:
            check_strategies(world, work, before)
        for side in ("merge", "ours", "theirs"):
            if work.apply(side).changed:
                work.undo()
            assert listing(world.folder) == before, side
    else:
        planned = work.apply(dry_run=True).changed
        assert listing(world.folder) == before
        assert work.apply().changed == planned
        assert listing(world.folder) == {**wanted, "secret.ign": before["secret.ign"]}
        assert work.apply().changed == {} and not work.apply().conflicts
        if planned:
            work.undo()
            assert listing(world.folder) == before
            assert work.apply().changed == planned
    assert (world.folder / ".git/index").read_bytes() == index


def check_strategies(world: DirtyWorld, work: Work, before: dict[str, tuple[int, bytes]]) -> None:
    """Each side can be chosen as a whole, and what neither can hold is refused."""
    theirs = listing(world.copy)
    mine = {name for name in before if before[name] != world.began.get(name)}
    told = work.apply("merge")
    if told.conflicts:
        assert listing(world.folder) == before
    else:
        assert b"<<<<<<< yours" in b"".join(content for _, content in listing(world.folder).values())
        work.undo()
    changed = work.apply("ours").changed
    now = listing(world.folder)
    # A folder that the other side renamed takes a new file with it.
    lost = {name for name in mine if name in before and before[name] not in (now.get(name), *now.values())}
    assert lost <= {"t", "new"} and not any("~" in name for name in now)
    if changed:
        work.undo()
    assert listing(world.folder) == before
    work.apply("theirs")
    now = listing(world.folder)
    for name in theirs:
        if theirs[name] != world.began.get(name):
            assert theirs[name] in (now.get(name), *now.values()), name
    work.undo()
    assert listing(world.folder) == before


AGAIN = {
    "checked out again": "git checkout -q -- .; git clean -fdq",
    "stashed": "git stash -qu",
    "on another branch": "git stash -qu; git checkout -qb other; echo o > o; git add o; git commit -qm o",
    "committed and reverted": "git add -A; git commit -qm work; git revert --no-edit HEAD >/dev/null",
    "rebased": "git stash -qu; git commit -q --amend -m other; echo r > r; git add r; git commit -qm r",
    "another clone in its place": "cd ..; git clone -q w w2; rm -rf w; mv w2 w; cd w; git gc -q --prune=now",
    "one file undone": "git checkout -q -- t",
    "the history collected": "git stash -qu; git stash drop -q; git reflog expire --expire=now --all; git gc -q --prune=now",
}


@pytest.mark.parametrize(
    "case", [pytest.param(one, marks=[] if number < 2 else pytest.mark.long) for number, one in enumerate(AGAIN)]
)
def test_work_that_was_undone_is_applied_again(world: DirtyWorld, case: str) -> None:
    work = world.work("sed -i 's/line 3$/J/' t; echo a > added; git add -A; git commit -qm mine; rm -r d")
    assert work.apply().changed == {"t": "M", "added": "A", "d/x": "D", "d/y": "D"}
    sh(world.folder, AGAIN[case])
    kept = {name: one for name, one in listing(world.folder).items() if name in ("o", "r")}
    assert "line 3\n" in (world.folder / "t").read_text()
    applied = work.apply()
    assert "t" in applied.changed and not applied.conflicts
    assert (
        "J\n" in (world.folder / "t").read_text()
        and (world.folder / "added").exists()
        and not (world.folder / "d").exists()
    )
    assert kept.items() <= listing(world.folder).items()
    assert work.diff() and work.make_branch() == f"swarm/{JOB}"


def test_a_job_that_goes_on_brings_only_what_is_new(world: DirtyWorld) -> None:
    world.work("sed -i 's/line 3$/J/' t; echo one > added").apply()
    sh(world.folder, "sed -i 's/line 25$/P/' t; rm added")
    later = world.work("sed -i 's/^J$/K/' t; echo two > more")
    applied = later.apply()
    assert (
        not applied.conflicts
        and "K\n" in (world.folder / "t").read_text()
        and "P\n" in (world.folder / "t").read_text()
    )
    later.undo()
    assert "J\n" in (world.folder / "t").read_text() and not (world.folder / "more").exists()


def test_files_can_be_picked_and_work_goes_into_any_clone(world: DirtyWorld, tmp_path: Path) -> None:
    work = world.work("sed -i 's/line 3$/J/' t; echo a > added; echo 3 > d/x")
    assert work.apply(pick=["d", "./added"]).changed == {"added": "A", "d/x": "M"}
    with pytest.raises(ConfigurationError, match="nothing is no changed file"):
        work.apply(pick=["nothing"])
    assert work.apply().changed == {"t": "M"}
    sh(tmp_path, "git clone -q w clone; echo c >> clone/long")
    clone = work.into(tmp_path / "clone")
    assert set(clone.apply().changed) == {"t", "added", "d/x"}
    assert (tmp_path / "clone/d/x").read_text() == "3\n" and (tmp_path / "clone/long").read_text().endswith("c\n")
    clone.undo()
    assert sh(tmp_path / "clone", "git status --short") == " M long\n"
    with pytest.raises(NoWork, match="nothing of job-1 was applied"):
        clone.undo()
    with pytest.raises(GitFailed, match="--into"):
        work.into(tmp_path / "gone").apply()
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    "form",
    [
        "worktree",
        "sub",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("plain", "separate", "shallow", "detached")),
    ],
)
def test_a_branch_has_the_history_and_the_agents_own_commits(world: DirtyWorld, tmp_path: Path, form: str) -> None:
    work = world.work(
        "sed -i 's/line 3$/J/' t; git commit -qam 'my first'; echo 4 > d/x; git commit -qam 'my second'; echo z > z"
    )
    target, url = tmp_path / form, f"file://{world.folder}"
    made = {
        "plain": f"git clone -q {url} {target}",
        "worktree": f"git -C {world.folder} worktree add -q --detach {target}",
        "separate": f"git clone -q --separate-git-dir={target}.git {url} {target}",
        "shallow": f"git clone -q --depth 1 {url} {target}",
        "detached": f"git clone -q {url} {target}; git -C {target} checkout -q --detach",
        "sub": f"git init -q over; git -C over -c protocol.file.allow=always submodule --quiet add {url} s; ln -s over/s {target}",
    }
    sh(tmp_path, made[form])
    before = sh(target, "git rev-parse HEAD; git status --short")
    name = work.into(target).make_branch()
    log = sh(
        target, f"git log --format='%an|%s|%(trailers:key=Swarm-Agent,valueonly,separator=%x2C)' {name}"
    ).splitlines()
    assert log == ["swarm|the title|", "agent-1|my second|agent-1", "agent-1|my first|agent-1", "p|first|"]
    assert sh(target, f"git merge-base {name} HEAD") == sh(world.folder, "git rev-parse HEAD")
    assert sh(target, f"git show {name}:d/x {name}:z {name}:untracked") == "4\nz\nnew\n"
    assert sh(target, "git rev-parse HEAD; git status --short") == before
    assert work.into(target).make_branch() == name


def test_contents_that_git_lfs_would_keep_are_named(tmp_path: Path) -> None:
    need_program("git")
    sh(
        tmp_path,
        "git init -q w; cd w; echo '*.bin filter=lfs -text' > .gitattributes; echo p > a.bin; git add -A; git commit -qm lfs",
    )
    work = World(tmp_path, tmp_path / "w").work(
        "echo changed > a.bin; echo new > 'b\nc.bin'; echo t > t; git rm -q .gitattributes; git checkout -q HEAD .gitattributes"
    )
    assert set(work.find_lfs_files()) == {"a.bin", "b\nc.bin"}


def test_a_part_of_a_repository_stays_in_its_place_and_submodules_at_their_commits(tmp_path: Path) -> None:
    need_program("git")
    top = tmp_path / "top"
    folder = top / "packages/app"
    folder.mkdir(parents=True)
    sh(tmp_path, "git init -q other; cd other; echo o > o; git add o; git commit -qm o")
    sh(top, "git init -q -b main; echo r > README; echo a > packages/app/a; git add -A; git commit -qm first")
    for place in (folder, top):
        sh(
            place,
            f"git -c protocol.file.allow=always submodule --quiet add {tmp_path}/other sub; git commit -qm sub; echo d > dirty",
        )
        world = World(tmp_path / f"c-{place.name}", place)
        work = world.work("echo new > new; echo changed > sub/o; git add new; git commit -qm own")
        assert work.changes == {"new": "A", "sub/o": "M"} and sh(world.copy, "git log -1 --format=%s") == "own\n"
        name = work.make_branch(f"of-{place.name}")
        inner = "" if place == top else "packages/app/"
        assert sh(top, f"git diff --name-status --no-renames HEAD {name}").split() == [
            "A",
            f"{inner}dirty",
            "A",
            f"{inner}new",
        ]
        assert sh(top, f"git merge-base HEAD {name}") == sh(top, "git rev-parse HEAD")
        assert work.apply().changed == {"new": "A", "sub/o": "M"} and (place / "sub/o").read_text() == "changed\n"
        sh(top, "git submodule --quiet foreach 'git checkout -q -- .'; git clean -fdq")
