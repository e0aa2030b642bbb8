"""Pages of other origins, and other host names, are refused."""

import pytest
from support.web.runs import make_runs

from syncagent.exceptions import ConfigurationError
from syncagent.integrations.web.errors import Refused
from syncagent.integrations.web.origins import TrustedHosts, TrustedOrigins
from syncagent.integrations.web.views import Views, WebRequest

HOST = "app.example.com"
TRUSTED = ["https://partner.example.org", "https://*.sub.example.com"]


def is_allowed(trusted=(), *, fetch_site="", origin="", host=HOST):
    try:
        TrustedOrigins(trusted).check(fetch_site=fetch_site, origin=origin, host=host)
    except Refused as error:
        return (error.status, error.code) != (403, "cross_site")
    return True


@pytest.mark.parametrize(
    ("fetch_site", "allowed"),
    [
        ("same-origin", True),
        ("none", True),
        (" Same-Origin ", True),
        ("same-site", False),
        ("cross-site", False),
        ("same-origin, cross-site", False),
        ("anything", False),
    ],
)
@pytest.mark.parametrize("origin", ["", "https://app.example.com"])
def test_what_the_browser_says(fetch_site, origin, allowed):
    """L7: only the application's own pages, and the user, may change something."""
    assert is_allowed(fetch_site=fetch_site, origin=origin) == allowed


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("", HOST, True),  # a program, and no browser
        ("https://app.example.com", HOST, True),
        ("HTTP://App.Example.COM", HOST, True),
        ("https://app.example.com", HOST + ":443", True),
        ("http://app.example.com:8000", HOST + ":8000", True),
        ("http://app.example.com:8000", HOST + ":8001", False),
        ("https://other.example.com", HOST, False),
        ("https://evil.example", HOST, False),
        ("https://app.example.com.evil.example", HOST, False),
        ("null", HOST, False),
        ("null", "", False),
        ("https://", "", False),
        ("http://app.example.com", HOST + ":443", False),
    ],
)
def test_without_a_word_of_the_browser(origin, host, allowed):
    """L7: without Sec-Fetch-Site, Origin has to be the host of the request."""
    assert is_allowed(origin=origin, host=host) == allowed


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://partner.example.org", True),
        ("http://partner.example.org", False),
        ("https://partner.example.org:8443", False),
        ("https://a.sub.example.com", True),
        ("https://sub.example.com", False),
        ("https://evilsub.example.com", False),
        ("null", False),
    ],
)
@pytest.mark.parametrize("fetch_site", ["", "same-site", "cross-site"])
def test_trusted_origins(origin, fetch_site, allowed):
    """L7: an application may trust pages of other origins."""
    assert is_allowed(TRUSTED, fetch_site=fetch_site, origin=origin) == allowed


@pytest.mark.parametrize(
    "origins", ["https://a.example", ["a.example"], ["https://"], [""], ["http://a/b"]]
)
def test_what_is_no_origin(origins):
    """A setting that cannot work is refused at once."""
    with make_runs() as runs, pytest.raises(ConfigurationError, match="trusted_origin"):
        Views(runs, lambda request, start: None, trusted_origins=origins)


@pytest.mark.parametrize("view", ["start", "cancel", "answer"])
def test_every_change(view):
    """L7: a sibling site can do none of the three, with no body and no type at all."""
    with make_runs() as runs:
        views = Views(runs, lambda request, start: None)
        request = WebRequest(
            original="anna", fetch_site="same-site", origin="https://b.example.com"
        )
        response = getattr(views, view)(request, *([] if view == "start" else ["x"]))
        assert response.status == 403
        assert b"cross_site" in response.body


# -- host names --------------------------------------------------------------------


def is_known(host, hosts=(), client="127.0.0.1"):
    environ = {"HTTP_HOST": host, "REMOTE_ADDR": client}
    try:
        TrustedHosts(hosts).check(environ)
    except Refused as error:
        return (error.status, error.code) != (403, "untrusted_host")
    return True


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost:8000", True),
        ("LOCALHOST", True),
        ("agent.localhost", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("192.168.1.2", True),
        ("", True),  # a program that speaks HTTP/1.0
        ("evil.example:8000", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("[", False),
    ],
)
@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_rebinding(host, known, client):
    """L16: a name that a site has pointed at this machine does not open its server."""
    assert is_known(host, client=client) == known


@pytest.mark.parametrize("client", ["203.0.113.9", "", "unix:"])
def test_clients_elsewhere(client):
    """Without a list, any name will do for clients on other machines."""
    assert is_known("agents.example.com", client=client)


@pytest.mark.parametrize("client", ["203.0.113.9", "127.0.0.1"])
def test_a_list_of_names(client):
    """L16: with a list only its names are known, and addresses."""
    hosts = ["agents.example.com", ".example.org"]
    assert is_known("Agents.example.com.:443", hosts, client)
    assert is_known("example.org", hosts, client)
    assert is_known("a.b.example.org", hosts, client)
    assert is_known("127.0.0.1", hosts, client)
    assert not is_known("notexample.org", hosts, client)
    assert not is_known("evil.example", hosts, client)


def test_a_list_that_is_none():
    """A single string would be a list of letters."""
    with pytest.raises(ConfigurationError, match="trusted_hosts"):
        TrustedHosts("agents.example.com")


def test_a_rebound_name(gthread, fake):
    """L16: a plain application refuses every request under a strange name."""
    for method, path in (("GET", "/runs"), ("POST", "/runs"), ("GET", "/runs/x")):
        status, body = gthread.ask(method, path, Host="evil.example")
        assert (status, b"untrusted_host" in body) == (403, True)
    assert gthread.ask("GET", "/runs")[0] == 200
