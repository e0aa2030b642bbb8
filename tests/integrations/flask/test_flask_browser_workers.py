"""The page's Stop and answers where the request may reach another server process."""

import pytest
import requests
from flask_page import (
    ASK,
    IS_IDLE,
    IS_LIVE,
    TOOL,
    TURN,
    ask,
    begin_work,
    stop,
)
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

OPERATOR = "a-token-of-the-operator"
#: Requests that reach every worker, as good as certainly.
MANY = 20
#: Answer requests on the page like a process that does not have the run.
ELSEWHERE = """
(() => {{
  const real = window.fetch;
  const message = "There is no such run in this process.";
  const body = JSON.stringify({{ error: {{ code: "not_here", message }} }});
  window.asked = [];
  window.fetch = (path, options) => {{
    if (!/{pattern}/.test(path)) return real(path, options);
    window.asked.push(path);
    return Promise.resolve(new Response(body, {{ status: 404 }}));
  }};
}})()
"""


@pytest.fixture(scope="module")
def two_workers():
    with Served("gunicorn -w 2", operator_token=OPERATOR) as running:
        yield running


@pytest.fixture(scope="module", params=["gunicorn sync", "gunicorn sync -w 2"])
def sync_worker(request):
    with Served(request.param, operator_token=OPERATOR) as running:
        yield running


@pytest.fixture(scope="module")
def quick():
    """A server that waits only a second for a client to return."""
    with Served("gunicorn", grace=1, operator_token=OPERATOR) as running:
        yield running


def live_runs(served):
    """Return the live runs of all workers."""
    found = {}
    for _ in range(MANY):
        response = requests.get(
            f"{served.url}/agent/runs",
            headers={"Authorization": f"Bearer {OPERATOR}", "Connection": "close"},
            timeout=20,
        )
        found |= {run["id"]: run for run in response.json()["runs"] if run["is_live"]}
    return found


def wait_until_idle(served):
    assert until(lambda: not live_runs(served))


# -- several workers ---------------------------------------------------------------


@pytest.mark.parametrize("session", range(3))
def test_stop_with_two_workers(visit, two_workers, session):
    """B1: Stop ends the run, whichever worker its request reaches."""
    page = visit(two_workers)
    begin_work(page)
    said = stop(page)
    assert "You stopped this" in said
    assert "stopped" in page.evaluate(TOOL)
    assert page.evaluate(IS_IDLE)
    wait_until_idle(two_workers)


@pytest.mark.stress
def test_stop_with_two_workers_every_time(visit, two_workers):
    """B1: 12 of 12 visitors stop their runs with the first click."""
    for _ in range(12):
        page = visit(two_workers)
        begin_work(page)
        assert "You stopped this" in stop(page)
        wait_until_idle(two_workers)


@pytest.mark.parametrize("session", range(3))
def test_answers_with_two_workers(visit, two_workers, session):
    """B1: an approval is given, whichever worker its request reaches."""
    page = visit(two_workers)
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(IS_IDLE)
    assert "2 x pizzas would be on the way" in page.evaluate(f"{TURN}.innerText")


def test_a_reload_with_two_workers(visit, two_workers):
    """B1: a reload finds the run again, in whichever worker it is."""
    page = visit(two_workers)
    begin_work(page)
    page.reload()
    page.wait_for(f"{IS_LIVE} && {TOOL}.includes('%')")
    assert "You stopped this" in stop(page)


# -- workers with one thread ------------------------------------------------------


def test_stop_with_a_sync_worker(visit, sync_worker):
    """B2: Stop frees the worker, and the page says what became of the tool."""
    page = visit(sync_worker)
    begin_work(page)
    assert "You stopped this" in stop(page)
    assert page.evaluate(TOOL) == "stopped"
    ask(page, "hello")
    page.wait_for(f"document.querySelectorAll('.turn').length == 2 && {IS_IDLE}")
    assert "error" not in page.evaluate(f"{TURN}.innerHTML")


def test_an_answer_with_a_sync_worker(visit, sync_worker):
    """B2: an approval reaches the worker, which the stream keeps busy."""
    page = visit(sync_worker)
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(IS_IDLE)
    assert "2 x pizzas would be on the way" in page.evaluate(f"{TURN}.innerText")


# -- where no request arrives ------------------------------------------------------


def test_stop_without_an_answer_closes_the_stream(visit, quick):
    """B1: a Stop that is 404 closes the stream, which ends the run where it lives."""
    page = visit(quick)
    begin_work(page)
    page.evaluate(ELSEWHERE.format(pattern="cancel$"))
    page.click("#stop")
    page.wait_for(f"{TURN}.innerText.includes('Stopping: the connection')")
    page.wait_for(IS_IDLE)
    assert "You stopped this" in page.evaluate(f"{TURN}.innerText")
    assert page.evaluate(TOOL) == "stopped"
    assert page.evaluate("window.asked.length") > 3
    wait_until_idle(quick)


def test_an_end_that_is_not_known(visit, quick):
    """B1: the page does not guess: the run and its tool are unknown, not stopped."""
    page = visit(quick)
    begin_work(page)
    page.evaluate(ELSEWHERE.format(pattern=r"runs\/"))
    said = stop(page)
    assert "no such run in this process" in said
    assert "How it ended is not known" in said
    assert "You stopped this" not in said
    assert page.evaluate(TOOL) == "unknown"
    wait_until_idle(quick)
    assert page.evaluate(TOOL) == "unknown"
    page.reload()  # and requests arrive
    page.wait_for(f"{TOOL} == 'stopped' && {TURN}.innerText.includes('You stopped')")


def test_the_list_of_another_process(visit, quick):
    """B1: the page's own run is listed, even if another process sends the list."""
    page = visit(quick)
    begin_work(page)
    page.evaluate(
        "(real => { window.fetch = (path, options) => path == 'runs' "
        """? Promise.resolve(new Response('{"runs": []}')) : real(path, options) })"""
        "(window.fetch)"
    )
    drawn = "document.querySelector('#live .state').innerText"
    before = page.evaluate(drawn)
    page.wait_for(f"{drawn} != {before!r}")
    assert "work" in page.evaluate(drawn)
    page.evaluate(ELSEWHERE.format(pattern=r"runs\/"))
    stop(page)
    page.wait_for("document.querySelector('#finished .state')?.innerText == 'Unknown'")
    assert page.evaluate("document.querySelectorAll('#live li').length") == 0


def test_a_reload_does_not_undo_a_stop(visit, quick):
    """B1: a Stop that was on its way when the page was reloaded still counts."""
    page = visit(quick)
    begin_work(page)
    page.evaluate(ELSEWHERE.format(pattern="cancel$"))
    page.evaluate("document.getElementById('stop').click()")
    page.reload()
    page.wait_for(IS_IDLE)
    assert "You stopped this" in page.evaluate(f"{TURN}.innerText")
    wait_until_idle(quick)


def test_an_answer_that_arrives_nowhere(visit, quick):
    """B1: a question whose answer is 404 stays open, and says so."""
    page = visit(quick)
    ask(page, "order 2 pizzas")
    page.wait_for(ASK)
    page.evaluate("window.before = window.fetch")
    page.evaluate(ELSEWHERE.format(pattern="answers$"))
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(f"{ASK}.querySelector('.wrong:not([hidden])')")
    said = page.evaluate(f"{ASK}.innerText")
    assert "no such run in this process" in said
    assert "The question is still open" in said
    page.evaluate("window.fetch = window.before")
    page.evaluate(f"{ASK}.querySelector('.yes').click()")
    page.wait_for(IS_IDLE)
    assert "2 x pizzas would be on the way" in page.evaluate(f"{TURN}.innerText")


def test_a_tool_that_is_lost_with_its_server(visit):
    """B2: a tool that ran when the server vanished is unknown, not "not started"."""
    with Served("werkzeug") as running:
        page = visit(running)
        begin_work(page)
        running.kill()
    page.wait_for(IS_IDLE)
    assert page.evaluate(TOOL) == "unknown"
    assert "not known" in page.evaluate(f"{TURN}.querySelector('.error').innerText")
