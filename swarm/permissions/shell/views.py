"""Lists every command that a simple command may run, for deny and ask rules.

`sudo timeout 5 /bin/rm x` is also `timeout 5 /bin/rm x`, `rm x` and more. Every tail of a wrapper's words counts, so its options need
not be known. An extra tail makes a rule that forbids match too often, never too rarely. Code in `sh -c`, `eval` and similar is parsed
in turn.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from swarm.permissions.shell.carriers import FINDERS, Words, find_carried_code
from swarm.permissions.shell.parse import SimpleCommand, parse_command
from swarm.permissions.shell.variables import CODE_VARIABLES
from swarm.permissions.shell.words import UNKNOWN, literal

_SHELLS = re.compile(r"(ba|da|z|k|a|fi|rba)?sh")
_CARRIERS = re.compile(
    r"eval|trap|env|watch|script|su|runuser|flock|parallel|sg|ssh|entr|hyperfine|tmux|screen|dtach|abduco|expect"
)
"""Wrappers whose words can contain shell code."""
_COPIERS = re.compile(r"rsync|scp|sftp")
"""Programs that run another one only with an option."""
_RUNNERS = re.compile(r"uv|poetry|pipenv|pdm|hatch|rye|npx|bunx|bundle|direnv|mise|gdb")
"""Wrappers that people allow by name, for the project's own programs."""
_WRAPPERS = re.compile(
    rf"{_CARRIERS.pattern}|!|g?timeout|nice|nohup|sudo|doas|xargs|command|builtin|exec|g?time|stdbuf|setsid|ionice|chrt|taskset"
    r"|noglob|nocorrect|busybox|toybox|unbuffer|chroot|unshare|nsenter|strace|ltrace|systemd-run|fakeroot|setarch|prlimit"
    r"|firejail|bwrap|rlwrap|coproc|catchsegv|choom|numactl|cgexec|setpriv|caffeinate|capsh|jobs|proot|start-stop-daemon|daemonize"
    r"|linux(32|64)|i386|x86_64|uname26|ssh-agent|dpkg-architecture|dbus-run-session|xvfb-run|torsocks|proxychains|pkexec|at|batch|chronic|parallel-ssh|pssh|sem|chpst|setuidgid|softlimit"
    r"|ld(-linux|-musl|\.so|-\d|64\.so)[\w.-]*"
)
"""Programs that only run the program in their words."""
_GIT_VALUES = re.compile(r"-[Cc]|--(git-dir|work-tree|namespace|config-env|super-prefix|attr-source)")
_SPLIT_OPTION = re.compile(r"-[a-zA-Z]*S|--sp[a-z-]*=?")
"""Option with which `env` reads one word as a whole command."""
_SHELL_TAKES = re.compile(r"-[A-Za-z]*s|[-+][A-Za-z]*[oO]$|--(rcfile|init-file)")
"""Options of a shell after which the first operand is not a script."""
_NO_PROGRAM = re.compile(r"-.*|\d.*|.*=.*|-?\{\}.*", re.DOTALL)
"""A wrapper's word that is not the program to run."""
_EVALUATES = {
    r"let|compgen|complete|bind|alias|shopt|mapfile|readarray|getopts": "",
    r"declare|typeset|local|readonly|export|unset|read": r"-\w*[nip]|[^=]*[\[\ue000\ue005]|(?s:.)*[`$]",
    r"printf": r"-v|[\ue000]",
    r"wait": r"-\w*p|.*[\[\ue000]",
    r"source|\.": r"[\ue000]|/(dev|proc)/",
}
"""Builtins → words that the shell may read as code."""
_EVALUATORS = re.compile("|".join((*_EVALUATES, "test", r"\[")))
_TESTS = re.compile(r"==?|!=|[<>]|-(eq|ne|lt|le|gt|ge|nt|ot|ef|a|o)|\]")
_SETTERS = re.compile(r"env|export|declare|typeset|local|readonly|read")
_CODE = re.compile(r"[\s;|&$`()]")
_MAX_TAILS = 64
_MAX_VIEWS = 2_000
_MAX_DEPTH = 5


@dataclass
class Views:
    """The commands that a simple command may run, itself included, and why the list may be incomplete."""

    commands: dict[Words, None] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    """Files of output redirections in carried code."""
    reads: list[str] = field(default_factory=list)
    opaque: str | None = None

    def give_up(self, reason: str) -> None:
        self.opaque = self.opaque or reason

    def add(self, words: Words, depth: int) -> None:
        """Add a command, and all commands that it may run."""
        if not words or words in self.commands:
            return
        if len(self.commands) >= _MAX_VIEWS or depth > _MAX_DEPTH:
            self.give_up("its commands are nested too deeply")
            return
        self.commands[words] = None
        first = literal(words[0])
        if UNKNOWN in first:
            self.give_up("which program it runs is known only when it runs")
            self._add_tails(words, depth)
            return
        if first != words[0]:
            self.give_up("the name of its program is a pattern for file names")
        # A blank or an empty string before the name is no accident.
        name = first.rstrip("/").rpartition("/")[2]
        if name != words[0]:
            self.add((name, *words[1:]), depth)
        else:
            self._judge_words(name, words)
            self._add_inner(name, words, depth)

    def _judge_words(self, name: str, words: Words) -> None:
        """Give up on a program that may read its words as code."""
        for names, evaluated in _EVALUATES.items():
            if re.fullmatch(names, name) and any(re.match(evaluated, word) for word in words[1:] or ("",)):
                self.give_up(f"{name} may read one of its words as code")
        if name in ("test", "[") and _may_name(words):
            self.give_up("its test may evaluate a word")
        if _SETTERS.fullmatch(name):
            for word in words[1:]:
                self.see_assigned(word.partition("=")[0] if "=" in word or name != "env" else "")
        if (reason := find_carried_code(name, words)) is not None:
            self.give_up(reason)

    def see_assigned(self, name: str) -> None:
        """Check a variable that the command sets."""
        if CODE_VARIABLES.fullmatch(name) or UNKNOWN in name:
            self.give_up(f"the variable {literal(name)} may make it run something else")

    def _add_inner(self, name: str, words: Words, depth: int) -> None:
        """Add the commands behind a wrapper and in its words."""
        if _SHELLS.fullmatch(name):
            self._look_into_shell(words, depth)
        elif name == "git":
            self._look_into_git(words, depth)
        elif name == "eval":
            self._read(" ".join(words[1 + (words[1:2] == ("--",)) :]), depth)
        elif name == "-" or any(kind.fullmatch(name) for kind in (_WRAPPERS, _RUNNERS, _COPIERS)):
            self._add_tails(words, depth, (UNKNOWN,) if name in ("xargs", "parallel") else ())
        copies = _COPIERS.fullmatch(name) is not None
        if copies or (_CARRIERS.fullmatch(name) and name != "eval"):
            self._look_into_carrier(name, words, depth, copies=copies)
        if name in FINDERS:
            self._look_into_finder(name, words, depth)

    def _look_into_carrier(self, name: str, words: Words, depth: int, *, copies: bool) -> None:
        splits = any(map(_SPLIT_OPTION.match, words[1:]))
        if splits and name == "env":
            self.give_up("it splits a word into several")
        of_code = name != "env" or splits
        for word in words[1:]:
            if _CODE.search(word) or (UNKNOWN in word and of_code):
                self._read(_SPLIT_OPTION.sub("", word), depth, certain=of_code and not copies)
                self._read(word.partition("=")[2], depth, certain=False)
                self._read(re.sub(r"^-\w*?c", "", word), depth, certain=False)

    def _look_into_finder(self, name: str, words: Words, depth: int) -> None:
        for place, word in enumerate(words):
            if word in FINDERS[name]:
                end = next((at for at in range(place, len(words)) if words[at] in (";", "+")), len(words))
                carried = tuple(UNKNOWN if "{}" in each else each for each in words[place + 1 : end])
                self.add(carried, depth + 1)
                for each in carried:
                    self._read(each if _CODE.search(each) else "", depth, certain=False)
            elif name == "git" and re.match("-x.", word):
                self._read(word[2:], depth)
            elif "=" in word and word.partition("=")[0] in FINDERS[name]:
                self._read(word.partition("=")[2], depth)

    def _add_tails(self, words: Words, depth: int, appended: Words = ()) -> None:
        if len(words) > _MAX_TAILS:
            self.give_up("a wrapper has too many words")
        named = False
        for start in range(1, min(len(words), _MAX_TAILS)):
            # After the wrapped program, an unknown word is an argument.
            if not (named and UNKNOWN in words[start]):
                self.add((*words[start:], *appended), depth)
            named = named or not (_NO_PROGRAM.fullmatch(words[start]) or words[start - 1].startswith("-"))

    def _look_into_shell(self, words: Words, depth: int) -> None:
        options = [word for word in words[1:] if word.startswith(("-", "+"))]
        operands = [word for word in words[1:] if not word.startswith(("-", "+"))]
        if any(re.match(r"[-+][A-Za-z]*c|--command", option) for option in options):
            for operand in operands:
                self._read(operand, depth)
        elif not operands or any(map(_SHELL_TAKES.match, options)) or re.match(r"[\ue000]|/(dev|proc)/", operands[0]):
            self.give_up("a shell reads commands that are known only when it runs")
        if any(UNKNOWN in option for option in options):
            self.give_up("a shell's options are known only when it runs")

    def _look_into_git(self, words: Words, depth: int) -> None:
        index = 1
        while index < len(words) and words[index].startswith("-"):
            setting = "".join(words[index + 1 : index + 2])
            self._read(setting.partition("!")[2] if words[index] == "-c" else "", depth)
            index += 2 if _GIT_VALUES.fullmatch(words[index]) else 1
        if 1 < index < len(words):
            self.add(("git", *words[index:]), depth)

    def _read(self, code: str, depth: int, *, certain: bool = True) -> None:
        """Parse carried code; `certain` if it is code for sure, so that a doubt counts."""
        if UNKNOWN in code and certain:
            self.give_up("it runs code that is known only when it runs")
        command = parse_command(literal(code.replace(UNKNOWN, "$UNKNOWN")))
        if certain and command.doubt:
            self.give_up(f"the code that it carries: {command.doubt}")
        self.writes += command.writes
        self.reads += command.reads
        for part in command.parts:
            self.add(part.words, depth + 1)


@functools.lru_cache(maxsize=1024)
def view_command(part: SimpleCommand) -> Views:
    """Return all commands that this simple command may run; callers must not change the result."""
    views = Views()
    views.add(part.words, 0)
    for name in part.assigned:
        views.see_assigned(name)
    tests = any(words[0] in ("test", "[") for words in views.commands)
    if tests and any(UNKNOWN in part.words[place] for place in part.splitting):
        views.give_up("its test has words that are known only when it runs")
    return views


def is_plain(part: SimpleCommand) -> bool:
    """Report whether the shell reads none of the words as code."""
    return not _EVALUATORS.fullmatch(strip_transparent(part.words)[0]) or view_command(part).opaque is None


def _may_name(words: Words) -> bool:
    """Report whether `test` may read a word as the name of a variable, which it evaluates."""
    naming = not {"-v", "-R"}.isdisjoint(words)
    pairs = zip(words[1:], words[2:], strict=False)
    return naming or any(one.startswith(UNKNOWN) and not _TESTS.fullmatch(other) for one, other in pairs)


def runs_another(words: Words) -> bool:
    """Report whether the program only runs another one, which no rule for its own name covers."""
    name = literal(words[0]).rpartition("/")[2]
    return len(words) > 1 and _WRAPPERS.fullmatch(name) is not None


_TRANSPARENT = {
    "nohup": r"",
    "noglob": r"",
    "builtin": r"",
    "command": r"",
    "time": r"(-p )?",
    "timeout": r"((-[ks]|--(kill-after|signal)) \S+ |-v |-[ks]\w+ |--(foreground|preserve-status|verbose|(kill-after|signal)=\w+) )*"
    r"\d+(\.\d+)?[smhd]? ",
    "nice": r"(-n \S+ |-n?-?\d+ |--adjustment=-?\d+ )?",
    "stdbuf": r"(-[ioe](L|\d+) )+",
}
"""Wrappers that do not change a command's effects, with their known options."""


def strip_transparent(words: Words) -> Words:
    """Remove wrappers that do not change a command's effects, for rules that allow; unknown options stop it."""
    while words and words[0] in _TRANSPARENT:
        rest = [word if word and not re.search(r"\s", word) else "''" for word in words[1:]]
        found = re.match(_TRANSPARENT[words[0]], "".join(f"{word} " for word in rest))
        count = found[0].count(" ") if found else len(rest)
        if count >= len(rest) or rest[count].startswith("-"):
            return words
        words = words[1 + count :]
    return words
