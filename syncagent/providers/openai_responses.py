"""The Responses API, as OpenAI has it, with nothing kept on the server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ..events import Event
from ..options import Options, ToolSpec
from ..sse import ServerSentEvent
from ..transcript import Piece, Transcript
from .dialect import Dialect, cut_off, given, read
from .draft import Draft
from .openai_responses_answer import ENDS, Answer, said_in
from .openai_responses_turns import NAME, encode
from .refusals import error_in_answer
from .schemas import enforceable

# Inside of a string quotes are escaped, so this is the key itself.
_END: Final = re.compile(r'"type"\s*:\s*"response\.(?:completed|incomplete|failed)"')

#: Names of models that reason, unasked too; with or without a vendor before them.
#: Those for chats do not, whatever their family.
_REASONS: Final = re.compile(r"(?:.*/)?(?:o\d|gpt-5(?!(?:\.\d+)?-chat)|codex|gpt-oss)")


class OpenAIResponsesDialect(Dialect):
    """``/responses``."""

    name = NAME
    unknown_options = frozenset({"stop", "prefill", "thinking_tokens"})

    def _head(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        head: dict[str, Any] = {
            "model": model,
            "stream": stream,
            "store": False,
        }
        if options.effort is not None or _REASONS.match(model):
            # The server keeps nothing, so reasoning has to travel with us. A model that
            # does none rejects the word.
            head["include"] = ["reasoning.encrypted_content"]
        # Not every account may see a summary: extra= can ask for one.
        effort = options.effort and {"effort": options.effort}
        head |= given(
            instructions=options.system or None,
            temperature=options.temperature,
            top_p=options.top_p,
            max_output_tokens=options.max_tokens,
            reasoning=effort,
            metadata=options.metadata or None,
        )
        if tools:
            head["tools"] = [_tool(tool) for tool in tools]
            if options.tool_choice is not None:
                named = {"type": "function", "name": options.tool_choice}
                is_word = options.tool_choice in ("auto", "none", "required")
                head["tool_choice"] = options.tool_choice if is_word else named
            if options.parallel_tool_calls is not None:
                head["parallel_tool_calls"] = options.parallel_tool_calls
        if options.output is not None:
            form = enforceable(options.output)
            head["text"] = {"format": {"type": "json_schema", **form}}
        return head

    def _body(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        return "input", transcript.encode(self.name, encode)

    def is_end(self, event: ServerSentEvent) -> bool:
        return event.event in ENDS or _END.search(event.data) is not None

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        answer = Answer(draft)
        for event in stream:
            if event.data == "[DONE]":  # some imitators say so
                continue
            said = read(said_in, event.data)
            kind = said.type if isinstance(said.type, str) else event.event
            if kind == "response.output_text.delta" and answer.has_begun:
                yield from answer.text(said)
                continue
            if kind == "error" or said.error:
                told = {"code": said.code, "message": said.message}
                raise error_in_answer(said.error or told)
            yield from answer.take(kind, said)
            if kind in ENDS:
                return
        raise cut_off()

    def decode_reply(self, body: bytes) -> Iterator[Event]:
        reply, answer = read(said_in, body), Answer()
        if reply.error or not isinstance(reply.output, list):
            raise error_in_answer(reply.error) if reply.error else cut_off()
        yield from answer.begin(reply)
        yield from answer.finish(reply, reply.status or "completed")


def _tool(tool: ToolSpec) -> dict[str, Any]:
    said = {"name": tool.name, "description": tool.description}
    return {"type": "function", **said, "parameters": tool.parameters, "strict": False}
