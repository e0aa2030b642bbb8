"""Questions in the modern way: a round ends with them, and the client calls again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from .catalogue import FakeMethodFailed
from .exchange import FakeInputRequired, MCPExchange
from .journal import Journal
from .rules import mistakes_in_answer

__all__ = [
    "Rounds",
]


class _Round(msgspec.Struct):
    """A request that ended with questions."""

    method: str
    params: dict[str, Any]
    questions: Mapping[str, Any]
    answers: list[Any]
    id: Any
    #: The script that asked; it plays the next round, too.
    script: Any


class Rounds:
    """The requests that wait for their next round, by ``requestState``."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._numbers = itertools.count(1)
        self._open: dict[str, _Round] = {}
        #: Those whose client was given no state.
        self._without_state: list[_Round] = []

    def ask(self, exchange: MCPExchange, required: FakeInputRequired) -> None:
        """End the round of *exchange* with questions."""
        waiting = _Round(
            exchange.method,
            _bare(exchange.params),
            required.questions,
            exchange.earlier_answers,
            exchange.id,
            exchange.script,
        )
        result: dict[str, Any] = {"resultType": "input_required"}
        if required.questions:
            result["inputRequests"] = required.questions
        if required.state is None:
            self._without_state.append(waiting)
        else:
            state = required.state
            if state == "new":  # every kind of character that a client could spoil
                state = f'state {next(self._numbers)} / "=?\\u2028 é'
            self._open[state] = waiting
            result["requestState"] = state
        exchange.answer(result)

    def resume(self, exchange: MCPExchange) -> None:
        """Give *exchange* the answers of earlier rounds, if it is not the first.

        :raises FakeMethodFailed: the client did not repeat the request as it should.
        """
        params = exchange.params
        if "requestState" not in params and "inputResponses" not in params:
            return
        waiting = self._find(exchange)
        if waiting.id == exchange.id:
            self._fail(exchange, "the next round needs a new id")
        responses = params.get("inputResponses") or {}
        if responses.keys() != waiting.questions.keys():
            asked, got = sorted(waiting.questions), sorted(responses)
            self._fail(exchange, f"inputResponses must answer {asked}; got {got}")
        for key, question in waiting.questions.items():
            mistakes = mistakes_in_answer(
                question["method"], question.get("params") or {}, responses[key]
            )
            self._journal.complain(*mistakes)
        exchange.script = waiting.script
        exchange.earlier_answers = [
            *waiting.answers,
            *(responses[key] for key in waiting.questions),
        ]

    def _find(self, exchange: MCPExchange) -> _Round:
        params, bare = exchange.params, _bare(exchange.params)
        state = params.get("requestState")
        if "requestState" not in params:
            for waiting in self._without_state:
                if (waiting.method, waiting.params) == (exchange.method, bare):
                    return waiting
            self._fail(exchange, "requestState is missing")
        if not isinstance(state, str) or state not in self._open:
            self._fail(exchange, f"requestState was changed: {state!r}")
        waiting = self._open[state]
        if (waiting.method, waiting.params) != (exchange.method, bare):
            self._fail(exchange, "requestState belongs to another request")
        return waiting

    def _fail(self, exchange: MCPExchange, why: str) -> NoReturn:
        exchange.complain(why)
        raise FakeMethodFailed(-32602, why)


def _bare(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that all rounds of a request share."""
    own = {"_meta", "inputResponses", "requestState"}
    return {key: value for key, value in params.items() if key not in own}
