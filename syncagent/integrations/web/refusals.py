"""What is answered instead of what was asked for, and what may be said of errors."""

from __future__ import annotations

from typing import Final

from ...exceptions import (
    AgentBusy,
    AuthenticationFailed,
    ContextTooLong,
    InterruptPending,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RequestTimeout,
    RunStopped,
    SyncAgentError,
    TransportError,
)

__all__ = ["Refused", "not_found", "not_set_up", "safe_words"]


class Refused(SyncAgentError):
    """A request cannot be answered as it was meant.

    :param status: the HTTP status that says so.
    :param code: a word for programs.
    :param message: for people; it may be shown to anybody.
    :param retry_after: seconds after which the same may succeed.
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


def not_found() -> Refused:
    """Return what is said of a run that is not there, or that is somebody else's."""
    return Refused(404, "not_found", "There is no such run.")


def not_set_up() -> Refused:
    """Return what is said where an application does not say who may see which run."""
    return Refused(
        403,
        "not_set_up",
        "Nobody may see any run here, as this application does not say who may "
        "see which: give Runs() a function authorize(request, run).",
    )


#: The first that fits counts. Nothing of the error itself is told: it may name hosts,
#: paths, or what a server has said.
_WORDS: Final[tuple[tuple[type[BaseException], str, str], ...]] = (
    (RateLimited, "rate_limited", "The model has too much to do. Try again later."),
    (ProviderUnavailable, "unavailable", "The model cannot answer now. Try again."),
    (ContextTooLong, "too_long", "The conversation is too long for the model."),
    (AuthenticationFailed, "not_set_up", "The model is not set up properly."),
    (RequestTimeout, "timed_out", "The model did not answer in time. Try again."),
    (TransportError, "connection", "The connection to the model broke. Try again."),
    (ProviderError, "rejected", "The model did not accept the request."),
    (AgentBusy, "busy", "There is a run in this conversation already."),
    (InterruptPending, "waiting", "The conversation waits for answers."),
    (RunStopped, "stopped", "The run did not come to its end."),
)


def safe_words(error: BaseException) -> tuple[str, str]:
    """Return a word for programs and a sentence for people, about an error.

    Neither holds anything secret. The log has the details.
    """
    for kind, code, words in _WORDS:
        if isinstance(error, kind):
            return code, words
    return "failed", "Something went wrong. The log of the server says what."
