"""Read ``WWW-Authenticate``: what a server that refuses a request wants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["Challenge", "scopes_of"]

#: A longer header is an attack, not a challenge.
_LONGEST: Final = 8192

_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]"
#: A parameter, quoted or bare, or the name of a scheme. It begins where a name begins:
#: from the middle of a long one the search would take quadratic time.
_PART: Final = re.compile(
    rf'(?<!{_NAME})({_NAME}+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|(?=\s|,|$))'
)


class Challenge(msgspec.Struct, frozen=True):
    """The ``Bearer`` challenge of a response; empty if there is none."""

    #: The address of the metadata of the protected resource.
    resource_metadata: str | None = None
    scopes: tuple[str, ...] = ()
    error: str = ""

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Challenge:
        """Return the challenge in the headers of a response."""
        lines = [
            value
            for name, value in headers.items()
            if name.lower() == "www-authenticate"
        ]
        found: dict[str, str] = {}
        is_bearer = False
        for part in _PART.finditer(", ".join(lines)[:_LONGEST]):
            name, quoted, bare = part.groups()
            if quoted is None and bare is None:
                if is_bearer:
                    break
                is_bearer = name.lower() == "bearer"
            elif is_bearer:
                value = bare or re.sub(r"\\(.)", r"\1", quoted or "")
                found.setdefault(name.lower(), value)
        return cls(
            resource_metadata=found.get("resource_metadata"),
            scopes=scopes_of(found.get("scope")),
            error=found.get("error", ""),
        )


def scopes_of(text: str | None) -> tuple[str, ...]:
    """Return the scopes in *text*, each once, in their order."""
    return tuple(dict.fromkeys((text or "").split()))
