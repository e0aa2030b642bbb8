"""The page to chat on, as it is served."""

import re
from importlib.resources import files

import pytest
from flask_site import Visitor, make_site

from syncagent.exceptions import ConfigurationError
from syncagent.integrations.web.page import ASSETS, read_asset, render_page
from syncagent.testing import ScriptedModel

MARKUP = '"><script>{{title}}</script>'


def text_of(name):
    return files("syncagent.integrations.web.page").joinpath(name).read_text()


def test_served():
    """The page and what lies beside it have a policy that lets nothing else in."""
    anna = Visitor(make_site(ScriptedModel(), title="My agent"))
    page = anna.get("")
    assert "<h1>My agent</h1>" in page.text
    for name, kind in ASSETS.items():
        response = anna.get(name)
        assert response.content_type == kind
        assert response.data == read_asset(name)
        policy = response.headers["Content-Security-Policy"]
        assert policy == page.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert response.headers["Cache-Control"] == "no-cache"
    # L8: it has the CSRF token of its user.
    assert page.headers["Cache-Control"] == "private, no-store"


def test_words_of_the_application_are_words():
    """Whatever a title or a suggestion looks like, it is text."""
    page = render_page(title=MARKUP, greeting=MARKUP, suggestions=[MARKUP]).decode()
    assert page.count("<script") == 1
    assert page.count("&lt;script&gt;{{title}}") == 4


def test_a_token_of_the_application():
    """An application that asks for a CSRF token finds it in the page, to be sent."""
    functions = {"csrf_token": lambda: "t0ken"}
    anna = Visitor(make_site(ScriptedModel(), functions=functions))
    assert 'name="csrf-token" content="t0ken"' in anna.get("").text


def test_nothing_of_it_is_markup_or_from_elsewhere():
    """No script of the page makes markup of text, and nothing is loaded from afar."""
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\("
    for name in ("page.html", *ASSETS):
        assert not re.search(ways, text_of(name)), name
        assert not re.search(r"https?://|//cdn|@import", text_of(name)), name
    assert " style=" not in text_of("page.html")
    assert not re.search(r"\son\w+=", text_of("page.html"))


def test_mistakes():
    """An unknown file is a KeyError, and a single string is no list of suggestions."""
    with pytest.raises(KeyError):
        read_asset("../flask/settings.py")
    with pytest.raises(ConfigurationError):
        render_page(suggestions="tell me a story")


def test_without_the_page():
    """An application with its own page can have the endpoints only."""
    from flask import Flask

    from syncagent import Agent
    from syncagent.integrations.flask import SyncAgent

    app = Flask("site")
    agents = SyncAgent(app, make_agent=lambda *asked: Agent(ScriptedModel()))
    app.register_blueprint(agents.create_blueprint(page=False), url_prefix="/agent")
    client = app.test_client()
    assert client.get("/agent/").status_code == 404
    assert client.get("/agent/runs").status_code == 403
