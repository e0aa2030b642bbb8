"""A server that wants a login gets one, and its tokens are kept valid."""

import json
import time

import msgspec
import pytest
from support.auth_server import AS, PRM, AuthServer, Person, call

from syncagent.cancel import CancelToken
from syncagent.exceptions import ConfigurationError, MCPAuthRequired, MCPTimedOut
from syncagent.mcp.oauth import Authorizer, ClientCredentials, MemoryTokens, OAuth
from syncagent.mcp.oauth.tokens import Grant
from syncagent.transport import Transport


def entry(tokens, server):
    return json.loads(tokens.load(f"grant {server.url}"))


def change(tokens, server, **fields):
    """Change the kept tokens, as time or another process would."""
    grant = msgspec.json.decode(tokens.load(f"grant {server.url}"), type=Grant)
    new = msgspec.structs.replace(grant, **fields)
    tokens.save(f"grant {server.url}", msgspec.json.encode(new).decode())


def test_a_401_is_answered_by_one_login(server, auth, person, get):
    """The request succeeds, and the next one needs no login."""
    assert get(auth) == 200
    assert get(auth) == 200
    assert len(person.pages) == 1
    assert person.shown[0][0] == 200
    assert "close this window" in person.shown[0][1]


def test_it_is_an_authorizer(auth):
    """A connection tells it from credentials of requests."""
    assert isinstance(auth, Authorizer)
    assert not isinstance(("name", "password"), Authorizer)


def test_the_requests_carry_what_the_specification_wants(server, auth, get):
    """PKCE, state, the resource as published, and no secret for a public client."""
    get(auth)
    asked, form = server.authorizations[0], server.forms[0]
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == form["resource"] == server.url
    assert asked["redirect_uri"] == form["redirect_uri"]
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    assert "scope" not in asked
    assert form["client_id"] == "client-1"
    assert form["authorization"] is None
    assert server.registrations[0]["application_type"] == "native"


def test_a_login_works_over_tls(tmp_path, monkeypatch):
    """All requests trust the CA bundle of the environment, as in requests."""
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    ca, cert, key = (str(tmp_path / name) for name in ("ca", "cert", "key"))
    authority.cert_pem.write_to_path(ca)
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", ca)
    with AuthServer((cert, key)) as server:
        auth, token = OAuth(open_browser=Person(verify=ca)), CancelToken(timeout=20)
        assert call(auth, server.url, token, Transport()) == 200
        monkeypatch.delenv("REQUESTS_CA_BUNDLE")
        other = OAuth(open_browser=Person(verify=ca), transport=Transport(verify=ca))
        assert call(other, server.url, token, Transport(verify=ca)) == 200


@pytest.mark.parametrize(
    ("challenge", "resource", "expected"),
    [
        ("a b", ["x"], "a b"),
        ("", ["x", "y"], "x y"),
        ("", None, None),
    ],
)
def test_scopes_come_from_the_challenge_or_the_resource(
    server, auth, get, challenge, resource, expected
):
    """The challenge decides, then the metadata, then nobody."""
    if challenge:
        server.challenge += f', scope="{challenge}"'
    server.resource["scopes_supported"] = resource
    get(auth)
    assert server.authorizations[0].get("scope") == expected


def test_offline_access_is_asked_for_where_it_is_offered(server, auth, get):
    """Beside other scopes, and with the consent that OpenID wants for it."""
    server.metadata["scopes_supported"] = ["a", "offline_access"]
    server.challenge += ', scope="a"'
    get(auth)
    assert server.authorizations[0]["scope"] == "a offline_access"
    assert server.authorizations[0]["prompt"] == "consent"


@pytest.mark.parametrize(
    "place",
    [
        "/.well-known/oauth-authorization-server/as",
        "/.well-known/openid-configuration/as",
        "/as/.well-known/openid-configuration",
    ],
)
def test_server_metadata_is_found_at_each_place(server, auth, get, place):
    """OAuth first, OpenID second, in both of its forms."""
    server.documents[place] = server.documents.pop(AS)
    assert get(auth) == 200


def test_resource_metadata_is_found_without_a_challenge(server, auth, get):
    """With the path first, and then without it, past a page with status 200."""
    server.challenge = "Bearer"
    server.documents["/.well-known/oauth-protected-resource"] = server.documents.pop(
        PRM
    )
    server.answers[PRM] = lambda handler, _: handler.send(200, b"<html>an app</html>")
    assert get(auth) == 200
    wanted = [path for path in server.paths if "protected" in path]
    assert wanted == [PRM, "/.well-known/oauth-protected-resource"]


def test_a_server_of_2025_03_26_is_its_own_issuer(server, auth, get):
    """Without any metadata the endpoints are at its root."""
    server.challenge = "Bearer"
    server.documents.clear()
    for name in ("authorize", "token", "register"):
        server.answers[f"/{name}"] = lambda handler, body, name=name: {
            "authorize": handler.authorize,
            "token": lambda: handler.token(dict(_pairs(body))),
            "register": lambda: handler.send(201, {"client_id": "c"}),
        }[name]()
    server.url += "?key=secret"
    assert get(auth) == 200
    assert server.authorizations[0]["resource"] == f"{server.base}/mcp"


def _pairs(body):
    from urllib.parse import parse_qsl

    return parse_qsl(body.decode())


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_secret_is_sent_as_the_server_wants_it(server, person, get, method):
    """In the header with quoted parts, or in the form, never in both."""
    server.metadata["token_endpoint_auth_methods_supported"] = [method]
    auth = OAuth(open_browser=person, client_id="a:b", client_secret="s e/cret")
    assert get(auth) == 200
    form = server.forms[0]
    if method == "client_secret_basic":
        import base64

        pair = base64.b64decode(form["authorization"].split()[1])
        assert pair == b"a%3Ab:s%20e%2Fcret"
        assert "client_secret" not in form
    else:
        assert (form["client_id"], form["client_secret"]) == ("a:b", "s e/cret")
    assert server.registrations == []


def test_a_metadata_url_is_the_id_where_the_server_allows_it(server, person, get):
    """Else the program registers itself."""
    url = "https://example.com/client.json"
    assert get(OAuth(open_browser=person, client_metadata_url=url)) == 200
    assert server.authorizations[0]["client_id"] == "client-1"
    server.metadata["client_id_metadata_document_supported"] = True
    assert get(OAuth(open_browser=person, client_metadata_url=url)) == 200
    assert server.authorizations[1]["client_id"] == url


def test_a_registration_is_kept_for_its_issuer(server, auth, get):
    """A second login uses the same id and the same port; a new issuer gets its own."""
    server.has_refresh = False
    get(auth)
    server.valid.clear()
    assert get(auth) == 200
    assert len(server.registrations) == 1
    first, second = server.authorizations
    assert first["redirect_uri"] == second["redirect_uri"]
    server.valid.clear()
    server.resource["authorization_servers"] = [server.base]
    server.metadata["issuer"] = server.base
    server.documents["/.well-known/oauth-authorization-server"] = server.metadata
    assert get(auth) == 200
    assert len(server.registrations) == 2
    assert server.forms[-1]["client_id"] == "client-2"


def test_a_token_that_is_about_to_expire_is_renewed(server, person, get):
    """Before the request; the refresh token that comes back is the next one."""
    tokens = MemoryTokens()
    auth = OAuth(open_browser=person, tokens=tokens)
    get(auth)
    for _ in range(2):
        change(tokens, server, renew_at=time.time() - 1)
        auth._grants.clear()
        before = entry(tokens, server)
        assert get(auth) == 200
        assert server.forms[-1]["refresh_token"] == before["refresh_token"]
        assert entry(tokens, server)["refresh_token"] != before["refresh_token"]
    assert server.count("/mcp") == 4  # the first 401, and three requests
    assert len(person.pages) == 1


def test_a_refused_token_is_renewed_before_a_person_is_asked(server, auth, person, get):
    """A revoked access token costs a refresh, not a login."""
    get(auth)
    server.valid.clear()
    assert get(auth) == 200
    assert len(person.pages) == 1


def test_a_refresh_token_that_was_used_elsewhere_leads_to_a_login(
    server, auth, person, get
):
    """It is presented once, then forgotten."""
    get(auth)
    server.valid.clear()
    server.refreshes.clear()
    assert get(auth) == 200
    assert len(person.pages) == 2
    assert [form["grant_type"] for form in server.forms] == [
        *("authorization_code", "refresh_token", "authorization_code")
    ]


def test_a_token_is_used_while_its_renewal_fails(server, person, get):
    """A token server that is away costs nothing as long as the token is good."""
    tokens = MemoryTokens()
    auth = OAuth(open_browser=person, tokens=tokens)
    get(auth)
    change(tokens, server, renew_at=time.time() - 1)
    auth._grants.clear()
    server.answers["/as/token"] = lambda handler, _: handler.send(503, {})
    assert get(auth) == 200
    assert get(auth) == 200
    assert server.count("/as/token") == 2  # the login, and one renewal; then a pause


def test_missing_scopes_are_added_to_those_before(server, auth, get):
    """A step-up asks for the union."""
    server.challenge += ', scope="read"'
    get(auth)
    server.wants = ("write",)
    assert get(auth) == 200
    assert server.authorizations[1]["scope"] == "read write"


def test_a_server_that_always_wants_more_is_refused(server, auth, person, get):
    """Scopes that were asked for are not asked for again."""
    get(auth)
    server.answers["/mcp"] = lambda handler, _: handler.send(
        403, {}, {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="more"'}
    )
    assert get(auth) == 403
    assert len(person.pages) == 2


def test_a_server_that_wants_other_scopes_each_time_is_refused(server, auth, get):
    """At most three times in one call."""
    get(auth)
    server.answers["/mcp"] = lambda handler, _: handler.send(
        403,
        {},
        {
            "WWW-Authenticate": 'Bearer error="insufficient_scope", '
            f'scope="s{len(server.paths)}"'
        },
    )
    assert get(auth) == 403
    assert len(server.authorizations) == 4


@pytest.mark.parametrize("has_refresh", [True, False])
def test_a_server_that_refuses_its_own_tokens_opens_one_window(
    server, auth, person, get, has_refresh
):
    """A fresh token that gets a 401 is renewed if it can be, and then that is it."""
    server.has_refresh = has_refresh
    server.answers["/mcp"] = lambda handler, _: handler.send(
        401, {}, {"WWW-Authenticate": server.challenge}
    )
    assert get(auth) == 401
    assert len(person.pages) == 1


def test_a_refused_refresh_token_is_not_presented_again(server, auth, get):
    """Some servers take that for a theft, and end all tokens of the user."""
    get(auth)
    server.valid.clear()
    server.refreshes.clear()
    server.redirect_fields = {"code": None, "error": "access_denied"}
    for _ in range(2):
        with pytest.raises(MCPAuthRequired):
            get(auth)
    grants = [form["grant_type"] for form in server.forms]
    assert grants.count("refresh_token") == 1


def test_a_403_without_a_reason_is_no_question_of_scopes(server, auth, person, get):
    """It is final."""
    get(auth)
    server.answers["/mcp"] = lambda handler, _: handler.send(403, {})
    assert get(auth) == 403
    assert len(person.pages) == 1


def test_without_a_person_there_is_advice_at_once(server, get):
    """A service makes no request to the authorization server."""
    with pytest.raises(MCPAuthRequired, match="syncagent mcp login"):
        get(OAuth())
    with pytest.raises(MCPAuthRequired, match="ClientCredentials"):
        get(OAuth(open_browser=False))
    assert server.paths == ["/mcp", "/mcp"]


def test_a_person_who_does_not_come_back_is_not_waited_for(server, get):
    """The wait has a limit of its own."""
    auth = OAuth(open_browser=lambda page: None, login_timeout=0.05)
    with pytest.raises(MCPTimedOut, match="login_timeout"):
        get(auth)


def test_a_person_can_refuse(server, auth, get):
    """The error of the server is told, its free text is not."""
    server.redirect_fields = {
        "code": None,
        "error": "access_denied",
        "error_description": "secret text",
    }
    with pytest.raises(MCPAuthRequired, match="access_denied") as caught:
        get(auth)
    assert "secret text" not in str(caught.value)


def test_a_browser_that_cannot_be_opened_ends_the_login(server, get):
    """At once, with the name of the exception and not its text."""

    def broken(page):
        raise OSError(page)

    with pytest.raises(MCPAuthRequired, match="raised OSError") as caught:
        get(OAuth(open_browser=broken))
    assert "state" not in str(caught.value)


def test_a_web_application_brings_the_redirect_itself(server, get):
    """redirect= gets the page and returns the URL that the browser came to."""
    import requests

    def redirect(page, token):
        return requests.get(page, allow_redirects=False, timeout=10).headers["Location"]

    uri = "https://app.example.com/back"
    assert get(OAuth(redirect=redirect, redirect_uri=uri)) == 200
    assert server.authorizations[0]["redirect_uri"] == uri


def test_client_credentials_need_no_person(server, get):
    """The secret is exchanged for a token, again when the token is refused."""
    server.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    server.has_refresh = False
    auth = ClientCredentials("machine", "very-secret", scope="a")
    assert get(auth) == 200
    server.valid.clear()
    assert get(auth) == 200
    assert [form["grant_type"] for form in server.forms] == ["client_credentials"] * 2
    assert server.forms[0]["scope"] == "a"


def test_a_secret_goes_to_no_other_issuer(server, get):
    """issuer= binds it."""
    from syncagent.exceptions import MCPProtocolError

    auth = ClientCredentials("machine", "very-secret", issuer="https://mine.example")
    with pytest.raises(MCPProtocolError, match="issuer="):
        get(auth)
    assert server.forms == []


def test_login_and_logout_on_request(server, auth, person, get):
    """logout() forgets the tokens here, and revokes them there."""
    server.metadata["revocation_endpoint"] = f"{server.issuer}/revoke"
    revoked = []

    def revoke(handler, body):
        revoked.append(body)
        handler.send(200, {})

    server.answers["/as/revoke"] = revoke
    auth.login(server.url, CancelToken(timeout=20))
    assert get(auth) == 200
    assert auth.logout(server.url) is True
    assert auth.logout(server.url) is False
    assert auth.headers(server.url, CancelToken()) == {}
    assert b"token=" in revoked[0]
    assert len(person.pages) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"client_secret": "x"},
        {"client_metadata_url": "http://a/b"},
        {"client_metadata_url": "https://a"},
        {"redirect": print},
        {"redirect_port": 70000},
        {"redirect_port": 1, "redirect_uri": "http://127.0.0.1:1/"},
        {"login_timeout": 0},
        {"open_browser": "firefox"},
    ],
)
def test_settings_that_cannot_work_are_refused(settings):
    """When they are given, not at the first login."""
    with pytest.raises(ConfigurationError):
        OAuth(**settings)
