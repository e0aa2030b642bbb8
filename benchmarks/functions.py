"""What a typed function costs, beside the run that it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, make_dataclass
from typing import Any

from benchmarks.measure import Row, per_call, side_by_side
from syncagent import Agent, llm_function
from syncagent.functions.llm_function import LlmFunction
from syncagent.options import Options
from syncagent.providers.openai_chat.request import OpenAIChatDialect
from syncagent.run.output import Output
from syncagent.schemas import Shape
from syncagent.testing import ScriptedModel

ANSWER = '{"name": "Oslo", "north": 59.9, "tags": ["a", "b"], "near": [{"name": "x"}]}'
TEXT = "Where is Oslo? " * 20
#: How often in each round.
CALLS = 300


@dataclass
class Near:
    """Something that is near."""

    name: str
    north: float = 0.0


@dataclass
class Place:
    """A place."""

    name: str
    north: float
    tags: list[str] = field(default_factory=list)
    near: list[Near] = field(default_factory=list)


def locate(text: str, language: str = "en") -> Place:
    """Find the place."""
    raise NotImplementedError


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    yield a_call()
    yield a_type()
    yield decorating()
    yield closing_a_form()


def scripted() -> ScriptedModel:
    model = ScriptedModel(lambda messages: ANSWER, piece=1000)
    model.requests = _Nothing()
    return model


class _Nothing(list[Any]):
    """A list that grows no more."""

    def append(self, each: object) -> None:
        pass


def compared(
    name: str,
    subject: Callable[[], object],
    floor_name: str,
    floor: Callable[[], object],
    limit: float | None = None,
) -> Row:
    subject()
    floor()
    value, base = side_by_side(
        lambda: per_call(subject, CALLS), lambda: per_call(floor, CALLS)
    )
    return Row(name, floor_name, value * 1e6, base * 1e6, "us", limit)


def a_call() -> Row:
    """A call, against the same run by hand."""
    model = scripted()
    function = llm_function(model)(locate)
    return compared(
        "call a typed function",
        lambda: function(TEXT),
        "Agent(model).run(prompt, output=Place)",
        lambda: Agent(model).run(TEXT, output=Place).output,
        limit=1.25,
    )


def a_type() -> Row:
    """An answer of a type, against one of words."""
    model = scripted()

    def tell(text: str) -> str:
        """Tell."""
        raise NotImplementedError

    typed, plain = llm_function(model)(locate), llm_function(model)(tell)
    return compared(
        "the same, that returns a dataclass",
        lambda: typed(TEXT),
        "one that returns str",
        lambda: plain(TEXT),
        limit=1.5,
    )


def decorating() -> Row:
    """What is paid once: to read the function, and to make the shape of its type."""
    model = scripted()
    function = llm_function(model)(locate)

    def anew() -> LlmFunction[Any, Any]:
        made = make_dataclass("Fresh", [("name", str), ("near", list[Near])])

        def find(text: str) -> Any:
            """Find it."""
            raise NotImplementedError

        find.__annotations__["return"] = made
        return llm_function(model)(find)

    Shape(Place)
    return compared(
        "decorate a function with a new type (once)",
        anew,
        "call one",
        lambda: function(TEXT),
    )


def closing_a_form() -> Row:
    """What each request pays for the strict mode of its provider."""
    dialect, form = OpenAIChatDialect(), Output(Place).format
    asked, plain = Options(output=form), Options()
    return compared(
        "make a request that asks for a form",
        lambda: dialect.build_payload("any", TEXT, (), asked),
        "one that does not",
        lambda: dialect.build_payload("any", TEXT, (), plain),
    )
