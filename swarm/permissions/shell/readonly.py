"""The shell commands that only look: allowed without a question in every mode.

A closed list. A program is on it with the options under which it is known to change nothing and to run nothing;
another program, another option, and what may turn out to be one only when it runs, is not read-only.
"""

from __future__ import annotations

import re

from swarm.permissions.shell.git_options import git_looks
from swarm.permissions.shell.options import PROGRAMS, Words
from swarm.permissions.shell.parse import ShellCommand, SimpleCommand, parse_command
from swarm.permissions.shell.sed import is_plain_script
from swarm.permissions.shell.variables import SAFE_VARIABLES, is_harmless
from swarm.permissions.shell.views import strip_transparent
from swarm.permissions.shell.words import GLOB_MARKS, UNKNOWN

_FIND_TESTS = re.compile(
    r"-(a|and|o|or|not|prune|print|print0|ls|empty|depth|mount|xdev|readable|writable|executable|nouser|nogroup|true|false"
    r"|daystart|noleaf|nowarn|quit|P|\d+[a-zA-Z]*)|!|\(|\)|,"
)
_FIND_ABROAD = ("-L", "-H", "-follow")
_FIND_VALUES = re.compile(
    r"-(i?name|i?path|i?wholename|i?regex|regextype|i?lname|x?type|maxdepth|mindepth|size|[amc](time|min)|used|anewer|cnewer"
    r"|newer([aBcm][aBcmt])?|perm|user|group|uid|gid|links|inum|samefile|fstype|printf)"
)
_FIELDS = r"\$(\d+|NF)(, ?\$(\d+|NF))*"
_AWK = re.compile(rf"(NR ?(==|<=|>=|<|>) ?\d+ ?)?(\{{ ?print( {_FIELDS})? ?\}})?")
_PS = re.compile(r"aux?w*|axu?w*|-(ef|e|A|f|eF|ely?|l|u|aux)|--forest|--sort=-?[%\w]+|-p|\d+(,\d+)*")
_VERSION_TOOLS = frozenset(
    (
        *("python", "python3", "node", "npm", "ruby", "java", "git", "gcc", "g++", "clang", "make", "cmake", "pip"),
        *("pip3", "ruff", "mypy", "docker", "deno", "uv", "bash", "curl", "tar", "sed", "grep", "jq", "rg", "perl"),
        *("php", "gh"),
    )
)
"""Not those that obey the folder they are called in before they say their version: cargo, go, yarn, pytest …"""


def is_read_only_command(command: str, *, confined: bool = True) -> bool:
    """Whether a command line only looks: it changes no file, runs nothing unknown and nothing that is not on the list."""
    parsed = parse_command(command)
    if parsed.opaque or not command.strip() or any(not is_null_device(target) for target in parsed.writes):
        return False
    return not enters_repository(parsed) and all(is_read_only_part(part, confined=confined) for part in parsed.parts)


def is_read_only_part(part: SimpleCommand, *, confined: bool = True) -> bool:
    """The same for one simple command, its redirections left aside.

    `confined` if a sandbox holds it to the workspace. Else it may read nothing but what its words name, so that its words
    tell whether it looks elsewhere.
    """
    if not part.words:
        return bool(part.assigned) and all(is_harmless(name) for name in part.assigned)
    words = part.settled_words
    if words[0] in ("export", "declare", "local", "readonly", "typeset"):
        plain = all(not word.startswith(("-", UNKNOWN)) for word in words[1:])
        return plain and bool(part.assigned) and all(SAFE_VARIABLES.fullmatch(name) for name in part.assigned)
    if not all(SAFE_VARIABLES.fullmatch(name) or (name == "IFS" and words[0] == "read") for name in part.assigned):
        return False
    return _only_looks(strip_transparent(words), confined=confined)


def enters_repository(command: ShellCommand) -> bool:
    """Whether it goes elsewhere and uses Git there: a folder may hold a Git configuration that runs programs."""
    names = {strip_transparent(part.words)[0] for part in command.parts if part.words}
    return "git" in names and not names.isdisjoint({"cd", "pushd", "popd"})


def is_null_device(target: str) -> bool:
    """Whether output that goes there is written to no file."""
    return target in ("/dev/null", "/dev/stdout", "/dev/stderr")


def _only_looks(words: Words, *, confined: bool) -> bool:
    if not words:
        return False
    name, arguments = words[0], words[1:]
    if name in _VERSION_TOOLS and arguments in (("--version",), ("-V",)):
        return True
    if name == "command":
        return arguments[:1] in (("-v",), ("-V",))
    if name == "ps":
        return confined and all(_PS.fullmatch(word) for word in arguments)
    if name == "xargs":
        return confined and _xargs_only_looks(arguments)
    if name == "find":
        return _find_only_looks(arguments, confined=confined)
    if name == "sed":
        return _sed_only_looks(arguments)
    if name == "awk":
        return _awk_only_looks(arguments)
    if name == "git":
        return git_looks(arguments, confined=confined)
    if name == "jq" and not confined and any(re.search(r"\b(import|include)\b", word) for word in arguments):
        return False
    program = PROGRAMS.get(name)
    return program is not None and program.understands(arguments, confined=confined)


def _find_only_looks(arguments: Words, *, confined: bool) -> bool:
    index = 0
    while index < len(arguments):
        word = arguments[index]
        index += 1
        if _FIND_VALUES.fullmatch(word):
            value = arguments[index] if index < len(arguments) else UNKNOWN
            # `find` takes the next word for the value whatever it is, but the shell may make it several.
            if value == UNKNOWN or value.startswith(tuple(GLOB_MARKS.values())):
                return False
            index += 1
        elif word.startswith(("-", "(", ")", "!", ",")):
            if not _FIND_TESTS.fullmatch(word) and not (confined and word in _FIND_ABROAD):
                return False
        elif word.startswith((UNKNOWN, *GLOB_MARKS.values())):
            return False
    return True


def _sed_only_looks(arguments: Words) -> bool:
    scripts: list[str] = []
    operands: list[str] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        index += 1
        if word in ("-e", "--expression") and index < len(arguments):
            scripts.append(arguments[index])
            index += 1
        elif word.startswith(("-", UNKNOWN, *GLOB_MARKS.values())):
            if word not in ("-n", "-E", "-r", "-nE", "-En", "-nr", "--quiet", "--silent", "--regexp-extended"):
                return False
        else:
            operands.append(word)
    if not scripts:
        scripts = operands[:1]
    return bool(scripts) and all(is_plain_script(script) for script in scripts)


def _awk_only_looks(arguments: Words) -> bool:
    """Programs that print fields, no others: the language writes files and runs commands."""
    if arguments and re.fullmatch(r"-F.+", arguments[0], re.DOTALL):
        arguments = arguments[1:]
    elif arguments[:1] == ("-F",) and arguments[1:2] and not arguments[1].startswith(("-", UNKNOWN)):
        arguments = arguments[2:]
    plain = not any(word.startswith(("-", UNKNOWN, *GLOB_MARKS.values())) for word in arguments)
    return plain and bool(arguments) and bool(arguments[0]) and _AWK.fullmatch(arguments[0]) is not None


def _xargs_only_looks(arguments: Words) -> bool:
    start = 0
    while arguments[start : start + 1] and arguments[start] in (
        *("-0", "-r", "--null", "--no-run-if-empty", "-0r", "-r0"),
    ):
        start += 1
    inner = arguments[start:]
    return bool(inner) and inner[0] != "xargs" and _only_looks((*inner, UNKNOWN), confined=True)
