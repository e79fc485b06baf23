"""The least rights in Redis of each kind of user: an ACL for the swarm's keys, Celery's own keys and channels, and the commands in use.

A step runs with the rights of its caller. Functions belong to the whole server, so only workers can load them: a client that could
replace one would have its code run with the rights of others. Swarms that share a server therefore trust each other's workers.
"""

from __future__ import annotations

from typing import Literal, get_args

Role = Literal["worker", "client", "exporter"]
ROLES: tuple[Role, ...] = get_args(Role)

# Commands without keys that would tell of other applications' data are taken away again.
_COMMON = "+@connection +@read -@dangerous -@admin -@scripting -scan -randomkey -dbsize +fcall +time +info"
_COMMANDS: dict[Role, str] = {
    # Locks are scripts.
    "worker": "+@write +@pubsub +@transaction +evalsha +script|load +function|load +function|list +function|delete",
    "client": "+@write +@pubsub +@transaction +evalsha +script|load",
    "exporter": "+@transaction +set +del +hset +hincrby +sadd +pexpire",
}


def make_rights(role: Role, prefix: str, database: int) -> str:
    """The rules of an ACL user, without its name, state and password."""
    if role == "exporter":
        # It writes only how far it has read.
        keys = [f"%R~{prefix}:*", f"~{prefix}:telemetry", f"~{prefix}:telemetry:*"]
        keys += [f"~{prefix}:job:*:telemetry", f"~{prefix}:job:*:keys"]
        channels: list[str] = []
    else:
        keys = [f"~{prefix}", f"~{prefix}:*", f"~{prefix}.*"]
        # The broker's table of the queue, of broadcasts, of events, and of answers to broadcasts.
        keys += [f"~_kombu.binding.{prefix}", f"~_kombu.binding.{prefix}.*", f"~_kombu.binding.reply.{prefix}.pidbox"]
        # Flower subscribes to this pattern of events, which the rule must equal.
        channels = [f"&/{database}.{prefix}.pidbox", f"&/{database}.{prefix}.events/*"]
    return " ".join(["resetkeys", *keys, "resetchannels", *channels, "-@all", *_base(role)])


def make_user(role: Role, prefix: str, database: int) -> str:
    """A user of this role as a line of redis.conf or of an aclfile. It has no password, so it cannot log in yet."""
    return f"user {prefix}-{role} on resetpass {make_rights(role, prefix, database)}"


def _base(role: Role) -> list[str]:
    # Withdrawn rights must follow all that was given by category.
    own = _COMMANDS[role].split()
    given = [one for one in own if one.startswith("+@")]
    return [*given, *_COMMON.split(), *(one for one in own if one not in given)]
