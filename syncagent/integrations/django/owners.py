"""Owners of runs: the logged-in user, or the browser session.

Each is a pair of functions, for ``OWNER_OF`` and for ``AUTHORIZE``.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from ..web.web_run import WebRun

__all__ = ["is_of_session", "is_of_user", "session_of", "user_of"]

_KEY: Final = "syncagent_owner"


def user_of(request: Any) -> str | None:
    """Return the logged-in user; requests without a login may not start a run."""
    user = request.user
    return f"user:{user.pk}" if user.is_authenticated and user.is_active else None


def is_of_user(request: Any, run: WebRun) -> bool:
    """True if the logged-in user owns the run."""
    owner = user_of(request)
    return owner is not None and run.owner == owner


def session_of(request: Any) -> str:
    """Return the browser session; no login is needed to start a run."""
    # Not the session key: that is a credential, and owners are not secret.
    if _KEY not in request.session:
        request.session[_KEY] = secrets.token_urlsafe(16)
    return f"session:{request.session[_KEY]}"


def is_of_session(request: Any, run: WebRun) -> bool:
    """True if the run was started in the session of this request."""
    key = request.session.get(_KEY)
    return key is not None and run.owner == f"session:{key}"
