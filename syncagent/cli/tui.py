"""A terminal around an agent, or around a chat that is a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, MutableSequence
from typing import Any, Final, get_args, overload

from ..agent import Agent
from ..exceptions import ConfigurationError
from ..functions.llm_chat import LlmChat
from ..messages import Message
from .chat.screens import choose_screen
from .chat.session import Session, WhileBusy
from .chat.talk import AgentTalk, FunctionTalk, Talk

__all__ = ["Terminal", "tui"]

_HISTORIES: Final = ("history", "chat_history")
_GREETING: Final = "{name}. /help for help; Ctrl+C stops an answer, Ctrl+D leaves."


class Terminal:
    """Something to talk to in a terminal; :func:`tui` makes it. Call it.

    :param target: as for :func:`tui`, and so are the others.
    :raises ConfigurationError: that is nothing one could talk to.
    """

    def __init__(self, target: Any, while_busy: WhileBusy, is_plain: bool) -> None:
        if not isinstance(target, Agent) and not callable(target):
            raise ConfigurationError(
                "tui() takes an agent, an @llm_chat function, or a function that "
                f"returns an agent; got {target!r:.80}"
            )
        if while_busy not in get_args(WhileBusy):
            raise ConfigurationError(
                f"while_busy is one of {', '.join(get_args(WhileBusy))}; got "
                f"{while_busy!r:.80}"
            )
        self.target: Final = target
        self._while_busy: Final = while_busy
        self._is_plain = is_plain
        if not isinstance(target, Agent):
            functools.update_wrapper(self, target)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Message, ...]:
        """Have a conversation in this terminal, until somebody leaves it.

        Cancellation: Ctrl+C and ESC cancel the run that goes on, and no more.

        :param args: what the function takes that makes the agent; a chat takes those of
            its parameters that are not what the user says. A list that is given as the
            history is brought up to date.
        :return: the conversation.
        :raises ConfigurationError: there is nothing to talk to.
        :raises SystemExit: SIGTERM or SIGHUP has ended it.
        """
        talk, history = self._talk(args, kwargs)
        session = Session(
            talk,
            choose_screen(is_plain=self._is_plain),
            while_busy=self._while_busy,
            greeting=_GREETING.format(name=self._name(talk)),
        )
        try:
            code = session.run()
        finally:
            messages = tuple(session.talk.messages)
            if history is not None:
                history[:] = messages
        if code > 128:
            raise SystemExit(code)
        return messages

    def _talk(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Talk, MutableSequence[Message] | None]:
        """Return the conversation, and the list that is to have it in the end."""
        target = self.target
        name = None if isinstance(target, Agent) else _history_of(target)
        if name is not None:
            return _chat(target, name, args, kwargs)
        if not isinstance(target, Agent):
            target = target(*args, **kwargs)
        elif args or kwargs:
            raise ConfigurationError("the terminal of an agent takes no arguments")
        if isinstance(target, LlmChat):
            target = target.agent()
        if not isinstance(target, Agent):
            raise ConfigurationError(
                f"{self._label} is to return an agent; it has returned {target!r:.80}"
            )
        return AgentTalk(target), None

    @property
    def _label(self) -> str:
        return str(getattr(self.target, "__name__", None) or "the function")

    def _name(self, talk: Talk) -> str:
        named = None if talk.agent is None else talk.agent.name
        if named or isinstance(self.target, Agent):
            return named or "An agent"
        return self._label

    def __repr__(self) -> str:
        return f"<Terminal of {self.target!r}>"


def _history_of(function: Any) -> str | None:
    """Return the parameter for the conversation, if it is a chat."""
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    return next((name for name in _HISTORIES if name in names), None)


def _chat(
    chat: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Talk, MutableSequence[Message] | None]:
    """Return the conversation with a chat."""
    if args:
        raise ConfigurationError(
            "give the terminal of a chat its arguments by name; what the user says is "
            "typed"
        )
    more = dict(kwargs)
    history = more.pop(name, None)
    said = () if history is None else tuple(history)
    kept = history if isinstance(history, MutableSequence) else None
    _check_rest(chat, name, more)
    if isinstance(chat, LlmChat):

        def phrase(words: str) -> list[Any]:
            return chat.prompt(words, **{name: None}, **more)

        return AgentTalk(chat.agent(said), phrase), kept

    def call(message: str, *, history: list[Message], cancel: Any) -> Any:
        return chat(message, **{name: history, "cancel": cancel}, **more)

    return FunctionTalk(call, said), kept


def _check_rest(chat: Any, name: str, more: dict[str, Any]) -> None:
    """See that all is there, now and not when somebody has typed something.

    :raises ConfigurationError: it is not.
    """
    try:
        signature = inspect.signature(chat)
        takes_cancel = isinstance(chat, LlmChat) or "cancel" in signature.parameters
        more = {**more, "cancel": None} if takes_cancel else more
        if isinstance(chat, LlmChat):
            more.pop("cancel")
        signature.bind("", **{name: ()}, **more)
    except TypeError as error:
        raise ConfigurationError(
            f"this chat cannot be called so: {error}; give its other arguments to the "
            "terminal, by name"
        ) from None
    if not takes_cancel and not any(
        each.kind is each.VAR_KEYWORD for each in signature.parameters.values()
    ):
        raise ConfigurationError(
            "a chat of your own needs a parameter cancel, a CancelToken: Ctrl+C "
            "cancels it; pass it on to agent.stream(..., cancel=cancel)"
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
    """Put something to talk to into a terminal: the one of ``syncagent chat``.

    Use it as a decorator, ``@tui`` or ``@tui(...)``, or as a function; call what it
    returns. Ctrl+C and ESC cancel the run.

    :param target: an agent; an ``@llm_chat`` function; another function of
        ``(message, history, cancel)`` that yields events; or one that returns an agent,
        and is called with what the terminal is called with.
    :param while_busy: what comes of a line that is typed while it works: it is said
        afterwards (``queue``), heard at the next safe point (``steer``), or said at
        once, in place of what goes on (``interrupt``).
    :param plain: do without rich and prompt_toolkit, also if they are there?
    :raises ConfigurationError: that is nothing one could talk to.
    """
    if target is None:
        return lambda target: Terminal(target, while_busy, plain)
    return Terminal(target, while_busy, plain)
