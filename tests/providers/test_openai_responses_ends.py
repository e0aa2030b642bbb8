"""How answers of the Responses API end, long ones too."""

import json
import time

import pytest
from responses_talk import (
    DIALECT,
    call_item,
    completed,
    created,
    event,
    message_item,
    stream,
)

from syncagent.messages import Refusal

REFUSED = {"type": "message", "content": [{"type": "refusal", "refusal": "No"}]}
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


def message_of(*said):
    return list(DIALECT.decode(stream(*said)))[-1].message


@pytest.mark.parametrize(
    "said",
    [
        [completed(REFUSED)],
        [completed(message_item("Hm"), REFUSED)],
        [completed(REFUSED, call_item())],
        [completed(REFUSED, **CUT)],
        [event("refusal.delta", output_index=0, delta="No"), completed()],
    ],
)
def test_an_answer_with_a_refusal_has_stopped_for_it(said):
    """Whatever else is in it, and though the provider calls it complete."""
    message = message_of(created(), *said)
    assert Refusal("No") in message.content
    assert message.stop_reason == "refusal"


def test_a_reply_with_a_refusal_has_stopped_for_it():
    """The same without a stream."""
    body = json.dumps({"status": "completed", "output": [REFUSED]}).encode()
    *_, finished = DIALECT.decode_body(body)
    assert finished.message.stop_reason == "refusal"


def test_an_empty_refusal_is_none():
    """A part without words changes nothing."""
    part = {"type": "refusal", "refusal": ""}
    item = {"type": "message", "content": [part]}
    assert message_of(created(), completed(item)).stop_reason == "end_turn"


def test_arguments_in_very_many_pieces():
    """They take a time that grows with their number and not with its square."""
    piece, count = "x" * 2000, 20_000
    added = event("output_item.added", output_index=0, item=call_item(arguments=""))
    kind = "function_call_arguments.delta"
    [delta] = stream(event(kind, output_index=0, delta=piece))
    said = [*stream(created(), added), *[delta] * count, *stream(completed())]
    began = time.perf_counter()
    *_, finished = DIALECT.decode(said)
    assert time.perf_counter() - began < 10
    assert len(finished.message.tool_calls[0].arguments) == len(piece) * count
