"""The page of a timeline, in a real browser."""

import struct
from itertools import pairwise

import pytest
from support.browser import CHROMIUM, Browser
from support.recorded_runs import (
    MARKUP,
    film_cancelled,
    film_hostile,
    film_moved,
    film_normal,
    film_sub_agent,
)

from syncagent.timeline import read_timeline, render_html

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

FILMS = [film_normal, film_hostile, film_cancelled, film_sub_agent, film_moved]
BARS = (
    "[...document.querySelectorAll('details')].map(d => "
    "[...d.querySelectorAll('summary rect')].map(r => r.getBoundingClientRect())"
    ".every(b => b.width > 0 && b.height > 0))"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def draw(tmp_path):
    def draw(film):
        recording, page = tmp_path / "run.jsonl", tmp_path / "run.html"
        film(recording)
        timeline = read_timeline(recording)
        page.write_text(render_html(timeline), encoding="utf-8")
        return page, timeline

    return draw


@pytest.mark.parametrize("film", FILMS)
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (1100, True), (390, False)])
def test_the_page_is_shown_as_it_is_meant(browser, draw, tmp_path, film, width, dark):
    """All rows and bars are there, nothing complains, nothing sticks out."""
    page, timeline = draw(film)
    browser.open(page, width=width, dark=dark)
    assert browser.complaints() == []
    rows = browser.evaluate(BARS)
    assert len(rows) == len(timeline.rows)
    assert all(rows)
    wide = browser.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (not dark)
    taken = browser.screenshot(tmp_path / "page.png").read_bytes()
    assert struct.unpack(">I", taken[16:20])[0] == width


def test_hostile_words_stay_words(browser, draw):
    """Nothing that was said is an element, and no script of theirs has run."""
    page, _ = draw(film_hostile)
    browser.open(page)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate("typeof window.hacked") == "undefined"
    assert browser.evaluate("document.scripts.length + document.images.length") == 0
    said = browser.evaluate("document.querySelector('pre').textContent")
    assert MARKUP in said
    assert browser.complaints() == []


def test_the_policy_forbids_what_gets_in(browser, draw):
    """Were there a hole, an inline script or style would still do nothing."""
    page, _ = draw(film_normal)
    text = page.read_text()
    hole = '<script>window.hacked = 1</script><p style="color: red" id="p">x</p>'
    page.write_text(text.replace("<header>", f"{hole}<header>"))
    browser.open(page)
    assert browser.evaluate("typeof window.hacked") == "undefined"
    colour = "getComputedStyle(document.getElementById('p')).color"
    assert browser.evaluate(colour) != "rgb(255, 0, 0)"


def test_a_row_opens_by_click_and_by_key(browser, draw):
    """Details are one click, or Tab and Enter, away."""
    page, _ = draw(film_normal)
    browser.open(page)
    opened = "document.querySelectorAll('details[open]').length"
    browser.click("details.tool summary")
    assert browser.evaluate(opened) == 1
    shown = browser.evaluate("document.querySelector('details[open] .body').innerText")
    assert "published: news" in shown
    browser.open(page)
    browser.press("Tab", 9)
    browser.press("Enter", 13)
    assert browser.evaluate(opened) == 1


def test_the_cancel_is_one_line_over_all_rows(browser, draw):
    """In each row it is at the same place, and rows leave no gap."""
    page, timeline = draw(film_cancelled)
    browser.open(page)
    lines = browser.evaluate(
        "[...document.querySelectorAll('.chart line.cut')].map(l => "
        "(b => [b.x, b.top, b.bottom])(l.getBoundingClientRect()))"
    )
    assert len(lines) == len(timeline.rows) + 1
    assert len({round(x, 1) for x, _, _ in lines}) == 1
    for (_, _, bottom), (_, top, _) in pairwise(lines):
        assert top - bottom <= 1.5
