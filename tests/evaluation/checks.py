"""Checks of the evaluations of our own prompts: `python3 "$SWARM_SET/checks.py" NAME`, in the last files of a run.

A check says the first thing that is wrong, and exits with 1. Those of whole jobs read them from the swarm.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm

SHOP = Path(__file__).parent / "shop"
_PLACE = re.compile(r"(?<![\w/.-])((?:[\w.-]+/)*[\w-]+\.(?:py|md)):(\d+)")
_MADE_BY_TOOLS = {"__pycache__", ".git", ".swarm"}
_DIGEST_SECONDS = 60.0
SENT_BACK = "This order was sent back:"

FACTS = {
    "the port": r"7443",
    "the rule about the ledger": r"/srv/ledger\b(?s:.*)14(th)? (of )?March|March 14(?s:.*)/srv/ledger\b",
    "the error": r"EPIPE while flushing segment 0x1f3a",
    "the decision": r"copier v2",
    "the alternative that is ruled out": r"(?i)rsync",
    "the checksum": r"b41f9c",
    "the limit": r"9216",
    "the limit's place": r"limits\.toml:27",
    "the order of the disk": r"PO-88213",
    "who looks for the cause": r"Tomasz(?s:.*)quince|quince(?s:.*)Tomasz",
}
"""What the night's log holds between its lines of routine; a summary must keep each that it stands for."""
_LEAST_FACTS = 6
"""A cut before so many facts tests nothing."""


class Refused(Exception):
    """The run's work is not good; the words say why."""


def demand(holds: object, why: str) -> None:
    """Refuse the work unless this holds."""
    if not holds:
        raise Refused(why)


# -- answers and files -------------------------------------------------------------------------------------------


def sections(answer: str, *headings: str) -> dict[str, str]:
    """Return the text below each of these headings. They must come in this order."""
    found: dict[str, str] = {}
    rest = answer
    for number, heading in enumerate(headings):
        parts = re.split(rf"^#+ *{re.escape(heading)} *$", rest, maxsplit=1, flags=re.MULTILINE | re.IGNORECASE)
        demand(len(parts) == 2, f"the heading {heading!r} is missing, or not in its order")
        if number:
            found[headings[number - 1]] = parts[0]
        rest = parts[1]
    return {**found, headings[-1]: rest}


def check_places(answer: str, folder: Path, least: int) -> None:
    """Each `path:line` must be a line of a file."""
    places = _PLACE.findall(answer)
    demand(len(set(places)) >= least, f"{len(set(places))} places are named as path:line, fewer than {least}")
    for path, line in places:
        demand((folder / path).is_file(), f"{path} does not exist")
        lines = (folder / path).read_text().count("\n")
        demand(1 <= int(line) <= lines, f"{path} has {lines} lines; there is no line {line}")


def contents(folder: Path) -> dict[str, str]:
    """Return the files of a folder, without those that tools make."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    inside = ((path, path.relative_to(folder)) for path in found)
    return {
        str(name): path.read_text(errors="replace") for path, name in inside if not _MADE_BY_TOOLS & set(name.parts)
    }


def changed(folder: Path, original: Path = SHOP) -> dict[str, list[str]]:
    """Return each changed file's added and removed lines."""
    old, new = contents(original), contents(folder)
    return {
        name: [
            line
            for line in difflib.ndiff(old.get(name, "").splitlines(), new.get(name, "").splitlines())
            if line[:2] in ("+ ", "- ")
        ]
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }


def demand_unchanged(folder: Path, *but: str) -> None:
    """Refuse changes of other files than these."""
    others = [name for name in changed(folder) if name not in but]
    demand(not others, f"{', '.join(others)} differs, though it was not to be changed")


def demand_runs(folder: Path, *program: str) -> None:
    """Refuse files with which this Python program fails."""
    ended = subprocess.run(
        [sys.executable, "-B", *program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    demand(ended.returncode == 0, f"{' '.join(program)[:60]} fails: {ended.stderr.strip()[-200:]}")


def check_plan(answer: str, folder: Path) -> None:
    """A plan has its headings, rests on places that exist, names what breaks, and changes nothing."""
    parts = sections(answer, "Goal", "Findings", "Steps", "Risks", "Verification")
    demand_unchanged(folder)
    check_places(parts["Findings"], folder, 1)
    demand(re.search(r"^\s*1[.)]", parts["Steps"], re.MULTILINE), "the steps are not numbered")
    demand("prices.py" in parts["Steps"] and "order_total" in parts["Steps"], "the steps do not name order_total")
    demand("check_prices.py" in parts["Steps"], "the caller check_prices.py is not in the steps")
    demand("check_prices.py" in parts["Verification"], "the verification does not run check_prices.py")


def check_research(answer: str, folder: Path) -> None:
    """Research tells what happens from what was meant, with its evidence."""
    parts = sections(answer, "Answer", "Findings", "Contradictions and gaps")
    demand_unchanged(folder)
    demand(re.search(r"(?i)\bfour\b|\b4\b", parts["Answer"]), "it is taken off four times; the answer does not say so")
    demand(re.search(r"(?i)\b(high|medium|low)\b", parts["Answer"]), "the answer says no confidence")
    check_places(parts["Findings"], folder, 2)
    demand("NOTES.md" in parts["Contradictions and gaps"], "the contradiction to NOTES.md is not told")


def check_improvement(answer: str, folder: Path) -> None:
    """An improvement is small, takes no check away, and is proved by the project's own check."""
    lines = changed(folder)
    demand(lines, "nothing is changed, though check_prices.py shows a certain fault")
    demand(sum(map(len, lines.values())) <= 20, f"{sum(map(len, lines.values()))} lines are changed, more than 20")
    demand(not any(line.startswith("- assert") for line in lines.get("check_prices.py", ())), "a check is taken away")
    # The project's own check as it was, on the changed code.
    demand_runs(folder, "-c", (SHOP / "check_prices.py").read_text())
    demand_runs(folder, "check_prices.py")
    check_places(answer, folder, 1)
    demand("check_prices.py" in answer, "the answer does not say how it was checked")


def check_part(answer: str, folder: Path) -> None:
    """A worker does its part, all of it, within its file."""
    demand_unchanged(folder, "stock.py")
    asked = "from stock import missing, is_short; assert (missing(2, 5), missing(5, 2), is_short(1, 2)) == (3, 0, True)"
    demand_runs(folder, "-c", asked)
    demand(re.search(r"(?i)\bdone\b", answer) and "python" in answer, "the state and the command are not reported")


def check_wrong_part(answer: str, folder: Path) -> None:
    """A worker reports instructions that do not fit the code, instead of doing something else."""
    demand_unchanged(folder)
    demand(re.search(r"(?i)not done|partly done", answer), "the report does not say that it is not done")
    demand("reserve" in answer, "the report does not name what is missing")


# -- jobs ----------------------------------------------------------------------------------------------------------


def calls_of(swarm: Swarm, agent_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and inputs of an agent's calls."""
    for entry in swarm.journal(agent_id):
        for block in getattr(entry, "content", ()) if entry.kind == "assistant" else ():
            if block.get("type") == "tool_use":
                yield block["name"], block["input"]


def check_lead(swarm: Swarm, job_id: str, folder: Path) -> None:
    """A coordinator has the work done and then verified by another agent, with orders that can stand alone."""
    demand_unchanged(folder, "prices.py")
    demand_runs(folder, "check_prices.py")
    agents = swarm.job(job_id).agents()
    below = {one.definition: one.started_at or 0 for one in agents if one.parent_id == agents[0].id}
    demand("worker" in below, f"no worker was started, but {', '.join(below) or 'nobody'}")
    demand("verification" in below, f"no verification was started, but {', '.join(below)}")
    demand(below["verification"] > below["worker"], "the verification began before the work")
    results = [entry.text for entry in swarm.journal(agents[0].id) if entry.kind == "tool_finished"]
    back = [text for text in results if text.startswith(SENT_BACK)]
    demand(len(back) <= 1, f"{len(back)} orders were sent back, as the last one: {' '.join(back[-1:])}")


def check_program(swarm: Swarm, job_id: str) -> None:
    """A planner's program has phases, labels and bounds, and starts two agents for each file."""
    agents = swarm.job(job_id).agents()
    scripts = [given.get("script", "") for name, given in calls_of(swarm, agents[0].id) if name == "Workflow"]
    demand(scripts, "no program was written")
    script = scripts[-1]
    demand("phase(" in script and "label=" in script, "the program has no phases, or its agents no labels")
    demand("limit=" in script, "the program does not bound its parallel work")
    demand(".ok" in script or ".error" in script, "the program does not look at failed branches")
    programs = [one for one in agents[1:] if one.parent_id == agents[0].id]
    started = [one for one in agents if one.parent_id in {each.id for each in programs}]
    demand(all(one.phase for one in started), "an agent stands in no phase")
    demand(len(started) >= 6, f"{len(started)} agents were started, fewer than two for each of three files")


def check_summary(swarm: Swarm, job_id: str) -> None:
    """A summary keeps each fact that it stands for."""
    entries = swarm.journal(swarm.job(job_id).view().root_id)
    cuts = [number for number, entry in enumerate(entries) if entry.kind == "compacted"]
    demand(cuts, "the conversation was not cut: set SWARM_COMPACT_TOKENS for the workers, as the README says")
    told = "\n".join(entry.text for entry in entries[: entries[cuts[-1]].through] if entry.kind == "tool_finished")
    check_facts(told, entries[cuts[-1]].summary)


def check_facts(told: str, summary: str) -> None:
    """Each fact of the text must be in its summary."""
    stand = [name for name, pattern in FACTS.items() if re.search(pattern, told)]
    demand(len(stand) >= _LEAST_FACTS, f"the summary stands for {len(stand)} facts, fewer than {_LEAST_FACTS}")
    lost = [name for name in stand if not re.search(FACTS[name], summary)]
    demand(not lost, f"the summary lacks {', '.join(lost)}")


def check_lines(swarm: Swarm, job_id: str) -> None:
    """Lines for people are short, have their form, and claim nothing that was not done."""
    job, until = swarm.job(job_id), time.monotonic() + _DIGEST_SECONDS
    while not job.view().digest and time.monotonic() < until:
        time.sleep(0.1)  # the digest is made after the end
    told: dict[str, list[str]] = {"progress": [], "title": [], "digest": []}
    for event in job.follow():
        if event.kind == "summary":
            told[event.fields["sort"]].append(event.fields["text"])
    check_told(told["progress"], told["title"], told["digest"])


def check_told(progress: Sequence[str], title: Sequence[str], digest: Sequence[str]) -> None:
    """Check the lines, titles and digests of a job that looked for functions and ran nothing."""
    demand(progress, "no line told of the work")
    for line in progress:
        demand(re.match(r"\w+ing\b", line), f"the line does not begin with a verb in the -ing form: {line}")
        demand(len(line.split()) <= 15, f"the line has more than 15 words: {line}")
    demand(title and len(title[-1].split()) <= 6, f"there is no title of at most 6 words: {title}")
    demand(digest, "there is no digest")
    demand("order_total" in digest[-1], f"the digest does not tell the result: {digest[-1]}")
    claimed = re.search(r"(?i)\b(tests?|checks?) (were |was )?(ran|run|pass(ed|es)?)\b", digest[-1])
    demand(not claimed, f"the digest claims a check that was not made: {digest[-1]}")


_OF_FILES: dict[str, Callable[[str, Path], None]] = {
    "plan": check_plan,
    "research": check_research,
    "improvement": check_improvement,
    "part": check_part,
    "wrong-part": check_wrong_part,
}
_OF_JOBS: dict[str, Callable[[Swarm, str], None]] = {
    "lead": lambda swarm, job_id: check_lead(swarm, job_id, Path.cwd()),
    "program": check_program,
    "summary": check_summary,
    "lines": check_lines,
}


def main(name: str) -> None:
    """Run the check of this name on the run that the environment tells."""
    try:
        if name in _OF_FILES:
            _OF_FILES[name](Path(os.environ["SWARM_ANSWER"]).read_text(), Path.cwd())
        else:
            from swarm import Settings, Swarm

            _OF_JOBS[name](Swarm(Settings()), os.environ["SWARM_JOB_ID"])
    except Refused as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1])
