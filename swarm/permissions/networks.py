"""Networks that agents never reach, and private networks: one list for fetching tools, the sandbox and deployments.

As of 22 November 2026, from IANA's special-purpose address registries (RFC 6890) and the clouds' pages about instance metadata. Most
metadata services have the link-local address 169.254.169.254; the others are listed here. AWS: "Retrieve instance metadata",
"EKS Pod Identity Agent". Google: "Query VM metadata" (machines with IPv6 alone). Azure: "What is IP address 168.63.129.16?". Alibaba:
"ECS instance metadata". Oracle: "Instance Metadata Service". Scaleway: its page in cloud-init. Linode: "Metadata Service".
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network

_METADATA = (
    "100.100.100.200/32",  # Alibaba
    "168.63.129.16/32",  # Azure: the machine's host, at a public address
    "fd00:ec2::/32",  # AWS
    "fd20:ce::254/128",  # Google
    "fd00:c1::a9fe:a9fe/128",  # Oracle
    "fd00:42::42/128",  # Scaleway
    "fd00:a9fe:a9fe::1/128",  # Linode
    "fd00:100::100:200/128",  # Alibaba
)
NEVER: tuple[Network, ...] = tuple(
    map(ip_network, ("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/3", "fe80::/10", "ff00::/8", *_METADATA))
)
"""Networks that are always forbidden: this network, link-local, protocol assignments, multicast and above, metadata."""
PRIVATE: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            "10.0.0.0/8",
            "100.64.0.0/10",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "fc00::/7",
            "fec0::/10",  # site-local: no longer assigned, but still in use
        ),
    )
)
"""Networks that only jobs with access to private networks reach."""
