"""Questions of a server: for input, for a model's response, for roots.

A server's question is a stranger's text. It is shown with the name of the server, and
never as if the SDK itself had asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from .._checks import check_number
from .._context import run_id
from ..agent import Agent
from ..asking.handler_call import call_handler
from ..cancel import CancelToken
from ..exceptions import ConfigurationError, Declined, ToolError
from ..messages import AssistantMessage, Image, Message, Text, UserMessage
from ..models.model import Model
from ..models.names import find_model
from ..tools.context import ToolContext
from .connection import QuestionRefused, ServerQuestion
from .content import content_block, shown
from .messages import INVALID_PARAMS, METHOD_NOT_FOUND

__all__ = ["Elicit", "ElicitRequest", "Sampling", "ServerQuestions"]

#: A user's refusal of a model call, as servers know it.
_REFUSED: Final = -1
#: Characters of a server's question that are shown.
_MESSAGE: Final = 4000

_AGREED: Final = "agreed"
_STOP_REASONS: Final = {"max_tokens": "maxTokens"}


class ElicitRequest(msgspec.Struct, frozen=True):
    """A question of a server to the user."""

    server: str
    message: str
    #: The fields to fill in, as a flat JSON schema; ``None`` if there is a URL.
    form: dict[str, Any] | None = None
    #: A page of the server that the user should open. Never open it unasked.
    url: str = ""


#: Answers a question of a server: the fields as a dict (or True for a URL), False to
#: decline, None for no answer.
Elicit = Callable[[ElicitRequest], Mapping[str, Any] | bool | None]


class Sampling(msgspec.Struct, frozen=True):
    """Lets a server use a model, at your cost.

    The call counts towards the usage and the limits of the run whose tool asked for it,
    and ends with that run.
    """

    #: A model, or the name of one.
    model: Model | str
    #: False to allow every request; by default the user is asked each time.
    requires_approval: bool = True
    #: The most tokens of one response; the server may ask for fewer.
    max_tokens: int = 4096

    def __post_init__(self) -> None:
        check_number("max_tokens", self.max_tokens, is_integer=True, is_positive=True)


class ServerQuestions:
    """Answers the questions of one server.

    :param elicit: ``ask`` passes them on as ``ctx.ask()`` does; a function answers
        them; ``None`` declares that there is no one to ask.
    :raises ConfigurationError: a setting cannot work.
    """

    def __init__(
        self,
        server: str,
        *,
        elicit: Elicit | Literal["ask"] | None,
        sampling: Sampling | None,
        roots: Iterable[str | PathLike[str]],
    ) -> None:
        if not (elicit is None or elicit == "ask" or callable(elicit)):
            raise ConfigurationError(
                f"elicit must be 'ask', a function or None; got {elicit!r:.80}"
            )
        if not (sampling is None or isinstance(sampling, Sampling)):
            raise ConfigurationError(
                f"sampling takes Sampling(model); got {sampling!r:.80}"
            )
        self._server = server
        self._elicit = elicit
        self._sampling = sampling
        self._roots = [Path(root).resolve() for root in roots]

    @property
    def capabilities(self) -> dict[str, Any]:
        """The capabilities that this client declares: only what it can answer."""
        found: dict[str, Any] = {}
        if self._elicit is not None:
            found["elicitation"] = {"form": {}, "url": {}}
        if self._sampling is not None:
            found["sampling"] = {}
        if self._roots:
            found["roots"] = {}
        return found

    def answer(
        self,
        question: ServerQuestion,
        token: CancelToken,
        context: ToolContext | None = None,
    ) -> dict[str, Any]:
        """Answer a question.

        Cancellation: ends at once.

        :param context: the tool call that it belongs to, if that is known.
        :raises QuestionRefused: it is answered with an error.
        """
        if question.method == "roots/list" and self._roots:
            return {
                "roots": [
                    {"uri": one.as_uri(), "name": one.name} for one in self._roots
                ]
            }
        if question.method == "elicitation/create" and self._elicit is not None:
            return self._ask(self._elicit_request(question.params), token, context)
        if question.method == "sampling/createMessage" and self._sampling is not None:
            return self._sample(self._sampling, question.params, token, context)
        raise QuestionRefused(f"{question.method} is not supported", METHOD_NOT_FOUND)

    # -- input ---------------------------------------------------------------------

    def _elicit_request(self, params: dict[str, Any]) -> ElicitRequest:
        message = params.get("message")
        text = shown(message, _MESSAGE) if isinstance(message, str) else ""
        if params.get("mode", "form") == "url":
            url = params.get("url")
            if not isinstance(url, str) or not _is_web_page(url):
                raise QuestionRefused("the URL must be http or https", INVALID_PARAMS)
            return ElicitRequest(self._server, text, url=url)
        form = params.get("requestedSchema")
        if params.get("mode", "form") != "form" or not isinstance(form, dict):
            raise QuestionRefused("a form needs requestedSchema", INVALID_PARAMS)
        return ElicitRequest(self._server, text, form=form)

    def _ask(
        self, request: ElicitRequest, token: CancelToken, context: ToolContext | None
    ) -> dict[str, Any]:
        answer = self._user_answer(request, token, context)
        if answer is None:
            return {"action": "cancel"}
        if answer is False:
            return {"action": "decline"}
        if request.form is None:
            return {"action": "accept"}
        content = dict(answer) if isinstance(answer, Mapping) else {}
        fields = request.form.get("properties")
        defaults = {
            name: field["default"]
            for name, field in (fields.items() if isinstance(fields, dict) else ())
            if isinstance(field, dict) and "default" in field
        }
        return {"action": "accept", "content": {**defaults, **content}}

    def _user_answer(
        self, request: ElicitRequest, token: CancelToken, context: ToolContext | None
    ) -> Any:
        """Ask the user; ``None`` if there is no answer.

        Cancellation: ends at once; a function of the user's is left behind.
        """
        if callable(self._elicit):
            name = f"elicit function of {self._server}"
            return call_handler(name, run_id.get(), self._elicit, request, token)
        return None if context is None else _ask_user(request, token, context)

    # -- a model's response --------------------------------------------------------

    def _sample(
        self,
        sampling: Sampling,
        params: dict[str, Any],
        token: CancelToken,
        context: ToolContext | None,
    ) -> dict[str, Any]:
        messages = _conversation(params)
        last = messages.pop() if messages else None
        if not isinstance(last, UserMessage):
            raise QuestionRefused("the last message must be the user's", INVALID_PARAMS)
        if sampling.requires_approval:
            self._get_approval(params, token, context)
        system = params.get("systemPrompt")
        agent = Agent(
            _limited(sampling, params.get("maxTokens")),
            system=system if isinstance(system, str) else None,
            messages=messages,
        )
        prompt: Any = list(last.content)
        if context is None:
            result = agent.run(prompt, cancel=token)
        else:
            # The run inside ends with the call; the server may end it earlier.
            with token.on_cancel(agent.cancel):
                result = context.agent(agent, prompt)
        token.checkpoint()
        return {
            "role": "assistant",
            "content": {"type": "text", "text": result.text},
            "model": agent.model.name,
            "stopReason": _STOP_REASONS.get(result.stop_reason, "endTurn"),
        }

    def _get_approval(
        self, params: dict[str, Any], token: CancelToken, context: ToolContext | None
    ) -> None:
        messages = msgspec.json.encode(params.get("messages")).decode()
        text = shown(messages, _MESSAGE)
        form = {
            "type": "object",
            "properties": {"allow": {"type": "boolean", "title": "Allow it"}},
            "required": ["allow"],
        }
        request = ElicitRequest(
            self._server, f"wants to send this to your model: {text}", form
        )
        answer = self._user_answer(request, token, context)
        is_allowed = isinstance(answer, Mapping) and answer.get("allow") is True
        if not is_allowed:
            raise QuestionRefused("the user did not allow it", _REFUSED)


def _ask_user(request: ElicitRequest, token: CancelToken, context: ToolContext) -> Any:
    """Ask through the run of a tool call; ``None`` if no answer came."""
    form = request.form
    text = f"{request.server} asks: {request.message}"
    if form is None:
        text = f"{request.server} asks you to open {request.url}: {request.message}"
        agreed = {"type": "boolean", "title": "I have opened the page", "default": True}
        form = {"type": "object", "properties": {_AGREED: agreed}}
    try:
        answer: Any = context.ask(text, form=form, token=token)
    except Declined:
        return False
    except ToolError:  # no one is there, or no one answered in time
        return None
    return answer if request.form is not None else bool(answer.get(_AGREED))


def _limited(sampling: Sampling, wanted: Any) -> Model:
    """Return the model, with the smallest limit of tokens that anyone has set."""
    model = sampling.model
    model = copy(find_model(model) if isinstance(model, str) else model)
    limits = [sampling.max_tokens, model.options.max_tokens, wanted]
    most = min(one for one in limits if isinstance(one, int) and one > 0)
    model.options = msgspec.structs.replace(model.options, max_tokens=most)
    return model


def _is_web_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _conversation(params: dict[str, Any]) -> list[Message]:
    """Return the messages that a server wants to send to a model."""
    messages = params.get("messages")
    found: list[Message] = []
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict):
            continue
        parts = message.get("content")
        blocks = [
            content_block(part)
            for part in (parts if isinstance(parts, list) else [parts])
        ]
        kept = tuple(block for block in blocks if isinstance(block, (Text, Image)))
        if message.get("role") == "assistant":
            texts = tuple(block for block in kept if isinstance(block, Text))
            found.append(AssistantMessage(texts))
        elif kept:
            found.append(UserMessage(kept))
    return found
