"""``tui()``: an agent, or a chat function, in the terminal."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, MutableSequence
from typing import Any, Final, get_args, overload

from ..agent import Agent
from ..exceptions import ConfigurationError
from ..functions.llm_chat import LlmChat
from ..messages import Message
from .chat.choose_screen import choose_screen
from .chat.conversations import (
    AgentConversation,
    ChatConversation,
    FunctionConversation,
)
from .chat.session import GREETING, Session, WhileBusy

__all__ = ["Terminal", "tui"]

#: Names of the parameter that makes a function a chat.
_HISTORY_NAMES: Final = ("history", "chat_history")


class Terminal:
    """An agent or a chat function in the terminal, made by :func:`tui`; call it.

    :param target: as for :func:`tui`, like the other parameters.
    :raises ConfigurationError: *target* cannot be talked to.
    """

    def __init__(self, target: Any, while_busy: WhileBusy, is_plain: bool) -> None:
        if not isinstance(target, Agent) and not callable(target):
            raise ConfigurationError(
                "tui() takes an agent, an @llm_chat function, or a function that "
                f"returns an agent; got {target!r:.80}"
            )
        if while_busy not in get_args(WhileBusy):
            raise ConfigurationError(
                f"while_busy must be one of {', '.join(get_args(WhileBusy))}; got "
                f"{while_busy!r:.80}"
            )
        self.target: Final = target
        self._while_busy: Final = while_busy
        self._is_plain = is_plain
        if not isinstance(target, Agent):
            functools.update_wrapper(self, target)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Message, ...]:
        """Chat in this terminal until the user leaves.

        Cancellation: Ctrl+C and ESC cancel the live run, and nothing else.

        :param args: the arguments of the function that makes the agent; those of a chat
            function, by name, without the message. A list given as the history is
            updated in place.
        :return: the messages of the conversation.
        :raises ConfigurationError: the arguments do not fit.
        :raises SystemExit: SIGTERM or SIGHUP ended it.
        """
        conversation, history = self._open_conversation(args, kwargs)
        name = None if conversation.agent is None else conversation.agent.name
        default = "An agent" if isinstance(self.target, Agent) else self._target_name
        session = Session(
            conversation,
            choose_screen(is_plain=self._is_plain),
            while_busy=self._while_busy,
            greeting=GREETING.format(name=name or default),
        )
        try:
            code = session.run()
        finally:
            messages = tuple(session.conversation.messages)
            if history is not None:
                history[:] = messages
        if code > 128:
            raise SystemExit(code)
        return messages

    def _open_conversation(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ChatConversation, MutableSequence[Message] | None]:
        """Return the conversation, and the list to update when it ends."""
        target = self.target
        if not isinstance(target, Agent):
            try:
                names = [*inspect.signature(target).parameters]
            except (TypeError, ValueError):
                names = []
            history_name = next(
                (name for name in _HISTORY_NAMES if name in names), None
            )
            if history_name is not None:
                return _open_chat(target, history_name, args, kwargs)
            target = target(*args, **kwargs)
        elif args or kwargs:
            raise ConfigurationError("the terminal of an agent takes no arguments")
        if isinstance(target, LlmChat):
            target = target.agent()
        if not isinstance(target, Agent):
            raise ConfigurationError(
                f"{self._target_name} must return an agent; it returned {target!r:.80}"
            )
        return AgentConversation(target), None

    @property
    def _target_name(self) -> str:
        return str(getattr(self.target, "__name__", None) or "the function")

    def __repr__(self) -> str:
        return f"<Terminal of {self.target!r}>"


def _open_chat(
    chat: Any, history_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[ChatConversation, MutableSequence[Message] | None]:
    if args:
        raise ConfigurationError(
            "pass the arguments of a chat function by name; the message is typed"
        )
    options = dict(kwargs)
    history = options.pop(history_name, None)
    messages = () if history is None else tuple(history)
    kept = history if isinstance(history, MutableSequence) else None
    _check_arguments(chat, history_name, options)
    if isinstance(chat, LlmChat):

        def make_prompt(text: str) -> list[Any]:
            return chat.prompt(text, **{history_name: None}, **options)

        return AgentConversation(chat.agent(messages), make_prompt), kept

    def call(message: str, *, history: list[Message], cancel: Any) -> Any:
        return chat(message, **{history_name: history, "cancel": cancel}, **options)

    return FunctionConversation(call, messages), kept


def _check_arguments(chat: Any, history_name: str, options: dict[str, Any]) -> None:
    """Check the call before the user types the first message.

    :raises ConfigurationError: arguments are missing or unknown.
    """
    try:
        signature = inspect.signature(chat)
        takes_cancel = isinstance(chat, LlmChat) or "cancel" in signature.parameters
        if takes_cancel and not isinstance(chat, LlmChat):
            options = {**options, "cancel": None}
        signature.bind("", **{history_name: ()}, **options)
    except TypeError as error:
        raise ConfigurationError(
            f"the chat function cannot be called: {error}; pass its other arguments to "
            "the terminal, by name"
        ) from None
    if not takes_cancel and not any(
        each.kind is each.VAR_KEYWORD for each in signature.parameters.values()
    ):
        raise ConfigurationError(
            "a chat function needs a parameter cancel, a CancelToken that Ctrl+C "
            "cancels; pass it on to agent.stream(..., cancel=cancel)"
        )


@overload
def tui(
    target: Agent | Callable[..., Any],
    *,
    while_busy: WhileBusy = ...,
    plain: bool = ...,
) -> Terminal: ...


@overload
def tui(
    target: None = None, *, while_busy: WhileBusy = ..., plain: bool = ...
) -> Callable[[Agent | Callable[..., Any]], Terminal]: ...


def tui(
    target: Any = None, *, while_busy: WhileBusy = "queue", plain: bool = False
) -> Any:
    """Put an agent or a chat function into a terminal like that of ``syncagent chat``.

    Use it as a decorator, ``@tui`` or ``@tui(...)``, or as a function; call the result.
    Ctrl+C and ESC cancel the run.

    :param target: an agent; an ``@llm_chat`` function; another function of
        ``(message, history, cancel)`` that yields events; or a function that returns an
        agent, called with the arguments of the terminal.
    :param while_busy: what to do with a line typed while a run is live: send it
        afterwards (``queue``), pass it to the run at the next safe point (``steer``),
        or stop the run and send it at once (``interrupt``).
    :param plain: do not use rich and prompt_toolkit.
    :raises ConfigurationError: *target* cannot be talked to.
    """
    if target is None:
        return lambda target: Terminal(target, while_busy, plain)
    return Terminal(target, while_busy, plain)
