"""What cannot work is said where the function is written, and by name."""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support.threads import LONG
from workbench import model

from syncagent import ConfigurationError, Image, Limits, llm_chat, llm_function

if TYPE_CHECKING:
    from decimal import Decimal as Unknown


def no_docstring(text: str) -> int: ...


def blank_docstring(text: str) -> int:
    """ """


def no_return_type(text: str):
    """Do it."""


def odd_parameter(connection: socket.socket) -> int:
    """Do it."""


def odd_callback(text: str, on_done: Callable[[int], None]) -> int:
    """Do it."""


def odd_result(text: str) -> socket.socket:
    """Do it."""


def odd_field(text: str) -> dict[str, list[socket.socket]]:
    """Do it."""


def unknown_parameter(price: "Unknown") -> int:
    """Do it."""


def unknown_result(text: str) -> "list[Unknown]":
    """Do it."""


def many(*texts: str) -> int:
    """Do it."""


def any_words(**texts: str) -> int:
    """Do it."""


@dataclass
class Framed:
    """A picture with a frame."""

    frame: str
    picture: Image | None = None


def hidden_picture(walls: dict[str, list[Framed]]) -> int:
    """Do it."""


def own_cancel(cancel: bool) -> int:
    """Do it."""


def own_timeout(text: str, *, timeout: float) -> int:
    """Do it."""


async def later(text: str) -> int:
    """Do it."""


async def pieces_later(text: str) -> Iterator[int]:
    """Do it."""
    yield 1


def pieces(text: str) -> Iterator[int]:
    """Do it."""
    yield 1


def with_body(text: str) -> str:
    """Do it."""
    return text.upper()


def with_variable(text: str) -> str:
    """Do it."""
    other = text  # noqa: F841


class WithCall:
    """Nothing that has def."""

    def __call__(self, text: str) -> int:
        """Do it."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_docstring, r"no_docstring: it has no docstring"),
        (blank_docstring, r"blank_docstring: it has no docstring"),
        (no_return_type, r"no_return_type: it has no return type"),
        (
            odd_parameter,
            r"odd_parameter: the parameter connection has an unsupported type",
        ),
        (odd_callback, r"odd_callback: the parameter on_done has an unsupported type"),
        (odd_result, r"odd_result: the return type is not supported"),
        (odd_field, r"odd_field: the return type is not supported"),
        (unknown_parameter, r"the parameter price .*'Unknown' is not defined"),
        (unknown_result, r"the return value .*'Unknown' is not defined"),
        (many, r"many: the parameter \*texts takes any number"),
        (any_words, r"any_words: the parameter \*\*texts takes any number"),
        (hidden_picture, r"the parameter walls has an Image or a File inside Framed"),
        (own_cancel, r"own_cancel: the parameter cancel has a reserved name"),
        (own_timeout, r"own_timeout: the parameter timeout has a reserved name"),
        (later, r"later is asynchronous"),
        (pieces_later, r"pieces_later is asynchronous"),
        (pieces, r"pieces is a generator"),
        (with_body, r"with_body has a body, which is never run"),
        (with_variable, r"with_variable has a body, which is never run"),
        (WithCall(), r"must be defined with def"),
        (functools.partial(no_return_type, "a"), r"must be defined with def"),
        (staticmethod(no_return_type), r"must be defined with def"),
        (int, r"must be defined with def"),
        (7, r"must be defined with def"),
    ],
)
def test_a_function_that_cannot_be(function, said):
    """The message has the name of the function, and of the parameter."""
    with pytest.raises(ConfigurationError, match=said):
        llm_function(model())(function)


def right(text: str) -> int:
    """Do it."""
    raise NotImplementedError


def also_right(text: str) -> int:
    """Do it."""


@pytest.mark.parametrize("function", [right, also_right])
def test_bodies_that_say_nothing(function):
    """What type checkers want to see is no body."""
    assert llm_function(model('{"value": 1}'))(function)("x") == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": "opnai:gpt-6-luna"}, "did you mean openai"),
        ({"model": "openai"}, "names no model"),
        ({"model": 7}, "model must be the name of a model"),
        ({"model": right}, "the model is missing"),
        ({"tools": right}, "tools must be a list"),
        ({"limit": Limits()}, "unknown setting: limit; known settings: .*limits"),
        ({"limits": 7}, r"limits takes Limits\(...\)"),
        ({"approve": 7}, "approve must be a function"),
        ({"repairs": -1}, "^repairs must be a non-negative integer"),
        ({"repairs": True}, "^repairs must be a non-negative integer"),
        ({"repairs": "2"}, "^repairs must be a non-negative integer"),
    ],
)
def test_settings_that_cannot_be(settings, said):
    """They are checked where the function is written."""
    with pytest.raises(ConfigurationError, match=said):
        llm_function(**{"model": model(), **settings})(right)


def test_a_decorator_without_its_model():
    """Who forgets the brackets is told."""
    for decorator in (llm_function, llm_chat):
        with pytest.raises(ConfigurationError, match="the model is missing"):
            decorator(right)


def test_a_key_is_needed_when_it_is_called(monkeypatch):
    """A module with functions can be imported before there is a key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    function = llm_function("openai:gpt-6-luna")(right)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        function("x")
    assert function.using(model=model('{"value": 1}'))("x") == 1


@pytest.mark.slow
def test_docstrings_that_python_takes_away():
    """With -OO there are none, and the message says so."""
    script = (
        "from syncagent import llm_function\n"
        "from syncagent.testing import ScriptedModel\n"
        "def f() -> int:\n    'Do it.'\n"
        "try: llm_function(ScriptedModel([]))(f)\n"
        "except ValueError as error: print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-OO", "-c", script],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert "-OO" in ended.stdout


def chat_without_history(message: str) -> None:
    """Talk."""


def chat_with_two(message: str, history: list, chat_history: list) -> None:
    """Talk."""


def chat_without_words(history: list) -> None:
    """Talk."""


def chat_with_value(message: str, history: list) -> int:
    """Talk."""


def chat_with_odd_data(message: str, history: list, to: socket.socket) -> None:
    """Talk."""


def chat_with_timeout(message: str, history: list, timeout: int) -> None:
    """Talk."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (chat_without_history, "called history or chat_history; got none"),
        (chat_with_two, "; got history and chat_history"),
        (chat_without_words, "no parameter for the user's input"),
        (chat_with_value, "a chat yields events and cannot return <class 'int'>"),
        (chat_with_odd_data, "the parameter to has an unsupported type"),
        (chat_with_timeout, "the parameter timeout has a reserved name"),
        (no_docstring, "no docstring"),
        (later, "asynchronous"),
    ],
)
def test_a_chat_that_cannot_be(function, said):
    """The message says what a chat has to have."""
    with pytest.raises(ConfigurationError, match=said):
        llm_chat(model())(function)


def fine(message: Any, chat_history: Any = None) -> Iterator[Any]:
    """Talk."""


@pytest.mark.parametrize("setting", [{"system": "Be nice."}, {"messages": []}])
def test_a_chat_has_its_own_words(setting):
    """The docstring is the system prompt, and the history is the conversation."""
    chat = llm_chat(model())(fine)
    with pytest.raises(ConfigurationError, match="remove both settings"):
        chat.using(**setting)
    with pytest.raises(ConfigurationError, match="remove both settings"):
        llm_chat(model(), **setting)(fine)
