"""Lines that stay lines, whatever is logged."""

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncagent._redaction import redact
from syncagent.logs.format import JsonFormatter, TextFormatter
from syncagent.logs.records import plain, redact_record, snapshot

anything = st.text(st.characters(exclude_categories=()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(anything | st.integers(), inner)
        | st.sets(anything)
    ),
    max_leaves=8,
)


def line_of(formatter, message, **fields):
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", **fields})
    copy = snapshot(record, keeps_extras=True)
    redact_record(copy)
    return formatter.format(copy)


@given(anything, values, anything)
@settings(deadline=None)
def test_whatever_is_logged_makes_one_line_of_valid_json(message, value, thread):
    """Messages, extras and thread names survive the way through JSON on one line."""
    line = line_of(JsonFormatter(), message, value=value, threadName=thread)
    assert len(line.splitlines()) == 1
    line.encode()
    record = json.loads(line, parse_constant=pytest.fail)
    assert record["message"] == redact(message)
    assert record["thread"] == thread
    assert "value" in record


@given(anything, anything)
@settings(deadline=None)
def test_no_message_can_forge_a_text_record(message, thread):
    """Only the first line of a record starts in the first column."""
    line = line_of(
        TextFormatter(), message, threadName=thread, exc_text="Traceback\r\nx"
    )
    first, *others = line.splitlines()
    assert first.startswith("20")
    assert all(other.startswith("    | ") for other in others)
    assert not {"\x1b", "\r", "\u2028"} & set(line)


class Hostile:
    """An object that cannot be shown."""

    def __repr__(self):
        raise RuntimeError("no")

    __str__ = __repr__


def test_objects_that_cannot_be_shown_do_not_stop_anybody():
    """A broken repr, a cycle and a huge number all become something printable."""
    cycle: list[object] = []
    cycle.append(cycle)
    line = line_of(
        JsonFormatter(),
        Hostile(),
        bad=Hostile(),
        cycle=cycle,
        big=10**5000,
        code=b"\xff",
    )
    record = json.loads(line)
    assert record["message"].startswith("<unprintable Hostile>")
    assert record["bad"] == "<unprintable Hostile>"
    assert "..." in json.dumps(record["cycle"])
    assert record["big"].startswith("0x")
    assert record["code"] == r"b'\xff'"


def test_subclasses_of_plain_types_become_plain():
    """What JSON writes for a subclass is the value, not what the subclass claims."""
    text = type("Text", (str,), {"__str__": lambda self: "lie"})("truth")
    number = type("Number", (int,), {"__repr__": lambda self: "lie"})(7)
    assert plain([text, number, float("inf")]) == ["truth", 7, "inf"]
    assert type(plain(number)) is int
    assert type(plain(text)) is str
