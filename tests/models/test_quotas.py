"""Rate-limit headers of each provider, and what no provider should send."""

import math
from datetime import datetime, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from syncagent import Agent, Limiter
from syncagent.models import OpenAIChat
from syncagent.models.quotas import read_quotas
from syncagent.testing import FakeServer, ScriptedModel, Status, say
from syncagent.transport import close_idle

NOW, WALL = 1000.0, 1_790_000_000.0


def read(headers):
    return read_quotas(CaseInsensitiveDict(headers), NOW, lambda: WALL)


def date_in(seconds, *, is_iso=False):
    date = datetime.fromtimestamp(WALL + seconds, timezone.utc)
    if is_iso:
        return date.isoformat().replace("+00:00", "Z")
    return format_datetime(date, usegmt=True)


def openai(name, limit, remaining, reset):
    return {
        f"x-ratelimit-limit-{name}": limit,
        f"x-ratelimit-remaining-{name}": remaining,
        f"x-ratelimit-reset-{name}": reset,
    }


def anthropic(name, limit, remaining, reset):
    return {
        f"anthropic-ratelimit-{name}-limit": limit,
        f"anthropic-ratelimit-{name}-remaining": remaining,
        f"anthropic-ratelimit-{name}-reset": reset,
    }


#: Headers, and the kind, limit, rest and seconds to the reset that they mean.
KNOWN = {
    "OpenAI requests": (
        openai("requests", "500", "499", "120ms"),
        ("requests", 500, 499, 0.12),
    ),
    "OpenAI tokens": (
        openai("tokens", "30000", "10000", "6m0s"),
        ("tokens", 30000, 10000, 360),
    ),
    "Groq": (
        openai("requests", "14400", "14370", "2m59.56s"),
        ("requests", 14400, 14370, 179.56),
    ),
    "Azure": (openai("tokens", "1000", "0", "41"), ("tokens", 1000, 0, 41)),
    "Anthropic": (
        anthropic("input-tokens", "50000", "49000", date_in(5, is_iso=True)),
        ("input", 50000, 49000, 5),
    ),
    "Anthropic output": (
        anthropic("output-tokens", "8000", "0", date_in(60, is_iso=True)),
        ("output", 8000, 0, 60),
    ),
    "OpenRouter": (
        {
            "X-RateLimit-Limit": "20",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": f"{int((WALL + 30) * 1000)}",
        },
        ("requests", 20, 0, 30),
    ),
    "Cerebras": (
        openai("tokens-minute", "60000", "59000", "11.4"),
        ("tokens", 60000, 59000, 11.4),
    ),
    "Mistral": (
        {
            "x-ratelimit-limit-tokens-minute": "1000",
            "x-ratelimit-remaining-tokens-minute": "500",
            "x-ratelimit-tokens-query-cost": "12",
            "x-ratelimitbysize-remaining-minute": "7",
        },
        ("tokens", 1000, 500, 30),
    ),
    "an IETF draft": (
        {
            "RateLimit-Limit": "100",
            "RateLimit-Remaining": "50",
            "RateLimit-Reset": "50",
        },
        ("requests", 100, 50, 50),
    ),
    "seconds since 1970": (
        openai("requests", "5", "0", f"{int(WALL) + 7}"),
        ("requests", 5, 0, 7),
    ),
    "a date of HTTP": (
        openai("requests", "5", "0", date_in(9)),
        ("requests", 5, 0, 9),
    ),
    "by the server's clock": (
        {**openai("requests", "5", "0", date_in(3609)), "Date": date_in(3600)},
        ("requests", 5, 0, 9),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_headers_of_each_provider(name):
    """Seconds, durations, times and dates mean the same."""
    headers, (kind, limit, remaining, seconds) = KNOWN[name]
    (quota,) = read(headers).values()
    assert (quota.kind, quota.limit, quota.remaining) == (kind, limit, remaining)
    assert quota.reset_at - NOW == pytest.approx(seconds, abs=0.01)


HOSTILE = [
    *("-1", "NaN", "inf", "-inf", "1e999", "", " ", "soon", "9" * 400, "0x10", "١٢"),
    *("1h-2m", "5 s", "Mon, 99 Foo 2026", "2026-99-99T00:00:00Z", "99999999999999999"),
    *("-5s", "1_000", "s", "\x00", "9" * 30 + "d", "0001-01-01T00:00:00+23:59"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_numbers_that_make_no_sense_are_ignored(text):
    """No wait is endless, negative, or not a number; and nothing raises."""
    for headers in (
        openai("requests", "10", "0", text),
        openai("requests", text, "0", "1s"),
        openai("requests", "10", text, "1s"),
        anthropic("tokens", text, text, text),
    ):
        for quota in read(headers).values():
            assert 0 <= quota.remaining < math.inf
            assert 0 <= quota.reset_at - NOW <= 2 * 86400
            assert quota.limit is None or 0 < quota.limit < math.inf
            when = quota.when(1.0, 3.0)
            assert when <= NOW + 2 * 86400


NAMES = st.sampled_from(sorted({name for each, _ in KNOWN.values() for name in each}))


@given(st.dictionaries(NAMES, st.sampled_from(HOSTILE) | st.text(max_size=30)))
def test_any_text_in_any_header_is_survived(headers):
    """A header never makes a request fail."""
    for quota in read(headers).values():
        assert not math.isnan(quota.when(1.0, 0.0))


@given(
    limit=st.integers(1, 1000),
    used=st.integers(0, 1000),
    need=st.integers(1, 5),
    others=st.integers(0, 20),
)
def test_a_quota_is_refilled_all_the_time(limit, used, need, others):
    """What is asked for is there at that time, and not much earlier."""
    remaining = max(0, limit - used)
    (quota,) = read(openai("tokens", f"{limit}", f"{remaining}", "100s")).values()
    when = quota.when(need, others)
    assert when <= NOW + 100
    if need + others <= remaining:
        assert when < NOW
    elif need + others <= limit:
        refilled = (limit - remaining) * (when - NOW) / 100
        assert refilled + remaining == pytest.approx(need + others)


def test_used_up_quotas_are_not_tried_out():
    """A provider that says how much is left is never asked for more."""
    left, refusals = [3], []

    def respond(request):
        if not left[0]:
            refusals.append(request)
            return say("", acts=[Status(429, "no", {"retry-after-ms": "1"})])
        left[0] -= 1
        return say("Hello.")

    # The kit's server has no headers on success; so the lane is told by hand.
    limiter = Limiter(patience=5)
    with FakeServer(respond) as server:
        agent = Agent(
            OpenAIChat("fake", base_url=server.base_url, api_key="k", limiter=limiter)
        )
        agent.run("hi")
        (lane,) = limiter._lanes.values()
        lane.begun(None, openai("requests", "3", "0", "60s"))
        result = agent.run("again", timeout=0.05)
        assert (result.cancelled, result.cancellation.phase) == (True, "limiter")
    assert not refusals
    close_idle()


@pytest.mark.parametrize(
    ("name", "limit", "remaining", "is_ample"),
    [
        ("requests", "10000", "9000", True),
        ("requests", "10000", "4000", False),
        ("requests", "300", "199", False),
        ("tokens", "10000000", "9000000", True),
        ("tokens", "500000", "500000", False),
    ],
)
def test_ample_quotas_cost_nothing(name, limit, remaining, is_ample):
    """They are only looked at again from time to time; others are counted."""
    limiter = Limiter()
    model = ScriptedModel(lambda messages: "ok", limiter=limiter)
    model.respond("hi")
    (lane,) = limiter._lanes.values()
    lane.begun(None, openai(name, limit, remaining, "60s"))
    assert lane.is_easy is is_ample
    model.respond("hi")
