"""What a run is doing, in a word, and what that is about."""

from __future__ import annotations

from .events import StateChanged

__all__ = ["RunState"]


class RunState(str):
    """A state such as ``"executing_tool"``: a string that knows more."""

    #: The tool that it is about, if it is about one.
    tool: str
    call_id: str
    #: What went wrong, if something did.
    message: str

    def __new__(cls, changed: StateChanged) -> RunState:
        state = super().__new__(cls, changed.state)
        state.tool, state.call_id = changed.tool, changed.call_id
        state.message = changed.message
        return state
