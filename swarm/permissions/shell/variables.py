"""Variables by what setting them may do: to the shell itself, and to the programs that it starts."""

from __future__ import annotations

import re

SAFE_VARIABLES = re.compile(
    r"LANG|LC_\w+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|CI|TERM|COLUMNS|LINES|NODE_ENV|RUST_BACKTRACE|RUST_LOG"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|GOOS|GOARCH|CGO_ENABLED|DEBUG|VERBOSE|LOG_LEVEL|_"
)
"""Variables that make no program do another thing when they are set in front of it."""
_OWN_VARIABLES = re.compile(r"(?!npm_|auto_resume$|histchars$|\w*_proxy$)[a-z]\w*|[A-Z]\d?")
"""Names that people give to variables of their own: no shell and no program obeys one that is called so."""
CODE_VARIABLES = re.compile(
    r"\w*PAGER|LESSOPEN|LESSCLOSE|LESS|PS[0-4]|PROMPT_COMMAND|BASH_ENV|ENV|BASHOPTS|SHELLOPTS|\w*EDITOR|VISUAL|FCEDIT"
    r"|BROWSER|GIT_(SSH\w*|EXTERNAL_DIFF|ASKPASS|PROXY_COMMAND|CONFIG\w*|EXEC_PATH|TEMPLATE_DIR)|SSH_ASKPASS|MANOPT"
    r"|LD_(PRELOAD|AUDIT|LIBRARY_PATH)|PERL5OPT|RUBYOPT|NODE_OPTIONS|TAR_OPTIONS|ZIPOPT|RIPGREP_CONFIG_PATH|RSYNC_RSH"
    r"|G?N?U?MAKEFLAGS|MAKEFILES|MFLAGS|PYTHONSTARTUP|S?RANDOM|HISTCMD|OPTIND|LINENO|SECONDS|EPOCHSECONDS|BASHPID|UID"
)
"""Variables whose value is a command, makes a program run one, or is calculated by the shell."""


def is_harmless(name: str) -> bool:
    """Whether the shell may set the variable without anything obeying it."""
    return _OWN_VARIABLES.fullmatch(name) is not None or SAFE_VARIABLES.fullmatch(name) is not None
