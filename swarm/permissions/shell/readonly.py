"""The shell commands that only look: allowed without a question in every mode.

A closed list. A program is on it with the options that would make it write or run something; what is not on it,
or not understood, is not read-only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from swarm.permissions.shell.parse import ShellCommand, SimpleCommand, parse_command
from swarm.permissions.shell.views import strip_transparent
from swarm.permissions.shell.words import GLOB_MARKS, UNKNOWN, literal

_ANY_ARGUMENTS = frozenset(
    (
        *("ls", "cat", "head", "tail", "wc", "pwd", "echo", "true", "false", ":", "which", "whoami", "id", "uname"),
        *("df", "du", "stat", "basename", "dirname", "realpath", "readlink", "nl", "tac", "rev", "cut", "tr"),
        *("paste", "column", "fold", "expand", "unexpand", "comm", "diff", "cmp", "md5sum", "sha1sum", "sha224sum"),
        *("sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum", "strings", "hexdump", "od", "seq", "sleep"),
        *("uptime", "ps", "free", "nproc", "tty", "groups", "getconf", "locale", "jq", "grep", "egrep", "fgrep"),
        *("cd", "type", "exit", "break", "continue", "return", "zcat", "join", "wait"),
    )
)
_FORBIDDEN_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "sort": ("-o", "--output", "-T", "--temporary-directory", "--compress-program"),
    "rg": ("--pre", "--hostname-bin"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "fdfind": ("-x", "-X", "--exec", "--exec-batch"),
    "tree": ("-o", "--output", "-R"),
    "date": ("-s", "--set"),
    "file": ("-C", "--compile"),
    "printf": ("-v",),
}
"""Programs that only look unless given one of these."""
_FIND_ACTIONS = re.compile(r"-(exec|execdir|ok|okdir|delete|fprint.*|fls|files0-from)")
_SED_PRINTS = re.compile(r"((\d+|\$)(,\s*(\d+|\$))?p;?\s*)+")
_VERSION_TOOLS = frozenset(
    (
        *("python", "python3", "node", "npm", "npx", "yarn", "pnpm", "cargo", "rustc", "go", "ruby", "java", "git"),
        *("gcc", "clang", "make", "cmake", "pip", "pip3", "uv", "pytest", "ruff", "mypy", "docker", "deno", "bun"),
    )
)
_GIT_LOOKING = frozenset(
    (
        *("status", "log", "diff", "show", "blame", "rev-parse", "ls-files", "ls-tree", "cat-file", "describe"),
        *("shortlog", "grep", "merge-base", "name-rev", "rev-list", "for-each-ref", "whatchanged", "count-objects"),
        *("diff-tree", "diff-index", "show-ref", "check-ignore", "version"),
    )
)
_GIT_FORBIDDEN = ("--output", "--ext-diff", "--textconv", "--filters", "--open-files-in-pager", "--exec", "-O")
_GIT_LISTING: Mapping[str, re.Pattern[str]] = {
    "branch": re.compile(r"(-[arv]+|--list|--all|--remotes|--verbose|--show-current|--no-color)"),
    "tag": re.compile(r"(-l|--list|--no-color)"),
    "remote": re.compile(r"(-v|--verbose)"),
    "stash": re.compile(r"list"),
    "worktree": re.compile(r"list|--porcelain"),
}
"""Subcommands that list when they are given nothing but this, and change something otherwise."""
_GIT_NEEDS_WORD = frozenset({"stash", "worktree"})

SAFE_VARIABLES = re.compile(
    r"LANG|LANGUAGE|LC_\w+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|CI|TERM|COLUMNS|LINES|NODE_ENV|RUST_BACKTRACE|RUST_LOG"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|GOOS|GOARCH|CGO_ENABLED|DEBUG|VERBOSE|LOG_LEVEL|_"
)
"""Variables that make no program do another thing when they are set in front of it."""
_CHANGES_PROGRAMS = re.compile(
    r"PATH|IFS|ENV|BASH\w*|SHELL\w*|PS\d|PROMPT_COMMAND|CDPATH|GLOBIGNORE|HOME|EDITOR|VISUAL|BROWSER|.*PAGER|LD_\w*"
    r"|DYLD_\w*|GIT_\w*|PYTHON\w*|NODE_\w*|PERL\w*|RUBY\w*|.*_proxy|.*_PROXY|LESS\w*|GREP_\w*|RIPGREP\w*|TMPDIR|JAVA\w*"
    r"|OPENSSL\w*|GCONV_PATH|LOCPATH|NLSPATH|POSIXLY_CORRECT|SSH\w*|CARGO\w*|RUSTC\w*|GO\w*|npm_\w*|MAKE\w*|EXECIGNORE"
)
"""Variables that a shell has from its environment and that change what later commands do."""


def is_read_only_command(command: str) -> bool:
    """Whether a command line only looks: it changes no file, runs nothing unknown and nothing that is not on the list."""
    parsed = parse_command(command)
    if parsed.opaque or not command.strip() or any(not is_null_device(target) for target in parsed.writes):
        return False
    return not enters_repository(parsed) and all(is_read_only_part(part) for part in parsed.parts)


def is_read_only_part(part: SimpleCommand) -> bool:
    """The same for one simple command, its redirections left aside."""
    if not part.words:
        return sets_harmless_variables(part)
    if part.words[0] in ("export", "declare", "local", "readonly", "typeset"):
        plain = all(not word.startswith(("-", UNKNOWN)) for word in part.words[1:])
        return plain and bool(part.assigned) and all(SAFE_VARIABLES.fullmatch(name) for name in part.assigned)
    if not all(SAFE_VARIABLES.fullmatch(name) for name in part.assigned):
        return False
    return _only_looks(strip_transparent(part.words))


def sets_harmless_variables(part: SimpleCommand) -> bool:
    """Whether a command of nothing but assignments sets only variables that no program looks at."""
    return bool(part.assigned) and not any(
        UNKNOWN in name or _CHANGES_PROGRAMS.fullmatch(name) for name in part.assigned
    )


def enters_repository(command: ShellCommand) -> bool:
    """Whether it goes elsewhere and uses Git there: a folder may hold a Git configuration that runs programs."""
    names = {part.words[0] for part in command.parts if part.words}
    return "git" in names and not names.isdisjoint({"cd", "pushd"})


def is_null_device(target: str) -> bool:
    """Whether output that goes there is written to no file."""
    return target in ("/dev/null", "/dev/stdout", "/dev/stderr")


def _only_looks(words: tuple[str, ...]) -> bool:
    if not words:
        return False
    name, arguments = words[0], words[1:]
    if name in _ANY_ARGUMENTS or words == ("hostname",):
        return True
    if name in ("test", "[", "[["):
        return not any("$(" in word or "`" in word for word in arguments)
    if name == "command":
        return arguments[:1] in (("-v",), ("-V",))
    if name in _VERSION_TOOLS and arguments in (("--version",), ("-V",), ("version",)):
        return arguments != ("version",) or name in ("go", "git")
    if name == "xargs":
        return _xargs_only_looks(arguments)
    check = _CHECKS.get(name)
    if check is not None:
        return not _may_grow_options(arguments) and check(arguments)
    if name in _FORBIDDEN_OPTIONS:
        return not _may_grow_options(arguments) and not _has_option(arguments, _FORBIDDEN_OPTIONS[name])
    return False


def _may_grow_options(arguments: tuple[str, ...]) -> bool:
    """Whether a word may turn out to be an option when the shell has replaced its unknown parts or its file pattern."""
    return any(word.startswith((UNKNOWN, *GLOB_MARKS.values())) for word in arguments)


def _has_option(arguments: tuple[str, ...], forbidden: tuple[str, ...]) -> bool:
    """Whether one of the options is given: in full, shortened, with a value, or among other letters."""
    for word in arguments:
        if word.startswith("--"):
            name = word.partition("=")[0]
            if len(name) > 2 and any(option.startswith("--") and option.startswith(name) for option in forbidden):
                return True
            if UNKNOWN in name:
                return True
        elif word.startswith("-"):
            letters = {option[1] for option in forbidden if len(option) == 2}
            if UNKNOWN in word or not letters.isdisjoint(word[1:]):
                return True
    return False


def _find_only_looks(arguments: tuple[str, ...]) -> bool:
    return not any(_FIND_ACTIONS.fullmatch(word) or (word.startswith("-") and UNKNOWN in word) for word in arguments)


def _sed_only_looks(arguments: tuple[str, ...]) -> bool:
    options = [word for word in arguments if word.startswith("-")]
    operands = [word for word in arguments if not word.startswith("-")]
    printing = "-n" in options and bool(operands) and _SED_PRINTS.fullmatch(literal(operands[0])) is not None
    return printing and all(option in ("-n", "-E", "-r") for option in options)


def _uniq_only_looks(arguments: tuple[str, ...]) -> bool:
    files = [word for word in arguments if not word.startswith(("-", "+"))]
    return len(files) <= 1 and all(
        re.fullmatch(r"-[cduizD]+|--[a-z-]+", word) for word in arguments if word not in files
    )


def _git_only_looks(arguments: tuple[str, ...]) -> bool:
    if arguments[:1] == ("--no-pager",):
        arguments = arguments[1:]
    if not arguments:
        return False
    command, rest = arguments[0], arguments[1:]
    if command in _GIT_LOOKING:
        return not _has_option(rest, _GIT_FORBIDDEN)
    if command == "config":
        return rest[:1] in (("--get",), ("--list",), ("-l",), ("--get-all",))
    if command == "reflog":
        shows = not rest or rest[0] == "show" or rest[0].startswith("-")
        return shows and not _has_option(rest, _GIT_FORBIDDEN)
    listing = _GIT_LISTING.get(command)
    if listing is None or (command in _GIT_NEEDS_WORD and rest[:1] != ("list",)):
        return False
    return all(listing.fullmatch(word) for word in rest)


_CHECKS: Mapping[str, Callable[[tuple[str, ...]], bool]] = {
    "find": _find_only_looks,
    "sed": _sed_only_looks,
    "uniq": _uniq_only_looks,
    "git": _git_only_looks,
}


def _xargs_only_looks(arguments: tuple[str, ...]) -> bool:
    start = 0
    while arguments[start : start + 1] and arguments[start] in ("-0", "-r", "--null", "--no-run-if-empty"):
        start += 1
    inner = arguments[start:]
    return bool(inner) and inner[0] != "xargs" and _only_looks((*inner, UNKNOWN))
