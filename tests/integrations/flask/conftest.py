"""A browser, and visitors with the chat page open."""

import pytest
from flask_page import IS_IDLE, IS_LIVE
from support.browser import Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all pages."""
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def visit(browser):
    """Return a function that opens the page of a server for a new visitor."""
    tabs = []

    def visit(served):
        tabs.append(browser.new_tab(is_stranger=True))
        browser.open(f"{served.url}/agent/")
        return browser

    yield visit
    for before in reversed(tabs):
        if browser.evaluate(f"document.getElementById('stop') && {IS_LIVE}"):
            browser.press("Escape", 27)
            browser.wait_for(IS_IDLE)
        browser.switch(before)
