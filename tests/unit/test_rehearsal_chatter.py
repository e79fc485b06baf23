"""The scenario of agents that write to each other: everybody writes to everybody, and what is refused is sent again.

Tests of tests/rehearsal/chatter.py, swarm/rehearsal/conversation.py.
"""

from __future__ import annotations

from collections import Counter

from swarm.rehearsal.conversation import Conversation
from swarm.rehearsal.scenario import ScriptedReply
from tests.rehearsal.chatter import answer_chatter, message_text, receiver_of


def ask(prompt: str, *results: str, turn: int = 0) -> ScriptedReply | None:
    return answer_chatter(
        Conversation(
            model="m",
            definition=None,
            prompt=prompt,
            turn=turn,
            last_text="",
            last_results=(),
            results=results,
            workspace="",
            tools_allowed=True,
            messages=1,
        )
    )


def sent(reply: ScriptedReply | None) -> list[tuple[str, str]]:
    assert reply is not None
    return [(call.input["to"], call.input["message"]) for call in reply.tools]


def test_everybody_gets_as_many_messages_as_anybody_else_and_none_of_its_own() -> None:
    got = Counter(receiver_of(me, number, 5) for me in range(5) for number in range(40))
    assert got == dict.fromkeys(range(5), 40)
    assert all(receiver_of(me, number, 5) != me for me in range(5) for number in range(40))


def test_the_root_starts_them_with_its_own_order() -> None:
    reply = ask("CHATTER agents=3 messages=30 batch=4 think=10")
    assert reply is not None
    assert [call.input["name"] for call in reply.tools] == ["a0", "a1", "a2"]
    assert reply.tools[2].input["prompt"] == "CHATTER agents=3 messages=30 batch=4 think=10 me=2"
    assert ask("something else") is None


def test_what_a_full_mailbox_refused_is_sent_again_first_after_a_pause() -> None:
    order = "CHATTER agents=3 messages=15 batch=3 me=0"
    assert [text for _, text in sent(ask(order))] == [message_text(number) for number in range(3)]
    told = ["Delivered to a1.", "the mailbox of a2 is full", "Delivered to a1."]
    pause = ask(order, *told, turn=1)
    assert pause is not None and [call.name for call in pause.tools] == ["Bash"]
    again = ask(order, *told, "", turn=2)
    assert [text for _, text in sent(again)] == [message_text(number) for number in (1, 3, 4)]
    done = ask(order, *told, "", *["Delivered to a1."] * 3, turn=3)
    assert done is not None and done.text == "All 5 are sent."
