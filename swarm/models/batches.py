"""The Message Batches API: many requests at half the price, answered together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from swarm.core.errors import ModelError
from swarm.models import ModelRequest, Reply, Usage
from swarm.models.failures import stream_failure
from swarm.models.request import build_request, fit, unmarked

if TYPE_CHECKING:
    from anthropic import Anthropic

Answer = TypeVar("Answer")
PRICE_SHARE = 0.5
"""Price of a batched request, as a share of its normal price."""
POST_SECONDS = 60.0
_LISTED = 100
_MOST_LISTED = 1_000
_EARLIER_SECONDS = 600.0
"""Largest difference between the API's clock and Redis'."""


class ListedBatch(NamedTuple):
    """A batch as the API lists it."""

    id: str
    ended: bool
    requests: int


class BatchLane:
    """The batches of the account whose key this worker has. Every method raises `ModelError`."""

    def __init__(self, client: Callable[[], Any], explain: Callable[[Exception, str], ModelError | None]) -> None:
        self._client, self._explain = client, explain

    def post(self, bodies: Mapping[str, dict[str, Any]]) -> str:
        """Send requests as one batch and return its id.

        After a failure other than a refusal, the batch may still exist.
        """
        requests: list[Any] = [{"custom_id": name, "params": body} for name, body in bodies.items()]
        return str(self._ask(lambda api: api.messages.batches.create(requests=requests, timeout=POST_SECONDS).id))

    def look(self, batch: str) -> ListedBatch:
        """Get a batch's current state."""
        return self._ask(lambda api: _found(api.messages.batches.retrieve(batch)))

    def since(self, moment: float) -> list[ListedBatch]:
        """List batches made after that moment (Unix seconds) or shortly before it, newest first."""
        earliest = datetime.fromtimestamp(moment - _EARLIER_SECONDS, UTC)

        def read(api: Anthropic) -> list[ListedBatch]:
            listed: list[ListedBatch] = []
            for batch in api.messages.batches.list(limit=_LISTED):
                if batch.created_at < earliest or len(listed) == _MOST_LISTED:
                    break
                listed.append(_found(batch))
            return listed

        return self._ask(read)

    def results(self, batch: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the `custom_id` and the API's result of each request of a batch that has ended."""
        found = self._ask(lambda api: api.messages.batches.results(batch))
        entries = iter(found)
        while (entry := self._ask(lambda _: next(entries, None))) is not None:
            yield entry.custom_id, entry.result.to_dict(mode="json")

    def _ask(self, act: Callable[[Anthropic], Answer]) -> Answer:
        try:
            return act(self._client())
        except ModelError:
            raise
        except Exception as error:
            failure = self._explain(error, "")
            if failure is None:
                raise
            raise failure from error


def batch_body(request: ModelRequest, *, max_output: int) -> dict[str, Any]:
    """Build a request for a batch, without cache marks: those cost money and seldom help there."""
    body = fit(build_request(request, max_output=max_output), request.facts)
    body["messages"] = [
        {**message, "content": [unmarked(block) for block in message["content"]]} for message in body["messages"]
    ]
    if "system" in body:
        body["system"] = [unmarked(block) for block in body["system"]]
    return body


def read_result(result: Mapping[str, Any], *, model: str, aliases: str) -> Reply:
    """The reply in a request's result. Raises `ModelError` if the request failed."""
    if result["type"] == "succeeded":
        message = result["message"]
        counts = {name: message["usage"].get(name) or 0 for name in Usage.model_fields}
        return Reply(
            content=message["content"],
            stop_reason=message["stop_reason"] or "end_turn",
            usage=Usage(**counts),
            model=message["model"],
        )
    error = result.get("error") or {}
    if result["type"] != "errored":
        # The batch expired or was cancelled; the request itself is fine.
        error = {"error": {"type": "api_error", "message": f"its batch {result['type']} before its turn came"}}
    raise stream_failure(error, model=model, provider="anthropic", aliases=aliases)


def _found(batch: Any) -> ListedBatch:
    counts = batch.request_counts
    total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
    return ListedBatch(batch.id, batch.processing_status == "ended", total)
