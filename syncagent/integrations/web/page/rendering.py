"""Render the page, and read the files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from ....exceptions import ConfigurationError

__all__ = [
    "ASSETS",
    "ASSET_HEADERS",
    "GREETING",
    "PAGE_HEADERS",
    "TITLE",
    "read_asset",
    "render_page",
]

#: The files beside the page, and their types.
ASSETS: Final[Mapping[str, str]] = {
    "page.css": "text/css; charset=utf-8",
    **dict.fromkeys(
        (
            *("page.js", "asks.js", "conversations.js", "forms.js", "inbox.js"),
            *("markdown.js", "queue.js", "server.js", "text.js", "turns.js"),
        ),
        "text/javascript; charset=utf-8",
    ),
}
#: The page may load the files beside it and nothing else.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
)
#: Headers for the page, which contains the CSRF token of its user.
PAGE_HEADERS: Final = (*_HEADERS, ("Cache-Control", "private, no-store"))
#: Headers for the files beside it.
ASSET_HEADERS: Final = (*_HEADERS, ("Cache-Control", "no-cache"))
TITLE: Final = "Agent"
GREETING: Final = "Ask something. Stop it whenever you like."


def read_asset(name: str) -> bytes:
    """Return a file of the page.

    :raises KeyError: there is no file of that name.
    """
    if name not in ASSETS:
        raise KeyError(name)
    return _read(name)


@cache
def _read(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()


def render_page(
    *,
    title: str = TITLE,
    greeting: str = GREETING,
    suggestions: Iterable[str] = (),
    csrf_header: str = "",
    csrf_token: str = "",
    has_store: bool = False,
    login_url: str = "",
) -> bytes:
    """Return the page.

    :param greeting: shown before the first question.
    :param suggestions: first questions, one click away.
    :param csrf_header: the header in which every POST of the page sends *csrf_token*,
        for applications with CSRF protection.
    :param has_store: show the conversations and the questions of a store.
    :param login_url: where users log in; the page has a link to it when a request is
        refused. It is given the address of the page as ``next``.
    :raises ConfigurationError: *suggestions* is a string.
    """
    if isinstance(suggestions, str):
        raise ConfigurationError(
            "suggestions must be a list of strings; got a single string"
        )
    texts = {"title": title, "greeting": greeting}
    texts |= {"csrf_header": csrf_header, "csrf_token": csrf_token}
    texts |= {"has_store": "yes" if has_store else "", "login_url": login_url}
    buttons = "".join(
        f'<button type="button" class="suggestion">{escape(each)}</button>'
        for each in suggestions
    )
    # One pass over the template: inserted text is not searched for placeholders.
    parts = _read("page.html").decode().split("{{")
    filled = {name: escape(text) for name, text in texts.items()}
    filled["suggestions"] = buttons
    page = parts[0]
    for part in parts[1:]:
        name, _, rest = part.partition("}}")
        page += filled[name] + rest
    return page.encode()
