"""Abstract workflow programs, made by chance: their value by direct evaluation, and their text in each language of workflows.

Each part is a function of one short text that gives a short text or fails. Agents answer by their prompts alone, so a program has one
value, however its agents are interleaved.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from zlib import crc32

from swarm.workflows.trial import TriedCall, fail

Sort = Literal["agent", "typed", "ask", "slow", "sleep", "sub", "sequence", "parallel", "pipeline", "each", "rounds"]
LANGUAGES = ("native", "python", "javascript")
NEVER = "too slow"
"""Prompts of agents that never answer."""


@dataclass
class Part:
    """One part of a program."""

    name: str
    sort: Sort
    parts: list[Part] = field(default_factory=list)
    size: int = 1
    """Items, tries, seconds or rounds."""
    raises: bool = False
    """Its failure is an exception, and no value."""

    def mark(self) -> str:
        """What its agents' prompts begin with. Those that are tried again fail at first."""
        return f"{self.name}r" if self.sort == "agent" and self.size > 1 else self.name


def make_part(chance: random.Random, deep: int, names: list[int]) -> Part:
    """Make a part by chance, with parts in it up to this depth."""
    names[0] += 1
    name = f"p{names[0]}"
    if deep == 0 or chance.random() < 0.15:
        sort: Sort = chance.choice(("agent", "agent", "agent", "typed", "ask", "slow", "sleep", "sub"))
        return Part(name, sort, size=chance.randint(1, 3), raises=chance.random() < 0.4)
    sort = chance.choice(("sequence", "parallel", "pipeline", "each", "rounds"))
    count = 1 if sort in ("each", "rounds") else chance.randint(2, 3)
    parts = [make_part(chance, deep - 1, names) for _ in range(count)]
    if sort == "parallel" and chance.random() < 0.5:
        parts.append(parts[0])  # equal prompts at once
    return Part(name, sort, parts, size=chance.randint(1, 4))


def answer(call: TriedCall) -> Any:
    """Answer a call by its content, or fail it. What is tried again fails the first time, and now and then each time."""
    if call.given.get("subagent_type"):
        told = f"{call.given['subagent_type']} {json.loads(call.prompt)['x']}"
    else:
        told = call.prompt
    lot = crc32(told.encode())
    again = told.split()[0].endswith("r")
    if lot % 5 == 0 or (again and lot % 5 < 3 and call.id.endswith(".0")):
        fail(f"no answer to {told}")
    said = _mix([told])
    return {"v": said} if "result_schema" in call.given or call.given.get("subagent_type") else said


def _mix(texts: Sequence[str]) -> str:
    total = 7
    for text in texts:
        for letter in text + ",":
            total = (total * 31 + ord(letter)) % 99_991
    return str(total)


class _FailedPart(Exception):
    pass


def evaluate(part: Part, x: str) -> str:
    """Return a part's value, without any program."""
    inner = [lambda v, one=one: evaluate(one, v) for one in part.parts]
    match part.sort:
        case "agent" | "typed" | "ask" | "sub":
            return _asked(part, x)
        case "slow":
            return "late"
        case "sleep":
            return x
        case "sequence":
            for one in inner:
                x = one(x)
            return x
        case "parallel":
            return _mix([_settled(one, x) for one in inner])
        case "pipeline":
            return _mix([_settled(_chain(inner), f"{x}.{number}") for number in range(part.size)])
        case "each":
            return _mix([inner[0](f"{x}:{number}") for number in range(part.size)])
        case "rounds":
            for _ in range(part.size):
                x = inner[0](x)
                if x[-1] in "0123":
                    break
            return x


def _asked(part: Part, x: str) -> str:
    told = f"{part.mark()} {x}"
    if crc32(told.encode()) % 5:
        return _mix([told])
    if part.raises:
        raise _FailedPart
    return "failed"


def _settled(one: Callable[[str], str], x: str) -> str:
    try:
        return one(x)
    except _FailedPart:
        return "E"


def _chain(inner: Sequence[Callable[[str], str]]) -> Callable[[str], str]:
    def through(x: str) -> str:
        for one in inner:
            x = one(x)
        return x

    return through


def value_of(part: Part) -> str:
    """Return the whole program's value."""
    try:
        return evaluate(part, "go")
    except _FailedPart:
        return "X"


# -- the texts ---------------------------------------------------------------------------------------------------


def write_program(part: Part, language: str) -> str:
    """Write a program in a language: async Python for people, Python for models, or Claude Code's dialect."""
    found: dict[str, Part] = {}
    _find(part, found)
    if language == "javascript":
        functions = [f"async function {one.name}(x) {{ {_script(one)} }}" for one in found.values()]
        run = f'try {{ return await {part.name}("go"); }} catch (error) {{ return "X"; }}'
        return "\n".join([_SCRIPT, *functions, f'phase("begin"); log("{part.name}");', run])
    flow = "flow." if language == "native" else ""
    functions = [f"async def {one.name}(x):\n    {_python(one, flow)}" for one in found.values()]
    run = f'try:\n    value = await {part.name}("go")\nexcept Exception:\n    value = "X"\n'
    begin = f'{flow}phase("begin")\n{flow}log("{part.name}")\n'
    if language == "python":
        return "\n".join([_PYTHON, *functions, begin + run + "value"])
    body = "\n".join([*functions, begin + run + "return value"]).replace("\n", "\n    ")
    return f"{_PYTHON}\nasync def program(flow):\n    {body}\n"


def _find(part: Part, found: dict[str, Part]) -> None:
    found[part.name] = part
    for one in part.parts:
        _find(one, found)


_PYTHON = """
import asyncio

def mix(texts):
    total = 7
    for text in texts:
        for letter in text + ",":
            total = (total * 31 + ord(letter)) % 99991
    return str(total)
"""


def _python(part: Part, flow: str) -> str:
    inner = [one.name for one in part.parts]
    prompt = f'f"{part.mark()} {{x}}"'
    failing = "raise" if part.raises else 'return "failed"'
    match part.sort:
        case "agent" if part.size > 1 and flow:
            got = f"{flow}agent({prompt}, retry={part.size - 1})"
        case "agent" if part.size > 1:
            got = f"retry(lambda: agent({prompt}), times={part.size})"
        case "agent":
            got = f"{flow}agent({prompt})"
        case "typed":
            given = "dict" if flow else '{"type": "object"}'
            return f'try:\n        return (await {flow}agent({prompt}, returns={given}))["v"]\n    except Exception:\n        {failing}'
        case "ask":
            got = f"{flow}ask({prompt})"
        case "sub":
            return (
                f'try:\n        return (await {flow}workflow("{part.name}", {{"x": x}}))["v"]\n    except Exception:\n'
                f"        {failing}"
            )
        case "slow" if flow:
            got = f'{flow}agent(f"{NEVER} {part.name} {{x}}", timeout={part.size})'
            return f'try:\n        return await {got}\n    except TimeoutError:\n        return "late"'
        case "slow":
            return f'await asyncio.sleep({part.size})\n    return "late"'
        case "sleep":
            return f"await asyncio.sleep({part.size})\n    return x"
        case "sequence":
            return "\n    ".join([*(f"x = await {one}(x)" for one in inner), "return x"])
        case "parallel":
            return f'return mix([one.value if one.ok else "E" for one in await {flow}parallel({", ".join(f"{one}(x)" for one in inner)})])'
        case "pipeline":
            items = f'[f"{{x}}.{{number}}" for number in range({part.size})]'
            return f'return mix([one.value if one.ok else "E" for one in await {flow}pipeline({items}, {", ".join(inner)}, limit=2)])'
        case "each":
            return f'return mix(await {flow}each([f"{{x}}:{{number}}" for number in range({part.size})], {inner[0]}, limit=2))'
        case "rounds":
            return (
                f"for _ in range({part.size}):\n        x = await {inner[0]}(x)\n        if x[-1] in '0123':\n            break\n"
                "    return x"
            )
    return f"try:\n        return await {got}\n    except Exception:\n        {failing}"


_SCRIPT = """export const meta = { name: "program", description: "A program made by chance." };
const mix = (texts) => {
  let total = 7;
  for (const text of texts) for (const letter of text + ",") total = (total * 31 + letter.charCodeAt(0)) % 99991;
  return String(total);
};
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
"""


def _script(part: Part) -> str:
    inner = [one.name for one in part.parts]
    prompt = f"`{part.mark()} ${{x}}`"
    failing = 'throw new Error("it failed")' if part.raises else 'return "failed"'
    match part.sort:
        case "agent":
            once = f"got = await agent({prompt}); if (got !== null) return got;"
            return f"let got; for (let i = 0; i < {part.size}; i++) {{ {once} }} {failing};"
        case "typed":
            return f'const got = await agent({prompt}, {{ schema: {{ type: "object" }} }}); if (got) return got.v; {failing};'
        case "ask":
            return f"const got = await agent({prompt}); if (got !== null) return got; {failing};"
        case "sub":
            return f'try {{ return (await workflow("{part.name}", {{ x }})).v; }} catch (error) {{ {failing}; }}'
        case "slow":
            return f'return await Promise.race([agent(`{NEVER} {part.name} ${{x}}`), sleep({part.size}).then(() => "late")]);'
        case "sleep":
            return f"await sleep({part.size}); return x;"
        case "sequence":
            return " ".join([*(f"x = await {one}(x);" for one in inner), "return x;"])
        case "parallel":
            return f'return mix((await parallel([{", ".join(f"() => {one}(x)" for one in inner)}])).map((one) => one ?? "E"));'
        case "pipeline":
            items = ", ".join(f"`${{x}}.{number}`" for number in range(part.size))
            stages = ", ".join(f"(value) => {one}(value)" for one in inner)
            return f'return mix((await pipeline([{items}], {stages})).map((one) => one ?? "E"));'
        case "each":
            items = ", ".join(f"`${{x}}:{number}`" for number in range(part.size))
            return f"return mix(await Promise.all([{items}].map((item) => {inner[0]}(item))));"
        case "rounds":
            return f'for (let i = 0; i < {part.size}; i++) {{ x = await {inner[0]}(x); if ("0123".includes(x.at(-1))) break; }} return x;'
