"""Options and settings under which an ordinary program runs a command that its words, or its input, hold.

They are not taken apart: a rule that denies or asks about a command cannot be held against them, so that a
person is asked where there is such a rule.
"""

from __future__ import annotations

import re

from swarm.permissions.shell.sed import may_execute
from swarm.permissions.shell.words import literal

Words = tuple[str, ...]

_CARRYING: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("vim", "vi", "nvim", "view", "gvim", "vimdiff", "rvim"), re.compile(r"\+|-[cSsuwWV]|--cmd")),
    **dict.fromkeys(("ex", "ed", "emacs", "crontab", "at", "batch"), re.compile("")),
    **dict.fromkeys(("less", "more", "most"), re.compile(r"\+|--?lesskey|-k|--cmd")),
    "man": re.compile(r"-[a-zA-Z]*[PHl]|--(pag|ht|loc)"),
    "tar": re.compile(r"--(to-c|checkpoint-a|use-c|rsh|rmt|info|new-v)|-?[a-zA-Z]*[IF]"),
    "zip": re.compile(r"-[a-zA-Z]*T|--unzip|--test"),
    "hash": re.compile(r"-[a-z]*p"),
    "rsync": re.compile(r"-[a-zA-Z]*e|--rsh|--rsync-path"),
    **dict.fromkeys(("scp", "sftp"), re.compile(r"-[a-zA-Z]*[SoD]")),
    "git": re.compile(
        r"-c|--config|--exec(-path)?=|--(upload|receive)-pack|filter-branch|--extcmd|--ext-diff|-O|--open-files|.*-filter"
        r"|ext::|(core|alias|diff|merge|filter|gpg|credential|pager|sequence|interactive|include)\.|instaweb|send-email|daemon"
        r"|--edit"
    ),
    "enable": re.compile("-f"),
}
"""Words under which a program runs a command that its words, or its input, hold."""
_PLAIN_SETTING = re.compile(
    r"(color|advice|user|init|log|column|push|pull|fetch|rebase|status|i18n|http\.\w+|commit|tag|branch|safe|protocol)\..*"
    r"|core\.(quote[pP]ath|autocrlf|eol|abbrev|fileMode|filemode|ignorecase|safecrlf|longpaths|commentChar)=.*"
    r"|diff\.(renames|algorithm|noprefix|context|colorMoved)=.*|merge\.(conflict[sS]tyle|ff|renames)=.*"
)


def find_carried_code(name: str, words: Words) -> str | None:
    """Why a call of this program may run a command that is not seen, or nothing."""
    if name == "sed" and may_execute(words):
        return "its script may run a command"
    carrying = _CARRYING.get(name)
    if carrying is None:
        return None
    if carrying.pattern == "":
        return f"{name} reads commands"
    for place, word in enumerate(words[1:], 1):
        if carrying.match(literal(word)) and (name != "git" or _carries_in_git(place, words)):
            return f"{name} may run a command for {literal(word)[:30]}"
    return None


def _carries_in_git(place: int, words: Words) -> bool:
    """Words of Git that carry a command only in some places."""
    word, before = words[place], words[place - 1]
    if word in ("-c", "--config"):
        setting = words[place + 1] if place + 1 < len(words) else ""
        return "=" in setting and not _PLAIN_SETTING.fullmatch(setting)
    if re.match(r"[a-z]+\.", word):
        getting = not {"--get", "--get-all", "--unset"}.isdisjoint(words)
        return "config" in words and not getting and not _PLAIN_SETTING.fullmatch(f"{word}=")
    if word.startswith("-O"):
        return "grep" in words
    if word in ("filter-branch", "instaweb", "send-email", "daemon"):
        return place == 1 or before.startswith("-")
    return True
