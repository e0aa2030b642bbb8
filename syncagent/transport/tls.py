"""TLS contexts, made once and shared.

To read a bundle of authorities takes tens of milliseconds, several times as long as all
the rest of a connection, and nothing can interrupt it; urllib3 does it for every new
connection. Here it is done once, and again when the files have changed.
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

from ..exceptions import ConfigurationError

#: Settings of a connection that become part of its context.
_FILES: Final = ("ca_certs", "ca_cert_dir", "cert_file", "key_file")
_VALUES: Final = (
    *("ca_cert_data", "key_password", "cert_reqs"),
    *("ssl_version", "ssl_minimum_version", "ssl_maximum_version"),
)
#: How many contexts are kept; a program has one or two.
_KEPT: Final = 20

_contexts: Final[dict[object, ssl.SSLContext]] = {}

if hasattr(os, "register_at_fork"):
    # Another thread of the parent may have held a lock inside of one.
    os.register_at_fork(after_in_child=_contexts.clear)


def use_shared_context(connection: HTTPSConnection) -> None:
    """Give *connection*, which is about to connect, a context that others have, too."""
    if connection.ssl_context is not None:
        return
    settings = {name: getattr(connection, name) for name in (*_FILES, *_VALUES)}
    connection.ssl_context = _shared(settings)
    proxy = connection.proxy_config
    if proxy is not None and proxy.ssl_context is None:
        # Who we are is for the server alone.
        anonymous = {**settings, "cert_file": None, "key_file": None}
        connection.proxy_config = proxy._replace(ssl_context=_shared(anonymous))
    # They are in the context now. What is left here would be loaded into it again.
    for name in (*_FILES, "ca_cert_data"):
        setattr(connection, name, None)


def _shared(settings: dict[str, Any]) -> ssl.SSLContext:
    stamps = tuple(_stamp(settings[name]) for name in _FILES)
    key = (*settings.values(), *stamps)
    context = _contexts.get(key)
    if context is None:
        if len(_contexts) >= _KEPT:
            _contexts.clear()
        context = _contexts[key] = _make(settings)
    return context


def _stamp(path: str | None) -> object:
    """Return what changes when a file does."""
    if path is None:
        return None
    state = os.stat(path)
    return state.st_mtime_ns, state.st_size, state.st_ino


def _make(settings: dict[str, Any]) -> ssl.SSLContext:
    context = create_urllib3_context(
        ssl_version=resolve_ssl_version(settings["ssl_version"]),
        ssl_minimum_version=settings["ssl_minimum_version"],
        ssl_maximum_version=settings["ssl_maximum_version"],
        cert_reqs=resolve_cert_reqs(settings["cert_reqs"]),
    )
    try:
        _load(context, settings)
    except OSError as error:
        files = ", ".join(str(settings[name]) for name in _FILES if settings[name])
        raise ConfigurationError(
            f"the certificates in {files or 'the system'} cannot be used ({error}); "
            "verify takes a file or folder of authorities, cert a certificate and its "
            "key, all of them as PEM"
        ) from error
    context.set_alpn_protocols(ALPN_PROTOCOLS)
    # urllib3 sets them for every connection. In a shared context that would free what
    # another thread is just reading.
    context.set_alpn_protocols = _leave_alone  # type: ignore[method-assign,assignment]
    context.sslsocket_class = _TlsSocket
    return context


def _load(context: ssl.SSLContext, settings: dict[str, Any]) -> None:
    """Read the files, which takes its time."""
    authorities = tuple(
        settings[name] for name in ("ca_certs", "ca_cert_dir", "ca_cert_data")
    )
    if any(authorities):
        context.load_verify_locations(*authorities)
    else:
        context.load_default_certs()
    if settings["cert_file"]:
        context.load_cert_chain(
            settings["cert_file"], settings["key_file"], settings["key_password"]
        )


class _TlsSocket(ssl.SSLSocket):
    """A socket that closes itself without complaint.

    A cancel may end the connection just before its handshake. The :mod:`ssl` module
    then drops the socket, and Python would warn of a resource that is not closed.
    """

    # The method in C: a signal handler that raises cannot get into it.
    __del__ = socket.SocketType.close


def _leave_alone(protocols: object) -> None:
    """Do nothing: it is set."""
