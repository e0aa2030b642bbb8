"""The forms of Google's complaints, and the versions of models in paths."""

from __future__ import annotations

import re
from typing import Any, Final

_NAME: Final = re.compile(r"([^/]+):(?:streamG|g)enerateContent")
_VERSION: Final = re.compile(r"(?:gemini|gemma)-(\d+)(?:\.(\d+))?")
#: The version of a name without one.
_CURRENT: Final = (3, 8)


class NamedModel:
    """The model that the path of a request names.

    :param path: it may be empty, for a current model.
    """

    def __init__(self, path: str) -> None:
        named = _NAME.search(path)
        self.name = named[1].lower() if named else ""
        found = _VERSION.search(self.name)
        self.version = (int(found[1]), int(found[2] or 0)) if found else _CURRENT
        self.is_gemma = "gemma" in self.name
        #: True for Google's Vertex, whose paths name the publisher of a model.
        self.is_vertex = "/publishers/" in path or path.startswith("/vertex/")

    def is_since(self, *version: int) -> bool:
        """Return whether it is a Gemini of that version or a later one."""
        return not self.is_gemma and self.version >= version


def unknown_field(
    fields: dict[str, Any], known: frozenset[str], where: str
) -> str | None:
    """Return the complaint about a field that is not known, or None."""
    for name in fields.keys() - known:
        at = f" at '{where}'" if where else ""
        return (
            f'Invalid JSON payload received. Unknown name "{name}"{at}: '
            "Cannot find field."
        )
    return None


def invalid(where: str, what: str) -> str:
    """Return the complaint about a value that the request may not have."""
    return f"* GenerateContentRequest.{where}: {what}"
