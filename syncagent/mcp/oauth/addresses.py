"""Keep URLs that a stranger has chosen away from the private network.

An MCP server names its authorization server, and that names its endpoints. A server on
the internet could name ``https://10.0.0.1/`` and have this program knock there. So the
metadata of a server reaches as far as the server itself, and no further in.

Guarantees:

- The address that was checked is the one that is connected to: the check is part of the
  look-up, so a name that changes its address in between gains nothing.
- Link-local addresses, where clouds keep the credentials of a machine, are never used.
- Behind a proxy, which looks names up itself, only numeric addresses can be checked.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

from ...transport.sockets import Address

__all__ = ["AddressRefused", "Reach", "look_up_within", "reach_of"]

_NAT64: Final = ip_network("64:ff9b::/96")


class Reach(IntEnum):
    """How far into private networks a URL may lead."""

    PUBLIC = 0
    PRIVATE = 1
    LOCAL = 2
    #: Nobody's: link-local, multicast, unspecified.
    NOWHERE = 3


class AddressRefused(OSError):
    """A name has only addresses that must not be used here."""


def reach_of(address: str) -> Reach:
    """Return where a numeric *address* leads.

    :raises ValueError: it is not one.
    """
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):  # an IPv4 address may be inside of it
        if ip in _NAT64:
            ip = IPv4Address(int(ip) & 0xFFFFFFFF)
        else:
            ip = ip.ipv4_mapped or ip.sixtofour or ip
    if ip.is_loopback:
        return Reach.LOCAL
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        return Reach.NOWHERE
    return Reach.PUBLIC if ip.is_global else Reach.PRIVATE


def look_up_within(
    limit: Reach, host: str, port: int, family: int, kind: int
) -> Sequence[Address]:
    """Do the work of :func:`socket.getaddrinfo`, without addresses beyond *limit*.

    :raises AddressRefused: there are no others.
    """
    found: list[Any] = socket.getaddrinfo(host, port, family, kind)
    allowed = [item for item in found if reach_of(str(item[4][0])) <= limit]
    if found and not allowed:
        # With a number: the transport keeps only errors of the system as causes.
        raise AddressRefused(errno.EACCES, f"{host} is in a private network")
    return allowed
