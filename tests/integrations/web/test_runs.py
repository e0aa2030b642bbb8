"""All runs of a process: who may see which, how many there may be, how they end."""

import json
import logging
import os
import threading
from contextlib import suppress

import pytest
from support.processes import in_child
from support.threads import LONG, until
from support.web.runs import (
    ANNA,
    agent_of,
    finished,
    how_it_ended,
    make_runs,
    silent,
    start,
)

from syncagent import Approval, ConfigurationError, ToolContext, tool
from syncagent.exceptions import Declined
from syncagent.integrations.web.bodies import (
    AnswerBody,
    CancelRequest,
    decode_body,
    encode_body,
)
from syncagent.integrations.web.errors import Refused
from syncagent.integrations.web.runs import Runs, close_all
from syncagent.testing import FakeClock, Gate, call, say


@pytest.fixture
def runs():
    with make_runs() as made:
        yield made


# -- who may see which -------------------------------------------------------------


def test_nobody_may_without_being_told_who(caplog):
    """Issue 8: without authorize= everything is refused, with the reason."""
    with Runs() as runs:
        run = finished(runs, "Hello")
        with caplog.at_level(logging.ERROR, "syncagent.web"):
            for id in (run.id, "unknown"):
                with pytest.raises(Refused, match="authorize") as refused:
                    runs.get(id, ANNA)
                assert refused.value.status == 403
            with pytest.raises(Refused, match="authorize"):
                runs.list(ANNA)
    assert "authorize" in caplog.text


def test_foreign_and_unknown_are_the_same(runs):
    """Issue 8: the run of another owner looks like no run at all."""
    run = finished(runs, "Hello")
    assert runs.get(run.id, ANNA) is run
    said = []
    for id, user in ((run.id, "bert"), ("unknown", "bert"), ("unknown", ANNA)):
        with pytest.raises(Refused) as refused:
            runs.get(id, user)
        said.append((refused.value.status, refused.value.code, str(refused.value)))
    assert set(said) == {(404, "not_found", "There is no such run.")}


@pytest.mark.parametrize("answer", [None, 1, "yes", [1]])
def test_what_looks_like_a_yes_is_none(answer):
    """Only True grants access: a forgotten ``return`` or a string does not."""
    with make_runs(lambda request, run: answer) as runs:
        run = finished(runs, "Hello")
        with pytest.raises(Refused):
            runs.get(run.id, ANNA)


def test_the_list_has_what_one_may_see(runs):
    """A list has one's own runs, the newest first."""
    first, second = finished(runs, "Hello"), finished(runs, "Hello")
    finished(runs, "Hello", owner="bert")
    assert runs.list(ANNA) == [second, first]


def test_ids_cannot_be_guessed(runs):
    """Ids are random, of more than 128 bits, and appear in no log and no repr."""
    made = [finished(runs, "Hello") for _ in range(20)]
    ids = {run.id for run in made}
    assert len(ids) == 20
    assert all(len(id) >= 22 for id in ids)  # six bits each
    assert not any(run.id in repr(run) for run in made)
    assert not any(run.id == run.handle.run_id for run in made)


@pytest.mark.parametrize("owner", ["", None, True, 7.5, b"anna"])
def test_every_run_has_an_owner(runs, owner):
    """A run without an owner does not start."""
    with pytest.raises(ConfigurationError, match="owner"):
        start(runs, "Hello", owner=owner)


@pytest.mark.parametrize(
    "settings",
    [
        {"authorize": "anna"},
        {"on_disconnect": "stop"},
        {"grace": -1},
        {"timeout": "10"},
        {"heartbeat": None},
        {"heartbeat": 0},
        {"keep": -1},
        {"max_live": 0},
        {"max_per_owner": True},
        {"max_followers": 0},
        {"max_followers_per_owner": 0},
        {"max_finished_per_owner": -1},
        {"slow_seconds": 0},
    ],
)
def test_settings_without_sense(settings):
    """Invalid settings are refused at once."""
    with pytest.raises(ConfigurationError):
        Runs(**settings)


# -- how many ----------------------------------------------------------------------


def test_reasons_are_short():
    """Reasons, which every list of runs shows, have a maximum length."""
    wanted = decode_body(b'{"reason": "' + b"x" * 1024 + b'"}', CancelRequest)
    assert len(wanted.reason) == 1024
    with pytest.raises(Refused, match="reason is longer than 1024") as refused:
        decode_body(b'{"reason": "' + b"x" * 1025 + b'"}', CancelRequest)
    assert refused.value.status == 422


def test_too_many():
    """There is a limit in total and one per owner; an ended run makes room."""
    with make_runs(max_live=3, max_per_owner=2) as runs:
        mine = [silent(runs), silent(runs)]
        with pytest.raises(Refused) as refused:
            start(runs, "Hello")
        assert (refused.value.status, refused.value.code) == (429, "too_many_runs")
        silent(runs, owner="bert")
        with pytest.raises(Refused):
            start(runs, "Hello", owner="carl")
        runs.cancel(mine[0]).wait(LONG)
        assert mine[0].handle.join(LONG)
        assert finished(runs, "Hello")


def test_too_many_at_the_same_moment():
    """However many runs start at once, the limit holds."""
    many = 16
    agents = [agent_of(Gate(), "never") for _ in range(many)]
    together = threading.Barrier(many)
    begun = []

    def begin(agent):
        together.wait(LONG)
        with suppress(Refused):
            begun.append(runs.start(agent, "Go on.", owner=ANNA))

    with make_runs(max_per_owner=2) as runs:
        threads = [threading.Thread(target=begin, args=(one,)) for one in agents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        assert len(begun) == 2
        assert all(run.is_live for run in begun)


def test_what_did_not_begin_takes_no_place():
    """A run that failed to start does not count."""
    with make_runs(max_per_owner=1) as runs:
        for _ in range(3):
            with pytest.raises(ConfigurationError):
                runs.start(agent_of("Hello"), "Go on.", owner=ANNA, timeout="soon")
        finished(runs, "Hello")


def test_finished_runs_leave():
    """Only the newest finished runs are kept."""
    with make_runs(max_finished=3) as runs:
        made = [finished(runs, "Hello") for _ in range(8)]
        assert runs.list(ANNA) == made[:4:-1]
        live = silent(runs)
        assert live in runs.list(ANNA)


def test_finished_runs_of_other_owners_stay():
    """M8: an owner with many short runs displaces only runs of its own."""
    with make_runs(max_finished_per_owner=3) as runs:
        kept = [finished(runs, "Hello", owner="victim") for _ in range(3)]
        made = [finished(runs, "Hello", owner="mallory") for _ in range(20)]
        assert runs.list("mallory") == made[:-4:-1]
        assert runs.list("victim") == kept[::-1]


def test_the_defaults_keep_them():
    """M8: a hundred short runs of one owner displace none of another's."""
    with make_runs() as runs:
        kept = finished(runs, "Hello", owner="victim")
        for _ in range(101):
            finished(runs, "Hello", owner="mallory")
        assert runs.get(kept.id, "victim") is kept


def test_the_owners_with_the_most_runs_give_theirs_first():
    """M8: if there are too many in total, an owner with few keeps them."""
    with make_runs(max_finished=4) as runs:
        kept = finished(runs, "Hello", owner="victim")
        for owner in ("mallory", "eve") * 5:
            finished(runs, "Hello", owner=owner)
        assert runs.list("victim") == [kept]
        assert len(runs.list("mallory")) + len(runs.list("eve")) == 3


def test_keep_is_not_the_time_of_day():
    """L16: finished runs are kept by the monotonic clock."""
    with FakeClock() as clock, make_runs(keep=300) as runs:
        run = finished(runs, "Hello")
        until(lambda: run.ended_at is not None)
        run.ended_at -= 10_000  # the system's time was set forward
        assert runs.list(ANNA) == [run]
        clock.advance(301)
        assert runs.list(ANNA) == []


def test_finished_runs_leave_in_time():
    """Finished runs are kept for a limited time."""
    with make_runs(keep=0.0) as runs:
        run = finished(runs, "Hello")
        until(lambda: not runs.list(ANNA))
        with pytest.raises(Refused):
            runs.get(run.id, ANNA)


# -- using one ---------------------------------------------------------------------


def test_cancel(runs):
    """Promise 3: a cancel says whether it has hit a live run."""
    run = silent(runs)
    assert runs.cancel(run, CancelRequest("enough"))
    assert how_it_ended(run) == ("cancelled", "user")
    assert run.handle.result().cancellation.reason == "enough"
    assert run.handle.join(LONG)
    assert not runs.cancel(run)


@tool(requires_approval=True)
def launch(where: str) -> str:
    """Launch it."""
    return f"launched to {where}"


@pytest.mark.parametrize(
    ("answer", "outcome", "result"),
    [
        (AnswerBody(allow=True), "done", "launched to Mars"),
        (AnswerBody(allow=False, reason="no fuel"), "denied", "no fuel"),
        (
            AnswerBody(allow=True, arguments={"where": "Oslo"}),
            "done",
            "launched to Oslo",
        ),
        (AnswerBody(allow=True, remember="tool"), "done", "launched to Mars"),
    ],
)
def test_answers(runs, answer, outcome, result):
    """An approval is given, denied, changed, or remembered; and once."""
    asked = say(call("launch", {"where": "Mars"}))
    agent = agent_of(asked, asked, "Done.", tools=[launch])
    run = runs.start(agent, "Launch.", owner=ANNA)
    answered = 0
    while not run.handle.done():
        for asked in run.handle.interrupts:
            assert runs.answer(run, {asked.id: answer}).answers == {asked.id: "taken"}
            answered += 1
            again = runs.answer(run, {asked.id: answer})
            assert again.answers == {asked.id: "over"}
    outcomes = run.handle.result().tool_outcomes
    assert [one.outcome for one in outcomes] == [outcome, outcome]
    assert result in str(run.handle.result().messages)
    assert answered == (1 if answer.remember else 2)


def test_answers_without_sense(runs):
    """An invalid answer changes nothing: the question stays open."""
    agent = agent_of(say(call("launch", {"where": "Mars"})), "Done.", tools=[launch])
    run = runs.start(agent, "Launch.", owner=ANNA)
    until(lambda: run.handle.interrupts)
    (asked,) = run.handle.interrupts
    assert runs.answer(run, {"other": AnswerBody(allow=True)}).answers == {
        "other": "refused"
    }
    assert runs.answer(run, {asked.id: AnswerBody(text="yes")}).answers == {
        asked.id: "refused"
    }
    wrong = AnswerBody(allow=True, arguments={"where": 7})
    assert runs.answer(run, {asked.id: wrong}).answers == {asked.id: "refused"}
    assert [one.id for one in run.handle.interrupts] == [asked.id]


FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}


@tool
def book(ctx: ToolContext) -> str:
    """Ask with a form."""
    try:
        return f"booked for {ctx.ask('For whom?', form=FORM)['name']}"
    except Declined:
        return "declined"


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (AnswerBody(values={"name": "Ann"}), "booked for Ann"),
        (AnswerBody(text="Ann"), "booked for Ann"),
        (AnswerBody(allow=False), "declined"),
    ],
)
def test_a_form_is_answered(runs, answer, result):
    """Clients see the form; a wrong answer is refused, with a reason."""
    run = runs.start(
        agent_of(say(call("book")), "Done.", tools=[book]), "Go.", owner=ANNA
    )
    until(lambda: run.handle.interrupts)
    (asked,) = run.handle.interrupts
    (shown,) = json.loads(encode_body(run.view()))["interrupts"]
    assert shown["form"] == FORM
    wrong = runs.answer(run, {asked.id: AnswerBody(values={"name": 3})})
    assert wrong.answers == {asked.id: "refused"}
    assert wrong.messages == {asked.id: "'name' must be a text"}
    assert runs.answer(run, {asked.id: answer}).answers == {asked.id: "taken"}
    assert result in str(run.handle.result(LONG).messages)


def test_an_answer_does_not_show_its_credentials():
    """L16: error trackers show local variables."""
    answer = AnswerBody(credentials="hunter2", text="hunter2")
    shown = repr(answer) + repr({"a": answer}) + repr(list(answer.__rich_repr__()))
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    "answer",
    [
        AnswerBody(),
        AnswerBody(allow=True, text="yes"),
        AnswerBody(values={}, text="yes"),
        AnswerBody(text="yes", remember=True),
        AnswerBody(credentials="x", reason="why"),
    ],
)
def test_answers_are_one_thing(answer):
    """An answer is a decision, words or credentials, and exactly one of them."""
    with pytest.raises(Refused, match="exactly one"):
        answer.value()


def test_answers_as_values():
    """The JSON of an answer becomes the value that a handle takes."""
    assert AnswerBody(allow=False, reason="no").value() == Approval(False, reason="no")
    assert AnswerBody(text="").value() == ""
    assert AnswerBody(credentials=None).value() is None
    assert AnswerBody(credentials={"key": "k"}).value() == {"key": "k"}


# -- ending ------------------------------------------------------------------------


def test_closing(caplog):
    """All live runs end, with origin ``shutdown``, and no other begins."""
    runs = make_runs()
    made = [silent(runs) for _ in range(3)]
    runs.close()
    assert {how_it_ended(run)[1] for run in made} == {"shutdown"}
    with pytest.raises(Refused) as refused:
        start(runs, "Hello")
    assert refused.value.status == 503


def test_closing_all_of_a_process():
    """One call, safe in a signal handler, ends the runs of every ``Runs``."""
    several = [make_runs(), make_runs()]
    made = [silent(runs) for runs in several]
    assert close_all("SIGTERM") == 2
    assert {how_it_ended(run) for run in made} == {("cancelled", "shutdown")}
    for runs in several:
        runs.close()


def test_a_deadline():
    """Every run is cancelled after ``timeout``: a client may lose power unnoticed."""
    with make_runs(timeout=0.05) as runs:
        assert how_it_ended(silent(runs)) == ("cancelled", "deadline")


def test_busy_agents(runs):
    """A second run of the same agent is refused, with a public message."""
    agent = agent_of("one", "two")
    agent.start(keep_alive=True).close()
    with agent.stream("First.") as stream:
        next(iter(stream))
        with pytest.raises(Refused) as refused:
            runs.start(agent, "Second.", owner=ANNA)
    assert (refused.value.status, refused.value.code) == (409, "busy")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_begins_without_runs(runs):
    """Promise 9: a child has none of its parent's runs, ends none, and has its own."""
    run = silent(runs)

    def child():
        before = runs.list(ANNA)
        closed = make_runs().cancel_all()
        ended = how_it_ended(finished(runs, "Hello"))
        return [len(before), closed, ended]

    assert in_child(child) == [0, 0, ["end_turn", None]]
    assert run.is_live
    runs.cancel(run)
    assert how_it_ended(run) == ("cancelled", "user")
