"""The program that the steps are made of: its shared parts are tables, and whoever names a field of one finds it there.

Tests of swarm/store/lua.
"""

from __future__ import annotations

import re

from swarm.store.library import STEPS

_CODE = re.sub(r"--.*|'(?:\\.|[^'\\\n])*'", "", STEPS.source)
_MODULES = _CODE.partition("=")[0].removeprefix("local ").replace(" ", "").strip().split(",")
_FIELD = rf"(?<![\w.])((?:{'|'.join(_MODULES)})\.\w+)"


def test_whatever_a_file_names_of_a_shared_part_is_there() -> None:
    set_there = set(re.findall(rf"function {_FIELD}|^{_FIELD}(?=[, ].*=)", _CODE, re.MULTILINE))
    known = {function or value for function, value in set_there}
    assert len(known) > 100
    named = set(re.findall(_FIELD, _CODE))
    assert sorted(named - known) == []
    assert sorted(known - named) == []
