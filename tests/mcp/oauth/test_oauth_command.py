"""The commands for a login keep the tokens where other commands find them."""

import argparse
import re
import threading

import pytest
from support.threads import LONG

from syncagent.cancel import CancelToken
from syncagent.cli import mcp_login
from syncagent.exceptions import ConfigurationError
from syncagent.mcp.oauth import FileTokens, OAuth


def parsed(add_arguments, *arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def refuse(name):
    raise ConfigurationError(f"no server {name!r}")


def test_login_and_logout(server, person, get, capsys, monkeypatch):
    """The address goes to standard error; a service then needs no person."""
    monkeypatch.setattr("webbrowser.open", person)
    options = parsed(mcp_login.add_login_arguments, "files", "--scope", "a b")
    find = {"files": server.url}.__getitem__
    assert mcp_login.run_login(options, CancelToken(timeout=20), find_url=find) == 0
    shown = capsys.readouterr()
    assert "Logged in" in shown.out
    assert "/as/authorize?" in shown.err
    assert server.authorizations[0]["scope"] == "a b"
    auth = OAuth(open_browser=False, tokens=FileTokens.default())
    assert get(auth) == 200
    options = parsed(mcp_login.add_logout_arguments, server.url)
    for expected in ("Logged out", "no tokens"):
        mcp_login.run_logout(options, CancelToken(timeout=20), find_url=refuse)
        assert expected in capsys.readouterr().out


def test_without_a_browser_the_address_is_enough(server, person, capfd):
    """A person may open it anywhere on this machine."""
    options = parsed(mcp_login.add_login_arguments, server.url, "--no-browser")
    done = threading.Event()

    def log_in():
        mcp_login.run_login(options, CancelToken(timeout=20), find_url=refuse)
        done.set()

    thread = threading.Thread(target=log_in)
    thread.start()
    shown = ""
    while not (found := re.search(r"http\S+/authorize\S+", shown)) and not done.wait(
        0.01
    ):
        shown += capfd.readouterr().err
    person(found[0])
    thread.join(LONG)
    assert done.is_set()


def test_a_server_that_needs_no_login_is_told(server):
    """Without a page, without a registration."""
    server.documents.clear()
    server.answers["/mcp"] = lambda handler, _: handler.send(200, {})
    options = parsed(mcp_login.add_login_arguments, server.url)
    with pytest.raises(ConfigurationError, match="does not ask"):
        mcp_login.run_login(options, CancelToken(timeout=20), find_url=refuse)


@pytest.mark.parametrize("target", ["ftp://x/y", "nobody"])
def test_only_servers_over_http_have_logins(target):
    """A name is looked up, a URL is not."""
    options = parsed(mcp_login.add_login_arguments, target)
    with pytest.raises(ConfigurationError):
        mcp_login.run_login(options, CancelToken(), find_url=refuse)
