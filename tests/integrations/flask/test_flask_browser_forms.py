"""Forms on the page: real fields, checked by the server, submitted or declined."""

import json

import pytest
from flask_page import ASK, IS_IDLE, TURN, ask, wrong
from flask_serving import TELLING, Served
from support.browser import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "As written"},
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date", "default": "2026-01-31"},
        "seats": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "share": {"type": "number"},
        "news": {"type": "boolean", "default": True},
        "room": {"enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        "meal": {
            "type": "string",
            "oneOf": [{"const": "f", "title": "Fish"}, {"const": "m"}],
            "default": "m",
        },
        "days": {
            "type": "array",
            "items": {"anyOf": [{"const": "mo", "title": "Monday"}, {"const": "tu"}]},
        },
    },
    "required": ["name", "meal"],
}


@pytest.fixture(scope="module")
def telling():
    with Served("gunicorn", TELLING, grace=20) as running:
        yield running


@pytest.fixture
def page(visit, telling):
    return visit(telling)


def show(page, form=FORM):
    """Have a tool ask with this form, and wait until it is shown."""
    arguments = json.dumps({"form": json.dumps(form)})
    ask(page, json.dumps({"tool": "fill_in", "arguments": arguments}))
    page.wait_for(ASK)


def field(name):
    return f"{ASK}.querySelector('[name={name}]')"


def fill(page, name, value):
    page.evaluate(f"{field(name)}.value = {json.dumps(value)}")


def button(page, label):
    found = f"[...{ASK}.querySelectorAll('button')].find(b => b.innerText == {label!r})"
    page.evaluate(f"{found}.click()")


def answer(page):
    """Return the answer that the tool got."""
    page.wait_for(f"{IS_IDLE} && {TURN}.querySelector('.tool.done')")
    text = page.evaluate(f"{TURN}.querySelectorAll('.tool pre')[1].textContent")
    return json.loads(text)["answer"]


def test_a_form_has_real_fields(page):
    """Each kind of value has its own kind of field, with its default."""
    show(page)
    kinds = page.evaluate(
        f"[...{ASK}.querySelectorAll('input, select')].map(e => [e.name, e.type, "
        "e.type == 'checkbox' ? e.checked : e.value])"
    )
    assert kinds == [
        ["name", "text", ""],
        ["mail", "email", ""],
        ["day", "date", "2026-01-31"],
        ["seats", "number", "2"],
        ["share", "number", ""],
        ["news", "checkbox", True],
        ["room", "select-one", ""],
        ["meal", "select-one", "m"],
        ["days", "select-multiple", ""],
    ]
    text = page.evaluate(f"{ASK}.innerText")
    assert "Your name" in text
    assert "As written" in text
    assert "mail (optional)" in text
    assert "Green" in text
    assert "Monday" in text
    assert "\\u202e001$" in text  # nothing turns the text around
    assert wrong(page) == []
    button(page, "Decline")
    assert answer(page) == "declined"


def test_a_form_is_submitted(page):
    """The tool gets what was filled in, and defaults; what was left empty is absent."""
    show(page)
    fill(page, "name", "Ann")
    fill(page, "seats", "3")
    fill(page, "room", "g")
    page.evaluate(f"{field('news')}.click()")
    page.evaluate(f"for (const o of {field('days')}.options) o.selected = true")
    button(page, "Submit")
    assert answer(page) == {
        "name": "Ann",
        "day": "2026-01-31",
        "seats": 3,
        "news": False,
        "room": "g",
        "meal": "m",
        "days": ["mo", "tu"],
    }
    assert "You submitted the form." in page.evaluate(f"{TURN}.innerText")


def test_enter_submits(page):
    """The Enter key in a field sends the form, and no message."""
    show(page)
    fill(page, "name", "Ann")
    page.evaluate(f"{field('name')}.focus()")
    page.press("Enter", 13)
    assert answer(page)["name"] == "Ann"


def test_a_wrong_answer_leaves_the_form_open(page):
    """The server says what is wrong, the fields keep their values, and it can go on."""
    show(page)
    fill(page, "name", "Ann")
    fill(page, "seats", "12")
    button(page, "Submit")
    page.wait_for(f"{ASK}?.querySelector('.wrong')?.innerText.includes('seats')")
    shown = page.evaluate(f"{ASK}.querySelector('.wrong').innerText")
    assert "'seats' must be 1 to 9" in shown
    assert page.evaluate(f"{field('name')}.value") == "Ann"
    fill(page, "seats", "4")
    button(page, "Submit")
    assert answer(page)["seats"] == 4


def test_a_form_is_declined(page):
    """The tool learns that it was a no."""
    show(page)
    button(page, "Decline")
    assert answer(page) == "declined"
    assert "You declined." in page.evaluate(f"{TURN}.innerText")


def test_names_are_never_markup(page):
    """Titles and choices from a server are text, whatever they look like."""
    evil = "<img src=x onerror=alert(1)>"
    show(
        page,
        {
            "type": "object",
            "properties": {
                evil: {"enum": [evil], "title": evil, "description": evil},
            },
        },
    )
    assert page.evaluate(f"{ASK}.querySelector('img')") is None
    assert evil in page.evaluate(f"{ASK}.innerText")
    assert wrong(page) == []
    button(page, "Decline")
    assert answer(page) == "declined"
