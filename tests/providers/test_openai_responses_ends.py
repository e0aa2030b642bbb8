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

from syncagent.exceptions import StreamBroken
from syncagent.messages import Refusal
from syncagent.usage import Usage

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


@pytest.mark.parametrize("kind", ["completed", "incomplete"])
@pytest.mark.parametrize(
    ("response", "detail"),
    [
        ({"incomplete_details": {"reason": "steered"}}, "steered"),
        ({"incomplete_details": {"reason": "max_messages"}}, "max_messages"),
        ({"incomplete_details": None}, "incomplete"),
        ({"status": "cancelled"}, "cancelled"),
    ],
)
def test_an_end_that_is_none_of_the_usual_ones_is_never_a_regular_one(
    kind, response, detail
):
    """The detail has the provider's word for it."""
    response = {"status": "incomplete", **response, "output": [message_item("Hm")]}
    message = message_of(created(), event(kind, response=response))
    assert (message.stop_reason, message.stop_detail) == ("other", detail)
    body = json.dumps(response).encode()
    *_, finished = DIALECT.decode_body(body)
    assert (finished.message.stop_reason, finished.message.stop_detail) == (
        "other",
        detail,
    )


@pytest.mark.parametrize("status", ["queued", "in_progress", "unheard_of"])
def test_a_reply_that_has_not_ended_is_no_answer(status):
    """It is an error."""
    body = json.dumps({"status": status, "output": [message_item("Hm")]}).encode()
    with pytest.raises(StreamBroken):
        list(DIALECT.decode_body(body))


def test_a_filtered_answer_says_by_what():
    """It is a refusal, with the provider's word as its detail."""
    response = {"incomplete_details": {"reason": "content_filter"}, "output": []}
    message = message_of(created(), event("incomplete", response=response))
    assert (message.stop_reason, message.stop_detail) == ("refusal", "content_filter")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            {
                "input_tokens": 4096,
                "input_tokens_details": {
                    "cached_tokens": 1024,
                    "cache_write_tokens": 3072,
                    "cache_write_tokens_details": {"ttl_30m_tokens": 3072},
                },
                "output_tokens": 50,
                "output_tokens_details": {"reasoning_tokens": 30},
                "total_tokens": 4146,
            },
            Usage(4096, 50, 1024, 3072, 30),
        ),
        (  # xAI's
            {
                "input_tokens": 11365,
                "input_tokens_details": {"cached_tokens": 128},
                "output_tokens": 498,
                "output_tokens_details": {"reasoning_tokens": 320},
                "total_tokens": 11863,
                "num_sources_used": 0,
                "num_server_side_tools_used": 2,
                "cost_in_usd_ticks": 233008500,
            },
            Usage(11365, 498, 128, 0, 320),
        ),
        (  # reasoning beside the output, as in xAI's other API
            {
                "input_tokens": 12,
                "output_tokens": 2,
                "output_tokens_details": {"reasoning_tokens": 340},
                "total_tokens": 354,
            },
            Usage(12, 342, 0, 0, 340),
        ),
        (  # Perplexity's
            {
                "input_tokens": 7,
                "output_tokens": 5,
                "total_tokens": 12,
                "cost": {"currency": "USD", "total_cost": 0.0061},
            },
            Usage(7, 5),
        ),
        (
            {
                "input_tokens": -1,
                "output_tokens": 3,
                "input_tokens_details": {"cache_write_tokens": -5},
                "output_tokens_details": {"reasoning_tokens": -7},
                "total_tokens": 2,
            },
            Usage(0, 3),
        ),
    ],
)
def test_tokens_are_counted_as_the_provider_bills_them(told, expected):
    """B17: with those written to a cache; numbers that cannot be are not believed."""
    *_, finished = DIALECT.decode(stream(created(), completed(usage=told)))
    assert finished.usage == expected
