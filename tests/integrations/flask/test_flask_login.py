"""Applications whose users log in, and how loudly the others are refused."""

import logging
from uuid import UUID

import pytest
from flask import Flask, redirect, request
from flask_login import (
    LoginManager,
    UserMixin,
    current_user,
    login_required,
    login_user,
)
from flask_site import Visitor, make_site

from syncagent import Agent
from syncagent.integrations.flask import SyncAgent
from syncagent.testing import ScriptedModel


class User(UserMixin):
    def __init__(self, id):
        self.id = id


def user_id(request):
    return current_user.id if current_user.is_authenticated else None


def make_accounts(to_id=int, **given):
    """Return an application with Flask-Login, and its extension.

    :param to_id: makes the id of a user of the text in the session.
    """
    app = Flask("accounts")
    app.secret_key = "a-secret-of-the-tests"
    logins = LoginManager(app)
    logins.login_view = "login"
    logins.user_loader(lambda id: User(to_id(id)))
    agents = SyncAgent(
        app,
        make_agent=lambda request, start: Agent(ScriptedModel(["Hello."])),
        **{
            "owner_of": user_id,
            "authorize": lambda request, run: run.owner == str(user_id(request)),
            **given,
        },
    )

    @app.route("/login")
    def login():
        if "user" not in request.args:
            return "Who are you?"
        login_user(User(to_id(request.args["user"])))
        return redirect(request.args["next"])

    return app, agents


def serve(app, agents):
    app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")
    return app


def errors_in(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.ERROR
    ]


# -- the page ----------------------------------------------------------------------


@pytest.mark.parametrize("login_url", ["login", "/login"])
def test_the_page_leads_to_the_login_and_back(login_url):
    """A8: a visitor logs in first, and then has the page that was asked for."""
    client = serve(*make_accounts(login_url=login_url)).test_client()
    response = client.get("/agent/?theme=dark")
    assert response.status_code == 302
    assert response.location == "/login?next=%2Fagent%2F%3Ftheme%3Ddark"
    response = client.get(f"{response.location}&user=7")
    assert response.location == "/agent/?theme=dark"
    page = client.get(response.location)
    assert page.status_code == 200
    assert '<meta name="login-url" content="/login">' in page.text


def test_a_login_with_a_query():
    """The address of the page is added to that of the login, wherever it is."""
    app, agents = make_accounts(login_url="https://sso.example.com/in?app=5")
    response = serve(app, agents).test_client().get("/agent/", base_url="http://a/b")
    assert response.location == (
        "https://sso.example.com/in?app=5&next=%2Fb%2Fagent%2F"
    )


def test_without_a_login():
    """A8: a visitor who may not start a run does not get to type first."""
    response = serve(*make_accounts()).test_client().get("/agent/")
    assert (response.status_code, response.text) == (403, "You may not start a run.")


def test_a_page_without_owners():
    """A8: the refusal names the function that is missing, and no class."""
    app, agents = make_accounts(owner_of=None, login_url="login")
    response = serve(app, agents).test_client().get("/agent/")
    assert response.status_code == 403
    assert "owner_of(request)" in response.text
    assert "Views" not in response.text


def test_a_head_of_the_page():
    """A17: a health check gets 200 and no body."""
    response = Visitor(make_site(ScriptedModel()))._client.head(
        "/agent/", headers={"X-User": "anna"}
    )
    assert (response.status_code, response.data) == (200, b"")


def test_login_required():
    """A8: a blueprint that is all behind a login refuses everything to strangers."""
    app, agents = make_accounts()
    blueprint = agents.create_blueprint()
    blueprint.before_request(login_required(lambda: None))
    app.register_blueprint(blueprint, url_prefix="/agent")
    client = app.test_client()
    for path in ("", "page.js", "runs"):
        assert client.get(f"/agent/{path}").status_code == 302
    assert client.post("/agent/runs", json={"prompt": "Hi."}).status_code == 302
    client.get("/login?user=7&next=/")
    assert client.get("/agent/").status_code == 200
    assert client.post("/agent/runs", json={"prompt": "Hi."}).status_code == 202


# -- owners ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to_id", "text"),
    [(int, "7"), (int, "0"), (str, "anna"), (UUID, str(UUID(int=5)))],
)
def test_any_key_of_a_user(to_id, text, caplog):
    """A8: numbers and UUIDs are owners as well as strings are."""
    client = serve(*make_accounts(to_id)).test_client()
    client.get(f"/login?user={text}&next=/")
    anna = Visitor(client.application)
    anna._client = client
    view = anna.wait(anna.start())
    assert (view["text"], view["stop_reason"]) == ("Hello.", "end_turn")
    assert len(anna.get("runs").json["runs"]) == 1
    assert errors_in(caplog) == []


@pytest.mark.parametrize("owner", [True, 7.5, b"anna", object()])
def test_what_is_no_owner(owner):
    """True would make all users one owner: it is an error, as is any other object."""
    site = make_site(ScriptedModel(["Hello."]), functions={"owner_of": lambda r: owner})
    site.testing = True
    with pytest.raises(Exception, match="owner must be a non-empty string, a number"):
        Visitor(site).post("runs", {"prompt": "Go."})


def test_a_number_compared_with_a_string(caplog):
    """A8: an authorize that never says yes is told once, with the remedy."""
    given = {"authorize": lambda request, run: run.owner == user_id(request)}
    client = serve(*make_accounts(**given)).test_client()
    client.get("/login?user=7&next=/")
    for _ in range(2):
        assert client.post("/agent/runs", json={"prompt": "Hi."}).status_code == 202
    (message,) = errors_in(caplog)
    assert "Stop, answers and reloads of this client get 404" in message
    assert "it returned False for a run whose owner is '7'" in message
    assert message.endswith("compare run.owner with str(...)")


def test_only_true_permits_access_and_that_is_logged(caplog):
    """A8: a truthy value is refused, and the log says so once, without the value."""
    functions = {"authorize": lambda request, run: {"secret": "of anna"}}
    anna = Visitor(make_site(ScriptedModel(["Hello.", "Hi."]), functions=functions))
    id = anna.start()
    for _ in range(3):
        assert anna.get(f"runs/{id}").status_code == 404
    first, second = errors_in(caplog)
    assert "authorize() must return True" in first
    assert "returned an object of type dict" in first + second
    assert "of anna" not in first + second


def test_an_owner_that_may_see_its_runs_is_not_logged(caplog):
    """Refusals of others are not errors: False and None are clear answers."""
    functions = {"authorize": lambda request, run: run.owner == "anna" or None}
    site = make_site(ScriptedModel(["Hello.", "Hi."]), functions=functions)
    anna = Visitor(site)
    anna.wait(anna.start())
    assert errors_in(caplog) == []


def test_an_authorize_that_fails(caplog):
    """The run has started by then: the log has the exception, the client its run."""

    def authorize(request, run):
        raise LookupError("no such table")

    anna = Visitor(
        make_site(ScriptedModel(["Hello."]), functions={"authorize": authorize})
    )
    assert anna.post("runs", {"prompt": "Go."}).status_code == 202
    assert "authorize() failed" in errors_in(caplog)[0]
