"""TLS contexts, made once and shared.

Reading a bundle of authorities takes tens of milliseconds, several times as long as the
rest of a connection, and cannot be interrupted; urllib3 does it for every new
connection. Here it is done once, and again when the files have changed.

Guarantees:

- A context is complete before another thread can see it, and never changed afterwards.
- Two threads may make the same context at the same time; both work, one is kept.
- A forked child makes new ones: a thread of the parent may have held a lock inside.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import Any, Final

from urllib3.connection import HTTPSConnection
from urllib3.util.ssl_ import (
    ALPN_PROTOCOLS,
    create_urllib3_context,
    resolve_cert_reqs,
    resolve_ssl_version,
)

from .._forks import in_child
from ..exceptions import ConfigurationError

#: Settings of a connection that become part of its context.
_FILES: Final = ("ca_certs", "ca_cert_dir", "cert_file", "key_file")
_VALUES: Final = (
    *("ca_cert_data", "key_password", "cert_reqs"),
    # With one of them urllib3 switches the check of the name off, in the context.
    *("assert_hostname", "assert_fingerprint"),
    *("ssl_version", "ssl_minimum_version", "ssl_maximum_version"),
)
#: How many contexts are cached; a program has one or two.
_KEPT: Final = 20

_contexts: Final[dict[object, ssl.SSLContext]] = {}
in_child(_contexts.clear)


def use_shared_context(connection: HTTPSConnection) -> None:
    """Set the shared context on *connection*, which is about to connect."""
    if connection.ssl_context is not None:
        return
    settings = {name: getattr(connection, name) for name in (*_FILES, *_VALUES)}
    connection.ssl_context = _shared(settings)
    proxy = connection.proxy_config
    if proxy is not None and proxy.ssl_context is None:
        # The client certificate is for the server, not for the proxy.
        anonymous = {**settings, "cert_file": None, "key_file": None}
        connection.proxy_config = proxy._replace(ssl_context=_shared(anonymous))
    # They are in the context now. urllib3 would load them into it again.
    for name in (*_FILES, "ca_cert_data"):
        setattr(connection, name, None)


def _shared(settings: dict[str, Any]) -> ssl.SSLContext:
    """Return the context for *settings*, from the cache if the files are unchanged."""
    key = tuple(settings.values())
    for path in (settings[name] for name in _FILES):
        if path is not None:
            state = os.stat(path)
            key += (path, state.st_mtime_ns, state.st_size, state.st_ino)
    context = _contexts.get(key)
    if context is None:
        if len(_contexts) >= _KEPT:
            _contexts.clear()
        context = _contexts[key] = _make(settings)
    return context


def _make(settings: dict[str, Any]) -> ssl.SSLContext:
    context = create_urllib3_context(
        ssl_version=resolve_ssl_version(settings["ssl_version"]),
        ssl_minimum_version=settings["ssl_minimum_version"],
        ssl_maximum_version=settings["ssl_maximum_version"],
        cert_reqs=resolve_cert_reqs(settings["cert_reqs"]),
    )
    authorities = tuple(
        settings[name] for name in ("ca_certs", "ca_cert_dir", "ca_cert_data")
    )
    try:  # reading the files is slow
        if any(authorities):
            context.load_verify_locations(*authorities)
        else:
            context.load_default_certs()
        if settings["cert_file"]:
            context.load_cert_chain(
                settings["cert_file"], settings["key_file"], settings["key_password"]
            )
    except OSError as error:
        files = ", ".join(str(settings[name]) for name in _FILES if settings[name])
        raise ConfigurationError(
            f"the certificates in {files or 'the system'} cannot be used ({error}); "
            "verify takes a file or folder of authorities, cert a certificate and its "
            "key, all of them as PEM"
        ) from error
    context.set_alpn_protocols(ALPN_PROTOCOLS)
    # urllib3 sets them again for every connection. In a shared context that would free
    # memory that another thread is reading.
    context.set_alpn_protocols = lambda _: None  # type: ignore[method-assign,assignment]
    context.sslsocket_class = _TlsSocket
    return context


class _TlsSocket(ssl.SSLSocket):
    """A socket that the garbage collector closes without a warning.

    A cancel may end the connection just before its handshake. The :mod:`ssl` module
    then drops the socket, and Python would warn about an unclosed resource.
    """

    # The method in C: a signal handler that raises cannot interrupt it.
    __del__ = socket.SocketType.close
