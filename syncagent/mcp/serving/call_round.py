"""One round of a call: its state, and what its tool and its client exchange."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...cancel import CancelToken
from ...interrupts import AuthRequest
from ..messages import INVALID_PARAMS
from .call_services import CallServices, ProgressReporter
from .call_state import CallState, ParkedRuns, StateSeal, arguments_digest
from .published import PublishedTool
from .questions import CallQuestions
from .requests import ClientRequest, RequestRefused, ServedClient

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..._arguments import StateArguments

__all__ = ["Authenticate", "CallKeeping", "CallRound"]

#: Returns the credentials of a provider for a call, ``None`` to refuse them.
Authenticate = Callable[[AuthRequest], Any]


class CallKeeping(msgspec.Struct, frozen=True):
    """The parts of a service that its calls share."""

    seal: StateSeal
    parked: ParkedRuns
    max_questions: int
    authenticate: Authenticate | None = None


class CallRound:
    """One round of a call, on the thread that runs it.

    A legacy call has one round. A modern one has another after each question.

    :param token: ends the call.
    :param forced: cancelled when the server no longer waits for tools.
    :raises RequestRefused: the request cannot be a call, or brings a wrong state.
    """

    def __init__(
        self,
        keeping: CallKeeping,
        published: PublishedTool,
        request: ClientRequest,
        client: ServedClient,
        token: CancelToken,
        forced: CancelToken,
    ) -> None:
        self.keeping: Final = keeping
        self.published: Final = published
        self.request: Final = request
        self.token: Final = token
        self.arguments: Final = request.arguments
        self.state = _open_state(keeping.seal, published.tool.name, request)
        self.questions: Final = CallQuestions(
            *(request, client, token),
            limit=keeping.max_questions,
            already_asked=self.state.rounds,
        )
        self.progress: Final = ProgressReporter(request, client)
        self.services: Final = CallServices(
            self.state.key, self.questions, self.progress, forced
        )

    def keep(self, **changes: Unpack[StateArguments]) -> None:
        """Change the state that the client keeps if this round ends with a question."""
        self.state = msgspec.structs.replace(self.state, **changes)


def _open_state(seal: StateSeal, tool: str, request: ClientRequest) -> CallState:
    """Return the state that a request brings, or that of a new call."""
    digest = arguments_digest(request.arguments)
    text = request.params.get("requestState")
    if text is None or request.era == "legacy":
        return CallState(tool=tool, digest=digest, key=f"mcp-{secrets.token_hex(8)}")
    try:
        state = seal.open(text)
    except ValueError as error:
        raise RequestRefused(INVALID_PARAMS, str(error)) from None
    if (state.tool, state.digest) != (tool, digest):
        raise RequestRefused(INVALID_PARAMS, "requestState belongs to another call")
    return state
