"""The page to chat on: one HTML, one CSS, one JavaScript file, the same everywhere.

It is served from a folder, with the endpoints of
:mod:`~syncagent.integrations.web.views`
beside it: the page itself as ``/``, :func:`read_asset` as ``page.css`` and ``page.js``,
and ``runs``, all relative to where the page is.
"""

from __future__ import annotations

from .rendering import ASSETS, GREETING, PAGE_HEADERS, TITLE, read_asset, render_page

__all__ = ["ASSETS", "GREETING", "PAGE_HEADERS", "TITLE", "read_asset", "render_page"]
