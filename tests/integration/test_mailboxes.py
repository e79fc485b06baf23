"""Mailboxes at their limits, one atomic step after the other, against a real Redis.

Tests of mailbox/message.py, swarm/store/mail.py, swarm/store/directory.py.
"""

from __future__ import annotations

import secrets
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.agent.entries import Mail
from swarm.agent.journaled import Condition
from swarm.core.errors import (
    BadMessageId,
    MailboxFull,
    MessageTooLong,
    NotOwner,
    ReceiverEnded,
    StaleRequest,
    UnknownAgent,
    UnknownReceiver,
)
from swarm.mailbox import MAX_BODY_BYTES, MAX_UNREAD, PAGE_BYTES, USER, Receiver, check_body
from swarm.store.store import Store
from swarm.store.values import GoOn, NotSpawned, OutgoingMessage, Signals
from tests.fleet import Fleet
from tests.integration.mail_world import Desk, Office
from tests.job_world import open_store
from tests.repeating import Repeating


def _senders_and_bodies(text: str) -> list[tuple[str | None, str]]:
    return [(e.get("from"), (e.text or "")[1:-1]) for e in ElementTree.fromstring(f"<mail>{text}</mail>")]


# -- bodies ------------------------------------------------------------------------------------------------


_ANY_TEXT = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["\x00", "\ud800", "</message>", "\r\n", "@", "@x y"]
)


@pytest.fixture(scope="module")
def talkers(unmanned: Fleet) -> tuple[Office, Desk, Desk]:
    """A job with two agents at work, which stays the same for all examples of a test."""
    office = Office(open_store(unmanned, Repeating), unmanned, "a", "b")
    return office, office.at("a"), office.at("b")


@given(st.lists(_ANY_TEXT, max_size=8))
def test_any_text_arrives_once_and_as_it_was_sent(talkers: tuple[Office, Desk, Desk], texts: list[str]) -> None:
    office, a, b = talkers
    before = len(office.bodies("b"))
    for number, text in enumerate(texts):
        if number % 2:
            office.person.send("b", text)
        else:
            # The reader of replies has made sure of this before the call was journaled.
            assert not a.send("b", check_body(text)).is_error
    assert office.bodies("b")[before:] == [check_body(text) for text in texts]
    read = ElementTree.fromstring(f"<mail>{b.read()}</mail>")
    senders = [office.job_id if number % 2 else a.id for number in range(len(texts))]
    assert [element.get("agent_id") for element in read] == senders
    assert office.unread("b") == 0 and b.read() == ""


@given(_ANY_TEXT | st.sampled_from(["agent-" + "0" * 16, "job-" + "0" * 16, "a\x00", "A", "ro\u200bot", "*\x00"]))
def test_no_receiver_that_is_made_up_reaches_anybody(talkers: tuple[Office, Desk, Desk], to: str) -> None:
    office, a, _ = talkers
    if to.strip() in ("*", USER, "root", "parent", "lead", "a", "b"):
        return
    everybody = (office.root.id, *office.ids.values(), office.job_id)
    before = [len(office.bodies(one)) for one in everybody]
    with pytest.raises(UnknownReceiver, match="there is no agent"):
        office.person.send(to, "x")
    result = a.send(check_body(to), "x")
    assert result.is_error and "there is no agent" in result.text
    assert [len(office.bodies(one)) for one in everybody] == before


def test_a_body_of_exactly_64_KiB_arrives_and_one_byte_more_is_an_error(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a", "b")
    desk = office.at("a")
    whole = "é" * (MAX_BODY_BYTES // 2)
    assert not desk.send("b", whole).is_error
    refused = desk.send("b", whole + "x")
    assert refused.is_error and "65,537 bytes" in refused.text
    with pytest.raises(MessageTooLong):
        office.person.send("b", whole + "x")
    assert office.bodies("b") == [whole]


def test_a_call_that_says_nonsense_is_told_so_and_changes_nothing(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a", "b")
    desk = office.at("a")
    for given_input in (
        {"kind": "task"},
        {"kind": "notification"},
        {"kind": "shutdown_response"},
        {"kind": "shutdown_request"},
        {"request_id": "x" * 101},
        {"sender": "root"},
        {"approve": "yes"},
    ):
        assert desk.send("b", "x", **given_input).is_error, given_input
    assert office.bodies("b") == []


# -- limits ------------------------------------------------------------------------------------------------


def test_the_1001st_unread_message_is_an_error_and_nothing_is_trimmed(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a", "b")
    sent = [f"n{number}" for number in range(MAX_UNREAD)]
    office.fill("b", sent)
    desk = office.at("a")
    refused = desk.send("b", "one too many")
    assert refused.is_error and "mailbox of b is full" in refused.text
    with pytest.raises(MailboxFull):
        office.person.send(office.ids["b"], "one too many")
    assert office.bodies("b") == sent
    b = office.at("b")
    assert [body for _, body in _senders_and_bodies(b.read())] == sent
    assert not desk.send("b", "now").is_error
    assert office.bodies("b") == [*sent, "now"]


def test_messages_beyond_the_bytes_of_a_mailbox_or_of_a_job_are_refused_to_their_sender(
    unmanned: Fleet, store: Store
) -> None:
    office = Office(store, unmanned, "a", "b", "c")

    def send(to: str, size: int) -> str:
        given = {"job": office.job_id, "sender": office.ids["a"], "name": "a", "kind": "message"}
        outgoing = OutgoingMessage(**given, body="x" * size, most=(1, 2), token=secrets.token_hex(8))
        try:
            store.mail.send(outgoing, [Receiver(office.ids[to], to, "")])
        except MailboxFull as full:
            return str(full)
        return ""

    assert send("b", 700_000) == "" and "it has taken the most that fits, 1 MiB" in send("b", 700_000)
    assert send("c", 700_000) == "" == send("c", 300_000)
    assert "all mailboxes of this job have taken the most that fits, 2 MiB" in send("a", 500_000)
    assert len(office.bodies("b")) == 1 and len(office.bodies("c")) == 2 and office.bodies("a") == []


def test_a_full_mailbox_of_an_agent_that_has_ended_does_not_keep_it_from_going_on(
    unmanned: Fleet, store: Store
) -> None:
    office = Office(store, unmanned, "b")
    b = office.at("b")
    office.fill("b", ["x"] * MAX_UNREAD)
    assert isinstance(b.finish(unless_mail=False), Signals)
    office.person.send("b", "go on")
    assert store.agents.get(b.id).state == "queued"
    with pytest.raises(MailboxFull):
        office.person.send("b", "and on")


def test_the_persons_mailbox_fills_up_until_it_is_marked_as_read(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a")
    desk = office.at("a")
    office.fill(USER, [str(number) for number in range(MAX_UNREAD)])
    refused = desk.send(USER, "one too many")
    assert refused.is_error and "mailbox of user is full" in refused.text
    inbox = office.person.inbox()
    assert [message.body for message in inbox] == [str(number) for number in range(MAX_UNREAD)]
    assert office.person.mark_read(inbox[9].id) == MAX_UNREAD - 10
    assert office.person.mark_read(inbox[4].id) == MAX_UNREAD - 10
    assert office.person.read_up_to() == inbox[9].id
    assert not desk.send(USER, "now").is_error
    assert office.person.mark_read("9999999999999-0") == 0
    assert office.person.mark_read("9999999999999-0") == 0
    assert len(office.person.inbox()) == MAX_UNREAD + 1
    with pytest.raises(BadMessageId):
        office.person.mark_read("+")
    with pytest.raises(UnknownAgent):
        store.mail.mark_read("job-0000000000000000", "1-0")


def test_a_full_mailbox_is_left_out_of_a_broadcast_and_reported(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a", "b", "c", "d")
    office.fill("c", ["x"] * MAX_UNREAD)
    result = office.at("a").send("*", "all of you")
    assert not result.is_error
    assert result.text == "Delivered to root, b, d. Not delivered to c (mailbox full)."
    assert office.bodies("b") == office.bodies("d") == office.bodies(office.root.id) == ["all of you"]
    assert office.bodies("a") == [] and len(office.bodies("c")) == MAX_UNREAD
    delivery = office.person.deliver("*", "from me")
    assert delivery.left_out == ["c"]
    assert set(delivery.receivers) == {office.root.id, *(office.ids[name] for name in "abd")}
    assert office.bodies("b") == ["all of you", "from me"]


def test_a_broadcast_passes_over_those_who_have_ended(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a", "b", "c")
    office.at("b").finish()
    store.agents.cancel(office.ids["c"], "no more")
    office.at("a").send("*")
    assert office.bodies("b") == office.bodies("c") == []
    assert store.agents.get(office.ids["b"]).state == "completed"
    # One that ends between the look-up and the step is passed over, too.
    found = store.mail.directory(office.job_id).find("*", office.job_id)
    outgoing = OutgoingMessage(
        job=office.job_id, sender=office.job_id, name=USER, kind="message", body="x", live_only=True
    )
    store.agents.cancel(office.ids["a"], "just now")
    with pytest.raises(ReceiverEnded) as ended:
        store.mail.send(outgoing, found)
    assert ended.value.receiver == "a"
    delivery = office.person.deliver("*", "who is left?")
    assert list(delivery.receivers) == [office.root.id]


def test_only_so_much_mail_enters_one_turn(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "b")
    for _ in range(8):
        office.person.send("b", "x" * MAX_BODY_BYTES)
    b = office.at("b")
    assert b.messenger.take_mail()
    assert PAGE_BYTES - 2 * MAX_BODY_BYTES < b.journal.history.mail_taken <= PAGE_BYTES + 2_000
    assert office.unread("b") == 2 and b.journal.unread > 0


# -- who can be reached ------------------------------------------------------------------------------------


def test_another_job_cannot_be_reached_by_name_or_id(unmanned: Fleet, store: Store) -> None:
    office, other = Office(store, unmanned, "a"), Office(store, unmanned, "stranger")
    desk = office.at("a")
    for to in ("stranger", other.ids["stranger"], other.root.id, other.job_id):
        result = desk.send(to)
        assert result.is_error and "in this job; there are: " in result.text
        with pytest.raises(UnknownReceiver):
            office.person.send(to, "x")
    # Even if somebody got past the directory, the step itself refuses.
    outgoing = OutgoingMessage(job=office.job_id, sender=desk.id, name="a", kind="message", body="x", token="1")
    receivers = store.mail.directory(other.job_id).find("stranger", other.job_id)
    with pytest.raises(UnknownReceiver):
        store.mail.send(outgoing, receivers)
    assert other.bodies("stranger") == other.bodies(other.root.id) == other.bodies(other.job_id) == []
    assert desk.send("*").text == "Delivered to root."


def test_a_name_is_never_given_twice_not_even_after_its_bearers_end(unmanned: Fleet) -> None:
    store = open_store(unmanned)
    office = Office(store, unmanned, "a", "b")
    store.agents.cancel(office.ids["a"], "no more")
    office.at("b").finish()
    for name in ("a", "b", "root"):
        refused = office.spawn(name)
        assert isinstance(refused, NotSpawned) and (refused.why, refused.detail) == ("name", name)
    assert isinstance(Office(store, unmanned).spawn("a"), Signals)


def test_who_was_cancelled_is_written_to_in_vain_and_who_ended_goes_on(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a", "b", "c")
    office.at("b").finish()
    store.agents.cancel(office.ids["c"], "no more")
    desk = office.at("a")
    refused = desk.send("c")
    assert refused.is_error and "c is cancelled" in refused.text
    with pytest.raises(ReceiverEnded):
        office.person.send("c", "x")
    assert office.bodies("c") == []
    assert not desk.send("b", "again").is_error
    assert store.agents.get(office.ids["b"]).state == "queued"
    assert "again" in office.at("b").read()


def test_nobody_writes_to_himself_and_a_person_has_no_parent(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a")
    desk = office.at("a")
    for to in ("a", desk.id):
        assert "yourself" in desk.send(to).text
    for to in (USER, "parent", "lead", office.job_id):
        with pytest.raises(UnknownReceiver, match="yourself"):
            office.person.send(to, "x")
    assert office.root.send("parent", "for the person").text == "Delivered to user."
    assert [(m.sender, m.sender_name, m.body) for m in office.person.inbox()] == [
        (office.root.id, "root", "for the person")
    ]


def test_after_the_jobs_end_only_its_root_goes_on(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "b")
    office.at("b").finish()
    office.root.read()
    office.root.finish()
    with pytest.raises(ReceiverEnded, match="the job has ended"):
        office.person.send("b", "x")
    office.person.send("root", "x")
    assert store.agents.get(office.root.id).state == "queued" and store.jobs.get(office.job_id).state == "running"


# -- requests ----------------------------------------------------------------------------------------------


def test_a_request_is_answered_once_by_the_one_who_was_asked(unmanned: Fleet) -> None:
    store = open_store(unmanned)
    office = Office(store, unmanned, "a", "b")
    a, b = office.at("a"), office.at("b")

    def ask(request: str, seconds: float = 60) -> None:
        outgoing = OutgoingMessage(
            job=office.job_id,
            sender=office.root.id,
            name="root",
            kind="shutdown_request",
            body="stop?",
            request=request,
        )
        receivers = store.mail.directory(office.job_id).find("a", office.root.id)
        store.mail.send(outgoing.model_copy(update={"expires": seconds}), receivers)

    def answer(desk: str, request: str, kind: str = "shutdown_response", to: str = "parent") -> str:
        speaker = {"a": a, "b": b}[desk]
        return speaker.send(to, "no", kind=kind, request_id=request, approve=False).text

    ask("request-1")
    ask("request-2", seconds=-1)
    assert 'request_id="request-1"' in a.read()
    assert "there is no such request" in answer("a", "request-0")
    assert "between others" in answer("b", "request-1")
    assert "between others" in answer("a", "request-1", to="b")
    assert "it is a request for shutdown" in answer("a", "request-1", kind="plan_response")
    assert "has expired" in answer("a", "request-2")
    assert answer("a", "request-1") == "Delivered to root."
    assert "answered already: rejected" in answer("a", "request-1")
    assert [message.kind for message in store.mail.all(office.root.id)] == ["shutdown_response"]
    with pytest.raises(StaleRequest):
        outgoing = OutgoingMessage(
            job=office.job_id, sender=a.id, name="a", kind="shutdown_response", body="", reply_to="x"
        )
        store.mail.send(outgoing, store.mail.directory(office.job_id).find("parent", a.id))


# -- order and exactly once --------------------------------------------------------------------------------


def test_order_is_kept_for_each_sender_and_receiver(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a", "b", "c", "d")
    desks = {name: office.at(name) for name in "abcd"}
    for number in range(30):
        for sender in "abc":
            desks[sender].send("*" if number % 7 == 3 else "d", f"{sender}{number}")
        if number % 10 == 9:
            desks["d"].read()
    text = (
        "\n\n".join(e.text for e in store.journals.read(office.ids["d"]) if isinstance(e, Mail))
        + "\n"
        + desks["d"].read()
    )
    found = _senders_and_bodies(text)
    for sender in "abc":
        assert [body for who, body in found if who == sender] == [f"{sender}{number}" for number in range(30)]


def test_a_worker_that_lost_its_claim_neither_sends_nor_takes(unmanned: Fleet, store: Store) -> None:
    office = Office(store, unmanned, "a", "b")
    stale = office.at("a")
    store.agents.hand_over(stale.claim, "test")
    fresh = office.at("a")
    office.person.send("a", "for one of you")
    with pytest.raises(NotOwner):
        stale.send("b")
    with pytest.raises(NotOwner):
        stale.messenger.take_mail()
    assert office.bodies("b") == []
    assert "for one of you" in fresh.read()
    assert office.unread("a") == 0


def test_mail_that_comes_while_the_last_answer_is_given_forbids_the_end(unmanned: Fleet) -> None:
    office = Office(open_store(unmanned), unmanned, "a")
    desk = office.at("a")
    office.person.send("a", "wait, one more thing")
    assert desk.finish() == GoOn("mail")
    assert "one more thing" in desk.read()
    assert isinstance(desk.finish(), Signals)


def test_one_who_waits_for_talk_is_not_woken_by_a_notice_but_by_a_message(unmanned: Fleet) -> None:
    store = open_store(unmanned)
    office = Office(store, unmanned, "a", "b")
    assert isinstance(office.root.park(Condition(mail="talk", children=list(office.ids.values()))), Signals)
    office.at("b").finish()
    assert store.agents.get(office.root.id).state == "parked"
    assert store.agents.get(office.root.id).unread == 1
    office.at("a").send("parent")
    assert store.agents.get(office.root.id).state == "queued"


def test_a_letter_that_is_sent_again_after_a_broken_connection_arrives_once(unmanned: Fleet) -> None:
    store = open_store(unmanned, Repeating)
    office = Office(store, unmanned, "b")
    first, second = office.person.deliver("b", "same"), office.person.deliver("b", "same")
    assert office.bodies("b") == ["same", "same"] and office.unread("b") == 2
    assert [m.id for m in store.mail.all(office.ids["b"])] == [first.id, second.id]
