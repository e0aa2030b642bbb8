"""The tool calls of a response, however a server spreads them over its deltas."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...events import Event
from ..draft import Draft
from ..json_values import as_string, get_path
from .wire import CallDelta, ChoiceDelta, Function


class _Slot:
    """A tool call that is still growing. Before it has a name it has no events."""

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.signature = ""
        self.pieces: list[str] = []


class Calls:
    """The tool calls of a response, by index or id, or neither: servers differ."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._slots: list[_Slot] = []
        #: The latest call of each index.
        self._latest: dict[int, _Slot] = {}
        #: The calls by index, or None, and id.
        self._known: dict[tuple[int | None, str], _Slot] = {}

    @property
    def have_begun(self) -> bool:
        """True if there is a call."""
        return bool(self._slots)

    def add_delta(self, call: CallDelta) -> Iterator[Event]:
        """Add more of a call."""
        function = call.function or Function()
        slot = self._find(call, function.name or "")
        if slot is None:
            slot = self._begin(call.index)
        if call.id and slot.call_id in ("", call.id):
            self._known.setdefault((call.index, call.id), slot)
            self._known.setdefault((None, call.id), slot)
        yield from self._write(slot, call, function)

    def add_whole(self, message: ChoiceDelta) -> Iterator[Event]:
        """Add complete calls: each is a call of its own, whatever its index or id."""
        calls = message.tool_calls or ()
        if not calls and message.function_call is not None:
            calls = [CallDelta(function=message.function_call)]
        for call in calls:
            slot = self._begin(None)
            yield from self._write(slot, call, call.function or Function())

    def end(self) -> Iterator[Event]:
        """Start the calls that never got a name, unless they are empty.

        Calls are signed only now: the signature may come with any delta.
        """
        for slot in self._slots:
            if not slot.name and "".join(slot.pieces).strip():
                yield from self._write(slot, CallDelta(), Function("unnamed"))
            if slot.signature and self._draft.has_call(slot):
                self._draft.sign_call(slot, slot.signature)

    def _find(self, call: CallDelta, name: str) -> _Slot | None:
        """Return the call that *call* is more of, or None if it is a new one."""
        if call.id:
            known = self._known.get((call.index, call.id))
            if known is not None:
                return known
        if call.index is None:
            last = self._slots[-1] if self._slots else None
            is_new = call.id or (name and last is not None and last.name)
            return None if is_new else last
        slot = self._latest.get(call.index)
        # Some servers give every call the same index.
        is_other = slot is not None and slot.call_id and call.id and name
        return None if is_other else slot

    def _begin(self, index: int | None) -> _Slot:
        slot = _Slot()
        self._slots.append(slot)
        if index is not None:
            self._latest[index] = slot
        return slot

    def _write(
        self, slot: _Slot, call: CallDelta, function: Function
    ) -> Iterator[Event]:
        slot.call_id = slot.call_id or call.id or ""
        if call.extra_content is not None:
            found = get_path(call.extra_content, "google", "thought_signature")
            slot.signature += as_string(found)
        text = function.arguments or ""
        if not isinstance(text, str):  # some servers send an object
            text = msgspec.json.encode(text).decode()
        if not slot.name:
            slot.pieces.append(text)
            if not function.name:
                return
            slot.name = function.name
            yield self._draft.start_call(slot, slot.call_id, slot.name)
            text = "".join(slot.pieces)
        if text:
            yield self._draft.arguments(slot, text)
