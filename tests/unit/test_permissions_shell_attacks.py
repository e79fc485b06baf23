"""Commands that look harmless and are not: each ran something, wrote something or read elsewhere without a question.

Tests of swarm/permissions/calls.py, swarm/permissions/shell/carriers.py, swarm/permissions/shell/judge.py.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from swarm.definitions.model import PermissionMode
from swarm.permissions.judge import JudgedCall, Judgement, find_plain_look, judge
from swarm.permissions.rules import Rules, parse_rule


def judge_command(
    command: str,
    workspace: Path,
    *,
    allow: str = "",
    ask: str = "",
    deny: str = "",
    mode: PermissionMode = "default",
    sandboxed: bool = False,
) -> Judgement:
    lists = {"allow": allow, "ask": ask, "deny": deny}
    rules = [parse_rule(entry, action, "a test") for action, entry in lists.items() if entry]  # type: ignore[arg-type]
    return judge(JudgedCall("Bash", {"command": command}, Rules(rules=tuple(rules)), mode, workspace, sandboxed))


def look(command: str, workspace: Path, *, deny: str = "") -> list[str] | None:
    """What is run of it where there is no sandbox."""
    rules = (parse_rule(deny, "deny", "a test"),) if deny else ()
    return find_plain_look(JudgedCall("Bash", {"command": command}, Rules(rules=rules), "default", workspace, False))


X = "x='a[$(touch P)]'; "
EVALUATED = [
    *(f"b=q; {X}echo ${{b:x}}", f"b=q; {X}echo ${{b:0:x}}", f'{X}b=abc; echo "${{b: x}}"', f"{X}echo ${{@:x}}"),
    *(
        f"{X}echo ${{*:x:1}}",
        f"{X}a=([x]=1)",
        f"{X}a=([$x]=1)",
        f"{X}a+=([x]=1)",
        f'{X}test -v "$x"',
        f'{X}[ -v "$x" ]',
    ),
    *("sleep 0 & wait -n -p 'a[$(touch P)]'", f"{X}echo $((x))", f"{X}echo $[x]", f"{X}((x))", f"{X}[[ x -eq 1 ]]"),
    *("let 'a[$(touch P)]'", "printf -v 'a[$(touch P)]' y", "read 'a[$(touch P)]' < f", "unset 'a[$(touch P)]'"),
    *(f"{X}declare -i y=$x", f'{X}declare "$x=1"', f"{X}declare -n y=$x; echo $y", "mapfile -C 'touch P' -c 1 < f"),
    *(
        "export 'a[$(touch P)]=1'",
        "declare -a b='([$(touch P)]=1)'",
        "RANDOM='a[$(touch P)]'",
        "OPTIND='a[$(touch P)]'",
    ),
    *(
        "for RANDOM in 'a[$(touch P)]'; do :; done",
        "HISTCMD='a[$(touch P)]'",
        "compgen -W '$(touch P)'",
        f"{X}echo ${{!x}}",
    ),
    *(
        "y='$(touch P)'; echo ${y@P}",
        "ls {a[$(touch P)]}</dev/null",
        "ls {a[`touch P`]}<<<x",
        "test -R 'a[$(touch P)]'",
    ),
    # The same out of a file, or the name of one.
    *("echo $(( $(cat f) ))", "for f in b*; do echo $((f)); done", "x=$(cat f); [[ $x -eq 1 ]]", "x=$(cat g); [ $x ]"),
    *("x=$(cat g); test $x", "printf $(cat g)", "i=0; i=$(cat f); echo $((i))", "read i < f; echo $((i))"),
    *("a=(1 $(cat f)); echo $((a[1]))", "while read -r n; do echo $((n+1)); done < f", "x=$(cat f); echo ${a[x]}"),
    *(
        '[ "$(cat g)" "$(cat f)" ]',
        "x=-v; y=$(cat f); [ $x $y ]",
        '"[" -v "a[$(touch P)]" ]',
        "command test -v 'a[$(touch P)]'",
    ),
    # Places in which the grammar sees no substitution.
    *("echo ${x#$(touch P)}", "echo ${x%%`touch P`*}", 'echo "${x##*$(touch P)}"', "echo ${x^$(touch P)}"),
    *("echo \"${x:-'$(touch P)'}\"", "echo ${x/$[a[`touch P`]]/c}", "[[ a =~ b$[x[$(touch P)]] ]]"),
]
SETTING = [
    *(
        "for PATH in ./bin; do ls; done",
        ": ${PATH:=./bin}; ls",
        "((PATH=1)); ls",
        "for ((PATH=1;PATH<2;PATH++)); do ls; done",
    ),
    *("true {PATH}</dev/null; ls", "[[ PATH=1 -eq 1 ]]; ls", 'export LANG=C "PATH=./bin"; ls', "read PATH < f; ls"),
    *(
        "while read -r GIT_PAGER; do git log; done < f",
        'TEXTDOMAIN=x; TEXTDOMAINDIR=.; echo $"m"',
        "mapfile PATH < f; ls",
    ),
    *("LANGUAGE=../../x ls", "GZIP=-v zcat x", "mapfile -t PATH < f; ls", "OLDPWD=/; cd -"),
]
GROWN = [
    *(
        r"find . -maxdepth 0 -exe[c] touch P \;",
        "git log --outpu[t]=P",
        "find ./nosuch -delet[e]",
        "find . {-delete,$(echo x y)}",
    ),
    *(
        "x=' -oP'; sort a$x",
        "find . -name $x",
        "find . -name *",
        "sort *",
        "sort ?x",
        "git log $x",
        "tree *",
        "sort {-oP,x}",
    ),
    *(
        "rg x *",
        "git diff *",
        "uniq $x",
        "date $x",
        "strings *",
        "x=' --output=P'; git log a$x",
        "sort -[o]P x",
        'sort "$x"',
    ),
    *(
        "git log -S -- *",
        "git log -n -- $x",
        "sort -k -- $x",
        "date *",
        "file *",
        "find */x* -name a *",
        "find -[d]elete",
    ),
]
ENTERING = [
    f"cd x && {command}"
    for command in (
        *(
            "git status",
            "time git status",
            "command git status",
            "nice git status",
            "timeout 5 git status",
            "nohup git diff",
        ),
        *("stdbuf -oL git status", "nice -n 5 nohup git log", "timeout -k 5 10 command git status", "(git status)"),
    )
]
ENTERING += [
    "command cd x && git status",
    "builtin cd x && git status",
    "pushd x; git status",
    "cd x; echo $(git status)",
]
CHANGING = [
    *(
        "date 01010101",
        "date -u 01010101",
        "date -s x",
        "date --set=x",
        "yarn --version",
        "cargo --version",
        "go version",
    ),
    *(
        "pytest --version",
        "rustc --version",
        "git log --show-signature",
        "git log --format=%G?",
        "git show --pretty=%GK",
    ),
    *(
        "diff --paginate a b",
        "diff -l a b",
        "rg -z x",
        "rg --pre=x y",
        "git branch -v new",
        "git tag new",
        "git config a.b c",
    ),
    *(
        "hostname x",
        "getconf -v x y",
        "sed 's/a/b/e' x",
        "sed 's/a/b/w P' x",
        "sed -n '1w P' x",
        "sed '/x/e' y",
        "sed 1e x",
    ),
    *(
        "tree -oP",
        "sort --outp=P x",
        "git stash show",
        "git worktree add x",
        "file -Cm x",
        "ps e",
        "ps eww -e",
        "ps -o x",
    ),
]


@pytest.mark.parametrize("command", [*EVALUATED, *SETTING, *GROWN, *ENTERING, *CHANGING])
def test_nothing_but_a_rule_or_a_sandbox_allows_a_command(command: str, tmp_path: Path) -> None:
    for sandboxed in (True, False):
        verdict = judge_command(command, tmp_path, sandboxed=sandboxed)
        assert verdict.action == "ask" and verdict.look
    assert judge_command(command, tmp_path, mode="dontAsk").action == "deny"
    assert look(command, tmp_path) is None


@pytest.mark.parametrize("command", EVALUATED)
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_what_is_evaluated_twice_is_asked_about_beside_a_rule_that_denies(
    command: str, mode: PermissionMode, tmp_path: Path
) -> None:
    verdict = judge_command(command, tmp_path, allow="Bash", deny="Bash(touch:*)", mode=mode, sandboxed=True)
    assert verdict.action in ("ask", "deny"), verdict


ELSEWHERE = [
    *("ps eww -e", "ps aux", "ps", "file -f/etc/hostname", "echo /etc/hostname | xargs cat", "sort --files0-from=-"),
    *(
        "echo -n /etc/hostname | sort --files0-from=-",
        "wc --files0-from=x",
        "du --files0-from=x",
        "grep -f/etc/hostname x",
    ),
    *("grep -R x .", "date -f/etc/hostname", "jq -L/etc . x", "jq 'import \"../x\" as $d; $d' x", "sha256sum -c list"),
    *(
        "rg --follow x",
        "rg -L x",
        "find -L . -name x",
        "diff -r a b",
        "tree -l",
        "ls -L",
        "du -X/etc/hostname",
        "strings @x",
    ),
    *(
        "command cd .. && cat x",
        "cd; cat x",
        "cd [.][.] && cat x",
        "cat a$x",
        "x='b /etc/hostname'; cat a$x",
        "cd -- ..; ls",
    ),
    *(
        "git config --list",
        "git config --global --get a.b",
        "git grep --no-index x",
        "rg -f/etc/hostname x",
        "cd ~; ls",
    ),
    *(
        "git grep -f x y",
        "git ls-files -X/etc/hostname",
        "hexdump -f/etc/hostname x",
        "cat <(cat /etc/hostname)",
        "cd -; cat x",
    ),
]


@pytest.mark.parametrize("command", ELSEWHERE)
def test_what_may_read_elsewhere_is_no_look_where_nothing_confines(command: str, tmp_path: Path) -> None:
    assert look(command, tmp_path) is None


def test_git_is_no_look_in_a_workspace_that_is_itself_the_inside_of_a_repository(tmp_path: Path) -> None:
    assert look("git log", tmp_path)
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n")
    assert look("git log", tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert look("git log", tmp_path)


WRAPPED = {
    "watch": ("watch ls", "watch 'make x'", "watch -n1 make"),
    "setsid": ("setsid make", "setsid -w make", "/usr/bin/setsid make"),
    "flock": ("flock /tmp/l make", "flock l -c 'make x'"),
    "env": ("env make", "env A=b make", "env -S 'make x'"),
    "nohup": ("nohup make",),
    "timeout": ("timeout 5 make", "timeout --unknown 5 make", "timeout $X make"),
    "nice": ("nice make", "nice -n 5 make"),
    "xargs": ("xargs make", "xargs -n1 make", "ls | xargs make"),
    "sudo": ("sudo make", "sudo -u x make"),
    "doas": ("doas make",),
    "parallel": ("parallel make ::: x",),
    "chroot": ("chroot / make",),
    "unshare": ("unshare -r make",),
    "nsenter": ("nsenter -t 1 make",),
    "ssh": ("ssh host make", "ssh -o ProxyCommand=make host"),
    "find": (
        r"find . -exec make \;",
        r"find . -exe[c] make \;",
        "find . $X",
        "find . {-delete,}",
        "find -files0-from x",
    ),
    "command": ("command make",),
    "eval": ("eval make", "eval 'make x'"),
    "time": ("time make",),
    "stdbuf": ("stdbuf -oL make",),
    "strace": ("strace make",),
    "ionice": ("ionice -c3 make",),
    "busybox": ("busybox rm x",),
    "tmux": ("tmux new -d make",),
    "screen": ("screen -dm make",),
    "/lib64/ld-linux-x86-64.so.2": ("/lib64/ld-linux-x86-64.so.2 /bin/make",),
    "coproc": ("coproc make",),
    "jobs": ("jobs -x make",),
    "exec": ("exec make",),
    "trap": ("trap make EXIT",),
    "bwrap": ("bwrap --bind / / make",),
}


@pytest.mark.parametrize(("name", "command"), [(name, command) for name, all_ in WRAPPED.items() for command in all_])
def test_a_rule_about_what_only_runs_another_program_does_not_allow_that_one(
    name: str, command: str, tmp_path: Path
) -> None:
    for spec in (f"{name}:*", f"{name} *", f"{name}*"):
        assert judge_command(command, tmp_path, allow=f"Bash({spec})").action == "ask", spec
    if "$" not in command and "|" not in command and "[" not in command:
        assert judge_command(command, tmp_path, allow=f"Bash({command})").action == "allow"


def test_a_rule_names_the_program_behind_what_changes_nothing_about_it(tmp_path: Path) -> None:
    for spec, command in itertools.product(("make:*", "timeout 5 make:*"), ("timeout 5 make x",)):
        assert judge_command(command, tmp_path, allow=f"Bash({spec})").action == "allow"
    assert judge_command("ls | xargs pytest x", tmp_path, allow="Bash(pytest:*)").action == "allow"
    assert judge_command("uv run pytest x", tmp_path, allow="Bash(uv run:*)").action == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "watch rm x",
            "watch -n1 'rm x'",
            "setsid rm x",
            "flock l rm x",
            "flock l -c 'rm x'",
            "jobs -x rm x",
            "tmux new -d rm x",
        ),
        *(
            "tmux new -d 'rm x'",
            "screen -dm rm x",
            "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
            "ssh -o 'ProxyCommand=rm x' h",
        ),
    ],
)
def test_a_denied_command_is_found_behind_what_runs_it(command: str, tmp_path: Path) -> None:
    assert judge_command(command, tmp_path, allow="Bash", deny="Bash(rm:*)", mode="bypassPermissions").action == "deny"
    assert judge_command(command, tmp_path, allow="Bash", ask="Bash(rm:*)", mode="bypassPermissions").action == "ask"


CARRIED = [
    *("let 'a[$(rm x)]'", "test -v 'a[$(rm x)]'", "printf -v 'a[$(rm x)]' y", "read 'a[$(rm x)]'", "declare 'a[$(rm x)]=1'"),
    *("unset 'a[$(rm x)]'", "sed '1e rm x' f", "sed 's/a/rm x/e' f", "sed -n -e '/x/e rm x' f", "vim +'!rm x' f", "vim -c '!rm x'"),
    *("tar xf a --to-command='rm x'", "tar cf a b --checkpoint=1 --checkpoint-action=exec='rm x'", "tar -I 'rm x' -cf a b"),
    *("zip a b -T -TT 'rm x'", "man -P 'rm x' ls", "less +'!rm x' f", "git -c core.pager='rm x' log", "hash -p /bin/rm ls; ls x"),
    *("git -c core.sshCommand='rm x' fetch", "git filter-branch --tree-filter 'rm x'", "PAGER='rm x' git log", "ex f"),
    *("GIT_PAGER='rm x' git log", "LESSOPEN='|rm x' less f", "PS4='$(rm x)'; set -x; ls", "BASH_ENV=f bash g", "EDITOR='rm x' git commit"),
    *("env GIT_PAGER='rm x' git log", "export GIT_PAGER='rm x'; git log", "git config core.pager 'rm x'", "git grep -O'rm x' y"),
    *("git rebase --exec='rm x' y", "git fetch --upload-pack='rm x'", "rsync -e 'rm x' a b:", "git clone 'ext::rm x' y"),
    *("alias ls='rm x'", "compgen -W '$(rm x)'", "enable -f ./x.so y", "source /dev/stdin <<< 'rm x'", ". <(echo rm x)", "crontab f"),
]  # fmt: skip


@pytest.mark.parametrize("command", CARRIED)
def test_a_rule_that_may_be_meant_by_what_an_option_carries_asks(command: str, tmp_path: Path) -> None:
    verdict = judge_command(command, tmp_path, allow="Bash", deny="Bash(rm:*)", mode="bypassPermissions")
    assert verdict.action in ("ask", "deny"), verdict
    assert judge_command(command, tmp_path, allow="Bash", ask="Bash(rm:*)", mode="bypassPermissions").action == "ask"
    assert judge_command(command, tmp_path, allow="Bash", mode="bypassPermissions").action == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "sed -i 's/error/x/g' f",
            "sed -n '/end/p' f",
            "tar xzf a.tgz",
            "git -c color.ui=never log",
            "git config user.name x",
        ),
        *(
            "git -c user.name=x commit -m y",
            "vim f",
            "zip -r a b",
            "make -j4",
            "PYTHONPATH=. pytest",
            "git log -S foo",
            "less f",
        ),
        *("git diff --stat", "git push origin main", "for i in 1 2; do echo $((i*2)); done", "rsync -av a b", "man ls"),
    ],
)
def test_ordinary_work_is_not_doubted_beside_a_rule_that_denies(command: str, tmp_path: Path) -> None:
    assert judge_command(command, tmp_path, deny="Bash(rm:*)", mode="bypassPermissions").action == "allow"


def test_a_file_is_found_by_each_way_to_write_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id_rsa").write_text("k")
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(home))
    for command in (
        *(
            "cat ~/.ssh/id_rsa",
            "cat $HOME/.ssh/id_rsa",
            'cat "$HOME/.ssh/id_rsa"',
            "cat ${HOME}/.ssh/id_rsa",
            "cd; cat .ssh/id_rsa",
        ),
        *(
            "cd ~; cat .ssh/id_rsa",
            "cd $HOME && cat .ssh/id_rsa",
            "sh -c 'cat $HOME/.ssh/id_rsa'",
            "grep -f$HOME/.ssh/id_rsa x",
        ),
        *("command cd && cat .ssh/id_rsa", "cat < $HOME/.ssh/id_rsa", "pushd ~/.ssh; cat id_rsa"),
    ):
        verdict = judge_command(
            command, tmp_path / "work", allow="Bash", deny="Read(~/.ssh/**)", mode="bypassPermissions"
        )
        assert verdict.action == "deny", command
    for command in ("cd $X; cat .ssh/id_rsa", "cd -; cat id_rsa", "popd; cat id_rsa"):
        verdict = judge_command(
            command, tmp_path / "work", allow="Bash", deny="Read(~/.ssh/**)", mode="bypassPermissions"
        )
        assert verdict.action == "ask", command
    for command in ("cat x", "cd sub && cat x", 'cat "$X"', "cd $X && make"):
        verdict = judge_command(
            command, tmp_path / "work", allow="Bash", deny="Read(~/.ssh/**)", mode="bypassPermissions"
        )
        assert verdict.action == "allow", command


def test_the_home_of_another_user_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    user = pwd.getpwuid(os.getuid())
    monkeypatch.setenv("HOME", user.pw_dir)
    command = f"cat ~{user.pw_name}/.ssh/id_rsa"
    verdict = judge_command(command, tmp_path, allow="Bash", deny="Read(~/.ssh/**)", mode="bypassPermissions")
    assert verdict.action == "deny"


@pytest.mark.parametrize(
    ("spec", "command"),
    [
        *(
            ("git log:*", f"git log {option}")
            for option in ("--output=.git/hooks/x", "--outp=x", "--output x", "--ext-diff")
        ),
        *(("git diff:*", f"git diff {option}") for option in ("--output=x", "--textconv", "$X", "--outpu[t]=x", "*")),
        *(("git grep:*", f"git grep {option}") for option in ("-Ovi x", "--open-files-in-pager=vi x", "--open x")),
        *(("git show *", f"git show {option}") for option in ("--output=x", "{--output=x,}", "$(cat f)")),
        *(("sort:*", "sort -o x y"), ("rg:*", "rg --pre x y"), ("tar:*", "tar cf a b --checkpoint-action=exec=x")),
        *(("git:*", "git log --output=x"), ("timeout:*", "timeout 5 git log --output=x"), ("fd:*", "fd -x rm")),
    ],
)
def test_a_prefix_does_not_allow_what_a_program_writes_or_runs_besides(spec: str, command: str, tmp_path: Path) -> None:
    assert judge_command(command, tmp_path, allow=f"Bash({spec})", sandboxed=True).action == "ask"


def test_a_rule_that_names_such_an_option_allows_it(tmp_path: Path) -> None:
    for spec, command in (("git log --output=x", "git log --output=x"), ("sort -o *", "sort -o x y")):
        assert judge_command(command, tmp_path, allow=f"Bash({spec})").action == "allow"
    for command in ("git log --author=x", "git log -- *", 'git log --format="$X"', "git log -S foo --stat"):
        assert judge_command(command, tmp_path, allow="Bash(git log:*)", sandboxed=True).action == "allow", command


PASSED = [
    *('git log -1 "$\\\n(touch P; echo HEAD)"', "touch$\\\nx P", '/bin/t[o" "]uch P', "set -- a; for x do touch P; done"),
    "eval -- 'touch P'",
    "bash -o pipefail <<< 'touch P'", "bash --rcfile x <<< 'touch P'", "bash /dev/stdin <<< 'touch P'", "source /proc/self/fd/0 <<< x",
    "b='z[$(touch P)]'; ls {a[b]}>/dev/null", "read RANDOM <<< 'z[$(touch P)]'", "read -r PS4 <<< x; set -x; :", "env -Stouch P",
    "env --split=touch P", "script -qc'touch P' /dev/null", "git rebase -f -x'touch P' --root", "git config ALIAS.q '!touch P'; git q",
    "sed --expr='1e touch P' f", "sed -ne'1e touch P' f", "sed -l 5 '1e touch P' f", "tar --use='touch P' -cf a b", "linux64 touch P",
    "MAKEFLAGS='--eval=x' make", "export GIT_EXTERNAL_DIFF; git diff", "tar --checkpoint-=exec='touch P' -cf a b",
]  # fmt: skip


@pytest.mark.parametrize("command", PASSED)
def test_no_spelling_passes_a_rule_that_denies(command: str, tmp_path: Path) -> None:
    verdict = judge_command(command, tmp_path, allow="Bash", deny="Bash(touch:*)", mode="acceptEdits", sandboxed=True)
    assert verdict.action in ("ask", "deny"), verdict


@pytest.mark.parametrize(
    ("spec", "command"),
    [
        *(("git fetch:*", "git fetch --upl=x ."), ("git grep:*", "git grep --op=x y"), ("git clone:*", "git clone -u x y")),
        *(("git log:*", 'git log "$\\\n(touch P)"'), ("npm test:*", "npm test --script-sh=./x"), ("npm test:*", "npm test $(cat f)")),
        *(("make test:*", "make test $(cat f)"), ("cargo test:*", "cargo test --conf=x"), ("git status:*", "cd a/../b && git status")),
        *(("npm test:*", "cd /elsewhere && npm test"), ("sed:*", "sed --expr='1e x' f"), ("test:*", "test -v 'a[`x`]'")),
        ("file:*", "file -C"),
    ],
)  # fmt: skip
def test_a_prefix_means_no_other_program_file_or_folder(spec: str, command: str, tmp_path: Path) -> None:
    assert judge_command(command, tmp_path, allow=f"Bash({spec})", sandboxed=True).action == "ask"


def test_a_hostile_command_does_not_keep_the_judge_busy(tmp_path: Path) -> None:
    for command in (
        "echo $((" + "a" * 5_000 + "!",
        "timeout " + "-k " * 3_000 + "ls",
        "x " + "{" * 4_000 + "," * 4_000,
        "touch /proc/*/*/*/*/*/*/zz",
    ):
        verdict = judge_command(command, tmp_path, allow="Bash(ls:*)", deny="Read(/x)")
        assert verdict.action in ("ask", "deny")
