"""Messages: what each sender's journal says was delivered, what lay in the mailbox, what each receiver's conversation holds."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape

from tests.chaos.check.dump import History, Job
from tests.chaos.check.lives import calls_of, completed, entries_of, results_of
from tests.chaos.check.verdict import Fault

Pair = tuple[str, str]
"""A sender's and a receiver's agent id."""
_MESSAGE = re.compile(r'<message from="[^"]*" agent_id="([^"]*)" kind="message" id="[^"]*">\n(.*?)\n</message>', re.S)
_NOTICE = re.compile(r"<task-notification>\n<task-id>([^<]*)</task-id>(.*?)</task-notification>", re.S)
_CHATTER = re.compile(r"\bCHATTER((?:[ \t]+\w+=\d+)+)")


@dataclass
class Letters:
    """All messages between the agents of a job, in order."""

    sent: defaultdict[Pair, list[str]] = field(default_factory=lambda: defaultdict(list))
    lay: defaultdict[Pair, list[str]] = field(default_factory=lambda: defaultdict(list))
    """In the receiver's mailbox."""
    read: defaultdict[Pair, list[str]] = field(default_factory=lambda: defaultdict(list))
    refused: int = 0


def collect(job: Job) -> Letters:
    """What the journals and mailboxes of a job tell."""
    letters = Letters()
    names = {history.record["name"]: agent_id for agent_id, history in job.lives.items() if history.record.get("name")}
    for agent_id, history in job.lives.items():
        results = results_of(history)
        for block in calls_of(history):
            if block["name"] == "SendMessage" and (result := results.get(block["id"])):
                to = names.get(block["input"]["to"], block["input"]["to"])
                if not result["is_error"]:
                    letters.sent[agent_id, to].append(block["input"]["message"])
                letters.refused += result["is_error"]
        for _, message in history.mail:
            if message["kind"] == "message":
                letters.lay[message["from"], agent_id].append(message["body"])
        for entry in entries_of(history, "mail"):
            for sender, body in _MESSAGE.findall(entry["text"]):
                letters.read[sender, agent_id].append(unescape(body))
    return letters


def check_letters(job: Job, letters: Letters) -> Iterator[Fault]:
    """Whatever was lost, doubled or put in another order between a sender and a receiver."""
    for pair in letters.sent.keys() | letters.lay.keys() | letters.read.keys():
        receiver = job.lives.get(pair[1])
        if receiver is None or not completed(receiver):
            continue  # nobody was left to read it
        yield from _compare(pair, "sent", letters.sent[pair], "read", letters.read[pair])
        if letters.sent[pair] == letters.read[pair]:
            yield from _compare(pair, "read", letters.read[pair], "in the mailbox", letters.lay[pair])
    for history in job.lives.values():
        yield from _check_cursor(history)
        yield from _check_talk(history, letters)
    yield from _check_notices(job)


def _compare(pair: Pair, one: str, before: list[str], other: str, after: list[str]) -> Iterator[Fault]:
    where = f"{pair[0]} → {pair[1]}"
    missing, more = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if missing:
        yield Fault("lost", "message", where, f"{one}, and not {other}: {list(missing)[:3]}", missing.total())
    if more:
        yield Fault("doubled", "message", where, f"{other} more often than {one}: {list(more)[:3]}", more.total())
    left, right = _common(before, missing), _common(after, more)
    if left != right:
        first = next(number for number, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
        yield Fault(
            "reordered", "message", where, f"{one} {left[first : first + 3]}, {other} {right[first : first + 3]}"
        )


def _common(bodies: list[str], without: Counter[str]) -> list[str]:
    """The bodies that both sides have, the later ones of a body left out first."""
    over, kept = Counter(without), []
    for body in reversed(bodies):
        if over[body]:
            over[body] -= 1
        else:
            kept.append(body)
    return kept[::-1]


def _check_cursor(history: History) -> Iterator[Fault]:
    """Everything in its mailbox was taken in once, and in order."""
    lay = [message_id for message_id, _ in history.mail]
    taken = [message_id for entry in entries_of(history, "mail") for message_id in entry["ids"]]
    twice = (Counter(taken) - Counter(set(taken))).total()
    if twice:
        yield Fault("doubled", "mail", history.id, f"{twice} entries of its mailbox were taken in again", twice)
    if taken != sorted(taken, key=_position):
        yield Fault("reordered", "mail", history.id, "its mailbox was not taken in in order")
    left = set(lay) - set(taken)
    if left and completed(history):
        yield Fault("lost", "mail", history.id, f"{len(left)} entries of its mailbox were never taken in", len(left))
    if strange := set(taken) - set(lay):
        yield Fault("wrong", "mail", history.id, f"it took in what never lay in its mailbox: {sorted(strange)[:3]}")


def _position(message_id: str) -> tuple[int, int]:
    milliseconds, _, number = message_id.partition("-")
    return int(milliseconds), int(number or 0)


def _check_talk(history: History, letters: Letters) -> Iterator[Fault]:
    """One who was told to send so many messages has sent them."""
    first = entries_of(history, "started")[:1]
    orders = _CHATTER.findall(first[0]["spec"]["prompt"]) if first else []
    order = dict(pair.split("=", 1) for pair in orders[-1].split()) if orders else {}
    if "me" not in order or not completed(history):
        return
    wanted = int(order["messages"]) // int(order["agents"])
    sent = sum(len(bodies) for pair, bodies in letters.sent.items() if pair[0] == history.id)
    if sent != wanted:
        yield Fault("wrong", "answer", history.id, f"it was to send {wanted} messages, and sent {sent}")


def _check_notices(job: Job) -> Iterator[Fault]:
    """Who started an agent in the background is told of each of its ends, once."""
    told: Counter[Pair] = Counter()
    for agent_id, history in job.lives.items():
        for entry in entries_of(history, "mail"):
            found = _NOTICE.findall(entry["text"])
            told.update((child, agent_id) for child, rest in found if "<status>idle</status>" not in rest)
    for agent_id, history in job.lives.items():
        parent = job.lives.get(history.record.get("parent", ""))
        started = entries_of(history, "started")[:1]
        if parent is None or not completed(parent) or not (started and started[0]["spec"].get("background")):
            continue
        ends, heard = len(entries_of(history, "finished")), told[agent_id, parent.id]
        if heard < ends:
            yield Fault(
                "lost",
                "notice",
                agent_id,
                f"it ended {ends} times, its parent was told {heard} times",
                ends - heard,
            )
        if heard > ends:
            yield Fault(
                "doubled",
                "notice",
                agent_id,
                f"it ended {ends} times, its parent was told {heard} times",
                heard - ends,
            )
