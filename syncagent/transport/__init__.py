"""HTTP that can be cancelled at any point: connections, calls, streams and sessions.

From the inside out:

=========================  ===========================================================
:mod:`~.timeouts`          seconds for each wait of a call
:mod:`~.retries`           when a request is sent again, and after how long
:mod:`~.sockets`           sockets that a cancel shuts down
:mod:`~.detached`          calls of functions that block, which can be abandoned
:mod:`~.resolver`          name look-ups that can be abandoned
:mod:`~.exchange`          one attempt: its token, its clock, the connection it holds
:mod:`~.body`              a body that is read as fast as it arrives
:mod:`~.tls`               TLS contexts, made once and shared
:mod:`~.connections`       urllib3's connections and pools, bound to an exchange
:mod:`~.adapter`           requests' way to them, one per process, new after a fork
:mod:`~.session`           a :class:`requests.Session` whose calls end with a token
:mod:`~.redactor`          text that is safe to show: no key, no query, no credentials
:mod:`~.routes`            proxies and certificates, and whether that route is safe
:mod:`~.prepared`          a request that is ready to be sent, and its secrets
:mod:`~.slow_auth`         credentials that may block, renewed once after a 401
:mod:`~.failures`          errors of the libraries below, as errors of this package
:mod:`~.response`          a response: its head, its body, the meaning of its status
:mod:`~.gate`              a gate that every attempt passes, such as a limiter's
:mod:`~.calls`             a request and its retries
:mod:`~.streams`           the events of a response
:mod:`~.opened`            a response of any status, read as bytes or as events
:mod:`~.settings`          headers, credentials and routes of a transport
:mod:`~.transport`         all of it as one object
=========================  ===========================================================

It knows no provider.

Guarantees:

- A cancel ends a call in any phase without waiting for the network.
- A cancel never disturbs another call, even on a shared pool: a connection leaves its
  exchange before it enters the pool, and one that a cancel has reached is closed.
- No byte that belongs in TLS is ever sent in clear: only plain duplicates of sockets
  are shut down.
- A forked child never uses a connection of its parent, and never ends one.
"""

from .adapter import CancellableAdapter, close_idle
from .opened import OpenedResponse
from .response import WholeResponse
from .retries import Retries
from .session import CancellableSession
from .streams import EventStream
from .timeouts import Timeout, Timeouts
from .transport import Transport

__all__ = [
    "CancellableAdapter",
    "CancellableSession",
    "EventStream",
    "OpenedResponse",
    "Retries",
    "Timeout",
    "Timeouts",
    "Transport",
    "WholeResponse",
    "close_idle",
]
