"""What tests of functions share: types, models, and a look at what was said."""

import enum
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, TypedDict

import msgspec

from syncagent.models import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from syncagent.testing import FakeServer, ScriptedModel
from syncagent.transport import close_idle

DIALECTS = [OpenAIChat, OpenAIResponses, Anthropic, Gemini]


class Mood(enum.Enum):
    """How somebody feels."""

    GOOD = "good"
    BAD = "bad"


@dataclass
class Point:
    """A place."""

    x: Annotated[int, msgspec.Meta(ge=0, description="how far to the right")]
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Movie(TypedDict, total=False):
    """A film."""

    title: str
    year: int


class Node(msgspec.Struct):
    """A tree."""

    name: str
    children: "list[Node]" = []


class Cat(msgspec.Struct, tag=True):
    """An animal."""

    lives: int


class Dog(msgspec.Struct, tag=True):
    """Another one."""

    barks: bool


def model(*script):
    """Return a model with this script and nothing else."""
    return ScriptedModel(script)


def prompt_of(model, number=0):
    """Return the words of what a model was asked first in its call of that number."""
    blocks = model.requests[number][0].content
    return "\n".join(block.text for block in blocks if hasattr(block, "text"))


@contextmanager
def served(kind, script, name="fake"):
    """Give a model of a dialect on a server with a script, and the server."""
    with FakeServer(script) as server:
        yield kind(name, base_url=server.base_url, api_key="k", retries=0), server
    close_idle()
