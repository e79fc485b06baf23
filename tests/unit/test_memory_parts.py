"""Memory's pure parts: secrets, titles, the weave by which a job is taken back, and what a definition may have.

Tests of swarm/capabilities/memory/mounts.py, swarm/capabilities/memory/pages.py, swarm/core/secrets.py,
swarm/capabilities/memory/revert.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.capabilities.memory.mounts import title_of
from swarm.capabilities.memory.pages import Root, Version
from swarm.capabilities.memory.revert import name_without, without_job
from swarm.core.secrets import REMOVED, strip_secrets
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.markdown import read_markdown


@pytest.mark.parametrize(
    "text",
    [
        "sk-" + "ant-api03-" + "a1B2" * 10,
        "token ghp_" + "a1B2" * 9,
        "AKIA" + "A1B2" * 4,
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0." + "c2lnbmF0dXJlIQ",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "postgres://app:hunter2@db/x",
        "Authorization: Bearer abcdef123456",
        "DB_PASSWORD=hunter2hunter2",
        '"api_key": "0123456789abcdef"',
        r"{\"password\": \"hunter2hunter2\"}",
        r"{\\\"password\\\": \\\"hunter2hunter2\\\"}",
    ],
)
def test_what_looks_like_a_credential_is_left_out(text: str) -> None:
    stripped = strip_secrets(f"before {text} after")
    assert stripped.removed == 1 and REMOVED in stripped.text
    assert stripped.text.startswith("before ") and stripped.text.endswith(" after")


@pytest.mark.parametrize(
    "text",
    [
        "The password is read from the environment: password = os.environ['DB_PASSWORD']",
        "api_key: ${API_KEY}",
        "secret: see docs/secrets.md",
        "https://example.com/a:b@c and user@example.com",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "token_count = 12345678",
    ],
)
def test_words_about_credentials_stay(text: str) -> None:
    assert strip_secrets(text) == (text, 0)


def test_a_page_is_titled_by_its_description_or_its_first_line() -> None:
    assert title_of("---\nname: x\ndescription: 'What it says'\n---\nbody") == "What it says"
    assert title_of("\n## A heading\nmore") == "A heading"
    assert title_of("") == ""
    assert len(title_of("long " * 100)) == 120


def version(number: int, job: str, text: str, op: str = "write", **more: object) -> Version:
    about = {"new": number == 1, **more}
    return Version(version=number, op=op, text=text, job=job, agent="", by="", at=0, **about)


def test_a_job_s_lines_go_and_what_it_took_out_comes_back_in_its_place() -> None:
    versions = [
        version(1, "good", "a\nb\nc\n"),
        version(2, "bad", "a\nBAD\nc\nBAD too\n"),
        version(3, "good", "a\nBAD\nc\nmine\nBAD too\n"),
    ]
    assert without_job(versions, "bad") == "a\nb\nc\nmine\n"
    assert without_job(versions[:2], "good") == "BAD\nBAD too\n"
    assert without_job(versions, "nobody") == versions[-1].text


def test_what_others_deleted_stays_deleted_and_what_only_the_job_made_is_gone() -> None:
    assert without_job([version(1, "good", "a\n"), version(2, "bad", "", "delete")], "bad") == "a\n"
    assert without_job([version(1, "bad", "a\n"), version(2, "good", "", "delete")], "bad") is None
    assert without_job([version(1, "bad", "a\n")], "bad") is None


def test_what_stood_there_before_the_oldest_version_is_nobody_s() -> None:
    assert without_job([version(7, "bad", "old\nand bad\n"), version(8, "bad", "old\nand bad\nworse\n")], "bad") == (
        "old\nand bad\n"
    )


def test_of_versions_that_are_gone_the_lines_are_still_somebody_s() -> None:
    root = Root(text="old\nBAD\nalso old", by=[(1, ""), (1, "bad"), (1, "good")])
    assert without_job([version(7, "good", "old\nBAD\nmine\nalso old")], "bad", root) == "old\nmine\nalso old"
    assert without_job([version(7, "bad", "worse\n")], "bad", root) == "old\nalso old"
    assert without_job([version(7, "bad", "BAD\n")], "bad", Root(text="BAD", by=[(1, "bad")])) is None


def test_a_rename_is_undone_unless_somebody_renamed_it_since() -> None:
    moved = [version(1, "good", "a"), version(2, "bad", "a", "rename", source="right"), version(3, "good", "b")]
    assert name_without(moved, "bad") == "right"
    assert name_without([*moved, version(4, "good", "b", "rename", source="wrong")], "bad") is None
    assert name_without(moved, "good") is None


JOBS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.lists(st.sampled_from("abcd"), max_size=5)), min_size=1, max_size=6
)


@given(JOBS)
def test_to_take_back_is_final_and_takes_from_nobody_who_did_not_write(history: list[tuple[str, list[str]]]) -> None:
    versions = [version(at, job, "".join(f"{line}\n" for line in lines)) for at, (job, lines) in enumerate(history, 1)]
    assert without_job(versions, "nobody") == versions[-1].text
    wanted = without_job(versions, "x")
    if wanted is not None:
        taken = [*versions, version(len(versions) + 1, "", wanted, taken="x")]
        assert without_job(taken, "x") == wanted, "a second time changes nothing"
        # Whoever is taken back first, the same is left.
        rest = without_job(taken, "y")
        other = without_job(versions, "y")
        if rest is not None and other is not None and any(job == "z" for job, _ in history):
            both = [*versions, version(len(versions) + 1, "", other, taken="y")]
            assert without_job(both, "x") == rest


def test_a_definition_names_its_scope_and_anything_else_is_told(tmp_path: Path) -> None:
    path = tmp_path / "keeper.md"
    for given_scope, scope, warned in (("project", "project", False), ("galaxy", None, True), ("none", None, False)):
        path.write_text(f"---\nname: keeper\ndescription: d\nmemory: {given_scope}\n---\nKeep.\n")
        (definition,) = read_markdown(path).definitions
        assert definition.memory == scope
        assert any("unknown `memory`" in warning for warning in definition.warnings) is warned


def test_a_clone_s_type_has_the_person_s_memory_only_while_it_is_trusted(tmp_path: Path) -> None:
    home, clone = tmp_path / "home", tmp_path / "clone"
    for folder in (home, clone):
        (folder / ".claude" / "agents").mkdir(parents=True)
    (clone / ".git").mkdir()
    text = "---\nname: {0}\ndescription: d\nmemory: user\n---\nKeep.\n"
    (home / ".claude" / "agents" / "mine.md").write_text(text.format("mine"))
    (clone / ".claude" / "agents" / "theirs.md").write_text(text.format("theirs"))
    (clone / ".claude" / "agents" / "explore.md").write_text(text.format("explore"))
    catalogue = load_catalogue(clone, home)
    assert (catalogue.get("mine").memory, catalogue.get("theirs").memory) == ("user", "project")
    assert catalogue.get("explore").source == "shipped", (
        "one that would take a shipped one's place is left out as before"
    )
    assert any("the type theirs has your memory" in grant.text for grant in catalogue.grants)
    assert load_catalogue(clone, home, trusted=True).get("theirs").memory == "user"
