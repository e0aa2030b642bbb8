"""The endpoints as views of Django: who may do what, and how it is refused."""

import json
from uuid import UUID

import pytest
import site_of_tests
from django.http import HttpResponse
from django.test import AsyncRequestFactory, Client, RequestFactory, override_settings
from support.web.servers import moments

from syncagent.exceptions import ConfigurationError
from syncagent.integrations.django.conf import get_runs
from syncagent.integrations.django.disconnect import cancel_on_disconnect
from syncagent.integrations.django.owners import (
    is_of_session,
    is_of_user,
    session_of,
    user_of,
)
from syncagent.integrations.django.views import page

SECRET = "s" * 32
#: As a client sends it whose body comes in pieces.
CHUNKED = {"Transfer-Encoding": "chunked", "Content-Length": ""}


@pytest.fixture
def browser(fake):
    """A client that is asked for its CSRF token, and has one."""
    client = Client(enforce_csrf_checks=True, headers={"X-User": "anna"})
    client.defaults["HTTP_X_PROVIDER"] = fake.base_url
    client.cookies["csrftoken"] = SECRET
    yield client
    get_runs().cancel_all("the test is over")
    assert any(not any(run.is_live for run in every_run()) for _ in moments())


def every_run():
    return list(get_runs()._registry.runs.values())


def post(client, path, body=None, **headers):
    """Make a POST as the page does."""
    sent = {"X-CSRFToken": SECRET, **headers}
    return client.post(path, body, content_type="application/json", headers=sent)


def start(client, talk="stall"):
    response = post(client, "/runs", {"prompt": talk})
    assert response.status_code == 202, response.content
    return response.json()["id"]


def test_begin_show_list_cancel(browser):
    """A run can be asked for while it lives, and ended once."""
    id = start(browser)
    assert browser.get(f"/runs/{id}").json()["is_live"]
    assert id in [run["id"] for run in browser.get("/runs").json()["runs"]]
    call = post(browser, f"/runs/{id}/calls/a%2Fb/cancel", {})
    assert (call.status_code, call.json()["call_id"]) == (409, "a/b")
    assert post(browser, f"/runs/{id}/cancel", {}).status_code == 202
    shown = (browser.get(f"/runs/{id}").json() for _ in moments())
    ended = next(run for run in shown if not run["is_live"])
    assert ended["stop_reason"] == "cancelled"
    assert post(browser, f"/runs/{id}/cancel", {}).status_code == 409


def test_the_timeline_may_be_in_a_frame(browser):
    """Issue 8: a finished run has its timeline, in a frame that Django lets be."""
    id = start(browser, "hello")
    assert any(not browser.get(f"/runs/{id}").json()["is_live"] for _ in moments())
    response = browser.get(f"/runs/{id}/timeline")
    assert response.status_code == 200
    assert response["X-Frame-Options"] == "SAMEORIGIN"


def test_answer(browser):
    """An approval over HTTP lets the tool run."""
    id = start(browser, "approval")
    views = (browser.get(f"/runs/{id}").json() for _ in moments())
    asked = next(run["interrupts"] for run in views if run["interrupts"])
    body = {"answers": {asked[0]["id"]: {"allow": True}}}
    response = post(browser, f"/runs/{id}/answers", body)
    assert (response.status_code, response.json()["answers"]) == (
        200,
        {asked[0]["id"]: "taken"},
    )
    views = (browser.get(f"/runs/{id}").json() for _ in moments())
    assert "launched to the moon" in next(v for v in views if not v["is_live"])["text"]


def test_a_stream_in_the_test_client(browser):
    """Issue 8: a stream has the right headers, no gzip, and ends with the run."""
    response = post(
        browser,
        "/runs",
        {"prompt": "hello"},
        Accept="text/event-stream",
        **{"Accept-Encoding": "gzip"},
    )
    assert response["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response["Content-Encoding"] == "identity"
    assert response["X-Accel-Buffering"] == "no"
    text = b"".join(response.streaming_content).decode()
    assert "event: text_delta" in text
    assert text.rstrip().rpartition("event: ")[2].startswith("end")
    response.close()


def test_a_stream_that_is_never_begun(browser, fake):
    """Issue 8: a response that is closed before its first piece ends the run, too."""
    response = post(browser, "/runs", {"prompt": "stall"}, Accept="text/event-stream")
    response.close()
    run = every_run()[-1]
    assert any(not run.is_live for _ in moments())
    assert run.outcome.cancellation.origin == "disconnect"


@pytest.mark.parametrize("path", ["/runs", "/runs/x/cancel", "/runs/x/answers"])
def test_without_a_csrf_token(browser, path):
    """Issue 8: whatever changes something needs Django's CSRF token."""
    response = browser.post(path, {}, content_type="application/json")
    assert response.status_code == 403
    assert b"CSRF" in response.content


@pytest.mark.parametrize("path", ["", "/events", "/timeline"])
def test_foreign_and_unknown_are_alike(browser, path):
    """Issue 8: another user's run looks like one that does not exist."""
    id = start(browser)
    foreign = browser.get(f"/runs/{id}{path}", headers={"X-User": "eve"})
    unknown = browser.get(f"/runs/{'x' * len(id)}{path}", headers={"X-User": "eve"})
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content


@pytest.mark.parametrize("what", ["cancel", "answers"])
def test_foreign_posts(browser, what):
    """Issue 8: another user's Stop gets 404, and the run continues."""
    id = start(browser)
    body = {"answers": {}} if what == "answers" else {}
    response = post(browser, f"/runs/{id}/{what}", body, **{"X-User": "eve"})
    assert response.status_code == 404
    assert browser.get(f"/runs/{id}").json()["is_live"]


@pytest.mark.parametrize("path", ["/runs/x/cancel", "/runs/x/answers"])
def test_posts_only(browser, path):
    """Issue 8: cancel and answers accept POST only."""
    assert browser.get(path).status_code == 405


def test_head_does_not_end_a_run(browser):
    """A HEAD would come, go, and end the run: it is refused."""
    id = start(browser)
    assert browser.head(f"/runs/{id}/events").status_code == 405
    assert browser.get(f"/runs/{id}").json()["is_live"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"x" * 10_001, "application/json", 413),
        (b"{", "application/json", 400),
        (b'{"prompt": 5}', "application/json", 422),
        (b'{"prompt": "  "}', "application/json", 422),
        (b"prompt=hello", "application/x-www-form-urlencoded", 415),
        (b"--x\r\n\r\n\r\n--x--", "multipart/form-data; boundary=x", 415),
    ],
)
def test_bodies_that_are_refused(browser, body, kind, status):
    """Issue 8: what is too large, and what is no request, begins nothing."""
    before = len(every_run())
    headers = {"X-CSRFToken": SECRET}
    response = browser.post("/runs", body, content_type=kind, headers=headers)
    assert response.status_code == status
    assert response.json()["error"]["message"]
    assert len(every_run()) == before


def test_a_body_without_a_length(browser):
    """How much of it there is must be known before it is read."""
    response = post(browser, "/runs", {"prompt": "hello"}, **CHUNKED)
    assert response.status_code == 411


def test_nobody(browser):
    """A request without an owner may not start a run."""
    response = post(browser, "/runs", {"prompt": "hello"}, **{"X-User": ""})
    assert response.status_code == 403


def test_without_authorize(browser):
    """Issue 8: without AUTHORIZE every request is refused, with the reason."""
    with override_settings(
        SYNCAGENT={**site_of_tests.SYNCAGENT, "AUTHORIZE": None, "OWNER_OF": None}
    ):
        for response in (
            browser.get("/runs"),
            browser.get("/runs/x"),
            post(browser, "/runs", {"prompt": "hello"}),
        ):
            assert response.status_code == 403
            assert response.json()["error"]["code"] == "not_set_up"


# -- the page ----------------------------------------------------------------------


def test_the_page_has_a_token_that_is_accepted(fake):
    """The page carries Django's token, and what it sends with it is let through."""
    client = Client(enforce_csrf_checks=True, headers={"X-User": "anna"})
    text = client.get("/").content.decode()
    assert 'name="csrf-header" content="X-Csrftoken"' in text
    token = text.partition('name="csrf-token" content="')[2].partition('"')[0]
    assert len(token) == 64
    sent = {"X-CSRFToken": token}
    kind = "application/json"
    assert client.post("/runs/x/cancel", {}, kind, headers=sent).status_code == 404


def test_the_page_and_its_files(browser):
    """They lie beside each other, and nothing else may be loaded."""
    for path, kind in {
        "/": "text/html",
        "/page.js": "text/javascript",
        "/page.css": "text/css",
    }.items():
        response = browser.get(path)
        assert response.status_code == 200
        assert response["Content-Type"].startswith(kind)
        assert "default-src 'none'" in response["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/", "/page.js"])
def test_a_head_of_the_page(browser, path):
    """A17: a health check gets 200 and no body."""
    response = browser.head(path)
    assert (response.status_code, response.content) == (200, b"")
    assert browser.post(path, headers={"X-CSRFToken": SECRET}).status_code == 405


def test_the_page_is_not_for_everybody(browser):
    """A user who may not start a run does not see the page."""
    assert browser.get("/", headers={"X-User": ""}).status_code == 403


def test_the_page_asks_to_log_in(browser):
    """A site with users redirects visitors to its login, and back."""
    request = RequestFactory().get("/agent/")
    request.user = _Nobody()
    response = page(request)
    assert response.status_code == 302
    assert response["Location"] == "/accounts/login/?next=%2Fagent%2F"
    with override_settings(LOGIN_URL="/in?app=5"):
        assert page(request)["Location"] == "/in?app=5&next=%2Fagent%2F"
    request.user = _User(1)  # who has logged in already
    assert page(request).status_code == 403


@pytest.mark.parametrize(
    ("login_url", "shown"), [("/in", "/in"), ("admin:nowhere", "")]
)
def test_the_page_knows_the_login(login_url, shown):
    """A8: a login that ends while the page is open can be renewed from there."""
    request = RequestFactory().get("/agent/", headers={"X-User": "anna"})
    request.user = _User(1)
    with override_settings(LOGIN_URL=login_url):
        text = page(request).content.decode()
    assert f'<meta name="login-url" content="{shown}">' in text


@pytest.mark.parametrize("owner", [5, 0, UUID(int=5)])
def test_owners_that_are_keys(browser, owner):
    """A8: numbers and UUIDs are owners as well as strings are."""
    changes = {
        "OWNER_OF": lambda request: owner,
        "AUTHORIZE": lambda request, run: run.owner == str(owner),
    }
    with override_settings(SYNCAGENT={**site_of_tests.SYNCAGENT, **changes}):
        assert browser.get("/").status_code == 200
        id = start(browser, "hello")
        assert any(not browser.get(f"/runs/{id}").json()["is_live"] for _ in moments())


def test_only_true_permits_access_and_that_is_logged(browser, caplog):
    """A8: a truthy value is refused, and the log says so once."""
    changes = {"AUTHORIZE": lambda request, run: "yes"}
    with override_settings(SYNCAGENT={**site_of_tests.SYNCAGENT, **changes}):
        id = start(browser, "hello")
        assert browser.get(f"/runs/{id}").status_code == 404
        assert browser.get(f"/runs/{id}").status_code == 404
        assert any(not any(run.is_live for run in every_run()) for _ in moments())
    messages = [
        each.getMessage() for each in caplog.records if each.levelname == "ERROR"
    ]
    assert len([each for each in messages if "must return True" in each]) == 1
    assert len([each for each in messages if "get 404" in each]) == 1


# -- whose -------------------------------------------------------------------------


class _Run:
    def __init__(self, owner):
        self.owner = owner


class _User:
    is_authenticated = True
    is_active = True

    def __init__(self, pk):
        self.pk = pk


class _Nobody:
    is_authenticated = False
    is_active = False
    pk = None


def test_users():
    """A run belongs to the logged-in user; without a login there is none."""
    request = RequestFactory().get("/")
    request.user = _User(1)
    run = _Run(user_of(request))
    assert is_of_user(request, run)
    request.user = _User(11)
    assert not is_of_user(request, run)
    request.user = _Nobody()
    assert user_of(request) is None
    assert not is_of_user(request, run)
    assert not is_of_user(request, _Run(None))


def test_sessions():
    """A run belongs to its session, and one without sees nothing."""
    request = RequestFactory().get("/")
    request.session = {}
    assert not is_of_session(request, _Run("session:None"))
    run = _Run(session_of(request))
    assert is_of_session(request, run)
    assert session_of(request) == run.owner
    request.session = {}
    assert not is_of_session(request, run)


# -- under ASGI --------------------------------------------------------------------


def test_a_view_that_blocks_needs_the_middleware():
    """Under ASGI nothing else can tell, and that is said at once."""
    request = AsyncRequestFactory().get("/")
    with pytest.raises(ConfigurationError, match="DisconnectMiddleware"):
        cancel_on_disconnect(request)


def test_a_view_that_blocks_under_wsgi():
    """Without a server there is no connection to watch, and nothing happens."""
    request = RequestFactory().get("/")
    with cancel_on_disconnect(request, timeout=600) as token:
        response = HttpResponse(json.dumps(token.cancelled))
    assert response.content == b"false"


# -- other origins -----------------------------------------------------------------


def test_origins(browser):
    """L7: other origins are refused, unless CSRF_TRUSTED_ORIGINS has them."""
    sibling = {"Origin": "https://b.example.com", "Sec-Fetch-Site": "same-site"}
    assert post(browser, "/runs/x/cancel", {}, **sibling).status_code == 403
    own = {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}
    assert post(browser, "/runs/x/cancel", {}, **own).status_code == 404
    # Django's own check has nothing to compare here.
    alone = {"Sec-Fetch-Site": "same-site"}
    assert post(browser, "/runs/x/cancel", {}, **alone).status_code == 403
    with override_settings(
        CSRF_TRUSTED_ORIGINS=["https://*.example.com"],
        SYNCAGENT=site_of_tests.SYNCAGENT,
    ):
        browser.handler.load_middleware()  # Django's own check keeps its settings
        assert post(browser, "/runs/x/cancel", {}, **sibling).status_code == 404


def test_a_host_that_a_proxy_tells(browser):
    """L7: the host of a request is the one that Django takes it for."""
    sent = {"Origin": "http://app.example.com", "X-Forwarded-Host": "app.example.com"}
    assert post(browser, "/runs/x/cancel", {}, **sent).status_code == 403
    hosts = ["app.example.com", "testserver"]
    with override_settings(USE_X_FORWARDED_HOST=True, ALLOWED_HOSTS=hosts):
        assert post(browser, "/runs/x/cancel", {}, **sent).status_code == 404


def test_the_page_is_private(browser):
    """L8: nothing keeps the page, which has the CSRF token of its user."""
    assert browser.get("/")["Cache-Control"] == "private, no-store"
    assert browser.get("/page.js")["Cache-Control"] == "no-cache"
