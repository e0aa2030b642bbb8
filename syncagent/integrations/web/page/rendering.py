"""The page, with the words of an application, and the files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from ....exceptions import ConfigurationError

__all__ = ["ASSETS", "GREETING", "PAGE_HEADERS", "TITLE", "read_asset", "render_page"]

#: The files beside the page, and their types.
ASSETS: Final[Mapping[str, str]] = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}
#: What the page may do: load what lies beside it, and nothing else.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
#: To be sent with the page and with what lies beside it.
PAGE_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cache-Control", "no-cache"),
)
TITLE: Final = "Agent"
GREETING: Final = "Ask something. Stop it whenever you like."


def read_asset(name: str) -> bytes:
    """Return a file of the page.

    :raises KeyError: there is none of that name.
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
) -> bytes:
    """Return the page.

    :param greeting: shown before the first question.
    :param suggestions: first questions, one click away.
    :param csrf_header: the header in which every POST of the page sends *csrf_token*,
        for applications that ask for one.
    :raises ConfigurationError: *suggestions* is a string.
    """
    if isinstance(suggestions, str):
        raise ConfigurationError("suggestions is a list of strings; got one string")
    words = {"title": title, "greeting": greeting}
    words |= {"csrf_header": csrf_header, "csrf_token": csrf_token}
    buttons = "".join(
        f'<button type="button" class="suggestion">{escape(each)}</button>'
        for each in suggestions
    )
    # One after the other, from the page only: what is put in is not looked at again.
    parts = _read("page.html").decode().split("{{")
    filled = {name: escape(text) for name, text in words.items()}
    filled["suggestions"] = buttons
    page = parts[0]
    for part in parts[1:]:
        name, _, rest = part.partition("}}")
        page += filled[name] + rest
    return page.encode()
