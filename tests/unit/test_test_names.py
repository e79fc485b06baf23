"""Test files outside of packages are imported by their names alone, so two with one name keep each other from being run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


def test_no_two_test_files_outside_of_packages_have_one_name() -> None:
    files = Path(__file__).parents[1].rglob("test_*.py")
    names = Counter(file.name for file in files if not (file.parent / "__init__.py").exists())
    assert [name for name, count in names.items() if count > 1] == []
