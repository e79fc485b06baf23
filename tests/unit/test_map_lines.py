"""The lines of a map, its template, and the file that its results go to.

Tests of swarm/core/lines.py, swarm/capabilities/mapping/maps.py, swarm/cli/map_output.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.capabilities.mapping.maps import LineResult
from swarm.cli.map_output import ResultFile, check_new
from swarm.core.errors import ConfigurationError
from swarm.core.lines import fill, read_lines


def result(line: int, state: str = "completed") -> LineResult:
    return LineResult(line=line, input=f"n{line}", state=state, text="ü", job_id="job-1")  # type: ignore[arg-type]


def test_lines_are_text_or_objects_and_never_both() -> None:
    assert read_lines("a\n\n b \r\n") == ["a", " b "]
    assert read_lines('{"a": "b\u2028c\x85d"}\r\n{"a": 1}') == [{"a": "b\u2028c\x85d"}, {"a": 1}]
    assert read_lines('{"a": 1}\n{"a": [2]}') == [{"a": 1}, {"a": [2]}]
    assert read_lines('{"a": 1}', "text") == ['{"a": 1}'] and read_lines("{ brace\n") == ["{ brace"]
    with pytest.raises(ConfigurationError, match=r"x\.jsonl, line 3 is not JSON"):
        read_lines('{"a": 1}\n\nplain\n', source="x.jsonl")
    with pytest.raises(ConfigurationError, match="line 1 is not a JSON object"):
        read_lines("[1]", "json")


@pytest.mark.parametrize(
    ("template", "line", "filled"),
    [
        ("see {path}, {path}", "a {b}", "see a {b}, a {b}"),
        ("see {}", "a", "see a"),
        ('{{path}} {"x": 1} { } {path}', "a", '{path} {"x": 1} { } a'),
        ("{a} {b.c} {}", {"a": "x", "b.c": [1, "ü"]}, 'x [1, "ü"] {"a": "x", "b.c": [1, "ü"]}'),
    ],
)
def test_a_template_is_filled_in_with_a_line(template: str, line: object, filled: str) -> None:
    assert fill(template, line, 1) == filled  # type: ignore[arg-type]


def test_a_file_of_results_is_taken_up_where_it_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with ResultFile("map-1", path, resumed=False) as file:
        for line in (2, 1, 2):
            file.write(result(line))
        file.write(result(3, "failed"))
        with pytest.raises(ConfigurationError, match="another command writes"):
            ResultFile("map-1", path, resumed=True)
    with path.open("ab") as torn:
        torn.write(b'{"map": "map-1", "line": 4, "inp')
    with ResultFile("map-1", path, resumed=True) as file:
        assert file.written == {1, 2}
        for line in (1, 2, 3, 4):
            file.write(result(line))
    assert [json.loads(line)["line"] for line in path.read_text().splitlines()] == [2, 1, 3, 4]
    with pytest.raises(ConfigurationError, match="line 1 holds a result of map-1, not of map-2"):
        ResultFile("map-2", path, resumed=True)
    with pytest.raises(ConfigurationError, match="is not empty"):
        check_new(path)
    with pytest.raises(ConfigurationError, match="/dev/full is not a regular file"):
        check_new(Path("/dev/full"))
