"""Names of repositories, and the servers that settings name.

Tests of swarm/workspace/sites.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.workspace.sites import find_site, name_of, read_name, site_of

NAMES = {
    "pallets/click": ("https://github.com/pallets/click", "", "github.com"),
    "pallets/click.git@8.1.7": ("https://github.com/pallets/click", "8.1.7", "github.com"),
    "pallets/click@feature/x": ("https://github.com/pallets/click", "feature/x", "github.com"),
    "https://git.example.org:8443/a/b/c.git": ("https://git.example.org:8443/a/b/c.git", "", "git.example.org:8443"),
    "https://gitlab.com/group/sub/project@main": ("https://gitlab.com/group/sub/project", "main", "gitlab.com"),
    "http://127.0.0.1:3000/o/p.git@v1": ("http://127.0.0.1:3000/o/p.git", "v1", "http://127.0.0.1:3000"),
    "http://[::1]:3000/o/p": ("http://[::1]:3000/o/p", "", "http://[::1]:3000"),
    "ssh://git@git.example.org:2222/o/p@main": ("ssh://git@git.example.org:2222/o/p", "main", "git.example.org"),
    "git@github.com:o/p.git": ("ssh://git@github.com/o/p.git", "", "github.com"),
    "git@github.com:o/p.git@dev": ("ssh://git@github.com/o/p.git", "dev", "github.com"),
    "file:///srv/git/p.git@main": ("file:///srv/git/p.git", "main", "file"),
    "file:///srv/%2E%2e/my%20p": ("file:///srv/../my%20p", "", "file"),
    "/srv/git/p.git": ("file:///srv/git/p.git", "", "file"),
}


@pytest.mark.parametrize("given", NAMES)
def test_a_name_gives_a_url_a_ref_and_a_server(given: str) -> None:
    url, ref = read_name(given)
    assert (url, ref, site_of(url)) == NAMES[given]


@pytest.mark.parametrize(
    "given",
    [
        *(
            "",
            "name",
            "owner/name/more",
            "-x/y",
            "https://user:secret@host/o/p",
            "https://token@host/o/p",
            "ext::sh -c x",
        ),
        *(
            "https://host",
            "ftp://host/o/p",
            "o/p@-x",
            "o/p@a..b",
            "o/p@a b",
            "https://host/o/p?x=1",
            "ssh://-oProxyCommand=x/p",
        ),
        *(
            "o/p@a/",
            "o/p@a.",
            "o/p@a/.b",
            "https://host/o/p\n/x",
            "https://host/o/%2e%2e/x",
            "https://[host/o/p",
            "file:///o/p%00",
            "ftp://user:secret@host/o/p",
        ),
    ],
)
def test_a_name_that_git_must_not_get_is_refused_in_one_sentence(given: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_name(given)
    assert "\n" not in str(caught.value) and "secret@" not in str(caught.value)


def test_a_path_with_a_sign_is_a_path_if_it_exists(tmp_path: Path) -> None:
    (tmp_path / "p@1").mkdir()
    assert read_name(str(tmp_path / "p@1")) == ((tmp_path / "p@1").as_uri(), "")
    assert read_name(f"{tmp_path}/p@1@main")[1] == "main"


def test_a_folder_is_named_like_the_repository() -> None:
    assert [name_of(url) for url in ("https://h/o/p.git", "https://h/o/.x y", "file:///")] == ["p", "x-y", "repository"]


def test_a_server_has_a_kind_and_reads_its_token_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    settings = Settings(forges={"a": "gitea:A_TOKEN", "b": f"gitlab:{file}", "c": "C_TOKEN", "d": "", "file": ""})
    a, b, c, d = (find_site(settings, f"https://{host}/o/p") for host in "abcd")
    assert a is not None and b is not None and c is not None and d is not None
    assert (a.kind, b.kind, c.kind, d.kind) == ("gitea", "gitlab", "", "") and (c.secret_name, d.secret_name) == (
        "C_TOKEN",
        "",
    )
    assert (a.secret, b.secret, d.secret) == ("", "", "") and "A_TOKEN" in a.lack and "holds no token" in a.lack
    monkeypatch.setenv("A_TOKEN", "one")
    file.write_text("two\nlines\n")
    assert b.secret == "", "an error about a header would show it"
    file.write_text("two\n")
    assert (a.secret, b.secret) == ("one", "two") and "SWARM_FORGES" in d.lack
    assert find_site(settings, "http://a/o/p") is None, "plain HTTP must be named as such"
    assert find_site(settings, "https://e/o/p") is None


@pytest.mark.parametrize(
    "forges", [{"https://a": ""}, {"a/b": ""}, {"a": "svn:X"}, {"a": "gitea:a b"}, {"-x": "gitea:$("}]
)
def test_a_wrong_setting_is_refused(forges: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        Settings(forges=forges)
