"""Nothing comes twice and nothing is lost if a server counts in its own way."""

import itertools
import json

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

from syncagent.events import TextDelta
from syncagent.messages import Refusal, Text, Thinking


def decoded(*said):
    """Return the text of all deltas, and the message."""
    events = list(DIALECT.decode(stream(created(), *said)))
    deltas = "".join(each.text for each in events if isinstance(each, TextDelta))
    return deltas, events[-1].message


def delta(text, part=0, item=0):
    return event("output_text.delta", output_index=item, content_index=part, delta=text)


def part(text, kind="output_text"):
    return {"type": kind, "text" if kind == "output_text" else "refusal": text}


def message(*parts):
    return {"type": "message", "id": "m", "role": "assistant", "content": list(parts)}


#: A response of gpt-oss on bedrock-mantle: the text's part is number 1 in its events,
#: after the one of the reasoning, and number 0 in its item.
MANTLE_ITEM = {
    "type": "message",
    "id": "msg_8a1",
    "status": "completed",
    "role": "assistant",
    "content": [
        {"type": "output_text", "text": "Paris.", "annotations": [], "logprobs": []}
    ],
}
MANTLE_REASONING = {
    "type": "reasoning",
    "id": "rs_8a0",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "A capital."}],
}
MANTLE = [
    event(
        "output_item.added", output_index=0, item={**MANTLE_REASONING, "content": []}
    ),
    event("reasoning_text.delta", output_index=0, content_index=0, delta="A capital."),
    event("output_item.done", output_index=0, item=MANTLE_REASONING),
    event("output_item.added", output_index=1, item={**MANTLE_ITEM, "content": []}),
    event("content_part.added", output_index=1, content_index=1, part=part("")),
    delta("Par", 1, 1),
    delta("is.", 1, 1),
    event("output_text.done", output_index=1, content_index=1, text="Paris."),
    event("output_item.done", output_index=1, item=MANTLE_ITEM),
    completed(MANTLE_REASONING, MANTLE_ITEM),
]


def test_a_part_that_has_another_number_in_its_item():
    """B6: the text is there once."""
    deltas, said = decoded(*MANTLE)
    assert deltas == said.text == "Paris."
    thinking, _, text = said.content
    assert (thinking, text) == (Thinking("A capital."), Text("Paris."))


@pytest.mark.parametrize("numbers", [*itertools.product([0, 1, 2, 7, None], repeat=2)])
@pytest.mark.parametrize("has_done", [True, False])
def test_two_parts_with_any_numbers(numbers, has_done):
    """Each text is there once, whatever the numbers of its deltas are."""
    first, second = numbers
    whole = message(part("One. "), part("Two."))
    said = [delta("One. ", first), delta("Two.", second)]
    if has_done:
        said.append(event("output_item.done", output_index=0, item=whole))
    deltas, said = decoded(*said, completed(whole))
    assert deltas == said.text == "One. Two."


def test_a_part_that_no_delta_brought_is_added():
    """Even if the number of the other one is wrong."""
    whole = message(part("One. "), part("Two."))
    deltas, said = decoded(delta("One. ", 5), completed(whole))
    assert deltas == said.text == "One. Two."


def test_a_final_text_that_differs_does_not_come_beside_the_streamed_one():
    """The user has seen the streamed one."""
    deltas, said = decoded(delta("Hello", 1), completed(message(part("Hallo"))))
    assert deltas == said.text == "Hello"


def test_a_refusal_with_a_wrong_number():
    """It is there once, beside the text."""
    whole = message(part("Hm."), part("No.", "refusal"))
    refused = event("refusal.delta", output_index=0, content_index=4, delta="No.")
    _, said = decoded(delta("Hm.", 3), refused, completed(whole))
    assert said.content == (Text("Hm."), Refusal("No."))


@pytest.mark.parametrize("index", [0, 1, 4, None])
def test_an_item_that_no_event_brought(index):
    """The one that was streamed is known by its text, not by its number."""
    said = [
        event("output_item.done", output_index=index, item=message_item("Two")),
        completed(message_item("One"), message_item("Two")),
    ]
    _, said = decoded(*said)
    assert sorted(block.text for block in said.content) == ["One", "Two"]


def test_calls_with_wrong_numbers_are_known_by_their_ids():
    """Each is there once, with its own arguments."""
    items = [call_item(f"c{n}", f'{{"a":{n}}}') for n in range(3)]
    said = [
        event("output_item.done", output_index=7 - n, item=item)
        for n, item in enumerate(items)
    ]
    _, said = decoded(*said, completed(*items))
    pairs = {call.call_id: json.loads(call.arguments) for call in said.tool_calls}
    assert pairs == {f"c{n}": {"a": n} for n in range(3)}
