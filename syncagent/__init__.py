"""A synchronous, thread-based agent SDK whose runs stop at once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .__version__ import __version__ as __version__

if TYPE_CHECKING:
    from . import logs as logs
    from .agent import Agent as Agent
    from .background.handle import Handle as Handle
    from .background.run_many import run_many as run_many
    from .background.runtime import Runtime as Runtime
    from .cancel import CancelToken as CancelToken
    from .cancel import cancel_on_signals as cancel_on_signals
    from .cli.tui import tui as tui
    from .compaction import ClearResults as ClearResults
    from .compaction import Summarize as Summarize
    from .conversation.run_stream import RunStream as RunStream
    from .driver import Driver as Driver
    from .events import InterruptRaised as InterruptRaised
    from .events import RunFinished as RunFinished
    from .events import StateChanged as StateChanged
    from .events import TextDelta as TextDelta
    from .events import ThinkingDelta as ThinkingDelta
    from .events import ToolFinished as ToolFinished
    from .events import ToolProgress as ToolProgress
    from .events import ToolStarted as ToolStarted
    from .events import TurnFinished as TurnFinished
    from .exceptions import AgentBusy as AgentBusy
    from .exceptions import AuthenticationFailed as AuthenticationFailed
    from .exceptions import Cancelled as Cancelled
    from .exceptions import ConfigurationError as ConfigurationError
    from .exceptions import LimitReached as LimitReached
    from .exceptions import OutputInvalid as OutputInvalid
    from .exceptions import ProviderError as ProviderError
    from .exceptions import RunCancelled as RunCancelled
    from .exceptions import SyncAgentError as SyncAgentError
    from .exceptions import ToolError as ToolError
    from .exceptions import TransportError as TransportError
    from .functions.llm_chat import llm_chat as llm_chat
    from .functions.llm_function import llm_function as llm_function
    from .interrupts import AfterToolResult as AfterToolResult
    from .interrupts import Approval as Approval
    from .interrupts import ApprovalRequest as ApprovalRequest
    from .interrupts import AuthRequest as AuthRequest
    from .interrupts import AwaitingInput as AwaitingInput
    from .interrupts import Rule as Rule
    from .messages import File as File
    from .messages import Image as Image
    from .models.budget import Budget as Budget
    from .models.fallback import Fallback as Fallback
    from .models.limiter import Limiter as Limiter
    from .policies import CancelPolicy as CancelPolicy
    from .policies import Limits as Limits
    from .result import RunResult as RunResult
    from .tools.abandoned import abandoned as abandoned
    from .tools.context import ToolContext as ToolContext
    from .tools.settings import ToolDefaults as ToolDefaults
    from .tools.tool import tool as tool
    from .transport import Retries as Retries
    from .transport import Timeouts as Timeouts

#: The public names and the modules that define them. Each module is imported when one
#: of its names is first used, because many of them load requests. The block above
#: shows the same names to type checkers; tests/house/test_exports.py compares the two.
_MODULE_OF = {
    "AfterToolResult": "interrupts",
    "Agent": "agent",
    "AgentBusy": "exceptions",
    "Approval": "interrupts",
    "ApprovalRequest": "interrupts",
    "AuthRequest": "interrupts",
    "AuthenticationFailed": "exceptions",
    "AwaitingInput": "interrupts",
    "Budget": "models.budget",
    "CancelPolicy": "policies",
    "CancelToken": "cancel",
    "Cancelled": "exceptions",
    "ClearResults": "compaction",
    "ConfigurationError": "exceptions",
    "Driver": "driver",
    "Fallback": "models.fallback",
    "File": "messages",
    "Handle": "background.handle",
    "Image": "messages",
    "InterruptRaised": "events",
    "LimitReached": "exceptions",
    "Limiter": "models.limiter",
    "Limits": "policies",
    "OutputInvalid": "exceptions",
    "ProviderError": "exceptions",
    "Retries": "transport",
    "Rule": "interrupts",
    "RunCancelled": "exceptions",
    "RunFinished": "events",
    "RunResult": "result",
    "RunStream": "conversation.run_stream",
    "Runtime": "background.runtime",
    "StateChanged": "events",
    "Summarize": "compaction",
    "SyncAgentError": "exceptions",
    "TextDelta": "events",
    "ThinkingDelta": "events",
    "Timeouts": "transport",
    "ToolContext": "tools.context",
    "ToolDefaults": "tools.settings",
    "ToolError": "exceptions",
    "ToolFinished": "events",
    "ToolProgress": "events",
    "ToolStarted": "events",
    "TransportError": "exceptions",
    "TurnFinished": "events",
    "abandoned": "tools.abandoned",
    "cancel_on_signals": "cancel",
    "llm_chat": "functions.llm_chat",
    "llm_function": "functions.llm_function",
    "logs": "logs",
    "run_many": "background.run_many",
    "tool": "tools.tool",
    "tui": "cli.tui",
}

__all__ = sorted(["__version__", *_MODULE_OF])

# Hidden from type checkers: a module with __getattr__ has every name to them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f".{_MODULE_OF[name]}", __name__)
        value = module if name == "logs" else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return list(__all__)
