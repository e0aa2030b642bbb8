"""Approvals on the page: what is shown is what is called, character by character."""

import json

import pytest
from flask_page import ASK, IS_IDLE, TOOL, TURN, ask, wrong
from flask_serving import TELLING, Served
from support.browser import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

SHOWN = f"{ASK}.querySelector('pre').textContent"
EDIT = f"{ASK}.querySelector('textarea')"
#: Each of them is invisible, or changes the order of what stands beside it.
HIDDEN = (
    "\u202e\u2066\u200b\u200f\ufeff\u2028\u2029\u00ad\u3164\u2800\u00a0\x7f\x9b\ufe0f"
)
TAG = "\U000e0041"


@pytest.fixture(scope="module")
def telling():
    with Served("gunicorn", TELLING, grace=20) as running:
        yield running


@pytest.fixture
def page(visit, telling):
    return visit(telling)


def call(page, tool, arguments):
    """Have the model call a tool; arguments are a dict, or text as it writes it."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    ask(page, json.dumps({"tool": tool, "arguments": arguments}))


def button(page, label):
    found = f"[...{ASK}.querySelectorAll('button')].find(b => b.innerText == {label!r})"
    page.evaluate(f"{found}.click()")


def result(page):
    """Return what the tool says about its arguments."""
    page.wait_for(f"{IS_IDLE} && {TURN}.querySelector('.tool.done')")
    text = page.evaluate(f"{TURN}.querySelectorAll('.tool pre')[1].textContent")
    return json.loads(text)


def test_large_numbers(page):
    """M1: an integer above 2**53 is shown and called as it is, edited or not."""
    call(page, "pay", {"amount": 9007199254740993})
    page.wait_for(ASK)
    assert '"amount": 9007199254740993' in page.evaluate(SHOWN)
    button(page, "Edit")
    assert "9007199254740993" in page.evaluate(f"{EDIT}.value")
    page.evaluate(f"{EDIT}.value = {EDIT}.value.replace('}}', ', \"note\": \"x\"}}')")
    button(page, "Allow")
    assert result(page) == {"amount": 9007199254740993, "note": "x", "is_int": True}
    assert "with edited arguments" in page.evaluate(f"{TURN}.innerText")
    args = page.evaluate(f"{TURN}.querySelector('.tool pre').textContent")
    assert "9007199254740993" in args


def test_floats_and_duplicates(page):
    """M1: the text is that of the call, not that of the model."""
    call(page, "pay", '{"amount": 1, "amount": -0.0}')
    page.wait_for(ASK)
    assert page.evaluate(SHOWN) == '{\n  "amount": -0.0\n}'
    button(page, "Allow")
    assert str(result(page)["amount"]) == "-0.0"


def test_hidden_characters(page):
    """M1: characters that are not seen, or that turn text around, are escapes."""
    call(page, "pay", {"amount": 1, "note": f"send \u202e001$\u202c{HIDDEN}{TAG}"})
    page.wait_for(ASK)
    shown = page.evaluate(SHOWN)
    escapes = "".join(f"\\u{ord(each):04x}" for each in HIDDEN)
    assert rf"send \u202e001$\u202c{escapes}\udb40\udc41" in shown
    assert shown.replace("\n", "").isascii()
    said = page.evaluate(f"{ASK}.innerText")
    assert r"reason: send \u202e001$\u202c" in said
    button(page, "Edit")
    assert page.evaluate(f"{EDIT}.value") == shown
    button(page, "Allow")  # nothing was changed: nothing is sent back
    assert "with edited" not in page.evaluate(f"{TURN}.innerText")
    page.wait_for(IS_IDLE)
    brief = page.evaluate(f"{TURN}.querySelector('.brief').textContent")
    assert brief.isascii()
    page.wait_for(f"{TURN}.querySelector('.tool.done')")


def test_hidden_characters_come_back(page):
    """M1: an edit keeps the characters that are shown as escapes."""
    call(page, "pay", {"amount": 1, "note": "a\u202eb\U000e0041"})
    page.wait_for(ASK)
    button(page, "Edit")
    page.evaluate(f"{EDIT}.value = {EDIT}.value.replace('1', '2')")
    button(page, "Allow")
    page.wait_for(f"{IS_IDLE} && {TURN}.querySelector('.tool.done')")
    runs = "fetch('runs').then(r => r.json()).then(l => l.runs[0].id)"
    page.evaluate(f"{runs}.then(id => window.id = id)")
    stream = "fetch(`runs/${window.id}/events`).then(r => r.text())"
    started = [
        json.loads(line[6:])
        for line in page.evaluate(stream).splitlines()
        if line.startswith('data: {"type":"tool_started"')
    ]
    assert started[0]["arguments"] == {"amount": 2, "note": "a\u202eb\U000e0041"}


def test_strings_do_not_change_places(page):
    """M1: two right-to-left strings on one line stay in their order."""
    call(page, "pay", {"amount": 1, "note": "\u05d0\u05d1", "to": "\u05d2\u05d3"})
    page.wait_for(ASK)
    places = (
        f"[...{ASK}.querySelectorAll('pre bdi')]"
        ".filter(b => /note|\\u05d0/.test(b.textContent))"
        ".map(b => b.getBoundingClientRect().x)"
    )
    key, value = page.evaluate(places)
    assert key < value
    assert page.evaluate(f"{ASK}.querySelector('pre').dir") == "ltr"


def test_wrong_json(page):
    """M1: edited text that is not JSON says where; the question stays open."""
    call(page, "pay", {"amount": 1})
    page.wait_for(ASK)
    button(page, "Edit")
    page.evaluate(f"{EDIT}.value = '{{\\n  amount: 2}}'")
    button(page, "Allow")
    page.wait_for(f"{ASK}.querySelector('.wrong:not([hidden])')")
    said = page.evaluate(f"{ASK}.querySelector('.wrong').innerText")
    assert "line 2, column 3" in said
    page.evaluate(f'{EDIT}.value = \'{{"amount": "much"}}\'')
    button(page, "Allow")
    page.wait_for(f"{ASK}.querySelector('.wrong').innerText.includes('amount')")
    button(page, "Discard edits")
    button(page, "Allow")
    assert result(page)["amount"] == 1


def edit_path(page, path):
    """Have a file read, and change its path in the approval."""
    call(page, "read_file", {"path": "/data/a"})
    page.wait_for(ASK)
    button(page, "Edit")
    page.evaluate(f"{EDIT}.value = {EDIT}.value.replace('/data/a', {path!r})")
    button(page, "Allow")


def test_an_edit_that_a_hook_denies(page):
    """H1: edited arguments pass the hooks and the rules of the application."""
    edit_path(page, "/etc/passwd")
    page.wait_for(IS_IDLE)
    assert page.evaluate(TOOL) == "denied"
    assert "the text of" not in page.evaluate(f"{TURN}.innerText")


def test_an_edit_that_a_hook_changes(page):
    """H1: what a hook makes of edited arguments is asked about once more."""
    edit_path(page, "/tmp/b")
    page.wait_for(f"{ASK} && {SHOWN}.includes('/data/tmp/b')")
    page.reload()
    page.wait_for(f"{ASK} && {SHOWN}.includes('/data/tmp/b')")
    assert page.evaluate("document.querySelectorAll('.ask:not(.over)').length") == 1
    button(page, "Allow")
    page.wait_for(f"{IS_IDLE} && {TURN}.querySelector('.tool.done')")
    text = page.evaluate(f"{TURN}.querySelectorAll('.tool pre')[1].textContent")
    assert text == "the text of /data/tmp/b"


def test_progress_and_questions(page):
    """M1: progress and questions of tools show hidden characters, too."""
    call(
        page,
        "report",
        {"text": "pay \u202e001$\u202c\u200b? \U0001f468\u200d\U0001f469"},
    )
    page.wait_for(f"{ASK} && {TOOL}.includes('done')")
    note = page.evaluate(TOOL)
    assert "9007199254740993" in note
    assert r"send \u202e001$\u202c" in note
    said = page.evaluate(f"{ASK}.querySelector('.question').textContent")
    # An emoji of two people is one sign, and no deception.
    assert said == "pay \\u202e001$\\u202c\\u200b? \U0001f468\u200d\U0001f469"
    assert "Already answered" not in page.evaluate(f"{TURN}.innerText")
    button(page, "Decline")
    page.wait_for(IS_IDLE)


def test_a_name_that_is_no_tool(page):
    """M1: the name of a call is shown as it is."""
    call(page, "pay\u202e\u200b", {"amount": 1})
    page.wait_for(IS_IDLE)
    name = page.evaluate(f"{TURN}.querySelector('.tool .name').textContent")
    assert name == r"pay\u202e\u200b"


def test_giant_arguments(page):
    """M1: arguments of 200 kB are shown, and can be allowed."""
    call(page, "pay", {"amount": 1, "note": "send " * 40_000})
    page.wait_for(ASK)
    assert page.evaluate(f"{SHOWN}.length") > 200_000
    button(page, "Allow")
    page.wait_for(f"{IS_IDLE} && {TURN}.querySelector('.tool.done')")
    assert wrong(page) == []


def test_arguments_that_may_not_be_changed(visit):
    """H1: with may_change_arguments=False there is no Edit, and no way around it."""
    with Served("gunicorn", TELLING, may_change_arguments=False) as fixed:
        page = visit(fixed)
        call(page, "pay", {"amount": 1})
        page.wait_for(ASK)
        labels = (
            f"[...{ASK}.querySelectorAll('button')]"
            ".filter(b => b.offsetWidth).map(b => b.innerText)"
        )
        assert page.evaluate(labels) == ["Allow", "Deny"]
        answer = json.dumps({"allow": True, "arguments": {"amount": 2}})
        path = "runs/${run.id}/answers"
        post = (
            "fetch('runs').then(r => r.json()).then(({ runs: [run] }) => "
            f"fetch(`{path}`, {{ method: 'POST', "
            "headers: { 'Content-Type': 'application/json' }, "
            "body: JSON.stringify({ answers: { [run.interrupts[0].id]: "
            f"{answer} }} }}) }})).then(r => r.status)"
        )
        assert page.evaluate(post) == 403
        button(page, "Allow")
        assert result(page)["amount"] == 1
