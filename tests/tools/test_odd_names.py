"""Tools whose parameters have the names that the SDK uses itself."""

import pytest
from support.tools import outcomes, results, run_tools

from syncagent import Agent, ConfigurationError, ToolContext, tool
from syncagent.messages import Json
from syncagent.testing import ScriptedModel, call, say

# -- tools, which worker processes can import --------------------------------------


def function(function: str) -> list:
    """Take a function."""
    return [function]


def itself(self: str, cls: str) -> list:
    """Take itself."""
    return [self, cls]


def several(args: str, kwargs: str, tool: str, context: str, work: str) -> list:
    """Take several."""
    return [args, kwargs, tool, context, work]


def token(token: str, services: str, target: str, name: str, call: str) -> list:
    """Take others."""
    return [token, services, target, name, call]


def ctx(ctx: str) -> list:
    """Take what a context is usually called."""
    return [ctx]


def both(ctx: str, function: str, me: ToolContext) -> list:
    """Take that, and a context of another name."""
    return [ctx, function, me.tool_name]


def only(function: str, self: str, /) -> list:
    """Take them by their places."""
    return [function, self]


def raw(**given) -> dict:
    """Take anything."""
    return given


def raw_with_context(ctx: ToolContext, /, **given) -> dict:
    """Take anything, and a context."""
    return {**given, "tool": ctx.tool_name}


def raw_named(ctx: ToolContext, **given) -> dict:
    """Take anything, and a context by its name."""
    return {**given, "tool": ctx.tool_name}


def raw_untyped(ctx, function) -> dict:
    """Take two, of which none is the context."""
    return {"ctx": ctx, "function": function}


def raw_nameless(ctx, /, **given) -> dict:
    """Take anything, and a context."""
    return {**given, "tool": ctx.tool_name}


class Box:
    """A class with tools."""

    @tool
    def method(self, function: str, cls: str) -> list:
        """Take what a method takes."""
        return [function, cls]

    @classmethod
    @tool
    def of_class(cls, self: str, instance: str) -> list:
        """Take what a class method takes."""
        return [self, instance]

    @tool(parameters={"properties": {"self": {}}})
    def raw(self, /, **given) -> dict:
        """Take anything."""
        return given


TYPED = [function, itself, several, token, ctx, only]
WAYS = {
    "plain": {},
    "thread": {"isolation": "thread"},
    "abandon": {"on_cancel": "abandon"},
    "timeout": {"timeout": 60.0},
    "process": {"isolation": "process"},
}


def value_of(made, arguments):
    """Return what a tool has returned to a model that calls it with *arguments*."""
    script = [say(call(made.name, arguments)), "Done."]
    result = Agent(ScriptedModel(script), tools=[made]).run("Go.")
    [given] = results(result)
    assert outcomes(result) == ["done"], given
    [block] = given.content
    assert isinstance(block, Json)
    return block.value


@pytest.mark.parametrize("way", WAYS)
def test_names(way):
    """S11: a parameter may have any name, wherever the tool runs."""
    for plain in TYPED:
        made = tool(**WAYS[way])(plain)
        arguments = {name: name.upper() for name in made.spec.parameters["properties"]}
        assert value_of(made, arguments) == list(arguments.values())


@pytest.mark.parametrize("way", WAYS)
def test_a_context_of_another_name(way):
    """S11: an argument named ctx and a context of another name are two things."""
    made = tool(**WAYS[way])(both)
    assert value_of(made, {"ctx": "a", "function": "b"}) == ["a", "b", "both"]


@pytest.mark.parametrize("way", WAYS)
def test_raw(way):
    """S11: a raw tool gets every argument, those named like the SDK's own, too."""
    arguments = dict.fromkeys(["function", "self", "args", "kwargs", "ctx", "tool"], 1)
    schema = {"properties": {key: {} for key in arguments}}
    made = tool(parameters=schema, **WAYS[way])(raw)
    assert value_of(made, arguments) == arguments
    made = tool(parameters=schema, **WAYS[way])(raw_with_context)
    assert value_of(made, arguments) == {**arguments, "tool": "raw_with_context"}
    made = tool(parameters=schema, **WAYS[way])(raw_nameless)
    assert value_of(made, arguments) == {**arguments, "tool": "raw_nameless"}


@pytest.mark.parametrize("way", WAYS)
def test_raw_with_a_context_by_name(way):
    """A raw tool with a context that has a name gets it, whatever is not listed."""
    made = tool(parameters={}, **WAYS[way])(raw_named)
    assert value_of(made, {"function": 1}) == {"function": 1, "tool": "raw_named"}
    result = run_tools(made, calls=[call("raw_named", {"ctx": 1})])
    assert outcomes(result) == ["failed"]
    assert "'ctx'" in result.tool_outcomes[0].error


@pytest.mark.parametrize("way", WAYS)
def test_raw_without_types(way):
    """An untyped ctx is the context, unless the schema says that it is an argument."""
    schema = {"properties": {"ctx": {}, "function": {}}}
    made = tool(parameters=schema, **WAYS[way])(raw_untyped)
    assert value_of(made, {"ctx": 1, "function": 2}) == {"ctx": 1, "function": 2}


def test_raw_with_two_of_one_name():
    """S11: an argument that could never arrive is refused where the tool is made."""
    with pytest.raises(ConfigurationError, match=r"'ctx'.* def raw_named\(ctx, /"):
        tool(parameters={"properties": {"ctx": {}}})(raw_named)

    class Other:
        @tool(parameters={"properties": {"self": {}}})
        def raw(self, **given) -> dict:
            """Take anything."""
            return given

    with pytest.raises(ConfigurationError, match=r"'self'.* def raw\(self, /"):
        Agent(ScriptedModel([]), tools=[Other().raw])


def test_methods():
    """S11: so may those of methods."""
    box = Box()
    arguments = {"function": "a", "cls": "b"}
    assert value_of(box.method, arguments) == ["a", "b"]
    arguments = {"self": "a", "instance": "b"}
    made = Agent(ScriptedModel([]), tools=[Box.of_class]).tools[0]
    assert value_of(made, arguments) == ["a", "b"]
    assert value_of(box.raw, {"self": 1}) == {"self": 1}


def test_called_as_a_function():
    """S11: a tool is still a function, by keywords too."""
    assert tool(function)(function="a") == ["a"]
    assert tool(itself)(self="a", cls="b") == ["a", "b"]
