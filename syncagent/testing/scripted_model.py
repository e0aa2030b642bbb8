"""A model without a network, which responds from a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

from ..cancel import CancelToken
from ..events import Event, MessageStarted, UsageUpdated
from ..exceptions import ConfigurationError, ProviderError
from ..messages import (
    AssistantBlock,
    AssistantMessage,
    Message,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from ..models.dialects import OpenAIChat
from ..models.limiter import Limiter, Passage
from ..models.prices import Price
from ..models.response import Events, ModelResponse
from ..options import Options, ToolSpec
from ..providers.draft import Draft
from ..transport.timeouts import Timeouts
from .gate import Gate
from .providers.sse import pieces
from .script import ScriptedResponse, say

__all__ = ["ScriptedModel"]

_Entry = ScriptedResponse | AssistantMessage | str | BaseException | Gate


class ScriptedModel(OpenAIChat):
    """Respond from a script: strings, messages, responses, errors to raise, and gates.

    A gate holds up the response after it, until it is opened or the token is cancelled.

    :param script: one entry for each response; a single string is the only one. Or a
        function that takes the messages and returns the entry, for a model that never
        runs out of responses.
    :param piece: number of characters in a delta.
    :param price: the price of its tokens; by default unknown.
    :param context_window: its context window in tokens.
    :param limiter: as for :class:`~syncagent.models.Model`.
    :raises ConfigurationError: an entry of the script is of another type.
    """

    def __init__(
        self,
        script: Iterable[_Entry] | Callable[[list[Message]], _Entry] = (),
        *,
        piece: int = 5,
        price: Price | None = None,
        context_window: int | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        super().__init__(
            "scripted",
            base_url="http://127.0.0.1:9",
            api_key="none",
            price=price,
            context_window=context_window,
            limiter=limiter,
        )
        self._script: list[_Entry] | Callable[[list[Message]], _Entry]
        if callable(script):
            self._script = script
        else:
            self._script = [script] if isinstance(script, str) else list(script)
            for number, entry in enumerate(self._script, 1):
                if not isinstance(entry, _Entry):
                    raise ConfigurationError(
                        f"entry {number} of the script is {entry!r}; entries are "
                        "strings, messages, responses, errors and gates"
                    )
        self._piece = piece
        #: The messages of each request, in order.
        self.requests: list[list[Message]] = []

    @property
    def full_name(self) -> str:
        """Its name alone: there is no provider that it comes from."""
        return self.name

    def ask(
        self,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        *,
        token: CancelToken | None = None,
        options: Options | None = None,
        timeouts: Timeouts | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> ModelResponse:
        """Return the next response of the script."""
        if isinstance(messages, str):
            messages = [UserMessage.of(messages)]
        response, token, messages = ModelResponse(), token or CancelToken(), [*messages]
        gate = self.passage(0, options)
        if gate is None:
            events = self._respond(response, messages, token, on_phase)
        else:
            events = self._pass(gate, response, messages, token, on_phase)
        return response.follow(events)

    def _pass(
        self,
        gate: Passage,
        response: ModelResponse,
        messages: list[Message],
        token: CancelToken,
        on_phase: Callable[[str], object] | None,
    ) -> Events:
        """Respond once the limiter lets the request pass, as a model does."""
        while True:
            try:
                gate.enter(token, on_phase)
                events = self._respond(response, messages, token, on_phase)
                with closing(events):
                    for event in events:
                        gate.begun({})
                        yield event
                        yield from events
            except ProviderError as error:
                if not gate.failed(error, {}):
                    raise
            else:
                return
            finally:
                gate.leave()
                if gate.counts_tokens:
                    gate.used(response.usage)

    def _respond(
        self,
        response: ModelResponse,
        messages: list[Message],
        token: CancelToken,
        on_phase: Callable[[str], object] | None,
    ) -> Events:
        self.requests.append(messages)
        token.checkpoint()
        entry = self._next_entry(messages, token)
        if isinstance(entry, BaseException):
            try:
                raise entry
            finally:
                del entry  # its traceback has this frame: they would be a cycle
        if on_phase is not None:
            on_phase("stream")
        if isinstance(entry, AssistantMessage):
            entry = ScriptedResponse(entry)
        elif not isinstance(entry, ScriptedResponse):
            assert isinstance(entry, str)
            entry = say(entry)
        token.checkpoint()
        for event in self._play(response, entry):
            yield event
            # Before the next event: the draft holds only what was delivered.
            token.checkpoint()

    def _next_entry(self, messages: list[Message], token: CancelToken) -> _Entry:
        if callable(self._script):
            return self._script(messages)
        while self._script:
            entry = self._script.pop(0)
            if not isinstance(entry, Gate):
                return entry
            entry.stop_here(token=token)
        raise ConfigurationError(
            f"the script has no response {len(self.requests)}; give ScriptedModel one "
            "for every request"
        )

    def _play(
        self, response: ModelResponse, scripted: ScriptedResponse
    ) -> Iterator[Event]:
        message = scripted.message
        draft = response.draft = Draft(message.provider or "scripted")
        draft.model = message.model or self.name
        yield MessageStarted(draft.model)
        for number, block in enumerate(message.content):
            draft.new_block()
            yield from self._block(draft, number, block)
        draft.usage = scripted.usage
        yield UsageUpdated(scripted.usage)
        raw = message.raw_stop_reason or message.stop_reason
        yield from draft.finish(message.stop_reason, raw, message.stop_detail)

    def _block(
        self, draft: Draft, number: int, block: AssistantBlock
    ) -> Iterator[Event]:
        if isinstance(block, Text):
            yield from map(draft.text, self._pieces(block.text))
            text_block = draft.open(Text)
            text_block.citations += block.citations
            text_block.signature = block.signature
        elif isinstance(block, Thinking):
            yield from map(draft.thinking, self._pieces(block.text))
            draft.open(Thinking).signature = block.signature
        elif isinstance(block, ToolCall):
            yield draft.start_call(number, block.call_id, block.name)
            for piece in self._pieces(block.arguments):
                yield draft.arguments(number, piece)
            draft.sign_call(number, block.signature)
            yield from draft.ready(number)
        elif isinstance(block, Refusal):
            draft.refusal(block.text)
        else:
            draft.add(block)

    def _pieces(self, text: str) -> Iterator[str]:
        return pieces(text, self._piece)
