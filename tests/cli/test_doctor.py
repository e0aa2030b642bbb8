"""``syncagent doctor``: what it finds, and what it never shows."""

import signal
from importlib.metadata import requires

import msgspec
import pytest
from shell import read_until
from support.commands import KEY, start

from syncagent import CancelToken
from syncagent.cli.choices import has_local_model
from syncagent.cli.doctor.environment import check_models, mask
from syncagent.cli.doctor.live_checks import check_model
from syncagent.cli.formatting import address_text
from syncagent.cli.main import main
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.local import INSTALL, local_server
from syncagent.testing import FakeServer, Stall, Status, say

SECRETS = ("pass word", "s3cret", "short")


@pytest.fixture(scope="module")
def local_model():
    """The local model's server, if there is one, is there before a test begins."""
    if has_local_model():
        local_server()


@pytest.fixture
def alone(monkeypatch):
    """An environment in which nothing is set that a model needs."""
    for endpoint in ENDPOINTS.values():
        for name in (*endpoint.key_variables, *endpoint.url_variables):
            monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


@pytest.mark.slow
def test_all_is_well(alone, capsys, local_model):
    """Packages, processes and a model are tried for real; code 0, and all is told."""
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for part in ("msgspec", "urllib3", "[local]", "tool process", "an endless loop"):
        assert part in said
    assert "answers: " in said
    assert said.endswith("No problems.\n")


def test_no_key_is_shown(alone):
    """Four characters of a long key, none of a short one, no password of a URL."""
    alone.setenv("OPENAI_API_KEY", KEY)
    alone.setenv("GROQ_API_KEY", "short")
    alone.setenv("OLLAMA_BASE_URL", "http://user:s3cret@192.0.2.1/v1?key=s3cret")
    alone.setenv("HTTPS_PROXY", "http://me:pass word@proxy:3128")
    found = {finding.name: finding for finding in check_models()}
    shown = str(list(found.values()))
    assert found["openai"].value == "OPENAI_API_KEY=...last"
    assert found["groq"].value == "GROQ_API_KEY=(set)"
    assert KEY[:-4] not in shown
    assert not [secret for secret in SECRETS if secret in shown]
    assert "192.0.2.1/v1" in found["ollama"].value
    assert "proxy:3128" in found["HTTPS_PROXY"].value


@pytest.mark.parametrize("key", ["k", "x" * 19, "x" * 19 + "abcd"])
def test_masked(key):
    """Never more than the last four characters."""
    assert mask(key) == ("...abcd" if len(key) > 20 else "(set)")


@pytest.mark.parametrize("key", [f'"{KEY}"', f"{KEY}\u200b", f"{KEY} {KEY}"])
def test_a_key_that_cannot_be_right(key, alone):
    """Quotes, blanks and invisible characters are found."""
    alone.setenv("OPENAI_API_KEY", key)
    found = {finding.name: finding for finding in check_models()}
    assert found["openai"].status == "problem"
    assert "set OPENAI_API_KEY to the key alone" in found["openai"].advice


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a:b@c@host:1/p?q=1", "http://***@host:1/p"),
        ("a:b@host:1", "***@host:1"),
        ("https://host/v1", "https://host/v1"),
        ("https://host:80/run/@cf/meta", "https://host:80/run/@cf/meta"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("https://token@host/v1", "https://***@host/v1"),
        ("https://a:p/w?x@host/v1", "https://***@host/v1"),
        ("https://a:b@gw/https://host/v1", "https://***@gw/https://host/v1"),
        ("https://gw/https://a:b@host/v1?k=b", "https://gw/https://***@host/v1"),
        ("https://gw:80/p/https://b@host/", "https://gw:80/p/https://***@host/"),
        ("https://a:b@gw/https://a:b@host", "https://***@gw/https://***@host"),
        ("https://a:b://b@host/v1", "https://***@://***@host/v1"),
    ],
)
def test_addresses_without_passwords(url, shown):
    """L5: whatever is before a host is not shown, also in an address in an address."""
    assert address_text(url) == shown


def test_no_command_shows_a_password_of_an_address(alone, capsys):
    """L5: neither of the first address, nor of one inside of it."""
    alone.setenv("OLLAMA_BASE_URL", "http://me:s3cret@192.0.2.1/http://me:s3cret@b/v1")
    alone.setenv("ANTHROPIC_BASE_URL", "http://me:s3cret@192.0.2.2")
    assert main(["models"]) == 0
    for shown in (capsys.readouterr().out, str(list(check_models()))):
        assert "s3cret" not in shown
        assert "192.0.2.1" in shown


@pytest.mark.parametrize(
    ("reply", "status", "said"),
    [
        (say("Hello\x1b[2J."), "ok", "answers: 'Hello"),
        (say("", acts=[Status(401)]), "problem", "check the key in"),
        (say("", acts=[Stall()]), "problem", "no complete response in 0.5 seconds"),
    ],
    ids=["answers", "refuses", "stalls"],
)
def test_whether_a_model_answers(reply, status, said, alone):
    """One that is named is asked, for a bounded time; what it says is harmless."""
    with FakeServer([reply]) as server:
        alone.setenv("OPENAI_API_KEY", KEY)
        alone.setenv("OPENAI_BASE_URL", server.base_url)
        (finding,) = check_model("openai-chat:x", 0.5, CancelToken())
    assert finding.status == status
    assert said in finding.value
    assert "\x1b" not in finding.value
    assert KEY not in finding.value


def test_a_problem_is_told_to_the_shell(alone, capsys):
    """A model that does not answer is a problem: code 1, and it is named at the end."""
    assert main(["doctor", "--model", "anthropic:x"]) == 1
    out = capsys.readouterr().out
    assert "set ANTHROPIC_API_KEY" in out
    assert out.endswith("Problems: anthropic:x.\n")


def test_ctrl_c_while_a_model_is_asked():
    """It ends at once, with code 130."""
    with FakeServer([say("", acts=[Stall()])]) as server:
        line = ("doctor", "--model", "openai-chat:x")
        with start(*line, server=server) as process:
            read_until(process.stdout, "answers\n")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, "syncagent: cancelled")


@pytest.mark.slow
def test_a_report_for_programs(alone, capsys):
    """--json is one object that says whether all is well."""
    assert main(["doctor", "--json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert report["ok"] is True
    assert {"installed", "models", "terminal", "processes", "answers"} < report.keys()


def test_the_command_for_the_local_model_is_that_of_setup_py():
    """What is told to install is what the extra asks for."""
    pins = [
        line.split(";")[0].strip() for line in requires("syncagent") if "local" in line
    ]
    assert sorted(INSTALL.split()[3:]) == sorted(pins)
