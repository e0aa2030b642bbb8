"""A limiter shared by threads: storms, order, waits that end, and what it learns."""

import gc
import threading
import time

import pytest

from syncagent import Agent, CancelToken, Limiter, run_many, tool
from syncagent.exceptions import ConfigurationError, RateLimited
from syncagent.models import Anthropic, OpenAIChat
from syncagent.models.rate_headers import parse_reset, read_allowances
from syncagent.testing import (
    FakeClock,
    FakeServer,
    Gate,
    Send,
    Stall,
    Status,
    call,
    cancel_everywhere,
    say,
)

LONG = 30.0
KEY = ("http://a", "m")


def model_at(server, limiter, name="m", **settings):
    return OpenAIChat(
        name, base_url=server.base_url, api_key="k", limiter=limiter, **settings
    )


class Window:
    """A provider that allows so many requests in a time, and refuses the others.

    :param says: how it tells: by ``retry-after`` only, or by headers.
    """

    def __init__(self, allowed=12, seconds=0.25, says="retry-after"):
        self.allowed, self.seconds, self.says = allowed, seconds, says
        self.count = self.refused = 0
        self._begin = self._used = 0
        self._lock = threading.Lock()

    def __call__(self, request):
        with self._lock:
            now = time.monotonic()
            if now - self._begin >= self.seconds:
                self._begin, self._used = now, 0
            self._used += 1
            self.count += 1
            left = self.seconds - (now - self._begin)
            if self._used > self.allowed:
                self.refused += 1
                after = {"retry-after-ms": f"{left * 1000 + 2:.0f}"}
                return say("no", acts=[Status(429, "slow down", after)])
            return "Hello."


# -- storms ----------------------------------------------------------------------------


def storm(script, runs, limiter):
    """Run 50 threads against a server; return the batch and the limiter."""
    with FakeServer(script) as server:
        agent = Agent(model_at(server, limiter))
        batch = run_many(agent, ["go"] * runs, width=50)
        list(batch)
        return batch, len(server.requests)


@pytest.mark.slow
def test_a_server_that_refuses_three_of_four():
    """No run of 50 threads fails, and no request is sent that was not needed."""
    count = iter(range(1, 100_000))

    def script(request):
        if next(count) % 4 == 0:
            return "Hello."
        return say("no", acts=[Status(429, "slow down", {"retry-after-ms": "10"})])

    limiter = Limiter()
    batch, sent = storm(script, 50, limiter)
    assert batch.counts.failed == 0
    assert batch.counts.done == 50
    assert sent <= 1.1 * 4 * 50
    assert (limiter.active, limiter.waiting) == (0, 0)


@pytest.mark.slow
def test_a_server_that_has_room_for_a_quarter():
    """50 threads, room for 12 requests in a time: at most 1.1 times what is needed."""
    window = Window()
    batch, sent = storm(window, 200, Limiter())
    assert batch.counts.done == 200
    assert sent <= 1.1 * 200


def test_the_first_wave_finds_its_way():
    """50 requests in all, of which a handful is refused."""
    window = Window()
    batch, sent = storm(window, 50, Limiter())
    assert batch.counts.done == 50
    assert window.refused <= 10
    assert sent == 50 + window.refused


def test_without_a_limiter_runs_fail():
    """Each thread backs off by itself, and gives up: that is why there is one."""
    count = iter(range(1, 100_000))

    def script(request):
        if next(count) % 4 == 0:
            return "Hello."
        return say("no", acts=[Status(429, "slow", {"retry-after-ms": "1"})])

    with FakeServer(script) as server:
        agent = Agent(model_at(server, None, retries=2))
        batch = run_many(agent, ["go"] * 40, width=40)
        list(batch)
    assert batch.counts.failed > 0


# -- what it is told -------------------------------------------------------------------


def answer(limiter, status=200, headers=(), key=KEY):
    """Send a request through a limiter, and note the head of a response."""
    admission = limiter.admission(key)
    assert admission.enter(CancelToken())
    admission.head(status, dict(headers))
    return admission


def may_enter(limiter, key=KEY, **settings):
    """Return whether a request may start at this moment."""
    token = CancelToken(timeout=0)
    admission = limiter.admission(key, **settings)
    has_entered = admission.enter(token)
    admission.leave()
    return has_entered


def left(kind, remaining, reset, limit="100"):
    return {
        f"x-ratelimit-limit-{kind}": limit,
        f"x-ratelimit-remaining-{kind}": remaining,
        f"x-ratelimit-reset-{kind}": reset,
    }


def test_nothing_starts_when_nothing_is_left():
    """Before the first refusal: the headers say so. After the reset all go on."""
    with FakeClock() as now:
        limiter = Limiter()
        answer(limiter, headers=left("requests", "0", "7s")).leave()
        assert not may_enter(limiter)
        now.advance(6.9)
        assert not may_enter(limiter)
        now.advance(0.2)
        assert may_enter(limiter)


@pytest.mark.parametrize(
    "headers",
    [
        left("requests", "0", "7s", limit="0"),  # Azure does not know
        left("requests", "-1", "7s"),
        left("requests", "0", "soon"),
        left("requests", "0", "30h"),  # for the day: the provider must say so
        left("requests", "5", "7s"),
        {},
    ],
)
def test_headers_that_close_nothing(headers):
    """What makes no sense, or does not help, is ignored."""
    limiter = Limiter()
    answer(limiter, headers=headers).leave()
    assert may_enter(limiter)


def test_tokens_and_other_models():
    """Tokens that are used up close one model, and no other."""
    limiter = Limiter()
    answer(limiter, headers=left("tokens", "0", "1m0s")).leave()
    assert not may_enter(limiter)
    assert may_enter(limiter, ("http://a", "other"))
    assert may_enter(limiter, ("http://b", "m"))


def test_what_is_left_is_shared():
    """Requests that are on their way count: three are left, so two more may go."""
    with FakeClock():
        limiter = Limiter()
        first, second = limiter.admission(KEY), limiter.admission(KEY)
        assert first.enter(CancelToken())
        assert second.enter(CancelToken())
        first.head(200, left("requests", "3", "60s"))
        assert may_enter(limiter)
        assert may_enter(limiter)
        assert not may_enter(limiter)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12", 12),
        ("0.5", 0.5),
        ("6m0s", 360),
        ("12ms", 0.012),
        ("1h2m3s", 3723),
        ("2026-11-18T20:00:07Z", 7),
        ("1795032007", 7),
        ("1795032007000", 7),
        ("1795031000", 0),
        ("nan", None),
        ("-3", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("9" * 400, None),
        ("2026-11-18T20:00:07", None),
    ],
)
def test_times_of_a_reset(text, seconds):
    """Numbers, durations, dates and times since 1970; all else is unknown."""
    found = parse_reset(text, lambda: 1795032000)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_the_headers_of_anthropic():
    """Requests, and the smallest of its tokens, with dates."""
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-11-18T20:00:01Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-18T20:00:09Z",
    }
    found = read_allowances(headers, lambda: 1795032000)
    assert found == [(True, 49, 1.0), (False, 0, 9.0)]


# -- its own limits --------------------------------------------------------------------


def test_requests_per_minute():
    """60 at once, and then one a second."""
    with FakeClock() as now:
        limiter = Limiter(requests_per_minute=60)
        for _ in range(60):
            answer(limiter).leave()
        assert not may_enter(limiter)
        now.advance(1.001)
        assert may_enter(limiter)
        assert not may_enter(limiter)


def test_tokens_per_minute():
    """The request and its longest response count, and are corrected afterwards."""
    with FakeClock() as now:
        limiter = Limiter(tokens_per_minute=1000)
        admission = limiter.admission(KEY, 400, 800)
        assert admission.enter(CancelToken())
        admission.head(200, {})
        assert not may_enter(limiter, size=0, max_tokens=200)
        admission.settle(say("x").usage)  # 15 tokens, and not 900
        admission.leave()
        assert may_enter(limiter, size=0, max_tokens=900)
        assert not may_enter(limiter, size=0, max_tokens=900)
        now.advance(60)
        # Larger than the limit: it may go when nothing else was used.
        assert may_enter(limiter, size=0, max_tokens=5000)


def test_concurrent_responses():
    """No more than two at once, with 20 threads; a slot is free on every way out."""
    seen, lock = [0, 0], threading.Lock()

    def script(request):
        with lock:
            seen[0] += 1
            seen[1] = max(seen)
        threading.Event().wait(0.005)
        with lock:
            seen[0] -= 1
        return "Hello."

    limiter = Limiter(concurrent=2)
    with FakeServer(script) as server:
        agent = Agent(model_at(server, limiter))
        assert len(run_many(agent, ["go"] * 40, width=20).results()) == 40
    assert seen[1] <= 2
    assert (limiter.active, limiter.waiting) == (0, 0)


def test_requests_start_in_their_order():
    """First come, first served; nobody who comes later passes by."""
    limiter, order = Limiter(concurrent=1), []
    first = answer(limiter)
    threads = []
    for number in range(20):

        def wait(number=number):
            admission = limiter.admission(KEY)
            assert admission.enter(CancelToken())
            order.append(number)
            admission.head(200, {})
            admission.leave()

        thread = threading.Thread(target=wait)
        thread.start()
        threads.append(thread)
        while limiter.waiting <= number:
            assert thread.is_alive()
    first.leave()
    for thread in threads:
        thread.join(LONG)
    assert order == list(range(20))


def test_two_hundred_threads_and_cancels_in_between():
    """Half of them are cancelled while they wait; no slot is lost."""
    limiter, done = Limiter(concurrent=3), []
    tokens = [CancelToken() for _ in range(200)]
    blocker = [answer(limiter) for _ in range(3)]

    def work(token):
        admission = limiter.admission(KEY)
        try:
            if admission.enter(token):
                admission.head(200, {})
                done.append(token)
        finally:
            admission.leave()

    threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    while limiter.waiting < 200:
        threading.Event().wait(0.001)
    for token in tokens[::2]:
        token.cancel()
    for each in blocker:
        each.leave()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    assert set(tokens[1::2]) <= set(done)
    assert (limiter.active, limiter.waiting) == (0, 0)


def test_a_run_in_the_middle_of_a_response():
    """A hook that makes a run of its own does not wait for the response it is in."""

    class Asks:
        def on_event(self, event):
            if type(event).__name__ == "TextDelta" and not texts:
                texts.append("")
                texts[0] = Agent(agent.model).run("inner").text

    texts = []
    limiter = Limiter(concurrent=1)
    with FakeServer(lambda request: "Hello.") as server:
        agent = Agent(model_at(server, limiter), hooks=[Asks()])
        assert agent.run("outer").text == "Hello."
    assert texts == ["Hello."]
    assert (limiter.active, limiter.waiting) == (0, 0)


def test_a_provider_that_always_says_at_once():
    """It is not asked a hundred times a second: the wait is doubled after a while."""
    with FakeClock() as now:
        limiter = Limiter()
        refusal = RateLimited("no", status=429, retry_after=0.0, retryable=True)
        waits = 0
        for _ in range(14):
            admission = limiter.admission(KEY)
            while not admission.enter(CancelToken(timeout=0)):
                now.advance(0.1)
                waits += 1
            admission.head(429, {})
            assert admission.retries(refusal)
            admission.leave()
        assert waits > 100  # more than ten seconds in all


# -- waits that end --------------------------------------------------------------------


def test_a_cancel_ends_the_wait():
    """At once, in the phase ``limiter``; nothing is sent, and nothing is charged."""
    limiter = Limiter(concurrent=1)
    with FakeServer(["Hello."]) as server:
        model = model_at(server, limiter)
        holder = answer(limiter, key=(model.base_url, model.name))
        agent = Agent(model)
        handle = agent.start("go")
        while not limiter.waiting:
            threading.Event().wait(0.001)
        receipt = agent.cancel("enough")
        assert receipt.wait(LONG)
        assert receipt.latency < 1
        result = handle.result(LONG)
        assert result.cancellation.phase == "limiter"
        assert result.usage.total_tokens == 0
        assert server.requests == []
        holder.leave()
        assert agent.run("again").text == "Hello."


def test_a_deadline_ends_the_wait():
    """As everywhere."""
    limiter = Limiter(concurrent=1)
    with FakeServer(["Hello."]) as server:
        model = model_at(server, limiter)
        holders = []
        key = (model.base_url, model.name)
        other = threading.Thread(
            target=lambda: holders.append(answer(limiter, key=key))
        )
        other.start()
        other.join(LONG)
        (holder,) = holders
        result = Agent(model).run("go", timeout=0.05)
        assert result.cancellation.origin == "deadline"
        holder.leave()
    assert (limiter.active, limiter.waiting) == (0, 0)


def test_a_dropped_stream_frees_its_place():
    """Also one that nobody has closed."""
    limiter = Limiter(concurrent=1)
    script = [say("Hello " * 9, acts=[Send(3), Stall()]), "Second."]
    with FakeServer(lambda request: script.pop(0)) as server:
        model = model_at(server, limiter)
        stream = Agent(model).stream("go")
        next(stream)
        next(stream)
        stream.close()
        del stream
        gc.collect()
        assert limiter.active == 0
        assert Agent(model).run("go").text == "Second."


def test_a_wait_that_is_too_long_is_an_error():
    """The provider asks for more than max_wait: then the run learns of it."""
    with FakeServer(lambda request: refused("90")) as server:
        agent = Agent(model_at(server, Limiter(max_wait=60)))
        with pytest.raises(RateLimited):
            agent.run("go")
        assert len(server.requests) == 1


def refused(seconds):
    return say("no", acts=[Status(429, "slow down", {"retry-after": seconds})])


def test_an_empty_account_is_an_error():
    """No wait fills it."""
    body = "insufficient_quota"
    script = say("no", acts=[Status(429, body, {"x-should-retry": "false"})])
    with FakeServer(lambda request: script) as server:
        with pytest.raises(RateLimited):
            Agent(model_at(server, Limiter())).run("go")
        assert len(server.requests) == 1


def test_one_probe_goes_first():
    """After a refusal one request tries the provider; the others wait for it."""
    with FakeClock() as now:
        limiter = Limiter()
        refusal = RateLimited("no", status=429, retry_after=5.0, retryable=True)
        one = answer(limiter, 429)
        assert one.retries(refusal)
        one.leave()
        assert not may_enter(limiter)
        now.advance(5.1)
        probe = limiter.admission(KEY)
        assert probe.enter(CancelToken())
        now.advance(5.1)
        assert not may_enter(limiter)
        probe.head(200, {})
        assert may_enter(limiter)


def test_the_rate_is_remembered_for_a_while():
    """It falls with each refusal, rises with each response, and is forgotten."""
    with FakeClock() as now:
        limiter = Limiter()
        for _ in range(10):
            answer(limiter).leave()
        one = answer(limiter, 429)
        one.retries(RateLimited("no", status=429, retry_after=10.0, retryable=True))
        one.leave()
        now.advance(10.1)
        answer(limiter).leave()  # ten in ten seconds, less a margin
        assert not may_enter(limiter)
        now.advance(1.2)
        assert may_enter(limiter)
        now.advance(400)
        for _ in range(4):
            answer(limiter).leave()
        assert may_enter(limiter)


@tool
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
@pytest.mark.parametrize("kind", [OpenAIChat, Anthropic])
def test_every_point_of_a_wait(way, kind):
    """The sweep through the waits of a limiter: refusals, pauses, the next turn."""
    count = iter(range(1_000_000))

    def script(request):
        number = next(count)
        if number % 2 == 0:
            return say("no", acts=[Status(429, "slow", {"retry-after-ms": "3"})])
        is_first = b"seen" not in request.body and b"Go on" not in request.body
        return say(call("look")) if is_first else "Done."

    limiter = Limiter(concurrent=2)
    with FakeServer(script) as server:
        address = server.base_url
        if kind is Anthropic:
            address = server.url_of("anthropic")

        def make():
            model = kind("m", base_url=address, api_key="k", limiter=limiter)
            return Agent(model, tools=[look])

        swept = cancel_everywhere(make, "Do it.", way=way)
    assert len(swept.points) > 20
    assert "limiter" in swept.phases
    assert (limiter.active, limiter.waiting) == (0, 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrent": 0},
        {"concurrent": 1.5},
        {"requests_per_minute": 0},
        {"tokens_per_minute": -1},
        {"max_wait": None},
    ],
)
def test_settings_that_cannot_work(settings):
    """They are refused when the limiter is made."""
    with pytest.raises(ConfigurationError):
        Limiter(**settings)


def test_a_model_takes_a_limiter_only():
    """The message says what it got."""
    with pytest.raises(ConfigurationError, match="limiter takes a Limiter"):
        OpenAIChat("m", api_key="k", limiter=5)


def test_a_gate_of_the_kit_is_no_limiter():
    """Its name is used for something else."""
    with pytest.raises(ConfigurationError):
        OpenAIChat("m", api_key="k", limiter=Gate())
