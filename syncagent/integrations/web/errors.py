"""HTTP errors, and error messages that are safe to show."""

from __future__ import annotations

import logging
from typing import Final

from ...exceptions import (
    AgentBusy,
    AuthenticationFailed,
    ContextTooLong,
    ConversationChanged,
    InterruptPending,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RequestTimeout,
    RunStopped,
    SyncAgentError,
    TransportError,
)

__all__ = [
    "Refused",
    "no_owners",
    "no_store",
    "no_such_conversation",
    "no_such_run",
    "no_such_run_here",
    "not_set_up",
    "not_your_question",
    "public_error",
    "public_error_of",
    "shutting_down",
    "store_unavailable",
    "too_large",
    "too_many_followers",
    "too_many_runs",
]


_log = logging.getLogger("syncagent.web")


class Refused(SyncAgentError):
    """An HTTP request was refused.

    :param status: the HTTP status.
    :param code: a short code for programs.
    :param message: a message for people; any client may see it.
    :param retry_after: seconds after which a retry may succeed.
    """

    def __init__(
        self, status: int, code: str, message: str, retry_after: int | None = None
    ) -> None:
        super().__init__(status, code, message, retry_after)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.message


def no_such_run() -> Refused:
    """Return the error for a run that does not exist or belongs to another owner."""
    return Refused(404, "not_found", "There is no such run.")


def no_such_conversation() -> Refused:
    """Return the error for a conversation that this owner does not have."""
    return Refused(404, "not_found", "There is no such conversation.")


def no_store() -> Refused:
    """Return the error of an application without a store."""
    return Refused(
        404,
        "no_store",
        "This application keeps no conversations and no questions, because it has no "
        'store: see "Several processes" in docs/web.rst.',
    )


def not_your_question() -> Refused:
    """Return the error for an answer to a question that another person is asked."""
    return Refused(
        403, "not_your_question", "Another person has to answer this question."
    )


def no_such_run_here() -> Refused:
    """Return the same error for a server that may have the run in another process."""
    return Refused(
        404,
        "not_here",
        "There is no such run in this server process. It may be in another one, and "
        'the server has no store: see "Servers" in docs/web.rst.',
    )


def not_set_up() -> Refused:
    """Return the error of an application that has no ``authorize``."""
    return Refused(
        403,
        "not_set_up",
        "This application shows no runs, because it does not define who may see them: "
        "it needs a function authorize(request, run); AUTHORIZE in Django's settings.",
    )


def no_owners() -> Refused:
    """Return the error of an application that has no ``owner_of``."""
    _log.error("refused a request, because there is no owner_of function")
    return Refused(
        403,
        "not_set_up",
        "This application starts no runs, because it does not define their owners: it "
        "needs a function owner_of(request); OWNER_OF in Django's settings.",
    )


def shutting_down() -> Refused:
    """Return the error of a server that is shutting down."""
    return Refused(503, "shutting_down", "The server is shutting down.", 5)


def store_unavailable() -> Refused:
    """Return the error of a server whose store of runs is unavailable."""
    return Refused(
        503,
        "store_unavailable",
        "The server cannot reach its runs at the moment. Try again.",
        5,
    )


def too_many_runs() -> Refused:
    """Return the error for a run beyond the limit of its owner."""
    return Refused(429, "too_many_runs", "There are too many runs. Try again later.", 5)


def too_many_followers() -> Refused:
    """Return the error for a stream beyond the limit of its run or owner."""
    return Refused(
        429,
        "too_many_followers",
        "There are too many open streams of this run or of its owner. Close one, or "
        "try again later.",
        5,
    )


def too_large(limit: int) -> Refused:
    """Return the error for a body of more than *limit* bytes."""
    return Refused(413, "too_large", f"The body is larger than {limit} bytes.")


#: The first match counts. The error's own text is never shown: it may contain host
#: names, paths, or a provider's response.
_MESSAGES: Final[tuple[tuple[type[BaseException], str, str], ...]] = (
    (RateLimited, "rate_limited", "The model is overloaded. Try again later."),
    (ProviderUnavailable, "unavailable", "The model is unavailable. Try again."),
    (ContextTooLong, "too_long", "The conversation is too long for the model."),
    (AuthenticationFailed, "not_set_up", "The model is not set up properly."),
    (RequestTimeout, "timed_out", "The model did not respond in time. Try again."),
    (TransportError, "connection", "The connection to the model broke. Try again."),
    (ProviderError, "rejected", "The model did not accept the request."),
    (AgentBusy, "busy", "This conversation already has a run."),
    (InterruptPending, "waiting", "The conversation is waiting for answers."),
    (
        ConversationChanged,
        "conversation_changed",
        "The conversation has continued elsewhere. Read it again, then decide.",
    ),
    (RunStopped, "stopped", "The run did not finish."),
)


def public_error(error: BaseException) -> tuple[str, str]:
    """Return a code and a message for *error* that any client may see.

    The log has the details.
    """
    return public_error_of(type(error))


def public_error_of(kind: type[BaseException]) -> tuple[str, str]:
    """Return a code and a message for errors of a class."""
    for known, code, message in _MESSAGES:
        if issubclass(kind, known):
            return code, message
    return "failed", "Something went wrong. The server's log has the details."
