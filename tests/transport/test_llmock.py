"""The verdict of a server that nobody here wrote.

llmock (PyPI) speaks the dialects of providers, breaks on demand, and judges the client
by what it has seen of it.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import requests
from support.threads import LONG

from syncagent import exceptions
from syncagent.transport import Retries, Timeouts, Transport

SCRIPT = Path(__file__).with_name("llmock_script.py")
PROMPT = [{"role": "user", "content": "Tell me something."}]


def ends_chat(event):
    return event.data == "[DONE]" or '"finish_reason":"' in event.data.replace(" ", "")


#: Dialect: path, body, and how it says that an answer is complete.
DIALECTS = {
    "chat": (
        "/v1/chat/completions",
        {"model": "gpt-4o", "messages": PROMPT, "stream": True},
        ends_chat,
    ),
    "responses": (
        "/v1/responses",
        {"model": "gpt-4o", "input": "Tell me something.", "stream": True},
        lambda event: event.event == "response.completed",
    ),
    "anthropic": (
        "/anthropic/v1/messages",
        {"model": "claude", "max_tokens": 9, "messages": PROMPT, "stream": True},
        lambda event: event.event == "message_stop",
    ),
    "gemini": (
        "/gemini/v1beta/models/gemini-pro:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Tell me something."}]}]},
        lambda event: '"finishReason"' in event.data,
    ),
}


class LLMock:
    """The server process, and what it thinks of us."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self._process.stdout.readline().strip()

    def script(self, *behaviors):
        """Forget everything, and do this next."""
        self._ask("post", "reset")
        if behaviors:
            self._ask("post", "scenario", json={"behaviors": behaviors})

    def verdict(self):
        return self._ask("get", "verdict")

    def _ask(self, method, path, **options):
        response = requests.request(
            method, f"{self.url}/_llmock/{path}", timeout=LONG, **options
        )
        response.raise_for_status()
        return response.json()

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.terminate()
        self._process.wait(LONG)


@pytest.fixture(scope="module")
def llmock():
    llmock = LLMock()
    yield llmock
    llmock.close()


@pytest.fixture(params=DIALECTS)
def ask(request, llmock):
    """Stream one answer in one of the dialects; return its events."""
    path, body, is_end = DIALECTS[request.param]

    def ask(**settings):
        settings = {"retries": Retries(limit=2, first_delay=0.05), **settings}
        transport = Transport(**settings)
        url = llmock.url + path
        return list(transport.stream(url, json=body, is_end=is_end))

    return ask


def assert_resilient(llmock, attempts):
    """No truncated stream accepted, no Retry-After ignored, nothing retried in vain."""
    verdict = llmock.verdict()
    assert verdict["errors"] == 0, verdict["findings"]
    assert verdict["passed"]
    assert verdict["attempts"] == attempts


def test_an_answer(llmock, ask):
    """When nothing is broken, each dialect is one request."""
    llmock.script()
    assert len(ask()) > 1
    assert_resilient(llmock, attempts=1)


def test_rate_limits(llmock, ask):
    """It is asked again when it says, and not before."""
    llmock.script({"type": "fail", "status": 429, "retry_after": 0.3})
    assert ask()
    assert_resilient(llmock, attempts=2)


@pytest.mark.parametrize("status", [500, 503, 529])
def test_failures_that_pass(llmock, ask, status):
    """It is asked again after a while."""
    llmock.script({"type": "fail", "status": status, "retry_after": 0.1, "times": 2})
    assert ask()
    assert_resilient(llmock, attempts=3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_failures_that_do_not(llmock, ask, status):
    """It is not asked again."""
    llmock.script({"type": "fail", "status": status})
    with pytest.raises(exceptions.ProviderError) as error:
        ask()
    assert error.value.status == status
    assert_resilient(llmock, attempts=1)


def test_an_outage(llmock, ask):
    """It is not stormed."""
    fail = {"type": "fail", "status": 503, "retry_after": 0.1, "times": None}
    llmock.script(fail)
    with pytest.raises(exceptions.ProviderUnavailable):
        ask()
    assert_resilient(llmock, attempts=3)


@pytest.mark.parametrize("kind", ["truncate", "disconnect"])
def test_a_stream_that_ends_early(llmock, ask, kind):
    """It is no answer; whoever has seen its beginning decides whether to ask again."""
    llmock.script({"type": "stream_fault", "kind": kind, "after_chunks": 2})
    with pytest.raises(exceptions.StreamBroken):
        ask()
    assert ask()
    assert_resilient(llmock, attempts=2)


def test_a_stream_that_stalls(llmock, ask):
    """Nobody sits through it."""
    llmock.script({"type": "stream_fault", "kind": "stall", "stall_seconds": 30})
    with pytest.raises(exceptions.StallTimeout):
        ask(timeout=Timeouts(stall=0.2))
    assert ask()
    assert "no_read_timeout" not in str(llmock.verdict()["findings"])
    assert_resilient(llmock, attempts=2)
