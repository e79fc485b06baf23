"""What happens in a job as typed events: labels for people, whole contents for programs."""

from swarm.streaming.events import StreamEvent
from swarm.streaming.telling import Teller, stream

__all__ = ["StreamEvent", "Teller", "stream"]
