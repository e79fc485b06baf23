"""The queues of broadcasts to workers, under the swarm's prefix: an ACL can then name them."""

from __future__ import annotations

from kombu import Queue
from kombu.pidbox import Mailbox


class PrefixedMailbox(Mailbox):  # type: ignore[misc]
    """Celery's mailbox of broadcasts and their answers. Celery's own names begin with a random id, or with a host."""

    def get_reply_queue(self) -> Queue:
        """The queue of one sender's answers."""
        return self._prefix(super().get_reply_queue())

    def get_queue(self, hostname: str) -> Queue:
        """The queue of one worker."""
        return self._prefix(super().get_queue(hostname))

    def _prefix(self, queue: Queue) -> Queue:
        queue.name = f"{self.namespace}.{queue.name}"
        return queue
