"""Checks of the environment: packages, keys, addresses, the terminal."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final, Literal
from urllib.parse import urlsplit

from ... import __version__
from ...exceptions import ConfigurationError
from ...models.endpoint import Endpoint
from ...models.endpoints import ENDPOINTS
from ...models.local import INSTALL
from ..findings import Finding
from ..formatting import address_text

__all__ = [
    "check_models",
    "check_packages",
    "check_terminal",
    "mask",
]

#: Extras for work on the package itself.
_DEVELOPER_EXTRAS: Final = frozenset({"test", "lint", "typing", "docs"})
#: Length from which four characters of a key may be shown.
_LONG_KEY: Final = 20
#: Seconds for a server on this machine to accept a connection.
_CONNECT_SECONDS: Final = 0.3
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
#: Providers that are always shown; of the others only those that can be used.
_MAIN: Final = frozenset({"openai", "anthropic", "gemini", "ollama"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def check_packages() -> Iterator[Finding]:
    """Report versions: of Python, the system, requirements and extras.

    Whether a version satisfies its requirement is for pip to say: ``pip check``.
    """
    yield Finding(name="syncagent", value=__version__)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding(name="Python", value=f"{python}, {sys.executable}")
    yield Finding(name="system", value=platform.platform(terse=True))
    try:
        requirements = requires("syncagent") or []
    except PackageNotFoundError:
        yield Finding(
            name="package",
            value="running from source, not installed",
            status="problem",
            advice="pip install --editable . in its folder",
        )
        return
    extras: dict[str, list[str]] = {}
    for requirement in requirements:
        line, _, marker = requirement.partition(";")
        name = re.split(r"[^\w.-]", line.strip())[0]
        extra = re.search(r"""extra == ["']([\w-]+)["']""", marker)
        if extra is not None:
            extras.setdefault(extra[1], []).append(name)
        elif not marker:
            yield _package(name, [name], f'pip install "{line.strip()}"', "problem")
    for extra_name in sorted(extras.keys() - _DEVELOPER_EXTRAS):
        is_local = extra_name == "local"
        advice = INSTALL if is_local else f'pip install "syncagent[{extra_name}]"'
        yield _package(f"[{extra_name}]", extras[extra_name], advice, "off")


def _package(
    label: str, names: list[str], advice: str, missing: Literal["off", "problem"]
) -> Finding:
    versions = []
    for name in names:
        try:
            versions.append(version(name))
        except PackageNotFoundError:
            versions.append("missing")
    shown = [f"{name} {found}" for name, found in zip(names, versions, strict=True)]
    return Finding(
        name=label,
        value=", ".join(versions if names == [label] else shown),
        status=missing if "missing" in versions else "ok",
        advice=advice if "missing" in versions else "",
    )


def check_models() -> Iterator[Finding]:
    """Look for keys, addresses and proxies in the environment."""
    findings = [_check_endpoint(endpoint) for endpoint in ENDPOINTS.values()]
    shown = [each for each in findings if each.status != "off" or each.name in _MAIN]
    yield from shown
    yield Finding(
        name="others",
        value=f"{len(findings) - len(shown)} more; syncagent models lists them",
        status="off",
    )
    for name in _PROXIES:
        value = os.environ.get(name) or os.environ.get(name.lower())
        if value:
            yield Finding(name=name, value=address_text(value))
    if not any(finding.status == "ok" for finding in findings):
        yield Finding(
            name="usable",
            value="none: no key is set, and no server runs on this machine",
            status="off",
            advice="run and chat use the local model, or the scripted demo model",
        )


def _check_endpoint(endpoint: Endpoint) -> Finding:
    name, key = endpoint.name, endpoint.find_key()
    try:
        url = endpoint.find_url()
    except ConfigurationError as error:
        return Finding(name=name, value=str(error), status="off")
    address = address_text(url)
    other_address = "" if url == endpoint.base_url else f", {address}"
    if key is not None:
        variables = (*endpoint.key_variables, *endpoint.token_variables)
        variable = next(each for each in variables if os.environ.get(each, "").strip())
        shown = f"{variable}={mask(key)}{other_address}"
        if key.isascii() and key.isprintable() and not {*" \"'"} & {*key}:
            return Finding(name=name, value=shown)
        return Finding(
            name=name,
            value=f"{shown}, with quotes, blanks or invisible characters",
            status="problem",
            advice=f"set {variable} to the key alone",
        )
    if endpoint.needs_key or endpoint.is_aws:
        missing = f"no {' or '.join(endpoint.key_variables)}{other_address}"
        return Finding(name=name, value=missing, status="off")
    parts = urlsplit(url)
    if parts.hostname not in _LOOPBACK:
        return Finding(name=name, value=address)
    try:
        server = (parts.hostname, parts.port or 80)
        socket.create_connection(server, timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return Finding(name=name, value=f"no server at {address}", status="off")
    return Finding(name=name, value=f"a server listens at {address}")


def mask(key: str) -> str:
    """Return the last four characters of a key, none of a short one."""
    return f"...{key[-4:]}" if len(key) >= _LONG_KEY else "(set)"


def check_terminal() -> Iterator[Finding]:
    """Report the terminal, its encoding and colours, and whether Ctrl+C works."""
    streams = {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}
    names = [name for name, stream in streams.items() if stream.isatty()]
    size = shutil.get_terminal_size()
    value = f"{', '.join(names)}; {size.columns} x {size.lines}"
    value = value if names else "stdin, stdout and stderr are not terminals"
    yield Finding(name="terminal", value=value, status="ok" if names else "off")
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    is_utf8 = encoding.lower().replace("-", "") == "utf8"
    yield Finding(
        name="encoding",
        value=encoding,
        status="ok" if is_utf8 else "off",
        advice="" if is_utf8 else "set PYTHONUTF8=1 to see more than question marks",
    )
    term = os.environ.get("TERM", "")
    is_off = bool(os.environ.get("NO_COLOR"))
    yield Finding(
        name="colours",
        value="off (NO_COLOR)" if is_off else f"TERM={term or '(not set)'}",
        status="off" if is_off or term in ("", "dumb") else "ok",
    )
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield Finding(
            name="Ctrl+C",
            value="ignored, by the program that started this one",
            status="problem",
            advice="start it in the foreground, or end it with SIGTERM",
        )
