"""Outputs that are too long for their agent's conversation: small ones in Redis, large ones as objects of their job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from swarm.core.errors import ObjectMissing, ObjectRefused, ObjectsAway
from swarm.core.log import EventLog
from swarm.core.plain import clean_text
from swarm.store.keyspace import Keyspace, check_claim
from swarm.store.objects import JobObjects
from swarm.store.values import Claim, KeptOutput, OutputBounds

log = EventLog("swarm.outputs")
LARGE_BYTES = 64 << 10
"""Texts above this size are objects, if all hosts of the fleet share a store of them."""
_SALT_BYTES = 16
"""An object begins with random bytes: no two outputs have the same one, so each can be deleted with its output."""


class OutputStore:
    """The kept outputs of agents."""

    def __init__(self, keyspace: Keyspace, objects: Callable[[], JobObjects | None]) -> None:
        self._keyspace, self._objects = keyspace, objects

    def keep(self, claim: Claim, key: str, text: str, bounds: OutputBounds) -> KeptOutput:
        """Keep a text until the agent's record expires, if there is room. Raises `NotOwner` or `AgentCancelled`."""
        text = clean_text(text)
        body = text.encode()
        address = self._write(claim.spec.job_id, body) if len(body) <= bounds.agent else ""
        given = (key, "" if address else text, len(body), address, bounds.agent, bounds.job)
        answer = self._keyspace.run("keep_output", claim.agent_id, claim.generation, *given)
        self._delete(answer[2] if answer[0] == "ok" else [address] if address else [])
        check_claim(answer, claim)
        if answer[0] == "over":
            return KeptOutput(over=answer[1], bound=int(answer[2]))
        return KeptOutput(dropped=answer[1])

    def load(self, agent_id: str, key: str) -> str | None:
        """Load a kept text; None if there is none. Raises `ObjectMissing`, `ObjectsAway`, `ObjectRefused`."""
        text, body = self._keyspace.each("hget", self._keys(agent_id), key)
        return text if body is None else self._read(body)

    def all(self, agent_id: str) -> Iterator[tuple[str, str]]:
        """Yield an agent's kept texts by their keys, oldest first. Raises as `load`."""
        order = self._keyspace.client.lrange(self._keyspace.key("kept", agent_id), 0, -1)
        texts, bodies = self._keyspace.each("hgetall", self._keys(agent_id))
        for key in order:
            if key in texts:
                yield key, texts[key]
            elif key in bodies:
                try:
                    yield key, self._read(bodies[key])
                except ObjectMissing:
                    # The agent may have dropped it meanwhile.
                    if self._keyspace.client.hget(self._keys(agent_id)[1], key) == bodies[key]:
                        raise

    def place(self, job_id: str, text: str) -> dict[str, str | int]:
        """Store a text for an output that is imported; returns the fields that refer to it."""
        body = text.encode()
        address = self._write(job_id, body)
        return {"text": "" if address else text, "bytes": len(body), "address": address}

    def _keys(self, agent_id: str) -> list[str]:
        return [self._keyspace.key(kind, agent_id) for kind in ("outputs", "bodies")]

    def _write(self, job_id: str, body: bytes) -> str:
        """Write a large text; returns its address, empty for a text that belongs into Redis."""
        if len(body) <= LARGE_BYTES or (objects := self._objects()) is None:
            return ""
        try:
            return objects.put_loose(job_id, os.urandom(_SALT_BYTES) + body)
        except (ObjectsAway, ObjectRefused) as error:
            # The same bounds hold there.
            log.warning("output.in_redis", job_id=job_id, bytes=len(body), why=error)
            return ""

    def _read(self, body: str) -> str:
        job_id, digest = body.split(" ")[1].split("/")
        objects = self._objects()
        if objects is None:
            raise ObjectMissing(job_id, digest, "is in a store that this host does not know")
        return objects.get(job_id, digest)[_SALT_BYTES:].decode()

    def _delete(self, addresses: list[str]) -> None:
        if addresses and (objects := self._objects()) is not None:
            try:
                objects.delete(addresses)
            except (ObjectsAway, ObjectRefused) as error:
                # A worker tries again.
                log.warning("objects.left", why=error)
