"""JSON with comments and trailing commas, as editors write it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["parse_jsonc"]

#: A string, which stays; or a comment. A string that has no end ends with its line.
_STRING_OR_COMMENT: Final = re.compile(
    r'"(?:\\.|[^"\\\n])*"?|(//[^\n]*|/\*.*?\*/)', re.DOTALL
)
#: A string, which stays; or a comma that nothing follows.
_STRING_OR_COMMA: Final = re.compile(r'"(?:\\.|[^"\\\n])*"?|(,)(?=\s*[}\]])', re.DOTALL)
_NO_NEWLINE: Final = re.compile(r"[^\n]")


def parse_jsonc(text: str) -> Any:
    """Decode JSON in which comments and trailing commas are allowed.

    :raises ValueError: it is not JSON, with the line and the column; or an object has a
        key twice, where a later value would replace an earlier one unseen.
    """

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"the key {key!r:.60} is there twice in one object")
            found[key] = value
        return found

    for pattern in (_STRING_OR_COMMENT, _STRING_OR_COMMA):
        # Spaces for what goes: places in errors stay true.
        text = pattern.sub(
            lambda match: _NO_NEWLINE.sub(" ", match[0]) if match[1] else match[0], text
        )
    try:
        return json.loads(text, object_pairs_hook=make_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
