"""Find the servers that a command line names, ask about them, and start them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from ...cancel import CancelToken
from ...exceptions import ConfigurationError
from ...mcp.config import MCPServerConfig, did_you_mean, read_config
from ...mcp.questions import Elicit, ElicitRequest
from ...mcp.servers import MCPServers, OnError
from ...mcp.variables import ConfigInput
from ..approvals import choices, parse_choice
from ..arguments import add_trust
from ..forms import fill_in
from ..handlers import ask_on_terminal, has_terminal
from ..notes import Notes
from ..plain_text import on_one_line
from ..streams import OutputStream
from .trust import TrustFile, exact_text, server_text

__all__ = [
    "ServerAccess",
    "add_config",
    "add_server_choices",
    "enabled",
    "find_configs",
    "find_named",
    "make_notes",
]

#: Where programs keep the servers of a project.
_USUAL_FILES: Final = ("mcp.json", ".mcp.json", ".vscode/mcp.json")
#: The name of a server that the command line itself describes.
_UNNAMED: Final = "server"
_BY_HAND: Final = "the command line"
_YES_OR_NO: Final = choices("yes", "no")


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add ``--config`` and ``--trust-mcp`` to an action."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="a file with servers; by default the first of "
        f"{', '.join(_USUAL_FILES)} in this folder. Can be repeated",
    )
    add_trust(parser)


def add_server_choices(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where servers are described."""
    add_config(parser)
    parser.add_argument("--url", metavar="URL", help="a server at this address")
    parser.add_argument(
        "--header",
        metavar="NAME:VALUE",
        action="append",
        default=[],
        help="a header for --url; '${NAME}' takes its value from the environment",
    )
    parser.add_argument(
        "--command", metavar="LINE", help="a server that this command starts"
    )


def find_configs(
    options: argparse.Namespace, names: Iterable[str] | None = None
) -> list[MCPServerConfig]:
    """Return the servers of the command line, or of its files, disabled ones too.

    :param names: those to return, by default all.
    :raises ConfigurationError: there is no file, or it has no such server.
    """
    command = list(getattr(options, "program", ()))
    try:
        command += shlex.split(options.command or "")
    except ValueError as error:
        options.parser.error(f"--command: {error}")
    if bool(command) + bool(options.url) + bool(options.config) > 1:
        options.parser.error("use one of --config, --url and a command")
    if options.header and not options.url:
        options.parser.error("--header needs --url")
    if not command and not options.url:
        return find_named(options.config, names)
    headers = {}
    for text in options.header:
        name, colon, value = text.partition(":")
        if not colon:
            options.parser.error("--header takes NAME:VALUE")
        headers[name.strip()] = value.strip()
    return [
        MCPServerConfig(
            name=_UNNAMED,
            place="",
            file=_BY_HAND,
            command=tuple(command),
            url=options.url or "",
            headers=headers,
        )
    ]


def find_named(
    files: Sequence[str], names: Iterable[str] | None
) -> list[MCPServerConfig]:
    """Return the servers with these names, of *files* or of the usual one.

    :raises ConfigurationError: there is no file, it has no such server, or two have
        the same name.
    """
    if not files:
        files = [name for name in _USUAL_FILES if Path(name).is_file()][:1]
    if not files:
        raise ConfigurationError(
            f"there is no {', '.join(_USUAL_FILES)} in this folder; name a file with "
            "--config, or a server with --url or --command"
        )
    found: dict[str, MCPServerConfig] = {}
    for path in files:
        for name, config in read_config(path).servers.items():
            is_wanted = names is None or name in names
            if is_wanted and name in found:
                raise ConfigurationError(
                    f"two servers are called {name!r}: in {found[name].file} and in "
                    f"{config.file}; rename one"
                )
            found.setdefault(name, config)
    chosen = found if names is None else dict.fromkeys(names)
    for name in chosen:
        if name not in found:
            known = ", ".join(found) or "none"
            raise ConfigurationError(
                f"no server {name!r} in {', '.join(files)}; there are: {known}"
                f"{did_you_mean(name, found)}"
            )
    return [found[name] for name in chosen]


def enabled(
    configs: Iterable[MCPServerConfig], names: Iterable[str] | None = None
) -> list[MCPServerConfig]:
    """Return the servers that are not disabled in their file.

    :raises ConfigurationError: one that was named is.
    """
    found = []
    for config in configs:
        if not config.is_disabled:
            found.append(config)
        elif names is not None:
            raise ConfigurationError(
                f'{config.at()}: the server is disabled; remove "disabled": true'
            )
    return found


def make_notes(token: CancelToken, is_quiet: bool = False) -> Notes:
    """Return notes for a command that prints to standard output as it likes."""
    return Notes(token, OutputStream(sys.stdout, token), is_quiet)


class ServerAccess:
    """Asks before a server of a file is used for the first time, and starts servers.

    :param is_trusted: use them without asking.
    """

    def __init__(self, notes: Notes, token: CancelToken, *, is_trusted: bool) -> None:
        self._notes = notes
        self._token = token
        self._is_trusted = is_trusted
        self._file = TrustFile()

    def allowed(self, configs: Iterable[MCPServerConfig]) -> list[MCPServerConfig]:
        """Return the servers that the user lets us use, as :meth:`is_allowed` says."""
        return [config for config in configs if self.is_allowed(config)]

    def is_allowed(self, config: MCPServerConfig) -> bool:
        """Return whether the user lets us use a server; ask if that is not known.

        Cancellation: stops waiting for the user at once.

        :raises ConfigurationError: the user must be asked, and there is no terminal.
        """
        is_ours = config.file == _BY_HAND
        if is_ours or self._is_trusted or self._file.has(config):
            return True
        name = exact_text(config.name)
        verb = "starts this program" if config.command else "reaches this address"
        text = f"The MCP server {name} of {exact_text(config.file)} {verb}:\n"
        text += server_text(config)
        if not (self._notes.is_terminal and has_terminal()):
            raise ConfigurationError(
                f"{on_one_line(text)} . It was not used before, and there is no "
                "terminal to ask on; if you trust the file, add --trust-mcp"
            )
        rights = "It runs with your rights. " if config.command else ""
        question = f"{text}\n{rights}Allow it?\n{_YES_OR_NO}"
        while True:
            answer = ask_on_terminal(question, self._notes, self._token)
            choice = parse_choice(answer or "no")
            if choice == "yes":
                self._file.add(config)
                return True
            if choice == "no":
                self._notes.warn(f"{name} is not started")
                return False
            question = _YES_OR_NO

    def ask(self, wanted: ConfigInput) -> str:
        """Return the value of an input of a file.

        :raises ConfigurationError: there is no terminal to ask on.
        """
        parts = [wanted.description or wanted.id]
        parts += [f"({', '.join(wanted.options)})"] if wanted.options else []
        parts += [f"[{wanted.default}]"] if wanted.default else []
        question = on_one_line(" ".join(parts)) + ": "
        answer = None
        if self._notes.is_terminal:
            answer = ask_on_terminal(
                question, self._notes, self._token, is_secret=wanted.is_secret
            )
        answer = answer or wanted.default
        if answer is None:
            raise ConfigurationError(
                f"the file needs the input {wanted.id!r}, and there is no terminal to "
                "ask on; write ${NAME} there, and set that environment variable"
            )
        return answer

    def answer(self, asked: ElicitRequest) -> Mapping[str, Any] | bool | None:
        """Return the user's answer to a question of a server in a call.

        :return: None if there is no terminal to ask on.
        """
        question = on_one_line(f"{asked.server} asks: {asked.message}")
        if asked.form is not None:
            return fill_in(question, asked.form, self._type, self._notes.warn)
        # The page is the server's; it is shown whole, and never opened from here.
        self._notes.warn(f"{question}\n    {exact_text(asked.url)}")
        while True:
            line = self._type(f"Have you opened this page, and agree? {_YES_OR_NO}")
            choice = parse_choice(line or "no")
            if choice in ("yes", "no"):
                return choice == "yes"

    def _type(self, prompt: str) -> str | None:
        if not self._notes.is_terminal:
            return None
        return ask_on_terminal(prompt, self._notes, self._token)

    @contextmanager
    def opened(
        self,
        configs: Iterable[MCPServerConfig],
        *,
        on_error: OnError = "raise",
        elicit: Elicit | Literal["ask"] | None = "ask",
    ) -> Iterator[MCPServers]:
        """Start servers for a block, all at once.

        Cancellation: ends at once.

        :raises ConfigurationError: a variable has no value.
        :raises MCPError: one does not start.
        """
        servers = MCPServers.of(configs, ask=self.ask, on_error=on_error, elicit=elicit)
        try:
            servers.connect(token=self._token)
            yield servers
        finally:
            servers.close()
