"""What is given to an agent and to its runs, checked."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from .cancel import CancelSignal, CancelToken, follow
from .cancel.following import Following
from .cancel_policy import CancelPolicy
from .exceptions import ConfigurationError
from .limits import Limits
from .messages import UserBlock, UserMessage
from .models.model import Model
from .output import Output
from .queueing import OnBusy
from .tools.settings import ToolSettings
from .tools.tool import AnyTool, Tool, as_tool
from .usage import Usage

__all__ = [
    "Cancel",
    "Prompt",
    "check_answering",
    "check_busy",
    "check_run",
    "check_settings",
    "check_timeout",
    "check_words",
    "compose",
    "tools_by_name",
    "user_message",
]

#: What the user says: words, a picture or a file, or several of them.
Prompt = str | UserBlock | Sequence[str | UserBlock]
#: What else may cancel a run.
Cancel = CancelToken | threading.Event


def user_message(prompt: Any) -> UserMessage:
    """Return what the user says.

    :raises ConfigurationError: it is nothing.
    """
    parts = list(prompt) if isinstance(prompt, (list, tuple)) else [prompt]
    for part in parts:
        if not isinstance(part, (str, *get_args(UserBlock))):
            raise ConfigurationError(
                "a prompt is a string, an Image, a File, or a list of those; got "
                f"{part!r:.80}"
            )
        _check_words(part if isinstance(part, str) else getattr(part, "text", ""))
    message = UserMessage.of(parts)
    if not any(getattr(block, "text", "x").strip() for block in message.content):
        raise ConfigurationError("the prompt is empty; say something to the model")
    return message


def _check_words(text: str) -> None:
    # It would stay in the conversation, and no request could be made of that any more.
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"the prompt cannot be sent, as it is no text: {error}; decode it with "
            "errors='replace'"
        ) from None


def compose(
    timeout: float | None,
    seconds: float | None,
    cancel: Cancel | None,
    stopping: CancelToken | None = None,
) -> tuple[CancelToken, Following | None]:
    """Return the token of a run, and its hold on somebody's event.

    :param stopping: of whatever the run is a part of.

    :raises ConfigurationError: one of them is nothing of the kind.
    """
    check_timeout(timeout)
    given = [limit for limit in (timeout, seconds) if limit is not None]
    shortest = min(given, default=None)
    if isinstance(cancel, CancelSignal):
        cancel = cancel.token
    above = [] if stopping is None else [stopping]
    if isinstance(cancel, CancelToken):
        return CancelToken.any_of(cancel, *above, timeout=shortest), None
    token = (
        CancelToken.any_of(*above, timeout=shortest) if above else CancelToken(shortest)
    )
    if cancel is None:
        return token, None
    if not isinstance(cancel, threading.Event):
        raise ConfigurationError(
            f"cancel takes a CancelToken or a threading.Event; got {cancel!r:.80}"
        )
    return token, follow(cancel, token)


def check_run(timeout: Any, cancel: Any, output: Any) -> None:
    """Refuse what a run that begins later could only fail with.

    :raises ConfigurationError: one of them is nothing of the kind.
    """
    check_timeout(timeout)
    if cancel is not None and not isinstance(cancel, (CancelToken, threading.Event)):
        raise ConfigurationError(
            f"cancel takes a CancelToken or a threading.Event; got {cancel!r:.80}"
        )
    if output is not None:
        Output.of(output)


def check_timeout(timeout: Any, name: str = "timeout") -> None:
    """Refuse what is no number of seconds.

    :raises ConfigurationError: it is none.
    """
    if timeout is None:
        return
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not is_number or not timeout >= 0:
        raise ConfigurationError(
            f"{name} is a number of seconds, from 0 on; got {timeout!r:.80}"
        )


def tools_by_name(tools: Iterable[Any]) -> dict[str, AnyTool]:
    is_one = callable(tools) or isinstance(tools, (str, Tool))
    if is_one or not isinstance(tools, Iterable):
        raise ConfigurationError(f"tools is a list, as in tools=[f]; got {tools!r:.80}")
    found: dict[str, AnyTool] = {}
    for given in tools:
        made = as_tool(given)
        if found.setdefault(made.name, made) is not made:
            raise ConfigurationError(
                f"two tools are called {made.name!r}; give one another name with "
                "@tool(name=...)"
            )
    return found


def check_settings(
    model: Any, limits: Any, policy: Any, parallel_tools: Any, on_busy: Any
) -> None:
    if not isinstance(model, Model):
        raise ConfigurationError(
            "model is the name of a model, such as 'openai:gpt-5', or an object of "
            f"syncagent.models; got {model!r:.80}"
        )
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits takes Limits(...); got {limits!r:.80}")
    if not isinstance(policy, CancelPolicy):
        raise ConfigurationError(
            f"cancel_policy takes CancelPolicy(...); got {policy!r:.80}"
        )
    is_number = isinstance(parallel_tools, int) and not isinstance(parallel_tools, bool)
    if not is_number or parallel_tools < 1:
        raise ConfigurationError(
            f"parallel_tools is a number from 1 on; got {parallel_tools!r}"
        )
    check_busy(on_busy)
    _check_price(model, limits)


def check_words(system: Any, name: Any, messages: Any, **handlers: Any) -> None:
    """Refuse what could only be misunderstood later."""
    for word, given in (("system", system), ("name", name)):
        if given is not None and not isinstance(given, str):
            raise ConfigurationError(f"{word} is a string; got {given!r:.80}")
    if not isinstance(messages, Iterable):
        raise ConfigurationError(f"messages is a list; got {messages!r:.80}")
    for word, given in handlers.items():
        if given is not None and not callable(given):
            raise ConfigurationError(f"{word} is a function; got {given!r:.80}")


def check_answering(answer_timeout: Any, requires_approval: Any) -> None:
    """Refuse what says nothing about who is asked, and how long that may take."""
    check_timeout(answer_timeout, "answer_timeout")
    # A tool's setting, and checked as that.
    ToolSettings(requires_approval=requires_approval)


def check_busy(on_busy: Any) -> OnBusy:
    """Return *on_busy*, if there is such a choice."""
    if on_busy not in get_args(OnBusy):
        raise ConfigurationError(
            f"on_busy is one of {', '.join(get_args(OnBusy))}; got {on_busy!r}"
        )
    busy: OnBusy = on_busy
    return busy


def _check_price(model: Model, limits: Limits) -> None:
    if limits.cost is not None and model.cost(Usage()) is None:
        raise ConfigurationError(
            f"nobody knows what {model.name} costs, so Limits(cost=...) would never "
            "end a run; give the model a price="
        )
