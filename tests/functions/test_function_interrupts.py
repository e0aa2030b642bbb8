"""Ctrl+C at any line of a call or a chat: it goes up, and nothing is lost."""

import gc

import pytest
from support.every_line import STORY, Raiser, line_numbers, some_lines

from syncagent import llm_chat, llm_function
from syncagent.cancel import live_runs
from syncagent.messages import AssistantMessage, Text, UserMessage
from syncagent.testing import ScriptedModel, call, complaints, say

pytestmark = pytest.mark.slow

PLACES = (*STORY, "functions/")
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


@some_lines()
@pytest.mark.parametrize("use", [iterate, iterate_within])
def test_ctrl_c_at_every_line_of_a_chat(use, step):
    """Promise 4: the history has what was there, is valid, and can be gone on with."""
    for number in line_numbers(step):
        chat = llm_chat(scripted(), tools=[look])(talk)
        history, raiser = list(BEFORE), Raiser(number, PLACES)
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


@some_lines()
def test_ctrl_c_at_every_line_of_a_call(step):
    """Promises 7 and 8: no run is left, and the function can be called again."""
    for number in line_numbers(step):
        function = llm_function(scripted(), tools=[look])(answer)
        raiser = Raiser(number, PLACES)
        went_up = raiser.call(lambda f=function: f("x"))
        if raiser.where is None:
            break
        assert went_up, raiser.where
        assert not is_live(), raiser.where
        assert function.using(model=ScriptedModel(["2"]))("x") == 2
    assert number > 300
