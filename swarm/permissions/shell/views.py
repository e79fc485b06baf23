"""Every command that a simple command may come down to: what deny and ask rules are held against.

`sudo timeout 5 /bin/rm x` is also `timeout 5 /bin/rm x`, `rm x` and more. For wrappers every tail of their words
counts, so no wrapper's options need to be known; a tail too many makes a rule that forbids match too often, never
too seldom. `sh -c`, `eval` and their like carry code, which is taken apart in turn.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from swarm.permissions.shell.carriers import FINDERS, Words, find_carried_code
from swarm.permissions.shell.parse import UNKNOWN, SimpleCommand, literal, parse_command
from swarm.permissions.shell.variables import CODE_VARIABLES

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash"))
_CODE_CARRIERS = frozenset(
    (
        *("eval", "trap", "env", "watch", "script", "su", "runuser", "flock", "parallel", "ssh", "entr", "hyperfine"),
        *("tmux", "screen", "dtach", "abduco", "expect", "rsync", "scp", "sftp"),
    )
)
"""Wrappers of whose words some may be shell code."""
_RUNNERS = frozenset(("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "npx", "bunx", "direnv", "mise"))
"""Wrappers that people allow by their names, for the project's own programs."""
_COPIERS = frozenset(("rsync", "scp", "sftp"))
"""Programs that run another one only for an option of theirs."""
_WRAPPERS = (
    _CODE_CARRIERS
    | _RUNNERS
    | frozenset(
        (
            *("!", "timeout", "gtimeout", "nice", "nohup", "sudo", "doas", "xargs", "command", "builtin", "exec"),
            *("time", "stdbuf", "setsid", "ionice", "chrt", "taskset", "noglob", "nocorrect", "busybox", "toybox"),
            *("unbuffer", "chroot", "unshare", "nsenter", "strace", "ltrace", "systemd-run", "fakeroot", "setarch"),
            *("prlimit", "firejail", "bwrap", "rlwrap", "coproc", "catchsegv", "choom", "numactl", "cgexec"),
            *("setpriv", "capsh", "jobs", "proot", "start-stop-daemon", "daemonize", "dbus-run-session", "xvfb-run"),
            *("torsocks", "proxychains", "pkexec", "at", "batch", "chronic", "parallel-ssh", "pssh", "sem", "time"),
            *("gtime", "chpst", "setuidgid", "softlimit"),
        )
    )
)
_OPERANDS_FIRST = {
    **dict.fromkeys(("timeout", "gtimeout", "flock", "chroot", "taskset", "chrt", "setarch", "ssh", "su", "uv"), 1),
    **dict.fromkeys(("poetry", "pipenv", "pdm", "hatch", "rye", "prlimit", "capsh"), 1),
    **dict.fromkeys(("direnv", "mise"), 2),
}
"""How many words that are no options stand between a wrapper and its command."""
_GIT_OPTIONS_WITH_VALUE = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source")
)
_SPLIT_OPTION = re.compile(r"-[a-zA-Z]*S|--split-string=?")
"""With it `env` takes one word for a whole command."""
_LOADER = re.compile(r"ld(-linux|-musl|\.so|-\d|64\.so)[\w.-]*")
_EVALUATES = {
    **dict.fromkeys(
        ("let", "compgen", "complete", "bind", "alias", "shopt", "mapfile", "readarray", "getopts"), re.compile("")
    ),
    **dict.fromkeys(
        ("declare", "typeset", "local", "readonly", "export", "unset", "read"),
        re.compile(r"-\w*[nip]|[^=]*[\[\ue000\ue005]|.*[`$]", re.DOTALL),
    ),
    "printf": re.compile(r"-v|[\ue000]"),
    "wait": re.compile(r"-\w*p|.*[\[\ue000]"),
    **dict.fromkeys(("source", "."), re.compile(r"[\ue000]|/dev/")),
}
"""Builtins under which the shell may read a word of theirs as code."""
_TESTS = frozenset(
    ("=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o", "]")
)
_CODE = re.compile(r"[\s;|&$`()]")
_SETTERS = frozenset(("env", "export", "declare", "typeset", "local", "readonly"))
_MAX_TAILS = 64
_MAX_VIEWS = 2_000
_MAX_DEPTH = 5


@dataclass(frozen=True)
class Views:
    """What a simple command may run, itself included, and why that may not be all."""

    commands: tuple[Words, ...]
    writes: tuple[str, ...] = ()
    """Files that carried code redirects output to."""
    reads: tuple[str, ...] = ()
    opaque: str | None = None


@functools.lru_cache(maxsize=1024)
def view_command(part: SimpleCommand) -> Views:
    """All that this simple command may come down to."""
    gathering = _Gathering()
    gathering.add(part.words, 0)
    for name in part.assigned:
        gathering.see_assigned(name)
    if {"test", "["}.intersection(part.words) and any(UNKNOWN in part.words[place] for place in part.splitting):
        gathering.give_up("its test has words that are known only when it runs")
    return Views(
        commands=tuple(gathering.commands),
        writes=tuple(gathering.writes),
        reads=tuple(gathering.reads),
        opaque=gathering.opaque,
    )


def _may_name(words: Words) -> bool:
    """Whether `test` may take a word for the name of a variable, which it evaluates."""
    naming = not {"-v", "-R"}.isdisjoint(words)
    pairs = zip(words[1:], words[2:], strict=False)
    return naming or any(one.startswith(UNKNOWN) and other not in _TESTS for one, other in pairs)


def runs_another(words: Words) -> bool:
    """Whether the program only runs the one that stands behind it: no rule about its own name can mean that one."""
    name = literal(words[0]).rpartition("/")[2]
    return len(words) > 1 and (name in _WRAPPERS - _RUNNERS - _COPIERS or _LOADER.fullmatch(name) is not None)


def strip_transparent(words: Words) -> Words:
    """The command behind wrappers that change nothing about what it may do, for rules that allow; exact about options."""
    while words:
        rest = words[1:]
        match words[0]:
            case "nohup" | "noglob" | "builtin":
                index = 0
            case "command" if rest and not rest[0].startswith("-"):
                index = 0
            case "time":
                index = 1 if rest[:1] == ("-p",) else 0
            case "timeout":
                index = _skip_timeout(rest)
            case "nice":
                index = _skip_nice(rest)
            case "stdbuf":
                index = next((i for i, word in enumerate(rest) if not re.fullmatch(r"-[ioe](L|\d+)", word)), len(rest))
            case _:
                return words
        if index >= len(rest) or rest[index].startswith("-"):
            return words
        words = rest[index:]
    return words


def _skip_timeout(rest: Words) -> int:
    index = 0
    while index < len(rest) and rest[index].startswith("-"):
        if rest[index] in ("-k", "-s", "--kill-after", "--signal"):
            index += 1
        elif not re.fullmatch(
            r"-[kv]\w*|--(foreground|preserve-status|verbose|kill-after=\w+|signal=\w+)", rest[index]
        ):
            return len(rest)
        index += 1
    if index < len(rest) and re.fullmatch(r"\d+(\.\d+)?[smhd]?", rest[index]):
        return index + 1
    return len(rest)


def _skip_nice(rest: Words) -> int:
    if rest[:1] == ("-n",):
        return 2
    return 1 if rest and re.fullmatch(r"-n?-?\d+|--adjustment=-?\d+", rest[0]) else 0


@dataclass
class _Gathering:
    commands: dict[Words, None] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    opaque: str | None = None

    def give_up(self, reason: str) -> None:
        self.opaque = self.opaque or reason

    def add(self, words: Words, depth: int) -> None:
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
        # A blank or an empty string in front of the name does not happen by accident.
        name = first.rstrip("/").rpartition("/")[2]
        if name != words[0]:
            self.add((name, *words[1:]), depth)
            return
        if (evaluated := _EVALUATES.get(name)) is not None and any(map(evaluated.match, words[1:] or ("",))):
            self.give_up(f"{name} may read a word of it as code")
        if name in ("test", "[") and _may_name(words):
            self.give_up("its test may evaluate a word")
        if name in _SHELLS:
            self._look_into_shell(words, depth)
        if name in _WRAPPERS or _LOADER.fullmatch(name) or (name == "-" and len(words) > 1):
            self._look_into_wrapper(name, words, depth)
        if name in _SETTERS:
            for word in words[1:]:
                self.see_assigned(word.partition("=")[0] if "=" in word else "")
        reason = find_carried_code(name, words)
        if reason is not None:
            self.give_up(reason)
        for position, word in enumerate(words):
            if word in FINDERS.get(name, ()):
                self._add_carried(words[position + 1 :], depth)
        if name == "git":
            self._look_into_git(words, depth)

    def see_assigned(self, name: str) -> None:
        if CODE_VARIABLES.fullmatch(name) or UNKNOWN in name:
            self.give_up(f"the variable {literal(name)} may make it run something else")

    def _add_tails(self, words: Words, depth: int, appended: Words = ()) -> None:
        if len(words) > _MAX_TAILS:
            self.give_up("a wrapper has too many words")
        operands_left = _OPERANDS_FIRST.get(literal(words[0]), 0)
        for start in range(1, min(len(words), _MAX_TAILS)):
            # An unknown word is taken for the command only where the command can stand.
            if UNKNOWN not in words[start] or operands_left >= 0:
                self.add((*words[start:], *appended), depth)
            if not (words[start].startswith("-") or "=" in words[start] or words[start - 1].startswith("-")):
                operands_left -= 1

    def _add_carried(self, words: Words, depth: int) -> None:
        end = next((index for index, word in enumerate(words) if word in (";", "+")), len(words))
        carried = tuple(UNKNOWN if "{}" in word else word for word in words[:end])
        self.add(carried, depth + 1)
        for word in carried:
            if _CODE.search(word):
                self._parse(word, depth, strict=False)

    def _look_into_wrapper(self, name: str, words: Words, depth: int) -> None:
        self._add_tails(words, depth, (UNKNOWN,) if name in ("xargs", "parallel") else ())
        if name == "eval":
            self._parse(" ".join(words[1:]), depth, strict=True)
        elif name in _CODE_CARRIERS:
            splits = any(_SPLIT_OPTION.match(word) for word in words[1:])
            strict = (name != "env" or splits) and name not in _COPIERS
            for word in words[1:]:
                if _CODE.search(word) or (UNKNOWN in word and (name != "env" or splits)):
                    self._parse(_SPLIT_OPTION.sub("", word), depth, strict=strict)
                    if "=" in word:
                        self._parse(word.partition("=")[2], depth, strict=False)

    def _look_into_shell(self, words: Words, depth: int) -> None:
        options = [word for word in words[1:] if word.startswith(("-", "+"))]
        operands = [word for word in words[1:] if not word.startswith(("-", "+"))]
        if any(re.match(r"[-+][A-Za-z]*c|--command", option) for option in options):
            for operand in operands:
                self._parse(operand, depth, strict=True)
        elif not operands or any(re.match(r"-[A-Za-z]*s", option) for option in options) or UNKNOWN in operands[0]:
            self.give_up("a shell reads commands that are known only when it runs")
        if any(UNKNOWN in option for option in options) or "<" in operands:
            self.give_up("a shell's options are known only when it runs")

    def _look_into_git(self, words: Words, depth: int) -> None:
        index = 1
        while index < len(words) and words[index].startswith("-"):
            if words[index] == "-c" and "!" in "".join(words[index + 1 : index + 2]):
                self._parse(words[index + 1].partition("!")[2], depth, strict=True)
            index += 2 if words[index] in _GIT_OPTIONS_WITH_VALUE else 1
        if index > 1 and index < len(words):
            self.add(("git", *words[index:]), depth)

    def _parse(self, code: str, depth: int, *, strict: bool) -> None:
        """Take carried code apart; `strict` when it is code for certain, so that not understanding it matters."""
        if depth >= _MAX_DEPTH:
            self.give_up("its commands are nested too deeply")
            return
        if UNKNOWN in code:
            if strict:
                self.give_up("it runs code that is known only when it runs")
            code = code.replace(UNKNOWN, "$UNKNOWN")
        command = parse_command(literal(code))
        if strict and command.doubt:
            self.give_up(f"the code that it carries: {command.doubt}")
        self.writes.extend(command.writes)
        self.reads.extend(command.reads)
        for part in command.parts:
            self.add(part.words, depth + 1)
