"""The table of options that start another program or name a file to write.

A rule that allows a program by a prefix does not cover these options, unless it names them. A rule that denies or asks about a command
cannot check the programs that they start, so with such a rule a person is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from swarm.permissions.shell.words import GLOB_MARKS, UNKNOWN, literal

Words = tuple[str, ...]

_EDITORS = re.compile(r"\+|-[cSsuwWV]|--cmd")
_RUNS: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("vim", "vi", "nvim", "view", "gvim", "vimdiff", "rvim"), _EDITORS),
    **dict.fromkeys(("ex", "ed", "emacs", "crontab", "at", "batch"), re.compile("")),
    **dict.fromkeys(("less", "more", "most"), re.compile(r"\+|--?lesskey|-k|--cmd")),
    "man": re.compile(r"-[a-zA-Z]*[PHl]|--(pag|ht|loc)"),
    "tar": re.compile(r"--(to-c|checkpoint-|us|rsh|rmt|in|ne)|-?[a-zA-Z]*[IF]"),
    "zip": re.compile(r"-[a-zA-Z]*T|--unzip|--test"),
    "hash": re.compile(r"-[a-z]*p"),
    "rsync": re.compile(r"-[a-zA-Z]*e|--rsh|--rsync-path"),
    **dict.fromkeys(("scp", "sftp"), re.compile(r"-[a-zA-Z]*[SoD]")),
    "rg": re.compile(r"--(pre|hostname)"),
    "sort": re.compile(r"--co"),
    "git": re.compile(
        r"-c|-u|--conf|--exe|--(upl|rece)|--templ|filter-branch|--ext|--textc|--filters|-O|--op|.*-filter"
        r"|--show-sig|--(format|pretty)=(?s:.*)%G|ext::|instaweb|send-email|daemon|--edit"
        r"|(?i:core|alias|diff|merge|filter|gpg|credential|pager|sequence|interactive|include)\."
    ),
    "enable": re.compile("-f"),
    "make": re.compile(r"-[a-zA-Z]*[fEC]|--(fi|makef|ev|dir)|SHELL="),
    "go": re.compile(r"--?(exec|toolexec|vettool)"),
    "cargo": re.compile(r"--conf"),
    **dict.fromkeys(("npm", "pnpm", "yarn"), re.compile(r"-C|--?(script-s|userc|globalc|prefi|node-o)")),
    "bun": re.compile(r"-r|--preload"),
    "gradle": re.compile(r"-[a-zA-Z]*I|--init"),
}
"""Words with which a program runs a command from its words or its input."""
_WRITES: dict[str, tuple[str, ...]] = {
    "find": ("-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"),
    "sort": ("-o", "--output"),
    "tree": ("-o", "--output", "-R"),
    "file": ("-C", "--compile"),
    "git": ("--output",),
}
"""Options that write or change a file."""
FINDERS: dict[str, tuple[str, ...]] = {
    "find": ("-exec", "-execdir", "-ok", "-okdir"),
    **dict.fromkeys(("fd", "fdfind"), ("-x", "-X", "--exec", "--exec-batch")),
    "git": ("run", "foreach", "--exec", "-x", "--extcmd", "--tree-filter", "--index-filter", "--msg-filter"),
}
"""Programs that run another program, which is named after such a word."""
_PLAIN_SETTING = re.compile(
    r"(color|advice|user|init|log|column|push|pull|fetch|rebase|status|i18n|http\.\w+|commit|tag|branch|safe|protocol)\..*"
    r"|core\.(quote[pP]ath|autocrlf|eol|abbrev|fileMode|filemode|ignorecase|safecrlf|longpaths|commentChar)=.*"
    r"|diff\.(renames|algorithm|noprefix|context|colorMoved)=.*|merge\.(conflict[sS]tyle|ff|renames)=.*"
)
_TEXT_OPTIONS = frozenset(("-m", "-am", "--message"))
"""Options whose value is text, whatever its first character."""
_UNSETTLED = (UNKNOWN, *GLOB_MARKS.values())

_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED_COMMAND = re.compile(
    rf"(?:{_SED_ADDRESS}(?:,\s*{_SED_ADDRESS})?)?\s*!?\s*"
    r"(?:[pdqD=]|s(?P<by>[/|#,@:_])(?:(?!(?P=by))[^\\\n]|\\[^\n])*(?P=by)(?:(?!(?P=by))[^\\\n]|\\[^\n])*(?P=by)[gpiI\d]*)"
    r"\s*(?:;\s*|$)"
)
_SED_EXECUTES = re.compile(r"(^|[;{}\n\d$!/|#,@:_~+gpiImM])\s*e")
"""Places where an `e` can be the command or flag that runs something."""


def find_carried_code(name: str, words: Words) -> str | None:
    """Return the reason why a call of this program may run a hidden command; None if it cannot."""
    if name == "sed" and any(map(_may_execute, _sed_scripts(words))):
        return "its script may run a command"
    carrying = _RUNS.get(name)
    if carrying is None:
        return None
    if carrying.pattern == "":
        return f"{name} reads commands"
    for place, word in enumerate(words[1:], 1):
        if carrying.match(literal(word)) and (name != "git" or _carries_in_git(place, words)):
            return f"{name} may run a command for {literal(word)[:30]}"
    return None


def hides_option(named: Sequence[str], words: Words, settled: Words) -> bool:
    """Report whether a command has, or can get, an option of this table that `named` does not name.

    In `settled`, words that the shell can split into several are unknown.
    """
    name = words[0]
    besides = (*_WRITES.get(name, ()), *FINDERS.get(name, ()))
    for place, word in enumerate(settled[1:], 1):
        if word == "--" and name != "find":
            return False
        if (besides or name in _RUNS) and _may_be_option(word, settled[place - 1]):
            return True
        if word in named:
            continue
        if (word.startswith("-") and word in besides) or (name != "find" and has_option(word, besides)):
            return True
        if find_carried_code(name, (*words[:1], *settled[1:place], literal(word), *settled[place + 1 : place + 2])):
            return True
    return False


def _may_be_option(word: str, before: str) -> bool:
    """Report whether the shell can turn a word into an option."""
    option = word.partition("=")[0]
    unread = word.startswith("-") and (UNKNOWN in option or literal(option) != option)
    return unread or (word.startswith(_UNSETTLED) and before not in _TEXT_OPTIONS)


def has_option(word: str, options: Sequence[str]) -> bool:
    """Report whether the word contains one of the options: in full, shortened, with a value, or among other letters."""
    if word.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and any(option.startswith(name) for option in options if option.startswith("--"))
    letters = {option[1] for option in options if len(option) == 2 and option.startswith("-")}
    return word.startswith("-") and not letters.isdisjoint(word[1:].partition("=")[0])


def _carries_in_git(place: int, words: Words) -> bool:
    """Report whether a word of Git carries a command at this place."""
    word, before = words[place], words[place - 1]
    if word in ("-c", "--config"):
        setting = words[place + 1] if place + 1 < len(words) else ""
        return "=" in setting and not _PLAIN_SETTING.fullmatch(setting)
    if word.startswith("-u"):
        return "clone" in words
    if re.match(r"[A-Za-z]+\.", word):
        getting = not {"--get", "--get-all", "--unset"}.isdisjoint(words)
        return "config" in words and not getting and not _PLAIN_SETTING.fullmatch(f"{word}=")
    if word.startswith("-O"):
        return "grep" in words
    if word in ("filter-branch", "instaweb", "send-email", "daemon"):
        return place == 1 or before.startswith("-")
    return True


def _sed_scripts(words: Words) -> list[str]:
    """Return the scripts in the words of a call; script files count as separate programs."""
    scripts = [word for before, word in zip(words, words[1:], strict=False) if re.fullmatch(r"-\w*e|--e\w*", before)]
    attached = [found[2] for word in words[1:] if (found := re.fullmatch(r"(?s)(-[a-zA-Z]*e|--e\w*=)(.+)", word))]
    operands = [word for word in words[1:] if not word.startswith("-")]
    sized = any(re.match(r"-\w*l|--l", word) for word in words[1:])
    return [*scripts, *attached] or operands[: 2 if sized else 1]


def _may_execute(script: str) -> bool:
    """Report whether a `sed` script may run a command: it does more than print, delete and replace, and has such an `e`."""
    text, place = literal(script).strip(), 0
    while place < len(text) and (match := _SED_COMMAND.match(text, place)):
        place = match.end()
    return place < len(text) and (UNKNOWN in script or _SED_EXECUTES.search(text) is not None)
