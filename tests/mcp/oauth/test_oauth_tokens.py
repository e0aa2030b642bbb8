"""Stores keep tokens for their user alone, and nothing shows them."""

import json
import logging
import os
import pickle
import stat
import subprocess
import sys
import threading

import pytest
from support.interrupting import interrupted
from support.threads import LONG, together

from syncagent._redaction import redact
from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled, ConfigurationError, MCPError
from syncagent.mcp.oauth import FileTokens, MemoryTokens, OAuth
from syncagent.mcp.oauth.tokens import Client, Grant
from syncagent.testing import Gate

#: Holds the lock of a key until its standard input ends.
HOLDER = """
import sys
from syncagent.cancel import CancelToken
from syncagent.mcp.oauth import FileTokens
with FileTokens(sys.argv[1]).locked("key", CancelToken()):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["memory", "files"])
def tokens(request, tmp_path):
    return MemoryTokens() if request.param == "memory" else FileTokens(tmp_path / "t")


def test_a_store_keeps_and_forgets(tokens):
    """By key, the last entry counts."""
    assert tokens.load("a") is None
    tokens.save("a", "1")
    tokens.save("a", "2")
    tokens.save("b", "3")
    assert (tokens.load("a"), tokens.load("b")) == ("2", "3")
    tokens.delete("a")
    tokens.delete("a")
    assert (tokens.load("a"), tokens.load("b")) == (None, "3")


def test_one_thread_at_a_time_holds_a_key(tokens):
    """The others wait, and other keys are free."""
    inside, most = [], []

    def work():
        for _ in range(5):
            with tokens.locked("a", CancelToken(timeout=LONG)):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    with tokens.locked("b", CancelToken()):
        together(*[work] * 4)
    assert set(most) == {1}


def test_a_wait_for_a_key_ends_with_its_token(tokens):
    """And leaves the holder alone."""
    with tokens.locked("a", CancelToken()):
        token = CancelToken(timeout=0.05)
        with pytest.raises(Cancelled), tokens.locked("a", token):
            pass
    with tokens.locked("a", CancelToken(timeout=LONG)):
        pass


# A lock file that was opened in that moment is closed by its finalizer.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_handler_that_raises_leaves_the_key_free(tokens):
    """Ctrl+C anywhere in a turn: the next thread has the next one."""

    def hold():
        with tokens.locked("a", CancelToken()):
            pass

    def next_one():
        with tokens.locked("a", CancelToken(timeout=LONG)):
            pass

    for step in range(1, 5000):
        was = interrupted(hold, step)
        together(next_one)
        if not was:
            break
    else:
        raise AssertionError("a turn has more steps than that")


def test_only_the_user_can_read_the_files(tmp_path):
    """Whatever the umask is; a folder that others can read is closed."""
    before = os.umask(0)
    try:
        folder = tmp_path / "t"
        folder.mkdir(mode=0o755)
        tokens = FileTokens(folder)
        tokens.save("a", "secret")
        with tokens.locked("a", CancelToken()):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert len(files) == 2  # the entry and its lock; no temporary file


def test_a_folder_that_cannot_be_used_is_a_clear_error(tmp_path):
    """With its name, and what to do."""
    (tmp_path / "file").write_text("")
    for work in (
        lambda tokens: tokens.save("a", "b"),
        lambda tokens: tokens.locked("a", CancelToken()).__enter__(),
    ):
        with pytest.raises(ConfigurationError, match="pass a folder"):
            work(FileTokens(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match="must be a path"):
        FileTokens("")


def test_a_damaged_file_counts_as_missing(tmp_path, caplog):
    """Its content is not shown."""
    tokens = FileTokens(tmp_path)
    tokens.save("a", "b")
    next(tmp_path.glob("*.json")).write_text('{"key": "a", "entry": ["geheim"]}')
    assert tokens.load("a") is None
    assert "geheim" not in caplog.text
    assert "damaged" in caplog.text


@pytest.mark.slow
def test_processes_exclude_each_other(tmp_path):
    """A killed process lets go."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"held\n"
        tokens = FileTokens(tmp_path)
        with pytest.raises(Cancelled), tokens.locked("key", CancelToken(timeout=0.2)):
            pass
        process.kill()
        process.wait(LONG)
        with tokens.locked("key", CancelToken(timeout=LONG)):
            pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have():
    """A turn belongs to the process that took it."""
    tokens, gate = MemoryTokens(), Gate()

    def hold():
        with tokens.locked("a", CancelToken()):
            gate.stop_here()

    thread = threading.Thread(target=hold)
    thread.start()
    gate.wait_reached()
    child = os.fork()
    if child == 0:
        try:
            with tokens.locked("a", CancelToken(timeout=5)):
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gate.open()
    thread.join(LONG)


def test_servers_with_tokens_can_be_listed(server, person, get, tmp_path):
    """By their URL, nothing more."""
    tokens = FileTokens(tmp_path / "t")
    assert tokens.servers() == []
    get(OAuth(open_browser=person, tokens=tokens))
    assert tokens.servers() == [server.url]


def test_another_process_finds_the_tokens(server, person, get, tmp_path):
    """A login on the command line counts for a service."""
    get(OAuth(open_browser=person, tokens=FileTokens(tmp_path)))
    assert get(OAuth(open_browser=False, tokens=FileTokens(tmp_path))) == 200


def test_nothing_shows_a_token(server, person, get, caplog, tmp_path):
    """Neither repr, nor pickle, nor an error, nor a log record with the redactor."""
    caplog.set_level(logging.DEBUG)
    tokens = FileTokens(tmp_path)
    auth = OAuth(
        open_browser=person, tokens=tokens, client_id="i", client_secret="hush"
    )
    get(auth)
    kept = json.loads(tokens.load(f"grant {server.url}"))
    grant = auth._grants[server.url]
    secrets = (kept["access_token"], kept["refresh_token"], "hush")
    shown = [
        repr(thing) for thing in (auth, tokens, grant, grant.client, MemoryTokens())
    ]
    shown += [caplog.text, repr(auth._client), str(vars(auth))]
    server.answers["/as/token"] = lambda handler, body: handler.send(
        400, {"error": "invalid_grant", "error_description": body.decode()}
    )
    server.valid.clear()
    server.redirect_fields = {"error": "no", "code": None}
    with pytest.raises(MCPError) as caught:
        get(auth)
    shown.append(repr(caught.value) + str(vars(caught.value)))
    for secret in secrets:
        assert not [text for text in shown if secret in text]
    assert kept["access_token"] not in redact(f"found {kept['access_token']} here")
    for thing in (auth, grant, grant.client, MemoryTokens()):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(thing)


def test_errors_survive_pickling(server, get):
    """With the server they are about."""
    with pytest.raises(MCPError) as caught:
        get(OAuth(open_browser=False))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.server) == (str(caught.value), server.url)


def test_old_secrets_are_not_masked_for_ever():
    """A service that renews its tokens for months stays fast."""
    from syncagent._redaction import hidden

    client = Client(issuer="https://a.example", client_id="c")
    for number in range(300):
        Grant(
            server="s",
            issuer="https://a.example",
            resource="r",
            client=client,
            token_endpoint="t",
            access_token=f"access-token-{number}",
        )
    ours = [secret for secret in hidden() if secret.startswith("access-token-")]
    assert len(ours) <= 256
    assert "access-token-299" in ours
