"""How pages and folders of memory look to a model that views them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_DEPTH = 2


def number_lines(text: str, span: Sequence[int] | None = None) -> str:
    """The lines of a page with their numbers, all or from the first to the last of `span` (-1: the end)."""
    lines = text.split("\n")
    first = max(1, span[0]) if span else 1
    last = span[1] if span and span[1] != -1 else len(lines)
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines[first - 1 : max(last, 0)], start=first))


def list_folder(pages: Mapping[str, int], folder: str, shown: str) -> str | None:
    """Pages and folders below a folder, two levels deep, with their sizes; None if there is no such folder (the root always is).

    `pages` are sizes by path; `shown` is what the folder was called.
    """
    start = f"{folder}/" if folder else ""
    below = {path.removeprefix(start): size for path, size in pages.items() if path.startswith(start)}
    if not below and folder not in ("", "team"):
        return None
    sizes: dict[str, int] = {}
    for path, size in below.items():
        parts = path.split("/")
        for depth in range(1, min(len(parts), _DEPTH) + 1):
            name = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            sizes[name] = sizes.get(name, 0) + size
    head = f"Here're the files and directories up to {_DEPTH} levels deep in {shown}, excluding hidden items:"
    base = shown.rstrip("/")
    ordered = sorted(sizes, key=lambda name: name.rstrip("/").split("/"))
    rows = [f"{_show_size(sizes[name])}\t{base}/{name}" for name in ordered]
    return "\n".join([head, f"{_show_size(sum(below.values()))}\t{shown}", *rows])


def _show_size(size: int) -> str:
    if size < 1024:
        return f"{size}B"
    scaled = size / 1024 if size < 1024**2 else size / 1024**2
    unit = "K" if size < 1024**2 else "M"
    return f"{int(scaled)}{unit}" if scaled == int(scaled) else f"{scaled:.1f}{unit}"
