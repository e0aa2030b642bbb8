"""Making tools of functions, methods and closures."""

import functools
import threading

import pytest

from syncagent import Agent, ConfigurationError, ToolContext, tool
from syncagent.testing import ScriptedModel
from syncagent.tools.tool import Tool, as_tool


def add(left: int, right: int = 2) -> int:
    """Add numbers.

    :param left: the first one.
    """
    return left + right


def test_a_tool_is_still_a_function():
    """It can be called, and says what the function says about itself."""
    made = tool(add)
    assert made(1) == 3
    assert made(left=1, right=1) == 2
    assert made.__name__ == "add"
    assert made.__doc__ == add.__doc__
    assert made.__wrapped__ is add
    assert repr(made) == "<Tool add>"


def test_what_the_model_sees():
    """Name, description and schema come from the function, and not the context."""

    @tool
    def look(at: str, ctx: ToolContext) -> str:
        """Look at something.

        :param at: what to look at.
        """

    spec = look.spec
    assert (spec.name, spec.description) == ("look", "Look at something.")
    assert spec.parameters["required"] == ["at"]
    assert spec.parameters["properties"]["at"]["description"] == "what to look at."
    assert "ctx" not in spec.parameters["properties"]


def test_other_words_for_the_model():
    """Name and description can be given."""
    made = tool(name="plus", description="Sum up.")(add)
    assert (made.name, made.spec.description) == ("plus", "Sum up.")


def test_a_function_is_one_tool_for_all_agents():
    """It is looked at once, however many agents are made with it."""

    def once() -> str:
        """Be looked at."""

    first, second = (Agent(ScriptedModel(), tools=[once]) for _ in range(2))
    assert first.tools[0] is second.tools[0] is as_tool(once)


def test_a_wrapper_is_another_tool():
    """What copies a function's attributes is not taken for that function."""

    def plain() -> str:
        """Say so."""
        return "plain"

    kept = as_tool(plain)

    @functools.wraps(plain)
    def wrapper():
        return "wrapped"

    assert as_tool(wrapper) is not kept
    assert as_tool(wrapper)() == "wrapped"


# -- methods and closures ----------------------------------------------------------


class Counter:
    """Has tools for methods."""

    def __init__(self, start):
        self.value = start

    @tool
    def count(self, by: int) -> int:
        """Count on."""
        self.value += by
        return self.value

    def plain(self, by: int) -> int:
        """Count, too."""
        return self.value + by

    @staticmethod
    @tool
    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    @tool
    @staticmethod
    def triple(number: int) -> int:
        """Triple it."""
        return 3 * number

    @classmethod
    @tool
    def named(cls, number: int) -> str:
        """Name it."""
        return f"{cls.__name__} {number}"

    @tool(timeout=5, name="kept")
    def with_settings(self, by: int) -> int:
        """Count."""

    def __call__(self, by: int) -> int:
        """Count by calling."""
        return self.value + by


def test_methods():
    """Each object has its own; decorated or not."""
    one, ten = Counter(1), Counter(10)
    assert (one.count(by=1), ten.count(by=1), one.value) == (2, 11, 2)
    assert as_tool(one.count).spec.parameters["required"] == ["by"]
    assert as_tool(ten.plain)(by=1) == 12
    assert one.with_settings.timeout == 5
    assert one.with_settings.name == "kept"


def test_static_and_class_methods():
    """In whatever order they are decorated."""
    counter = Counter(0)
    for owner in (counter, Counter):
        assert as_tool(owner.double)(number=2) == 4
        assert as_tool(owner.triple)(number=2) == 6
        made = as_tool(owner.named)
        assert made(number=2) == "Counter 2"
        assert list(made.spec.parameters["properties"]) == ["number"]


def test_a_method_without_an_object_is_no_tool():
    """It says so when an agent is given it."""
    with pytest.raises(ConfigurationError, match="use the method of an object"):
        Agent(ScriptedModel(), tools=[Counter.count])


def test_closures_partials_and_callables():
    """All that can be called and has hints."""
    base = 5

    def shift(by: int) -> int:
        """Shift it."""
        return base + by

    assert as_tool(shift)(by=1) == 6
    partial = as_tool(functools.partial(add, right=7))
    assert partial(left=1) == 8
    assert partial.name == "add"
    assert as_tool(Counter(3))(by=1) == 4


# -- what is refused ---------------------------------------------------------------


def unhinted(value):
    """Take anything."""


async def later() -> str:
    """Do it later."""


class Mute:
    __name__ = "mute"

    def __repr__(self):
        return "<mute>"


@pytest.mark.parametrize(
    ("function", "settings", "problem"),
    [
        (unhinted, {}, "value has no type"),
        (later, {}, "asynchronous"),
        (5, {}, "made of a function"),
        (lambda: 1, {}, "name='...'"),
        (add, {"name": "two words"}, "'two words' is not a valid name"),
        (add, {"name": "x" * 65}, "at most 64"),
        (add, {"name": "1st"}, "1st"),
        (add, {"name": "ok\n"}, "is not a valid name"),
        (add, {"on_cancel": "stop"}, "wait, abandon, kill"),
        (add, {"isolation": "container"}, "'thread' or 'process'"),
        (add, {"isolation": "thread", "on_cancel": "kill"}, "cannot stop a thread"),
        (add, {"grace": -1}, "grace"),
        (add, {"grace": None}, "grace"),
        (add, {"timeout": float("nan")}, "timeout"),
        (add, {"timeout": True}, "timeout"),
        (add, {"timeout": 0}, "timeout"),
        (add, {"timeout": "5"}, "timeout"),
        (add, {"timeout": float("inf")}, "timeout"),
        (add, {"result_limit": -1}, "result_limit"),
        (add, {"result_limit": 1.5}, "result_limit"),
        (lambda: 1, {"name": "x", "on_cancel": "kill"}, "top level of a module"),
        (threading.Lock().acquire, {"isolation": "process"}, "acquire"),
    ],
)
def test_what_cannot_work_is_refused_at_once(function, settings, problem):
    """The programmer reads what is wrong where the tool is made."""
    with pytest.raises(ConfigurationError, match=problem):
        tool(**settings)(function)


@pytest.mark.parametrize("given", ["add", 5, None, Mute()])
def test_what_is_no_tool(given):
    """An agent takes functions, tools, agents and sources of tools."""
    with pytest.raises(
        ConfigurationError, match="Tool objects, agents or tool sources"
    ):
        Agent(ScriptedModel(), tools=[given])


@pytest.mark.parametrize("given", [add, tool(add), "add"])
def test_tools_are_a_list(given):
    """A lonely tool is a mistake that is easily made."""
    with pytest.raises(ConfigurationError, match="tools must be a list"):
        Agent(ScriptedModel(), tools=given)


def test_two_tools_with_one_name():
    """The model could not tell them apart; the same one twice is one."""
    other = tool(name="add")(lambda: 1)
    with pytest.raises(ConfigurationError, match="two tools are named 'add'"):
        Agent(ScriptedModel(), tools=[add, other])
    assert len(Agent(ScriptedModel(), tools=[add, add]).tools) == 1


def test_an_agent_without_a_name_is_no_tool():
    """It has to be called something."""
    with pytest.raises(ConfigurationError, match="needs a name"):
        Agent(ScriptedModel(), tools=[Agent(ScriptedModel())])


def test_defaults():
    """Where a tool runs follows from what is to become of it."""
    plain, killed = Tool(add), Tool(add, isolation="process")
    assert (plain.on_cancel, plain.needs_thread, plain.runs_in_process) == (
        *("wait", False, False),
    )
    assert (killed.on_cancel, killed.needs_thread, killed.runs_in_process) == (
        *("kill", False, True),
    )
    assert Tool(add, timeout=1).needs_thread
    assert Tool(add, on_cancel="abandon").needs_thread
