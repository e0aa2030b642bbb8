"""A model without a network, which says what a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ..cancel import CancelToken
from ..events import Event, MessageStarted, UsageUpdated
from ..exceptions import ConfigurationError
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
from ..models.response import Events, ModelResponse
from ..options import Options, ToolSpec
from ..providers.draft import Draft
from ..transport.timeouts import Timeouts
from .gate import Gate
from .script import ScriptedResponse, say

__all__ = ["ScriptedModel"]

_Entry = ScriptedResponse | AssistantMessage | str | BaseException | Gate


class ScriptedModel(OpenAIChat):
    """Answer from a script: strings, messages, replies, errors to raise, and gates.

    A gate holds up the answer after it, until it is opened or the token is cancelled.

    :param script: one entry for each answer; a string alone is the only one. Or a
        function that is given the messages and returns the entry, for a model that
        never runs out of answers.
    :param piece: how many characters come at once.
    :raises ConfigurationError: something in the script is nothing of the kind.
    """

    def __init__(
        self,
        script: Iterable[_Entry] | Callable[[list[Message]], _Entry] = (),
        *,
        piece: int = 5,
    ) -> None:
        super().__init__("scripted", base_url="http://127.0.0.1:9", api_key="none")
        self._script: list[_Entry] | Callable[[list[Message]], _Entry]
        if callable(script):
            self._script = script
        else:
            self._script = [script] if isinstance(script, str) else list(script)
            _check(self._script)
        self._piece = piece
        #: What it was asked, in order: the messages of each request.
        self.asked: list[list[Message]] = []

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
        """Return the next answer of the script."""
        said = [UserMessage.of(messages)] if isinstance(messages, str) else messages
        answer = ModelResponse()
        return answer.follow(
            self._answer(answer, list(said), token or CancelToken(), on_phase)
        )

    def _answer(
        self,
        answer: ModelResponse,
        said: list[Message],
        token: CancelToken,
        on_phase: Callable[[str], object] | None,
    ) -> Events:
        self.asked.append(said)
        token.checkpoint()
        entry = self._next(said, token)
        if isinstance(entry, BaseException):
            raise entry
        if on_phase is not None:
            on_phase("stream")
        reply = entry if isinstance(entry, ScriptedResponse) else _reply(entry)
        token.checkpoint()
        for event in self._say(answer, reply):
            yield event
            token.checkpoint()  # before the next is said: what is kept was heard

    def _next(self, said: list[Message], token: CancelToken) -> _Entry:
        if callable(self._script):
            return self._script(said)
        while self._script:
            entry = self._script.pop(0)
            if not isinstance(entry, Gate):
                return entry
            entry.stop_here(token=token)
        raise ConfigurationError(
            f"the script has no answer number {len(self.asked)}; give ScriptedModel "
            "one for every time that it is asked"
        )

    def _say(self, answer: ModelResponse, reply: ScriptedResponse) -> Iterator[Event]:
        message = reply.message
        draft = answer.draft = Draft(message.provider or "scripted")
        draft.model = message.model or self.name
        yield MessageStarted(draft.model)
        for number, block in enumerate(message.content):
            draft.new_block()
            yield from self._block(draft, number, block)
        draft.usage = reply.usage
        yield UsageUpdated(reply.usage)
        raw = message.raw_stop_reason or message.stop_reason
        yield from draft.finish(message.stop_reason, raw)

    def _block(
        self, draft: Draft, number: int, block: AssistantBlock
    ) -> Iterator[Event]:
        if isinstance(block, Text):
            yield from map(draft.text, self._pieces(block.text))
            words = draft.open(Text)
            words.citations += block.citations
            words.signature = block.signature
        elif isinstance(block, Thinking):
            yield from map(draft.thinking, self._pieces(block.text))
            draft.open(Thinking).signature = block.signature
        elif isinstance(block, ToolCall):
            yield draft.start_call(number, block.call_id, block.name)
            for text in self._pieces(block.arguments):
                yield draft.arguments(number, text)
            draft.sign_call(number, block.signature)
            yield from draft.ready(number)
        elif isinstance(block, Refusal):
            draft.refusal(block.text)
        else:
            draft.add(block)

    def _pieces(self, text: str) -> Iterator[str]:
        for begin in range(0, len(text), self._piece):
            yield text[begin : begin + self._piece]


def _reply(entry: AssistantMessage | str | Gate) -> ScriptedResponse:
    if isinstance(entry, AssistantMessage):
        return ScriptedResponse(entry)
    assert isinstance(entry, str)
    return say(entry)


def _check(script: list[_Entry]) -> None:
    for number, entry in enumerate(script, 1):
        if not isinstance(entry, _Entry):
            raise ConfigurationError(
                f"entry number {number} of the script is {entry!r}; it takes "
                "strings, messages, replies, errors and gates"
            )
