"""The worker's side of the batch lane: sends lots, recovers lost ones, hands out replies.

Any worker can do it; one worker at a time handles a lot. A lot is never sent again while its batch may exist. If the API's answer was
lost, the batch is sought in the API's list by time and number of requests, and identified by the `custom_id`s of its results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from swarm.capabilities.batching.batches import Batches, DueLots, Lot
from swarm.core.errors import ModelError, PermanentModelError
from swarm.core.log import EventLog
from swarm.models.batches import POST_SECONDS, BatchLane
from swarm.runtime.additions import Duty, WorkerHost, WorkerPart

log = EventLog("swarm.batches")
LOOK_EVERY_SECONDS = 1.0
SETTLED_SECONDS = POST_SECONDS + 60.0
"""How long a sent batch may take to appear in the API's list."""
_FIRST_LOOK_SECONDS = 2.0
_LONGEST_LOOK_SECONDS = 60.0
_AT_ONCE = 100


class BatchesOfWorker(WorkerPart):
    """A worker's share of the batch lane."""

    def duties(self, host: WorkerHost) -> Iterable[Duty]:
        """Send and look at lots."""
        return [Duty("batches", min(LOOK_EVERY_SECONDS, self.settings.batch_seconds), BatchSender(host))]


class BatchSender:
    """Sends due lots and checks sent ones, once per call."""

    def __init__(self, host: WorkerHost) -> None:
        self._host, self._batches = host, Batches(host.store.keyspace)
        self._soon = min(_FIRST_LOOK_SECONDS, host.settings.batch_seconds)

    def __call__(self) -> None:
        if not self._batches.has_work():
            return
        made = None if self._host.is_draining() else self._batches.make_lot(self._host.settings.batch_seconds)
        if made is not None:
            self._send(*made)
        due = self._batches.due()
        for lot in due.lots:
            try:
                self._look(lot, due)
            except ModelError as error:
                log.warning("lot.put_off", lot=lot.id, batch=lot.batch, error=error)
                self._batches.note(lot, lot.batch, sure=lot.sure, again_in=2 * self._soon)

    def _lane(self, lot: Lot) -> BatchLane:
        return self._host.model_at(lot.server or None).batches()

    def _send(self, lot: Lot, bodies: dict[str, Any]) -> None:
        try:
            batch = self._lane(lot).post(bodies)
        except PermanentModelError as error:
            log.error("lot.refused", lot=lot.id, requests=len(bodies), error=error)
            self._answer(lot, dict.fromkeys(bodies, _errored(error)))
            return
        except ModelError as error:
            # The batch may exist all the same.
            log.warning("lot.unheard", lot=lot.id, requests=len(bodies), error=error)
            self._batches.note(lot, "", sure=False, again_in=2 * self._soon)
            return
        self._batches.note(lot, batch, sure=True, again_in=self._soon)
        log.info("lot.sent", lot=lot.id, batch=batch, requests=len(bodies))

    def _look(self, lot: Lot, due: DueLots) -> None:
        if lot.batch:
            self._look_at_batch(lot, due.now)
            return
        for found in self._lane(lot).since(lot.made_at):
            if found.requests == lot.count and found.id not in due.taken and found.id not in lot.refused:
                log.info("lot.found", lot=lot.id, batch=found.id)
                self._batches.note(lot, found.id, sure=False, again_in=0.0)
                return
        if due.now - lot.made_at < SETTLED_SECONDS:
            self._batches.note(lot, "", sure=False, again_in=2 * self._soon)
            return
        log.warning("lot.sent_again", lot=lot.id, why="the API knows of no such batch")
        self._send(lot, self._batches.bodies(lot))

    def _look_at_batch(self, lot: Lot, now: float) -> None:
        lane = self._lane(lot)
        if not lane.look(lot.batch).ended:
            pause = min(_LONGEST_LOOK_SECONDS, max(self._soon, (now - lot.made_at) / 10))
            self._batches.note(lot, lot.batch, sure=lot.sure, again_in=pause)
            return
        known = lot.sure or self._is_ours(lot, lane)
        if not known:
            self._batches.note(lot, "", sure=False, again_in=0.0, wrong=lot.batch)
            return
        replies: dict[str, Any] = {}
        for name, result in lane.results(lot.batch):
            replies[name] = result
            if len(replies) == _AT_ONCE:
                self._answer(lot, replies)
                replies = {}
        self._answer(lot, replies)
        if left := self._batches.close(lot):
            self._answer(lot, {name: {"type": "expired"} for name in left})
            self._batches.close(lot)
        log.info("lot.ended", lot=lot.id, batch=lot.batch, requests=lot.count)

    def _is_ours(self, lot: Lot, lane: BatchLane) -> bool:
        names = self._batches.bodies(lot).keys()
        return any(name in names for name, _ in lane.results(lot.batch))

    def _answer(self, lot: Lot, replies: dict[str, Any]) -> None:
        if replies:
            self._host.publish(self._batches.reply(lot, replies))
            if len(replies) == lot.count:
                self._batches.close(lot)


def _errored(error: PermanentModelError) -> dict[str, Any]:
    kind = "authentication_error" if error.kind == "authentication" else "invalid_request_error"
    return {"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": str(error)}}}
