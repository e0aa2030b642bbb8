"""The chat page: HTML, CSS and modules of JavaScript, the same everywhere.

An application serves the page as a folder: the page itself as ``/``, beside it the
files of ``ASSETS``, from :func:`read_asset`, and the endpoints of
:mod:`~syncagent.integrations.web.views` as ``runs``, ``conversations``, ``inbox`` and
``audit``.
"""

from __future__ import annotations

from .rendering import (
    ASSET_HEADERS,
    ASSETS,
    GREETING,
    PAGE_HEADERS,
    TITLE,
    read_asset,
    render_page,
)

__all__ = [
    "ASSETS",
    "ASSET_HEADERS",
    "GREETING",
    "PAGE_HEADERS",
    "TITLE",
    "read_asset",
    "render_page",
]
