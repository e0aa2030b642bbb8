"""The read-only properties of an agent, for any thread at any time."""

from __future__ import annotations

from ..events import State
from ..interrupts import Interrupt, Rule
from ..messages import Message
from ..models.model import Model
from ..tools.tool import AnyTool
from ..usage import Usage
from .conversation import Conversation

__all__ = ["AgentView"]


class AgentView:
    """The properties of an agent that only look. None of them blocks."""

    _conversation: Conversation

    @property
    def is_running(self) -> bool:
        """True while a run is live."""
        return self._conversation.slot.live is not None

    @property
    def is_paused(self) -> bool:
        """True if a run waits for answers, for ``resume()``."""
        return self.can_resume and self._conversation.unfinished is None

    @property
    def can_resume(self) -> bool:
        """True if ``resume()`` has a run to resume: a paused or unfinished one."""
        return self._conversation.resumable is not None and not self.is_running

    @property
    def state(self) -> State:
        """The state: ``idle``, ``processing``, ``executing_tool``, ..."""
        return self._conversation.state

    @property
    def model(self) -> Model:
        """The model."""
        return self._conversation.setup.model

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self._conversation.setup.options.system or None

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools; those of sources as they were in the newest turn."""
        return tuple(self._conversation.setup.toolbox.latest.by_name.values())

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return self._conversation.messages

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The questions to answer before a paused run can be resumed."""
        return self._conversation.interrupts

    @property
    def usage(self) -> Usage:
        """The usage of all runs."""
        return self._conversation.total_usage

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The approvals that were remembered."""
        return tuple(self._conversation.rules)
