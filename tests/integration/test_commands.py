"""How few commands the segments of a real worker take.

Tests of swarm/runtime/children.py, swarm/store/agents.py, tasks/publish.py.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile

from tests.fleet import Fleet

_STEP = re.compile(r"FCALL swarm_[0-9a-f]{12}_(\w+)")


def test_a_parent_and_its_child_take_one_command_for_each_change_and_read_little_besides(fleet: Fleet) -> None:
    server, client = fleet.rehearse(), fleet.swarm.store.keyspace.client
    # With a key: such a worker can serve whoever comes.
    fleet.start_worker(1, ANTHROPIC_API_KEY="none")
    assert fleet.submit("TREE depth=1 fanout=1 steps=0", server).wait(30).state == "completed"
    with client.monitor() as monitor:
        heard = monitor.listen()
        job = fleet.submit("TREE depth=1 fanout=1 steps=0", server)
        assert job.wait(30).text == "DONE 2"
        client.echo("that was all")
        until = takewhile(lambda each: "that was all" not in each["command"], heard)
        commands = [each["command"] for each in until if each["client_type"] != "lua"]
    [child] = [agent for agent in job.agents() if agent.parent_id]
    steps = Counter(found[1] for said in commands if (found := _STEP.match(said)))
    taken = {name: steps[name] for name in ("claim", "append", "spawn", "park", "finish", "wakeup")}
    assert taken == {"claim": 3, "append": 6, "spawn": 1, "park": 1, "finish": 2, "wakeup": 0}
    reads = [said for said in commands if re.match(rf"(HMGET|HGET|XREVRANGE|XRANGE) \S*:{child.id}\b", said)]
    assert len(reads) == 1, "its parent reads its end, and nobody reads that it has begun"
    assert not [said for said in commands if said.startswith("HGET ")]
