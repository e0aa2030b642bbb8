"""The command ``syncagent chat``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args

from ...agent import Agent
from ...cancel import CancelToken
from ...exceptions import ConfigurationError
from ...interrupts import Rule
from ...messages import Message
from ...models.model import Model
from ...tools.detachable import LEFT_BEHIND
from ..choices import (
    TOOL_DEFAULTS,
    add_choices,
    choose_model,
    choose_tools,
)
from ..demo.model import DemoModel
from ..mcp_tools import add_mcp_choices, opened_mcp_tools
from ..notes import Notes, warnings_as_notes
from ..streams import OutputStream
from .choose_screen import choose_screen
from .conversations import AgentConversation
from .session import GREETING, Session, WhileBusy

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "talk to a model in the terminal; Ctrl+C stops a response"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_choices(parser)
    add_mcp_choices(parser)
    parser.add_argument(
        "--while-busy",
        choices=get_args(WhileBusy),
        default="queue",
        help="what to do with a line typed while a run is live: send it afterwards "
        "(queue, the default), pass it to the run at the next safe point (steer), or "
        "stop the run and send it at once (interrupt)",
    )
    parser.add_argument("--system", help="the system prompt")
    parser.add_argument(
        "--load", metavar="FILE", help="continue a conversation written by /save"
    )
    parser.add_argument(
        "--plain", action="store_true", help="do not use rich and prompt_toolkit"
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Chat until the user leaves; return the exit code.

    Cancellation: Ctrl+C stops a response; SIGTERM and SIGHUP end the chat.
    """
    provider = (options.model or "").partition(":")[0]

    def find_model(name: str | None) -> tuple[Model, str]:
        is_same = name is None or name.partition(":")[0] == provider
        return choose_model(
            name,
            base_url=options.base_url if is_same else None,
            is_insecure=options.allow_insecure and is_same,
        )

    model, notice = find_model(options.model)
    state = None
    if options.load is not None:
        try:
            state = Path(options.load).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"--load {options.load}: {error.strerror or error}"
            ) from None
        except (RuntimeError, ValueError) as error:
            raise ConfigurationError(f"--load {options.load}: {error}") from None
    notes = Notes(token, OutputStream(sys.stdout, token))
    name = options.model or ("demo" if isinstance(model, DemoModel) else "local")
    greeting = GREETING.format(name=name)
    with (
        warnings_as_notes(notes, without=LEFT_BEHIND),
        opened_mcp_tools(options, token, notes) as theirs,
    ):

        def make_agent(agent: Agent, model: Model | None, state: str | None) -> Agent:
            model = model or agent.model
            return _make_agent(
                options, model, state, theirs, agent.messages, agent.rules
            )

        session = Session(
            AgentConversation(_make_agent(options, model, state, theirs)),
            choose_screen(is_plain=options.plain),
            while_busy=options.while_busy,
            make_agent=make_agent,
            find_model=find_model,
            greeting=f"{greeting}\n{notice}" if notice else greeting,
        )
        return session.run(token)


def _make_agent(
    options: argparse.Namespace,
    model: Model,
    state: str | None,
    theirs: Iterable[Any] = (),
    messages: Iterable[Message] = (),
    rules: Iterable[Rule] = (),
) -> Agent:
    """Return an agent with the options of the command line, from *state* if given.

    :param theirs: the tools of MCP servers.
    """
    settings: dict[str, Any] = {
        "tools": [*choose_tools(options.tools, model=model), *theirs],
        "tool_defaults": TOOL_DEFAULTS,
        "system": options.system,
    }
    if state is not None:
        return Agent.load(state, model, **settings)
    return Agent(model, messages=messages, rules=rules, **settings)
