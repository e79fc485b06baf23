"""Nothing that a model, a file or a message says runs in the page, or deceives who decides by it; and everybody can use it.

Tests of swarm/web/static/markdown.mjs, swarm/web/static/plain.mjs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from swarm.capabilities.memory.pages import Author, Memories
from swarm.core.ids import root_agent_id
from swarm.definitions.memory_stores import Places
from tests.e2e.browser import Tab, expect
from tests.e2e.page_world import EVIL, Site, opened_tab
from tests.flower import running_flower

STATIC = Path(__file__).parents[2] / "swarm/web/static"
AXE = (Path(__file__).parent / "vendor/axe.min.js").read_text()


def remember(site: Site, job_id: str) -> None:
    """A page of the project's memory, as the job has written it."""
    store = site.fleet.swarm.store
    places = Places.model_validate_json(store.keyspace.client.hget(store.keyspace.key("job", job_id), "memory"))
    Memories(store.keyspace).change(
        places.memory_store("team", ""), "write", "a.md", Author(EVIL, job=job_id), text=EVIL
    )


def test_no_module_of_the_page_makes_markup_or_code_of_text() -> None:
    own = [path for path in STATIC.rglob("*") if path.suffix in (".mjs", ".html") and path.parent.name != "vendor"]
    assert len(own) > 20
    banned = re.compile(
        r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|javascript:"
    )
    found = [
        f"{path.name}: {line.strip()}" for path in own for line in path.read_text().splitlines() if banned.search(line)
    ]
    assert found == []


def test_every_module_that_is_loaded_is_there_and_is_ours() -> None:
    for path in STATIC.rglob("*.mjs"):
        for named in re.findall(r"""(?:from|import)\s*["']([^"']+)["']""", path.read_text()):
            assert named.startswith("."), (path.name, named)
            assert (path.parent / named).is_file(), (path.name, named)


# -- what models write --------------------------------------------------------------------------------------


def test_nothing_that_a_model_writes_runs(site: Site, tab: Tab) -> None:
    (site.fleet.workspace / EVIL.replace("/", "_")).mkdir(exist_ok=True)
    job = site.tell("evil", title=EVIL)
    site.question(job)
    root = root_agent_id(job.id)
    site.fleet.swarm.job(job.id).send(root, EVIL)
    remember(site, job.id)
    tab.page.on(
        "request",
        lambda request: request.url.startswith(site.flower.url.rpartition("/")[0]) or tab.noise.append(request.url),
    )
    page = tab.open("#/")
    expect(tab.role("link", name=EVIL, exact=True)).to_be_visible()
    tab.open(f"#/{job.id}/{root}")
    expect(page.locator(".question")).to_contain_text(f"{EVIL}?")
    log = tab.role("log")
    expect(log).to_contain_text("click (javascript:alert(3))")
    expect(log).to_contain_text("<svg onload=alert(4)>")
    expect(log).to_contain_text("ab\\u202eba")
    for place in (
        "?tab=mail",
        "?panel=board",
        "?panel=pad",
        "?panel=messages",
        "?panel=timeline",
        "?panel=cost",
        "?panel=memory",
    ):
        tab.open(f"#/{job.id}/{root}{place}")
        expect(page.get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
    tab.open(f"#/{job.id}/{root}?panel=memory")
    tab.role("button", name="a.md").click()
    page.get_by_text("Versions", exact=True).click()
    expect(page.get_by_role("listitem").filter(has_text="write by").first).to_be_visible()
    expect(page.get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
    assert page.locator("#swarm img, #swarm script, #swarm svg, #swarm iframe, #swarm a[href^=javascript]").count() == 0
    job.cancel()


def test_the_browser_refuses_markup_made_of_text(tab: Tab) -> None:
    tab.open("#/")
    with tab.page.expect_console_message():
        tried = tab.page.evaluate(
            '() => { try { document.body.innerHTML = "<b>" } catch (error) { return error.name } }'
        )
    assert tried == "TypeError"
    tab.noise.clear()


def test_a_page_of_somebody_elses_markdown_is_text(tab: Tab) -> None:
    tab.open("#/")
    made = tab.page.evaluate(
        """async (texts) => {
          const {html, render} = await import("/swarm/static/html.mjs");
          const {Markdown} = await import("/swarm/static/markdown.mjs");
          return texts.map((text) => {
            const box = document.createElement("div");
            render(html`<${Markdown} text=${text} />`, box);
            return {text: box.textContent, tags: [...box.querySelectorAll("*")].map((one) => one.localName)};
          });
        }""",
        [
            "# T\n\n- a\n  - b\n\n1. x\n2. y\n\n> q\n\n| h | i |\n|---|---|\n| 1 | `2` |\n\n**b** *i* ~~s~~ ***",
            "[x](data:text/html,<script>alert(1)</script>) ![y](http://e/x.png) <a href='javascript:1'>z</a> <!-- c -->",
            "```html\n<script>alert(1)</script>\n",
            "\u202e\u200b\ufeff\x00\x1b[31m" + "> " * 60 + "deep" + "*" * 500 + "`" * 501 + "[" * 500,
            "| a | b |\n|---|---|\n" + "|" * 300,
        ],
    )
    first, links, fence, odd, _ = made
    assert {"li", "ol", "blockquote", "table", "strong", "em", "s", "code"} <= set(first["tags"])
    assert (
        "x (data:text/html,<script>alert(1)</script>" in links["text"]
        and "<a href='javascript:1'>z</a> <!-- c -->" in links["text"]
    )
    assert "<script>alert(1)</script>" in fence["text"] and "pre" in fence["tags"]
    assert "\\u202e\\u200b\\ufeff\\u0000\\u001b[31m" in odd["text"] and "deep" in odd["text"]
    assert not {"a", "img", "script", "svg", "iframe"} & {tag for one in made for tag in one["tags"]}


# -- who may what --------------------------------------------------------------------------------------------


def test_where_flower_is_read_only_no_act_is_offered(browser: Any, site: Site) -> None:
    job = site.tell("hold")
    site.question(job)
    with running_flower(site.fleet, "--read-only") as flower, opened_tab(browser, flower) as tab:
        tab.open(f"#/{job.id}")
        expect(tab.page.locator(".question")).to_contain_text("May I go on?")
        expect(tab.page.locator(".steer")).to_contain_text("Flower is read-only")
        shown = tab.page.locator("#swarm button").all_inner_texts()
        assert not {"Send", "Answer", "Cancel …", "yes", "no"} & set(shown), shown
        tab.open("#/")
        expect(tab.role("region", name=re.compile("Needs you"))).to_be_visible()
        expect(tab.role("link", name="Start a job")).to_have_count(0)
    job.cancel()


# -- everybody ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "only"), [("light", {}), ("dark", {"runOnly": ["color-contrast"]})])
def test_axe_finds_no_serious_fault(browser: Any, site: Site, scheme: str, only: Any) -> None:
    job = site.tell("evil", title="for everybody")
    site.question(job)
    root = root_agent_id(job.id)
    remember(site, job.id)
    places = ["#/", "#/start", f"#/{job.id}/{root}", f"#/{job.id}/{root}?tab=mail", f"#/{job.id}/{root}?tab=about"]
    places += [
        f"#/{job.id}/{root}?panel={panel}" for panel in ("timeline", "board", "pad", "memory", "cost", "messages")
    ]
    with opened_tab(browser, site.flower, color_scheme=scheme) as tab:
        page = tab.open("#/")
        assert page.evaluate("document.documentElement.dataset.bsTheme") == scheme
        page.evaluate(AXE)
        for place in places:
            page.evaluate("place => { location.hash = place }", place)
            expect(page.locator("#swarm [aria-busy=true]")).to_have_count(0)
            expect(page.locator("#swarm h1")).to_be_visible()
            found = page.evaluate("only => axe.run('#swarm', {resultTypes: ['violations'], ...only})", only)
            assert [fault(each) for each in found["violations"] if each["impact"] in ("serious", "critical")] == [], (
                place
            )
    job.cancel()


def fault(found: Any) -> tuple[str, str, str]:
    """What axe found, and where first."""
    return found["id"], found["nodes"][0]["html"][:200], found["nodes"][0]["failureSummary"]
