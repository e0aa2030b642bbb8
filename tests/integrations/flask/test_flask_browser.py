"""The page to chat on, in a real browser, with the example behind it."""

import json
import struct

import pytest
import requests
from flask_page import (
    ASK,
    IS_IDLE,
    IS_LIVE,
    TEXT,
    TOOL,
    TURN,
    ask,
    begin_story,
    begin_work,
    wrong,
)
from flask_serving import Served
from support.browser import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

OPERATOR = "a-token-of-the-operator"
HTML = "<img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"


@pytest.fixture(scope="module")
def served():
    with Served("gunicorn", grace=20, operator_token=OPERATOR) as running:
        yield running


@pytest.fixture
def page(visit, served):
    """The page, in a tab and with a visitor of its own."""
    return visit(served)


def test_an_operator_ends_it(page, served):
    """A run that an operator cancelled does not say that the user stopped it."""
    begin_story(page)
    url = f"{served.url}/agent/runs"
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {OPERATOR}"
        runs = session.get(url, timeout=20).json()["runs"]
        (id,) = [run["id"] for run in runs if run["is_live"]]
        body = {"reason": "The server is needed."}
        assert session.post(f"{url}/{id}/cancel", json=body, timeout=20).ok
    page.wait_for(IS_IDLE)
    said = page.evaluate(f"{TURN}.querySelector('.stopped').innerText").splitlines()
    assert said[0] == "Stopped by an operator"
    assert said[-1] == "The server is needed."


def test_stop_and_ask_again(page):
    """Promise 5 and 8: text streams, Stop ends it, it is kept and marked; and again."""
    begin_story(page)
    page.click("#stop")
    page.wait_for(IS_IDLE)
    text = page.evaluate(TEXT)
    assert text.startswith("Once upon a time")
    assert page.evaluate(f"{TURN}.querySelector('.text').classList.contains('cut')")
    said = page.evaluate(f"{TURN}.innerText")
    assert "You stopped this" in said
    ask(page, "go on")
    page.wait_for(f"{IS_LIVE} && {TEXT}.includes('You stopped me after')")
    page.press("Escape", 27)
    page.wait_for(IS_IDLE)
    assert page.evaluate("document.querySelectorAll('.turn').length") == 2
    assert page.evaluate("document.activeElement.id") == "prompt"
    assert wrong(page) == []


def test_stop_one_tool(page):
    """The button of a running tool stops only that: the model goes on."""
    begin_work(page)
    button = f"{TURN}.querySelector('.tool button')"
    assert page.evaluate(f"{button}.getAttribute('aria-label')") == "Stop only work"
    page.evaluate(f"{button}.click()")
    page.wait_for(IS_IDLE)
    assert page.evaluate(TOOL) == "stopped"
    assert page.evaluate(f"{button}.hidden")
    assert not page.evaluate(f"{TURN}.querySelector('.tool').open")
    assert page.evaluate(f"{TURN}.querySelector('.stopped') === null")
    assert page.evaluate(TEXT)
    assert wrong(page) == []


def test_approve(page):
    """A tool that has to be approved waits, and runs with what was put there."""
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    assert page.evaluate("document.title").startswith("? ")
    assert page.evaluate(f"{ASK}.contains(document.activeElement)")
    page.evaluate(f"[...{ASK}.querySelectorAll('button')].at(2).click()")
    edit = """{"what": "salads", "number": 3}"""
    page.evaluate(f"{ASK}.querySelector('textarea').value = {edit!r}")
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(IS_IDLE)
    said = page.evaluate(f"{TURN}.innerText")
    assert "You allowed order with edited arguments." in said
    assert "3 x salads would be on the way" in said
    assert page.evaluate(f"{TURN}.querySelector('.tool').className") == "tool done"


def test_deny(page):
    """A denied tool does not run, and the model continues."""
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    page.evaluate(f"{ASK}.querySelector('.no').click()")
    page.wait_for(IS_IDLE)
    said = page.evaluate(f"{TURN}.innerText")
    assert "You denied order." in said
    assert "denied" in page.evaluate(f"{TURN}.querySelector('.tool .how').innerText")


def test_a_question_of_a_tool(page):
    """A tool asks, the focus is in the field, Enter answers."""
    ask(page, "book a table")
    page.wait_for(f"{ASK}?.contains(document.activeElement)")
    page.type("four")
    page.press("Enter", 13)
    page.wait_for(IS_IDLE)
    assert "a table for four" in page.evaluate(f"{TURN}.innerText")


def test_a_reload_in_the_middle(page):
    """After a reload the text is still there, and the rest comes once."""
    begin_story(page)
    before = page.evaluate(TEXT)
    page.reload()
    page.wait_for(f"{IS_LIVE} && {TEXT}.length > {len(before) + 100}")
    page.click("#stop")
    page.wait_for(IS_IDLE)
    after = page.evaluate(TEXT)
    assert after.startswith(before)
    assert after.count("Once upon a time") == 1
    id = page.evaluate("fetch('runs').then(r => r.json()).then(l => l.runs[0].id)")
    whole = page.evaluate(f"fetch('runs/{id}').then(r => r.json()).then(v => v.text)")
    assert after.split() == whole.split()
    page.reload()
    assert page.evaluate(IS_IDLE)
    assert page.evaluate(TEXT) or page.wait_for(f"{TEXT} === {after!r}")


def test_a_reload_while_it_asks(page):
    """After a reload an open question is shown once, and can be answered."""
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    page.reload()
    page.wait_for(ASK)
    assert page.evaluate("document.querySelectorAll('.ask').length") == 1
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(IS_IDLE)
    assert "2 x pizzas" in page.evaluate(f"{TURN}.innerText")


def test_told_all_again(page, served):
    """An open question stays open, even if all earlier events are replayed."""
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    find = "fetch('runs').then(r => r.json()).then(l => l.runs[0].id)"
    kept = {"prompt": "order 2 pizzas", "id": page.evaluate(find)}
    context = page.call("Target.getTargetInfo")["targetInfo"]["browserContextId"]
    first = page.new_tab(context=context)
    page.open(f"{served.url}/agent/page.css")  # whose storage is the same
    state = json.dumps(json.dumps({"conversation": "c", "turns": [kept]}))
    page.evaluate(f"sessionStorage.setItem('syncagent:/agent/', {state})")
    page.open(f"{served.url}/agent/")
    page.wait_for(f"{TEXT} && {TURN}.querySelector('.tool.waiting')")
    page.wait_for(ASK)
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(IS_IDLE)
    assert "2 x pizzas" in page.evaluate(f"{TURN}.innerText")
    page.switch(first)
    page.wait_for(IS_IDLE)
    assert "Already answered." in page.evaluate(f"{TURN}.innerText")


def test_two_tabs(page, served):
    """A second tab of the same person lists what runs in the first, and stops it."""
    begin_story(page)
    context = page.call("Target.getTargetInfo")["targetInfo"]["browserContextId"]
    first = page.new_tab(context=context)
    page.open(f"{served.url}/agent/")
    page.wait_for("document.querySelector('#live li button')")
    assert page.evaluate("document.querySelectorAll('.turn').length") == 0
    page.click("#live li button")
    page.wait_for("document.querySelector('#finished .state.stopped')")
    page.switch(first)
    page.wait_for(IS_IDLE)
    assert "You stopped this" in page.evaluate(f"{TURN}.innerText")


def test_the_foreign_stop(page, served):
    """Issue 8: another user sees no run, and their Stop gets 404."""
    begin_story(page)
    id = page.evaluate("fetch('runs').then(r => r.json()).then(l => l.runs[0].id)")
    own = page.new_tab(is_stranger=True)
    page.open(f"{served.url}/agent/")
    stop = f"fetch('runs/{id}/cancel', {{method: 'POST'}}).then(r => r.status)"
    assert page.evaluate(stop) == 404
    assert page.evaluate("document.querySelectorAll('#live li').length") == 0
    page.switch(own)
    assert page.evaluate(IS_LIVE)


def test_hostile_words_stay_words(page):
    """Whatever is said, by people, tools or models, is text."""
    ask(page, "x " + HTML)
    page.wait_for(f"{IS_IDLE} && {TEXT}.includes('<script>')")
    ask(page, f'order {{"what": "{HTML}"}}')
    page.wait_for(ASK)
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(IS_IDLE)
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.evaluate("document.images.length") == 0
    assert wrong(page) == []


def test_the_timeline(page):
    """The timeline of a run is shown in a frame that can do nothing."""
    ask(page, "hello")
    page.wait_for(f"{IS_IDLE} && {TURN}.querySelector('.note button')")
    page.evaluate(f"{TURN}.querySelector('.note button').click()")
    page.wait_for("document.getElementById('timeline').open")
    frame = "document.getElementById('timeline-frame')"
    assert page.evaluate(f"{frame}.getAttribute('sandbox')") == ""
    path = page.evaluate(f"{frame}.src")
    text = page.evaluate(f"fetch({path!r}).then(r => r.text())")
    assert "model call 1" in text
    page.press("Escape", 27)
    page.wait_for("!document.getElementById('timeline').open")
    assert wrong(page) == []


def test_the_server_is_gone(visit):
    """A run that is lost with its server is said to be lost, and its text is kept."""
    with Served("werkzeug") as running:
        page = visit(running)
        begin_story(page)
        running.kill()
    page.wait_for(IS_IDLE)
    said = page.evaluate(f"{TURN}.querySelector('.error').innerText")
    assert "Ask again" in said
    assert "not known" in said
    assert page.evaluate(TEXT).startswith("Once upon a time")


@pytest.mark.parametrize(
    ("width", "dark"), [(1200, False), (1200, True), (390, False), (390, True)]
)
def test_the_page_is_shown_as_it_is_meant(page, served, tmp_path, width, dark):
    """In both themes, and on a phone, nothing sticks out and all can be touched."""
    page.open(f"{served.url}/agent/", width=width, height=844, dark=dark)
    ask(page, "order 2 pizzas " + "and more" * 30)
    page.wait_for(ASK)
    for wide in ("document.documentElement", "document.getElementById('scroll')"):
        assert page.evaluate(f"{wide}.scrollWidth <= {wide}.clientWidth")
    heights = (
        "[...document.querySelectorAll('.ask button, #stop')].map(b => b.offsetHeight)"
    )
    assert min(page.evaluate(heights)) >= 40
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (not dark)
    taken = page.screenshot(tmp_path / "page.png").read_bytes()
    assert struct.unpack(">I", taken[16:20])[0] == width
    assert wrong(page) == []
