"""The questions of one call, and the two ways in which a client answers them.

A legacy client on pipes is sent a request, and the call waits. A modern client gets the
question as the result of the round; it makes the call again with the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...cancel import CancelToken
from ...exceptions import ToolError
from ..messages import INVALID_PARAMS
from .elicitation import NO_USER, Elicitation, InvalidAnswer, answer_of
from .requests import ClientRequest, RequestRefused, ServedClient

__all__ = ["CallQuestions", "InputRequired"]

#: In place of an answer that has not come.
_NONE_YET = object()


class InputRequired(Exception):
    """Ends a round: the client has to ask its user first."""

    def __init__(self, asked: Sequence[Elicitation]) -> None:
        super().__init__(len(asked))
        self.asked = tuple(asked)


class CallQuestions:
    """Asks the client's user on behalf of one call.

    :param limit: how many questions the call may ask.
    :param already_asked: in earlier rounds.
    :raises RequestRefused: the answers that the request brings make no sense.
    """

    def __init__(
        self,
        request: ClientRequest,
        client: ServedClient,
        token: CancelToken,
        *,
        limit: int,
        already_asked: int = 0,
    ) -> None:
        self._request = request
        self._client = client
        self._token = token
        self._limit = limit
        self._numbers = itertools.count(already_asked + 1)
        #: The answers that a modern request brings.
        self._responses: dict[str, Any] = {}
        if request.era == "modern" and "inputResponses" in request.params:
            responses = request.params["inputResponses"]
            if not isinstance(responses, dict):
                raise RequestRefused(INVALID_PARAMS, "inputResponses must be an object")
            self._responses = dict(responses)

    @property
    def waits(self) -> bool:
        """True if a call waits for its answers, or cannot ask at all."""
        return self._client.can_wait_for_answers or not self.has_user

    @property
    def has_user(self) -> bool:
        """True if the client can ask its user."""
        return self._request.can_elicit

    def wait(self, asked: Elicitation, token: CancelToken | None = None) -> Any:
        """Ask, and wait for the answer; ``None`` if the user gave none.

        Cancellation: ends at once.

        :raises ToolError: no one can be asked, or the client makes no sense.
        """
        if not self.has_user:
            raise ToolError(NO_USER)
        self._count()
        waiting = self._token if token is None else token
        response = self._client.ask("elicitation/create", asked.params, waiting)
        try:
            return answer_of(asked, response)
        except InvalidAnswer as error:
            raise ToolError(f"the client's answer makes no sense: {error}") from None

    def answer_all(self, asked: Sequence[Elicitation]) -> list[Any]:
        """Return the answers to questions that are asked at once.

        Cancellation: ends at once, if it waits.

        :raises InputRequired: the client has to ask first.
        :raises ToolError: no one can be asked.
        """
        if self.waits:
            return [self.wait(each) for each in asked]
        answers = [self.find(each) for each in asked]
        if any(answer is _NONE_YET for answer in answers):
            self._count()
            raise InputRequired(asked)
        return answers

    def find(self, asked: Elicitation) -> Any:
        """Return the answer that this request brings, once.

        :raises RequestRefused: it is not an answer.
        """
        response = self._responses.pop(asked.key, _NONE_YET)
        if response is _NONE_YET:
            return response
        try:
            return answer_of(asked, response)
        except InvalidAnswer as error:
            raise RequestRefused(INVALID_PARAMS, f"{asked.key}: {error}") from None

    def forget_responses(self) -> None:
        """Drop answers to questions that were not asked."""
        self._responses.clear()

    def _count(self) -> None:
        if next(self._numbers) > self._limit:
            raise ToolError(f"this call has asked {self._limit} questions, the limit")
