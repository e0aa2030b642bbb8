"""Who may start and see runs: the functions of an application, and what they return."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ...exceptions import ConfigurationError
from .errors import not_set_up

if TYPE_CHECKING:
    from .followed import FollowedRun

__all__ = ["Access", "Authorize", "OwnerOf", "find_owner", "owner_name"]

_log = logging.getLogger("syncagent.web")

#: Returns True if the client that sent a request may see, answer and cancel a run.
Authorize = Callable[[Any, Any], bool]
#: Returns the owner of the run this request starts, or None to refuse it.
OwnerOf = Callable[[Any], str | int | UUID | None]

_LOCKED_OUT: Final = (
    "authorize() refuses the client that has just started a run, so Stop, answers and "
    "reloads of this client get 404: it returned %s for a run whose owner is %r"
)


def owner_name(owner: Any) -> str:
    """Return an owner as a run keeps it: numbers and UUIDs become strings.

    :raises ConfigurationError: it is empty or of another type.
    """
    # Not True: all users would be the same owner.
    if isinstance(owner, (int, UUID)) and not isinstance(owner, bool):
        return str(owner)
    if not owner or not isinstance(owner, str):
        raise ConfigurationError(
            "an owner must be a non-empty string, a number or a UUID, such as the id "
            f"of a user; got {owner!r:.80}"
        )
    return owner


def find_owner(owner_of: OwnerOf | None, request: Any) -> str | None:
    """Return the owner of the runs that the client of *request* starts.

    :return: ``None`` if there is none, or no function that returns one.
    :raises ConfigurationError: the function returns something else.
    """
    owner = None if owner_of is None else owner_of(request)
    return None if owner is None or owner == "" else owner_name(owner)


class Access:
    """Decides with the application's ``authorize`` who may see which run.

    :param authorize: called with a request and a run; only True permits access.
    """

    def __init__(self, authorize: Authorize | None) -> None:
        self._authorize = authorize
        self._has_complained = False
        self._is_checked = False

    def check_set_up(self) -> None:
        """Refuse all requests of an application without ``authorize``.

        :raises Refused: there is none.
        """
        if self._authorize is None:
            _log.error("refused a request, because there is no authorize function")
            raise not_set_up()

    def may_see(self, request: Any, run: FollowedRun | None) -> bool:
        """Return whether the client of *request* may see a run; none is never seen.

        :raises Refused: the application does not define it.
        """
        self.check_set_up()
        return run is not None and self._ask(request, run) is True

    def _ask(self, request: Any, run: FollowedRun) -> Any:
        """Return what ``authorize`` returns, and log an error if it is only truthy."""
        assert self._authorize is not None
        answer: Any = self._authorize(request, run)
        is_clear = answer is None or isinstance(answer, bool)
        if not is_clear and not self._has_complained and answer:
            self._has_complained = True
            _log.error(
                "authorize() must return True to permit access, and returned %s, which "
                "refuses it; return a comparison, such as run.owner == owner",
                _shown(answer),
            )
        return answer

    def check_starter(self, request: Any, run: FollowedRun) -> None:
        """Log an error if the client that has started the first run may not see it."""
        if self._is_checked or self._authorize is None:
            return
        self._is_checked = True
        try:
            answer = self._ask(request, run)
        except Exception:  # the run has started: the next request reports it
            _log.exception("authorize() failed")
            return
        if answer is True:
            return
        hint = ""
        if run.owner.isdecimal():
            hint = "; owners are strings: compare run.owner with str(...)"
        _log.error(_LOCKED_OUT + hint, _shown(answer), run.owner)


def _shown(answer: Any) -> str:
    # Not the repr of other objects, which may contain private details.
    if answer is None or isinstance(answer, bool):
        return repr(answer)
    return f"an object of type {type(answer).__name__}"
