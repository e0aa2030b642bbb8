"""What a timeline makes of a recording."""

import pytest
from support.recorded_runs import (
    film_cancelled,
    film_moved,
    film_normal,
    film_sub_agent,
)
from support.recordings import look, looking_agent, rows_of

from syncagent import Agent, ToolContext, tool
from syncagent.hooks import Retry
from syncagent.testing import ScriptedModel, call, say
from syncagent.timeline import read_timeline


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def details(row):
    return {detail.title: detail.text for detail in row.details}


def test_rows_in_the_order_of_the_run(path):
    """Model calls, the wait for a person and tools, as they came."""
    film_normal(path)
    titles = [row.title for row in rows_of(path)[1:]]
    assert titles == [
        *("model call 1", "waiting for approval", "publish"),
        *("model call 2", "echo", "model call 3"),
    ]


def test_no_row_is_outside_the_run(path):
    """Each part begins and ends within it, and its segments fill it."""
    film_normal(path)
    run, *rows = rows_of(path)
    for row in rows:
        assert run.begin <= row.begin <= row.end <= run.end
        if row.segments:
            assert row.segments[0].begin == row.begin
            assert row.segments[-1].end == row.end


def test_a_model_call_has_its_phases(path):
    """What of it was connecting, waiting, streaming."""
    film_normal(path)
    first = rows_of(path, "model")[0]
    names = [part.name for part in first.segments]
    wanted = ["model", "connect", "send", "headers", "first event", "stream"]
    assert [name for name in names if name in wanted] == wanted


def test_what_was_said_can_be_read(path):
    """Answers, arguments, results and questions are there as text."""
    film_normal(path)
    model, wait, tool = rows_of(path)[1:4]
    assert "I publish it." in details(model)["Response"]
    assert details(model)["Tokens"] == "10 in, 5 out"
    assert "publish" in details(wait)["Questions"]
    assert '"news"' in details(tool)["Arguments"]
    assert details(tool)["Result"] == "published: news"
    assert tool.outcome == "done"


def test_the_summary_says_what_to_know_first(path):
    """Stop reason, turns, tokens and what was asked and answered."""
    result = film_normal(path)
    summary = read_timeline(path).summary
    assert (summary.stop_reason, summary.turns, summary.tool_calls) == (
        "end_turn",
        3,
        2,
    )
    assert summary.usage == result.usage
    assert (summary.prompt, summary.text) == ("Publish the news.", "It is out.")
    assert summary.run_id == result.run_id


def test_how_long_each_part_took_to_end(path):
    """Promise 5: what was there at the cancel says when it ended; the rest does not."""
    result = film_cancelled(path)
    timeline = read_timeline(path)
    (cancel,) = timeline.cancels
    late = {row.title: row.after_cancel for row in timeline.rows if row.after_cancel}
    assert sorted(row.title for row in rows_of(path, "tool")) == [
        "spin",
        "wait",
        "wait",
    ]
    assert set(late) == {timeline.rows[0].title, "spin", "wait"}
    assert all(took <= late[timeline.rows[0].title] for took in late.values())
    assert timeline.rows[0].end >= cancel.at
    assert "enough" in timeline.summary.cancellation
    assert result.cancellation.phase in timeline.summary.cancellation


def test_tools_say_where_they_ran(path):
    """On which thread, and whether in a process."""
    film_cancelled(path)
    places = {
        row.title: (row.is_elsewhere, row.in_process) for row in rows_of(path, "tool")
    }
    assert places == {"wait": (True, False), "spin": (True, True)}


def test_a_sub_agent_is_inside_of_its_call(path):
    """Its rows follow the tool's, one step further in."""
    film_sub_agent(path)
    rows = rows_of(path)
    told = [(row.depth, row.title) for row in rows[2:]]
    assert told == [
        *((1, "scout"), (2, "sub-agent"), (3, "model call 1"), (3, "echo")),
        *((3, "model call 2"), (1, "model call 2")),
    ]
    assert rows[2].begin <= rows[3].begin <= rows[3].end <= rows[2].end


def test_a_retry_is_a_part_of_its_call(path):
    """The back-off is seen, and the call goes on after it."""
    film_sub_agent(path)
    first = rows_of(path, "model")[0]
    names = [part.name for part in first.segments]
    assert "retry" in names
    assert names.index("retry") < names.index("stream")


def test_a_run_that_moves_shows_its_threads(path):
    """One row says which thread has driven it, and when."""
    film_moved(path)
    (row,) = rows_of(path, "thread")
    assert len(row.segments) == 2
    assert row.segments[1].name.startswith("syncagent-run-")


def test_a_tool_that_asks_shows_its_wait(path):
    """The wait for the user is inside of the tool, with the question."""

    @tool
    def order(ctx: ToolContext) -> str:
        """Order something."""
        return ctx.ask("Tea or coffee?")

    model = ScriptedModel([say("Hm.", call("order", {}, "order_1")), "Done."])
    Agent(model, tools=[order], ask=lambda asked: "tea").run("Go.", record=path)
    tool_row, wait = rows_of(path)[2:4]
    assert (wait.title, wait.depth) == ("waiting for an answer", 2)
    assert tool_row.begin <= wait.begin <= wait.end <= tool_row.end
    assert "Tea or coffee?" in details(wait)["Questions"]
    assert details(tool_row)["Result"] == "tea"


def test_a_call_that_is_not_made_is_there(path):
    """What was denied has a row, too, which says so."""
    agent = looking_agent(requires_approval=True, approve=lambda request: False)
    agent.run("Look.", record=path)
    assert [row.outcome for row in rows_of(path, "tool")] == ["denied", "denied"]


def test_a_call_that_is_made_again_has_two_rows(path):
    """Each time that a hook wants it made again is seen."""

    class Twice:
        def __init__(self):
            self.left = 1

        def after_tool(self, event):
            self.left -= 1
            return Retry() if self.left >= 0 else None

    script = [say("Hm.", call("look", {"what": "it"}, "look_1")), "Done."]
    agent = Agent(ScriptedModel(script), tools=[look], hooks=[Twice()])
    agent.run("Go.", record=path)
    first, second = rows_of(path, "tool")
    assert first.end <= second.begin
    assert second.outcome == "done"


def test_a_run_that_fails_says_why(path):
    """The error stands on top, and the call that failed is marked."""
    with pytest.raises(ZeroDivisionError):
        Agent(ScriptedModel([ZeroDivisionError("oh")])).run("Go.", record=path)
    timeline = read_timeline(path)
    assert timeline.summary.stop_reason == "error"
    assert timeline.summary.error == "ZeroDivisionError: oh"
    assert rows_of(path, "model")[0].outcome == "failed"


def test_a_run_that_waits_and_is_resumed_is_one(path):
    """What was written on later follows the first part, after a pause."""
    agent = looking_agent(requires_approval=True)
    paused = agent.run("Look.", record=path)
    agent.resume({asked.id: True for asked in paused.interrupts}, record=path)
    timeline = read_timeline(path)
    assert [row.kind for row in timeline.rows].count("run") == 1
    assert "paused" in [row.title for row in timeline.rows]
    assert timeline.summary.stop_reason == "end_turn"
    assert timeline.notes == ()
