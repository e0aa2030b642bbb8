"""Name look-ups that a cancel abandons, even if the name server is silent.

``getaddrinfo`` cannot be interrupted, not even by Ctrl+C. So it runs on a short-lived
thread of its own, and the calls that wait for it can leave: see :mod:`~.detached`.

Calls for the same name and port share one look-up, so a silent name server costs one
thread per name, however often calls are cancelled.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from ..cancel import CancelToken
from .detached import call_detached
from .sockets import Address

__all__ = ["Resolver", "resolve"]

#: A function with the arguments and the result of :func:`socket.getaddrinfo`.
Resolver = Callable[[str, int, int, int], Sequence[Address]]


def resolve(
    host: str,
    port: int,
    token: CancelToken,
    *,
    family: int = socket.AF_UNSPEC,
    resolver: Resolver | None = None,
) -> Sequence[Address]:
    """Return the addresses of *host*.

    Cancellation: ends at once; the look-up itself is left behind.

    :param resolver: used in place of :func:`socket.getaddrinfo`.
    :raises Cancelled: the token was cancelled.
    :raises OSError: the look-up failed.
    """
    token.checkpoint()
    if resolver is None:
        try:  # a numeric address needs no name server, and no thread
            return socket.getaddrinfo(
                host, port, family, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST
            )
        except (OSError, UnicodeError):  # a name, or the real look-up tells what else
            pass
    look_up = resolver or socket.getaddrinfo
    return call_detached(
        lambda: list(look_up(host, port, family, socket.SOCK_STREAM)),
        token,
        name="syncagent-dns",
        refusal=lambda problem: socket.gaierror(
            socket.EAI_AGAIN, f"a name look-up failed: {problem}"
        ),
        key=(host, port, family, look_up),
    )
