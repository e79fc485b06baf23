"""A program's shared parts keep to themselves what no other part names: Lua has 200 local names for them all.

Tests of swarm/store/library.py.
"""

from __future__ import annotations

import re

from swarm.store.library import STEPS, _find_words, _scope

PART = """-- What `hidden` is for.
local LIMIT, hidden = 3, {}
local later  -- elsewhere
local quiet
local function told(id) return hidden[id] or LIMIT end
local function own() return told(1) end
"""


def test_only_what_others_name_leaves_the_scope_of_its_part() -> None:
    scoped = _scope(
        PART, [_find_words("step('x', function(job) return told(job) end)  -- not own"), {"later", "LIMIT"}]
    )
    assert scoped.startswith("local LIMIT\nlocal later\nlocal told\ndo\n")
    body = scoped.partition("do\n")[2]
    assert "local hidden; LIMIT, hidden = 3, {}" in body
    assert "\nlocal quiet\n" in body and "\nlocal function own()" in body
    assert "\nfunction told(id)" in body and "local later" not in body


def test_the_swarms_own_program_has_room_for_more() -> None:
    assert len(re.findall(r"^local \w+$", STEPS.source, re.MULTILINE)) < 170
