"""Rules for items of a response that go back to the provider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ...messages import ProviderBlock
from ..json_values import as_dicts, as_string

#: Fields of a call that the provider wants back with it.
_CALL_FIELDS: Final = ("namespace", "caller")


def is_whole(reasoning: dict[str, Any]) -> bool:
    """Return whether *reasoning* has content, and not only an id."""
    sealed, content = reasoning.get("encrypted_content"), reasoning.get("content")
    has_content = as_string(sealed) or (not sealed and as_dicts(content))
    return bool(has_content) and isinstance(reasoning.get("summary"), list)


def waiting_calls(blocks: Iterable[object]) -> set[str]:
    """Return the ids of calls, other than our tool calls, that wait for an output.

    They are calls of tools that the provider defines and its client runs, such as a
    shell; syncagent does not run them. A call of a tool that the provider runs has no
    id, or its output follows.
    """
    waiting: set[str] = set()
    own = [block.data for block in blocks if isinstance(block, ProviderBlock)]
    for item in own:
        kind, call_id = as_string(item.get("type")), as_string(item.get("call_id"))
        if kind.endswith("_call") and call_id:
            waiting.add(call_id)
        elif kind.endswith("_output"):
            waiting.discard(call_id)
    return waiting


def call_signature(item: dict[str, Any]) -> str:
    """Return the fields that go back with a call, as its signature."""
    fields = {name: item[name] for name in _CALL_FIELDS if item.get(name)}
    if fields.get("caller") == {"type": "direct"}:  # the default
        del fields["caller"]
    return msgspec.json.encode(fields).decode() if fields else ""


def call_fields(signature: str) -> dict[str, Any]:
    """Return the fields that :func:`call_signature` has put into *signature*."""
    try:
        fields = msgspec.json.decode(signature or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    fields = fields if isinstance(fields, dict) else {}
    return {name: fields[name] for name in _CALL_FIELDS if name in fields}
