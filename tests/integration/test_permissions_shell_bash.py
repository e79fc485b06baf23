"""The analysis of shell commands against the real Bash: it runs nothing that the analysis has not seen.

Scripts are made of three functions that note down how they were called, of every kind of quoting, redirection and
nesting, and then damaged at random. There are no loops and no background jobs in them, so each ends.

Tests of swarm/permissions/shell/parse.py, swarm/permissions/shell/views.py, swarm/permissions/shell/words.py.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from swarm.permissions.shell.parse import ShellCommand, parse_command
from swarm.permissions.shell.views import view_command
from swarm.permissions.shell.words import UNKNOWN, literal

BASH = shutil.which("bash") or "/bin/bash"
PRELUDE = r"""
_note() { local name=$1 line=; shift; [ $# -eq 0 ] || printf -v line '\001%s' "$@"; printf '%s%s\002' "$name" "$line" >&9; }
ca() { _note ca "$@"; return $((RANDOM % 2)); }
cb() { _note cb "$@"; return $((RANDOM % 2)); }
cc() { _note cc "$@"; }
readonly -f _note ca cb cc
PATH=/nonexistent; V=val; HOME='~'
eval "$1"
"""
NAMES = (
    *("ca", "cb", "cc", r"c\a", "'ca'", 'c"b"', "c''c", "$'ca'", "eval cb", "command ca", "time cb", "! cc", "$V"),
    *("builtin eval cc", "exec 2>&1; ca"),
)
WORDS = (
    *(
        "x",
        "'q r'",
        '"d s"',
        r"\m",
        "$V",
        '"$V"',
        "$(S)",
        "`S`",
        "${V:-S}",
        r"a\ b",
        "e''",
        "''",
        "=",
        "==",
        "!",
        "{",
        "}",
    ),
    *(
        "~",
        "{a,b}",
        "a=1",
        r"$'t\''",
        '"a$(S)b"',
        '"`S`"',
        "<(S)",
        "$((1+2))",
        "#x",
        "x#y",
        "-",
        "if",
        "do",
        "fi",
        "in",
    ),
    *("'a'\"b\"", r"'a'\b", "x\\\ny", "\\\n", "[", "]", r'"a\"b"', "$", "%", "+(a)", "2", "'a'$\"b\""),
)
REDIRECTS = (
    *(
        "> f",
        ">> f",
        "2>&1",
        "</dev/null",
        "> 'f'",
        ">&2",
        "2>f",
        "<<<x",
        '<<< "y"',
        "&>f",
        ">|f",
        "> /dev/null",
        r">f\g",
    ),
    *("> f x", "<<< x y"),
)
JOINTS = (" && ", "||", ";", " | ", "\n", " |& ", "&&\n", "; # c ca\n", " \\\n", "\n\\\n ", "\t\n")
DAMAGE = (
    *(
        ";",
        "|",
        "'",
        '"',
        "\\",
        "\n",
        "(",
        ")",
        "{",
        "}",
        "`",
        "$(",
        "<",
        ">",
        "#",
        " ",
        "ca",
        "cb",
        "<<EOF\n",
        "\nEOF\n",
    ),
    *("$", "=", "!", "$'", "\\\n", "[[", "]]", "esac", "fi"),
)


class Author:
    """Writes scripts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def simple(self, depth: int) -> str:
        parts = [self.random.choice(("A=1", "A='q'", "A=$V", "A+=2", "A=", "A=(1 2)", r"A='a'\b"))][
            : self.random.random() < 0.2
        ]
        parts.append(self.random.choice(NAMES))
        for _ in range(self.random.randint(0, 3)):
            word = self.random.choice(WORDS)
            parts.append(word.replace("S", self.script(depth + 2)) if "S" in word else word)
            if self.random.random() < 0.15:
                parts.append(self.random.choice(REDIRECTS))
        return self.random.choice((" ", "  ", "\t")).join(parts)

    def script(self, depth: int = 0) -> str:
        choice = self.random.randint(0, 12)
        if depth > 3 or choice < 5:
            return self.simple(depth)
        if choice < 8:
            return self.script(depth + 1) + self.random.choice(JOINTS) + self.script(depth + 1)
        one, other = self.script(depth + 1), self.script(depth + 1)
        document = self.random.choice(("", "x", "| cb", ">f", "; ca", "&& cc"))
        return (
            f"({one})",
            f"{{ {one}; }}",
            f"if {one}; then {other}; fi",
            f"case x in x) {one};; *) {other};; esac",
            f"cat <<EOF {document}\n$(cb h)\n`cc i`\nEOF\n{one}",
        )[choice - 8]

    def damaged_script(self) -> str:
        text = self.script()
        for _ in range(self.random.choice((0, 0, 1, 2))):
            place = self.random.randint(0, len(text))
            text = text[:place] + self.random.choice(DAMAGE) + text[place + self.random.randint(0, 1) :]
        return text


def calls_in_bash(script: str, folder: str) -> list[list[str]]:
    """How the three functions were called by a script."""
    # A file for each script: a process substitution may still be writing when the next one starts.
    handle, notes = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "wb") as file:
        arguments = [BASH, "-c", f"exec 9>&{file.fileno()}\n{PRELUDE}", "_", script]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            arguments, cwd=folder, pass_fds=(file.fileno(),), stdin=quiet, stdout=quiet, stderr=quiet
        )
        try:
            process.wait(20)
        finally:
            process.kill()
            process.wait()
    records = Path(notes).read_text(errors="replace").split("\2")[:-1]
    return [record.split("\1") for record in records]


def was_seen(called: list[str], command: ShellCommand) -> bool:
    for part in command.parts:
        views = view_command(part)
        if views.opaque or any(_fits(called, words) for words in views.commands):
            return True
    return False


def _fits(called: list[str], words: tuple[str, ...]) -> bool:
    """Whether unknown words can be such that these words make that call; file patterns fit anything."""
    if any(literal(word) != word for word in words):
        return True
    anything = r"(?:.|\n)*"
    pattern = "".join(
        rf"(?:\x01{anything})?" if word == UNKNOWN else "\x01" + re.escape(word).replace(UNKNOWN, anything)
        for word in words
    )
    return re.fullmatch(pattern, "\x01" + "\x01".join(called)) is not None


@pytest.mark.parametrize("seed", range(3))
def test_bash_runs_nothing_that_the_analysis_has_not_seen(seed: int) -> None:
    author, run, ran = Author(seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while run < 80:
            script = author.damaged_script()
            command = parse_command(script)
            if command.doubt or re.search(r"while|until|for|&\s*[^&>|\d]", script.replace("&&", "")):
                continue
            run += 1
            for called in calls_in_bash(script, os.path.realpath(folder)):
                ran += 1
                assert was_seen(called, command), (script, called, [part.words for part in command.parts])
    assert ran > 40, "most scripts call something"


@pytest.mark.parametrize(
    "script",
    [
        *(
            "'a'\\b",
            "ca 'q'\\m",
            "ca \\ b",
            "> f ca x",
            "ca > f x",
            "A=\\\n\tca",
            "A=$\tca",
            "cat <<EOF\n$\nEOF\nca\nEOF",
            "ca <<< a b",
            "A='a'\\b ca",
            "ca\n\\\n cb",
            "c\\\na x",
        ),
        *("ca \\\n x", "cat <<EOF\n`ca h`\nEOF", "cat <<EO <<EOF\nx\nEO\n$(ca h)\nEOF", "ca 'a'$\"b\"", "ca == 2>&1"),
        *(
            "ca a\\ \\\nb",
            "! ! ca x",
            "ca {a,b}",
            "ca <(cb x)",
            "case x in x) ca y;; esac",
            "ca `eval 'cb x'`",
            "eval c''a x",
        ),
    ],
)
def test_places_where_grammars_and_bash_are_known_to_disagree(script: str, tmp_path: Path) -> None:
    command = parse_command(script)
    called = calls_in_bash(script, str(tmp_path))
    assert command.doubt or all(was_seen(call, command) for call in called)


# -- words --------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *(
            "a",
            "rm",
            "-x",
            "/",
            "=",
            ".",
            "~",
            "'q r'",
            '"d s"',
            r"\m",
            r"\ ",
            "''",
            '""',
            "$'x\\ty'",
            r"$'\x41'",
            r'"\$a"',
        ),
        *(r'"\\"', "{", "}", "#", "%", "@", ":", ",", "'\\'", "é", r"\'", "\\\\", "'\n'", '"a\nb"', "0", "^", "+", "!"),
    ]
)


@given(st.lists(st.lists(PIECES, min_size=1, max_size=4).map("".join), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
@example(["a#b", "'#'"])
@example(["{a,b}"])
def test_words_are_what_bash_makes_of_them(words: list[str]) -> None:
    text = " ".join(words)
    parsed = parse_command(f"printf_ {text}")
    assume(not parsed.doubt and len(parsed.parts) == 1)
    assume(not any(UNKNOWN in word for word in parsed.parts[0].words))
    script = f'printf_() {{ for word; do printf "%s\\0" "$word"; done; }}; HOME="~"; printf_ {text}'
    done = subprocess.run(
        [BASH, "-c", script], capture_output=True, cwd="/var/empty" if Path("/var/empty").exists() else "/"
    )
    assert done.returncode == 0, (text, done.stderr)
    assert [literal(word) for word in parsed.parts[0].words[1:]] == done.stdout.decode().split("\0")[:-1]
