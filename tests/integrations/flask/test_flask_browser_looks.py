"""Code to copy, rows that stay in sight, logins, and words on the page."""

import json

import pytest
from flask_page import ASK, IS_IDLE, TEXT, TURN, ask, wrong
from flask_serving import ACCOUNTS, Served
from support.browser import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

CODE = "def double(n):\n    return 2 * n"
SAID = f"Here:\n\n```python\n{CODE}\n```\n\nAnd **then**:\n\n```\nls -l\n```"
COPIES = "[...document.querySelectorAll('.copy')]"
#: How far the last row reaches below what is seen of the conversation, in pixels.
BELOW = (
    "(e => e.getBoundingClientRect().bottom "
    "- document.getElementById('scroll').getBoundingClientRect().bottom)"
)
LOGIN = "location.pathname == '/login' && document.querySelector('form button')"
#: The page, with its scripts.
READY = "document.readyState == 'complete' && document.getElementById('prompt')"
PHONE = {"width": 390, "height": 700}
DESK = {"width": 1100, "height": 700}


@pytest.fixture(scope="module")
def accounts():
    with Served("gunicorn", ACCOUNTS) as running:
        yield running


@pytest.fixture(scope="module")
def demo():
    with Served("gunicorn", grace=20) as running:
        yield running


def log_in(visit, accounts, **look):
    """Return the page of a user, and what is copied there."""
    page = visit(accounts)
    if look:
        page.open(f"{accounts.url}/agent/", **look)
    page.wait_for(LOGIN)
    page.click("form button")
    page.wait_for(READY)
    page.events.clear()  # the login has no icon
    return page


# -- code --------------------------------------------------------------------------


def test_copy(visit, accounts):
    """P8: each block of code has a button, which copies exactly its code."""
    page = log_in(visit, accounts)
    page.evaluate(
        "window.copied = []; Object.defineProperty(navigator, 'clipboard', "
        "{ value: { writeText: async (text) => { window.copied.push(text); } } });"
    )
    page.evaluate(f"document.getElementById('prompt').value = {json.dumps(SAID)}")
    ask(page, "")
    page.wait_for(f"{IS_IDLE} && {COPIES}.length == 2")
    languages = (
        "[...document.querySelectorAll('.code .bar span')].map(e => e.innerText)"
    )
    assert page.evaluate(languages) == ["python", ""]
    page.click(".copy")
    page.wait_for(f"{COPIES}[0].innerText == 'Copied'")
    page.evaluate(f"{COPIES}[1].click()")
    page.wait_for("window.copied.length == 2")
    assert page.evaluate("window.copied") == [CODE, "ls -l"]
    page.wait_for(f"{COPIES}[0].innerText == 'Copy'")
    assert wrong(page) == []


def test_copy_without_a_clipboard(visit, accounts):
    """P8: over plain http the browser has no clipboard of its own: it copies anyway."""
    page = log_in(visit, accounts)
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined }); "
        "document.addEventListener('copy', () => "
        "{ window.copied = getSelection().toString(); })"
    )
    page.evaluate(f"document.getElementById('prompt').value = {json.dumps(SAID)}")
    ask(page, "")
    page.wait_for(f"{IS_IDLE} && {COPIES}.length == 2")
    page.click(".copy")
    page.wait_for(f"{COPIES}[0].innerText == 'Copied'")
    assert page.evaluate("window.copied") == CODE


# -- rows that stay in sight ------------------------------------------------------


@pytest.mark.parametrize("look", [DESK, PHONE], ids=["desk", "phone"])
def test_the_last_row(visit, demo, look):
    """P8: the row with the figures of a run is in sight, and not below the box."""
    page = visit(demo)
    page.open(f"{demo.url}/agent/", **look)
    ask(page, "tell me a story")
    page.wait_for(f"{TEXT}.length > 60")
    for text in ("hello", "hello again"):
        ask(page, text)  # the queue takes some of the place
    page.wait_for(f"document.querySelectorAll('.turn').length == 3 && {IS_IDLE}")
    page.wait_for(f"{TURN}.querySelector('.note')?.innerText.includes('tokens in')")
    page.wait_for(f"{BELOW}({TURN}.lastChild) <= 0")
    row = f"{TURN}.querySelector('.note')"
    seen = f"(r => {row}.contains(document.elementFromPoint(r.x + 5, r.y + 5)))"
    assert page.evaluate(f"{seen}({row}.getBoundingClientRect())")


@pytest.mark.parametrize("look", [DESK, PHONE], ids=["desk", "phone"])
def test_the_buttons_of_an_edited_approval(visit, demo, look):
    """P8: after Edit, the buttons of an approval are in sight."""
    page = visit(demo)
    page.open(f"{demo.url}/agent/", **look)
    ask(page, "tell me a story")  # so that there is something to scroll
    page.wait_for(f"{TEXT}.length > 60")
    page.click("#stop")
    page.wait_for(IS_IDLE)
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    page.evaluate(f"[...{ASK}.querySelectorAll('button')].at(2).click()")
    page.wait_for(f"!{ASK}.querySelector('.field').hidden")
    page.wait_for(f"{BELOW}({ASK}) <= 0")
    page.click("#stop")
    page.wait_for(IS_IDLE)


def test_a_run_has_one_timeline_button(visit, demo):
    """P8: the list of runs has one only for runs that the page does not show."""
    page = visit(demo)
    ask(page, "hello")
    page.wait_for(f"{IS_IDLE} && document.querySelector('#finished li')")
    shown = (
        "[...document.querySelectorAll('button')]"
        ".filter(b => b.offsetWidth && b.innerText == 'Timeline').length"
    )
    assert page.evaluate(shown) == 1
    page.click("#new")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for("document.querySelector('#finished button').offsetWidth")
    assert page.evaluate(shown) == 1


def test_no_keys_on_a_phone(visit, demo):
    """P8: a phone has no Esc key, and is not told about it."""
    page = visit(demo)
    status = "document.getElementById('status').innerText"
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    page.open(f"{demo.url}/agent/", **PHONE)
    page.evaluate(
        "window.heard = []; new MutationObserver(() => window.heard.push("
        f"{status})).observe(document.getElementById('status'), {{ childList: true }})"
    )
    ask(page, "hello")
    page.wait_for(f"{IS_IDLE} && window.heard.length")
    heard = page.evaluate("window.heard")
    assert heard[0] == "Sent."
    assert "Esc" not in " ".join(heard)


# -- logins ------------------------------------------------------------------------


def test_logged_out_in_between(visit, accounts):
    """A8: a user whose login is over is told, logs in, and asks again."""
    page = log_in(visit, accounts)
    ask(page, "hello")
    page.wait_for(f"{IS_IDLE} && {TEXT} == 'hello'")
    page.evaluate("fetch('/logout').then(r => r.text())")
    ask(page, "and again")
    page.wait_for(f"{TURN}?.querySelector('.error')")
    assert "You may not start a run." in page.evaluate(f"{TURN}.innerText")
    page.evaluate(f"{TURN}.querySelector('a').click()")
    page.wait_for(LOGIN)
    page.click("form button")
    page.wait_for(f"{READY} && {TURN}?.querySelector('.error button')")
    page.evaluate(f"{TURN}.querySelector('.error button').click()")
    page.wait_for(f"{IS_IDLE} && {TEXT} == 'and again'")


def test_a_redirect_to_a_login(visit, accounts):
    """A8: a login page in place of a response is not taken for a run."""
    page = log_in(visit, accounts)
    page.evaluate(
        "(real => { window.fetch = (path, options = {}) => path == 'runs' && "
        "options.method ? real('/agent', { redirect: options.redirect }) "
        ": real(path, options) })(window.fetch)"
    )
    ask(page, "hello")
    page.wait_for(f"{TURN}?.querySelector('.error')")
    said = page.evaluate(f"{TURN}.querySelector('.error').innerText")
    assert said.startswith("You are not logged in.")
    assert "Log in" in said
