"""Proxies, certificates and credentials, as users of requests expect them, and safe."""

import pytest
import requests
from harness import new_id, send_again
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from support.threads import together

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import ConfigurationError
from syncagent.transport import CancellableAdapter, Transport
from syncagent.transport.routes import Routes


def known(transport, url, **options):
    """Return what the server knows about a request."""
    return transport.post(url, json={}, **options).json()


# -- proxies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "proxy"), [("http", "http"), ("https", "http"), ("https", "https")]
)
def test_a_proxy_by_argument(server, certificates, scheme, proxy):
    """Forwarded in clear, tunnelled with TLS, also with TLS to the proxy itself."""
    transport = Transport(verify=certificates.authority, proxies=server.proxies(proxy))
    seen = known(transport, server.url("echo", scheme))
    assert seen["target"].startswith("http://" if scheme == "http" else "/echo")


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_proxy_by_environment(server, certificates, monkeypatch, name):
    """Found when it is set, forgotten when it is not."""
    transport = Transport(verify=certificates.authority, retries=0)
    url = server.url("echo", "https")
    known(transport, url)
    monkeypatch.setenv(name, "http://127.0.0.1:1")
    with pytest.raises(ConnectionError, match="the proxy could not be used"):
        known(transport, url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    known(transport, url)
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv(name, server.proxies()["http"])
    known(transport, url)
    monkeypatch.delenv(name)
    known(transport, url)


def test_an_argument_counts_more_than_the_environment(
    server, certificates, monkeypatch
):
    """What was asked for is used, whatever the environment says."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    transport = Transport(verify=certificates.authority, proxies=server.proxies())
    known(transport, server.url("echo", "https"))
    session = requests.Session()
    session.verify, session.proxies = certificates.authority, server.proxies()
    known(Transport(session=session), server.url("echo", "https"))


def test_the_environment_can_be_left_out(server, monkeypatch):
    """trust_env=False means that nothing in it counts."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    known(Transport(trust_env=False), server.url("echo"))


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "SOCKS5H://u:p@127.0.0.1:9"])
def test_socks_is_refused(server, monkeypatch, proxy):
    """Rather than used and not to be cancelled; and its password is not shown."""
    with pytest.raises(ConfigurationError, match="SOCKS") as error:
        known(Transport(proxies={"http": proxy}), server.url("echo"))
    assert "u:p@" not in str(error.value)
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConfigurationError, match="NO_PROXY"):
        known(Transport(), server.url("echo"))


# -- certificates ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_an_authority_by_environment(server, certificates, monkeypatch, name):
    """As requests and curl have it."""
    transport = Transport(retries=0)
    monkeypatch.setenv(name, certificates.authority)
    known(transport, server.url("echo", "https"))
    monkeypatch.delenv(name)
    with pytest.raises(ConnectionError, match="not trusted"):
        known(transport, server.url("echo", "https"))


def test_a_client_certificate(server, certificates):
    """The server that wants one gets it, and only from who has it."""
    url = f"https://127.0.0.1:{server.ports['strict']}/echo"
    transport = Transport(verify=certificates.authority, cert=certificates.client)
    assert "me@example.org" in known(transport, url)["certificate"]
    with pytest.raises(ConnectionError):
        known(Transport(verify=certificates.authority, retries=0), url)


@pytest.mark.parametrize("setting", [{"verify": "/nowhere"}, {"cert": "/nowhere"}])
def test_files_that_are_not_there(server, setting):
    """It is said which."""
    with pytest.raises(ConfigurationError, match="/nowhere"):
        known(Transport(**setting), server.url("echo", "https"))


# -- credentials -----------------------------------------------------------------------


class Key(AuthBase):
    def __call__(self, request):
        request.headers["x-api-key"] = "the key"
        return request


def test_netrc_never_replaces_a_key(server, monkeypatch, tmp_path):
    """Not if there is a key, and not if there is none."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert requests.post(server.url("echo"), timeout=20).json()["headers"][
        "authorization"
    ]
    for options, expected in (
        ({"headers": {"Authorization": "Bearer k"}}, "Bearer k"),
        ({}, None),
        ({"auth": Key()}, None),
    ):
        # An address that no other test has asked for; it would be known already.
        url = server.url("echo", id=new_id())
        seen = known(Transport(), url, **options)["headers"]
        assert seen.get("authorization") == expected
    assert seen["x-api-key"] == "the key"


def test_credentials_as_requests_takes_them(server):
    """A pair, something callable, or what a session has."""
    basic = "Basic bWU6c2VjcmV0"
    url = server.url("echo")
    assert (
        known(Transport(), url, auth=("me", "secret"))["headers"]["authorization"]
        == basic
    )
    session = requests.Session()
    session.auth = ("me", "secret")
    assert known(Transport(session=session), url)["headers"]["authorization"] == basic


def test_credentials_are_asked_for_again_at_every_attempt(server):
    """A key that expires between two attempts is no problem."""
    keys = iter(["old", "new"])

    def renew(request):
        request.headers["x-api-key"] = next(keys)
        return request

    url = server.url("turns/1/status/503/length/end/then/echo", id="renewed")
    transport = Transport(retries=1)
    assert known(transport, url, auth=renew)["headers"]["x-api-key"] == "new"


# -- a session of the user's -----------------------------------------------------------


def test_a_session_with_its_settings(server):
    """Headers, cookies, parameters and hooks are honoured; cookies are not kept."""
    session, seen = requests.Session(), []
    session.headers["X-Mine"] = "yes"
    session.cookies["biscuit"] = "1"
    session.params["p"] = "q"
    session.hooks["response"].append(lambda response, **_: seen.append(response))
    transport = Transport(session=session)
    reply = transport.post(server.url("echo", **{"Set-Cookie": "a=b"}), json={})
    assert reply.json()["headers"]["x-mine"] == "yes"
    assert reply.json()["headers"]["cookie"] == "biscuit=1"
    assert "p=q" in reply.json()["target"]
    assert [response.status_code for response in seen] == [200]
    assert session.cookies.keys() == ["biscuit"]
    session.headers["X-Mine"] = "changed"
    assert known(transport, server.url("echo"))["headers"]["x-mine"] == "changed"


def test_a_hook_that_sends_the_request_again(server):
    """As digest authentication does; the answer to that is the answer, and it ends."""
    session, token = requests.Session(), CancelToken()
    session.hooks["response"].append(send_again)
    transport = Transport(session=session, retries=0)
    url = server.url("turns/1/status/401/length/end/then/chunked/e/end", id="again")
    assert len(list(transport.stream(url, json={}))) == 1

    def call():
        url = server.url("turns/1/status/401/length/end/then/silent", id="hooked")
        with pytest.raises(Cancelled):
            transport.post(url, token=token, json={})

    together(call, lambda: (server.wait_for(reached="hooked"), token.cancel()))
    server.wait_for(gone="hooked")


class Foreign(HTTPAdapter):
    pass


@pytest.mark.parametrize("adapter", [Foreign(), HTTPAdapter(max_retries=3)])
def test_a_session_that_could_not_be_cancelled_is_refused(server, adapter):
    """Never silently uncancellable; the error says what to derive from."""
    session = requests.Session()
    session.mount("http://", adapter)
    with pytest.raises(ConfigurationError, match="CancellableAdapter"):
        known(Transport(session=session), server.url("echo"))


def test_a_session_with_an_adapter_of_ours(server):
    """Derived from ours it is used, with its own connections."""

    class Mine(CancellableAdapter):
        used = 0

        def send(self, request, **options):
            self.used += 1
            return super().send(request, **options)

    session, adapter = requests.Session(), Mine()
    session.mount("http://", adapter)
    known(Transport(session=session), server.url("echo"))
    assert adapter.used == 1
    adapter.close()


@pytest.mark.parametrize("setting", [{"max_retries": 1}, {"pool_block": True}])
def test_settings_that_would_wait_without_the_token(setting):
    """An adapter with waits of its own is refused."""
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        CancellableAdapter(**setting)


def test_settings_of_a_session_are_set_there():
    """One place for each setting."""
    with pytest.raises(ConfigurationError, match="set them there"):
        Transport(session=requests.Session(), verify="/path")


# -- safe ways -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "http://10.0.0.1/",
        "http://localhost.example.org/",
        "http://x.localhost/",
    ],
)
def test_nothing_goes_in_clear_beyond_this_machine(url):
    """Plain http needs permission; L16: x.localhost is a name, and no address."""
    with pytest.raises(ConfigurationError, match="in clear"):
        known(Transport(), url)


def test_nor_through_a_proxy(server):
    """A proxy elsewhere would read what is meant for this machine."""
    for proxy in ("http://proxy.example:3128", "https://proxy.example:3128"):
        with pytest.raises(ConfigurationError, match=r"proxy\.example:3128 would read"):
            known(Transport(proxies={"http": proxy}), server.url("echo"))


def test_with_permission_it_does(server):
    """Then it is sent as asked."""
    transport = Transport(
        allow_insecure=True,
        resolver=lambda host, port, family, kind: [(2, 1, 6, "", ("127.0.0.1", port))],
    )
    url = f"http://model.example:{server.ports['http']}/echo"
    assert known(transport, url)["headers"]["host"].startswith("model.example")


def test_certificates_are_always_checked(server):
    """To check none needs permission, too, and warns even then."""
    url = server.url("echo", "https")
    with pytest.raises(ConfigurationError, match="verify=False"):
        known(Transport(verify=False), url)
    with pytest.warns(match="Unverified HTTPS request"):
        known(Transport(verify=False, allow_insecure=True), url)


@pytest.mark.parametrize("host", ["localhost", "127.8.9.1", "[::1]", "LOCALHOST"])
def test_this_machine_has_many_names(host):
    """All of them may be used in clear."""
    routes = Routes(requests.Session(), is_private=False, allow_insecure=False)
    assert routes.find(f"http://{host}:80/")["verify"] is True


# -- what is kept ----------------------------------------------------------------------


def test_what_is_kept_stays_small(server):
    """Many addresses do not fill the memory."""
    transport = Transport(proxies={"http": server.proxies()["http"]})
    for number in range(150):
        known(transport, server.url("echo", n=number))
    assert len(transport._settings._blanks) <= 100
