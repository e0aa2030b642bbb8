"""Messages that are sent while a run is live: they wait, and can be taken back."""

import pytest
from flask_page import ASK, IS_IDLE, IS_LIVE, TEXT, TURN, ask, begin_work, stop, wrong
from flask_serving import EXAMPLE, Served
from support.browser import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

QUEUE = "[...document.querySelectorAll('#queue .what')].map(e => e.innerText)"
PROMPTS = "[...document.querySelectorAll('.asked')].map(e => e.innerText)"
BOX = "document.getElementById('prompt').value"
SEND = "document.getElementById('send')"


@pytest.fixture(scope="module", params=["memory", "store"])
def served(request, tmp_path_factory):
    """The example, with conversations in the process, or in a store."""
    if request.param == "memory":
        with Served("gunicorn", grace=20) as running:
            yield running
        return
    store = f"sqlite:///{tmp_path_factory.mktemp('store')}/runs.db"
    with Served("gunicorn", EXAMPLE, store=store) as running:
        yield running


@pytest.fixture
def page(visit, served):
    return visit(served)


def take_back(page, place):
    page.evaluate(f"document.querySelectorAll('#queue button')[{place}].click()")


def test_sent_when_the_run_has_ended(page):
    """A10: Enter queues the text and shows it; it is sent by itself, in order."""
    ask(page, "work 1 second")
    page.wait_for(IS_LIVE)
    for text in ("hello", "what did I say?"):
        ask(page, text)
    assert page.evaluate(QUEUE) == ["hello", "what did I say?"]
    assert page.evaluate(BOX) == ""
    assert page.evaluate(PROMPTS) == ["work 1 second"]
    page.wait_for(f"{PROMPTS}.length == 3 && {IS_IDLE} && {TEXT}")
    assert page.evaluate(PROMPTS) == ["work 1 second", "hello", "what did I say?"]
    assert "hello" in page.evaluate(TEXT)
    assert page.evaluate(QUEUE) == []
    errors = "document.querySelectorAll('.note.error, #notice:not([hidden])').length"
    assert page.evaluate(errors) == 0
    assert wrong(page) == []


def test_taken_back(page):
    """Each can be taken back by its button, the last one by the arrow key."""
    begin_work(page)
    for text in ("one", "two", "three"):
        ask(page, text)
    take_back(page, 0)
    assert page.evaluate(f"[{BOX}, {QUEUE}]") == ["one", ["two", "three"]]
    page.press("ArrowUp", 38)  # the box is not empty
    assert page.evaluate(QUEUE) == ["two", "three"]
    page.evaluate(f"{BOX} = ''")
    page.press("ArrowUp", 38)
    assert page.evaluate(f"[{BOX}, {QUEUE}]") == ["three", ["two"]]
    stop(page)


def test_a_stop_gives_them_back(page):
    """After Stop nothing is sent: the messages are in the box, in their order."""
    begin_work(page)
    for text in ("one", "two"):
        ask(page, text)
    page.type("three")
    assert "You stopped this" in stop(page)
    assert page.evaluate(BOX) == "one\ntwo\nthree"
    assert page.evaluate(f"[{QUEUE}, {PROMPTS}]") == [[], ["work 20 seconds"]]
    assert page.evaluate(f"[{SEND}.hidden, {SEND}.innerText]") == [False, "Send"]


def test_a_button_queues(page):
    """Beside Stop there is a button for the message in the box, if there is one."""
    begin_work(page)
    assert page.evaluate(f"{SEND}.hidden")
    page.type("hello")
    assert page.evaluate(f"[{SEND}.hidden, {SEND}.innerText]") == [False, "Queue"]
    page.click("#send")
    assert page.evaluate(QUEUE) == ["hello"]
    assert page.evaluate(f"{SEND}.hidden")
    stop(page)


def test_the_box_on_a_phone(page, served):
    """The box is one line high again when its text is in the queue."""
    page.open(f"{served.url}/agent/", width=390, height=700)
    height = "document.getElementById('prompt').offsetHeight"
    before = page.evaluate(height)
    begin_work(page)
    page.type("a text that takes several lines on a phone with two buttons beside it")
    page.wait_for(f"{height} > {before}")
    page.click("#send")
    assert page.evaluate(QUEUE)
    assert page.evaluate(height) == before
    stop(page)


def test_a_reload_keeps_them(page):
    """The queue is there after a reload, and sent after the run."""
    ask(page, "tell me a story")
    page.wait_for(f"{TEXT}.length > 60")
    ask(page, "hello")
    page.reload()
    page.wait_for(f"{IS_LIVE} && {TEXT}.length > 60")
    assert page.evaluate(QUEUE) == ["hello"]
    page.wait_for(f"{PROMPTS}.length == 2 && {IS_IDLE}")
    assert page.evaluate(PROMPTS) == ["tell me a story", "hello"]


def test_while_it_asks(page):
    """A message is no answer to a question: it is queued, too."""
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    ask(page, "hello")
    assert page.evaluate(QUEUE) == ["hello"]
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(f"{PROMPTS}.length == 2 && {IS_IDLE}")
    assert "2 x pizzas" in page.evaluate("document.querySelector('.turn').innerText")


def test_a_lost_server(visit):
    """What could not be sent is not lost: it is in the box."""
    with Served("werkzeug") as running:
        page = visit(running)
        begin_work(page)
        ask(page, "hello")
        running.kill()
    page.wait_for(IS_IDLE)
    assert "not known" in page.evaluate(f"{TURN}.innerText")
    assert page.evaluate(f"[{BOX}, {QUEUE}]") == ["hello", []]


def test_another_chat(visit, tmp_path):
    """The queue is of its chat: whoever leaves the chat has the texts in the box."""
    store = f"sqlite:///{tmp_path}/runs.db"
    with Served("gunicorn", EXAMPLE, store=store) as running:
        page = visit(running)
        begin_work(page)
        ask(page, "hello")
        page.click("#new")
        page.wait_for("document.querySelectorAll('.turn').length == 0")
        assert page.evaluate(f"[{BOX}, {QUEUE}]") == ["hello", []]
        page.evaluate("history.back()")
        page.wait_for(IS_LIVE)
        stop(page)
