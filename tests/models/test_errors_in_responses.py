"""What errors of a provider show, carry and cost, wherever in a response they come."""

import gc
import json
import pickle
import sys
import traceback
import weakref

import pytest
import requests
from support.raw_server import RawServer

from syncagent import Agent, Limits
from syncagent.exceptions import (
    AuthenticationFailed,
    ConnectionFailed,
    ProtocolError,
    ProviderError,
    ProviderUnavailable,
    StreamBroken,
    SyncAgentError,
)
from syncagent.models import OpenAIChat, Price
from syncagent.testing import Broken, Drop, FakeServer, Send, Status, say
from syncagent.transport import Transport
from syncagent.usage import Usage

#: Of many shapes; most of them are no shape at all.
KEYS = [
    "zK9q4WcYtR1mVb7XsLd2Hf8Jp5Ng3e-88",
    "0123456789abcdef0123456789abcdef",
    "onlyletterswithoutanydigitatall",
    "sk-abc123def!more/secret+part==",
    "a'quote\"and\\backslash/1",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "ключ".encode().decode("latin-1") + "-0123456789",
]
FORGED = "\x1b[2J\nERROR forged line\r\u202e\x9b"


class Saying(RawServer):
    """A server that sends ``body`` with status 200."""

    def __init__(self, body=b"", media_type="text/event-stream"):
        super().__init__()
        self.body = body
        self.media_type = media_type

    def respond(self, handler, body):
        """Return the same status, headers and body each time."""
        return 200, {"Content-Type": self.media_type}, self.body


def errors_of(key):
    """Yield errors as servers put them into responses, each with the key in it."""
    text = f"Incorrect key {key} {FORGED}"
    yield {"error": {"type": "authentication_error", "message": text}}
    yield {"error": {"code": 401, "message": text, "status": "UNAUTHENTICATED"}}
    yield {"error": text}
    yield {"error": {"message": {"nested": [text]}}}
    yield {"error": {"message": "x" * (300 - len(key) // 2 - 1) + " " + key}}
    yield {"error": {"message": f"{key[:5]}...{key[-4:]} is wrong"}}
    yield {"type": "error", "error": {"type": "api_error", "message": text}}
    yield {"type": "error", "code": "server_error", "message": text}
    yield {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": "x", "message": text}},
    }
    yield {"choices": text, "content": text, "output": text, "candidates": text}


def bodies_of(key):
    """Yield whole responses: errors, and text that no decoder can read."""
    for error in errors_of(key):
        yield json.dumps(error)
        yield json.dumps(error, ensure_ascii=False)
    yield f'{{"broken": "{key} {FORGED}'
    yield f"<html>{key}{FORGED}</html>"


def shown(error):
    """Return all that a program or a log shows of an error."""
    parts = [str(error), repr(error), repr(vars(error)), str(vars(error).get("body"))]
    parts += traceback.format_exception(error)
    parts.append(pickle.dumps(error, 0).decode("latin-1"))
    return parts


def locals_of(error):
    """Return what an error tracker shows of our frames."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [f for f in frames if f.f_globals["__name__"].startswith("syncagent")]
    assert ours
    return [repr(value) for frame in ours for value in frame.f_locals.values()]


def parts_of(key):
    """Return the key, and parts of it that tell too much."""
    return key, key[:12], key[-12:], f"{key[:5]}...", f"...{key[-4:]}"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("stream", [True, False])
def test_no_error_inside_of_a_response_shows_the_key(kind, stream, key):
    """M7: nor raw control characters, in text, body, pickle or traceback."""
    errors = []
    with Saying(media_type="text/event-stream" if stream else "text/json") as server:
        settings = {"base_url": server.url, "api_key": key, "stream": stream}
        for body in bodies_of(key):
            lines = body.replace("\r", "\n").replace("\n", "\ndata: ")
            payload = f"data: {lines}\n\n" if stream else body
            server.body = payload.encode()
            with pytest.raises((ProviderError, StreamBroken)) as caught:
                list(kind("fake", retries=0, **settings).ask("hi"))
            errors.append((body, caught.value))
    for body, error in errors:
        for text in shown(error) + locals_of(error):
            for part in parts_of(key):
                assert part not in text, (body, part)
        for text in (str(error), getattr(error, "body", "")):
            assert text.isprintable(), body
        # Python 3.11 may think that an exception of an earlier test is still handled,
        # if that test had raised one at each instruction.
        assert error.__context__ in (None, sys.exc_info()[1])
    assert sum(isinstance(error, ProviderError) for _, error in errors) > 10


@pytest.mark.parametrize("stream", [True, False])
def test_credentials_of_a_session_are_not_shown_either(kind, stream):
    """M7: the transport knows more secrets than the key of the model."""
    session = requests.Session()
    session.headers["Cookie"] = "session=c00kie-of-the-proxy"
    transport = Transport(session=session, retries=0)
    body = json.dumps({"error": {"message": "who is c00kie-of-the-proxy?"}})
    payload = f"data: {body}\n\n" if stream else body
    with Saying(payload.encode()) as server:
        settings = {"stream": stream, "transport": transport}
        model = kind("m", base_url=server.url, api_key="k", **settings)
        with pytest.raises(ProviderError, match="who is") as caught:
            list(model.ask("hi"))
    assert not any("c00kie" in text for text in shown(caught.value))


def test_an_error_in_place_of_a_stream(kind):
    """M7: JSON can hide a key behind escapes, which the transport does not decode."""
    key = KEYS[0]
    escaped = "".join(f"\\u{ord(character):04x}" for character in key)
    body = f'{{"error": {{"message": "wrong: {escaped}", "type": "api_error"}}}}'
    with Saying(body.encode(), "application/json") as server:
        model = kind("fake", base_url=server.url, api_key=key, retries=0)
        with pytest.raises(ProviderError, match="wrong") as caught:
            list(model.ask("hi"))
    assert not any(key in text for text in shown(caught.value))


SHORTENED = [
    "{0:.4}...{1}",
    "{0:.4}\u2026{1}",
    "{0:.6}*****{1}",
    "{0:.4} [...] {1}",
    "****{1}",
    "{0:.8}...",
    "{0:.10} is wrong",
]


@pytest.mark.parametrize("form", SHORTENED)
@pytest.mark.parametrize("status", [200, 401])
def test_half_a_key_is_masked(kind, form, status):
    """L12: servers repeat the beginning and the end of a key."""
    key = KEYS[0]
    text = f"Incorrect key: {form.format(key, key[-4:])}"
    with FakeServer([say("x", acts=[Status(status, text)])]) as server:
        model = kind("fake", base_url=server.base_url, api_key=key, retries=0)
        with pytest.raises(ProviderError, match=r"Incorrect key: \*\*\*") as caught:
            list(model.ask("hi"))
    for text in shown(caught.value):
        assert key[:4] not in text
        assert key[-4:] not in text


FAILURES = [
    (Status(401), AuthenticationFailed),
    (Status(503), ProviderUnavailable),
    (Broken("busy"), ProviderError),
    (Drop(), StreamBroken),
]


@pytest.mark.parametrize(("act", "expected"), FAILURES)
def test_errors_name_their_provider(kind, act, expected):
    """S12: as an attribute, and in the text where there is no address."""
    with FakeServer([say("x", acts=[act])]) as server:
        model = kind("fake", base_url=server.base_url, api_key="k", retries=0)
        with pytest.raises(expected) as caught:
            list(model.ask("hi"))
    name = kind.default_endpoint
    error = caught.value
    assert error.provider == pickle.loads(pickle.dumps(error)).provider == name
    assert error.url or str(error).startswith(f"{name}: ")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


@pytest.mark.parametrize(("act", "expected"), FAILURES)
def test_an_error_is_in_no_reference_cycle(kind, act, expected):
    """S6: what the caller's frame holds is freed with it, not by the collector."""

    def fail():
        try:
            list(model.ask("hi"))
        except expected as error:
            return weakref.ref(error)
        raise AssertionError("no error")

    with FakeServer([say("x", acts=[act])] * 2) as server:
        model = kind("fake", base_url=server.base_url, api_key="k", retries=0)
        gc.disable()
        try:
            assert fail()() is None
        finally:
            gc.enable()


def test_an_error_before_any_response_names_its_provider(kind):
    """S12: errors of the transport, and responses that make no sense."""
    model = kind("x", base_url="http://127.0.0.1:1/v1", api_key="k", retries=0)
    with pytest.raises(ConnectionFailed) as refused:
        model.respond("hi")
    with Saying(b"<html>") as server:
        with pytest.raises(ProtocolError) as invalid:
            kind("x", base_url=server.url, api_key="k", retries=0).respond("hi")
    assert refused.value.provider == invalid.value.provider == kind.default_endpoint


def spend(kind, *acts, **limits):
    """Run an agent whose requests fail, then work; return its errors and its result."""
    script = [say("x", acts=[act]) for act in acts]
    with FakeServer([*script, say("ok", usage=Usage(7, 3))]) as server:
        model = kind(
            "fake",
            base_url=server.base_url,
            api_key="k",
            retries=0,
            price=Price(1e6, 1e6),
        )
        agent, errors = Agent(model, limits=Limits(**limits)), []
        for _ in acts:
            with pytest.raises(SyncAgentError) as caught:
                agent.run("hello " * 1000)
            errors.append(caught.value)
        return errors, agent.run("hello " * 1000)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 529])
def test_a_refused_request_costs_nothing(kind, status):
    """S10: the provider counts no tokens for it."""
    [error], result = spend(kind, Status(status))
    assert error.usage == Usage()
    assert result.usage == Usage(7, 3)


def test_an_error_in_place_of_the_first_event_costs_nothing(kind):
    """S10: it is a refusal, too, whatever the status."""
    errors, _ = spend(kind, Broken("busy"), Status(200, "busy"))
    assert [error.usage for error in errors] == [Usage(), Usage()]


def test_a_response_that_breaks_off_costs(kind):
    """S10: what was generated counts, and is estimated."""
    with FakeServer([say("x" * 400, acts=[Send(4), Broken("busy")])]) as server:
        model = kind("fake", base_url=server.base_url, api_key="k", retries=0)
        with pytest.raises(ProviderError) as caught:
            list(model.ask("hello " * 1000))
    assert caught.value.usage.estimated
    assert caught.value.usage.input_tokens


def test_retried_refusals_do_not_reach_a_limit():
    """S10: a limit counts what the provider counts."""
    busy = Status(429, "busy", {"retry-after-ms": "1"})
    with FakeServer([say("x", acts=[busy]), say("ok", usage=Usage(7, 3))]) as server:
        model = OpenAIChat("fake", base_url=server.base_url, api_key="k", retries=1)
        agent = Agent(model, limits=Limits(tokens=100))
        result = agent.run("hello " * 1000)
    assert result.stop_reason == "end_turn"
    assert result.usage.total_tokens == 10


def test_a_request_that_never_left_costs_nothing(kind):
    """S10: nobody has received it."""
    model = kind("x", base_url="http://127.0.0.1:1/v1", api_key="k", retries=0)
    with pytest.raises(ConnectionFailed) as refused:
        model.respond("hello " * 1000)
    assert refused.value.usage == Usage()
