"""A campaign of messages: many agents write to each other while workers are killed, and their journals are compared."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape

from swarm import Job
from swarm.agent.entries import Assistant, Entry, Finished, Mail, Started, ToolFinished
from swarm.rehearsal.chatter import member_name, message_text, receiver_of
from tests.chaos import verify
from tests.chaos.campaign import Campaign, Plan, Report
from tests.chaos.evidence import collect
from tests.fleet import Fleet

_MESSAGE = re.compile(r'<message from="([^"]*)" agent_id="([^"]*)" kind="message" id="[^"]*">\n(.*?)\n</message>', re.S)
_NOTICE = re.compile(r"<task-notification>\n<task-id>([^<]*)</task-id>")


@dataclass(frozen=True, kw_only=True)
class TalkPlan(Plan):
    """Who talks, and how much; the rest is as in any campaign."""

    depth: int = 1
    fanout: int = 8
    """How many agents talk."""
    messages: int = 1_500
    """How many they send together: a multiple of the agents."""
    batch: int = 25
    """How many of them in one reply."""
    kinds: Sequence[str] = ("child", "worker")

    @property
    def scenario(self) -> str:
        return "chatter"

    @property
    def prompt(self) -> str:
        return f"CHATTER agents={self.fanout} messages={self.messages} batch={self.batch} think={self.think_ms}"


@dataclass
class TalkReport(Report):
    """What came of it; `lost` and `doubled` count messages."""

    delivered: int = 0
    disordered: int = 0
    """Pairs of sender and receiver whose messages are not read as they were sent."""
    refused: int = 0
    """How often a full mailbox refused one."""
    runs: int = 0
    """How often the agents began, or went on after an end."""

    def figures(self) -> str:
        """The figures, to be printed."""
        talk = (
            f"  messages {self.delivered}, lost {self.lost}, doubled {self.doubled}, pairs out of order {self.disordered}; "
            f"refused by a full mailbox {self.refused}, runs {self.runs}, {self.delivered / max(1e-9, self.seconds):.0f}/s"
        )
        head, blows, _, *recovery = super().figures().splitlines()
        return "\n".join([head, blows, talk, f"  rescued {self.rescued}", *recovery])


class TalkCampaign(Campaign):
    """Runs one plan of messages. Not reusable."""

    def __init__(self, fleet: Fleet, plan: TalkPlan) -> None:
        super().__init__(fleet, plan)
        self.talk = plan
        self.report: TalkReport = TalkReport(plan)

    def _examine(self, job: Job) -> None:
        report = self.report
        evidence = collect(self.fleet, job)
        self._tell_recoveries(job)
        letters = Letters.of(evidence)
        report.broken += check_talk(evidence, self.talk)
        report.agents = len(evidence.agents)
        report.delivered, report.refused = sum(map(len, letters.received.values())), letters.refused
        report.lost, report.doubled, report.disordered = letters.lost(), letters.doubled(), letters.disordered()
        report.runs = sum(isinstance(entry, Finished) for journal in evidence.journals.values() for _, entry in journal)


def check_talk(evidence: verify.Evidence, plan: TalkPlan) -> list[str]:
    """Every promise that a finished talk has broken, as one line. Pure."""
    letters = Letters.of(evidence)
    broken = [*verify.check(evidence, tree=False), *letters.missing(plan), *_check_notices(evidence)]
    for what, count in (("lost", letters.lost()), ("doubled", letters.doubled()), ("disordered", letters.disordered())):
        if count:
            broken.append(f"{what}: {count}")
    return broken


@dataclass
class Letters:
    """What the journals of all who talked tell: what each sent to whom, and what each read from whom, in order."""

    sent: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    received: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    refused: int = 0

    @classmethod
    def of(cls, evidence: verify.Evidence) -> Letters:
        """What all journals tell."""
        letters = cls()
        for journal in evidence.journals.values():
            life = [entry for _, entry in journal]
            if life and isinstance(life[0], Started) and life[0].spec.name:
                letters.read(life[0].spec.name, life)
        return letters

    def read(self, name: str, entries: Sequence[Entry]) -> None:
        """Take in one agent's journal."""
        asked: dict[str, tuple[str, str]] = {}
        for entry in entries:
            match entry:
                case Assistant():
                    for block in entry.content:
                        if block.get("type") == "tool_use" and block["name"] == "SendMessage":
                            asked[block["id"]] = (block["input"]["to"], block["input"]["message"])
                case ToolFinished() if entry.tool_use_id in asked:
                    to, body = asked.pop(entry.tool_use_id)
                    if entry.is_error:
                        self.refused += "is full" in entry.text
                    else:
                        self.sent[name, to].append(body)
                case Mail():
                    for sender, _, body in _MESSAGE.findall(entry.text):
                        self.received[sender, name].append(unescape(body))

    def lost(self) -> int:
        """Messages that were delivered, as their sender was told, and are in no conversation."""
        return sum((Counter(bodies) - Counter(self.received[pair])).total() for pair, bodies in self.sent.items())

    def doubled(self) -> int:
        """Messages that are in a conversation once more than they were sent."""
        return sum((Counter(bodies) - Counter(self.sent[pair])).total() for pair, bodies in list(self.received.items()))

    def disordered(self) -> int:
        """Pairs of sender and receiver whose messages are not read as they were sent."""
        return sum(bodies != self.received[pair] for pair, bodies in self.sent.items())

    def missing(self, plan: TalkPlan) -> Iterator[str]:
        """A line for each pair that has not exchanged exactly what it should."""
        wanted: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for me in range(plan.fanout):
            for number in range(plan.messages // plan.fanout):
                to = member_name(receiver_of(me, number, plan.fanout))
                wanted[member_name(me), to][message_text(number)] += 1
        for pair in wanted.keys() | self.received.keys():
            if wanted[pair] != Counter(self.received[pair]):
                yield f"{pair[1]} should have {wanted[pair].total()} messages of {pair[0]}, has {len(self.received[pair])}"


def _check_notices(evidence: verify.Evidence) -> Iterator[str]:
    """The root is told of every end of those whom it started, once."""
    root = evidence.journals.get(evidence.root_id, ())
    told = Counter(i for _, entry in root if isinstance(entry, Mail) for i in _NOTICE.findall(entry.text))
    for agent_id, journal in evidence.journals.items():
        ends = sum(isinstance(entry, Finished) for _, entry in journal)
        if agent_id != evidence.root_id and told[agent_id] != ends:
            yield f"{agent_id} ended {ends} times, its parent was told {told[agent_id]} times"
