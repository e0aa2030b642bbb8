"""A limiter: one refusal makes all threads wait, in order, and none of them fails."""

import gc
import itertools
import json
import os
import random
import signal
import threading
import time

import pytest
from support.agents import add, check_usable
from support.processes import in_child
from support.raw_server import RawServer
from support.threads import LONG, meanwhile, together, until

from syncagent import Agent, CancelToken, Fallback, Limiter, Limits, run_many
from syncagent.exceptions import (
    Cancelled,
    ConfigurationError,
    ProviderUnavailable,
    RateLimited,
)
from syncagent.models import OpenAIChat, find_model
from syncagent.testing import (
    FakeClock,
    FakeServer,
    Gate,
    ScriptedModel,
    Status,
    call,
    cancel_everywhere,
    no_leaks,
    say,
)
from syncagent.timeline import read_timeline
from syncagent.timeline.drawing import look_of
from syncagent.transport import Timeouts, close_idle


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


def refused(seconds=0.005):
    """Return a refusal that asks to wait."""
    return RateLimited("slow down", status=429, retry_after=seconds, retryable=True)


def refusing_once(limiter, *, seconds=0.005):
    """Return a model that refuses the first request of each conversation."""
    refusals = set()

    def respond(messages):
        key = len(messages)
        if key not in refusals:
            refusals.add(key)
            return refused(seconds)
        return "ok"

    return ScriptedModel(respond, limiter=limiter)


def over_a_socket(server, limiter, **settings):
    return OpenAIChat(
        "fake", base_url=server.base_url, api_key="k", limiter=limiter, **settings
    )


class Door:
    """A held request: the only one that a ``Limiter(concurrent=1)`` lets pass."""

    def __init__(self, limiter):
        self.gate = Gate()
        self._model = ScriptedModel([self.gate, "held"], limiter=limiter)

    def __enter__(self):
        self._thread = threading.Thread(target=Agent(self._model).run, args=("hold",))
        self._thread.start()
        self.gate.wait_reached()
        return self

    def __exit__(self, *_):
        self.gate.open()
        self._thread.join(LONG)


# -- the storm -------------------------------------------------------------------------


class Provider:
    """A server with a rate: what is above it gets 429, and how long to wait."""

    def __init__(self, count, seconds, *, is_window):
        self._count, self._seconds, self._is_window = count, seconds, is_window
        self._level, self._at = float(count), time.monotonic()
        self._lock = threading.Lock()

    def __call__(self, request):
        with self._lock:
            now = time.monotonic()
            passed, rate = now - self._at, self._count / self._seconds
            if self._is_window:
                if passed >= self._seconds:
                    self._level, self._at = float(self._count), now
                left = self._at + self._seconds - now
            else:
                self._level = min(self._count, self._level + passed * rate)
                self._at, left = now, (1 - self._level) / rate
            if self._level >= 1:
                self._level -= 1
                return say("Hello.")
        wait = {"retry-after-ms": f"{int(left * 1000) + 1}"}
        return say("no", acts=[Status(429, "Rate limit reached", wait)])


PROVIDERS = {
    "bucket": lambda: Provider(12, 0.12, is_window=False),
    "window": lambda: Provider(12, 0.15, is_window=True),
}


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_storm_of_fifty_threads(kind, record_property):
    """50 threads at once, a quarter of which the provider takes: nobody fails.

    At most 1.1 times the requests that are needed.
    """
    limiter, needed = Limiter(), 200
    with FakeServer(PROVIDERS[kind]()) as server:
        model = over_a_socket(server, limiter)

        def work():
            for _ in range(needed // 50):
                assert Agent(model).run("hi").text == "Hello."

        together(*[work] * 50, timeout=60)
        sent = len(server.requests)
    record_property("requests", sent)
    print(f"{sent} requests for {needed} runs: {sent / needed:.3f}x")
    assert needed < sent <= 1.1 * needed
    assert limiter.waiting == 0


def test_without_a_limiter_the_storm_ends_runs():
    """The server of the test above does refuse."""
    with FakeServer(PROVIDERS["window"]()) as server:
        model = over_a_socket(server, None, retries=1)
        batch = run_many(Agent(model), ["hi"] * 100, width=50)
        assert any(outcome.exception() for outcome in batch)


@pytest.mark.slow
def test_a_provider_that_refuses_at_random_is_not_taken_for_a_slow_one():
    """It refuses three of four, whatever the rate: nobody fails, or waits for long."""
    numbers, runs = itertools.count(1), 24

    def script(request):
        if next(numbers) % 4 == 0:
            return say("Hello.")
        return say("", acts=[Status(429, "slow", {"retry-after-ms": "10"})])

    with FakeServer(script) as server:
        model = over_a_socket(server, Limiter())
        batch = run_many(Agent(model), ["hi"] * runs, width=runs)
        assert all(outcome.result().text == "Hello." for outcome in batch)
        assert len(server.requests) == 4 * runs


# -- refusals --------------------------------------------------------------------------


@pytest.mark.parametrize("is_streamed", [True, False])
def test_one_refusal_makes_all_wait(is_streamed):
    """While the lane is closed, nobody sends a request to find that out."""
    refusals = itertools.count()
    times = []

    def respond(request):
        times.append(time.monotonic())
        if next(refusals) == 0:
            return say("no", acts=[Status(429, "no", {"retry-after-ms": "300"})])
        return say("Hello.")

    limiter = Limiter()
    with FakeServer(respond) as server:
        model = over_a_socket(server, limiter, stream=is_streamed, retries=0)
        batch = run_many(Agent(model), ["hi"] * 20, width=20)
        assert [outcome.result().text for outcome in batch] == ["Hello."] * 20
    # Some were on their way before the refusal was known, but not 20.
    assert sum(each < times[0] + 0.3 for each in times) <= 5


def test_refusals_do_not_count_as_retries():
    """A request that is refused ten times, with retries=0, succeeds."""
    refusals = iter([refused(0.001)] * 10)
    model = ScriptedModel(lambda messages: next(refusals, "ok"), limiter=Limiter())
    assert Agent(model).run("hi").text == "ok"
    with FakeServer(
        [*[say("", acts=[Status(429, "no", {"retry-after-ms": "1"})])] * 5, "ok"]
    ) as server:
        model = over_a_socket(server, Limiter(), retries=0)
        assert Agent(model).run("hi").text == "ok"


def test_other_errors_count_as_they_did():
    """Only refusals wait at the limiter; a server that is down fails the run."""
    down = say("", acts=[Status(503, "down", {"retry-after-ms": "1"})])
    with FakeServer([down] * 3) as server:
        model = over_a_socket(server, Limiter(), retries=2)
        with pytest.raises(ProviderUnavailable):
            Agent(model).run("hi")
        assert len(server.requests) == 3


def test_a_final_refusal_fails_at_once():
    """An account without money is no reason to wait."""
    body = '{"error": {"code": "insufficient_quota"}}'
    error = RateLimited("no money", status=429, body=body, retryable=False)
    model = ScriptedModel([error], limiter=Limiter())
    with pytest.raises(RateLimited, match="no money"):
        Agent(model).run("hi")


class RefusingInside(RawServer):
    """A server that refuses its first two requests inside of a response."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def respond(self, handler, body):
        """Return status 200 each time."""
        self.count += 1
        if self.count <= 2:
            event = {"error": {"type": "rate_limit_error", "message": "slow down"}}
        else:
            choice = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}
            event = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
        text = f"data: {json.dumps(event)}\n\n"
        text += "data: [DONE]\n\n" * (self.count > 2)
        return 200, {"Content-Type": "text/event-stream"}, text.encode()


def test_an_error_inside_of_a_response_counts_too():
    """Some providers refuse with status 200, in the first event."""
    with RefusingInside() as server:
        model = OpenAIChat(
            "fake", base_url=server.url, api_key="k", retries=0, limiter=Limiter()
        )
        assert model.respond("hi").message.text == "ok"
        assert server.count == 3


def test_recordings_and_timelines_show_the_wait(tmp_path):
    """In its own phase, and in the look of a wait."""
    path = tmp_path / "run.jsonl"
    model = refusing_once(Limiter())
    assert Agent(model).run("hi", record=path).text == "ok"
    assert '"limiter"' in path.read_text()
    rows = read_timeline(path).rows
    looks = {each.name: look_of(row, each) for row in rows for each in row.segments}
    assert looks["limiter"] == "wait"


def test_patience_ends_the_wait_for_a_refusal_that_lasts():
    """What asks to wait for longer fails at once, and so do others: nothing is sent."""
    model = ScriptedModel([refused(3600), "never"], limiter=Limiter(patience=60))
    with pytest.raises(RateLimited, match="slow down"):
        Agent(model).run("hi")
    with pytest.raises(RateLimited, match="patience is 60 s") as caught:
        Agent(model).run("hi")
    assert caught.value.retry_after > 3500
    assert len(model.requests) == 1


def test_patience_ends_endless_refusals():
    """A provider that refuses everything for longer than that fails the request."""
    model = ScriptedModel(lambda messages: refused(20), limiter=Limiter(patience=60))
    with FakeClock() as clock:

        def pass_time():
            while len(model.requests) < 20 and not done.is_set():
                clock.advance(1)
                done.wait(0.002)

        done = threading.Event()
        with meanwhile(pass_time):
            try:
                with pytest.raises(RateLimited):
                    Agent(model).run("hi")
            finally:
                done.set()
    assert 3 <= len(model.requests) <= 6


def test_a_fallback_waits_no_longer_than_the_patience():
    """Then the next model is asked; each model has limits of its own."""
    limiter = Limiter(patience=1)
    busy, other = ScriptedModel([refused(30)]), ScriptedModel(["ok"])
    other.name = "other"
    model = Fallback(busy, other).limited_by(limiter)
    result = Agent(model).run("hi")
    assert result.text == "ok"
    assert [each.limiter for each in model.models] == [limiter] * 2
    assert busy.limiter is None


# -- fixed limits ----------------------------------------------------------------------


def test_requests_start_in_order_at_the_fixed_rate():
    """Two a minute: the third waits a minute, and nobody overtakes."""
    limiter = Limiter(requests_per_minute=2)
    order = []

    def respond(messages):
        order.append(messages[-1].content[0].text)
        return "ok"

    model = ScriptedModel(respond, limiter=limiter)
    threads = []
    with FakeClock() as clock:
        for number in range(5):
            thread = threading.Thread(target=Agent(model).run, args=(f"{number}",))
            thread.start()
            threads.append(thread)
            until(lambda n=number: len(order) + limiter.waiting == n + 1)
        assert (order, limiter.waiting) == (["0", "1"], 3)
        clock.wait_for_sleepers()
        clock.advance(59)
        assert order == ["0", "1"]
        clock.advance(1.5)
        until(lambda: len(order) == 4)
        clock.wait_for_sleepers()
        clock.advance(61)
        until(lambda: len(order) == 5)
        for thread in threads:
            thread.join(LONG)
    assert order == ["0", "1", "2", "3", "4"]


def test_tokens_are_corrected_when_they_are_known():
    """An estimate of 5,000 that became 15 leaves room for the next request."""
    limiter = Limiter(tokens_per_minute=6000)
    model = ScriptedModel(["one", "two"], limiter=limiter)
    agent = Agent(model)
    assert agent.run("hi", options={"max_tokens": 5000}).text == "one"
    assert agent.run("hi", options={"max_tokens": 5000}).text == "two"


def test_a_request_larger_than_the_limit_goes_alone():
    """It does not wait for ever, and nobody who comes later starves it."""
    model = ScriptedModel(["one"], limiter=Limiter(tokens_per_minute=10))
    assert Agent(model).run("hi", options={"max_tokens": 5000}).text == "one"


def test_concurrent_requests_are_limited():
    """200 threads, 7 at a time."""
    limiter, live, most = Limiter(concurrent=7), [], []

    def respond(messages):
        live.append(None)
        most.append(len(live))
        live.pop()
        return "ok"

    model = ScriptedModel(respond, limiter=limiter)
    with no_leaks():
        together(*[lambda: Agent(model).run("hi")] * 200, timeout=60)
    assert len(most) == 200
    assert max(most) <= 7
    assert limiter.waiting == 0


def test_a_request_inside_of_a_stream_does_not_wait_for_it():
    """The thread would wait for itself."""
    model = ScriptedModel(lambda messages: "some words", limiter=Limiter(concurrent=1))
    for event in Agent(model).stream("hi"):
        if type(event).__name__ == "TextDelta":
            assert Agent(model).run("inside").text == "some words"


# -- stopping --------------------------------------------------------------------------


def waiting_agent(limiter, **settings):
    return Agent(ScriptedModel(lambda messages: "ok", limiter=limiter), **settings)


def test_a_cancel_ends_the_wait():
    """Promises 2, 3 and 8: at once, with the phase, and the agent goes on after it."""
    limiter = Limiter(concurrent=1)
    with Door(limiter):
        agent, receipts = waiting_agent(limiter), []

        def stop():
            until(lambda: limiter.waiting)
            receipts.append(agent.cancel("enough"))

        with meanwhile(stop):
            result = agent.run("hi")
        assert (result.cancelled, result.cancellation.phase) == (True, "limiter")
        assert receipts[0]
        assert receipts[0].phase == "limiter"
        assert result.cancellation.latency < 1
        assert result.usage.total_tokens == 0
        assert limiter.waiting == 0
    check_usable(agent)


def test_a_cancelled_run_gives_its_place_to_the_next():
    """The first in line leaves, and the second goes as soon as it can."""
    limiter = Limiter(concurrent=1)
    first, second = waiting_agent(limiter), waiting_agent(limiter)
    results = {}

    def run(name, agent):
        results[name] = agent.run("hi")

    with Door(limiter) as door:
        threads = []
        for number, each in enumerate([("first", first), ("second", second)], 1):
            threads.append(threading.Thread(target=run, args=each))
            threads[-1].start()
            until(lambda n=number: limiter.waiting == n)
        first.cancel()
        until(lambda: "first" in results)
        assert "second" not in results
        door.gate.open()
        for thread in threads:
            thread.join(LONG)
    assert results["first"].cancelled
    assert results["second"].text == "ok"


def test_a_deadline_counts_the_wait():
    """``seconds`` and ``timeout`` are those of the run, whatever it waits for."""
    limiter = Limiter(concurrent=1)
    with Door(limiter):
        for agent, settings in (
            (waiting_agent(limiter, limits=Limits(seconds=0.02)), {}),
            (waiting_agent(limiter), {"timeout": 0.02}),
        ):
            result = agent.run("hi", **settings)
            cancellation = result.cancellation
            assert (cancellation.origin, cancellation.phase) == ("deadline", "limiter")


def test_the_wait_is_no_part_of_the_total_timeout():
    """A request that waited for an hour has all its time left."""
    wait = {"retry-after": "100"}
    script = [say("", acts=[Status(429, "no", wait)]), "ok"]
    with FakeServer(script) as server, FakeClock() as clock:
        model = over_a_socket(server, Limiter(), timeout=Timeouts(total=50))
        limiter = model.limiter

        def pass_time():
            until(lambda: limiter.waiting)
            clock.wait_for_sleepers()
            clock.advance(120)

        with meanwhile(pass_time):
            assert model.respond("hi").message.text == "ok"


@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_cancel_everywhere_on_the_way_through_a_limiter(way):
    """Promises 1 to 8 at each point, the wait among them."""

    def make():
        refusals = iter([refused()])

        def respond(messages):
            last = type(messages[-1]).__name__
            answer = (
                "done" if last == "ToolMessage" else say(call("add", {"a": 1, "b": 2}))
            )
            return next(refusals, answer)

        limiter = Limiter(requests_per_minute=100, concurrent=1)
        return Agent(ScriptedModel(respond, limiter=limiter), tools=[add])

    swept = cancel_everywhere(make, "Add.", way=way)
    if way != "meanwhile":
        assert "limiter" in swept.phases


def test_a_signal_handler_cancels_the_wait():
    """Promise 1: on the very thread that waits."""
    limiter = Limiter(concurrent=1)
    agent = waiting_agent(limiter)
    before = signal.signal(signal.SIGUSR1, lambda *_: agent.cancel("signal"))
    try:
        with Door(limiter):

            def send():
                until(lambda: limiter.waiting)
                os.kill(os.getpid(), signal.SIGUSR1)

            with meanwhile(send):
                result = agent.run("hi")
            assert (result.cancellation.phase, limiter.waiting) == ("limiter", 0)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_that_raises_leaves_no_place():
    """Promise 7: what the handler raises comes out, and the next one goes."""
    limiter = Limiter(concurrent=1)

    def handler(*_):
        raise TimeoutError("watchdog")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with Door(limiter):

            def send():
                until(lambda: limiter.waiting)
                os.kill(os.getpid(), signal.SIGUSR1)

            with meanwhile(send), pytest.raises(TimeoutError, match="watchdog"):
                waiting_agent(limiter).run("hi")
            assert limiter.waiting == 0
        assert waiting_agent(limiter).run("hi").text == "ok"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_two_hundred_threads_are_cancelled_at_once():
    """All of them wait; one token ends them all, and nothing starts."""
    limiter, token = Limiter(concurrent=1), CancelToken()
    results = []
    with no_leaks(), Door(limiter):

        def run():
            results.append(waiting_agent(limiter).run("hi", cancel=token))

        threads = [threading.Thread(target=run) for _ in range(200)]
        for thread in threads:
            thread.start()
        until(lambda: limiter.waiting == 200)
        token.cancel("all")
        for thread in threads:
            thread.join(LONG)
        assert len(results) == 200
        assert {result.cancellation.phase for result in results} == {"limiter"}
        assert limiter.waiting == 0


@pytest.mark.parametrize("kind", PROVIDERS)
def test_cancels_at_random_moments_of_a_storm(kind):
    """Promises 7 and 9: whoever is cancelled leaves no place, and disturbs nobody."""
    limiter = Limiter(concurrent=20)
    ends = []
    with FakeServer(PROVIDERS[kind]()) as server:
        model = over_a_socket(server, limiter)

        def work(seed):
            randomly = random.Random(seed)
            for number in range(4):
                seconds = randomly.choice([0, 0.001, 0.01, 0.1]) * randomly.random()
                timeout = None if number == 3 else seconds
                ends.append(Agent(model).run("hi", timeout=timeout).stop_reason)

        together(*[lambda n=n: work(n) for n in range(40)], timeout=60)
    assert len(ends) == 160
    assert ends.count("end_turn") >= 40
    assert set(ends) <= {"end_turn", "cancelled"}
    (lane,) = limiter._lanes.values()
    assert (lane.places, lane.pending, lane._trusted, lane._active) == ({}, {}, {}, {})


def test_a_dropped_response_gives_its_place_back():
    """A stream that nobody closes is freed, and its slot with it."""
    limiter = Limiter(concurrent=1)
    model = ScriptedModel(lambda messages: "many words here", limiter=limiter)
    response = model.ask("hi")
    next(response)
    del response
    gc.collect()
    together(lambda: model.respond("again"))


def test_a_request_outside_of_a_run_is_cancelled_by_its_token():
    """``Model.ask`` has no run, and the same wait."""
    limiter, token = Limiter(concurrent=1), CancelToken(0.02)
    with Door(limiter), pytest.raises(Cancelled):
        ScriptedModel(["never"], limiter=limiter).respond("hi", token=token)


def test_a_forked_child_starts_with_an_empty_limiter():
    """Promise 9: the parent's requests are not the child's."""
    limiter = Limiter(concurrent=1)
    with Door(limiter):
        assert in_child(lambda: waiting_agent(limiter).run("hi").text) == "ok"


# -- giving it -------------------------------------------------------------------------


def test_it_is_given_to_a_model_an_agent_a_run_or_a_batch():
    """The narrower one counts."""
    limiter, other = Limiter(), Limiter()
    model = ScriptedModel(lambda messages: "ok", limiter=other)
    assert model.limiter is other
    assert Agent(model, limiter=limiter).model.limiter is limiter
    assert Agent(model).model is model
    found = find_model("openai:gpt-6-luna", api_key="k", limiter=limiter)
    assert found.limiter is limiter
    fixed = Limiter(requests_per_minute=1)
    agent = Agent(model)
    assert agent.run("hi", limiter=fixed).text == "ok"
    assert agent.run("hi", limiter=fixed, timeout=0.02).cancelled
    assert agent.run("hi").text == "ok"
    batch = run_many(
        agent,
        ["a", "b"],
        limiter=Limiter(requests_per_minute=1),
        cancel=CancelToken(0.1),
    )
    assert sorted(outcome.result().cancelled for outcome in batch) == [False, True]


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrent": 0},
        {"requests_per_minute": -1},
        {"tokens_per_minute": 1.5},
        {"patience": float("nan")},
        {"patience": -1},
    ],
)
def test_wrong_settings_are_refused(settings):
    """The message names the setting."""
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Limiter(**settings)


def test_only_a_limiter_is_a_limiter():
    """The usual mistake is a number."""
    for make in (
        lambda: ScriptedModel(["x"], limiter=60),
        lambda: Agent(ScriptedModel(["x"]), limiter=60),
        lambda: Agent(ScriptedModel(["x"])).run("hi", limiter=60),
    ):
        with pytest.raises(ConfigurationError, match="takes a Limiter"):
            make()
