"""Commands that are taken for ones that only look, carried out by the real Bash: nothing may change, and nothing else may run.

They run in a container of namespaces whose root is read-only. Each has a folder of its own to write to: a project with files
that are called like options, hold code where numbers are expected, and are programs; a home, a temporary folder and a log.
What is on the list of programs that look is on its PATH; every other name there leads to a recorder that writes to the log.
So whatever a command of these tests can be talked into leaves a trace, for all that they hold either writes a file, or is
called by a name that PATH resolves, or is the recorder itself.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from swarm.permissions.shell.options import PROGRAMS
from swarm.permissions.shell.rules import is_read_only_command
from tests.needs import need
from tests.unit.test_permissions_shell_attacks import EVALUATED
from tests.unit.test_permissions_shell_everyday import EVERYDAY

BWRAP = shutil.which("bwrap")
RECORDER = '#!/bin/bash -p\necho "$0 $*" >> "$SWARM_LOG"\n'
LISTED = frozenset((*PROGRAMS, "find", "sed", "git", "xargs", "ps", "awk", "mawk", "gawk", "bash", "env", "gzip")) | {
    *("time", "timeout", "nice", "nohup", "stdbuf"),
    *("python3", "python", "node", "npm", "gcc", "tar", "curl", "perl", "ruff", "mypy"),
}
"""What may run: the list, what it is made of, what may stand in front of it, and what says its version."""
DRIVER = """
mapfile -d '' -t commands < /w/commands
for index in "${!commands[@]}"; do
  [ $((index % 8)) -ne 0 ] || wait
  place=/w/$((index % places))
  cd "$place/work"
  SWARM_LOG=$place/log HOME=$place/home TMPDIR=$place/tmp /usr/bin/timeout -s KILL 2 /bin/bash -c "${commands[$index]}" \
    < /dev/null > /dev/null 2>&1 &
done
wait
"""


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Container:
    return Container(tmp_path_factory.mktemp("container"))


class Container:
    """Runs commands, and tells what each of them did beside looking."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = folder / "programs"
        self._programs.mkdir()
        recorder = folder / "recorder"
        recorder.write_text(RECORDER)
        recorder.chmod(0o755)
        for program in Path("/usr/bin").iterdir():
            listed = program.name in LISTED
            (self._programs / program.name).symlink_to(program if listed else "/recorder")
        for name in ("touch", "rm", "make", "curl", "tee", "evil"):
            (self._programs / name).unlink(missing_ok=True)
            (self._programs / name).symlink_to("/recorder")
        self._project = folder / "project"
        _plant_project(self._project)
        self._runs = 0
        refusal = self._start(folder / "programs", "true").stderr
        need(not refusal, f"no container of namespaces can be had: {refusal.strip()[:200]}")

    def run(self, commands: Sequence[str]) -> dict[str, list[str]]:
        """What the commands did, by command: files that changed, programs that ran."""
        effects = self._run_in(commands, len(commands))
        return {command: effect for command, effect in zip(commands, effects, strict=True) if effect}

    def run_together(self, commands: Sequence[str]) -> dict[str, list[str]]:
        """The same in one folder, which is faster; each alone only if something came of it."""
        together = self._run_in(commands, 1)[0]
        return {**self.run(commands), "together": together} if together else {}

    def _run_in(self, commands: Sequence[str], places: int) -> list[list[str]]:
        self._runs += 1
        world = self._folder / f"run-{self._runs}"
        roots = [world / str(place) for place in range(places)]
        for root in roots:
            for name in ("home", "tmp"):
                (root / name).mkdir(parents=True)
            shutil.copytree(self._project, root / "work", symlinks=True)
            (root / "log").write_text("")
        (world / "commands").write_bytes("\0".join(commands).encode() + b"\0")
        before = [_take_picture(root) for root in roots]
        self._start(world, f"places={places}\n{DRIVER}")
        effects = []
        for root, old in zip(roots, before, strict=True):
            new = _take_picture(root)
            changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            effects.append([*changed, *(root / "log").read_text(errors="replace").splitlines()])
        shutil.rmtree(world)
        return effects

    def _start(self, world: Path, script: str) -> subprocess.CompletedProcess[str]:
        shared = [
            part
            for name in ("/bin", "/lib", "/lib64", "/sbin")
            for part in (
                ("--symlink", os.readlink(name), name) if os.path.islink(name) else ("--ro-bind-try", name, name)
            )
        ]
        arguments = [
            *(
                BWRAP or "bwrap",
                "--unshare-all",
                "--die-with-parent",
                "--new-session",
                "--ro-bind",
                "/usr",
                "/usr",
                *shared,
            ),
            *(
                "--ro-bind",
                "/etc",
                "/etc",
                "--proc",
                "/proc",
                "--dev",
                "/dev",
                "--ro-bind",
                str(self._programs),
                "/programs",
            ),
            *(
                "--ro-bind",
                str(self._folder / "recorder"),
                "/recorder",
                "--bind",
                str(world),
                "/w",
                "--remount-ro",
                "/",
            ),
            *(
                "--clearenv",
                "--setenv",
                "PATH",
                "/programs",
                "--setenv",
                "GIT_OPTIONAL_LOCKS",
                "0",
                "--",
                "/bin/bash",
                "-c",
                script,
            ),
        ]
        try:
            return subprocess.run(arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100)
        except FileNotFoundError as error:
            return subprocess.CompletedProcess(arguments, 1, "", str(error))


def _plant_project(root: Path) -> None:
    """A project that does what it can to have code of its own run."""
    for folder in ("src", "sub", "bin", "1", "10", "bare/objects", "bare/refs"):
        (root / folder).mkdir(parents=True)
    texts = {
        **{
            "a.py": "import os\n",
            "b.py": "x = 1\n",
            "keep": "k\n",
            "src/c.py": "def main(): ...\n",
            "x": "x\n",
            "y": "2\n1\n",
        },
        **{
            "f": "a[$(evil f)]\n",
            "g": "-v a[$(evil${IFS}g)]\n",
            "h": "-v a[$(evil${IFS}h)] y\n",
            "list": "/etc/hostname\n",
        },
        **{
            "b[$(evil name)]": "",
            "-exec": "",
            "-delete": "",
            "--output=P": "",
            "-oP": "",
            "--pre=evil": "",
            "-v": "",
            "--set=x": "",
        },
        **{"evil.sh": RECORDER, "bin/ls": RECORDER, "1/ls": RECORDER, "10/ls": RECORDER, "bin/cat": RECORDER},
        **{
            ".yarnrc": 'yarn-path "./evil.sh"\n',
            "rust-toolchain.toml": '[toolchain]\npath = "bin"\n',
            "conftest.py": "open('P','w')\n",
        },
        **{"bare/HEAD": "ref: refs/heads/main\n", "Makefile": "x:\n\tevil make\n"},
        "bare/config": "[core]\n\trepositoryformatversion = 0\n\tworktree = ..\n\tfsmonitor = /w/evil-is-not-there || evil bare\n",
    }
    for name, text in texts.items():
        path = root / name
        path.write_text(text)
        if text == RECORDER:
            path.chmod(0o755)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.templateDir=")
    for step in (("init", "-q"), ("add", "a.py", "b.py", "src"), ("commit", "-qm", "first")):
        subprocess.run(["git", *identity, *step], cwd=root, check=True, capture_output=True)
    (root / "a.py").write_text("import sys\n")


def _take_picture(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below but the log: what kind it is, its rights, and what is in it."""
    picture = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            # Git keeps there what it has last seen of the files.
            if path != root / "log" and not path.match("work/.git/index"):
                status = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                picture[str(path.relative_to(root))] = (status.st_mode, content)
    return picture


class Author:
    """Writes commands: mostly harmless words, with something that would run or write where it could slip through."""

    PAYLOADS = ("touch P", ">P", "rm keep", "./evil.sh", "evil p", "curl y", "bash evil.sh", "echo q >> keep")
    HARMLESS = (
        "x",
        "a.py",
        "src",
        ".",
        "*.py",
        "*",
        "?",
        "b*",
        "src/*.py",
        "'a b'",
        "1",
        "HEAD",
        "-",
        "--",
        "-n",
        "-l",
        "-r",
        "-1",
    )
    TRICKY = (
        *(
            "-oP",
            "--output=P",
            "--outp=P",
            "-delete",
            "-exec",
            "evil",
            ";",
            r"\;",
            "{}",
            "-o",
            "P",
            "-fprint",
            "--pre=evil",
            "-x",
            "-X",
        ),
        *(
            "--ext-diff",
            "-Oevil",
            "--compress-program=evil",
            "--files0-from=list",
            "-f",
            "list",
            "-s",
            "-C",
            "-R",
            "-[o]P",
            "-exe[c]",
        ),
        *(
            "-delet[e]",
            "--outpu[t]=P",
            "{-oP,y}",
            "$x",
            '"$x"',
            "a$x",
            '"a$x"',
            "-$x",
            "${x}",
            "{x,y}",
            "-e",
            "1e",
            "s/x/evil/e",
            "'1w P'",
        ),
        *(
            "-S",
            "-k",
            "-name",
            "-T",
            "--to-command=evil",
            "-v",
            "-p",
            "--show-signature",
            "--format=%GK",
            "-c",
            "01010101",
            "+P",
            "-w",
        ),
    )
    OPERATORS = (":-", "-", ":=", "=", ":+", ":?", "#", "##", "%", "%%", "/", "//", "^", "^^", ",", ":", "@", ": ", "[")

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._programs = (*sorted(PROGRAMS), "find", "sed", "git", "git", "git", "xargs", "awk", "ps")

    def pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def code(self) -> str:
        payload = self.pick(*self.PAYLOADS)
        return self.pick(
            f"$({payload})",
            f"`{payload}`",
            f"a[$({payload})]",
            f"a[`{payload}`]",
            f"$[a[$({payload})]]",
            "-v",
            "--output=P",
        )

    def operand(self) -> str:
        name = self.pick("x", "y", "b", "a", "i", "@", "*", "1", "#", "PATH", "RANDOM")
        inner = self.pick(
            "x",
            "i",
            "0",
            "1",
            "$x",
            "y",
            "'q'",
            self.code(),
            f"'{self.code()}'",
            f"\\{self.code()}",
            '"$x"',
            "${x}",
            "*",
        )
        return self.pick(
            *(
                f"${{{name}{self.pick(*self.OPERATORS)}{inner}}}",
                f'"${{{name}{self.pick(*self.OPERATORS)}{inner}}}"',
                f"${{#{name}}}",
            ),
            *(
                f"${{{name}[{inner}]}}",
                f"$(({inner}))",
                f"$[{inner}]",
                f"$(({name}+{inner}))",
                f"${{!{name}}}",
                f"'{self.code()}'",
            ),
            *(f"${{{name}:{inner}:{inner}}}", f"$({self.simple()})", f"<({self.simple()})", f"$'{inner}'", f"${name}"),
        )

    def word(self) -> str:
        chance = self._random.random()
        return (
            self.pick(*self.HARMLESS) if chance < 0.5 else self.pick(*self.TRICKY) if chance < 0.75 else self.operand()
        )

    def words(self, most: int) -> str:
        return " ".join(self.word() for _ in range(self._random.randint(0, most)))

    def simple(self) -> str:
        program = self.pick(*self._programs)
        if program == "git":
            program += " " + self.pick("log", "diff", "status", "show", "grep", "branch", "tag", "config", "blame")
        elif program == "xargs":
            program += f" {self.pick('cat', 'sort', 'find', 'git log', 'grep', 'evil', 'sed -n p', '-0 ls')}"
        elif program == "find":
            program += (
                f" {self.pick('.', 'src', '*', '$x', '')} {self.pick('-name', '-type f', '-print', '', '-maxdepth 1')}"
            )
        elif program == "sed":
            program += f" {self.pick('-n', '-e', '')} {self.pick('1p', 's/a/b/', '1e', '/x/e', 's/x/evil/e', '$x', 's/i/q/;1e')}"
        wrapper = self.pick(
            "",
            "",
            "",
            "",
            "",
            "time ",
            "command ",
            "nice ",
            "timeout 5 ",
            "builtin ",
            "LC_ALL=C ",
            "x=q ",
            "PATH=bin ",
            "! ",
        )
        redirect = self.pick(
            "",
            "",
            "",
            "",
            " 2>/dev/null",
            " < f",
            " <<< x",
            " {PATH}</dev/null",
            " {x[$(evil r)]}</dev/null",
            " 2>&1",
            " >P",
        )
        return f"{wrapper}{program} {self.words(3)}{redirect}"

    def setting(self) -> str:
        name = self.pick("x", "x", "x", "y", "i", "b", "PATH", "RANDOM", "a", "GIT_PAGER")
        value = self.pick(
            "q",
            "0",
            "$(cat f)",
            "$(cat g)",
            f"'{self.code()}'",
            "' -oP'",
            "-delete",
            "--output=P",
            "bin",
            "$(wc -l < f)",
            "$((1+1))",
        )
        listed = self.pick("b*", "*", "1 2", "$(cat f)", "{1..2}", f"'{self.code()}'", "./bin", "$(cat h)")
        return self.pick(
            *(
                f"{name}={value}; ",
                f"{name}={value}; ",
                f"read {name} < f; ",
                f"read -r {name} < g; ",
                f"((PATH={self.pick('1', 'x', '10')})); ",
            ),
            *(
                f"for {name} in {listed}; do BODY; done",
                f"for (({name}=1;{name}<2;{name}++)); do BODY; done",
                f"{name}=({value} [x]=1); ",
            ),
            *(
                f"while read -r {name}; do BODY; done < f",
                f": ${{{name}:={value}}}; ",
                f"{name}+=({value}); ",
                f"{name}[{self.pick('x', '0')}]={value}; ",
            ),
        )

    def test(self) -> str:
        left, right = self.operand(), self.pick("1", "x", self.operand())
        operator = self.pick("-eq", "=", "-lt", "==", "-nt", "=~", "-v", "-o")
        return self.pick(
            *(
                f"[ {left} {operator} {right} ]",
                f"[[ {left} {operator} {right} ]]",
                f"[ -v {left} ]",
                f"[[ -v {right} ]]",
                f"test {left}",
            ),
            *(
                f"test {left} {operator} {right}",
                f"[ {left} ]",
                f"[ -f {left} ]",
                f"(({left}))",
                f"printf {left}",
                "[ $x ]",
                "[ $i -lt 2 ]",
                "test $x",
            ),
        )

    def command(self) -> str:
        body = self.pick(
            self.simple(),
            self.test(),
            f"echo {self.operand()}",
            "ls",
            "cd bare; git status",
            "cd bare && " + self.simple(),
        )
        start = "".join(self.setting() for _ in range(self._random.randint(0, 2)))
        if "BODY" in start:
            text = start.replace("BODY", body)
        else:
            text = start + body
        text += self.pick("", "", "", "; ls", " && ls", " | cat", f" | {self.simple()}", f"; {self.test()}")
        if self._random.random() < 0.2:
            place = self._random.randint(0, len(text))
            text = (
                text[:place]
                + self.pick("'", '"', "\\", "$", "{", "}", "`", " ", ";", "[", "]", "(", "\n")
                + text[place:]
            )
        return text


def _read_only_commands(seed: int) -> Iterator[str]:
    """Commands that are taken for ones that look."""
    author = Author(seed)
    while True:
        command = author.command()
        if is_read_only_command(command):
            yield command


def _fuzz(container: Container, seed: int, count: int) -> None:
    commands = [command for command, _ in zip(_read_only_commands(seed), range(count), strict=False)]
    assert container.run_together(list(dict.fromkeys(commands))) == {}


SETTINGS = settings(
    deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=[*HealthCheck], derandomize=False
)


@given(seed=st.integers(0, 2**32))
@settings(SETTINGS, max_examples=3)
def test_a_command_that_only_looks_changes_nothing_and_runs_nothing_else(container: Container, seed: int) -> None:
    _fuzz(container, seed, 60)


@pytest.mark.long
@pytest.mark.timeout(3600)
@given(seed=st.integers(0, 2**32))
@settings(SETTINGS, max_examples=200)
def test_many_commands_that_only_look_change_nothing_and_run_nothing_else(container: Container, seed: int) -> None:
    _fuzz(container, seed, 100)


def test_everyday_commands_that_are_allowed_change_nothing_and_run_nothing_else(container: Container) -> None:
    assert container.run_together([command for command in EVERYDAY if is_read_only_command(command)]) == {}


def test_holes_that_there_once_were_are_found_by_running_the_commands(container: Container) -> None:
    planted = [
        *(
            "b=q; x='a[$(touch P)]'; echo ${b:x}",
            "x='a[$(evil)]'; test -v \"$x\"",
            "for f in *name*; do echo $((f)); done",
        ),
        *(
            "x=q; echo ${x#$(touch P)}",
            "x=$(cat g); [ $x ]",
            "printf $(cat h)",
            "for PATH in ./bin; do ls; done",
            "((PATH=1)); ls",
        ),
        *(
            r"find . -maxdepth 0 -exe[c] evil P \;",
            "git log --outpu[t]=P",
            "sort -oP x",
            "x=' -oP'; sort a.py$x",
            "sed '1e evil' x",
        ),
        *(
            "true {PATH}</dev/null; ls",
            "echo $(( $(cat f) ))",
            "ls > P",
            "/usr/bin/touch P",
        ),
    ]
    found = container.run(planted)
    assert [command for command in planted if command not in found] == []
    # Some of the others need another setting to show. That most do is what makes the silence above mean something.
    assert len(container.run(EVALUATED)) > len(EVALUATED) / 2
    assert container.run_together(["ls", "touch P"])
