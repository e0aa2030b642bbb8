"""The page of the example in a real browser: ask, stop, approve, reload."""

import pytest
from example_site import Example
from support.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

LAST = "[...document.querySelectorAll('.turn')].at(-1)"


@pytest.fixture(scope="module")
def example():
    """The example, served."""
    with Example() as running:
        yield running


@pytest.fixture
def browser(tmp_path, example):
    """A new visitor's browser, with the page open."""
    with Browser(tmp_path / "profile") as opened:
        opened.open(example.url)
        yield opened


def ask(browser, words):
    """Type a question, and send it."""
    browser.click("#prompt")
    browser.type(words)
    browser.press("Enter", 13)
    browser.wait_for(f"{LAST}?.innerText.includes({words!r})")


def click(browser, words):
    """Click on a button of the last question."""
    buttons = f"[...{LAST}.querySelectorAll('button')]"
    found = f"{buttons}.find(b => b.innerText == {words!r})"
    browser.wait_for(found)
    browser.evaluate(f"{found}.click()")


def stop(browser):
    browser.wait_for("!document.querySelector('#stop').hidden")
    browser.click("#stop")


def test_stop_and_ask_again(browser):
    """Issue 8: type, stream, Stop: the text is kept and marked; then ask again."""
    ask(browser, "tell me a story")
    browser.wait_for(f"{LAST}.querySelector('.answer').innerText.length > 40")
    stop(browser)
    browser.wait_for(f"{LAST}.innerText.includes('You stopped this')")
    assert browser.evaluate(f"{LAST}.querySelector('.text').innerText.length") > 40
    ask(browser, "hello")
    browser.wait_for("document.querySelectorAll('.turn').length == 2")
    browser.wait_for(f"!{LAST}.hasAttribute('aria-busy')")
    assert "403" not in browser.evaluate("document.body.innerText")


@pytest.mark.parametrize(
    ("button", "words"), [("Allow", "on the way"), ("Deny", "denied")]
)
def test_approve_and_deny(browser, button, words):
    """Issue 8: what needs an approval waits for it, and does what is said."""
    ask(browser, "order 2 pizzas")
    click(browser, button)
    browser.wait_for(f"!{LAST}.hasAttribute('aria-busy')")
    browser.wait_for(f"{LAST}.innerText.includes({words!r})")


def test_reload_in_the_middle(browser):
    """Issue 8: a reload resumes the stream, and Stop still works."""
    ask(browser, "work 20 seconds")
    browser.wait_for(f"{LAST}.innerText.includes('%')")
    browser.reload()
    browser.wait_for(f"{LAST}?.hasAttribute('aria-busy')")
    stop(browser)
    browser.wait_for(f"{LAST}.innerText.includes('You stopped this')")


def test_there_is_no_timeline(browser):
    """The runs of the example are in a store, which keeps no recordings."""
    ask(browser, "hello")
    browser.wait_for(f"!{LAST}.hasAttribute('aria-busy')")
    assert "Timeline" not in browser.evaluate("document.body.innerText")
