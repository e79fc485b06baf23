"""`swarm redis-acl`: print the users of Redis that a fleet needs, with the least rights."""

from __future__ import annotations

from swarm.cli.output import print_line, print_note
from swarm.core.settings import load_settings
from swarm.store.connection import database_of
from swarm.store.rights import ROLES, make_user


def print_users() -> None:
    """Print users of Redis with the least rights of workers, clients and the exporter.

    The lines fit redis.conf and an aclfile; without `user` they fit ACL SETUSER. Nobody can log in until `resetpass` is replaced by
    `>PASSWORD`.
    """
    settings = load_settings()
    for role in ROLES:
        print_line(make_user(role, settings.key_prefix, database_of(settings)))
    print_note("note: replace each `resetpass` by `>PASSWORD`; then SWARM_REDIS_URL=redis://USER:PASSWORD@host")
