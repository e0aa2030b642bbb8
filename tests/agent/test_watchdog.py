"""S1: a script's own watchdog, a signal handler that raises, ends the run."""

import signal

import pytest
from support.agents import check_usable
from support.watchdog import watchdog

from syncagent import Agent
from syncagent.models import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from syncagent.testing import FakeServer, Send, Stall, Status, say

MODELS = [Anthropic, Gemini, OpenAIChat, OpenAIResponses]
ERRORS = [TimeoutError, ValueError, OSError, RuntimeError, KeyboardInterrupt]

#: The phase in which the run is stuck, and what the server does to get it there.
STUCK = {
    "headers": say("never", acts=[Stall(before_headers=True)]),
    "first event": say("never", acts=[Stall()]),
    "stream": say("Once upon a time", acts=[Send(2), Stall()]),
    "retry": say("never", acts=[Status(503, headers={"Retry-After": "60"})]),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("phase", STUCK)
@pytest.mark.parametrize("kind", MODELS)
def test_in_every_phase(kind, phase, error):
    """It comes out as it is; the conversation is settled, and nothing is sent again."""
    with FakeServer([STUCK[phase], *["ok"] * 3]) as server:
        agent = Agent(kind("fake", base_url=server.base_url, api_key="any"))
        stream = agent.stream("hi")
        with (
            watchdog(error, lambda: stream.claim.phase == phase and server.requests),
            pytest.raises(error, match="watchdog") as raised,
        ):
            for _ in stream:
                pass
        assert type(raised.value) is error
        assert len(server.requests) == 1
        check_usable(agent)
        assert len(server.requests) == 2


@pytest.mark.parametrize("error", [TimeoutError, ValueError])
@pytest.mark.parametrize("stream", [True, False])
def test_a_script_with_an_alarm(error, stream):
    """The way it stands in every script: ``signal.alarm()`` around ``agent.run()``."""

    def handler(number, frame):
        raise error("watchdog")

    with FakeServer([STUCK["headers"], *["ok"] * 3]) as server:
        model = OpenAIChat(
            "fake", base_url=server.base_url, api_key="any", stream=stream
        )
        agent = Agent(model)
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(error, match="watchdog"):
                agent.run("hi")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert len(server.requests) == 1
        check_usable(agent)
