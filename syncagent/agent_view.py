"""What can be seen of an agent."""

from __future__ import annotations

from .interrupts import Interrupt
from .messages import Message
from .models.model import Model
from .rules import Rule
from .run import Setup, State
from .stage import Stage
from .tools.tool import AnyTool
from .usage import Usage

__all__ = ["AgentView"]


class AgentView:
    """What an agent is made of, and what it is doing; any thread may look."""

    _setup: Setup
    _stage: Stage
    #: What it is called where it is a tool of another agent.
    name: str | None

    @property
    def is_running(self) -> bool:
        """Is there a live run?"""
        return self._stage.slot.live is not None

    @property
    def is_paused(self) -> bool:
        """Is there a run that :meth:`resume` would go on with?"""
        pause = self._stage.pause
        return pause is not None and pause.is_open and not self.is_running

    @property
    def state(self) -> State:
        """What it is doing: ``idle``, ``processing``, ``executing_tool``, ..."""
        return self._stage.state

    @property
    def model(self) -> Model:
        """The model."""
        return self._setup.model

    @property
    def system(self) -> str | None:
        """What the model is told about its task."""
        return self._setup.options.system or None

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools."""
        return tuple(self._setup.tools.values())

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation up to now."""
        return self._stage.messages

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What is to be answered before it can go on."""
        return self._stage.interrupts

    @property
    def usage(self) -> Usage:
        """What all its runs have used."""
        return self._stage.total_usage

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What it was told to remember about approvals."""
        return tuple(self._stage.rules)

    def __repr__(self) -> str:
        named = f" {self.name}" if self.name else ""
        count = len(self._stage.transcript)
        return f"<Agent{named}: {self.model!r}, {count} messages>"
