"""Arguments that Vertex streams value by value are joined, and half ones not used."""

import json

import pytest
from gemini_talk import GEMINI

from syncagent.events import ToolCallDelta, ToolCallReady, ToolCallStarted
from syncagent.exceptions import ProtocolError
from syncagent.sse import ServerSentEvent

SIGNATURE = "c2ln"


def calling(name=None, *partials, more=True, **fields):
    """Return a part with a piece of a call."""
    call = {"name": name} if name else {}
    if partials:
        call["partialArgs"] = list(partials)
    if more:
        call["willContinue"] = True
    return {"functionCall": {**call, **fields}}


def text(path, value, more=False):
    return {"jsonPath": path, "stringValue": value, "willContinue": more or None}


def number(path, value):
    return {"jsonPath": path, "numberValue": value}


def decode(*parts, finish="STOP"):
    """Return the events of a stream with one part in each chunk."""
    chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    chunks.append({"candidates": [{"finishReason": finish}]})
    stream = [ServerSentEvent(json.dumps(chunk)) for chunk in chunks]
    return list(GEMINI.decode(stream))


def calls_of(*parts, **options):
    return decode(*parts, **options)[-1].message.tool_calls


def joined(*parts):
    (call,) = calls_of(*parts)
    return call.name, json.loads(call.arguments)


END = {"functionCall": {}}


def test_a_call_as_vertex_documents_it():
    """B28: one call, with its name, its signature and all of its arguments."""
    events = decode(
        {**calling("controlLight"), "thoughtSignature": SIGNATURE},
        calling(None, text("$.location", "Boston", more=True)),
        calling(None, text("$.location", ", MA", more=True)),
        calling(None, text("$.location", "")),
        calling(None, number("$.brightness", 50.0)),
        END,
    )
    (call,) = events[-1].message.tool_calls
    assert (call.name, call.signature) == ("controlLight", SIGNATURE)
    assert call.arguments == '{"location":"Boston, MA","brightness":50}'
    (started,) = [event for event in events if isinstance(event, ToolCallStarted)]
    assert (started.call_id, started.name) == (call.call_id, "controlLight")
    deltas = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
    assert "".join(deltas) == call.arguments
    assert [e.call for e in events if isinstance(e, ToolCallReady)] == [call]
    assert events[-1].message.stop_reason == "tool_calls"


def test_the_last_piece_may_say_nothing_about_more():
    """Arguments with lists end so (vercel/ai#14358)."""
    assert joined(
        calling("f"),
        calling(None, text("$.operations[0].itemid", "a")),
        calling(None, text("$.operations[1].itemid", "")),
        calling(None, number("$.operations[1].price", 0.5), more=False),
    ) == ("f", {"operations": [{"itemid": "a"}, {"itemid": "", "price": 0.5}]})


@pytest.mark.parametrize(
    ("partials", "expected"),
    [
        ([{"jsonPath": "$.a", "boolValue": False}], {"a": False}),
        ([{"jsonPath": "$.a", "nullValue": "NULL_VALUE"}], {"a": None}),
        ([{"jsonPath": "$.a", "nullValue": None}], {"a": None}),
        ([{"jsonPath": "$.a"}], {"a": None}),
        ([number("$.a", 1.5), number("$.b", 7)], {"a": 1.5, "b": 7}),
        ([number("$.a", 1e300)], {"a": 1e300}),
        ([text("$['x y'][\"z.1\"]", "é")], {"x y": {"z.1": "é"}}),
        ([text("$['it\\'s']", "é")], {"it's": "é"}),
        ([text("$.a[0][1]", "x")], {"a": [[None, "x"]]}),
        ([{"jsonPath": "$.a", "willContinue": True}, {"jsonPath": "$.a"}], {"a": ""}),
        ([text("$.a", "x", more=True), text("$.b", "y")], {"a": "x", "b": "y"}),
        ([text("$.a", "x"), text("$.a", "y")], {"a": "y"}),
        ([text("$.a", "x", more=True)], {"a": "x"}),
    ],
)
def test_every_kind_of_value_and_path(partials, expected):
    """Where they belong, in the type that they have."""
    assert joined(calling("f", *partials), END) == ("f", expected)
    assert joined(calling("f", *partials, more=False)) == ("f", expected)


def test_no_arguments_are_none():
    """A call of a tool that needs none is a call."""
    assert joined(calling("f"), END) == ("f", {})


def test_calls_one_after_the_other():
    """Streamed or in one piece, each has its own arguments; words may be between."""
    found = calls_of(
        calling("f"),
        calling(None, text("$.a", "1")),
        END,
        {"text": "Hm."},
        {"functionCall": {"name": "g", "args": {"b": 2}}},
        calling("f", number("$.a", 3), id="x"),
        calling("f", number("$.b", 4), id="x"),
        calling("f", number("$.a", 5), id="y"),
    )
    assert [(call.name, json.loads(call.arguments)) for call in found] == [
        ("f", {"a": "1"}),
        ("g", {"b": 2}),
        ("f", {"a": 3, "b": 4}),
        ("f", {"a": 5}),
    ]
    assert len({call.call_id for call in found}) == 4


def test_an_end_without_a_call_is_none():
    """B28: never a call without a name."""
    assert not calls_of(END, {"text": "a"}, END)


@pytest.mark.parametrize("finish", ["MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "OTHER"])
def test_half_of_the_arguments_are_no_arguments(finish):
    """A tool is not called with a text that was cut off: they are no JSON."""
    (call,) = calls_of(calling("f"), calling(None, text("$.a", "x")), finish=finish)
    assert call.name == "f"
    with pytest.raises(ValueError, match=r"."):
        call.parse()


@pytest.mark.parametrize(
    "partials",
    [
        *([text(path, "x")] for path in ("", "$", "a", "$.", "$.a[", "$.a[x]", "$[0]")),
        [text("$.a" + ".b" * 200, "x")],
        [text("$.a[99999]", "x")],
        [text("$.a", "x"), text("$.a.b", "y")],
        [text("$.a[0]", "x"), text("$.a.b", "y")],
    ],
)
def test_an_argument_that_has_no_place(partials):
    """It is a typed error."""
    with pytest.raises(ProtocolError, match="no such place"):
        decode(calling("f", *partials), END)


def test_a_long_text_in_many_pieces():
    """It takes a time that grows with its length, and not faster."""
    pieces = [text("$.a", "word ", more=True)] * 20_000
    name, arguments = joined(calling("f"), calling(None, *pieces), END)
    assert (name, len(arguments["a"])) == ("f", 100_000)
