"""What record= writes down."""

import gc
import io
import json
import threading

import pytest
from support.recordings import (
    LONG,
    ending_of,
    events_of,
    look,
    looking_agent,
    read_lines,
    wait,
)

from syncagent import Agent, Runtime
from syncagent.events import RunFinished
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Gate, ScriptedModel, call, say


def test_all_events_are_there_in_order(tmp_path):
    """What a stream yields is what is written, and the result has no messages twice."""
    path = tmp_path / "run.jsonl"
    with looking_agent().stream("Look.", record=path) as stream:
        seen = list(stream)
    lines = read_lines(path)
    *told, last = events_of(lines)
    assert sorted(map(repr, told)) == sorted(map(repr, seen[:-1]))
    assert isinstance(last, RunFinished)
    assert last.result.messages == ()
    assert last.result.text == stream.result.text == "All is done."
    times = [line["t"] for line in lines]
    assert all(at >= 0 for at in times)


def test_the_prompt_and_the_model_come_first(tmp_path):
    """Whoever reads it knows what was asked, of whom, on which thread."""
    path = tmp_path / "run.jsonl"
    result = looking_agent().run("Look around.", record=str(path))
    first = read_lines(path)[0]
    assert first["begin"]["prompt"]["content"][0]["text"] == "Look around."
    assert first["begin"]["model"] == "scripted"
    assert first["thread"] == threading.current_thread().name
    assert first["run"] == result.run_id


@pytest.mark.parametrize("kind", ["bytes", "text", "memory"])
def test_an_open_file_is_written_and_left_open(tmp_path, kind):
    """A file of yours takes bytes or text, and stays yours."""
    path = tmp_path / "run.jsonl"
    files = {
        "bytes": lambda: path.open("wb"),
        "text": lambda: path.open("w", encoding="utf-8"),
        "memory": io.BytesIO,
    }
    with files[kind]() as file:
        looking_agent().run("Grüß dich.", record=file)
        assert not file.closed
        said = file.getvalue() if kind == "memory" else path.read_bytes()
    assert ending_of(read_lines(said))["stop_reason"] == "end_turn"


def test_a_path_is_written_anew_and_only_for_its_owner(tmp_path):
    """A second run replaces the first; nobody else may read what was said."""
    path = tmp_path / "run.jsonl"
    agent = Agent(ScriptedModel(lambda messages: "Hello."))
    agent.run("One.", record=path)
    agent.run("Two.", record=path)
    assert b"One." not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_cancel_has_its_own_moment(tmp_path):
    """The line has the time, the origin, the reason and the phase of the cancel."""
    path = tmp_path / "run.jsonl"
    model = ScriptedModel(lambda messages: say("I wait.", call("wait")))
    agent = Agent(model, tools=[wait])
    with agent.stream("Wait.", record=path) as stream:
        for event in stream:
            if getattr(event, "state", "") == "executing_tool":
                break
        agent.cancel("enough", "disconnect")
        list(stream)
    lines = read_lines(path)
    (cancel,) = [line for line in lines if "cancel" in line]
    told = {"reason": "enough", "origin": "disconnect", "phase": "tool"}
    assert cancel["cancel"] == told
    assert cancel["t"] <= lines[-1]["t"]
    assert ending_of(lines)["stop_reason"] == "cancelled"


def test_an_error_is_the_last_line(tmp_path):
    """A run that raises has an end, too."""
    path = tmp_path / "run.jsonl"
    with pytest.raises(ZeroDivisionError):
        Agent(ScriptedModel([ZeroDivisionError("oh")])).run("Go.", record=path)
    assert ending_of(read_lines(path)) == {"type": "ZeroDivisionError", "message": "oh"}


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_stream_that_is_dropped_has_an_end(tmp_path, is_begun):
    """Promise 7: at once, without the collector."""
    path = tmp_path / "run.jsonl"
    gc.disable()
    try:
        stream = looking_agent().stream("Look.", record=path)
        if is_begun:
            next(stream)
        del stream
        end = ending_of(read_lines(path))
        assert "dropped" in end.get("message", "dropped by close()")
        assert end.get("stop_reason", "cancelled") == "cancelled"
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["never read", "left early"])
def test_a_stream_that_is_closed_has_an_end(tmp_path, how):
    """However a stream is left, the recording says so."""
    path = tmp_path / "run.jsonl"
    with looking_agent().stream("Look.", record=path) as stream:
        if how == "left early":
            next(stream)
    assert ending_of(read_lines(path))["cancellation"]["origin"] == "closed"


def test_phases_of_a_request_are_there(tmp_path):
    """Over a real socket: connect, headers, first event, stream."""
    path = tmp_path / "run.jsonl"
    with FakeServer() as server:
        server.add("Hello.")
        model = OpenAIChat("fake", base_url=server.base_url, api_key="none")
        Agent(model).run("Hi.", record=path)
    phases = [line["phase"] for line in read_lines(path) if "phase" in line]
    wanted = ["model", "connect", "send", "headers", "first event", "stream", "turn"]
    assert [phase for phase in phases if phase in wanted] == wanted


def test_tools_tell_their_own_threads(tmp_path):
    """Where a tool ran is told by the thread on which it ran."""
    path = tmp_path / "run.jsonl"
    looking_agent(parallel_tools=2).run("Look.", record=path)
    moments = [line for line in read_lines(path) if "tool" in line]
    assert {line["thread"] for line in moments} == {"syncagent-look"}
    told = sorted((line["tool"]["call_id"], line["tool"]["moment"]) for line in moments)
    ids = ("look_1", "look_2")
    assert told == [(call_id, when) for call_id in ids for when in ("begin", "end")]


def test_sub_agents_are_in_the_same_file(tmp_path):
    """The run of a sub-agent names its parent, and the call that it is for."""
    path = tmp_path / "run.jsonl"
    inner = looking_agent(name="scout")
    script = [say("Ask.", call("scout", {"prompt": "Look."}, "ask_1")), "I know."]
    outer = Agent(ScriptedModel(script), tools=[inner])
    result = outer.run("Find out.", record=path)
    lines = read_lines(path)
    begins = [line for line in lines if "begin" in line]
    assert begins[1]["begin"]["parent"] == result.run_id == begins[0]["run"]
    assert begins[1]["begin"]["call_id"] == "ask_1"
    ends = [line["run"] for line in lines if line.get("event", {}).get("result", 0)]
    assert lines[-1]["run"] == result.run_id
    assert begins[1]["run"] in ends


def test_sub_agents_at_once_do_not_mix_their_lines(tmp_path):
    """Six threads write into one file, and each line is whole."""
    path = tmp_path / "run.jsonl"
    scout = Agent(ScriptedModel(lambda messages: "word " * 400), name="scout")
    calls = [call("scout", {"prompt": "Go."}, f"call_{n}") for n in range(6)]
    model = ScriptedModel([say("All.", *calls), "Done."])
    outer = Agent(model, tools=[scout], parallel_tools=6)
    result = outer.run("Go.", record=path)
    lines = read_lines(path)
    runs = {line["run"] for line in lines}
    assert len(runs) == 7
    for run_id in runs - {result.run_id}:
        deltas = [e for e in events_of(lines, run_id) if hasattr(e, "text")]
        assert "".join(each.text for each in deltas) == "word " * 400
    assert ending_of(lines)["text"] == "Done."


@pytest.mark.parametrize("face", ["releasable", "runtime"])
def test_other_faces_record_too(tmp_path, face):
    """Runs that are driven by threads of their own are recorded there."""
    path = tmp_path / "run.jsonl"
    if face == "runtime":
        with Runtime() as runtime:
            runtime.start(looking_agent(), "Look.", record=path).result(LONG)
    else:
        looking_agent().run("Look.", backgroundable=True, record=path)
    lines = read_lines(path)
    assert lines[-1]["thread"].startswith("syncagent-run-")
    assert ending_of(lines)["text"] == "All is done."


def test_a_run_in_the_background_goes_on_in_the_file(tmp_path):
    """What happens on the other thread is written there, up to the end."""
    path = tmp_path / "run.jsonl"
    gate = Gate()
    model = ScriptedModel([say("Hm.", call("look", {"what": "it"})), gate, "Done."])
    agent = Agent(model, tools=[look])
    with agent.stream("Look.", record=path) as stream:
        next(stream)
        assert agent.background()
        (left,) = [e.result for e in stream if isinstance(e, RunFinished)]
    assert left.stop_reason == "backgrounded"
    gate.open()
    assert left.handle.result(LONG).text == "Done."
    assert left.handle.join(LONG)
    lines = read_lines(path)
    assert lines[0]["thread"] == threading.current_thread().name
    assert lines[-1]["thread"].startswith("syncagent-run-")
    assert ending_of(lines)["text"] == "Done."


def test_all_runs_of_a_handle_are_recorded(tmp_path):
    """What is sent later is written on, in the same file."""
    path = tmp_path / "run.jsonl"
    agent = Agent(ScriptedModel(lambda messages: "Hello."))
    with agent.start("One.", record=path, keep_alive=True) as handle:
        handle.result(LONG)
        handle.send_input("Two.")
        handle.result(LONG)
    text = path.read_text()
    assert [json.loads(line) for line in text.splitlines()]
    assert text.count('"begin"') == 2
    assert "One." in text
    assert "Two." in text


def test_all_runs_of_a_driver_are_recorded(tmp_path):
    """Also those that begin with what is submitted."""
    path = tmp_path / "run.jsonl"
    agent = Agent(ScriptedModel(lambda messages: "Hello."))
    with agent.drive("One.", record=path) as driver:
        driver.next()
        driver.send_input("Two.")
        driver.next()
    assert path.read_text().count("run_finished") == 2


def test_resume_writes_on(tmp_path):
    """A run that waits for answers goes on in its file."""
    path = tmp_path / "run.jsonl"
    agent = looking_agent(requires_approval=True)
    paused = agent.run("Look.", record=path)
    answers = {asked.id: True for asked in paused.interrupts}
    agent.resume(answers, record=path)
    text = path.read_text()
    assert text.count('"syncagent":"recording"') == 2
    assert text.count(paused.run_id) > 4
    assert "All is done." in text


def test_a_wait_for_its_turn_is_told(tmp_path):
    """A run that stands in line says so, also if it is cancelled there."""
    path = tmp_path / "run.jsonl"
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "One.", "Two."]))
    with agent.start("First."):
        gate.wait_reached()
        second = agent.start("Second.", on_busy="queue", record=path)
        while not agent._conversation.line:  # bounded by the timeout of the test
            pass
        assert second.cancel("never mind")
        second.result(LONG)
        gate.open()
    assert second.join(LONG)
    lines = read_lines(path)
    assert lines[0]["phase"] == "queue"
    assert ending_of(lines)["stop_reason"] == "cancelled"
