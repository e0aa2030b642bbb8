"""The Gemini API: ``generateContent`` and ``streamGenerateContent``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from ..events import Event
from ..exceptions import (
    AuthenticationFailed,
    ConfigurationError,
    ProtocolError,
    ProviderError,
    RequestRejected,
)
from ..options import BUDGETS, Options, OutputFormat, ToolSpec
from ..sse import ServerSentEvent
from ..transcript import Piece, Transcript
from .blocks import encoded
from .dialect import Dialect, given, read
from .draft import Draft
from .gemini_answer import Answer, chunks, is_last, split
from .gemini_turns import NAME, encode
from .refusals import retold
from .schemas import described

#: What models that cannot do without thinking take for next to none.
_LEAST_BUDGET: Final = 128
_VERSION: Final = re.compile(r"gemini-(\d+)")
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class GeminiDialect(Dialect):
    """``models/NAME:streamGenerateContent?alt=sse``."""

    name: ClassVar[str] = NAME

    def _enforces(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        version = _VERSION.search(model)
        # Before the third, a form and tools exclude each other.
        return not tools or (version is not None and int(version[1]) >= 3)

    def _head(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        if options.parallel_tool_calls is False:
            raise ConfigurationError(
                "gemini models cannot be told to call one tool at a time; leave "
                "parallel_tool_calls out"
            )
        head: dict[str, Any] = {}
        if options.system:
            head["systemInstruction"] = {"parts": [{"text": options.system}]}
        if tools:
            head["tools"] = [{"functionDeclarations": [_tool(tool) for tool in tools]}]
            if options.tool_choice is not None:
                mode: dict[str, Any] = {"mode": _MODES.get(options.tool_choice, "ANY")}
                if options.tool_choice not in _MODES:
                    mode["allowedFunctionNames"] = [options.tool_choice]
                head["toolConfig"] = {"functionCallingConfig": mode}
        config = _config(model, options)
        if config:
            head["generationConfig"] = config
        return head

    def _body(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        contents = transcript.encode(self.name, encode)
        if options.prefill:
            begun = {"role": "model", "parts": [{"text": options.prefill}]}
            contents += [b",", encoded(begun)]
        return "contents", contents

    def is_end(self, event: ServerSentEvent) -> bool:
        # Arguments are no strings here, and may have such keys too: look twice.
        data = event.data
        if 'finishReason"' not in data and 'blockReason"' not in data:
            return False
        try:
            found = [is_last(read(chunks, piece)) for piece in split(data)]
        except ProtocolError:
            return False
        return any(found)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        answer = Answer(draft)
        for event in stream:
            if event.data.startswith("["):
                for piece in split(event.data):
                    yield from answer.take(piece)
            else:
                yield from answer.take(event.data)
        yield from answer.finish()

    def decode_reply(self, body: bytes) -> Iterator[Event]:
        answer = Answer()
        for piece in split(body.strip()):
            yield from answer.take(piece)
        yield from answer.finish()

    def explain(self, error: ProviderError) -> ProviderError:
        if isinstance(error, RequestRejected) and "API_KEY_INVALID" in error.body:
            return retold(error, AuthenticationFailed)
        return super().explain(error)


def _config(model: str, options: Options) -> dict[str, Any]:
    config = given(
        temperature=options.temperature,
        topP=options.top_p,
        maxOutputTokens=options.max_tokens,
        stopSequences=list(options.stop) or None,
        seed=options.seed,
    )
    budget = options.thinking_tokens
    if budget is None and options.effort is not None:
        budget = BUDGETS[options.effort]
        if "pro" in model.lower():
            budget = max(budget, _LEAST_BUDGET)
    if budget is not None:
        config["thinkingConfig"] = {"thinkingBudget": budget}
        if budget:  # an error where there are none to include
            config["thinkingConfig"]["includeThoughts"] = True
    if options.output is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = described(options.output.schema)
    return config


def _tool(tool: ToolSpec) -> dict[str, Any]:
    said: dict[str, Any] = {"name": tool.name, "parametersJsonSchema": tool.parameters}
    if tool.description:
        said["description"] = tool.description
    return said
