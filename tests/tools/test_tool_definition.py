"""What is said about a tool when it is defined."""

import functools

import pytest

from syncagent import tool
from syncagent.exceptions import ConfigurationError
from syncagent.tools.tool import as_tool


def lines(path: str):
    """Read lines."""
    yield path


class Reader:
    def __call__(self, path: str):
        """Read lines."""
        yield path


@pytest.mark.parametrize(
    "function", [lines, Reader(), functools.partial(lines)], ids=["def", "call", "part"]
)
def test_a_generator_is_refused(function):
    """When it is defined, and not when the model calls it."""
    with pytest.raises(ConfigurationError, match=r"generator.*return a list"):
        as_tool(function)


def test_a_generator_with_a_schema_of_its_own_is_refused():
    with pytest.raises(ConfigurationError, match=r"generator.*return a list"):
        tool(parameters={"type": "object", "properties": {"path": {}}})(lines)


def test_a_tool_without_a_docstring_is_named_once(caplog):
    """The log says so when it is defined; a description is as good."""

    def silent(path: str) -> str:
        return path

    def described(path: str) -> str:
        return path

    tool(silent)
    tool(silent)
    tool(description="Read it.")(described)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "the tool silent (" in record.getMessage()
    assert "has no docstring" in record.getMessage()
