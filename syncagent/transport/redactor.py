"""Text about a call that is safe to show: without what its credentials have added."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from .._redaction import mask_parts, redact, without_half

#: How much of a server's text a message quotes, in characters.
_SHORT: Final = 300

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)?(.*)", re.DOTALL)
#: ``me:secret/with/slashes@host``: the part before the path is not a host and a port.
_ODD_CREDENTIALS: Final = re.compile(r"[^/?#@\[]*:(?!\d+(?:[/?#]|$))[^@]*@")


def public_url(url: str) -> str:
    """Return *url* without credentials, query and fragment, which may be secret."""
    scheme, rest = _URL.fullmatch(url).groups("")  # type: ignore[union-attr]
    if "@" in rest and _ODD_CREDENTIALS.match(rest):  # slow on a long text without "@"
        rest = rest.rpartition("@")[2]
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}{host.rpartition('@')[2]}{slash}{path}"


class Redactor:
    """Mask the credentials of one call in text about it.

    :param url: the address of the call.
    """

    def __init__(self, url: str) -> None:
        #: The address, without the parts that may be secret.
        self.url = public_url(url)
        #: Returns the credentials in the newest request.
        self.secrets: Callable[[], Iterable[str]] = tuple

    def clean(self, text: str) -> str:
        """Return a server's *text* with all credentials masked."""
        return redact(mask_parts(text, self.secrets()))

    def clean_cut(self, text: str) -> str:
        """Do the same for *text* that was cut off, perhaps inside a credential."""
        return self.clean(without_half(text, self.secrets()))

    def printable(self, text: str) -> str:
        """Return *text* clean, and with escapes in place of control characters."""
        return _escaped(self.clean(text))

    def quote(self, text: str) -> str:
        """Return *text* for use in a message: printable, short, on one line."""
        return _escaped(" ".join(self.clean(text)[:_SHORT].split()))


def _escaped(text: str) -> str:
    return "".join(
        character if character.isprintable() else repr(character)[1:-1]
        for character in text
    )
