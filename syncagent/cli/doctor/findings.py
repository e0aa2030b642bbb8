"""What the doctor finds: values, and what can be said about them without asking."""

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

import msgspec

from ... import __version__
from ...models.endpoints import ENDPOINTS, Endpoint
from ...models.local import INSTALL

__all__ = ["Finding", "find_installed", "find_models", "find_terminal", "masked"]

#: ``off``: it is not there, and need not be.
Status = Literal["ok", "off", "problem"]

#: Those for people who work on the package itself.
_WORKSHOP: Final = frozenset({"test", "lint", "typing", "docs"})
#: A key of which four characters may be shown has so many at least.
_LONG_KEY: Final = 20
#: Seconds that a server on this machine has to accept a connection.
_GLANCE: Final = 0.3
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    value: str
    status: Status = "ok"
    #: What to do about it.
    advice: str = ""


# -- what is installed -------------------------------------------------------------


def find_installed() -> Iterator[Finding]:
    """Look at versions: of Python, the system, and what is needed."""
    yield Finding(name="syncagent", value=__version__)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding(name="Python", value=f"{python}, {sys.executable}")
    yield Finding(name="system", value=platform.platform(terse=True))
    try:
        needed = requires("syncagent") or []
    except PackageNotFoundError:
        yield Finding(
            name="package",
            value="not installed, only lying about",
            status="problem",
            advice="pip install --editable . in its folder",
        )
        return
    core = [line for line in needed if ";" not in line]
    for line in core:
        yield _package(line)
    yield from _extras([line for line in needed if ";" in line])


def _package(line: str) -> Finding:
    name, wanted = _split(line)
    found = _version(name)
    if found is None or not _satisfies(found, wanted):
        value = f"{found or 'missing'}, needs {wanted}"
        return Finding(
            name=name,
            value=value,
            status="problem",
            advice=f'pip install "{name}{wanted}"',
        )
    return Finding(name=name, value=found)


def _extras(lines: list[str]) -> Iterator[Finding]:
    extras: dict[str, list[str]] = {}
    for line in lines:
        requirement, _, condition = line.partition(";")
        extra = re.search(r"""extra == ["']([\w-]+)["']""", condition)
        if extra is not None and extra[1] not in _WORKSHOP:
            extras.setdefault(extra[1], []).append(requirement.strip())
    for extra_name, requirements in sorted(extras.items()):
        yield _extra(extra_name, requirements)


def _extra(extra: str, requirements: list[str]) -> Finding:
    """Say whether all of an extra is there, and of the right version."""
    advice = INSTALL if extra == "local" else f'pip install "syncagent[{extra}]"'
    shown, is_there, is_right = [], True, True
    for name, wanted in map(_split, requirements):
        found = _version(name)
        is_there = is_there and found is not None
        fits = found is None or _satisfies(found, wanted)
        is_right = is_right and fits
        needs = "" if fits else f" (needs {wanted})"
        shown.append(f"{name} {found or 'missing'}{needs}")
    status: Status = "ok" if is_there and is_right else "problem"
    if status == "problem" and is_right:
        status = "off"
    return Finding(
        name=f"[{extra}]",
        value=", ".join(shown),
        status=status,
        advice="" if status == "ok" else advice,
    )


def _split(requirement: str) -> tuple[str, str]:
    match = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*\(?([^)]*)", requirement)
    assert match is not None
    return match[1], match[2].replace(" ", "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _satisfies(found: str, wanted: str) -> bool:
    """Is version *found* within what *wanted*, such as ``>=2.7,<3``, says?"""
    have = _numbers(found)
    for operator, text in re.findall(r"(>=|<=|==|!=|~=|<|>)([\w.]+)", wanted):
        want = _numbers(text)
        fits = {
            ">=": have >= want,
            "~=": have >= want,
            "<=": have <= want,
            "==": have == want,
            "!=": have != want,
            "<": have < want,
            ">": have > want,
        }
        if not fits[operator]:
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    found = [int(part) for part in re.findall(r"\d+", text.split("+")[0])][:4]
    return (*found, 0, 0, 0, 0)[:4]


# -- which models there are --------------------------------------------------------


def find_models() -> Iterator[Finding]:
    """Look for keys, addresses and proxies in the environment."""
    found = [_endpoint(endpoint) for endpoint in ENDPOINTS.values()]
    yield from found
    for name in _PROXIES:
        value = os.environ.get(name) or os.environ.get(name.lower())
        if value:
            yield Finding(name=name, value=_address(value))
    if not any(finding.status == "ok" for finding in found):
        yield Finding(
            name="none",
            value="no key, and no server on this machine",
            status="off",
            advice="run and chat use the local model, or the scripted demo model",
        )


def _endpoint(endpoint: Endpoint) -> Finding:
    url = endpoint.find_url()
    where = _address(url) if url != endpoint.base_url else ""
    key = endpoint.find_key()
    if key is not None:
        variables = endpoint.key_variables
        name = next(each for each in variables if os.environ.get(each, "").strip())
        trouble = _trouble(key)
        return Finding(
            name=endpoint.name,
            value=", ".join(filter(None, (f"{name}={masked(key)}", where, trouble))),
            status="problem" if trouble else "ok",
            advice=f"set {name} anew, to the key alone" if trouble else "",
        )
    if endpoint.needs_key:
        missing = f"no {' or '.join(endpoint.key_variables)}"
        shown = ", ".join(filter(None, (missing, where)))
        return Finding(name=endpoint.name, value=shown, status="off")
    return _without_key(endpoint, url)


def _without_key(endpoint: Endpoint, url: str) -> Finding:
    """Look whether a server on this machine is there, at least."""
    shown = _address(url)
    parts = urlsplit(url)
    if parts.hostname not in _LOOPBACK:
        return Finding(name=endpoint.name, value=shown)
    try:
        address = (parts.hostname, parts.port or 80)
        socket.create_connection(address, timeout=_GLANCE).close()
    except (OSError, ValueError):
        return Finding(name=endpoint.name, value=f"nobody at {shown}", status="off")
    return Finding(name=endpoint.name, value=f"somebody listens at {shown}")


def masked(key: str) -> str:
    """Return what may be shown of a key: four characters, of a short one none."""
    return f"...{key[-4:]}" if len(key) >= _LONG_KEY else "(set)"


def _trouble(key: str) -> str:
    """Return what is wrong with a key, as far as one can see."""
    if key[0] in "\"'" or key[-1] in "\"'":
        return "which has quotes around it"
    if not key.isascii() or not key.isprintable() or " " in key:
        return "which has characters in it that no key has"
    return ""


def _address(url: str) -> str:
    """Return an address without the passwords that it may hold."""
    scheme, colon, rest = url.rpartition("://")
    before, _, host = rest.rpartition("@")
    shown = f"{scheme}{colon}{'***@' if before else ''}{host}"
    return shown.split("?")[0]


# -- the terminal ------------------------------------------------------------------


def find_terminal() -> Iterator[Finding]:
    """Look at what there is to show things on."""
    streams = (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr))
    on = [name for name, stream in streams if stream.isatty()]
    size = shutil.get_terminal_size()
    value = f"{', '.join(on)}; {size.columns} x {size.lines}" if on else "none of them"
    yield Finding(name="terminal", value=value, status="ok" if on else "off")
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    is_utf8 = encoding.lower().replace("-", "") == "utf8"
    yield Finding(
        name="encoding",
        value=encoding,
        status="ok" if is_utf8 else "off",
        advice="" if is_utf8 else "set PYTHONUTF8=1 to see more than question marks",
    )
    term = os.environ.get("TERM", "")
    off = next((name for name in ("NO_COLOR",) if os.environ.get(name)), "")
    colours = f"off ({off})" if off else f"TERM={term or '(not set)'}"
    has_colours = not off and term not in ("", "dumb")
    yield Finding(name="colours", value=colours, status="ok" if has_colours else "off")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield Finding(
            name="Ctrl+C",
            value="ignored, by whoever started this",
            status="problem",
            advice="start it in the foreground, or end it with SIGTERM",
        )
