"""Show Jupyter notebooks as text for Read, and change their cells. Pure.

Guarantee: a change leaves everything else as it was, including the file's indentation, its order of keys and its line ends.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from swarm.core.errors import ToolError

MAX_BYTES = 50 * 1024 * 1024
CELL_TYPES = ("code", "markdown", "raw")
EDIT_MODES = ("replace", "insert", "delete")
_OUTPUT_LINES = 100
"""Lines shown of one output; agents read longer tables and logs with a program."""
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
Notebook = dict[str, Any]


def parse_notebook(name: str, text: str) -> Notebook | None:
    """Parse a file's notebook; None if its name or content is not a notebook's."""
    if not name.lower().endswith(".ipynb"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    cells = found.get("cells") if isinstance(found, dict) else None
    return found if isinstance(cells, list) and all(isinstance(cell, dict) for cell in cells) else None


# -- as it is shown ----------------------------------------------------------------------------------------


def show_notebook(notebook: Notebook) -> str:
    """Show each cell: its id for changes, its source, and the output of its last run."""
    return "\n".join(line for number in range(len(notebook["cells"])) for line in _show_cell(notebook, number))


def _show_cell(notebook: Notebook, number: int) -> Iterator[str]:
    cell = notebook["cells"][number]
    ran = f", run {cell['execution_count']}" if cell.get("execution_count") else ""
    yield f"[cell {_id_of(notebook, number)}: {cell.get('cell_type')}{ran}]"
    yield from _join(cell.get("source")).split("\n")
    for output in cell.get("outputs") or []:
        lines = _show_output(output).rstrip("\n").split("\n")
        yield "[output]"
        yield from lines[:_OUTPUT_LINES]
        if len(lines) > _OUTPUT_LINES:
            yield f"[… {len(lines) - _OUTPUT_LINES:,} more lines of output]"


def _show_output(output: dict[str, Any]) -> str:
    if output.get("output_type") == "error":
        return _ESCAPES.sub(
            "", "\n".join(output.get("traceback") or [f"{output.get('ename')}: {output.get('evalue')}"])
        )
    if "text" in output:
        return _ESCAPES.sub("", _join(output["text"]))
    data = output.get("data") or {}
    if plain := data.get("text/plain"):
        others = [kind for kind in data if kind.startswith("image/")]
        return "\n".join([_join(plain), *(f"[{kind}]" for kind in others)])
    return "\n".join(f"[{kind}]" for kind in data)


def _join(source: Any) -> str:
    return "".join(source) if isinstance(source, list) else str(source or "")


# -- as it is changed --------------------------------------------------------------------------------------


def change_notebook(text: str, notebook: Notebook, given: dict[str, Any], seed: str) -> tuple[str, str]:
    """Return the file's new text and a note of the change; `seed` gives a new cell's id. Raises `ToolError`."""
    mode, cells = given.get("edit_mode", "replace"), notebook["cells"]
    number = _find(notebook, given.get("cell_id", ""), mode)
    if mode != "delete" and "new_source" not in given:
        raise ToolError("new_source is missing; give the cell's whole new text")
    if mode == "insert":
        number += 1
        cells.insert(number, _make_cell(notebook, given.get("cell_type", "code"), given["new_source"], seed))
        done = f"Inserted cell {_id_of(notebook, number)}"
    else:
        done = f"{'Deleted' if mode == 'delete' else 'Replaced'} cell {_id_of(notebook, number)}"
        if mode == "delete":
            del cells[number]
        else:
            _replace(cells[number], given)
    return _write_like(text, notebook), f"{done}; {len(cells)} cell{'s'[: len(cells) != 1]} now"


def _find(notebook: Notebook, cell_id: str, mode: str) -> int:
    """Return the cell's index; -1 for an insertion at the beginning."""
    cells = notebook["cells"]
    if not cell_id and mode == "insert":
        return -1
    for number in range(len(cells)):
        if cell_id and cell_id in (cells[number].get("id"), f"cell-{number}"):
            return number
    known = ", ".join(_id_of(notebook, number) for number in range(min(len(cells), 50)))
    said = f"there is no cell {cell_id!r}" if cell_id else f"say in cell_id which cell to {mode}"
    raise ToolError(f"{said}; the cells are {known or 'none'}")


def _id_of(notebook: Notebook, number: int) -> str:
    """Return a cell's id, or its index from 0 if the notebook's version has no ids."""
    return str(notebook["cells"][number].get("id") or f"cell-{number}")


def _replace(cell: dict[str, Any], given: dict[str, Any]) -> None:
    kind = given.get("cell_type", cell.get("cell_type"))
    cell["source"] = _as(cell.get("source"), given["new_source"])
    if kind != "code":
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    else:
        # Its old outputs no longer apply.
        cell["outputs"], cell["execution_count"] = [], None
        cell.pop("attachments", None)
    cell["cell_type"] = kind


def _make_cell(notebook: Notebook, kind: str, source: str, seed: str) -> dict[str, Any]:
    made: dict[str, Any] = {"cell_type": kind}
    if kind == "code":
        made["execution_count"] = None
    if (notebook.get("nbformat", 4), notebook.get("nbformat_minor", 0)) >= (4, 5):
        known = {cell.get("id") for cell in notebook["cells"]}
        digest = hashlib.sha256(seed.encode()).hexdigest()
        made["id"] = next(digest[:length] for length in range(8, 65) if digest[:length] not in known)
    made |= {"metadata": {}, "outputs": []} if kind == "code" else {"metadata": {}}
    return made | {"source": _as([], source)}


def _as(before: Any, source: str) -> Any:
    """Return the source in the cell's own form: as lines, or as one string."""
    return source if isinstance(before, str) else source.splitlines(keepends=True)


def _write_like(text: str, notebook: Notebook) -> str:
    indent = re.match(r"\{\r?\n([ \t]+)", text)
    ascii_only = text.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", text) is not None
    separators = None if indent or re.search(r'^\{"[^"]*": ', text) else (",", ":")
    written = json.dumps(notebook, indent=indent and indent[1], ensure_ascii=ascii_only, separators=separators)
    ends = "\r\n" if "\r\n" in text else "\n"
    return written.replace("\n", ends) + text[len(text.rstrip()) :]
