"""Whatever a transcript holds, what is sent is valid, and encoded once."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncagent.exceptions import ConfigurationError
from syncagent.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.transcript import AssistantTurn, Transcript, UserTurn, turns


def user(text="hi"):
    return UserMessage((Text(text),))


def assistant(text="yes", *call_ids):
    calls = (ToolCall(call_id, "tool") for call_id in call_ids)
    return AssistantMessage((Text(text), *calls))


def results(*call_ids):
    return ToolMessage(
        tuple(ToolResult(call_id, (Text("done"),)) for call_id in call_ids)
    )


def shape(messages):
    """Return what is sent, as short as it can be said."""
    found = []
    for turn in turns(messages):
        if isinstance(turn, AssistantTurn):
            found.append(("assistant", *turn.calls))
        else:
            given = [
                f"{'no ' * result.is_error}{result.call_id}" for result in turn.results
            ]
            found.append(("user", *given, *(block.text for block in turn.content)))
    return found


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([user()], [("user", "hi")]),
        ([user("a"), user("b")], [("user", "a", "b")]),
        (
            [user(), assistant("", "1"), results("1")],
            [("user", "hi"), ("assistant", "1"), ("user", "1")],
        ),
        (
            [user(), assistant("", "1", "2"), results("2"), user("and?")],
            [("user", "hi"), ("assistant", "1", "2"), ("user", "no 1", "2", "and?")],
        ),
        (
            [user(), assistant("", "1")],
            [("user", "hi"), ("assistant", "1"), ("user", "no 1")],
        ),
        (
            [assistant(), user("b")],
            [("user", "(continue)"), ("assistant",), ("user", "b")],
        ),
        ([user(), results("9"), user("b")], [("user", "hi", "b")]),
        (
            [user(), assistant(), assistant(), user("b")],
            [("user", "hi"), ("assistant",), ("user", "b")],
        ),
        (
            [user(), assistant("", "1"), assistant("", "1"), results("1"), user(" ")],
            [
                ("user", "hi"),
                ("assistant", "1"),
                ("user", "no 1"),
                ("assistant", "1"),
                ("user", "1_2"),
            ],
        ),
        (
            [user(), assistant()],
            [("user", "hi"), ("assistant",), ("user", "(continue)")],
        ),
        ([], [("user", "(continue)")]),
    ],
)
def test_what_is_sent(messages, expected):
    """User first, in turns, and one result for every call, right after it."""
    assert shape(messages) == expected


MESSAGES = st.one_of(
    st.builds(user, st.sampled_from(["a", " ", ""])),
    st.builds(
        lambda ids: assistant("", *ids), st.lists(st.sampled_from("123"), max_size=3)
    ),
    st.builds(lambda ids: results(*ids), st.lists(st.sampled_from("1239"), max_size=3)),
)


@given(st.lists(MESSAGES, max_size=12))
def test_any_messages_are_sent_in_turns(messages):
    """Promise 4, for whatever somebody has made of a transcript."""
    found = list(turns(messages))
    kinds = [type(turn) for turn in found]
    assert kinds == ([UserTurn, AssistantTurn] * len(kinds))[: len(kinds)]
    assert kinds[-1] is UserTurn
    calls = {}
    for turn in found:
        if isinstance(turn, AssistantTurn):
            calls = turn.calls
        else:
            ids = [call.call_id for call in calls.values()]
            assert [result.call_id for result in turn.results] == ids
            assert turn.results or turn.content
    every = [c.call_id for t in found for c in getattr(t, "calls", {}).values()]
    assert len(set(every)) == len(every)


def encode(transcript):
    return b"".join(transcript.encode("x", msgspec.json.encode))


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=12), st.integers(0, 12))
def test_what_is_remembered_is_what_would_be_made_anew(messages, often):
    """Asked at every length, or only at the end: the same bytes."""
    transcript = Transcript()
    for number, message in enumerate(messages):
        transcript.append(message)
        if number % (often + 1) == 0:
            encode(transcript)
    assert encode(transcript) == encode(Transcript(messages))


def test_a_turn_is_encoded_once():
    """However long the conversation grows."""
    transcript, made = Transcript(), []

    def note(turn):
        made.append(turn.start)
        return b"{}"

    for number in range(100):
        transcript.append(user(str(number)))
        transcript.encode("x", note)
        transcript.append(assistant())
    assert len(made) <= 200


def test_what_is_cut_off_is_forgotten():
    """A transcript that was made shorter is encoded as if it had never been longer."""
    transcript = Transcript([user("a"), assistant(), user("b"), assistant(), user("c")])
    encode(transcript)
    transcript.truncate(1)
    transcript.append(user("d"))
    assert encode(transcript) == encode(Transcript([user("a"), user("d")]))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConfigurationError])
def test_an_encoding_that_is_cut_short_leaves_nothing_wrong(error):
    """Whatever it was, the next payload says everything once."""
    messages = [user("a"), assistant(), user("b"), assistant(), user("c")]
    for number in range(5):
        transcript, calls = Transcript(messages[:3]), []
        encode(transcript)
        for message in messages[3:]:
            transcript.append(message)

        def fail(turn, number=number, calls=calls):
            calls.append(turn)
            if len(calls) == number:
                raise error("now")
            return msgspec.json.encode(turn)

        with suppress(error):
            transcript.encode("x", fail)
        assert encode(transcript) == encode(Transcript(messages))
