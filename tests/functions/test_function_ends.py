"""How a call ends that does not return: cancelled, limited, unanswered, never right."""

import pickle
import threading
from copy import copy

import pytest
from support.threads import LONG, meanwhile, together
from workbench import Point, model

from syncagent import (
    CancelToken,
    ConfigurationError,
    LimitReached,
    Limits,
    OutputInvalid,
    RunCancelled,
    llm_function,
    tool,
)
from syncagent.cancel import live_runs
from syncagent.events import TextDelta
from syncagent.exceptions import InterruptPending
from syncagent.messages import AssistantMessage, Refusal, Text
from syncagent.schemas import ShapeError
from syncagent.testing import Gate, ScriptedModel, call, cancel_everywhere, say


def answer(text: str) -> Point:
    """Answer."""
    raise NotImplementedError


def function_of(*script, **settings):
    return llm_function(model(*script), **settings)(answer)


@pytest.mark.parametrize("kind", [CancelToken, threading.Event])
def test_a_call_is_cancelled_from_another_thread(kind):
    """Promise 2: it ends at once and raises, with what there was; no retry."""
    stop, gate = kind(), Gate()
    said = model(say("thinking", call("look", {})), gate, '{"x": 1}')
    function = llm_function(said, tools=[look])(answer)

    def cancel():
        gate.wait_reached()
        stop.set() if isinstance(stop, threading.Event) else stop.cancel("enough")

    with meanwhile(cancel), pytest.raises(RunCancelled) as caught:
        function("x", cancel=stop)
    result = caught.value.result
    assert (result.stop_reason, result.output, result.turns) == ("cancelled", None, 2)
    assert [outcome.outcome for outcome in result.tool_outcomes] == ["done"]
    assert len(said.requests) == 2


@tool
def look() -> str:
    """Look."""
    return "seen"


def test_what_is_cancelled_already_asks_nothing():
    """An event that is set is not cleared, and no request is made."""
    stop = threading.Event()
    stop.set()
    said = model("never")
    with pytest.raises(RunCancelled):
        llm_function(said)(answer)("x", cancel=stop)
    assert stop.is_set()
    assert said.requests == []


def test_a_timeout_cancels():
    """The origin says that it was the deadline."""
    with pytest.raises(RunCancelled) as caught:
        function_of(Gate(), "{}")("x", timeout=0.05)
    assert caught.value.result.cancellation.origin == "deadline"


def test_the_text_so_far_is_on_the_error():
    """Promise 5: what was streamed is kept, and can be seen by whoever catches it."""
    stop = CancelToken()

    class Stopper:
        def on_event(self, event):
            if isinstance(event, TextDelta):
                stop.cancel("seen enough")

    function = function_of('{"x": 12345}', hooks=[Stopper()])
    with pytest.raises(RunCancelled, match="seen enough") as caught:
        function("x", cancel=stop)
    assert caught.value.result.text == '{"x":'
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.result.text == '{"x":'


def test_a_cancel_in_a_repair_is_no_attempt():
    """A call that is cancelled between two attempts is over."""
    stop, gate = CancelToken(), Gate()
    said = model("wrong", gate, '{"x": 1}')
    with (
        meanwhile(lambda: (gate.wait_reached(), stop.cancel())),
        pytest.raises(RunCancelled),
    ):
        llm_function(said)(answer)("x", cancel=stop)
    assert len(said.requests) == 2


def test_a_limit_ends_a_call():
    """It names the limit and the function, and has what there is."""
    script = [say(call("look", {}))] * 3
    function = function_of(*script, tools=[look], limits=Limits(turns=2))
    with pytest.raises(LimitReached, match=r"answer: the limit on turns") as caught:
        function("x")
    assert caught.value.result.turns == 2


@tool(requires_approval=True)
def shoot() -> str:
    """Shoot."""
    return "bang"


def test_an_interrupt_that_nobody_answers():
    """It says what was asked and what to do; nothing was called."""
    function = function_of(say(call("shoot", {})), '{"x": 1}', tools=[shoot])
    with pytest.raises(
        InterruptPending, match=r"answer: .* about shoot.*approve="
    ) as e:
        function("x")
    assert [asked.tool for asked in e.value.result.interrupts] == ["shoot"]
    assert pickle.loads(pickle.dumps(e.value)).result.stop_reason == "interrupt"


def test_an_interrupt_that_somebody_answers():
    """With a handler the call goes on."""
    script = [say(call("shoot", {})), '{"x": 1}']
    function = function_of(*script, tools=[shoot], approve=lambda request: True)
    assert function("x") == Point(1)


def test_a_handle_waits_for_the_answer():
    """In the background it is asked, and its value is had of the result."""
    function = function_of(say(call("shoot", {})), '{"x": 1}', tools=[shoot])
    with function.start("x") as handle:
        for event in handle.subscribe():
            if type(event).__name__ == "InterruptRaised":
                assert handle.answer("call_shoot", True)
        assert function.value(handle.result(LONG)) == Point(1)


def test_a_handle_is_cancelled():
    """Its result says so, and the value raises."""
    gate = Gate()
    function = function_of(gate, "{}")
    with function.start("x") as handle:
        gate.wait_reached()
        assert handle.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            function.value(handle.result(LONG))


def test_a_stream_yields_events_and_has_the_value():
    """All events come, and at the end the value is there."""
    function = function_of('{"x": 1}')
    with function.stream("x", timeout=LONG) as stream:
        words = [event.text for event in stream if isinstance(event, TextDelta)]
    assert "".join(words) == '{"x": 1}'
    assert stream.result.output == function.value(stream.result) == Point(1)


def test_a_stream_that_is_left():
    """Who breaks out of it has cancelled it."""
    function = function_of('{"x": 1}')
    with function.stream("x") as stream:
        for _ in stream:
            break
    with pytest.raises(RunCancelled, match="origin closed"):
        function.value(stream.result)


@pytest.mark.parametrize(("repairs", "attempts"), [(0, 1), (1, 2), (2, 3), (5, 6)])
def test_a_model_that_never_complies(repairs, attempts):
    """It is asked so often and no more; the error has the last attempt."""
    wrong = [f'{{"x": "no {n}"}}' for n in range(9)]
    said = model(*wrong)
    with pytest.raises(OutputInvalid, match=r"\$\.x") as caught:
        llm_function(said, repairs=repairs)(answer)("x")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.attempts, len(said.requests)) == (attempts, attempts)
    assert error.text == f'{{"x": "no {attempts - 1}"}}'
    assert isinstance(error.problem, ShapeError)
    assert (error.problem.path, error.problem.expected) == ("$.x", "int")
    assert "no" in error.problem.got
    assert error.result.text == error.text
    assert error.usage.input_tokens == 10 * attempts


def test_a_repair_tells_path_expected_and_got():
    """The model reads what is wrong, and where."""
    said = model('{"x": 1, "y": "up"}', '{"x": -1}', '{"x": 1}')
    assert llm_function(said)(answer)("x") == Point(1)
    first, second = (asked[-1].content[0].text for asked in said.requests[1:])
    assert "at $.y: expected int, got" in first
    assert "up" in first
    assert "$.x" in second
    assert "-1" in second


@pytest.mark.parametrize("kind", [str, int])
@pytest.mark.parametrize(
    ("block", "reason", "said"),
    [
        (Refusal("I cannot."), "refusal", "the model refused: I cannot."),
        (Text("Once upon"), "max_tokens", "cut off.*max_tokens="),
    ],
)
def test_an_answer_that_is_none(kind, block, reason, said):
    """A refusal, or half an answer, is never returned as if it were one."""

    def tell() -> kind:
        """Tell."""

    function = llm_function(model(AssistantMessage((block,), reason)))(tell)
    with pytest.raises(OutputInvalid, match=f"tell: .*{said}") as caught:
        function()
    assert caught.value.result.stop_reason == reason
    assert caught.value.problem is None


def test_an_error_of_the_model_goes_up():
    """It is what the model raised, and the next call works."""
    function = function_of(TimeoutError("no answer"), '{"x": 1}')
    with pytest.raises(TimeoutError, match="no answer"):
        function("x")
    assert function("x") == Point(1)


def test_a_call_inside_a_tool_ends_with_the_run():
    """Promise 2: a function that is a tool is cancelled with the run that calls it."""
    gate, stop = Gate(), CancelToken()
    inner = llm_function(model(gate, "{}"))(answer)
    outer = llm_function(
        model(say(call("answer", {"text": "a"})), "never"), tools=[inner]
    )(answer)
    with (
        meanwhile(lambda: (gate.wait_reached(), stop.cancel("both"))),
        pytest.raises(RunCancelled, match="both") as caught,
    ):
        outer("x", cancel=stop)
    assert caught.value.result.cancellation.phase == "agent"


def test_a_call_that_is_sent_to_the_background_still_returns():
    """Whoever calls a function waits for its value, wherever it is made."""

    @tool
    def leave() -> str:
        """Leave."""
        (live,) = live_runs()
        live.token.request_background()
        return "left"

    script = [say(call("leave", {})), '{"x": 1}']
    function = function_of(*script, *script, tools=[leave])
    assert function("x") == Point(1)
    *_, last = function.stream("x")
    with pytest.raises(ConfigurationError, match="in the background"):
        function.value(last.result)
    with last.result.handle as handle:
        assert function.value(handle.result(LONG)) == Point(1)


class Fixed:
    """Gives the one agent that is swept."""

    def __init__(self, agent):
        self.make = lambda: agent


@pytest.mark.parametrize("way", ["inside", "thread"])
def test_a_call_is_cancelled_everywhere(way):
    """Promises 2 to 8: at every point of a call, with a tool and with a repair."""

    def script(messages):
        last = messages[-1].content[0]
        if getattr(last, "name", "") == "look":
            return "no JSON"
        text = getattr(last, "text", "")
        return '{"x": 1}' if "fit the requested schema" in text else CALL

    seen = []

    class Seen:
        def on_finish(self, result):
            seen.append(result)

    function = llm_function(ScriptedModel(script), tools=[look], hooks=[Seen()])(answer)

    def run(agent, prompt):
        swept = copy(function)
        swept._maker = Fixed(agent)
        try:
            assert swept(prompt) == Point(1)
        except RunCancelled as error:
            return error.result
        return seen[-1]

    sweep = cancel_everywhere(function._maker.make, "x", way=way, run=run)
    assert {"begin", "stream", "tool", "turn"} <= sweep.phases
    assert len(sweep.points) > 20


CALL = say(call("look", {}))


def test_fifty_threads_call_one_function():
    """Promise 9: each gets its own answer; those that are cancelled disturb none."""
    said = ScriptedModel(lambda messages: f'{{"x": {number_in(messages)}}}')
    function = llm_function(said)(answer)
    got = {}

    def one(number):
        stop = threading.Event()
        if number % 5 == 0:
            stop.set()
        try:
            got[number] = function(f"number {number}", cancel=stop).x
        except RunCancelled:
            got[number] = "cancelled"

    together(*(lambda n=n: one(n) for n in range(50)))
    assert got == {n: n if n % 5 else "cancelled" for n in range(50)}


def number_in(messages):
    return int(messages[0].content[0].text.rpartition("number ")[2].split('"')[0])
