"""Names of files and folders that programs obey when they start in a folder, open it, or commit in it.

This is the only list: rules ask about these names, sandboxes protect them, and instruction files are found by them. Names are compared
case-folded, because many file systems ignore case. A name with a slash is the end of a path.

Files that tools and agents write in ordinary work are only reported (`TOLD`); changes of all others are undone. The list omits files
that a build runs, because a build runs the project anyway. It also omits files that only select one of a person's own programs
(`.gitattributes`).

The supervisor of shell commands imports this module as it does `obeyed.py`.
"""

from __future__ import annotations

INSTRUCTIONS: tuple[tuple[str, ...], ...] = (
    ("CLAUDE.md", "AGENTS.override.md", "AGENTS.md"),
    (".claude/CLAUDE.md",),
    ("CLAUDE.local.md",),
)
"""Instruction files for agents; in each folder, the first existing file of each row."""
UNDONE = {
    "swarm, Claude Code": ".claude .swarm .mcp.json",
    "Codex, OpenCode": ".codex .opencode opencode.json opencode.jsonc",
    "Cursor, Windsurf, Trae": ".cursor .windsurf .trae",
    "Gemini CLI, Qwen Code, Amazon Q": ".gemini .qwen .amazonq",
    "Copilot": ".github/hooks",
    "Kiro, Junie, Augment, Factory": ".kiro .junie .augment .factory",
    "Cline, Roo, Kilo, Continue": ".clinerules .roo .kilocode .continue",
    "Crush, Aider": "crush.json .crush.json .aider.conf.yml",
    "VS Code, JetBrains, Zed": ".vscode .idea .zed",
    "editors that start containers": ".devcontainer .devcontainer.json",
    "Vim, Neovim": ".exrc .vimrc .gvimrc .lvimrc .nvimrc .nvim.lua",
    "Emacs": ".dir-locals.el .dir-locals-2.el",
    "Git": ".gitconfig .gitmodules .husky",
    "Mercurial, Sapling, Jujutsu": ".hg/hgrc .hg/hgrc-not-shared .sl/config .jj/repo/config.toml",
    "direnv": ".envrc",
    "mise": "mise.toml .mise.toml mise.local.toml .mise.local.toml .mise .config/mise .config/mise.toml",
    "Bash, Zsh": ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zprofile .zshenv .zlogin .zlogout",
    "npm": ".npmrc",
    "gdb, lldb, pdb": ".gdbinit .lldbinit .pdbrc",
    "irb, pry, GHCi, Octave": ".irbrc .pryrc .ghci .octaverc",
}
TOLD = {
    "agents": " ".join(name for names in INSTRUCTIONS for name in names),
    "other agents": "AGENT.md GEMINI.md QWEN.md CRUSH.md WARP.md .cursorrules .windsurfrules .roorules .roomodes .rules "
    ".goosehints .github/copilot-instructions.md",
    "asdf": ".tool-versions",
    "git's hooks": ".pre-commit-config.yaml lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml lefthook-local.yml",
    "Yarn, pnpm, Bun": ".yarnrc.yml .yarnrc .pnpmfile.cjs .pnpmfile.mjs bunfig.toml",
    "Cargo, Bundler": ".cargo/config.toml .cargo/config .bundle/config",
    "Bazel, Buck, Maven": ".bazelrc .buckconfig .mvn/extensions.xml .mvn/jvm.config .mvn/maven.config",
    "R": ".Rprofile",
}
_WHO = {name.casefold(): who for table in (UNDONE, TOLD) for who, names in table.items() for name in names.split()}
LASTS = frozenset(name.rpartition("/")[2] for name in _WHO)
"""The last part of every name, for a quick comparison during a walk."""


def who_obeys(path: str) -> str:
    """Return the programs that obey a file or folder by its name; empty if none is known."""
    name = path.rpartition("/")[2].casefold()
    if name not in LASTS:
        return ""
    if name in _WHO:
        return _WHO[name]
    parts = path.casefold().split("/")[-3:]
    return next((_WHO[tail] for at in range(len(parts)) if (tail := "/".join(parts[at:])) in _WHO), "")


def lies_in_obeyed(path: str) -> bool:
    """Report whether a program obeys the path or one of its parent folders."""
    parts = path.split("/")
    return any(who_obeys("/".join(parts[: at + 1])) for at in range(len(parts)))
