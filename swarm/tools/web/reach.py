"""Which hosts may be fetched from: decided by the address that the connection then goes to, not by the name.

A name is resolved once, here, and the connection is made to the checked address: a name that means another
address a moment later leads nowhere else. The system's resolver decodes every spelling of an address (decimal, octal,
hexadecimal, IPv6 around IPv4).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import psutil

from swarm.core.errors import ToolError
from swarm.core.settings import Settings
from swarm.permissions.networks import NEVER, PRIVATE
from swarm.permissions.sandbox import resolve_hosts
from swarm.store.connection import redis_hosts

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], list[str]]

_CARRYING = tuple(map(ip_network, ("::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16")))
"""IPv6 that another machine, or this kernel, translates to IPv4: the target is unknown here."""


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system sees it. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))


def own_addresses() -> set[str]:
    """All addresses of this host."""
    cards = psutil.net_if_addrs().values()
    families = (socket.AF_INET, socket.AF_INET6)
    return {one.address.partition("%")[0] for card in cards for one in card if one.family in families}


@dataclass(frozen=True)
class Reach:
    """The hosts that may be fetched from."""

    private: bool = False
    """Private networks, too."""
    never: Collection[str] = ()
    """Addresses that are out of reach whatever they are: this host's own, and Redis's."""
    excepted: Collection[str] = ()
    """`host` or `host:port` as written in a URL, which an operator has named: reached wherever they are."""
    resolver: Resolver = resolve

    def find_address(self, host: str, port: int) -> str:
        """The address to connect to. Raises `ToolError` if the host has none, or any of them is out of reach."""
        try:
            found = self.resolver(host, port)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{host} cannot be found: {error}") from error
        if not found:
            raise ToolError(f"{host} has no address")
        if host not in self.excepted and f"{host}:{port}" not in self.excepted:
            for address in found:
                if why := self._refusal(ip_address(address.partition("%")[0])):
                    raise ToolError(f"{host} is not fetched from: {address} {why}")
        return found[0]

    def _refusal(self, address: Address) -> str:
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            return self._refusal(address.ipv4_mapped)
        if address != IPv6Address("::1") and _is_in(address, _CARRYING):
            return "stands for an address that cannot be seen from here"
        if address.is_loopback or address.is_unspecified or str(address) in self.never:
            return "is this host, or one of the swarm's own"
        if _is_in(address, NEVER):
            return "is never reached: this network's own, or where a cloud keeps a machine's credentials"
        if _is_in(address, PRIVATE):
            return "" if self.private else "is in a private network"
        public = address.is_global and not address.is_multicast and not address.is_reserved
        return "" if public else "is not an address of the public network"


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def find_reach(settings: Settings, *, private: bool) -> Reach:
    """Return what this worker may reach for others: never this host or Redis, except hosts that the operator has named."""
    excepted = {host.strip() for host in settings.web_hosts.split(",") if host.strip()}
    never = own_addresses() | set(resolve_hosts(redis_hosts(settings)))
    return Reach(private=private, never=never, excepted=excepted)
