"""Every mistake of a server ends the login before a secret goes anywhere."""

import pytest
from support.auth_server import AS, PRM

from syncagent.exceptions import (
    MCPAuthRequired,
    MCPError,
    MCPProtocolError,
    MCPServerLost,
)
from syncagent.mcp.oauth import OAuth

#: Metadata of the authorization server that must not be used, and the complaint.
WRONG_METADATA = {
    "another issuer": ({"issuer": "https://evil.example"}, "is of another one"),
    "issuer with a slash": ({"issuer": "{issuer}/"}, "is of another one"),
    "no issuer": ({"issuer": None}, "is of another one"),
    "no S256": ({"code_challenge_methods_supported": ["plain"]}, "S256"),
    "no PKCE": ({"code_challenge_methods_supported": None}, "S256"),
    "javascript": ({"authorization_endpoint": "javascript:alert(1)"}, "not an https"),
    "file": ({"authorization_endpoint": "file:///etc/passwd"}, "not an https"),
    "an option": ({"authorization_endpoint": "--help"}, "not an https"),
    "a space": ({"authorization_endpoint": "https://a.example/ -x"}, "characters"),
    "plain http": ({"token_endpoint": "http://a.example/token"}, "without encryption"),
    "credentials": ({"token_endpoint": "https://u:p@a.example/"}, "a password"),
    "a number": ({"token_endpoint": 5}, "not a URL"),
    "no token endpoint": ({"token_endpoint": None}, "no token_endpoint"),
    "plain registration": (
        {"registration_endpoint": "http://10.0.0.1/"},
        "without encryption",
    ),
}


@pytest.mark.parametrize("mistake", WRONG_METADATA)
def test_wrong_metadata_stops_the_login(server, auth, person, get, mistake):
    """No page is shown, no code is sent."""
    change, complaint = WRONG_METADATA[mistake]
    for name, value in change.items():
        is_text = isinstance(value, str)
        server.metadata[name] = value.format(issuer=server.issuer) if is_text else value
    with pytest.raises(MCPProtocolError, match=complaint):
        get(auth)
    assert person.pages == []
    assert server.forms == []


@pytest.mark.parametrize(
    "resource",
    [None, "https://evil.example/mcp", "{base}/mc", "{base}/mcp/more", "mcp", 7],
)
def test_a_token_for_another_resource_is_not_wanted(
    server, auth, person, get, resource
):
    """The resource is the server itself, or lies above it on the same origin."""
    is_text = isinstance(resource, str)
    server.resource["resource"] = (
        resource.format(base=server.base) if is_text else resource
    )
    with pytest.raises(MCPProtocolError, match="another resource"):
        get(auth)
    assert person.pages == []


def test_a_resource_above_the_server_is_sent_as_it_is_written(server, auth, get):
    """Character by character."""
    server.resource["resource"] = f"{server.base}/"
    assert get(auth) == 200
    assert server.authorizations[0]["resource"] == f"{server.base}/"


@pytest.mark.parametrize("issuers", [[], ["http://a.example"], [5], "x", None])
def test_an_authorization_server_must_be_named_and_safe(server, auth, get, issuers):
    """Else there is nothing to ask."""
    server.resource["authorization_servers"] = issuers
    with pytest.raises(MCPProtocolError, match="the authorization server"):
        get(auth)


@pytest.mark.parametrize(
    ("is_promised", "iss", "is_fine"),
    [
        (True, "{issuer}", True),
        (False, None, True),
        (False, "{issuer}", True),
        (True, None, False),
        (True, "https://evil.example", False),
        (False, "https://evil.example", False),
        (True, "{issuer}/", False),
    ],
)
def test_the_server_that_answers_must_be_the_one_that_was_asked(
    server, auth, get, is_promised, iss, is_fine
):
    """RFC 9207, without normalizing; the code is not sent to anyone."""
    server.metadata["authorization_response_iss_parameter_supported"] = is_promised
    server.redirect_fields = {"iss": iss and iss.format(issuer=server.issuer)}
    if is_fine:
        assert get(auth) == 200
        return
    with pytest.raises(MCPProtocolError, match="iss"):
        get(auth)
    assert server.forms == []


@pytest.mark.parametrize("path", [PRM, AS, "/as/register", "/as/token"])
def test_redirects_are_not_followed(server, auth, get, path):
    """A code or a secret goes where it was meant to go, or nowhere."""
    place = {"Location": f"{server.base}/elsewhere"}
    server.answers[path] = lambda handler, _: handler.send(307, {}, place)
    with pytest.raises(MCPProtocolError, match="cannot be used"):
        get(auth)
    assert server.count("/elsewhere") == 0


@pytest.mark.parametrize("path", [PRM, AS, "/as/register", "/as/token"])
def test_giant_responses_are_not_read(server, auth, get, path):
    """More than a mebibyte is refused."""
    server.answers[path] = lambda handler, _: handler.send(200, b" " * (1 << 21))
    with pytest.raises(MCPProtocolError, match="cannot be used"):
        get(auth)


@pytest.mark.parametrize("path", [PRM, AS, "/as/token"])
def test_a_server_in_trouble_is_told_from_one_without_metadata(server, auth, get, path):
    """A status of 503 is no verdict."""
    server.answers[path] = lambda handler, _: handler.send(503, {})
    with pytest.raises(MCPServerLost, match="503"):
        get(auth)


def test_a_server_that_is_not_there_is_an_error(server, auth, get):
    """With the place that could not be reached."""
    server.metadata["registration_endpoint"] = "http://127.0.0.1:1/register"
    with pytest.raises(MCPServerLost, match="the registration endpoint"):
        get(auth)


def test_an_authorization_server_without_metadata_is_an_error(server, auth, get):
    """All usual places are tried first."""
    del server.documents[AS]
    with pytest.raises(MCPProtocolError, match="no metadata"):
        get(auth)
    assert len([path for path in server.paths if "/as" in path]) == 3


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"client_id": 5}']
)
def test_a_strange_registration_is_an_error(server, auth, get, body):
    """With the way out: an id that was registered by hand."""
    server.answers["/as/register"] = lambda handler, _: handler.send(201, body)
    with pytest.raises(MCPAuthRequired, match="client_id="):
        get(auth)


def test_without_a_registration_an_id_is_needed(server, auth, get):
    """The message says which argument takes it."""
    del server.metadata["registration_endpoint"]
    with pytest.raises(MCPAuthRequired, match="client_id="):
        get(auth)


@pytest.mark.parametrize(
    "fields",
    [
        {"access_token": "a\r\nX-Evil: 1"},
        {"access_token": "a b"},
        {"access_token": ""},
        {"access_token": 7},
        {"access_token": "x" * 20_000},
        {"token_type": "mac"},
        {"refresh_token": ["r"]},
    ],
)
def test_a_token_that_cannot_be_used_is_an_error(server, auth, get, fields):
    """It never reaches a header."""
    server.token_fields = fields
    server.has_refresh = "refresh_token" not in fields and server.has_refresh
    if "access_token" in fields or "refresh_token" in fields:
        answer = {"access_token": "good-token", "token_type": "Bearer", **fields}
        server.answers["/as/token"] = lambda handler, _: handler.send(200, answer)
    with pytest.raises(MCPError, match="the token endpoint"):
        get(auth)
    assert server.count("/mcp") == 1


@pytest.mark.parametrize("life", ["3600", None, "soon", -5, 1e300, True])
def test_a_strange_life_of_a_token_does_no_harm(server, auth, get, life):
    """It is used until the server refuses it."""
    server.token_fields = {"token_type": "bearer", "expires_in": life}
    assert get(auth) == 200


def test_a_registration_that_was_forgotten_is_made_anew(server, auth, get):
    """invalid_client at the token endpoint drops the id."""
    refuse = lambda handler, _: handler.send(401, {"error": "invalid_client"})  # noqa: E731
    server.answers["/as/token"] = refuse
    with pytest.raises(MCPAuthRequired, match="invalid_client"):
        get(auth)
    del server.answers["/as/token"]
    assert get(auth) == 200
    assert len(server.registrations) == 2


def test_a_public_server_does_not_lead_into_the_private_network(server, get, person):
    """Unless the user says so."""
    from syncagent.cancel import CancelToken
    from syncagent.mcp.oauth.addresses import Reach
    from syncagent.mcp.oauth.fetching import Fetcher

    token = CancelToken(timeout=20)
    fetcher = Fetcher("https://8.8.8.8/mcp")
    for url in (
        f"{server.base}/x",
        "https://10.0.0.1/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:192.168.0.1]/x",
        "https://localhost/x",
    ):
        with pytest.raises(MCPProtocolError, match="allow_private"):
            fetcher.get(url, "the metadata", token)
    assert server.paths == []
    trusted = Fetcher("https://8.8.8.8/mcp", allow_private=True)
    assert trusted.get(f"{server.base}/x", "it", token).status == 404
    with pytest.raises(MCPProtocolError, match="allow_private"):
        trusted.get("https://169.254.169.254/", "the metadata", token)
    assert Fetcher("https://192.168.0.1/")._reach(token) is Reach.PRIVATE
    assert Fetcher("http://localhost:1/")._reach(token) is Reach.LOCAL


def test_a_caller_with_a_transport_is_protected_as_well(server):
    """The addresses are looked up before the request."""
    from syncagent.cancel import CancelToken
    from syncagent.mcp.oauth.fetching import Fetcher
    from syncagent.transport import Transport

    fetcher = Fetcher("https://8.8.8.8/mcp", transport=Transport())
    with pytest.raises(MCPProtocolError, match="allow_private"):
        fetcher.get(f"{server.base}/x", "the metadata", CancelToken(timeout=20))


def test_behind_a_proxy_numeric_addresses_are_checked(monkeypatch):
    """It looks names up itself; its own address is the user's choice."""
    from syncagent.cancel import CancelToken
    from syncagent.mcp.oauth.fetching import Fetcher

    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    fetcher, token = Fetcher("https://mcp.example/"), CancelToken(timeout=20)
    with pytest.raises(MCPProtocolError, match="allow_private"):
        fetcher.get("https://10.0.0.1/x", "the metadata", token)
    with pytest.raises(MCPServerLost, match="proxy"):
        fetcher.get("https://auth.example/x", "the metadata", token)


def test_a_server_without_encryption_gets_no_login(person):
    """Tokens would be readable on the way; this machine is an exception."""
    from syncagent.cancel import CancelToken

    auth = OAuth(open_browser=person)
    with pytest.raises(MCPProtocolError, match="without encryption"):
        auth.handle("http://192.0.2.1/mcp", 401, {}, CancelToken(timeout=20), used={})
