"""A run as a stream of server-sent events."""

import gc
import json
import logging
import threading

import pytest
from support.threads import LONG, until
from support.web.runs import (
    ANNA,
    agent_of,
    all_of,
    finished,
    how_it_ended,
    make_runs,
    parse,
    silent,
    start,
)

from syncagent import ToolContext, tool
from syncagent.events import decode_event
from syncagent.exceptions import ProviderUnavailable
from syncagent.integrations.web.sse import HEADERS, parse_event_id
from syncagent.testing import Gate, call, say


@pytest.fixture
def runs():
    with make_runs() as made:
        yield made


# -- what is sent ------------------------------------------------------------------


def test_all_of_a_run(runs):
    """A stream begins with the run as it is, has every event in order, and its end."""
    run = start(runs, "Once upon a time")
    events = all_of(runs.follow(run))
    first, *middle, last = events
    assert first[:2] == (None, "run")
    assert [number for number, _, _ in middle] == list(range(1, len(middle) + 1))
    assert "text_delta" in [name for _, name, _ in middle]
    assert all(name == data["type"] for _, name, data in middle)
    assert last[:2] == (len(middle) + 1, "end")
    assert last[2]["text"] == "Once upon a time"
    assert last[2]["is_live"] is False


def test_events_can_be_decoded(runs):
    """``data`` is the output of encode_event(), so other programs can read it."""
    run = finished(runs, say(call("nothing")), "It is done.")
    middle = all_of(runs.follow(run))[1:-1]
    kinds = {type(decode_event(json.dumps(data))).__name__ for _, _, data in middle}
    assert {"TextDelta", "ToolFinished", "RunFinished", "StateChanged"} <= kinds


def test_the_end_does_not_repeat_the_conversation(runs):
    """The last event has the result, but not all that was ever said."""
    run = finished(runs, "Hello")
    (data,) = [d for _, name, d in all_of(runs.follow(run)) if name == "run_finished"]
    assert data["result"]["text"] == "Hello"
    assert data["result"]["messages"] == []


def test_what_has_no_json(runs, caplog):
    """A tool may say what JSON has no form for: that is left out, the rest comes."""

    @tool
    def tell(ctx: ToolContext) -> str:
        """Tell."""
        ctx.progress("\ud800")
        ctx.progress(object())
        return "told"

    agent = agent_of(say(call("tell")), "Done.", tools=[tell])
    events = all_of(runs.follow(runs.start(agent, "Tell.", owner=ANNA)))
    names = [name for _, name, _ in events]
    assert (names.count("lagged"), names.count("tool_progress")) == (1, 1)
    assert events[-1][2]["text"] == "Done."
    assert "JSON cannot express" in caplog.text


def test_headers():
    """L8: nothing between us and the client may keep it, pack it or guess its type."""
    headers = {name.lower(): value for name, value in HEADERS}
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-store, no-transform"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers
    assert "connection" not in headers  # hop by hop, which WSGI forbids


def test_heartbeats_carry_bytes():
    """A heartbeat is a comment with bytes: an empty chunk would not be written."""
    with make_runs(heartbeat=0.01) as runs:
        stream = runs.follow(silent(runs))
        beat = b""
        while not beat.startswith(b":"):
            beat = next(stream)
        assert beat.endswith(b"\n\n")
        assert parse(beat) == []
        stream.close()


# -- coming back -------------------------------------------------------------------


def test_resuming_is_exact(runs):
    """Whatever a client has seen last: it gets the rest, all of it, and once."""
    run = finished(runs, say(call("nothing")), "Once upon a time")
    whole = all_of(runs.follow(run))[1:]
    for seen in range(len(whole)):
        assert all_of(runs.follow(run, after=seen))[1:] == whole[seen:]


def test_nothing_is_left(runs):
    """A client that has seen the end gets an empty stream, known before it starts."""
    run = finished(runs, "Hello")
    last = all_of(runs.follow(run))[-1][0]
    stream = runs.follow(run, after=last)
    assert stream.is_empty
    assert list(stream) == []
    assert not runs.follow(run, after=last - 1).is_empty


def test_resuming_in_the_middle_of_a_run(runs):
    """A client that reconnects to a live run misses nothing."""
    gate = Gate()
    run = start(runs, say(call("nothing")), gate, "upon a time")
    before = runs.follow(run)
    seen = parse(next(before) + next(before))
    last = seen[-1][0]
    rest = runs.follow(run, after=last)
    before.close()
    gate.wait_reached()
    gate.open()
    numbers = [number for number, _, _ in all_of(rest)[1:]]
    assert numbers == list(range(last + 1, last + 1 + len(numbers)))
    assert how_it_ended(run)[0] == "end_turn"


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), (" 7 ", 7), ("", 0), (None, 0), ("-1", 0), ("x", 0), ("1" * 400, 0)],
)
def test_strange_ids(text, number):
    """An invalid Last-Event-ID counts as 0."""
    assert parse_event_id(text) == number


def test_ids_of_something_else(runs):
    """With a number that no event of this run has, a client gets everything."""
    run = finished(runs, "Hello")
    assert all_of(runs.follow(run, after=999)) == all_of(runs.follow(run))


def test_what_the_buffer_has_dropped():
    """A late client is told how many events it missed, and resumes exactly there."""
    with make_runs(buffer=4) as runs:
        run = finished(runs, "word " * 50)
        count = run.handle.event_count
        first, *rest = all_of(runs.follow(run, after=2))[1:]
        assert first == (count - 4, "lagged", {"type": "lagged", "missed": count - 6})
        assert [number for number, _, _ in rest] == list(range(count - 3, count + 2))
        again = all_of(runs.follow(run, after=first[0]))[1:]
        assert again == rest


def test_a_slow_client_holds_up_nobody():
    """A client that reads nothing neither stops the run nor makes memory grow."""
    with make_runs(buffer=8) as runs:
        run = start(runs, "word " * 3000)
        stream = runs.follow(run)
        next(stream)
        assert run.handle.join(LONG)
        assert len(run.handle.thread.events._ring) == 8
        assert "lagged" in [name for _, name, _ in all_of(stream)]
        assert how_it_ended(run) == ("end_turn", None)


# -- closing it --------------------------------------------------------------------


def never_begun(stream):
    stream.close()


def in_the_middle(stream):
    next(stream)
    next(stream)
    stream.close()


def twice(stream):
    stream.close()
    stream.close()


def while_it_waits(stream):
    """Close it from another thread, while this one waits in it."""
    waits = Gate()

    def follow():
        for _ in stream:
            waits._reached.set()

    thread = threading.Thread(target=follow)
    thread.start()
    waits.wait_reached()
    stream.close()
    thread.join(LONG)
    assert not thread.is_alive()


@pytest.mark.parametrize("how", [never_begun, in_the_middle, twice, while_it_waits])
def test_closing_ends_the_run(runs, how):
    """Issue 8: a stream that is closed, however, ends the run that it follows."""
    run = silent(runs)
    how(runs.follow(run))
    assert how_it_ended(run) == ("cancelled", "disconnect")


def test_dropping_ends_the_run(runs):
    """Issue 8: a stream that was dropped before its first step ends the run, too."""
    run = silent(runs)
    runs.follow(run)
    gc.collect()
    assert how_it_ended(run) == ("cancelled", "disconnect")


def test_a_closed_stream_says_nothing_more(runs):
    """After close() there is no further piece."""
    stream = runs.follow(silent(runs))
    next(stream)
    stream.close()
    assert list(stream) == []


def test_detached():
    """With ``detach`` the run continues without followers, and can be found again."""
    with make_runs(on_disconnect="detach") as runs:
        gate = Gate()
        run = start(runs, gate, "the end")
        runs.follow(run).close()
        gate.open()
        assert how_it_ended(run) == ("end_turn", None)
        assert all_of(runs.follow(run))[-1][2]["text"] == "the end"


def test_the_last_one_counts(runs):
    """Two tabs: a run ends when the second is closed, not the first."""
    run = silent(runs)
    first, second = runs.follow(run), runs.follow(run)
    first.close()
    first.close()
    assert run.is_live
    second.close()
    assert how_it_ended(run) == ("cancelled", "disconnect")


def test_coming_back_in_time():
    """A reload: with ``grace`` a client that returns in time finds the run live."""
    with make_runs(grace=LONG) as runs:
        gate = Gate()
        run = start(runs, gate, "the end")
        runs.follow(run).close()
        stream = runs.follow(run)
        gate.open()
        assert all_of(stream)[-1][2]["stop_reason"] == "end_turn"


def test_not_coming_back():
    """With ``grace`` a run ends if no client returns in time."""
    with make_runs(grace=0.02) as runs:
        run = silent(runs)
        runs.follow(run).close()
        assert how_it_ended(run) == ("cancelled", "disconnect")


def test_nobody_has_gone(runs):
    """A stream that was read to its end cancels nothing when it is closed."""
    run = start(runs, "Hello")
    stream = runs.follow(run)
    all_of(stream)
    stream.close()
    assert how_it_ended(run) == ("end_turn", None)


# -- private details ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProviderUnavailable("http://dbhost.internal said sk-12345678"), "unavailable"),
        (KeyError("/srv/secret/path"), "failed"),
    ],
)
def test_errors_keep_their_secrets(runs, caplog, error, code):
    """Issue 8: an error ends the stream with words for anybody; the log has it all."""
    with caplog.at_level(logging.ERROR, "syncagent.web"):
        run = finished(runs, error)
        data = b"".join(runs.follow(run))
    until(lambda: caplog.records)
    for secret in (b"dbhost", b"sk-1234", b"/srv", b"Traceback", b"KeyError"):
        assert secret not in data
    *_, failed, end = parse(data)
    assert failed[2]["state"] == "failed"
    assert end[2]["error"]["code"] == code
    assert failed[2]["message"] == end[2]["error"]["message"]
    (record,) = caplog.records
    assert repr(record.exc_info[1]) == repr(error)
    assert run.handle.run_id in record.getMessage()
    assert run.id not in record.getMessage()


@pytest.mark.parametrize("is_shown", [False, True])
def test_what_tools_raise_is_for_the_model(is_shown):
    """The message of a tool's exception is shown only with show_tool_errors."""

    @tool
    def query() -> str:
        """Query."""
        raise ValueError("no route to dbhost")

    with make_runs(show_tool_errors=is_shown) as runs:
        agent = agent_of(say(call("query")), "Sorry.", tools=[query])
        run = runs.start(agent, "Query.", owner=ANNA)
        data = b"".join(runs.follow(run))
    assert (b"dbhost" in data) == is_shown
    assert ("dbhost" in repr(run.view())) == is_shown
    (failed,) = [d for _, name, d in parse(data) if name == "tool_finished"]
    assert failed["outcome"] == "failed"
    assert "dbhost" in repr(agent.messages)


def test_credentials_are_in_no_event(runs):
    """Issue 8: credentials for a tool appear nowhere else."""

    @tool(requires_auth="bank")
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = agent_of(say(call("pay")), "Done.", tools=[pay])
    run = runs.start(agent, "Pay.", owner=ANNA)
    stream = runs.follow(run)
    until(lambda: run.handle.interrupts)
    (asked,) = run.handle.interrupts
    assert run.handle.answer(asked.id, "my-password")
    data = b"".join(stream)
    assert b"paid" in data
    assert b"my-password" not in data
    assert b"my-password" not in repr(run.view()).encode()
