"""Configuration files of MCP servers: ``mcp.json`` of Claude, Copilot and VS Code.

Nothing in a file is run, expanded or sent while it is read: a program can show it to a
person first.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from ..exceptions import ConfigurationError
from .jsonc import parse_jsonc
from .variables import ConfigInput, Variables, variables_in

__all__ = ["MCPConfigFile", "MCPServerConfig", "did_you_mean", "read_config"]

_log = logging.getLogger("syncagent.mcp")

HttpKind = Literal["auto", "streamable", "sse"]

#: The kinds of servers that files name.
_KINDS: Final[dict[str, HttpKind | None]] = {
    "stdio": None,
    "local": None,
    "http": "auto",
    "streamable-http": "streamable",
    "streamableHttp": "streamable",
    "sse": "sse",
}
#: The keys of a server that count here.
_LOCAL: Final = ("command", "args", "env", "cwd", "envFile")
_REMOTE: Final = ("url", "headers")
_COMMON: Final = ("type", "disabled", "timeout")
#: Lists of tools that other programs know, so that no choice is lost.
_ONLY: Final = ("tools", "includeTools")
_WITHOUT: Final = ("excludeTools", "disabledTools")
_KNOWN: Final = (*_LOCAL, *_REMOTE, *_COMMON, *_ONLY, *_WITHOUT)
#: Keys that say nothing about how to reach a server.
_IGNORED: Final = ("description", "name", "title", "version", "icon", "gallery", "dev")
#: Other programs skip questions because of these keys. This one asks.
_APPROVING: Final = ("autoApprove", "alwaysAllow", "trust")
#: A timeout of this many is in milliseconds; below, in seconds. Programs disagree.
_MILLISECONDS: Final = 1000
_TYPES: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class MCPServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a file, as it is written there: variables are not replaced yet."""

    name: str
    #: The path of the server in the file, such as ``mcpServers.github``; empty if it
    #: is in none.
    place: str
    #: The absolute path of the file.
    file: str
    #: The program and its arguments; empty for a server that is reached by HTTP.
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_file: str | None = None
    cwd: str | None = None
    url: str = ""
    kind: HttpKind = "auto"
    headers: dict[str, str] = {}
    #: Seconds for one call.
    timeout: float | None = None
    is_disabled: bool = False
    #: The tools to use, as patterns; ``None`` for all.
    only: tuple[str, ...] | None = None
    #: The tools not to use.
    without: tuple[str, ...] = ()
    inputs: dict[str, ConfigInput] = {}
    #: Keys that are not known here, and the like.
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:  # headers and variables may be secrets
        return f"<MCPServerConfig {self.name!r} in {self.file}>"

    @property
    def folder(self) -> str:
        """The folder of the project that the file belongs to."""
        parent = os.path.dirname(self.file)
        is_hidden = os.path.basename(parent) in (".vscode", ".cursor", ".claude")
        return os.path.dirname(parent) if is_hidden else parent

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables whose values the server would get."""
        texts = (*self.command, *self.env.values(), self.url, *self.headers.values())
        found = (name for text in texts for name in variables_in(text))
        return tuple(dict.fromkeys(found))

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides what is run, or where secrets are sent.

        It has the values of ``env`` and ``headers``, too: a variable such as
        ``NODE_OPTIONS`` can run code.
        """
        parts: list[Any] = [list(self.command), self.cwd, self.url, self.kind]
        parts += [sorted(self.env.items()), sorted(self.headers.items())]
        if self.env_file is not None:
            parts.append(self.env_file)
            with suppress(OSError, ConfigurationError):  # its variables count, too
                path = Variables(self.folder, {}).expand(self.env_file, "")
                parts.append(Path(self._path(path)).read_bytes().hex())
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def at(self, *keys: str) -> str:
        """Return the file and the path of a key in it, for errors."""
        return f"{self.file}: {'.'.join(filter(None, (self.place, *keys)))}"

    def expanded(
        self, ask: Callable[[ConfigInput], str] | None = None
    ) -> MCPServerConfig:
        """Return it with values in place of variables; ``env`` has the file's, too.

        :raises ConfigurationError: a variable has no value, or ``envFile`` is missing.
        """
        variables = Variables(self.folder, self.inputs, ask)

        def value(text: str, *keys: str) -> str:
            return variables.expand(text, self.at(*keys))

        command = tuple(
            value(text, f"args[{number - 1}]" if number else "command")
            for number, text in enumerate(self.command)
        )
        env = {key: value(text, "env", key) for key, text in self.env.items()}
        if self.env_file is not None:
            path = self._path(value(self.env_file, "envFile"))
            env = {**_read_env_file(path, self.at("envFile")), **env}
        cwd = None if self.cwd is None else self._path(value(self.cwd, "cwd"))
        return msgspec.structs.replace(
            self,
            command=command,
            env=env,
            env_file=None,
            cwd=cwd,
            url=value(self.url, "url"),
            headers={
                key: _header(value(text, "headers", key), self.at("headers", key))
                for key, text in self.headers.items()
            },
        )

    def _path(self, text: str) -> str:
        return os.path.join(self.folder, os.path.expanduser(text))


def _header(value: str, place: str) -> str:
    if not value.strip() or value.strip() in ("Bearer", "Basic"):
        raise ConfigurationError(
            f"{place}: the header would be empty; check the values of its variables"
        )
    if not value.isprintable():
        raise ConfigurationError(
            f"{place}: the header would have a line end or another control character; "
            "check the values of its variables"
        )
    return value


def _read_env_file(path: str, place: str) -> dict[str, str]:
    """Read lines such as ``NAME=value``, with comments and quotes."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{place}: cannot read {path}: {error}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not name:
            raise ConfigurationError(
                f"{place}: {path}, line {number}: expected NAME=value"
            )
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        else:
            value = value.partition(" #")[0].rstrip()
        found[name] = value
    return found


# -- the file ------------------------------------------------------------------------


class MCPConfigFile(msgspec.Struct, frozen=True):
    """The servers of one file, in its order."""

    path: str
    servers: dict[str, MCPServerConfig]

    def chosen(self, only: Iterable[str] | None = None) -> list[MCPServerConfig]:
        """Return the servers named by *only*, by default all that are not disabled.

        :raises ConfigurationError: the file has no such server, or it is disabled.
        """
        if only is None:
            return [each for each in self.servers.values() if not each.is_disabled]
        if isinstance(only, str):
            raise ConfigurationError(f"only takes a list of names; got {only!r}")
        found = []
        for name in only:
            config = self.servers.get(name)
            if config is None:
                names = ", ".join(self.servers) or "none"
                hint = did_you_mean(name, self.servers)
                raise ConfigurationError(
                    f"{self.path}: no server {name!r}; there are: {names}{hint}"
                )
            if config.is_disabled:
                raise ConfigurationError(
                    f"{config.at()}: the server is disabled; remove "
                    '"disabled": true to use it'
                )
            found.append(config)
        return found


def read_config(path: str | os.PathLike[str]) -> MCPConfigFile:
    """Read a file in one of the two common formats.

    Unknown keys of a server are logged as warnings.

    :param path: with an object ``mcpServers`` (Claude, Copilot, Cursor) or ``servers``
        (VS Code); comments and trailing commas are allowed.
    :raises ConfigurationError: the file is missing or wrong; with the path in it, what
        is expected, and what is there.
    """
    file = os.path.abspath(os.path.expanduser(path))
    try:
        data = parse_jsonc(Path(file).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigurationError(f"{file}: not JSON: {error}") from None
    reader = _Reader(file)
    servers = reader.servers(reader.checked(data, dict, ""))
    for config in servers.values():
        for warning in config.warnings:
            _log.warning("%s", warning)
    return MCPConfigFile(file, servers)


class _Reader:
    """Checks the values of one file."""

    def __init__(self, file: str) -> None:
        self._file = file

    def checked(self, value: Any, kind: type | tuple[type, ...], place: str) -> Any:
        """Return *value* if it has the right type."""
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value) not in kinds:
            expected, got = _TYPES[kinds[0]], _TYPES[type(value)]
            raise self.error(place, f"expected {expected}, got {got}")
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise self.error(place, "expected text, got half a character") from None
        return value

    def error(self, place: str, problem: str) -> ConfigurationError:
        where = f"{self._file}: {place}" if place else self._file
        return ConfigurationError(f"{where}: {problem}")

    def servers(self, data: dict[str, Any]) -> dict[str, MCPServerConfig]:
        """Read all servers."""
        nested = data.get("mcp")
        if isinstance(nested, dict):  # in settings of VS Code
            data = nested
        keys = [key for key in ("mcpServers", "servers") if key in data]
        if len(keys) != 1:
            found = ", ".join(map(repr, data))[:200] or "nothing"
            raise self.error(
                "", f"expected one key 'mcpServers' or 'servers', got {found}"
            )
        inputs = self.inputs(data.get("inputs", []))
        found_servers = {}
        for name, value in self.checked(data[keys[0]], dict, keys[0]).items():
            if not name or not name.isprintable() or len(name) > 100:
                raise self.error(keys[0], f"{name!r:.60} is not a name for a server")
            place = f"{keys[0]}.{name}"
            server = self.checked(value, dict, place)
            found_servers[name] = self.server(name, place, server, inputs)
        return found_servers

    def server(
        self,
        name: str,
        place: str,
        value: dict[str, Any],
        inputs: dict[str, ConfigInput],
    ) -> MCPServerConfig:
        has_command, has_url = "command" in value, "url" in value
        if has_command == has_url:
            there = "both" if has_command else "neither"
            hints = (did_you_mean(key, ("command", "url")) for key in value)
            hint = "" if has_command else next(filter(None, hints), "")
            raise self.error(place, f"expected 'command' or 'url', got {there}{hint}")
        kind = self.kind(value, place, has_command)
        texts: dict[str, Any] = {}
        if has_command:
            command = self.text(value, "command", place)
            texts["command"] = (command, *self.texts(value, "args", place))
            texts["env"] = self.text_map(value, "env", place)
            texts["env_file"] = self.text(value, "envFile", place)
            texts["cwd"] = self.text(value, "cwd", place)
        else:
            texts["url"] = self.text(value, "url", place)
            texts["headers"] = self.text_map(value, "headers", place)
            texts["kind"] = kind
        only = [key for key in _ONLY if key in value]
        return MCPServerConfig(
            name=name,
            place=place,
            file=self._file,
            inputs=inputs,
            timeout=self.timeout(value, place),
            is_disabled=self.checked(
                value.get("disabled", False), bool, f"{place}.disabled"
            ),
            only=tuple(name for key in only for name in self.texts(value, key, place))
            if only
            else None,
            without=tuple(
                name for key in _WITHOUT for name in self.texts(value, key, place)
            ),
            warnings=tuple(self.warnings(value, place, has_command)),
            **texts,
        )

    def kind(self, value: dict[str, Any], place: str, is_local: bool) -> HttpKind:
        given = value.get("type", "stdio" if is_local else "http")
        if not isinstance(given, str) or given not in _KINDS:
            known = ", ".join(map(repr, _KINDS))
            hint = did_you_mean(given, _KINDS)
            raise self.error(
                f"{place}.type", f"expected one of {known}, got {given!r:.60}{hint}"
            )
        kind = _KINDS[given]
        if is_local != (kind is None):
            key = "command" if is_local else "url"
            raise self.error(
                f"{place}.type", f"{given!r} does not go with the key {key!r}"
            )
        return kind or "auto"

    def timeout(self, value: dict[str, Any], place: str) -> float | None:
        if value.get("timeout") is None:
            return None
        given = self.checked(value["timeout"], (int, float), f"{place}.timeout")
        if not 0 < given < 10**9:
            raise self.error(
                f"{place}.timeout", f"expected a positive number, got {given!r:.40}"
            )
        return float(given) / 1000 if given >= _MILLISECONDS else float(given)

    def text(self, value: dict[str, Any], key: str, place: str) -> str | None:
        given = value.get(key)
        if given is None and key not in ("command", "url"):
            return None
        text: str = self.checked(given, str, f"{place}.{key}")
        if not text.strip():
            raise self.error(f"{place}.{key}", "expected a text, got an empty one")
        return text

    def texts(self, value: dict[str, Any], key: str, place: str) -> tuple[str, ...]:
        given = self.checked(value.get(key) or [], list, f"{place}.{key}")
        return tuple(
            self.checked(each, str, f"{place}.{key}[{number}]")
            for number, each in enumerate(given)
        )

    def text_map(self, value: dict[str, Any], key: str, place: str) -> dict[str, str]:
        given = self.checked(value.get(key) or {}, dict, f"{place}.{key}")
        found = {}
        for name, each in given.items():
            if isinstance(each, (int, float)):  # "PORT": 8080
                each = msgspec.json.encode(each).decode()
            found[name] = self.checked(each, str, f"{place}.{key}.{name}")
        return found

    def inputs(self, value: Any) -> dict[str, ConfigInput]:
        found = {}
        for number, each in enumerate(self.checked(value, list, "inputs")):
            given = self.checked(each, dict, f"inputs[{number}]")
            id = self.checked(given.get("id"), str, f"inputs[{number}].id")
            description, default = given.get("description"), given.get("default")
            options = given.get("options")
            options = options if isinstance(options, list) else []
            found[id] = ConfigInput(
                id,
                description if isinstance(description, str) else "",
                given.get("password") is True,
                default if isinstance(default, str) else None,
                tuple(option for option in options if isinstance(option, str)),
            )
        return found

    def warnings(
        self, value: Mapping[str, Any], place: str, is_local: bool
    ) -> Iterable[str]:
        for key in value:
            where = f"{self._file}: {place}.{key}"
            if key in _APPROVING:
                yield f"{where}: no effect here; a file gives no approvals"
            elif key in (_REMOTE if is_local else _LOCAL):
                other = "url" if is_local else "command"
                yield f"{where}: no effect without {other!r}"
            elif key not in (*_KNOWN, *_IGNORED):
                hint = did_you_mean(key, (*_KNOWN, *_IGNORED))
                yield f"{where}: unknown key, not used{hint}"


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """Return a hint if something *known* looks like *name*, else an empty text."""
    if not isinstance(name, str):
        return ""
    folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""
