"""Programs that only look, each with the options under which it does: what is not listed here is not understood.

Letters are written as for `getopt`: a colon follows one that takes a value. A long option that takes a value ends
in `=`, and is there twice if it need not. The value may follow as a word of its own; such a word must not look like
an option itself, so that a wrong entry here cannot hide one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from swarm.permissions.shell.words import GLOB_MARKS, UNKNOWN

Words = tuple[str, ...]

_UNSETTLED = (UNKNOWN, *GLOB_MARKS.values())


@dataclass(frozen=True)
class Program:
    """What of a program's command line is understood."""

    flags: frozenset[str]
    valued: frozenset[str]
    names: frozenset[str]
    abroad: frozenset[str]
    """Options that read files named elsewhere, or follow links: for where a sandbox holds the program to the workspace."""
    also: re.Pattern[str]
    """Whole words that are understood as they stand."""
    harmless: bool
    """No option of it changes or runs anything, so a word may turn out to be one."""
    operand: re.Pattern[str]
    operands: int | None
    """The most words that are no options."""

    def understands(self, words: Words, *, confined: bool) -> bool:
        """Whether every word is known to leave everything as it is."""
        index = operands = 0
        ended = False
        while index < len(words):
            word = words[index]
            index += 1
            if ended or word == "-" or not word.startswith("-"):
                if not ended and word.startswith(_UNSETTLED) and not self.harmless:
                    return False
                operands += 1
                if not self.operand.fullmatch(word) or (self.operands is not None and operands > self.operands):
                    return False
            elif word == "--":
                ended = True
            elif not self.also.fullmatch(word):
                option, wants_value = self._read_option(word)
                if option is None or (option & self.abroad and not confined):
                    return False
                if wants_value:
                    value = words[index] if index < len(words) else "-"
                    if value.startswith("-") or (value.startswith(_UNSETTLED) and not self.harmless):
                        return False
                    index += 1
        return True

    def _read_option(self, word: str) -> tuple[frozenset[str] | None, bool]:
        """The options that a word gives, if all are known, and whether the value is still to come."""
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            alone, valued = name in self.names, f"{name}=" in self.names
            known = valued or (alone and not equals)
            return (frozenset((name,)) if known else None), valued and not alone and not equals
        for place, letter in enumerate(word[1:], 2):
            if letter in self.valued:
                return frozenset(word[1:place]), place == len(word)
            if letter not in self.flags:
                return None, False
        return frozenset(word[1:]), False


def describe(
    letters: str = "",
    long: str = "",
    *,
    abroad: str = "",
    also: str = "",
    harmless: bool = True,
    operand: str = r"(?s:.*)",
    operands: int | None = None,
) -> Program:
    """A program by its letters and long options; those of `abroad` are counted to them."""
    elsewhere = abroad.split()
    short = letters + "".join(name for name in elsewhere if not name.startswith("--"))
    valued = frozenset(re.findall(r"(.):", short))
    names = frozenset((*(f"--{name}" for name in long.split()), *(name for name in elsewhere if name.startswith("--"))))
    return Program(
        flags=frozenset(short) - valued - {":"},
        valued=valued,
        names=names,
        abroad=frozenset(name.rstrip(":=") for name in elsewhere),
        also=re.compile(also),
        harmless=harmless,
        operand=re.compile(operand),
        operands=operands,
    )


def has_option(word: str, options: Iterable[str]) -> bool:
    """Whether the word gives one of the options: in full, shortened, with a value, or among other letters."""
    if word.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and any(option.startswith(name) for option in options if option.startswith("--"))
    letters = {option[1] for option in options if len(option) == 2}
    return word.startswith("-") and not letters.isdisjoint(word[1:])


_ANYTHING = describe(also=r"(?s:.*)")
_NOTHING = describe(operands=0)
_SUMS = describe("btz", "text binary tag zero", abroad="c w --check --quiet --status --strict --ignore-missing --warn")
_PRINTS = describe("n:c:qvz", "lines= bytes= quiet silent verbose zero-terminated", also=r"-\d+")
_GREP = describe(
    "nrilLvwxcoqshHEFPGaIbUZzTyA:B:C:e:m:",
    "line-number recursive ignore-case no-ignore-case files-with-matches files-without-match invert-match word-regexp"
    " line-regexp count only-matching quiet silent no-messages no-filename with-filename extended-regexp fixed-strings"
    " perl-regexp basic-regexp text null color color= colour= include= exclude= exclude-dir= after-context="
    " before-context= context= regexp= max-count= byte-offset initial-tab null-data label= binary-files= line-buffered",
    abroad="R f: --dereference-recursive --file= --exclude-from=",
    also=r"-\d+",
)
PROGRAMS: Mapping[str, Program] = {
    **dict.fromkeys(
        ("echo", "true", "false", ":", "exit", "break", "continue", "return", "test", "[", "[["), _ANYTHING
    ),
    **dict.fromkeys(("whoami", "tty", "groups"), _NOTHING),
    "hostname": describe("fisI", operands=0),
    "getconf": describe("a", harmless=False, operands=2),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum"), _SUMS
    ),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
    **dict.fromkeys(
        ("fd", "fdfind"),
        describe(
            "HIusiFagp0e:t:d:E:c:S:l",
            "hidden no-ignore unrestricted case-sensitive ignore-case glob regex fixed-strings absolute-path full-path print0"
            " extension= type= max-depth= min-depth= exact-depth= exclude= color= size= changed-within= changed-before= count",
            abroad="L --follow",
            harmless=False,
        ),
    ),
    "printf": describe(),
    "pwd": describe("LP", operands=0),
    "cd": describe("LPe"),
    "read": describe("rsn:N:t:d:p:u:a:"),
    "type": describe("afptP"),
    "wait": describe("nf"),
    "ls": describe(
        "aAbBcCdfFgGhiklmnNopqQrRsStTuUvxXZ1w:I:",
        "all almost-all color color= directory classify human-readable inode format= full-time group-directories-first ignore="
        " hide= indicator-style= literal numeric-uid-gid no-group quote-name recursive reverse size sort= time= time-style=",
        abroad="L H --dereference",
    ),
    "cat": describe("AbeEnstTuv", "show-all number number-nonblank show-ends show-tabs show-nonprinting squeeze-blank"),
    "head": _PRINTS,
    "tail": describe("n:c:qvzfF", "lines= bytes= quiet silent verbose follow follow= zero-terminated", also=r"-\d+"),
    "wc": describe("lwcmL", "lines words bytes chars max-line-length total=", abroad="--files0-from="),
    "which": describe("as"),
    "id": describe("ugGnrz", "user group groups name real zero"),
    "uname": describe("asnrvmpio", "all kernel-name kernel-release machine operating-system processor nodename"),
    "df": describe(
        "ahHiklPTt:x:", "all human-readable si inodes local portability print-type total output output= type="
    ),
    "du": describe(
        "0abchkmsSxd:t:",
        "all bytes total human-readable si max-depth= summarize null one-file-system exclude= time"
        " apparent-size separate-dirs threshold= block-size=",
        abroad="L D H X: --files0-from= --dereference --exclude-from=",
    ),
    "stat": describe("c:ft", "format= printf= terse file-system", abroad="L --dereference"),
    "basename": describe("as:z", "multiple suffix= zero"),
    "dirname": describe("z", "zero"),
    "realpath": describe(
        "eLmPqsz", "canonicalize-existing canonicalize-missing relative-to= relative-base= no-symlinks"
    ),
    "readlink": describe("femnqsvz", "canonicalize canonicalize-existing canonicalize-missing no-newline"),
    "nl": describe("b:d:f:h:i:l:n:pps:v:w:", "body-numbering= number-format= number-width= number-separator="),
    "tac": describe("brs:", "before regex separator="),
    "rev": describe(),
    "cut": describe("b:c:d:f:snz", "bytes= characters= delimiter= fields= complement only-delimited output-delimiter="),
    "tr": describe("cCdst", "complement delete squeeze-repeats truncate-set1"),
    "paste": describe("d:sz", "delimiters= serial"),
    "column": describe("tnexs:c:o:N:R:H:", "table separator= output-separator= table-columns= output-width= fillrows"),
    "fold": describe("bsw:", "bytes spaces width="),
    "expand": describe("it:", "initial tabs="),
    "unexpand": describe("at:", "all first-only tabs="),
    "comm": describe("123z", "check-order nocheck-order output-delimiter= total"),
    "join": describe("a:e:i1:2:j:o:t:v:z", "ignore-case header"),
    "diff": describe(
        "abBcdeEiInNpqstTuwyZU:C:W:x:",
        "brief color color= unified unified= context side-by-side ignore-case ignore-all-space ignore-space-change"
        " ignore-blank-lines ignore-trailing-space minimal new-file report-identical-files text strip-trailing-cr label="
        " exclude= suppress-common-lines width= no-dereference show-c-function normal ed",
        abroad="r X: --recursive --exclude-from=",
        also=r"-\d+",
        operands=2,
    ),
    "cmp": describe("bi:ln:s", "print-bytes verbose silent quiet bytes= ignore-initial="),
    "strings": describe("an:t:e:wf", "all bytes= radix= encoding=", operand=r"(?s:[^@].*|)", harmless=False),
    "hexdump": describe("bcCdovxn:s:e:", "canonical length= skip= no-squeezing", abroad="f:"),
    "od": describe(
        "abcdfhilosxvA:j:N:t:w:S:", "address-radix= format= read-bytes= skip-bytes= width= output-duplicates"
    ),
    "xxd": describe("bpuc:l:s:g:", also=r"-(len|seek|cols|ps|plain|bits)", harmless=False, operands=1),
    "seq": describe("wf:s:", "equal-width format= separator=", also=r"-\d+"),
    "sleep": describe(),
    "uptime": describe("ps", "pretty since"),
    "free": describe("bkmghtlwv", "human mega giga kibi mebi gibi total wide"),
    "nproc": describe("", "all ignore="),
    "locale": describe("am", "all-locales charmaps"),
    "zcat": describe(),
    "jq": describe(
        "rcCMSsnejaR",
        "raw-output raw-input compact-output color-output monochrome-output sort-keys slurp null-input exit-status join-output"
        " ascii-output tab indent= arg= argjson= args jsonargs stream seq",
        abroad="f: L: --from-file= --slurpfile= --rawfile=",
    ),
    "sort": describe(
        "bcCdfghiMmnrRsuVzk:t:",
        "ignore-leading-blanks check dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting"
        " key= merge month-sort numeric-sort random-sort reverse stable unique version-sort field-separator= zero-terminated"
        " sort=",
        abroad="--files0-from=",
        harmless=False,
    ),
    "uniq": describe(
        "cdDiuzf:s:w:",
        "count repeated ignore-case unique zero-terminated skip-fields= skip-chars= check-chars= all-repeated",
        harmless=False,
        operands=1,
    ),
    "rg": describe(
        "nilLvwxcoqsSFHINUPaup0A:B:C:e:g:t:T:m:d:M:j:r:",
        "line-number no-line-number ignore-case smart-case case-sensitive files files-with-matches files-without-match count"
        " count-matches invert-match word-regexp line-regexp only-matching quiet fixed-strings with-filename no-filename hidden"
        " no-ignore no-ignore-vcs multiline multiline-dotall pcre2 text unrestricted pretty heading no-heading color= colors="
        " context= after-context= before-context= regexp= glob= iglob= type= type-not= type-add= max-count= max-depth= json"
        " max-columns= sort= sortr= stats trim vimgrep null column no-column replace= type-list passthru no-messages threads=",
        abroad="L f: --follow --file= --ignore-file=",
        also=r"-\.",
        harmless=False,
    ),
    "tree": describe(
        "adfphsugDFiCnqNrtvUJXL:P:I:",
        "dirsfirst noreport prune du gitignore matchdirs charset= filelimit= sort=",
        abroad="l",
        harmless=False,
    ),
    "file": describe(
        "biIkNrh0F:",
        "brief mime mime-type mime-encoding keep-going no-dereference separator=",
        abroad="L f:",
        harmless=False,
    ),
    "date": describe(
        "uRd:",
        "utc universal rfc-email date= iso-8601 iso-8601= rfc-3339=",
        abroad="r: f: --reference= --file=",
        also=r"-I(date|hours|minutes|seconds|ns)?",
        harmless=False,
        operand=r"(?s:\+.*)",
    ),
}
"""Closed: a program that is not here does not only look."""
