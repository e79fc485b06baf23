"""Generated commands against the real Bash: what is allowed unasked changes nothing and runs nothing else.

Three ways lead to a command that nobody was asked about, and each is tried. A look runs in the product's own read-only sandbox;
without one, as a program without a shell; and a rule may allow it. The last two run in a container of namespaces whose root is
read-only. Each command has a folder there: a project with files that are called like options, hold code where numbers are expected,
and are programs; a home, a temporary folder and a log. The programs that rules name are on its PATH; every other name leads to a
recorder that writes to the log. So whatever a command can be talked into leaves a trace.

`SWARM_FUZZ_SEED` repeats a run; the long form makes a million commands, or `SWARM_FUZZ_COMMANDS`.

Tests of swarm/permissions/calls.py, swarm/permissions/rules.py, swarm/permissions/shell/judge.py, swarm/permissions/shell/looks.py.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from swarm.permissions.judge import JudgedCall, find_plain_look, judge
from swarm.permissions.rules import Rules, parse_rule
from swarm.permissions.sandbox import SandboxPolicy, confine_argv
from swarm.permissions.shell.looks import LOOKS
from tests.needs import need, need_sandbox
from tests.unit.test_permissions_shell_attacks import EVALUATED
from tests.unit.test_permissions_shell_everyday import EVERYDAY

BWRAP = shutil.which("bwrap")
PROGRAMS = (*sorted(LOOKS), "find", "tree", "xxd", "od", "printf", "test", "sleep")
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
        self.project = folder / "project"
        _plant_project(self.project)
        self._runs = 0
        refusal = self._start(folder / "programs", "true").stderr
        need(not refusal, "a container of namespaces", refusal.strip()[:200])

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
            shutil.copytree(self.project, root / "work", symlinks=True)
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


def _take_picture(root: Path, *, without: str = "") -> dict[str, tuple[int, bytes]]:
    """Every file below but the log, and one folder: what kind it is, its rights, and what is in it."""
    picture = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != without]
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


ALLOWED = Rules(
    rules=tuple(
        parse_rule(f"Bash({name}:*)", "allow", "a test")
        for name in (*PROGRAMS, "git log", "git diff", "git status", "git show", "git grep", "git blame", "sed -n")
        if name not in ("date", "rg", "sleep", "uniq", "xxd")
    )
)
"""Rules for programs that look, as people write them; of `uniq` and `xxd` a second word is a file that is written."""
SEED = int(os.environ.get("SWARM_FUZZ_SEED") or random.SystemRandom().randrange(2**32))
LONG = int(os.environ.get("SWARM_FUZZ_COMMANDS") or 1_000_000)


def _generate(seed: int, count: int) -> Iterator[str]:
    author = Author(seed)
    return (author.command() for _ in range(count))


def _call(command: str, workspace: Path, rules: Rules | None = None) -> JudgedCall:
    return JudgedCall("Bash", {"command": command}, rules or Rules(), "default", workspace, sandboxed=False)


def _fuzz(container: Container, seed: int, count: int) -> None:
    """Make commands, and run those that a rule allows, or that are run as they stand where there is no sandbox."""
    chosen: dict[str, None] = {}
    ways = {"rule": 0, "plain": 0}
    made = 0
    for made, command in enumerate(_generate(seed, count), 1):
        if judge(_call(command, container.project, ALLOWED)).action == "allow":
            ways["rule"] += 1
            chosen[command] = None
        if (argv := find_plain_look(_call(command, container.project))) is not None:
            ways["plain"] += 1
            chosen["exec " + shlex.join(argv)] = None
        if len(chosen) >= 400 or made == count:
            found = container.run_together([*chosen])
            assert found == {}, f"SWARM_FUZZ_SEED={seed}"
            chosen.clear()
    print(
        f"seed {seed}: of {made:,} commands {ways['rule']:,} were allowed by a rule, {ways['plain']:,} were plain looks; no effect"
    )
    assert min(ways.values()) > 0


def _look_all(tmp_path: Path, seed: int, count: int) -> None:
    """Have the product's own sandbox for looks run commands, whatever they are, and compare all that is there."""
    backend = need_sandbox()
    project, kept, scratch = (tmp_path / name for name in ("project", "kept", "scratch"))
    for folder in (kept, scratch):
        folder.mkdir()
    (kept / "note").write_text("k")
    _plant_project(project)
    policy = SandboxPolicy(project, scratch, read_only=True, kept=kept, max_processes=2_000)
    # What is mounted leaves the folders that it is mounted on.
    subprocess.run(confine_argv(policy, backend, ["true"]), cwd=project, check=True)
    before = _take_picture(tmp_path, without="scratch")
    commands = [command for command in _generate(seed, count) if "\0" not in command]
    commands += [
        "touch P",
        "rm -rf . /tmp/*",
        "echo x > /tmp/note",
        "chmod 777 a.py",
        "git commit -qam x",
        "ln -s / l",
        "mv src s",
    ]
    (tmp_path / "scratch" / "commands").write_bytes("\0".join(commands).encode("utf-8", "surrogateescape") + b"\0")
    where = "/var/tmp" if backend.name == "bubblewrap" else str(scratch)
    script = (
        f"mapfile -d '' -t commands < {where}/commands\n"
        'for index in "${!commands[@]}"; do [ $((index % 8)) -ne 0 ] || wait\n'
        'timeout -s KILL 2 bash -c "${commands[$index]}" < /dev/null > /dev/null 2>&1 & done; wait'
    )
    subprocess.run(
        confine_argv(policy, backend, ["bash", "-c", script]), cwd=project, timeout=3_000, capture_output=True
    )
    assert _take_picture(tmp_path, without="scratch") == before, f"SWARM_FUZZ_SEED={seed}"


def test_what_is_allowed_unasked_changes_nothing_and_runs_nothing_else(container: Container) -> None:
    _fuzz(container, SEED, 4_000)


def test_a_look_changes_nothing_whatever_the_command_is(tmp_path: Path) -> None:
    _look_all(tmp_path, SEED, 1_000)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_many_commands_that_are_allowed_unasked_change_nothing_and_run_nothing_else(container: Container) -> None:
    _fuzz(container, SEED, LONG)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_many_looks_change_nothing_whatever_the_commands_are(tmp_path: Path) -> None:
    for number in range(LONG // 20_000):
        place = tmp_path / str(number)
        place.mkdir()
        _look_all(place, SEED + number, 20_000)
        shutil.rmtree(place)


def test_everyday_commands_that_are_allowed_change_nothing_and_run_nothing_else(container: Container) -> None:
    plain = [argv for command in EVERYDAY if (argv := find_plain_look(_call(command, container.project))) is not None]
    assert len(plain) > 50
    assert container.run_together([shlex.join(argv) for argv in plain]) == {}


GLOBS = (
    "link",
    "li[n]k",
    "[^b]ink",
    "[[:lower:]]ink",
    "li[n\\]]k",
    "[!a]*",
    "li[^x]k",
    "?ink",
    "l*",
    "{link,x}",
    "[^z]/up/out*",
    "[a-m]ink",
)


def test_no_pattern_for_file_names_leads_out_of_the_workspace_unasked(tmp_path: Path) -> None:
    secret, project = tmp_path / "secret", tmp_path / "project"
    secret.write_text("SECRET")
    (project / "many" / "up").mkdir(parents=True)
    for place in (project, project / "many"):
        (place / "link").symlink_to(secret)
    rules = Rules(rules=(parse_rule(f"Read(/{secret})", "deny", "a test"),))
    author = random.Random(SEED)
    pieces = ("l", "i", "n", "k", "*", "?", "[^b]", "[!b]", "[a-z]", "[[:alpha:]]", "[n\\]]", "many/", "../", "\\", "x")
    made = [*GLOBS, *("".join(author.choices(pieces, k=author.randint(1, 5))) for _ in range(300))]
    for command in (f"{program} {glob}" for glob in made for program in ("cat", "head -3", "grep .", "cat <")):
        if (argv := find_plain_look(_call(command, project))) is not None:
            said = subprocess.run(argv, cwd=project, capture_output=True, stdin=subprocess.DEVNULL)
            assert b"SECRET" not in said.stdout, (command, argv)
        # A rule that denies the file by its name holds for each pattern that Bash expands to it.
        allowed = (
            judge(JudgedCall("Bash", {"command": command}, rules, "bypassPermissions", project, False)).action
            == "allow"
        )
        if allowed:
            said = subprocess.run(["bash", "-c", command], cwd=project, capture_output=True, stdin=subprocess.DEVNULL)
            assert b"SECRET" not in said.stdout, f"{command!r}, SWARM_FUZZ_SEED={SEED}"


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
