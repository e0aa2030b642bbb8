"""Following a handle: any number, late or slow, and none that stops the run."""

import gc
import random
import threading
import weakref

import pytest
from support.agents import add, model
from support.handles import Flowing, never_used, silent_stream, switching_often
from support.threads import LONG, meanwhile, together, until

from syncagent import Agent, CancelToken, ConfigurationError, ToolContext, tool
from syncagent.background.subscriptions import EventLog, Subscription
from syncagent.events import Lagged, RunFinished, StateChanged, TextDelta, ToolProgress
from syncagent.testing import ScriptedModel, call, say


@tool
def tell(ctx: ToolContext) -> str:
    """Say how far it is."""
    for number in range(3):
        ctx.progress(number)
    return "told"


@tool(on_cancel="abandon")
def tell_elsewhere(ctx: ToolContext) -> str:
    """Say how far it is, on another thread."""
    for number in range(3):
        ctx.progress(number)
    return "told"


def script():
    """Return answers with calls of all kinds, the same each time."""
    return [
        say("Let me see.", call("add", {"a": 1, "b": 2}), call("tell")),
        say(call("tell_elsewhere"), call("unknown")),
        say("All is done."),
    ]


def make_agent():
    return Agent(ScriptedModel(script()), tools=[add, tell, tell_elsewhere])


def plain(events):
    """Return events without what differs from run to run."""
    return [RunFinished if isinstance(e, RunFinished) else e for e in events]


def numbers(log, count):
    """Publish so many events that can be told apart."""
    for number in range(log.count, log.count + count):
        log.publish(TextDelta(str(number)))


# -- what is seen ------------------------------------------------------------------


def test_a_handle_shows_what_a_stream_shows():
    """Nothing is lost, repeated or in another order; its own states stand around it."""
    with make_agent().stream("Do it.") as stream:
        expected = plain(stream)
    handle = make_agent().start("Do it.")
    early = handle.subscribe()
    handle.result(LONG)
    begin, end = StateChanged("processing"), StateChanged("done")
    assert plain(early) == [begin, *expected, end]
    assert plain(handle.subscribe()) == [begin, *expected, end]
    progress = [each for each in expected if isinstance(each, ToolProgress)]
    assert len(progress) == 6


def test_many_follow_at_their_own_pace_and_see_the_same():
    """Twenty who begin at different moments: each sees all, and all see the same."""
    handle = Agent(ScriptedModel("a" * 2000, piece=2)).start("Do it.", buffer=5000)
    seen = [[] for _ in range(20)]

    def follow(mine, number):
        pause = threading.Event()
        for event in handle.subscribe():
            mine.append(event)
            if len(mine) % 100 == number:
                pause.wait(0.0005)

    with switching_often():
        together(*[lambda n=n, m=m: follow(m, n) for n, m in enumerate(seen)])
    assert all(each == seen[0] for each in seen)
    assert len([e for e in seen[0] if isinstance(e, TextDelta)]) == 1000
    assert handle.done()


def test_a_late_one_may_leave_out_what_has_happened():
    """With replay=False it begins with what comes next."""
    scene = silent_stream(None)
    all_of_it, rest = scene.handle.subscribe(), scene.handle.subscribe(replay=False)
    assert rest.get(0) is None
    scene.let_go()
    seen, later = list(all_of_it), list(rest)
    assert seen[-len(later) :] == later
    assert len(later) < len(seen)
    scene.check_end()


def test_it_ends_when_the_handle_does_and_stays_so():
    """What came last is seen; get() then says nothing, and is_over says why."""
    handle = Agent(model("text")).start("Do it.")
    events = handle.subscribe()
    assert list(events)[-1] == StateChanged("done")
    assert events.is_over
    assert events.get(0) is None
    assert list(events) == []


def test_it_follows_a_kept_handle_from_run_to_run():
    """An idle handle has not ended, so neither has who follows it."""
    with Agent(model("one", "two")).start("One.", keep_alive=True) as handle:
        handle.wait(LONG)
        events = handle.subscribe()
        handle.send_input("Two.")
        handle.wait(LONG)
        handle.shutdown()
        seen = list(events)
    texts = [each.text for each in seen if isinstance(each, TextDelta)]
    assert texts == ["one", "two"]
    states = [each.state for each in seen if isinstance(each, StateChanged)]
    assert states == ["processing", "idle", "processing", "idle", "done"]


# -- too slow, too late ------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("count", range(12))
def test_a_late_one_is_told_exactly_what_it_has_missed(size, count):
    """Lagged with the right number, then all that is kept, in order."""
    log = EventLog(size)
    numbers(log, count)
    log.close()
    seen = list(Subscription(log, 0, CancelToken()))
    missed = max(0, count - size)
    kept = [TextDelta(str(number)) for number in range(missed, count)]
    assert seen == ([Lagged(missed)] if missed else []) + kept


def test_a_slow_one_is_told_each_time():
    """Who is overtaken in the middle is told then, and goes on with what is kept."""
    log = EventLog(3)
    events = Subscription(log, 0, CancelToken())
    numbers(log, 2)
    assert events.get(0) == TextDelta("0")
    numbers(log, 4)
    assert [events.get(0) for _ in range(4)] == [
        *(Lagged(2), TextDelta("3"), TextDelta("4"), TextDelta("5"))
    ]
    assert events.get(0) is None
    numbers(log, 30)
    assert (events.get(0), events.get(0)) == (Lagged(27), TextDelta("33"))
    assert not events.is_over


@pytest.mark.parametrize("size", [1, 2, 16])
def test_what_is_missed_and_what_is_seen_add_up(size):
    """Also for who is overtaken while reading: no gap, no repeat, all in order."""
    log, counts, total = EventLog(size), [], 4000

    def read():
        events, next_one = Subscription(log, 0, CancelToken()), 0
        for event in events:
            if isinstance(event, Lagged):
                assert event.missed > 0
                next_one += event.missed
            else:
                assert event == TextDelta(str(next_one))
                next_one += 1
        counts.append(next_one)

    def write():
        numbers(log, total)
        log.close()

    with switching_often():
        together(read, read, read, write)
    assert counts == [total] * 3


def test_a_slow_one_never_stops_the_run():
    """Nobody reads, and the run comes to its end with a buffer of one."""
    handle = Agent(ScriptedModel("x" * 3000, piece=1)).start("Do it.", buffer=1)
    events = handle.subscribe()
    assert handle.result(LONG).text == "x" * 3000
    handle.wait(LONG)
    until(handle.done)
    first, last = events
    assert last == StateChanged("done")
    assert first.missed > 3000


# -- ending one --------------------------------------------------------------------


def waits(handle):
    return len(handle.thread.events.watch.bells)


def enders(handle, events, token, event):
    """Return what ends a subscription while another thread waits in it."""
    return {
        "close": events.close,
        "token": token.cancel,
        "event": event.set,
        "signal": lambda: token.signal.set(),
        "done": handle.shutdown,
    }


@pytest.mark.parametrize("name", ["close", "token", "event", "signal", "done"])
def test_a_wait_in_it_ends_at_once(name):
    """Promise 2: by another thread, a token, an event, or with the handle."""
    scene = never_used(None)
    token, event = CancelToken(), threading.Event()
    given = {"event": event, "signal": token.signal}.get(name, token)
    events = scene.handle.subscribe(cancel=given)
    end = enders(scene.handle, events, token, event)[name]
    with meanwhile(lambda: (until(lambda: waits(scene.handle) == 1), end())):
        seen = list(events)
    assert seen == ([StateChanged("done")] if name == "done" else [])
    assert events.is_over
    assert events.get(LONG) is None
    assert scene.handle.done() == (name == "done")
    assert not waits(scene.handle)
    assert not event._cond._waiters
    scene.check_end()


def test_one_that_is_over_before_it_begins():
    """A token is cancelled, an event is set: nothing is seen, nothing waits."""
    handle = Agent(model("text")).start("Do it.")
    token, event = CancelToken(), threading.Event()
    token.cancel()
    event.set()
    for given in (token, event):
        assert list(handle.subscribe(cancel=given)) == []
    with pytest.raises(ConfigurationError, match="cancel takes"):
        handle.subscribe(cancel=3)
    assert handle.result(LONG).text == "text"


def test_closing_one_leaves_the_others_alone():
    """Promise 9: a block closes its own, and whoever else follows sees all."""
    talker = Flowing()
    agent = Agent(talker)
    handle = agent.start("Do it.")
    other = handle.subscribe()
    with handle.subscribe() as mine:
        next(mine)
    assert list(mine) == []
    talker.is_enough.set()
    assert list(other)[-1] == StateChanged("done")


def test_a_wait_has_a_bound():
    """get() with a timeout says nothing when there is nothing, and is not over."""
    scene = never_used(None)
    events = scene.handle.subscribe()
    assert events.get(0) is None
    assert events.get(0.01) is None
    assert not events.is_over
    scene.handle.shutdown()
    assert events.get(LONG) == StateChanged("done")
    assert events.get(LONG) is None
    assert events.is_over
    scene.check_end()


# -- what is left ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["dropped", "closed", "read to its end"])
@pytest.mark.parametrize("kind", [threading.Event, CancelToken])
def test_a_subscription_leaves_nothing(how, kind):
    """Promise 7: nothing on the handle, nor on an event or token that lives on."""
    scene, given = silent_stream(None), kind()
    for _ in range(50):
        events = scene.handle.subscribe(cancel=given)
        events.get(0)
        if how == "closed":
            events.close()
        elif how == "read to its end":
            while events.get(0) is not None:
                pass
        ref = weakref.ref(events)
        del events
        assert ref() is None, "it is in a circle"
    if kind is CancelToken:
        given.child()  # which is when it looks for those that are gone
        assert len(given._current().links) <= 1
    else:
        assert not given._cond._waiters
    assert not waits(scene.handle)
    scene.let_go()
    scene.check_end()


def test_a_handle_that_nobody_has_any_more_is_gone_when_it_is_done():
    """Also if somebody still follows it, who then sees the rest."""
    scene = silent_stream(None)
    ref, events = weakref.ref(scene.handle), scene.handle.subscribe()
    gate = scene.let_go
    scene.handle.add_done_callback(lambda handle: None)
    del scene
    gate()
    assert list(events)[-1] == StateChanged("done")
    until(lambda: gc.collect() is not None and ref() is None)


def test_subscriptions_come_and_go_while_events_are_published():
    """Nothing but the events is seen, whatever others do at the same time."""
    log, is_over = EventLog(64), threading.Event()

    def come_and_go(seed):
        chance = random.Random(seed)
        while not is_over.is_set():
            events = Subscription(log, log.count, CancelToken(timeout=0.001))
            begin, seen = events._next, 0
            while seen < chance.randrange(5):
                event = events.get(0.001)
                if event is None or isinstance(event, Lagged):
                    break
                assert event == TextDelta(str(begin + seen))
                seen += 1
            if chance.random() < 0.5:
                events.close()

    def write():
        for _ in range(300):
            numbers(log, 10)
        is_over.set()

    with switching_often():
        together(*[lambda seed=seed: come_and_go(seed) for seed in range(4)], write)
    assert not log.watch.bells


# -- coming back -------------------------------------------------------------------


def test_going_on_from_a_position():
    """Whoever comes back with his position gets the rest, exactly."""
    handle = make_agent().start("Begin.")
    handle.result(LONG)
    assert handle.join(LONG)
    whole = list(handle.subscribe())
    assert handle.event_count == len(whole)
    for seen in range(len(whole) + 1):
        again = handle.subscribe(after=seen)
        assert again.position == seen
        assert list(again) == whole[seen:]
    assert list(handle.subscribe(after=len(whole) + 7)) == []


@pytest.mark.parametrize("after", [-1, 1.0, True, "3"])
def test_positions_without_sense(after):
    """What is no number of events is refused at once."""
    with make_agent().start() as handle:
        with pytest.raises(
            ConfigurationError, match="non-negative whole number of events"
        ):
            handle.subscribe(after=after)


def test_what_a_run_has_raised():
    """A handle says what its last run has raised, if it did."""
    trouble = ValueError("no")
    handle = Agent(model(trouble)).start("Begin.")
    assert handle.join(LONG)
    assert handle.error is trouble
    handle = make_agent().start("Begin.")
    assert handle.join(LONG)
    assert handle.error is None
