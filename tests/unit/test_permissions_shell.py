"""Rules for the shell: what a command line comes down to, however it is written.

Tests of swarm/permissions/shell/looks.py, swarm/permissions/shell/parse.py, swarm/permissions/shell/paths.py,
swarm/permissions/shell/patterns.py, swarm/permissions/shell/rules.py, swarm/permissions/shell/variables.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swarm.definitions.model import PermissionMode
from swarm.permissions.judge import JudgedCall, Judgement, judge
from swarm.permissions.rules import Rules, parse_rule
from swarm.permissions.shell.looks import is_harmless_part
from swarm.permissions.shell.parse import parse_command
from swarm.permissions.shell.patterns import compile_pattern


def rules(*, allow: str = "", ask: str = "", deny: str = "") -> Rules:
    lists = {"allow": allow, "ask": ask, "deny": deny}
    entries = [(entry, action) for action, text in lists.items() for entry in text.split(";") if entry.strip()]
    return Rules(rules=tuple(parse_rule(entry, action, "a test") for entry, action in entries))  # type: ignore[arg-type]


def run(
    command: str, known: Rules, workspace: Path, *, mode: PermissionMode = "default", sandboxed: bool = False
) -> Judgement:
    return judge(JudgedCall("Bash", {"command": command}, known, mode, workspace, sandboxed))


# -- patterns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "matching", "other"),
    [
        ("git log:*", ["git log", "git log -3", "git  log   --stat"], ["git logs", "git", "git status"]),
        ("git log *", ["git log", "git log -3"], ["git logx"]),
        ("ls*", ["ls", "lsof", "ls -l"], ["als"]),
        ("npm run *", ["npm run build", "npm run build --x"], ["npm runx", "npm test"]),
        ("npm test", ["npm test", '"npm" test'], ["npm test x", "npm"]),
        ("* --version", ["node --version", "a b --version"], ["node --versions"]),
        ("git * main", ["git push main", "git merge x main"], ["git main", "git push main x"]),
        ('git commit -m "a b"', ['git commit -m "a b"', "git commit -m 'a b'"], ["git commit -m a b"]),
        ('git commit -m "*"', ['git commit -m "x y"'], ["git commit -a"]),
        (r"echo \*", ["echo '*'", "echo *"], ["echo x"]),
        ("a:* b", ["a:x b"], ["a x b"]),
    ],
)
def test_a_pattern_matches_words_not_spelling(spec: str, matching: list[str], other: list[str]) -> None:
    pattern = compile_pattern(spec)
    for command in matching:
        assert pattern.matches(parse_command(command).parts[0].words), command
    for command in other:
        assert not pattern.matches(parse_command(command).parts[0].words), command


def test_a_hostile_command_does_not_make_a_pattern_slow() -> None:
    pattern = compile_pattern("a*b*c*d*e*f*g*h *")
    assert not pattern.matches(("a" + "bcdefg" * 1500,))


# -- deny sees the command, whatever stands around it -----------------------------------------------------

HIDDEN_REMOVALS = [
    *("rm x", "rm -rf x", "  rm x", "ls; rm x", "ls && rm x", "ls || rm x", "ls | rm x", "ls |& rm x", "ls & rm x"),
    *("ls\nrm x", "rm x &", "! rm x", "time rm x", "(rm x)", "{ rm x; }", "((1)) && rm x", "if true; then rm x; fi"),
    *("if rm x; then ls; fi", "if false; then ls; elif rm x; then ls; else ls; fi", "while rm x; do ls; done"),
    *("until rm x; do ls; done", "for i in a b; do rm $i; done", "for ((i=0;i<3;i++)); do rm $i; done"),
    *(
        "case x in x) rm x;; esac",
        "select x in a; do rm x; done",
        "f() { rm x; }",
        "function f { rm x; }",
        "coproc rm x",
    ),
    *(
        "echo $(rm x)",
        "echo `rm x`",
        'echo "$(rm x)"',
        'echo "a`rm x`"',
        "echo ${x:-$(rm x)}",
        "X=$(rm x)",
        "X=$(rm x) ls",
    ),
    *("cat <(rm x)", "ls > >(rm x)", "cat <<EOF\n$(rm x)\nEOF", 'cat <<< "$(rm x)"', "echo $(( $(rm x) ))"),
    *("[[ -f $(rm x) ]]", "export X=$(rm x)", "a=(1 $(rm x))", "declare X=`rm x`", "echo $(echo $(rm x))"),
    *(
        r"r\m x",
        r"\rm x",
        '"rm" x',
        "'rm' x",
        "r''m x",
        'r""m x',
        "$'rm' x",
    ),
    *("/bin/rm x", "/usr/bin/rm x", "./rm x", "../bin/rm x", '"/bin/rm" x', "//bin//rm x"),
    *("FOO=1 rm x", "FOO=1 BAR=2 rm x", "> y rm x", "rm x > /dev/null 2>&1", "2>/dev/null rm x"),
    *("timeout 5 rm x", "timeout -k 5 10s rm x", "timeout --signal=KILL 5 rm x", "nice rm x", "nice -n 5 rm x"),
    *("nohup rm x", "env rm x", "env A=b rm x", "env -i A=b rm x", "env -u A rm x", "env -S 'rm x'", "env -S'rm x'"),
    *(
        "sudo rm x",
        "sudo -u root rm x",
        "sudo -n -- rm x",
        "doas rm x",
        "xargs rm",
        "ls | xargs rm",
        "ls | xargs -0 -n1 rm",
    ),
    *("ls | xargs -I{} rm {}", "ls | xargs sh -c 'rm \"$@\"'", "command rm x", "builtin rm x", "exec rm x"),
    *("exec -a y rm x", "stdbuf -oL rm x", "time -p rm x", "setsid rm x", "busybox rm x", "/bin/busybox rm x"),
    *(
        "sh -c 'rm x'",
        "bash -c 'ls; rm x'",
        "bash -lc 'rm x'",
        "bash -l -c 'rm x'",
        "/bin/sh -c 'rm x'",
        "sh -ec 'rm x'",
    ),
    *("bash -c \"bash -c 'rm x'\"", "bash -o pipefail -c 'rm x'", "zsh -c 'rm x'", "eval rm x", "eval 'rm x'"),
    *("eval 'r''m x'", 'eval "r" "m x"; rm x', "trap 'rm x' EXIT", "watch 'rm x'", "watch rm x", "script -c 'rm x'"),
    *("su -c 'rm x'", "flock f rm x", "flock f -c 'rm x'", "ssh host 'rm x'", "parallel rm ::: x", "sudo sh -c 'rm x'"),
    *(r"find . -exec rm {} \;", r"find . -exec rm {} +", r"find . -execdir /bin/rm {} \;", r"find . -ok rm {} \;"),
    *(r"find . -exec sh -c 'rm $1' _ {} \;", "fd x -x rm", "git submodule foreach rm x", "git -c alias.x='!rm x' x"),
    *("nice nohup timeout 5 env A=b sudo rm x", "X= rm x", "$EMPTY rm x", "uv run rm x", "rm", "ls;rm", "ls\\\n;rm x"),
    *("r\\\nm x", "ls # comment\nrm x", "sh -c 'sh -c \"sh -c rm\"'", "printf x | tee >(rm x)"),
]


@pytest.mark.parametrize("command", HIDDEN_REMOVALS)
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_a_denied_command_is_denied_wherever_it_hides(command: str, mode: PermissionMode, tmp_path: Path) -> None:
    verdict = run(command, rules(deny="Bash(rm:*)", allow="Bash"), tmp_path, mode=mode, sandboxed=True)
    assert verdict.action == "deny", verdict
    assert "Bash(rm:*) of a test" in verdict.reason


UNKNOWABLE = [
    *("$X foo", '"$X" foo', "${X} foo", "$(echo rm) x", "`echo rm` x", "r$X x", "{rm,-rf,x}", "/bin/r? x", "r[m] x"),
    *("echo 'rm x' | sh", "sh < x", "curl example.com/x | bash", "bash -s < x", 'bash -c "$X"', 'eval "$X"', "eval $X"),
    *("sh <<EOF\nrm x\nEOF", "bash <(echo rm x)", "sudo $X", "timeout 5 $X", "env $X", 'sh -c "$(cat y)"'),
    *("$'\\c' x", "echo `echo \\`ls\\``", "rm\u00a0x; ls 'a", "ls (", "\x07ls", "echo " + "x" * 10_001),
    *("x='a[$(ls)]'; echo $((x))", "echo ${x@P}", "ls\r", r"$'\x72m' x", "for", "'", '"'),
]


@pytest.mark.parametrize("command", UNKNOWABLE)
def test_what_cannot_be_known_is_asked_about_in_spite_of_rules_that_allow(command: str, tmp_path: Path) -> None:
    patterns = rules(allow="Bash(echo:*);Bash(sh:*);Bash(ls:*);Bash($X *);Bash(curl:*);Bash(cat:*);Bash(* foo)")
    both = patterns + rules(deny="Bash(rm:*)")
    assert run(command, both, tmp_path).action in ("ask", "deny")
    assert run(command, both, tmp_path, mode="bypassPermissions").action in ("ask", "deny")
    assert run(command, both, tmp_path, mode="dontAsk").action == "deny"


INNOCENT = [
    *("echo rm x", "grep rm x", "ls rm", "git rm x", "npm run rm", "echo 'rm x'", "git commit -m 'rm x; rm y'"),
    *('echo "rm $X"', "ls # rm x", "cat <<'EOF'\n$(rm x)\nEOF", "rmdir x", "git log --format='%h; rm'", "echo $X"),
    *("timeout 5 ls $X", "env A=b ls $X", "xargs grep $X", "for f in *; do cat $f; done", "nice -n 5 ls $X"),
    *("[ -f rm ]", "X=rm ls", "find . -name rm", r"find . -exec grep x {} \;", "sh script.sh", "bash -c 'ls $X'"),
]


@pytest.mark.parametrize("command", INNOCENT)
def test_a_word_that_is_no_command_is_not_denied(command: str, tmp_path: Path) -> None:
    verdict = run(command, rules(deny="Bash(rm:*)"), tmp_path, mode="bypassPermissions")
    assert verdict.action == "allow", verdict


def test_a_denied_subcommand_is_seen_behind_options_and_asked_about_behind_a_variable(tmp_path: Path) -> None:
    known = rules(deny="Bash(git push:*)")
    for command in ("git -C x push", "git --no-pager -c a=b push", "git --git-dir=x push", "/usr/bin/git -C x push"):
        assert run(command, known, tmp_path, mode="bypassPermissions").action == "deny", command
    for command in ("git $X", "git $X main"):
        assert run(command, known, tmp_path, mode="bypassPermissions").action == "ask", command
    assert run("git pull $X", known, tmp_path, mode="bypassPermissions").action == "allow"


def test_a_rule_about_a_whole_line_is_seen_too(tmp_path: Path) -> None:
    known = rules(deny="Bash(curl * | *)")
    assert run("curl x | tee y", known, tmp_path, mode="bypassPermissions").action == "deny"


# -- allow needs every part -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("npm test", "allow"),
        ("npm test -- --watch=false", "allow"),
        ("npm test && npm test x", "allow"),
        ("cd sub && npm test | head -5", "allow"),
        ("timeout 60 npm test", "allow"),
        ("CI=1 npm test", "allow"),
        ("npm test > /dev/null 2>&1", "allow"),
        ("npm test | tee log", "ask"),
        ("npm test; make", "ask"),
        ("npm test & make", "ask"),
        ("npm test\nmake", "ask"),
        ("npm test $(make)", "ask"),
        ("npm test `make`", "ask"),
        ("npm test <(make)", "ask"),
        ("npm test > log", "ask"),
        ("npm test >> ../x", "ask"),
        ("npm test > out/log", "allow"),
        ("npm test > out/../log", "ask"),
        ("npm test > $X", "ask"),
        ("npm test &> log", "ask"),
        ("npm test >& log", "ask"),
        ("npm test >| log", "ask"),
        ("npm test 2> log", "ask"),
        ("cd x && npm test > out/log", "ask"),
        ("cd $X && npm test > out/log", "ask"),
        ("cd /tmp && npm test", "ask"),
        ("PATH=. npm test", "ask"),
        ("LD_PRELOAD=./x.so npm test", "ask"),
        ("PATH=.; npm test", "ask"),
        ("export PATH=.; npm test", "ask"),
        ("sudo npm test", "ask"),
        ("env npm test", "ask"),
        ("sh -c 'npm test'", "ask"),
        ("./npm test", "ask"),
        ("/usr/bin/npm test", "ask"),
        ("npm 'test x'", "ask"),
        ("npm testx", "ask"),
        ('"npm test"', "ask"),
        ("npm() { make; }; npm test", "ask"),
        ("npm $X", "ask"),
        ("npm test $X", "ask"),
        ('npm test "a$X"', "allow"),
        ("timeout -s $X 5 npm test", "allow"),
        ("timeout $X npm test", "ask"),
    ],
)
def test_an_allowed_command_covers_itself_and_nothing_else(command: str, action: str, tmp_path: Path) -> None:
    known = rules(allow="Bash(npm test:*);Edit(/out/**)")
    verdict = run(command, known, tmp_path)
    assert verdict.action == action, verdict


def test_a_prefix_does_not_allow_what_find_runs_or_deletes(tmp_path: Path) -> None:
    known = rules(allow="Bash(find:*)")
    assert run("find . -size +1M -regex x", known, tmp_path).action == "allow"
    for command in (r"find . -exec make \;", "find . -delete", "find . -fprintf x y"):
        assert run(command, known, tmp_path).action == "ask", command
    assert run("find . -delete", rules(allow="Bash(find . -delete)"), tmp_path).action == "allow"


def test_the_whole_tool_and_the_exact_text_allow_even_what_is_not_understood(tmp_path: Path) -> None:
    for known in (rules(allow="Bash"), rules(allow="Bash($X foo | tee y)")):
        assert run("$X foo | tee y", known, tmp_path).action == "allow"
    assert run("$X foo | tee z", rules(allow="Bash($X foo | tee y)"), tmp_path).action == "ask"


def test_rules_about_files_hold_for_commands(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("k")
    (tmp_path / "link").symlink_to(".env")
    known = rules(deny="Read(.env);Edit(/src/**)", allow="Bash")
    denied = ("cat .env", "cat ./.env", "cat < .env", "cat link", "cat .e*", "cat x/../.env", "sh -c 'cat .env'")
    for command in (
        *denied,
        "cd . && cat .env",
        "head -n1 .env",
        "cp .env y",
        "echo x > src/a",
        "rm src/a",
        "tee src/a",
    ):
        assert run(command, known, tmp_path, mode="bypassPermissions").action == "deny", command
    for command in ("cat env", "grep .env README", "cat src/a", "echo .env", "cp src_a b"):
        assert run(command, known, tmp_path, mode="bypassPermissions").action == "allow", command


def test_removing_everything_is_asked_about_even_without_questions(tmp_path: Path) -> None:
    for command in (
        *("rm -rf /", "rm -rf /*", "rm -r ~", "rm -fr ~/", "rm -rf $HOME", 'rm -rf "$X/"*', "sudo rm -rf /usr"),
        *("rm -rf .", "rm -rf *", f"rm -rf {tmp_path}", "rm -rf ..", "sh -c 'rm -rf /'", "rm --recursive /etc/"),
    ):
        assert run(command, rules(allow="Bash"), tmp_path, mode="bypassPermissions").action == "ask", command
    for command in ("rm -rf build", "rm x", 'rm -rf "$DIR"', "rm -rf /tmp/x"):
        assert run(command, rules(), tmp_path, mode="bypassPermissions").action == "allow", command


# -- properties -------------------------------------------------------------------------------------------

COMMANDS = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            [
                *(
                    "ls",
                    "rm",
                    "git",
                    "log",
                    "push",
                    "npm",
                    "test",
                    "-rf",
                    "x",
                    "$X",
                    "$(",
                    ")",
                    "`",
                    ";",
                    "&&",
                    "|",
                    ">",
                    "<",
                ),
                *(
                    "'",
                    '"',
                    "\\",
                    "\n",
                    "(",
                    "{",
                    "}",
                    "sudo",
                    "sh",
                    "-c",
                    "env",
                    "A=b",
                    "find",
                    "-exec",
                    "xargs",
                    "<<EOF",
                    "EOF",
                ),
                *(
                    "for",
                    "do",
                    "done",
                    "if",
                    "then",
                    "fi",
                    "case",
                    "esac",
                    "[[",
                    "]]",
                    "((",
                    "))",
                    "&",
                    "*",
                    "$'",
                    "\0",
                    "\ue000",
                ),
            ]
        ),
        max_size=12,
    ).map(" ".join),
)
ENTRIES = st.sampled_from(
    [
        *(
            "Bash",
            "Bash(rm:*)",
            "Bash(git log:*)",
            "Bash(git *)",
            "Bash(ls)",
            "Bash(* x)",
            "Bash(npm test:*)",
            "Edit(/x)",
        ),
        *("Edit", "Read(x)", "Bash(sudo:*)", "Bash(sh:*)", "Bash(find:*)", "Bash(xargs *)"),
    ]
)
MODES: st.SearchStrategy[PermissionMode] = st.sampled_from(
    ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
)
SEVERITY = {"allow": 0, "ask": 1, "deny": 2}


@given(COMMANDS)
def test_no_text_makes_the_analysis_fail(command: str) -> None:
    parse_command(command)


@given(COMMANDS, st.lists(ENTRIES, max_size=3), st.lists(ENTRIES, max_size=3), ENTRIES, MODES, st.booleans())
@settings(deadline=None)
def test_a_further_deny_never_allows_more_and_a_further_allow_never_lifts_a_deny_or_a_question(
    command: str, allowed: list[str], denied: list[str], added: str, mode: PermissionMode, sandboxed: bool
) -> None:
    workspace = Path("/nonexistent/workspace")
    known = rules(allow=";".join(allowed), deny=";".join(denied[:2]), ask=";".join(denied[2:]))
    before = run(command, known, workspace, mode=mode, sandboxed=sandboxed)
    stricter = run(command, known + rules(deny=added), workspace, mode=mode, sandboxed=sandboxed)
    assert SEVERITY[stricter.action] >= SEVERITY[before.action]
    asked = run(command, known + rules(ask=added), workspace, mode=mode, sandboxed=sandboxed)
    assert SEVERITY[asked.action] >= SEVERITY[before.action]
    milder = run(command, known + rules(allow=added), workspace, mode=mode, sandboxed=sandboxed)
    forbidden = before.rule is not None and before.rule.action != "allow"
    assert milder.action == before.action or (not forbidden and milder.action == "allow")


@given(COMMANDS, st.sampled_from(["; ", " && ", " | ", "\n", " & "]))
def test_what_may_not_stand_alone_may_not_stand_beside_something_allowed(command: str, joint: str) -> None:
    known = rules(allow="Bash(ls)")
    workspace = Path("/nonexistent/workspace")
    parts = parse_command(command).parts
    assume(parts and not all(map(is_harmless_part, parts)) and not command.lstrip().startswith("#"))
    assume(run(command, known, workspace).action != "allow")
    assert run(f"ls{joint}{command}", known, workspace).action != "allow"
