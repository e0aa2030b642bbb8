"""The page with a store: chats that are reopened, two tabs, and the inbox."""

from pathlib import Path

import pytest
from flask_page import ASK, IS_IDLE, TEXT, TURN, ask, begin_story, begin_work, wrong
from flask_serving import Served
from support.browser import CHROMIUM
from support.threads import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

APPROVING = Path(__file__).parent / "approving"
TURNS = "document.querySelectorAll('.turn').length"
CHATS = "[...document.querySelectorAll('#chat-list .title')]"
NOTICE = "document.getElementById('notice')"
COUNT = "document.getElementById('inbox-count')"
#: The first and the last words of the story.
FIRST, LAST = "Once upon a time", "they are talking still."
#: From now on the page does not notice what other tabs do.
DEAF = """(() => {
    const real = window.fetch;
    window.fetch = (path, options) =>
        path === "conversations" ? new Promise(() => {}) : real(path, options);
})()"""


#: From the next page on, it learns late what is in the store.
SLOW = """(() => {
    const real = window.fetch;
    window.fetch = async (path, options) => {
        if (path === "conversations") await new Promise((d) => setTimeout(d, 1500));
        return real(path, options);
    };
})()"""


class Approving(Served):
    """Three workers with a store, whose visitors have names."""

    def __init__(self, folder):
        super().__init__("gunicorn -w 3", APPROVING)
        self._settings["STORE"] = f"sqlite:///{folder}/runs.db"

    def __enter__(self):
        super().__enter__()
        assert until(lambda: len(self.workers) == 3)
        return self


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Approving(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def visit_as(visit, served, request):
    """Return a function that opens the page for a person, in a browser of its own.

    Each test has its own people, but for the cook.
    """

    def visit_as(name):
        page = visit(served)
        own = name if name == "cook" else f"{name}-{request.node.name}"
        page.open(f"{served.url}/login/{own}")
        page.wait_for("location.hash.startsWith('#c=')")
        return page

    return visit_as


def say_hello(page, text="hello"):
    """Say something, and wait until it is answered."""
    count = page.evaluate(TURNS)
    ask(page, text)
    page.wait_for(f"{TURNS} == {count + 1} && {IS_IDLE}")
    page.wait_for(f"{TEXT}.includes({text!r})")


def second_tab(page, address=None):
    """Open an address in another tab of the same person; return the way back."""
    context = page.call("Target.getTargetInfo")["targetInfo"]["browserContextId"]
    address = address or page.evaluate("location.href")
    first = page.new_tab(context=context)
    page.open(address)
    return first


def open_inbox(page):
    page.evaluate("document.getElementById('inbox-button').click()")
    page.wait_for("document.getElementById('inbox').open")


# -- chats -------------------------------------------------------------------------


def test_reopened_after_a_restart(visit, tmp_path):
    """After a restart a chat is there on a reload, in a new tab, and in the list."""
    running = Approving(tmp_path)
    with running:
        page = visit(running)
        page.open(f"{running.url}/login/anna")
        say_hello(page)
        ask(page, "order 2 pizzas")
        page.wait_for(ASK)
        page.evaluate(f"{ASK}.querySelector('.yes').click()")
        page.wait_for(f"{IS_IDLE} && {TURN}?.innerText.includes('on the way')")
    with running:
        page.reload()
        page.wait_for(f"{TURNS} == 2 && {TURN}?.innerText.includes('on the way')")
        first = second_tab(page)
        page.wait_for(f"{TURNS} == 2 && {TURN}?.innerText.includes('on the way')")
        assert page.evaluate(f"{TURN}?.querySelector('.tool .how').innerText") == "done"
        page.open("about:blank")
        page.open(f"{running.url}/agent/#c=another")
        page.wait_for(f"{CHATS}.length == 1")
        assert page.evaluate(TURNS) == 0
        page.evaluate(f"{CHATS}[0].click()")
        page.wait_for(f"{TURNS} == 2")
        say_hello(page, "and again")
        assert wrong(page) == []
        page.call("Page.close")
        page.switch(first)
        page.wait_for(f"{TURNS} == 3")  # the first tab shows it by itself


def test_a_question_is_there_again(visit_as):
    """A new tab shows the open question of a chat, and answers it."""
    page = visit_as("anna")
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    second_tab(page)
    page.wait_for(ASK)
    assert "order 2 pizzas" in page.evaluate(f"{TURN}.innerText")
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(f"{IS_IDLE} && {TURN}?.innerText.includes('on the way')")


def test_a_live_run_in_a_new_tab(visit_as):
    """A tab that comes later shows the whole story, once, as the first does."""
    page = visit_as("anna")
    begin_story(page)
    first = second_tab(page)
    for _ in range(2):
        page.wait_for(f"{TEXT}.endsWith({LAST!r})")
        page.wait_for(IS_IDLE)
        assert page.evaluate(TEXT).count(FIRST) == 1
        assert page.evaluate(TURNS) == 1
        page.switch(first)


def test_a_chat_goes_on_without_the_page(visit_as):
    """A new chat does not stop the run of the last one, and Back leads to it."""
    page = visit_as("anna")
    begin_story(page)
    page.click("#new")
    page.wait_for(f"{TURNS} == 0")
    say_hello(page)
    page.evaluate("history.back()")
    page.wait_for(f"{TEXT}.endsWith({LAST!r})")
    page.wait_for(IS_IDLE)
    assert page.evaluate(TEXT).count(FIRST) == 1
    page.evaluate("history.forward()")
    page.wait_for(f"{TURN}?.innerText.includes('hello')")
    page.wait_for(f"{CHATS}.length == 2")
    assert wrong(page) == []


def test_delete(visit_as):
    """Two clicks delete a chat, in every tab; its live run ends."""
    page = visit_as("anna")
    say_hello(page)
    begin_work(page)
    first = second_tab(page)
    page.wait_for(f"{TURNS} == 2")
    button = "document.querySelector('#chat-list li > button:last-child')"
    page.evaluate(f"{button}.click()")
    assert page.evaluate(f"{button}.innerText") == "Really?"
    page.evaluate(f"{button}.click()")
    page.wait_for(f"{CHATS}.length == 0 && {TURNS} == 0")
    page.switch(first)
    page.wait_for(IS_IDLE)
    page.wait_for(f"{CHATS}.length == 0")
    page.reload()
    page.wait_for("!document.getElementById('welcome').hidden")
    assert page.evaluate(TURNS) == 0


def test_a_message_before_the_page_is_ready(visit_as):
    """A message that is sent while the page still reads its chats is shown once."""
    page = visit_as("anna")
    page.call("Page.addScriptToEvaluateOnNewDocument", source=SLOW)
    page.reload()
    begin_story(page)
    page.wait_for(f"{CHATS}.length == 1 && {IS_IDLE}")
    said = page.evaluate(TEXT)
    assert (said.count(FIRST), said.endswith(LAST)) == (1, True)
    assert page.evaluate(TURNS) == 1


# -- two tabs ----------------------------------------------------------------------


def test_a_late_tab(visit_as):
    """The tab that is too late shows why and what came, and keeps the text."""
    page = visit_as("anna")
    say_hello(page)
    first = second_tab(page)
    page.wait_for(f"{TURNS} == 1")
    page.evaluate(DEAF)
    second = page.switch(first)
    say_hello(page, "faster")
    page.switch(second)
    assert page.evaluate(TURNS) == 1
    ask(page, "slower")
    page.wait_for(f"!{NOTICE}.hidden && {TURNS} == 2")
    assert "another tab" in page.evaluate(f"{NOTICE}.innerText")
    assert "faster" in page.evaluate(f"{TURN}.innerText")
    assert page.evaluate("document.getElementById('prompt').value") == "slower"
    page.press("Enter", 13)
    page.wait_for(f"{TURNS} == 3 && {IS_IDLE} && {TEXT}.includes('slower')")
    assert page.evaluate(f"{NOTICE}.hidden")
    page.switch(first)
    page.call("Page.bringToFront")  # a hidden tab asks for nothing
    page.wait_for(f"{TURNS} == 3 && {TEXT}.includes('slower')")


def test_a_tab_while_the_other_one_works(visit_as):
    """A second message waits in the box, and the live run of the other tab is shown."""
    page = visit_as("anna")
    say_hello(page)
    first = second_tab(page)
    page.wait_for(f"{TURNS} == 1")
    page.evaluate(DEAF)
    second = page.switch(first)
    begin_work(page)
    page.switch(second)
    ask(page, "me too")
    page.wait_for(f"!{NOTICE}.hidden && {TURNS} == 2")
    page.wait_for(f"{TURN}?.innerText.includes('%')")
    assert page.evaluate("document.getElementById('prompt').value") == "me too"
    page.click("#stop")
    page.wait_for(IS_IDLE)
    page.switch(first)
    page.wait_for(IS_IDLE)


# -- the inbox ---------------------------------------------------------------------


def test_a_second_person_answers(visit_as):
    """The owner cannot answer; the cook can, in the inbox, and is recorded."""
    page = visit_as("anna")
    ask(page, "order 50 pizzas")
    page.wait_for(f"{ASK}?.innerText.includes('needs an answer from kitchen')")
    assert page.evaluate(f"{ASK}.querySelectorAll('button').length") == 0
    assert page.evaluate(f"{COUNT}.hidden")
    anna = page.new_tab(is_stranger=True)
    cook = visit_as("cook")
    cook.wait_for(f"!{COUNT}.hidden && {COUNT}.innerText == '1'")
    open_inbox(cook)
    card = "document.querySelector('#inbox .card')"
    cook.wait_for(card)
    said = cook.evaluate(f"{card}.innerText")
    assert "anna-test_a_second_person_answers" in said
    assert "order 50 pizzas" in said
    assert '"number": 50' in said
    cook.evaluate(f"{card}.querySelector('.yes').click()")
    cook.wait_for(f"!{card} && {COUNT}.hidden")
    answered = "document.getElementById('inbox-answered').innerText"
    cook.wait_for(f"{answered}.includes('Approved by cook')")
    assert wrong(cook) == []
    page.switch(anna)
    page.wait_for(f"{IS_IDLE} && {TURN}?.innerText.includes('50 x pizzas')")
    open_inbox(page)
    page.wait_for(f"{answered}.includes('Approved by cook')")
    page.press("Escape", 27)
    page.wait_for("!document.getElementById('inbox').open")


def test_questions_of_other_chats(visit_as):
    """Questions of all chats are in the inbox; the answer lets their runs go on."""
    page = visit_as("anna")
    for number in (2, 3):
        ask(page, f"order {number} pizzas")
        page.wait_for(ASK)
        page.click("#new")
        page.wait_for(f"{TURNS} == 0")
    page.wait_for(f"{COUNT}.innerText == '2'")
    open_inbox(page)
    cards = "[...document.querySelectorAll('#inbox .card')]"
    page.wait_for(f"{cards}.length == 2")
    page.evaluate(f"{cards}[0].querySelector('.no').click()")
    page.wait_for(f"{cards}.length == 1")
    page.evaluate(f"{cards}[0].querySelector('.who button').click()")
    page.wait_for(f"{ASK} && {TURN}?.innerText.includes('order 3 pizzas')")
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(f"{IS_IDLE} && {TURN}?.innerText.includes('3 x pizzas')")
    page.wait_for(f"{COUNT}.hidden")
    open_inbox(page)
    answered = "document.getElementById('inbox-answered').innerText"
    page.wait_for(f"{answered}.includes('Denied') && {answered}.includes('Approved')")


def test_escape_in_the_inbox_stops_no_run(visit_as):
    """Escape closes the inbox; only the next one stops the run."""
    page = visit_as("anna")
    begin_work(page)
    open_inbox(page)
    page.press("Escape", 27)
    page.wait_for("!document.getElementById('inbox').open")
    assert not page.evaluate(IS_IDLE)
    page.press("Escape", 27)
    page.wait_for(IS_IDLE)
    assert "You stopped this" in page.evaluate(f"{TURN}.innerText")
