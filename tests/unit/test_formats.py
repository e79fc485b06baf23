"""Documents of other formats: an older one is upgraded step by step, a newer one refused with the reason; images have this release's tag.

Tests of swarm/core/formats.py, swarm/client/upgrade.py, swarm/agent/needs.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from swarm.agent.needs import Has, Needs, find_unmet, formats
from swarm.client.upgrade import compare_releases
from swarm.core import formats as reading
from swarm.core.release import FORMAT, VERSION


class Trip(BaseModel):
    """A record whose format has changed twice."""

    v: Annotated[int, Field(ge=3, le=3)] = 3
    places: list[str]


def _to_second(name: str, document: dict[str, Any]) -> dict[str, Any]:
    return {"place": document["town"]} if name == "Trip" else document


def _to_third(name: str, document: dict[str, Any]) -> dict[str, Any]:
    return {"places": [document["place"]]} if name == "Trip" else document


@pytest.fixture(autouse=True)
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release whose format is the third."""
    monkeypatch.setattr(reading, "FORMAT", 3)
    monkeypatch.setattr(reading, "UPGRADES", {1: _to_second, 2: _to_third})


@pytest.mark.parametrize(
    "document", [{"town": "Rome"}, {"v": 1, "town": "Rome"}, {"v": 2, "place": "Rome"}, {"v": 3, "places": ["Rome"]}]
)
def test_a_document_of_any_older_format_is_read_as_todays(document: Mapping[str, Any]) -> None:
    read = reading.read_document(Trip.model_validate_json, "Trip", json.dumps(document))
    assert read == Trip(places=["Rome"])


def test_a_newer_document_is_refused_with_its_format() -> None:
    with pytest.raises(reading.NewerFormat, match="it has format 4, and this release reads up to 3: upgrade it"):
        reading.read_document(Trip.model_validate_json, "Trip", '{"v": 4}')


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v": 3}', '{"v": 0, "town": 1}', '{"v": "2"}', '{"v": 1.5}'])
def test_what_is_broken_stays_broken(text: str) -> None:
    with pytest.raises((ValidationError, KeyError)):
        reading.read_document(Trip.model_validate_json, "Trip", text)


def test_an_agent_fits_workers_that_read_its_format() -> None:
    needs = Needs(wants=tuple(formats(3, 3)))
    older, newer = (Has(node=f"w{number}", offers=dict.fromkeys(formats(1, number), "")) for number in (2, 4))
    assert (needs.format, older.format, newer.format, Has().format) == (3, 2, 4, 1)
    assert find_unmet(needs, older) == "it needs format 3, and w2 reads up to 2: upgrade it"
    assert find_unmet(needs, newer) == "" and newer.special == []


def test_the_oldest_workers_are_upgraded_first_and_open_jobs_say_what_they_need() -> None:
    def has(version: str, newest: int, host: str) -> Has:
        return Has(version=version, offers=dict.fromkeys(formats(1, newest), ""), host=host)

    fleet = {
        "a": has(VERSION, FORMAT, "h"),
        "b": has("0.0.9", 1, "h"),
        "c": has("", 1, "h"),
        "d": has("0.0.10", 1, "h"),
    }
    found = compare_releases(fleet, {"job-1": {1: 5}, "job-2": {1: 1, FORMAT + 1: 2}})
    assert [one.worker for one in found.order] == ["c", "b", "d"]
    assert found.unread == {"job-2": FORMAT + 1} and not found.done
    assert {(one.leaves_agents, one.leaves_jobs) for one in found.workers} == {(2, 1)}
    assert compare_releases({"a": fleet["a"]}, {"job-1": {1: 5}}).done
    assert compare_releases({}, {"job-1": {1: 5}}).done
    assert not compare_releases({"a": fleet["a"]}, {"job-2": {FORMAT + 1: 2}}).done


def test_the_images_that_deploy_names_have_the_tag_of_this_release() -> None:
    root = Path(__file__).parents[2] / "deploy"
    texts = [path.read_text() for path in root.rglob("*") if path.suffix in (".yaml", ".md")]
    tags = [tag for text in texts for tag in re.findall(r'\bswarm:([0-9]\S*?)`?(?:\s|$)|newTag: "(.+)"', text)]
    assert len(tags) >= 4 and {plain or kustomized for plain, kustomized in tags} == {VERSION}
