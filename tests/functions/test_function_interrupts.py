"""Ctrl+C at any line of a call or a chat: it goes up, and nothing is lost."""

import gc

import pytest
from support.every_line import STORY, Raiser

from syncagent import llm_chat, llm_function
from syncagent.cancel import live_runs
from syncagent.messages import AssistantMessage, Text, UserMessage
from syncagent.testing import ScriptedModel, call, complaints, say

LINES = STORY | {
    f"{name}.py"
    for name in ("functions", "chat_functions", "function_agents", "function_calls")
}
BEFORE = [UserMessage.of("Hi"), AssistantMessage((Text("Hello."),))]


def look() -> str:
    """Look."""
    return "seen"


def talk(message: str, history: list, level: int = 1) -> None:
    """Be nice."""


def answer(text: str) -> int:
    """Answer."""


def scripted():
    return ScriptedModel([say("Wait.", call("look", {})), '{"value": 1}'])


def iterate(chat, history):
    for _ in chat("And now?", history):
        pass


def iterate_within(chat, history):
    with chat("And now?", history) as stream:
        for _ in stream:
            pass


def is_live():
    """Is a run left? What an exception holds is gone when that is."""
    if live_runs():
        gc.collect()
    return bool(live_runs())


@pytest.mark.parametrize("use", [iterate, iterate_within])
def test_ctrl_c_at_every_line_of_a_chat(use):
    """Promise 4: the history has what was there, is valid, and can be gone on with."""
    for number in range(1, 10_000):
        chat = llm_chat(scripted(), tools=[look])(talk)
        history, raiser = list(BEFORE), Raiser(number, LINES)
        went_up = raiser.call(lambda c=chat, h=history: use(c, h))
        if raiser.where is None:
            break
        assert went_up, raiser.where
        assert history[:2] == BEFORE, raiser.where
        assert complaints(history) == {}, raiser.where
        assert not is_live(), raiser.where
        *_, last = chat.using(model=ScriptedModel("Fine."))("Go on.", history)
        assert last.result.text == "Fine."
    assert number > 300


def test_ctrl_c_at_every_line_of_a_call():
    """Promises 7 and 8: no run is left, and the function can be called again."""
    for number in range(1, 10_000):
        function = llm_function(scripted(), tools=[look])(answer)
        raiser = Raiser(number, LINES)
        went_up = raiser.call(lambda f=function: f("x"))
        if raiser.where is None:
            break
        assert went_up, raiser.where
        assert not is_live(), raiser.where
        assert function.using(model=ScriptedModel(["2"]))("x") == 2
    assert number > 300
