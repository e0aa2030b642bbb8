"""What record= must not do: break the run, tell a secret, leave half a line."""

import io
import logging
import os
import sys

import pytest
from support.every_line import Raiser, line_numbers, some_lines
from support.recordings import LONG, ending_of, looking_agent, read_lines

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import AgentBusy, ConfigurationError
from syncagent.logs import hide, unhide
from syncagent.models.credentials import Credentials
from syncagent.testing import Gate, ScriptedModel, call, cancel_everywhere, say


def closed_file():
    file = io.BytesIO()
    file.close()
    return file


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: 7,
        lambda folder: "",
        lambda folder: b"run.jsonl",
        lambda folder: folder,
        lambda folder: folder / "missing" / "run.jsonl",
        lambda folder: "run\0.jsonl",
        lambda folder: closed_file(),
        lambda folder: io.BytesIO,
        lambda folder: sys.stdin,
    ],
    ids=[
        "number",
        "empty",
        "bytes",
        "folder",
        "missing",
        "nul",
        "closed",
        "class",
        "in",
    ],
)
@pytest.mark.parametrize("face", ["run", "stream", "start", "drive"])
def test_what_cannot_be_written_is_refused_at_once(tmp_path, make, face):
    """A mistake is an error before anything is said to the model."""
    agent = looking_agent()
    with pytest.raises(ConfigurationError, match="record"):
        getattr(agent, face)("Look.", record=make(tmp_path))
    assert agent.messages == ()
    assert agent.model.requests == []


def test_a_pipe_is_refused(tmp_path):
    """To open one waits for whoever reads it, and nothing would end that."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="open it"):
        looking_agent().run("Look.", record=path)


def test_a_run_that_does_not_begin_leaves_the_file_alone(tmp_path):
    """A busy agent refuses a run, and the recording of the live one is not lost."""
    path = tmp_path / "run.jsonl"
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "Done."]))
    with agent.start("First.", record=path) as handle:
        gate.wait_reached()
        with pytest.raises(AgentBusy):
            agent.run("Second.", record=path)
        gate.open()
        handle.result(LONG)
    assert ending_of(read_lines(path))["text"] == "Done."


class Full(io.BytesIO):
    """A file that takes one batch of lines, and no more."""

    def write(self, text):
        if text and self.getvalue().count(b"\n"):
            raise OSError(28, "No space left on device")
        return super().write(text)


@pytest.mark.parametrize("file", [Full, lambda: "/dev/full"], ids=["later", "at once"])
def test_a_full_disk_does_not_end_the_run(file, caplog):
    """The run goes on, and one line in the log says what is missing."""
    with caplog.at_level(logging.WARNING):
        result = looking_agent().run("Look.", record=file())
    assert result.stop_reason == "end_turn"
    (said,) = [r.getMessage() for r in caplog.records if r.name.endswith("recording")]
    assert "No space left" in said


def test_a_file_that_is_closed_meanwhile_does_not_end_the_run(caplog):
    """Whoever closes the file has seen enough."""
    file = io.BytesIO()
    with looking_agent().stream("Look.", record=file) as stream:
        next(stream)
        file.close()
        assert list(stream)[-1].result.stop_reason == "end_turn"
    assert "closed" in caplog.text


def test_what_json_has_no_words_for_is_left_out(tmp_path):
    """Odd values of tools are spelled, or said to be lost; the rest is there."""

    @tool
    def odd(ctx: ToolContext) -> str:
        """Say odd things."""
        for value in (object(), {(1, 2): 3}, "\ud800", {"ok": b"bytes"}, 10**400):
            ctx.progress(value)
        return "done"

    path = tmp_path / "run.jsonl"
    model = ScriptedModel([say("Hm.", call("odd")), "Done."])
    assert Agent(model, tools=[odd]).run("Go.", record=path).text == "Done."
    lines = read_lines(path)
    assert ending_of(lines)["text"] == "Done."
    assert any("lost" in line for line in lines)


def test_no_secret_is_written(tmp_path):
    """Not the key, not what log_in gave, not what was hidden; whatever tools say."""
    hide("hidden-by-name-9")
    key, password, nested = "sk-key-of-the-model", 'pass"word\\1234', "nested-token-77"

    @tool(requires_auth="bank")
    def leak(ctx: ToolContext) -> dict:
        """Tell everything."""
        credentials = ctx.credentials
        ctx.progress({"header": f"Bearer {key}", "given": credentials})
        return {"all": [key, credentials, "hidden-by-name-9", f"x{password}"]}

    script = [say("Hm.", call("leak", {})), f"It is {password}, {nested}."]
    model = ScriptedModel(script, piece=1000)
    model._auth = Credentials(key)
    given = {"user": "me", "password": password, "more": [nested]}
    agent = Agent(model, tools=[leak], authenticate=lambda request: given)
    path = tmp_path / "run.jsonl"
    try:
        assert agent.run(f"Use {key}.", record=path).stop_reason == "end_turn"
    finally:
        unhide("hidden-by-name-9")
    text = path.read_text()
    assert "***" in text
    for secret in (key, "word", nested, "hidden-by-name-9"):
        assert secret not in text.replace('"password"', ""), secret
    read_lines(path)


def test_a_key_that_is_a_word_of_the_format_breaks_nothing(tmp_path):
    """Somebody's local server takes any key, also this one."""
    path = tmp_path / "run.jsonl"
    agent = looking_agent()
    agent.model._auth = Credentials("syncagent")
    agent.run("Look.", record=path)
    assert ending_of(read_lines(path))["stop_reason"] == "end_turn"


@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_every_cancel_is_recorded(tmp_path, way):
    """Promise 4, of a recording: wherever it is cancelled, it ends with its end."""
    path = tmp_path / "run.jsonl"
    problems = []

    def make_agent():
        return looking_agent_for_ever()

    def run(agent, prompt):
        result = agent.run(prompt, record=path)
        lines = read_lines(path)
        end = ending_of(lines)
        has_cancel = any("cancel" in line for line in lines)
        if end["stop_reason"] != result.stop_reason or has_cancel != result.cancelled:
            problems.append((end, result))
        return result

    sweep = cancel_everywhere(make_agent, "Look.", way=way, run=run)
    assert len(sweep.points) > 10
    assert problems == []


def looking_agent_for_ever():
    agent = looking_agent(parallel_tools=2)
    script = list(agent.model._script)

    def reply(messages):
        return script[0] if len(messages) == 1 else script[1]

    agent.model._script = reply
    return agent


@some_lines(7)
@pytest.mark.slow
def test_ctrl_c_at_any_line_of_it_goes_up(tmp_path, step):
    """Promise 8: it goes up as it is, the agent is free, and the file has an end."""
    path = tmp_path / "run.jsonl"
    for number in line_numbers(step):
        agent, raiser = looking_agent(), Raiser(number, ("recording/",))
        went_up = raiser.call(lambda agent=agent: agent.run("Look.", record=path))
        assert not agent.is_running
        if raiser.where is None:
            break
        assert went_up, raiser.where
        said = path.read_bytes() if path.exists() else b""
        if said.count(b"\n") > 2:  # it had begun
            ending_of(read_lines(said))
        path.unlink(missing_ok=True)
    assert number > 100


def test_an_unrecorded_run_makes_nothing(tmp_path):
    """Without record= there is no recording, and nothing that is asked about it."""
    agent = looking_agent()
    with agent.stream("Look.") as stream:
        next(stream)
        run = agent._conversation.run
        assert run.recording is None
        assert run.on_event == ()
        list(stream)
