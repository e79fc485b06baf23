"""Read, Write and Edit on real files.

Tests of swarm/tools/edit.py, swarm/tools/notebooks.py, swarm/tools/outputs.py, swarm/tools/read.py.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from swarm.core.errors import ToolError
from swarm.tools.outputs import MAX_OUTPUT_CHARACTERS, fit
from tests.tool_world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


# -- Read -------------------------------------------------------------------------------------------------


def test_read_numbers_lines_and_remembers_the_mtime(world: World) -> None:
    path = world.file("a.txt", "one\ntwo\n")
    assert world.call("Read", file_path="a.txt").text == "     1\tone\n     2\ttwo"
    assert world.ctx.files_read == {str(path): path.stat().st_mtime_ns}


def test_read_pages_through_a_file_without_losing_a_line(world: World) -> None:
    world.file("long.txt", "".join(f"line {number}\n" for number in range(1, 5001)))
    seen: list[str] = []
    offset = 1
    while True:
        lines = world.call("Read", file_path="long.txt", offset=offset).text.split("\n")
        more = lines[-1].startswith("[")
        seen += [line.split("\t")[1] for line in (lines[:-1] if more else lines)]
        if not more:
            break
        offset = int(lines[-1].removesuffix("]").rpartition("=")[2])
    assert seen == [f"line {number}" for number in range(1, 5001)]


def test_read_honours_offset_and_limit(world: World) -> None:
    world.file("a.txt", "1\n2\n3\n4\n")
    text = world.call("Read", file_path="a.txt", offset=2, limit=2).text
    assert text == "     2\t2\n     3\t3\n[… more follows; continue with offset=4]"


def test_read_beyond_the_end_says_where_the_end_is(world: World) -> None:
    world.file("a.txt", "1\n2\n")
    assert world.call("Read", file_path="a.txt", offset=9).text == "[there is no line 9: the last line is 2]"


def test_read_cuts_a_long_line_and_says_how_long_it_is(world: World) -> None:
    world.file("a.txt", "x" * 3_000_000 + "\nend\n")
    text = world.call("Read", file_path="a.txt").text
    assert "it has 3,000,001 characters" in text and text.endswith("     2\tend")
    assert len(text) < 3_000


def test_read_result_never_exceeds_what_a_conversation_takes(world: World) -> None:
    world.file("wide.txt", ("y" * 1_900 + "\n") * 500)
    assert len(world.call("Read", file_path="wide.txt").text) <= MAX_OUTPUT_CHARACTERS


def test_read_of_an_empty_file_says_so(world: World) -> None:
    world.file("a.txt", "")
    assert world.call("Read", file_path="a.txt").text == "[a.txt is empty]"


def test_read_of_binary_data_tells_size_and_type(world: World) -> None:
    world.file("a.zip", b"PK\x03\x04\0\0\0\0")
    with pytest.raises(ToolError, match=r"binary \(application/zip, 8 bytes\)"):
        world.call("Read", file_path="a.zip")


def test_read_of_a_folder_points_to_ls(world: World) -> None:
    world.file("sub/a.txt", "")
    with pytest.raises(ToolError, match="use LS"):
        world.call("Read", file_path="sub")


def test_read_of_a_missing_file_suggests_near_names(world: World) -> None:
    world.file("src/Settings.py", "")
    with pytest.raises(ToolError, match=r"did you mean src/Settings\.py"):
        world.call("Read", file_path="src/setting.py")


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
def test_no_file_tool_follows_a_link_out_of_the_workspace(world: World, tool: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (world.root / "link.txt").symlink_to(secret)
    extra = {"Read": {}, "Write": {"content": "x"}, "Edit": {"old_string": "secret", "new_string": "x"}}[tool]
    with pytest.raises(ToolError, match="outside the workspace"):
        world.call(tool, file_path="link.txt", **extra)
    assert secret.read_text() == "secret"


def test_read_shows_utf16_text_and_strips_windows_line_ends(world: World) -> None:
    world.file("a.txt", "gr\u00fcn\r\nblau\r\n".encode("utf-16"))
    assert world.call("Read", file_path="a.txt").text == "     1\tgr\u00fcn\n     2\tblau"


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def test_read_shows_an_image_as_a_block_whatever_its_name(world: World) -> None:
    world.file("picture.bin", _png())
    blocks = world.call("Read", file_path="picture.bin").blocks
    assert blocks is not None
    assert blocks[0]["source"]["media_type"] == "image/png"
    assert base64.b64decode(blocks[0]["source"]["data"]) == _png()


def test_read_refuses_an_image_that_the_api_would_refuse(world: World) -> None:
    world.file("big.png", _png() + b"\0" * 6_000_000)
    with pytest.raises(ToolError, match="smaller copy"):
        world.call("Read", file_path="big.png")


# -- kept output ------------------------------------------------------------------------------------------


def test_short_text_is_left_as_it_is(world: World) -> None:
    assert fit(world.ctx.outputs, "key", "short") == "short"
    assert world.outputs.texts == {}


def test_long_text_keeps_head_and_tail_and_the_rest_can_be_read_by_page(world: World) -> None:
    whole = "".join(f"line {number}\n" for number in range(20_000))
    text = fit(world.ctx.outputs, "key", whole)
    assert len(text) <= MAX_OUTPUT_CHARACTERS
    assert text.startswith("line 0\n") and text.endswith("line 19999\n")
    assert 'Read(file_path="output:key"' in text
    page = world.call("Read", file_path="output:key", offset=10_001, limit=1).text
    assert page.startswith(" 10001\tline 10000")
    assert world.ctx.files_read == {}


def test_the_offset_in_the_note_is_the_first_line_that_was_left_out(world: World) -> None:
    text = fit(world.ctx.outputs, "key", "".join(f"line {number}\n" for number in range(1, 20_001)))
    before, _, note = text.partition("\n[…")
    offset = int(note.partition("offset=")[2].partition(",")[0])
    assert offset == int(before.rpartition("line ")[2]) + 1


def test_kept_output_of_a_single_line_can_be_read_to_its_end(world: World) -> None:
    world.outputs.keep("key", "a" * 100_000 + "end")
    text = world.call("Read", file_path="output:key", offset=45, limit=50).text
    assert text.endswith("end")


def test_an_unknown_handle_is_an_error(world: World) -> None:
    with pytest.raises(ToolError, match="nothing is kept under output:none"):
        world.call("Read", file_path="output:none")


# -- Write ------------------------------------------------------------------------------------------------


def test_write_creates_a_file_and_its_folders(world: World) -> None:
    result = world.call("Write", file_path="a/b/c.txt", content="one\ntwo")
    assert result.text == "Created a/b/c.txt (2 lines, 7 bytes)."
    assert (world.root / "a/b/c.txt").read_text() == "one\ntwo"


def test_write_over_a_file_that_was_not_read_is_refused(world: World) -> None:
    path = world.file("a.txt", "theirs")
    with pytest.raises(ToolError, match="Read it first"):
        world.call("Write", file_path="a.txt", content="mine")
    assert path.read_text() == "theirs"


def test_write_over_a_file_that_changed_since_it_was_read_is_refused(world: World) -> None:
    path = world.file("a.txt", "first")
    world.call("Read", file_path="a.txt")
    path.write_text("theirs")
    os.utime(path, ns=(1, 1))
    with pytest.raises(ToolError, match="has changed since you read it"):
        world.call("Write", file_path="a.txt", content="mine")
    assert path.read_text() == "theirs"


def test_a_file_can_be_written_again_and_edited_after_it_was_written(world: World) -> None:
    world.call("Write", file_path="a.txt", content="one")
    world.call("Write", file_path="a.txt", content="two")
    world.call("Edit", file_path="a.txt", old_string="two", new_string="three")
    assert (world.root / "a.txt").read_text() == "three"


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", "sub/.git/config"])
def test_write_into_git_internals_is_refused(world: World, path: str) -> None:
    with pytest.raises(ToolError, match="git commands"):
        world.call("Write", file_path=path, content="x")
    assert not (world.root / path).exists()


def test_a_read_only_agent_writes_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path, read_only=True)
    world.file("a.txt", "old")
    world.call("Read", file_path="a.txt")
    with pytest.raises(ToolError, match="read-only"):
        world.call("Write", file_path="a.txt", content="new")
    with pytest.raises(ToolError, match="read-only"):
        world.call("Edit", file_path="a.txt", old_string="old", new_string="new")
    assert (world.root / "a.txt").read_text() == "old"


def test_text_that_no_file_can_hold_is_an_error_of_the_tool(world: World) -> None:
    with pytest.raises(ToolError, match="encoding utf-8"):
        world.call("Write", file_path="a.txt", content="\ud800")


# -- Edit -------------------------------------------------------------------------------------------------


def edited(world: World, content: str | bytes, old: str, new: str, **extra: bool) -> bytes:
    path = world.file("file.txt", content)
    world.call("Read", file_path="file.txt")
    world.call("Edit", file_path="file.txt", old_string=old, new_string=new, **extra)
    return path.read_bytes()


def test_edit_replaces_the_one_match_and_shows_the_lines_around_it(world: World) -> None:
    world.file("a.txt", "".join(f"{number}\n" for number in range(100, 120)))
    world.call("Read", file_path="a.txt")
    text = world.call("Edit", file_path="a.txt", old_string="110\n", new_string="new\nlines\n").text
    assert text.startswith("Changed a.txt (1 match replaced).")
    assert "    11\tnew\n    12\tlines\n    13\t111" in text and "    8\t107" in text


def test_edit_of_several_matches_is_refused_with_their_number_and_lines(world: World) -> None:
    with pytest.raises(ToolError, match=r"matches 3 times in file.txt \(lines 1, 2, 4\)"):
        edited(world, "x\nx\ny\nx\n", "x", "z")


def test_edit_replaces_all_when_asked(world: World) -> None:
    assert edited(world, "x\nx\ny\nx\n", "x", "z", replace_all=True) == b"z\nz\ny\nz\n"


def test_edit_without_a_match_hints_at_what_is_similar(world: World) -> None:
    with pytest.raises(ToolError, match=r"0 matches.*line 2 is similar"):
        edited(world, "def f():\n\treturn 1\n", "    return 1", "    return 2")


def test_edit_with_line_numbers_copied_from_read_is_explained(world: World) -> None:
    with pytest.raises(ToolError, match="leave out the line numbers"):
        edited(world, "alpha\n", "     1\talpha", "beta")


def test_edit_that_changes_nothing_is_refused(world: World) -> None:
    with pytest.raises(ToolError, match="nothing to change"):
        edited(world, "x\n", "x", "x")


def test_edit_of_a_file_that_was_not_read_is_refused(world: World) -> None:
    world.file("a.txt", "x")
    with pytest.raises(ToolError, match="have not read"):
        world.call("Edit", file_path="a.txt", old_string="x", new_string="y")


def test_edit_keeps_windows_line_ends(world: World) -> None:
    assert edited(world, b"a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3") == b"1\r\n2\r\n3\r\nc\r\n"


def test_edit_keeps_mixed_line_ends_elsewhere(world: World) -> None:
    assert edited(world, b"a\nb\nc\r\nd\n", "b", "x\ny") == b"a\nx\ny\nc\r\nd\n"
    world.ctx.files_read.clear()
    assert edited(world, b"a\nb\nc\r\nd\r\ne\nf\n", "c\nd", "x\ny") == b"a\nb\nx\r\ny\r\ne\nf\n"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "latin-1"])
def test_edit_keeps_the_encoding(world: World, codec: str) -> None:
    before, after = "Gr\u00f6\u00dfe: eins\n" * 3 + "ende\n", "Gr\u00f6\u00dfe: eins\n" * 3 + "ma\u00df\n"
    assert edited(world, before.encode(codec), "ende", "ma\u00df") == after.encode(codec)


def test_edit_refuses_a_character_that_the_encoding_lacks(world: World) -> None:
    with pytest.raises(ToolError, match="latin-1 does not have"):
        edited(world, "Gr\u00f6\u00dfe und Ma\u00df hier\n".encode("latin-1"), "hier", "\u20ac")


def test_edit_through_a_link_changes_the_target_and_keeps_the_link(world: World) -> None:
    target = world.file("real.txt", "old")
    (world.root / "link.txt").symlink_to("real.txt")
    world.call("Read", file_path="link.txt")
    world.call("Edit", file_path="real.txt", old_string="old", new_string="new")
    assert (world.root / "link.txt").is_symlink() and target.read_text() == "new"


# -- NotebookEdit -----------------------------------------------------------------------------------------


def _notebook(**more: Any) -> dict[str, Any]:
    printed = {"output_type": "stream", "name": "stdout", "text": ["3\n"]}
    drawn = {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}, "metadata": {}}
    failed = {"output_type": "error", "ename": "E", "evalue": "no", "traceback": ["\x1b[31mE\x1b[0m: no"]}
    code = {
        "cell_type": "code",
        "execution_count": 7,
        "id": "ab12",
        "metadata": {"keep": 1},
        "outputs": [printed, drawn, failed],
    }
    cells = [
        {"cell_type": "markdown", "id": "top", "metadata": {}, "source": ["# Sums\n", "Größe"]},
        {**code, "source": ["x = 3\n", "print(x)"]},
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def test_read_shows_a_notebook_by_cells_with_their_outputs(world: World) -> None:
    world.file("a.ipynb", json.dumps(_notebook()))
    lines = [line.partition("\t")[2] for line in world.call("Read", file_path="a.ipynb").text.split("\n")]
    assert lines == [
        *("[cell top: markdown]", "# Sums", "Größe", "[cell ab12: code, run 7]", "x = 3", "print(x)"),
        *("[output]", "3", "[output]", "<Figure>", "[image/png]", "[output]", "E: no"),
    ]
    world.file("broken.ipynb", '{"cells": [')
    assert world.call("Read", file_path="broken.ipynb").text.endswith('{"cells": [')


@pytest.mark.parametrize(("indent", "ends"), [(1, "\n"), (2, "\r\n"), (None, "")])
def test_a_change_of_a_cell_leaves_the_rest_of_the_file_as_it_is(world: World, indent: int | None, ends: str) -> None:
    text = json.dumps(_notebook(), indent=indent, ensure_ascii=False).replace("\n", ends or "\n") + ends
    path = world.file("a.ipynb", text)

    def change(**given: Any) -> str:
        return world.call("NotebookEdit", notebook_path="a.ipynb", **given).text

    with pytest.raises(ToolError, match="not read"):
        change(cell_id="top", new_source="x")
    world.call("Read", file_path="a.ipynb")
    assert change(cell_id="top", new_source="# Sums\nGröße") == "a.ipynb: Replaced cell top; 2 cells now."
    assert path.read_bytes() == text.encode()
    inserted = change(edit_mode="insert", cell_id="top", new_source="y = 4", cell_type="code")
    added = json.loads(path.read_text())["cells"][1]
    made = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ["y = 4"]}
    assert added == {**made, "id": added["id"]} and f"Inserted cell {added['id']}; 3 cells now" in inserted
    assert change(edit_mode="delete", cell_id=added["id"]).endswith("2 cells now.")
    assert path.read_bytes() == text.encode()
    change(cell_id="cell-1", new_source="x = 4")
    after = json.loads(path.read_text())["cells"][1]
    assert (after["source"], after["outputs"], after["execution_count"]) == (["x = 4"], [], None)
    assert after["metadata"] == {"keep": 1}
    change(cell_id="ab12", new_source="# words", cell_type="markdown")
    assert "outputs" not in json.loads(path.read_text())["cells"][1]


def test_a_notebook_is_changed_by_its_cells_and_faults_say_what_there_is(world: World) -> None:
    old = _notebook(nbformat_minor=4)
    for cell in old["cells"]:
        del cell["id"]
    path = world.file("old.ipynb", json.dumps(old))
    world.call("Read", file_path="old.ipynb")
    with pytest.raises(ToolError, match="is a notebook; change its cells with NotebookEdit"):
        world.call("Edit", file_path="old.ipynb", old_string="x", new_string="y")
    for given, said in (
        ({"cell_id": "zz", "new_source": ""}, "there is no cell 'zz'; the cells are cell-0, cell-1"),
        ({"new_source": ""}, "say in cell_id which cell to replace"),
        ({"cell_id": "cell-0"}, "new_source is missing"),
    ):
        with pytest.raises(ToolError, match=said):
            world.call("NotebookEdit", notebook_path="old.ipynb", **given)
    world.call("NotebookEdit", notebook_path="old.ipynb", edit_mode="insert", new_source="first", cell_type="markdown")
    assert json.loads(path.read_text())["cells"][0] == {"cell_type": "markdown", "metadata": {}, "source": ["first"]}
    world.file("a.txt", "x")
    world.call("Read", file_path="a.txt")
    with pytest.raises(ToolError, match="is no notebook"):
        world.call("NotebookEdit", notebook_path="a.txt", new_source="")
