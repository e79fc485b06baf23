"""The assumptions about a model's server, a row each. All together cost a few cents of a priced model and take under two minutes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from swarm.core.errors import ModelError
from swarm.models import Block
from swarm.models.catalogue import context_tokens, max_output, price_of
from swarm.models.examination import SYSTEM, Assumption, Examination, Observation
from swarm.models.facts import NO_FACTS, ModelFacts, read_refusal

_PREFIX_WORDS = 1_500
"""Words of the cached prefix, of four tokens and more: longer than any model's least cached prefix."""
_LARGEST_OVERFLOW = 300_000
"""Tokens of the largest prompt that is sent to be refused."""
_TOOL = {
    "name": "Weather",
    "description": "Tell the weather of one city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
# A red square of 8 by 8 pixels.
_IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"


def _listed(server: Examination) -> Observation:
    found = [each["id"] for each in server.fetch("/v1/models?limit=1000")["data"]]
    here = server.model in found
    return Observation(
        here, f"{len(found)} models" + ("" if here else f", without {server.model}: {', '.join(found[:5])} …")
    )


def _sized(server: Examination) -> Observation:
    about = server.fetch(f"/v1/models/{quote(server.model, safe='')}")
    window, output = about.get("max_input_tokens"), about.get("max_tokens")
    if not isinstance(window, int) or not isinstance(output, int):
        return Observation(False, "the server states no sizes")
    file = server.settings.prices_file
    known = ModelFacts(
        window=context_tokens(server.model, prices_file=file), max_output=max_output(server.model, prices_file=file)
    )
    told = ModelFacts(window=window, max_output=output)
    server.window, words = window, f"window {window:,}, longest reply {output:,}"
    if price_of(server.model, prices_file=file) is None:
        return Observation(True, words, told)
    if known + told == known:
        return Observation(True, words)
    return Observation(False, f"{words}; by the table {known.window:,} and {known.max_output:,}", told)


def _priced(server: Examination) -> Observation:
    price = price_of(server.model, prices_file=server.settings.prices_file)
    if price is None:
        return Observation(False, f"{server.model} has no row")
    return Observation(True, f"${price.input:g} in, ${price.output:g} out a million tokens")


def _replies(server: Examination) -> Observation:
    reply = server.ask("Say only: ready")
    words = "".join(block.get("text", "") for block in reply.content).strip()
    ended = reply.stop_reason == "end_turn"
    return Observation(bool(words) and ended, repr(words[:40]) if ended else f"it stopped with {reply.stop_reason}")


def _counted(server: Examination) -> Observation:
    reply = server.ask(" ".join(f"word{number}" for number in range(1_000)) + "\nSay only: ready")
    usage = reply.usage
    told = f"{usage.total_tokens - usage.output_tokens:,} in, {usage.output_tokens:,} out"
    # Two to five tokens a word by any tokenizer. A server that counts fewer has cut the prompt in silence.
    whole = 1_000 <= usage.total_tokens - usage.output_tokens <= 10_000
    return Observation(whole and usage.output_tokens > 0, told)


def _identified(server: Examination) -> Observation:
    found = server.last.request_id if server.last else None
    return Observation(bool(found), found or "no header request-id")


def _limited(server: Examination) -> Observation:
    stated = server.limits
    told = f"{stated.requests:,} requests, {stated.input:,} tokens in and {stated.output:,} out a minute"
    return Observation(
        bool(stated.requests or stated.input), told if stated.requests or stated.input else "none stated"
    )


def _cached(server: Examination) -> Observation:
    system = _make_prefix()
    first = server.ask("Say only: one", system=system)
    again = server.ask("Say only: two", system=system)
    wrote, read = first.usage.cache_creation_input_tokens, again.usage.cache_read_input_tokens
    return Observation(wrote > 0 and read >= wrote * 0.9, f"{wrote:,} tokens written, {read:,} read")


def _cached_long(server: Examination) -> Observation:
    mark = {"type": "ephemeral", "ttl": "1h"}
    answer = server.send(
        {
            "max_tokens": 50,
            "system": [{"type": "text", "text": _make_prefix(), "cache_control": mark}],
            "messages": [{"role": "user", "content": "Say only: one"}],
        }
    )
    wrote = ((answer.get("usage") or {}).get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    return Observation(wrote > 0, f"{wrote:,} tokens written for an hour")


def _calls(server: Examination) -> Observation:
    ask = {"role": "user", "content": "Call Weather twice in one reply: for Paris and for Rome. Say nothing."}
    reply = server.ask(ask, tools=[_TOOL])
    calls = [block for block in reply.content if block["type"] == "tool_use"]
    server.called = [ask, {"role": "assistant", "content": reply.content}]
    if not calls:
        return Observation(False, f"no call; it stopped with {reply.stop_reason}")
    fit = all(isinstance(call["input"].get("city"), str) for call in calls) and reply.stop_reason == "tool_use"
    return Observation(
        fit, f"{len(calls)} calls in one reply" if fit else f"calls with {[call['input'] for call in calls]}"
    )


_NO_CALLS = Observation(True, "not asked: no tool was called")


def _side_by_side(server: Examination) -> Observation:
    if not (calls := _calls_of(server)):
        return _NO_CALLS
    ids = {call["id"] for call in calls}
    return Observation(len(ids) > 1, f"{len(calls)} calls, {len(ids)} ids")


def _results(server: Examination) -> Observation:
    if not _calls_of(server):
        return _NO_CALLS
    reply = server.ask(*server.called, _results_of(server), tools=[_TOOL])
    return Observation(reply.stop_reason == "end_turn", f"the results were taken; it stopped with {reply.stop_reason}")


def _obeys(server: Examination) -> Observation:
    ask = "Call Weather for Oslo. If you cannot, say only: no"
    reply = server.ask(ask, tools=[_TOOL], tools_allowed=False)
    called = any(block["type"] == "tool_use" for block in reply.content)
    return Observation(
        not called, "it calls nothing when no tool is allowed" if not called else "it calls tools all the same"
    )


def _thinks(server: Examination) -> Observation:
    content = server.called[1]["content"] if server.called else []
    thought = [block for block in content if "thinking" in block["type"]]
    if not thought:
        return Observation(True, "the model did not think aloud")
    signed = all(block.get("signature") or block.get("data") for block in thought)
    return Observation(signed, "thinking came signed, and was taken back" if signed else "thinking has no signature")


def _bound(server: Examination) -> Observation:
    if not _calls_of(server) or not any("thinking" in block["type"] for block in server.called[1]["content"]):
        return Observation(True, "not asked: the model did not think aloud")
    try:
        server.ask(*server.called, _results_of(server), tools=[_TOOL], system=SYSTEM + " Be kind.")
    except ModelError as error:
        return Observation(True, f"another prefix is refused: {str(error)[:80]}")
    return Observation(True, "another prefix is taken")


def _effort(server: Examination) -> Observation:
    server.ask("Say only: ready", effort="low")
    return Observation(True, "low effort is taken")


def _sees(server: Examination) -> Observation:
    source = {"type": "base64", "media_type": "image/png", "data": _IMAGE}
    content: list[Block] = [{"type": "image", "source": source}, {"type": "text", "text": "One word: which colour?"}]
    reply = server.ask({"role": "user", "content": content})
    words = "".join(block.get("text", "") for block in reply.content)
    return Observation("red" in words.lower(), f"a red square is {words.strip()[:40]!r}")


def _long_replies(server: Examination) -> Observation:
    most = server.facts.max_output or max_output(server.model, prices_file=server.settings.prices_file)
    server.ask("Say only: ready", max_tokens=most)
    return Observation(True, f"{most:,} tokens may be asked for")


def _too_long(server: Examination) -> Observation:
    window = server.window
    if window > _LARGEST_OVERFLOW:
        return Observation(True, f"not asked: a window of {window:,} tokens would cost too much if it were larger")
    try:
        reply = server.ask(" ".join(str(number) for number in range(window + window // 10)))
    except ModelError as error:
        facts = read_refusal(error)
        told = f"refused as {error.kind}" + (f", which tells the window: {facts.window:,}" if facts.window else "")
        return Observation(
            error.kind == "too_large" and facts.window is not None, told, NO_FACTS if facts.window == window else facts
        )
    if reply.stop_reason == "model_context_window_exceeded":
        return Observation(True, "such a reply stops with model_context_window_exceeded")
    got = reply.usage.total_tokens - reply.usage.output_tokens
    return Observation(
        False, f"it answered, and counted {got:,} tokens of more than {window:,}", ModelFacts(window=got)
    )


def _summarizes(server: Examination) -> Observation:
    if not server.adapter.summarizes(server.model):
        return Observation(False, "the server does not say that the model can summarize")
    talk: list[dict[str, Any] | str] = [
        "My cat is called Tom.",
        {"role": "assistant", "content": "Noted."},
        "And my dog is called Rex.",
    ]
    reply = server.ask(*talk, summarize="Keep all names.", max_tokens=4_000)
    made = any(block["type"] == "compaction" for block in reply.content)
    return Observation(made, "a summary came" if made else f"no summary came; it stopped with {reply.stop_reason}")


def _counts(server: Examination) -> Observation:
    body = {"system": SYSTEM, "messages": [{"role": "user", "content": "Say only: ready"}]}
    count = server.send(body, "/v1/messages/count_tokens").get("input_tokens")
    return Observation(isinstance(count, int) and count > 0, f"{count} tokens")


def _searches(server: Examination) -> Observation:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
    reply = server.ask("Search the web for: Celery task queue. Then say only: done", tools=[tool])
    found = any(block["type"] == "web_search_tool_result" for block in reply.content)
    return Observation(found, "it searched" if found else "no search was made")


def _batches(server: Examination) -> Observation:
    page = server.fetch("/v1/messages/batches?limit=1")
    return Observation(isinstance(page.get("data"), list), "batches can be listed")


def _refuses(kind: str, **request: Any) -> Callable[[Examination], Observation]:
    """Make a row that expects a refusal of this kind."""

    def look(server: Examination) -> Observation:
        key = request.get("key", "")
        body = {
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "Say only: ready"}],
            **request.get("body", {}),
        }
        try:
            server.send(body, key=key)
        except ModelError as error:
            return Observation(error.kind == kind, f"refused as {error.kind}")
        return Observation(False, "not refused")

    return look


def _forced(server: Examination) -> Observation:
    body = {
        "max_tokens": 500,
        "tools": [_TOOL],
        "tool_choice": {"type": "tool", "name": "Weather"},
        "messages": [{"role": "user", "content": "Weather in Paris?"}],
    }
    try:
        answer = server.send(body)
    except ModelError as error:
        return Observation(True, f"refused, which nothing here depends on: {error.kind}")
    return Observation(True, f"it stopped with {answer.get('stop_reason')}; nothing here depends on it")


def _make_prefix() -> str:
    """A text that no cache holds, and that is long enough for each."""
    seed = secrets.token_hex(4)
    return f"{SYSTEM} Ignore the following words. " + " ".join(f"{seed}{number}" for number in range(_PREFIX_WORDS))


def _calls_of(server: Examination) -> list[Block]:
    return [block for message in server.called[1:] for block in message["content"] if block["type"] == "tool_use"]


def _results_of(server: Examination) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "sunny"} for call in _calls_of(server)]
    return {"role": "user", "content": [*results, {"type": "text", "text": "Say only: done"}]}


ASSUMPTIONS = (
    Assumption("reply", _replies, "no agent can work with this server", needed=True),
    Assumption("models listed", _listed, "a misspelt model is noticed by its first request"),
    Assumption("sizes", _sized, "the table's sizes count, or those that refusals tell"),
    Assumption("price", _priced, "its cost is shown as `?`, and no `--budget` is possible: add a row to the file of SWARM_PRICES_FILE"),
    Assumption("usage", _counted, "costs, budgets and cuts of conversations are wrong: the server counts otherwise or shortens prompts"),
    Assumption("request id", _identified, "reports to the server's operator cannot name a request"),
    Assumption("stated limits", _limited, "limits are learned from refusals"),
    Assumption("prompt cache", _cached, "each turn pays for the whole conversation"),
    Assumption("cache for an hour", _cached_long, "nothing: requests ask for five minutes"),
    Assumption("calls of tools", _calls, "agents cannot use tools with this model", needed=True),
    Assumption("calls side by side", _side_by_side, "tools run one after the other; equal ids get different ones"),
    Assumption("results of tools", _results, "agents cannot use tools with this model", needed=True),
    Assumption("no tool allowed", _obeys, "a final answer may call tools, which do not run"),
    Assumption("thinking", _thinks, "thinking is sent back as it came, or left out where it is refused"),
    Assumption("thinking's prefix", _bound, ""),
    Assumption("effort", _effort, "effort is left out of requests"),
    Assumption("images", _sees, "images are left out of requests that the server refuses for them"),
    Assumption("long replies", _long_replies, "shorter replies are asked for"),
    Assumption("too long prompts", _too_long, "a conversation may be cut too late: give the model a `context_window` (SWARM_PRICES_FILE)"),
    Assumption("summaries", _summarizes, "agents write summaries as plain text"),
    Assumption("token counts", _counts, "nothing: sizes are estimated from usage"),
    Assumption("web search", _searches, "WebSearch needs a search service of its own (docs/web.md)"),
    Assumption("batches", _batches, "`--batch` does not work"),
    Assumption("forced calls", _forced, ""),
    Assumption("wrong key", _refuses("authentication", key="wrong"), "a wrong key is not reported as such"),
    Assumption("unknown model", _refuses("not_found", body={"model": "no-such-model"}), "a misspelt model is not reported as such"),
    Assumption("malformed request", _refuses("bad_request", body={"max_tokens": -1}), "faults of requests are not reported as such"),
)  # fmt: skip
"""Rows lack what cannot be provoked: overloads, waits that refusals ask for, broken streams. The rehearsal server plays them."""
