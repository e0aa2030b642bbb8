"""The page behind three workers with a store: Stop, approve, reload, lost workers."""

import os
import signal

import pytest
from flask_page import (
    ASK,
    IS_IDLE,
    TEXT,
    TOOL,
    TURN,
    ask,
    begin_story,
    begin_work,
    stop,
    wrong,
)
from flask_serving import EXAMPLE, STORED, Served
from support.browser import CHROMIUM
from support.threads import until

from syncagent.stores import RunStore

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

#: The first and the last words of the story.
FIRST, LAST = "Once upon a time", "they are talking still."


class Stored(Served):
    """Three workers with a store, and a look into it."""

    def __init__(self, folder):
        self.store_url = f"sqlite:///{folder}/runs.db"
        super().__init__("gunicorn -w 3", STORED)
        self._settings["STORE"] = self.store_url

    def __enter__(self):
        super().__enter__()
        self.store = RunStore(self.store_url)
        assert until(lambda: len(self.workers) == 3)
        self.store.list()
        return self

    def __exit__(self, *raised):
        self.store.close()
        super().__exit__(*raised)

    def live(self):
        """Return the live runs, newest first."""
        return self.store.list(live=True)

    def pid(self):
        """Return the worker that has the only live run."""
        worker = until(lambda: [run.worker for run in self.live() if run.worker])
        return int(worker[0].rpartition(":")[2])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Stored(tmp_path_factory.mktemp("store")) as running:
        yield running


def test_stop_every_time(visit, served):
    """30 of 30 times the first click on Stop ends the run, wherever it is."""
    page = visit(served)
    for _ in range(30):
        begin_work(page)
        said = stop(page)
        assert "You stopped this" in said
        assert page.evaluate(TOOL) == "stopped"
        assert until(lambda: not served.live())
    assert wrong(page) == []


def test_approvals(visit, served):
    """An approval is given once, whichever worker gets it."""
    page = visit(served)
    for number in range(2, 8):
        ask(page, f"order {number} pizzas")
        page.wait_for(ASK)
        page.evaluate(f"{ASK}.querySelector('.yes').click()")
        page.wait_for(IS_IDLE)
        said = page.evaluate(f"{TURN}.innerText")
        assert f"{number} x pizzas would be on the way" in said
        assert "You allowed order" in said
    assert wrong(page) == []


def test_a_question_survives_all_workers(visit, served):
    """A question can be answered after every worker was replaced."""
    page = visit(served)
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    before = set(served.workers)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: len(served.workers) == 3 and not before & set(served.workers))
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(f"{IS_IDLE} && {TURN}.innerText.includes('on the way')")


def test_reloads(visit, served):
    """The story is whole after any number of reloads, and said once."""
    page = visit(served)
    begin_story(page)
    for length in (200, 400, 600):
        page.wait_for(f"{TEXT}.length > {length}")
        page.reload()
        page.wait_for(f"{TEXT}.length >= {length}")
    page.wait_for(IS_IDLE)
    check_story(page)


def test_the_worker_is_killed(visit, served):
    """kill -9 of the worker that has the run: the page goes on, and says all once."""
    page = visit(served)
    begin_story(page)
    pid = served.pid()
    os.kill(pid, signal.SIGKILL)
    page.wait_for(IS_IDLE)
    check_story(page)
    assert served.store.list(limit=1)[0].attempt == 2
    page.reload()
    check_story(page)


def test_a_rolling_restart(visit, served):
    """SIGTERM of one worker after the other cancels nothing that the page shows."""
    page = visit(served)
    begin_story(page)
    before = set(served.workers)
    for pid in before:
        os.kill(pid, signal.SIGTERM)
        assert until(lambda pid=pid: pid not in served.workers)
        assert until(lambda: len(served.workers) == 3)
    page.wait_for(IS_IDLE)
    check_story(page)


def test_a_tool_of_a_killed_worker(visit, served):
    """A tool that was running is told as stopped, not as done, and not run again."""
    page = visit(served)
    begin_work(page)
    os.kill(served.pid(), signal.SIGKILL)
    page.wait_for(IS_IDLE)
    assert page.evaluate(TOOL) == "stopped"
    assert page.evaluate(f"{TURN}.querySelectorAll('.tool').length") == 1


def test_two_tabs(visit, served):
    """The second tab of a visitor lists the run of the first, and stops it."""
    page = visit(served)
    begin_work(page)
    context = page.call("Target.getTargetInfo")["targetInfo"]["browserContextId"]
    first = page.new_tab(context=context)
    page.open(f"{served.url}/agent/")
    page.wait_for("document.querySelector('#live .stop')")
    page.evaluate("document.querySelector('#live .stop').click()")
    page.wait_for("document.querySelectorAll('#live li').length == 0")
    page.switch(first)
    page.wait_for(IS_IDLE)
    assert "You stopped this" in page.evaluate(f"{TURN}.innerText")


def test_there_is_no_timeline(visit, served):
    """A store keeps no recording, so the page offers none."""
    page = visit(served)
    ask(page, "hello")
    page.wait_for(IS_IDLE)
    assert "Timeline" not in page.evaluate("document.body.innerText")


def test_the_example(visit, tmp_path):
    """The example keeps conversations and runs in SQLite, for three workers."""
    store = f"sqlite:///{tmp_path}/runs.db"
    with Served("gunicorn -w 3", EXAMPLE, store=store) as example:
        page = visit(example)
        ask(page, "hello")
        page.wait_for(IS_IDLE)
        ask(page, "what did I say?")
        page.wait_for(f"document.querySelectorAll('.turn').length == 2 && {IS_IDLE}")
        assert "hello" in page.evaluate(TEXT)
        begin_work(page)
        assert "You stopped this" in stop(page)


def test_the_example_after_a_restart(visit, tmp_path):
    """A9: whoever restarts the example finds the chats, and the story goes on."""
    example = Served("gunicorn -w 3", EXAMPLE, store=f"sqlite:///{tmp_path}/runs.db")
    del example._settings["FLASK_SECRET_KEY"]  # as its first lines say it is run
    with example:
        page = visit(example)
        ask(page, "hello")
        page.wait_for(IS_IDLE)
        page.click("#new")
        page.wait_for("document.querySelectorAll('.turn').length == 0")
        begin_story(page)
    with example:
        page.wait_for(IS_IDLE)
        check_story(page)
        page.reload()
        chats = "[...document.querySelectorAll('#chat-list .title')]"
        page.wait_for(f"{chats}.length == 2")
        assert page.evaluate(f"{chats}.map(e => e.innerText)") == [
            "tell me a story",
            "hello",
        ]
        page.evaluate(f"{chats}[1].click()")
        page.wait_for(f"{TURN}?.innerText.includes('hello')")
        ask(page, "what did I say?")
        page.wait_for(f"document.querySelectorAll('.turn').length == 2 && {IS_IDLE}")
        assert "hello" in page.evaluate(TEXT)


def check_story(page):
    """See that the page shows the whole story, once."""
    said = page.evaluate(TEXT)
    assert said.count(FIRST) == 1
    assert said.count(LAST) == 1
    assert said.endswith(LAST)
