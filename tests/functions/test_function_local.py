"""Functions on a real model, which is small and has to be held to a form."""

import threading
from dataclasses import dataclass
from typing import Literal

import pytest
from support.threads import LONG

from syncagent import RunCancelled, llm_function
from syncagent.models.local import local_server

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("server")]


@pytest.fixture(scope="module")
def server():
    """The server of this process, which stays: it is there before a test begins."""
    return local_server()


@dataclass
class City:
    """A city."""

    name: str
    country: str


@llm_function(model="local")
def capital(country: str) -> City:
    """Name the capital of the country."""


@llm_function(model="local")
def feeling(text: str) -> Literal["good", "bad"]:
    """How does the writer feel?"""


def test_a_real_model_answers_with_the_type():
    """Whatever it knows, the form is right."""
    assert isinstance(capital("France", timeout=LONG), City)
    assert feeling("I love this soup.", timeout=LONG) in ("good", "bad")


def test_a_real_model_is_stopped():
    """Promise 2: while it still reads."""
    stop = threading.Event()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    with pytest.raises(RunCancelled):
        capital("Spain " * 900, cancel=stop)
    timer.join()
