"""The chat page: one HTML, one CSS and one JavaScript file, the same everywhere.

An application serves the page as a folder: the page itself as ``/``, beside it
:func:`read_asset` as ``page.css`` and ``page.js``, and the endpoints of
:mod:`~syncagent.integrations.web.views` as ``runs``.
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
