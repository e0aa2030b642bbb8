"""Arguments over HTTP: shown as they are called, and changed where that is allowed.

A browser rounds numbers, so arguments travel as text beside the JSON.
"""

import json

import pytest
from support.threads import LONG, until
from support.web.runs import ANNA, agent_of, make_runs, parse

from syncagent import tool
from syncagent.hooks import Deny
from syncagent.integrations.web.bodies import AnswerBody, decode_body
from syncagent.integrations.web.errors import Refused
from syncagent.integrations.web.views import Views, WebRequest
from syncagent.interrupts import Rule
from syncagent.messages import AssistantMessage, ToolCall

#: As a model may write it, and as it is called.
WRITTEN = '{"amount": 9007199254740993, "note": "send \u202e001$\u202c", "amount": 2e3}'
EXACT = '{\n  "amount": 2000.0,\n  "note": "send \u202e001$\u202c"\n}'

called = []


@tool(requires_approval=True)
def pay(amount: float | int, note: str = "") -> str:
    """Pay.

    :param amount: how much.
    :param note: why.
    """
    called.append((amount, note))
    return "paid"


@pytest.fixture(autouse=True)
def forget():
    called.clear()


@pytest.fixture
def runs():
    with make_runs() as made:
        yield made


def calls(arguments):
    """Return a message that calls the tool, with arguments written like that."""
    call = ToolCall("call_1", "pay", arguments)
    return AssistantMessage((call,), stop_reason="tool_calls")


def asking(runs, arguments):
    """Return a run that asks for an approval, and the question as clients see it."""
    agent = agent_of(calls(arguments), "Done.", tools=[pay])
    run = runs.start(agent, "Go.", owner=ANNA)
    until(lambda: run.view().interrupts)
    return run, run.view().interrupts[0]


def post(runs, run, body):
    """Answer over HTTP, and return the status and the response."""
    views = Views(runs, lambda request, start: None, owner_of=str)
    request = WebRequest(
        original=ANNA,
        body=json.dumps(body).encode(),
        content_type="application/json",
    )
    response = views.answer(request, run.id)
    return response.status, json.loads(response.body)


def result_of(run):
    return run.handle.result(LONG)


# -- what is shown -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('{"amount": 9007199254740993}', '{\n  "amount": 9007199254740993\n}'),
        ('{"amount":-0.0}', '{\n  "amount": -0.0\n}'),
        ('{"amount": 1e22}', '{\n  "amount": 1e22\n}'),
        ('{"amount": ' + "9" * 40 + "}", '{\n  "amount": ' + "9" * 40 + "\n}"),
        (WRITTEN, EXACT),
    ],
)
def test_an_approval_has_the_exact_text(runs, written, shown):
    """M1: the arguments are also text, of numbers that a browser would round, too."""
    run, question = asking(runs, written)
    assert question.arguments_text == shown
    assert json.loads(shown) == question.arguments
    run.handle.answer(question.id, True)
    result_of(run)
    raised, started = (
        next(
            data for _, each, data in parse(b"".join(runs.follow(run))) if each == name
        )
        for name in ("interrupt_raised", "tool_started")
    )
    assert raised["interrupts"][0]["arguments_text"] == shown
    assert started["arguments_text"] == shown


def test_the_timeline_is_drawn_all_the_same():
    """M1: the recording of a run has the events as they were."""
    with make_runs(recording=1 << 20) as runs:
        run, question = asking(runs, '{"amount": 9007199254740993}')
        run.handle.answer(question.id, True)
        result_of(run)
        page = run.recording.render(run.public_event, run.error).decode()
    assert "9007199254740993" in page
    assert "unreadable" not in page


# -- what is sent back -------------------------------------------------------------


def test_changed_text_is_called_as_it_was_written(runs):
    """M1: text that comes back is parsed here, and calls the tool with the same."""
    run, question = asking(runs, '{"amount": 1}')
    text = '{"amount": 9007199254740993, "note": "\\u202e"}'
    body = {"answers": {question.id: {"allow": True, "arguments_text": text}}}
    assert post(runs, run, body) == (200, {"answers": {question.id: "taken"}})
    result_of(run)
    assert called == [(9007199254740993, "\u202e")]


def test_an_approval_without_a_change_calls_what_was_shown(runs):
    """M1: a plain yes sends no arguments back."""
    run, question = asking(runs, WRITTEN)
    post(runs, run, {"answers": {question.id: {"allow": True}}})
    result_of(run)
    assert called == [(2000.0, "send \u202e001$\u202c")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"amount" 1}', "line 1, column 11"),
        ('{\n  "amount": 1,\n  oops\n}', "line 3, column 3"),
        ("", "line 1, column 1"),
        ('{"amount": NaN}', "NaN"),
        ('{"amount": 1e400}', "out of range"),
        ('{"amount": ' + "9" * 5000 + "}", "range"),
        ('{"amount": 1, "amount": 2}', "'amount' appears twice"),
        ('{"note": {"a": 1, "a": 2}}', "'a' appears twice"),
        ('{"note": "\\ud800"}', "surrogate"),
        ("[1]", "object"),
        ('{"note": ' + "[" * 5000 + "]" * 5000 + "}", "deep"),
    ],
)
def test_text_that_is_no_object(runs, text, message):
    """M1: wrong JSON is a 400 that says where it is wrong; the question stays open."""
    run, question = asking(runs, '{"amount": 1}')
    body = {"answers": {question.id: {"allow": True, "arguments_text": text}}}
    status, said = post(runs, run, body)
    assert (status, said["error"]["code"]) == (400, "bad_arguments")
    assert message in said["error"]["message"]
    assert [each.id for each in run.view().interrupts] == [question.id]
    assert not called


def test_arguments_that_do_not_fit(runs):
    """M1: arguments that the tool does not take are refused, and the reason is said."""
    run, question = asking(runs, '{"amount": 1}')
    answer = {"allow": True, "arguments_text": '{"amount": "much"}'}
    status, said = post(runs, run, {"answers": {question.id: answer}})
    assert (status, said["answers"]) == (422, {question.id: "refused"})
    assert "amount" in said["messages"][question.id]
    assert run.view().interrupts


@pytest.mark.parametrize("more", [{"arguments": {}}, {"allow": None, "text": "yes"}])
def test_text_is_one_of_two_ways(more):
    """Arguments are given once, and only with a yes."""
    body = {"allow": True, "arguments_text": "{}", **more}
    body = {key: value for key, value in body.items() if value is not None}
    with pytest.raises(Refused, match="exactly one of"):
        decode_body(json.dumps(body).encode(), AnswerBody).value()


# -- where changes are not allowed -------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"arguments": {"amount": 2}}, {"arguments_text": '{"amount": 2}'}]
)
def test_changes_can_be_refused(change):
    """H1: may_change_arguments=False refuses changed arguments; a plain yes counts."""
    with make_runs(may_change_arguments=False) as runs:
        run, question = asking(runs, '{"amount": 1}')
        assert question.may_change_arguments is False
        answers = {question.id: {"allow": True, **change}}
        status, said = post(runs, run, {"answers": answers})
        assert (status, said["error"]["code"]) == (403, "arguments_fixed")
        assert run.view().interrupts
        status, _ = post(runs, run, {"answers": {question.id: {"allow": True}}})
        assert status == 200
        result_of(run)
    assert called == [(1, "")]


# -- changes that hooks and rules see ----------------------------------------------


@tool(requires_approval=True)
def read_file(path: str) -> str:
    """Tell which file would be read.

    :param path: of the file.
    """
    called.append(path)
    return f"the text of {path}"


class DataOnly:
    """Allows files below /data only."""

    def before_tool(self, event):
        is_data = event.arguments["path"].startswith("/data/")
        return None if is_data else Deny("only files below /data")


@pytest.mark.parametrize(
    "settings",
    [
        {"hooks": [DataOnly()]},
        {"rules": [Rule("read_file", allow=False, arguments={"path": "/etc/passwd"})]},
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"path": "/etc/passwd"}},
        {"arguments_text": '{"path": "/etc/passwd"}'},
    ],
)
def test_changed_arguments_pass_hooks_and_rules(runs, settings, change):
    """H1: a user of the page cannot have called what a hook or a rule denies."""
    call = ToolCall("call_1", "read_file", '{"path": "/data/a"}')
    message = AssistantMessage((call,), stop_reason="tool_calls")
    agent = agent_of(message, "Done.", tools=[read_file], **settings)
    run = runs.start(agent, "Go.", owner=ANNA)
    until(lambda: run.view().interrupts)
    (question,) = run.view().interrupts
    answer = {"allow": True, **change}
    post(runs, run, {"answers": {question.id: answer}})
    (outcome,) = result_of(run).tool_outcomes
    assert outcome.outcome == "denied"
    assert not called
