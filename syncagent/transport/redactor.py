"""What may be shown of a call: nothing that its credentials have put into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from .._redaction import mask, redact, without_half

#: How much of something that a server has said a message shows, in characters.
_SHORT: Final = 300

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)?(.*)", re.DOTALL)
#: ``me:secret/with/slashes@host``: what stands before the path is no host and port.
_ODD_CREDENTIALS: Final = re.compile(r"[^/?#@\[]*:(?!\d+(?:[/?#]|$))[^@]*@")


def shown(url: str) -> str:
    """Return *url* without what may be secret: credentials, query and fragment."""
    scheme, rest = _URL.fullmatch(url).groups("")  # type: ignore[union-attr]
    if "@" in rest and _ODD_CREDENTIALS.match(rest):  # without one it takes for ever
        rest = rest.rpartition("@")[2]
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}{host.rpartition('@')[2]}{slash}{path}"


def no_secrets() -> Iterable[str]:
    """Return none."""
    return ()


class Redactor:
    """Make what is said about one call fit to be seen.

    :param url: where the call goes to.
    """

    def __init__(self, url: str) -> None:
        #: The same without what may be secret.
        self.url = shown(url)
        #: Returns the credentials in the newest request.
        self.secrets: Callable[[], Iterable[str]] = no_secrets

    def clean(self, text: str) -> str:
        """Return *text*, which somebody else has written, without any credential."""
        return redact(mask(text, self.secrets()))

    def clean_cut(self, text: str) -> str:
        """The same for *text* that was cut off, perhaps in the middle of one."""
        return self.clean(without_half(text, self.secrets()))

    def quote(self, text: str) -> str:
        """Return it as part of a message: clean, short, on one line."""
        line = " ".join(self.clean(text)[:_SHORT].split())
        return "".join(
            character if character.isprintable() else repr(character)[1:-1]
            for character in line
        )
