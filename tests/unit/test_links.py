"""A checkout without symbolic links says so, instead of failing in the middle of an import.

Tests of swarm/__init__.py.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

import swarm


def test_a_checkout_without_symbolic_links_is_refused_in_one_sentence(tmp_path: Path) -> None:
    shutil.copy(swarm.__file__, tmp_path / "__init__.py")
    (tmp_path / "tasks").write_text("../tasks")
    spec = importlib.util.spec_from_file_location("linkless", tmp_path / "__init__.py")
    assert spec is not None and spec.loader is not None
    with pytest.raises(ImportError, match="no symbolic links; clone it again with"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
