"""Git's subcommands that only look, with the options under which they do."""

from __future__ import annotations

import re

from swarm.permissions.shell.options import Program, Words, describe
from swarm.permissions.shell.words import UNKNOWN

_HISTORY = (
    "oneline stat stat= shortstat numstat dirstat summary name-only name-status compact-summary graph decorate decorate="
    " no-decorate all branches branches= tags tags= remotes remotes= glob= patch no-patch cached staged merges no-merges"
    " first-parent reverse follow color color= no-color word-diff word-diff= color-words abbrev-commit no-abbrev-commit"
    " abbrev= abbrev date= format= pretty pretty= since= after= until= before= author= committer= grep= invert-grep all-match"
    " unified= find-renames find-renames= no-renames find-copies ignore-all-space ignore-space-change ignore-space-at-eol"
    " ignore-blank-lines minimal patience histogram diff-algorithm= diff-filter= full-diff full-index quiet exit-code raw"
    " max-count= skip= topo-order date-order author-date-order left-right left-only right-only cherry-pick cherry"
    " no-ext-diff no-textconv check merge-base count no-walk parents children boundary simplify-by-decoration source"
    " function-context inter-hunk-context= text binary relative no-prefix root no-commit-id always stdin timestamp"
    " regexp-ignore-case extended-regexp fixed-strings pickaxe-regex pickaxe-all use-mailmap notes no-notes submodule"
    " ignore-submodules ignore-submodules= numbered email committer group= objects ancestry-path not exclude= walk-reflogs"
)
_LOG = describe("puszwbiEFPgcmRaBMCWtrqeDn:U:S:G:L:l:", _HISTORY, also=r"-\d+|-[MC]\d+%?|--cc", harmless=False)
_CONDITIONS = (
    "list all remotes verbose color color= no-color column format= sort= merged no-merged contains no-contains points-at="
    " merged= no-merged= contains= no-contains= ignore-case abbrev="
)


def _listing(letters: str, long: str = "", **more: str) -> Program:
    return describe(letters, long, harmless=False, also=more.get("also", ""), abroad=more.get("abroad", ""))


_LOOKING: dict[str, Program] = {
    **dict.fromkeys(("log", "diff", "show", "whatchanged", "rev-list", "diff-tree", "diff-index"), _LOG),
    "status": _listing(
        "sbvz",
        "short branch porcelain porcelain= long verbose ignored ignored= untracked-files untracked-files= show-stash"
        " ahead-behind no-ahead-behind no-renames ignore-submodules ignore-submodules= column no-column",
        also="-u(no|normal|all)?",
    ),
    "shortlog": describe("snec", _HISTORY, harmless=False),
    "blame": _listing(
        "wlsefcntpbMCL:",
        "porcelain line-porcelain show-email show-name show-number root date= abbrev= since= color-lines",
    ),
    "rev-parse": _listing(
        "q",
        "abbrev-ref short short= show-toplevel git-dir absolute-git-dir git-common-dir verify quiet is-inside-work-tree"
        " is-bare-repository is-inside-git-dir show-prefix show-cdup symbolic symbolic-full-name all branches tags remotes"
        " is-shallow-repository show-object-format revs-only no-revs flags no-flags default= git-path= show-superproject-working-tree",
    ),
    "ls-files": _listing(
        "cdmoiskutvzx:",
        "cached deleted modified others ignored stage exclude-standard full-name error-unmatch exclude="
        " unmerged killed directory eol deduplicate recurse-submodules abbrev= format=",
        abroad="X: --exclude-from=",
    ),
    "ls-tree": _listing("rdtlz", "name-only name-status full-name full-tree long abbrev= object-only format="),
    "cat-file": _listing("tsep", "batch batch-check batch= batch-check= batch-all-objects buffer unordered"),
    "describe": _listing(
        "",
        "tags always dirty dirty= long all abbrev= match= exclude= exact-match contains first-parent candidates= broken",
    ),
    "grep": _listing(
        "nilwEFPcrhHoqvLWpazIe:A:B:C:m:",
        "line-number ignore-case files-with-matches name-only word-regexp extended-regexp"
        " fixed-strings perl-regexp count no-color color color= heading break invert-match show-function function-context"
        " cached untracked and or not all-match max-depth= max-count= after-context= before-context= context= only-matching"
        " column full-name text",
        abroad="f: --no-index --no-exclude-standard",
        also=r"-\d+",
    ),
    "merge-base": _listing("a", "all is-ancestor fork-point octopus independent"),
    "name-rev": _listing("", "name-only tags always refs= all stdin annotate-stdin"),
    "for-each-ref": _listing("", f"{_CONDITIONS} count= stdin exclude="),
    "count-objects": _listing("vH", "verbose human-readable"),
    "show-ref": _listing("dqs", "heads tags branches verify hash hash= head dereference abbrev= exists quiet"),
    "check-ignore": _listing("vqzn", "stdin verbose non-matching quiet no-index"),
    "version": _listing("", "build-options"),
    "stash": describe("", "oneline stat", operand="list", operands=1, harmless=False),
    "worktree": describe("vz", "porcelain", operand="list", operands=1, harmless=False),
}
_LISTS = {
    "branch": describe("arvi", f"{_CONDITIONS} show-current", harmless=False),
    "tag": describe("lin:", _CONDITIONS, harmless=False),
}
"""Subcommands that list when one of their words says so, or when they are given nothing to make."""
_SAYS_LIST = re.compile(r"--(list|(no-)?merged|(no-)?contains|points-at)(=.*)?")
_CONFIG = describe("lz", "get get-all get-regexp list local name-only show-origin show-scope null type= default= bool int",
                   abroad="--global --system", harmless=False, operands=2)  # fmt: skip
_OWN_SETTING = re.compile(r"(user|remote|branch|core|init|pull|push|submodule)\.[\w./-]+")
_RUNS = (
    *("--output", "--ext-diff", "--textconv", "--filters", "--open-files-in-pager", "--show-signature"),
    *("--exec", "-O"),
)
_SIGNATURE = re.compile(r"--(format|pretty)=.*%G|.*%G")
"""A format that has signatures checked, by a program."""


def git_looks(arguments: Words, *, confined: bool) -> bool:
    """Whether `git` with these arguments only looks."""
    if arguments[:1] == ("--no-pager",):
        arguments = arguments[1:]
    if not arguments:
        return False
    command, rest = arguments[0], arguments[1:]
    if any(_SIGNATURE.match(word) for word in rest):
        return False
    if command == "config":
        return _reads_settings(rest, confined=confined)
    if command == "remote":
        return rest in ((), ("-v",), ("--verbose",)) or (
            len(rest) == 2 and rest[0] == "get-url" and rest[1][:1] not in ("-", UNKNOWN)
        )
    if command == "reflog":
        return (not rest or rest[0] == "show" or rest[0].startswith("-")) and _LOG.understands(rest, confined=confined)
    if command in _LISTS:
        names = [word for word in rest if not word.startswith("-")]
        listed = not names or any(_SAYS_LIST.fullmatch(word) for word in rest) or (command == "tag" and "-l" in rest)
        return listed and _LISTS[command].understands(rest, confined=confined)
    if command in ("stash", "worktree") and rest[:1] != ("list",):
        return False
    program = _LOOKING.get(command)
    return program is not None and program.understands(rest, confined=confined)


def git_hides(words: Words) -> tuple[str, ...]:
    """Options of a subcommand that looks, under which it does more; a rule about the subcommand does not mean them."""
    if words[1:2] == ("grep",):
        return (*_RUNS, "-O")
    return _RUNS if len(words) > 1 and (words[1] in _LOOKING or words[1] == "reflog") else ()


def _reads_settings(words: Words, *, confined: bool) -> bool:
    if not _CONFIG.understands(words, confined=confined):
        return False
    names = [word for word in words if not word.startswith("-")]
    if words[:1] == ("list",) or {"--list", "-l"} & {*words}:
        return confined and not [name for name in names if name != "list"]
    getting = any(word.startswith("--get") for word in words) or words[:1] == ("get",) or len(names) == len(words) == 1
    return getting and (confined or all(_OWN_SETTING.fullmatch(name) for name in names))
