"""HTTP that can be stopped anywhere: connections, calls, streams, and sessions.

From the inside out:

=========================  ===========================================================
:mod:`~.exchange`          one attempt: its token, its clock, the connection it holds
:mod:`~.body`              a body that is read as fast as it comes
:mod:`~.tls`               TLS contexts, made once and shared
:mod:`~.connections`       urllib3's connections and pools, armed by an exchange
:mod:`~.adapter`           requests' way to them, one per process, remade after a fork
:mod:`~.session`           a :class:`requests.Session` whose calls end with a token
:mod:`~.redactor`          what errors may show: no key, no query, no credentials
:mod:`~.prepared`          a request that is ready to be sent, and what in it is secret
:mod:`~.failures`          what went wrong below, in our words
:mod:`~.answers`           an answer: its head, its body, and what its status means
:mod:`~.calls`             a request and its retries
:mod:`~.streams`           the events of an answer
:mod:`~.routes`            proxies and certificates, and whether that way is safe
:mod:`~.settings`          headers and credentials
:mod:`~.transport`         all of it as one object
=========================  ===========================================================

It knows no provider.
"""

from .adapter import CancellableAdapter, close_idle
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
    "WholeResponse",
    "Retries",
    "Timeout",
    "Timeouts",
    "Transport",
    "close_idle",
]
