"""Events as the WHATWG specification has them, however the bytes are cut."""

import random
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import reference, reference_end

from syncagent.exceptions import ResponseTooLarge
from syncagent.sse import EventDecoder, ServerSentEvent, decode_events

BOM = b"\xef\xbb\xbf"

CORPUS = {
    "one event": b"data: hello\n\n",
    "no space": b"data:hello\n\n",
    "two spaces": b"data:  hello\n\n",
    "tab is no space": b"data:\thello\n\n",
    "CRLF": b"data: a\r\n\r\ndata: b\r\n\r\n",
    "CR": b"data: a\r\rdata: b\r\r",
    "LF then CRLF": b"data: a\n\r\ndata: b\n\r\n",
    "CRLF then LF": b"data: a\r\n\ndata: b\r\n\n",
    "CR then CRLF": b"data: a\r\r\ndata: b\r\r\n",
    "LF then CR": b"data: a\n\rdata: b\n\r",
    "CR then LF is one line end": b"data: a\r\ndata: b\r\n\r\n",
    "all mixed": b"event: x\rdata: a\ndata: b\r\n\rdata: c\n\n\r\ndata: d\r\n\r\n",
    "many blank lines": b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n",
    "byte order mark": BOM + b"data: a\n\ndata: b\n\n",
    "mark later is data": b"data: a\n\n" + BOM + b"data: b\n\ndata: c\n\n",
    "two marks": BOM + BOM + b"data: a\n\ndata: b\n\n",
    "half a mark": b"\xef\xbbdata: a\n\ndata: b\n\n",
    "name": b"event: ping\ndata: {}\n\n",
    "name after data": b"data: {}\nevent: ping\n\n",
    "name without data": b"event: ping\n\ndata: a\n\n",
    "last name counts": b"event: a\nevent: b\ndata: x\n\n",
    "empty name": b"event: a\nevent:\ndata: x\n\n",
    "bare name": b"event: a\nevent\ndata: x\n\n",
    "name with colon": b"event: a:b\ndata: x\n\n",
    "several lines": b"data: a\ndata: b\ndata:\ndata\ndata:  c\n\n",
    "lines apart": b"data: a\nevent: n\ndata: b\nid: 1\ndata: c\n\n",
    "empty data": b"data:\n\ndata\n\ndata: \n\n",
    "two empty lines of data": b"data\ndata\n\n",
    "comments": b": hello\n\n:\n\n:data: x\n\ndata: a\n:b\ndata: c\n\n",
    "unknown fields": b"foo: bar\ndatax: 1\n data: 2\ndata: a\nDATA: b\n\n",
    "field without name": b"data: a\n: x\n:\n\n",
    "only spaces": b" \n\ndata: a\n  \ndata: b\n\n",
    "colons in data": b"data: a: b:\n\ndata::\n\n",
    "id stays": b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
    "id alone": b"id: 7\n\ndata: a\n\n",
    "id with NUL": b"id: 1\nid: 2\0\ndata: a\n\nid: \0\ndata: b\n\n",
    "retry": b"retry: 10\ndata: a\n\nretry: x\n\n",
    "retry alone": b"retry: 3000\n\n",
    "retry, last valid": b"retry: 1\nretry: 2\nretry: -3\nretry:  4\n\nretry\n\n",
    "retry, odd digits": "retry: \u0665\n\nretry: 1_0\n\nretry: 0050\n\n".encode(),
    "id of empty data": b"id: 5\ndata:\n\n",
    "id in an open block": b"id: 5\n\nid: 6\ndata: x\n",
    "NUL in data": b"data: a\0b\n\n",
    "bad UTF-8": b"data: \xff\xfe \xe2\x82 \xc3\n\ndata: \xed\xa0\x80\n\n",
    "bad UTF-8 in a name": b"event: \xff\ndata: a\ndata: \xf0\x9f\n\n",
    "bad UTF-8 as a field": b"\xff: a\n\x85\n\xa0\ndata: b\n\n",
    "UTF-8": "data: ä€😀\n\nevent: ü\ndata: é\ndata: \u2028\x85\x0b\n\n".encode(),
    "other separators": b"data: a\x0bb\x0cc\x1cd\x1de\n\n",
    "cut before the blank line": b"data: a\n\ndata: b\n",
    "cut in a line": b"data: a\n\ndata: b",
    "cut in a name": b"data: a\n\nevent: x\n",
    "cut in a character": b"data: a\n\ndata: \xe2\x82",
    "nothing": b"",
    "only a mark": BOM,
    "only newlines": b"\r\n\r\r\n\n",
}


@pytest.mark.parametrize("stream", CORPUS.values(), ids=CORPUS)
def test_every_way_to_cut_a_stream_in_two(stream):
    """Whole, byte by byte and at every single place: the specification's events."""
    expected = reference(stream)
    assert list(decode_events([stream])) == expected
    assert list(decode_events(bytes([byte]) for byte in stream)) == expected
    for cut in range(len(stream) + 1):
        assert list(decode_events([stream[:cut], stream[cut:]])) == expected, cut


@pytest.mark.parametrize("stream", CORPUS.values(), ids=CORPUS)
def test_the_last_id_and_the_delay_outlive_the_stream(stream):
    """A client that connects again needs both, also of blocks that are no events."""
    for cut in range(len(stream) + 1):
        assert end_of([stream[:cut], stream[cut:]]) == reference_end(stream), cut


def end_of(chunks):
    """Return the last event id and the delay of a stream that has ended."""
    decoder = EventDecoder()
    for chunk in chunks:
        list(decoder.feed(chunk))
    return decoder.last_event_id, decoder.retry


def test_the_id_is_that_of_the_event_in_hand():
    """A client that stops in the middle of a chunk asks for the rest."""
    decoder = EventDecoder()
    events = iter(decoder.feed(b"id: 1\ndata: a\n\nid: 2\nretry: 7\ndata: b\n\n"))
    assert (next(events).id, decoder.last_event_id, decoder.retry) == ("1", "1", None)
    assert (next(events).id, decoder.last_event_id, decoder.retry) == ("2", "2", 7)


def test_an_absurd_delay_is_ignored():
    """A number of a million digits is no delay, and no error either."""
    stream = b"retry: 5\n\nretry: " + b"9" * 1_000_000 + b"\n\n"
    assert end_of([stream]) == ("", 5)


def test_every_way_to_cut_in_three():
    """Two cuts at once, in what is most easily torn: marks and line ends."""
    stream = BOM + b"data: a\r\n\r\ndata:b\r\rid\ndata\n\n\r\ndata: \xe2\x82\xac\r\n\r"
    expected = reference(stream)
    for one in range(len(stream)):
        for two in range(one, len(stream)):
            chunks = [stream[:one], b"", stream[one:two], stream[two:]]
            assert list(decode_events(chunks)) == expected, (one, two)


PIECES = [
    *[b"data", b"data:", b"data: ", b"event", b"event: ", b"id: ", b"retry: 1", b":"],
    *[b"\n", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b" ", b"x", b"{}", b"\0"],
    *[BOM, b"\xff", b"\xe2\x82", b"\xac", "é".encode(), b"\x85", b"[DONE]"],
]


def random_stream(randomly):
    """Return a stream that is mostly nearly valid, and the places to cut it at."""
    stream = b"".join(randomly.choices(PIECES, k=randomly.randrange(40)))
    number = randomly.randrange(6)
    cuts = sorted(randomly.randrange(len(stream) + 1) for _ in range(number))
    return stream, [0, *cuts, len(stream)]


@pytest.mark.parametrize(
    "number", [15_000, pytest.param(1_000_000, marks=pytest.mark.stress)]
)
def test_random_streams(number):
    """Whatever comes, cut anywhere, the events are those of the specification."""
    randomly = random.Random(number)
    for _ in range(number):
        stream, cuts = random_stream(randomly)
        chunks = [
            stream[a:b] for a, b in zip(cuts, [*cuts[1:], len(stream)], strict=True)
        ]
        assert list(decode_events(chunks)) == reference(stream), (stream, cuts)
        assert end_of(chunks) == reference_end(stream), (stream, cuts)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=20) | st.sampled_from(PIECES), max_size=30))
def test_any_bytes(chunks):
    """Bytes that nobody thought of end in the specification's events, too."""
    assert list(decode_events(chunks)) == reference(b"".join(chunks))


NAMES = st.none() | st.binary(max_size=12)


@settings(max_examples=500, deadline=None)
@given(NAMES, st.binary(max_size=40), st.booleans(), st.booleans())
def test_the_short_cut_never_differs(name, data, space_before_name, space_before_data):
    """What takes the short cut comes out as sseclient-py reads it."""
    line = b"" if name is None else b"event:" + b" " * space_before_name + name + b"\n"
    block = (line + b"data:" + b" " * space_before_data + data).replace(b"\r", b"\n")
    short = list(EventDecoder().feed(block + b"\n\n"))
    long = [
        event
        for part in block.split(b"\n\n")
        for event in EventDecoder()._read(part)
        if part
    ]
    assert short == long


@pytest.mark.parametrize(
    ("before", "last"),
    [(b"data: a\n", b"\n"), (b"data: a\r", b"\r"), (b"data: a\r\n", b"\r")],
)
def test_an_event_is_there_with_its_last_byte(before, last):
    """Nothing more has to come: no LF after a CR, no further event, no end."""
    decoder = EventDecoder()
    assert list(decoder.feed(before)) == []
    assert list(decoder.feed(last)) == [ServerSentEvent("a")]
    assert list(decoder.feed(b"\n")) == []


LIMITED = {"max_event_bytes": 100, "max_event_lines": 10}


@pytest.mark.parametrize(
    "chunks",
    [
        [b"data: " + b"x" * 200 + b"\n\n"],
        [b"data: ", *[b"x"] * 200],
        [b"data: x\n" * 11 + b"\n"],
        [b":\n"] * 20,
        [b"\xff" * 101],
    ],
)
def test_limits(chunks):
    """An event beyond the limits is an error that says so; those before it count."""
    decoder = EventDecoder(**LIMITED)
    events = [*decoder.feed(b"data: a\n\n")]
    with pytest.raises(ResponseTooLarge, match=r"more than (100 bytes|10 lines)"):
        for chunk in [b"data: b\n\n" + chunks[0], *chunks[1:]]:
            for event in decoder.feed(chunk):
                events.append(event)
    assert [event.data for event in events] == ["a", "b"]


def test_up_to_the_limit_all_is_well():
    """The limits themselves are allowed, again and again."""
    decoder = EventDecoder(**LIMITED)
    for _ in range(5):
        assert len([*decoder.feed(b"data: " + b"x" * 94 + b"\n\n")]) == 1
        assert len([*decoder.feed(b"data: x\n" * 10 + b"\n")]) == 1
        assert [*decoder.feed(b": comment\n\n" * 50)] == []


def steps(chunks, **limits):
    """Count how often Python code of the decoder runs for a stream."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += 1

    decoder = EventDecoder(**limits)
    sys.setprofile(profile)
    try:
        number = sum(1 for chunk in chunks for _ in decoder.feed(chunk))
    finally:
        sys.setprofile(None)
    assert number == 1
    return count


@pytest.mark.parametrize(
    "make",
    [
        lambda size: [b"data: ", *[b"x"] * size, b"\n\n"],
        lambda size: [b"data: x\nfoo\n" * size, b"\n"],
        lambda size: [b"event: x\ndata: x\n"] * size + [b"\n"],
    ],
    ids=["bytes", "lines", "fields"],
)
def test_work_grows_with_the_size_and_no_faster(make):
    """Four times the chunks or lines are four times the steps."""
    small, large = steps(make(500)), steps(make(2000))
    assert large < 4.5 * small


def test_sseclient_never_holds_more_than_a_line_of_data(caplog):
    """It copies all it has at every line, so it is given one at a time."""
    caplog.set_level("DEBUG", "sseclient")
    [event] = EventDecoder().feed(b"event: x\n" * 99 + b"data: 12345678\n" * 99 + b"\n")
    assert event.data == "\n".join(["12345678"] * 99)
    sizes = [int(size) for size in re.findall(r"(\d+) bytes", caplog.text)]
    assert sizes == [8] * 99
