"""The checks of ``manage.py check``."""

import pytest
import site_of_tests
from django.conf import settings
from django.conf.urls.i18n import i18n_patterns
from django.test import override_settings
from django.urls import include, path

from syncagent.integrations.django.checks import check_settings
from syncagent.integrations.django.owners import is_of_session, session_of, user_of

GOOD = site_of_tests.SYNCAGENT


def found(**changes):
    """Return the ids of the messages after a change of the settings."""
    with override_settings(SYNCAGENT={**GOOD, **changes}):
        return [message.id for message in check_settings(None)]


def test_good_settings():
    """Valid settings give no message."""
    assert found() == []


@pytest.mark.parametrize(
    ("name", "id"), [("AGENT", "E002"), ("AUTHORIZE", "E003"), ("OWNER_OF", "E004")]
)
def test_what_is_missing(name, id):
    """Issue 8: each of the three is named, with what to set."""
    assert found(**{name: None}) == [f"syncagent.{id}"]
    with override_settings(SYNCAGENT={**GOOD, name: None}):
        (message,) = check_settings(None)
    assert f"SYNCAGENT['{name}']" in message.hint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"HARTBEAT": 3}, "Did you mean HEARTBEAT?"),
        ({"AGENT": "nowhere.at_all"}, "cannot be imported"),
        ({"AGENT": 5}, "must be a function"),
        ({"GRACE": "long"}, "Expected `float`"),
        ({"ON_DISCONNECT": "explode"}, "explode"),
        ({"SUGGESTIONS": "one"}, "list"),
    ],
)
def test_what_cannot_be(changes, words):
    """An unknown or invalid setting is named."""
    with override_settings(SYNCAGENT={**GOOD, **changes}):
        (message,) = check_settings(None)
    assert message.id == "syncagent.E001"
    assert words in message.msg


@pytest.mark.parametrize(("number", "ids"), [("1", []), ("3", ["syncagent.W003"])])
def test_several_workers(number, ids, monkeypatch):
    """B1: as far as the environment tells it, several workers are reported."""
    monkeypatch.setenv("WEB_CONCURRENCY", number)
    assert found() == ids


def test_numbers_that_make_no_sense():
    """A value that Runs() refuses is reported, too."""
    assert found(HEARTBEAT=-1.0) == ["syncagent.E005"]


def test_said_twice():
    """A setting has one place."""
    with override_settings(SYNCAGENT_GRACE=1.0, SYNCAGENT={**GOOD, "GRACE": 2.0}):
        assert "keep one" in check_settings(None)[0].msg


def test_single_settings():
    """SYNCAGENT_GRACE does as well as SYNCAGENT['GRACE']."""
    single = {f"SYNCAGENT_{name}": value for name, value in GOOD.items()}
    with override_settings(**single):
        del settings.SYNCAGENT
        assert check_settings(None) == []


def test_dangers():
    """A run without an end, and a token that can be guessed."""
    assert found(TIMEOUT=None) == ["syncagent.W001"]
    assert found(OPERATOR_TOKEN="short") == ["syncagent.E006"]


def test_without_csrf():
    """Issue 8: CSRF protection is missed."""
    kept = [name for name in settings.MIDDLEWARE if "Csrf" not in name]
    with override_settings(MIDDLEWARE=kept):
        assert found() == ["syncagent.W002"]


def test_owners_need_their_middleware():
    """A function that reads request.user needs the middleware that sets it."""
    owners = "syncagent.integrations.django.owners"
    changes = {"OWNER_OF": user_of, "AUTHORIZE": f"{owners}.is_of_user"}
    assert found(**changes) == ["syncagent.E007"]
    changes["AUTHORIZE"] = is_of_session
    assert "syncagent.E008" in found(**changes)


class Logins:
    urlpatterns = [  # noqa: RUF012
        path("", include("syncagent.integrations.django.urls")),
        path("in/", site_of_tests.state, name="in"),
    ]


class LoginsInLanguages:
    urlpatterns = [  # noqa: RUF012
        path("", include("syncagent.integrations.django.urls")),
        *i18n_patterns(path("in/", site_of_tests.state)),
    ]


SESSIONS = "django.contrib.sessions.middleware.SessionMiddleware"
USERS = "django.contrib.auth.middleware.AuthenticationMiddleware"
LOCALES = "django.middleware.locale.LocaleMiddleware"


@pytest.mark.parametrize(
    ("login_url", "is_found"),
    [
        *(("/in/", True), ("/in", True), ("in", True), ("/in/?a=b", True)),
        ("https://sso.example.com/in", True),
        *(("/accounts/login/", False), ("admin:login", False), ("out", False)),
    ],
)
def test_a_login_that_leads_nowhere(login_url, is_found):
    """A17: a visitor who would be sent to a 404 is found before."""
    with override_settings(
        ROOT_URLCONF=Logins,
        LOGIN_URL=login_url,
        MIDDLEWARE=[*settings.MIDDLEWARE, SESSIONS, USERS],
        SYNCAGENT=GOOD,
    ):
        messages = check_settings(None)
    assert [each.id for each in messages] == ([] if is_found else ["syncagent.W005"])
    for each in messages:
        assert repr(login_url) in each.msg


def test_a_login_in_several_languages():
    """A17: a path that the middleware completes with a language leads somewhere."""
    middleware = [*settings.MIDDLEWARE, SESSIONS, USERS]
    with override_settings(
        ROOT_URLCONF=LoginsInLanguages,
        LOGIN_URL="/in/",
        MIDDLEWARE=middleware,
        SYNCAGENT=GOOD,
    ):
        assert [each.id for each in check_settings(None)] == ["syncagent.W005"]
        with override_settings(MIDDLEWARE=[*middleware, LOCALES]):
            assert check_settings(None) == []


def test_sites_without_logins():
    """A17: where sessions are owners, or no one logs in, LOGIN_URL is not needed."""
    owners = {"OWNER_OF": session_of, "AUTHORIZE": is_of_session}
    with override_settings(
        MIDDLEWARE=[*settings.MIDDLEWARE, SESSIONS, USERS], LOGIN_URL="nowhere"
    ):
        assert found(**owners) == []
    with override_settings(LOGIN_URL="nowhere"):
        assert found() == []


class NoUrls:
    urlpatterns = [path("state", site_of_tests.state)]  # noqa: RUF012


def test_without_the_endpoints():
    """A site that has only the app, for its tools' connections, needs no settings."""
    with override_settings(ROOT_URLCONF=NoUrls, SYNCAGENT={}):
        assert check_settings(None) == []
