"""Whose a run is: that of a user who is logged in, or that of a browser's session.

Each is a pair, for ``OWNER_OF`` and for ``AUTHORIZE``.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from ..web.web_run import WebRun

__all__ = ["is_of_session", "is_of_user", "session_of", "user_of"]

_KEY: Final = "syncagent_owner"


def user_of(request: Any) -> str | None:
    """Return the user who makes a request; nobody else may begin a run."""
    user = request.user
    return f"user:{user.pk}" if user.is_authenticated and user.is_active else None


def is_of_user(request: Any, run: WebRun) -> bool:
    """Is it the run of the user who makes this request?"""
    owner = user_of(request)
    return owner is not None and run.owner == owner


def session_of(request: Any) -> str:
    """Return whose session this is, without a login: anybody may begin a run."""
    # Not the key of the session: who has that is somebody else.
    if _KEY not in request.session:
        request.session[_KEY] = secrets.token_urlsafe(16)
    return f"session:{request.session[_KEY]}"


def is_of_session(request: Any, run: WebRun) -> bool:
    """Was this run begun in the session of this request?"""
    key = request.session.get(_KEY)
    return key is not None and run.owner == f"session:{key}"
