"""How stored runs end without a word of the model: timeouts, retention, no agent."""

import threading

import pytest
from support.store_work import (
    adder,
    by_hand,
    check_done,
    effects,
    log_of,
    make_agent,
    submit,
)
from support.threads import LONG, meanwhile, until

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import NoSuchRun
from syncagent.hooks import Change
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, complaints, say


def asking_agent(run, seconds=None):
    """Return an agent whose question times out."""

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    return Agent(
        ScriptedModel([say(call("pay")), "All done."]),
        tools=[pay],
        answer_timeout=seconds,
    )


@pytest.mark.slow
def test_a_question_that_no_one_answers(url):
    """A sweep of any process answers that the time is over, and the run goes on."""

    def make(run):
        if run.attempt > 1:
            return Agent(
                ScriptedModel("It was not paid."),
                tools=[tool(lambda: "paid", name="pay", requires_approval=True)],
            )
        return asking_agent(run, 0.2)

    with RunStore(url, make, lease=0.6) as store:
        id = store.submit("Go.")
        until(lambda: not store.get(id).is_live)
        run = store.get(id)
        (outcome,) = run.result.tool_outcomes
        assert (run.state, outcome.outcome) == ("done", "not_started")
        assert outcome.timed_out
        assert run.result.text == "It was not paid."


def test_a_late_answer_is_over(url):
    """An answer after the end changes nothing."""
    with by_hand(url, asking_agent) as store:
        id = store.submit("Go.")
        (question,) = store.work(id).interrupts
        store.cancel(id)
        assert store.answer(id, {question.id: True}) == {question.id: "over"}
        assert complaints(store.get(id).result.messages) == {}


def test_make_agent_raises(url):
    """The run has failed at once, with the error."""

    def make(run):
        raise LookupError("no such agent")

    with RunStore(url, make) as store:
        id = store.submit("Go.", agent="missing")
        until(lambda: not store.get(id).is_live)
        run = store.get(id)
        assert (run.state, run.attempt, run.crashes) == ("failed", 1, 0)
        assert (run.error.type, run.error.message) == ("LookupError", "no such agent")
        names = [type(event).__name__ for event in log_of(store, run)]
        assert names == ["StateChanged"]
        assert not store.cancel(id)


def test_make_agent_returns_something_else(url):
    """The same, and the error says what it should return."""
    with RunStore(url, lambda run: "agent") as store:
        id = store.submit("Go.")
        until(lambda: not store.get(id).is_live)
        assert "must return an Agent" in store.get(id).error.message


def test_a_state_that_cannot_be_stored(url):
    """A hook puts an object into arguments: the run fails once, and not for ever."""

    class Odd:
        def before_tool(self, seen):
            return Change({"what": object()})

    def make(run):
        @tool
        def act(what: object) -> str:
            """Act."""
            return "acted"

        model = ScriptedModel([say(call("act", {"what": 1})), "All done."])
        return Agent(model, tools=[act], hooks=[Odd()])

    with by_hand(url, make) as store:
        id = store.submit("Go.")
        store.work(id)
        run = store.get(id)
        assert (run.state, run.error.type) == ("failed", "ConfigurationError")
        assert "is not JSON" in run.error.message


def test_a_model_that_fails(url):
    """The run has failed, with its error and its last event."""

    def make(run):
        return Agent(ScriptedModel([ValueError("out of order")]))

    with by_hand(url, make) as store:
        id = store.submit("Go.")
        assert store.work(id) is None
        run = store.get(id)
        assert (run.state, run.error.message) == ("failed", "out of order")
        assert log_of(store, run)[-1].state == "failed"


@pytest.mark.slow
def test_the_timeout_counts_only_work(url, tmp_path):
    """Time in which a run waits for an answer or for a worker does not count."""
    with by_hand(url, make_agent) as store:
        labels = {"kind": "approved", "effects": str(tmp_path / "effects")}
        id = store.submit("Go.", labels=labels, timeout=0.5)
        threading.Event().wait(0.6)
        (question,) = store.work(id).interrupts
        threading.Event().wait(0.6)
        store.answer(id, {question.id: True})
        threading.Event().wait(0.6)
        store.work(id)
        check_done(store, id)


@pytest.mark.slow
def test_the_timeout_of_work(url):
    """It ends the run, over all its workers together."""

    def make(run):
        @tool(idempotent=True)
        def work(ctx: ToolContext) -> str:
            """Work until the end."""
            ctx.token.wait(LONG)
            ctx.checkpoint()
            return "worked"

        return Agent(ScriptedModel([say(call("work"))]), tools=[work])

    with by_hand(url, make) as store:
        id = store.submit("Go.", timeout=0.3)
        store.work(id)
        run = store.get(id)
        assert (run.state, run.cancel.origin) == ("cancelled", "deadline")
        id = store.submit("Go.", timeout=0.3)
        store.backend.single(
            "UPDATE syncagent_run SET seconds_left = 0 WHERE id = ?", id
        )
        store.work(id)
        run = store.get(id)
        assert (run.state, run.cancel.origin) == ("cancelled", "deadline")


def test_retention(url, tmp_path):
    """Events go first, then runs; live ones stay."""
    with by_hand(url, make_agent) as store:
        old, live = (submit(store, "plain", tmp_path) for _ in range(2))
        store.work(old)
        assert store.backend.prune(1000.0, 1000.0, 100) == 0
        store.backend.prune(-1.0, 1000.0, 100)
        with store.events(old) as events:
            (lagged,) = events
        assert lagged.missed == store.get(old).events
        store.backend.prune(-1.0, -1.0, 100)
        assert store.get(old) is None
        assert store.get(live).state == "queued"


@pytest.mark.slow
def test_forgotten_while_it_is_live(url):
    """It ends where it runs, soon, and nothing of it is left."""
    started, ended = threading.Event(), threading.Event()

    def make(run):
        @tool
        def work(ctx: ToolContext) -> str:
            """Work until the end."""
            started.set()
            ctx.token.wait(LONG)
            ended.set()
            return "worked"

        return Agent(ScriptedModel([say(call("work")), "Done."]), tools=[work])

    with by_hand(url, make, lease=60.0) as store, adder(url) as other:
        id = store.submit("Go.", owner="anna")
        store.submit("Go.", owner="ben")
        with meanwhile(lambda: store.work(id)):
            assert started.wait(LONG)
            assert other.forget("anna") == 1
            assert ended.wait(5.0), "it went on"
        assert store.get(id) is None
        with pytest.raises(NoSuchRun):
            store.cancel(id)
        assert [run.owner for run in store.list()] == ["ben"]


def test_forgotten_before_a_thread_begins_it(url, caplog):
    """There is nothing to do, and nothing to complain about."""
    with RunStore(url, make_agent) as store:
        store._deliveries.deliver("forgotten" * 5)
        until(lambda: store._deliveries.room == store._settings.max_workers)
    assert caplog.text == ""


@pytest.mark.slow
def test_followed_from_a_process_that_never_works(url, tmp_path):
    """A run that ends without followers lives as long as any process follows it."""
    started = threading.Event()

    def make(run):
        @tool
        def work(ctx: ToolContext) -> str:
            """Work until the end."""
            started.set()
            ctx.token.wait(LONG)
            return "worked"

        return Agent(ScriptedModel([say(call("work")), "Done."]), tools=[work])

    with RunStore(url, make, lease=0.5) as store, RunStore(url, lease=0.5) as watcher:
        id = store.submit("Go.", unfollowed_seconds=0.6)
        assert started.wait(LONG)
        with watcher.events(id) as events:
            threading.Event().wait(1.8)
            assert store.get(id).cancel is None
            assert not events.is_over
        until(lambda: not store.get(id).is_live)
        assert store.get(id).cancel.origin == "disconnect"


def test_effects_of_a_cancelled_run(url, tmp_path):
    """A run that is cancelled before it begins has none."""
    with by_hand(url, make_agent) as store:
        id = submit(store, "plain", tmp_path)
        assert store.cancel(id).first
        assert store.work(id) is None
        run = store.get(id)
        assert (run.state, effects(run)) == ("cancelled", [])
        names = [type(event).__name__ for event in log_of(store, run)]
        assert names == ["RunFinished", "StateChanged"]
