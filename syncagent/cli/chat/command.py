"""The command ``syncagent chat``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Final, get_args

from ...agent import Agent
from ...cancel import CancelToken
from ...exceptions import ConfigurationError
from ...interrupts import Rule
from ...messages import Message
from ...models.model import Model
from ..choices import add_choices, choose_model, choose_tools
from .screens import choose_screen
from .session import Session, WhileBusy
from .talk import AgentTalk

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "talk to a model in the terminal; Ctrl+C stops an answer"

_GREETING: Final = "{name}. /help for help; Ctrl+C stops an answer, Ctrl+D leaves."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_choices(parser)
    parser.add_argument(
        "--while-busy",
        choices=get_args(WhileBusy),
        default="queue",
        help="what comes of a line that is typed while it works: it is said afterwards "
        "(queue), heard at the next safe point (steer), or said at once, in place of "
        "what goes on (interrupt); by default queue",
    )
    parser.add_argument("--system", help="what the model is told about its task")
    parser.add_argument(
        "--load",
        metavar="FILE",
        help="go on with a conversation that /save has written",
    )
    parser.add_argument(
        "--plain", action="store_true", help="do without rich and prompt_toolkit"
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Talk, until somebody leaves; return the exit code.

    Cancellation: Ctrl+C stops what goes on; SIGTERM and SIGHUP end it.
    """
    model, about = choose_model(options.model)
    agent = _make(options, model, _state(options.load))

    def remake(agent: Agent, model: Model | None, state: str | None) -> Agent:
        chosen = model or agent.model
        return _make(options, chosen, state, agent.messages, agent.rules)

    greeting = _GREETING.format(name=options.model or ("demo" if about else "local"))
    session = Session(
        AgentTalk(agent),
        choose_screen(is_plain=options.plain),
        while_busy=options.while_busy,
        remake=remake,
        greeting=f"{greeting}\n{about}" if about else greeting,
    )
    return session.run(token)


def _make(
    options: argparse.Namespace,
    model: Model,
    state: str | None,
    messages: Iterable[Message] = (),
    rules: Iterable[Rule] = (),
) -> Agent:
    """Return an agent as the command line wants it, of a state if there is one."""
    tools = choose_tools(options.tools, model=model)
    if state is not None:
        return Agent.load(state, model, tools=tools, system=options.system)
    return Agent(
        model, tools=tools, system=options.system, messages=messages, rules=rules
    )


def _state(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"--load {path}: {error}") from None
