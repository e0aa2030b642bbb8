"""Responses in the dialect of Google's Gemini API."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ...events import Event, MessageStarted, UsageUpdated
from ...exceptions import ProtocolError, ProviderUnavailable
from ...messages import Citation, Image, MessageStop, ProviderBlock, Text, Thinking
from ...sse import ServerSentEvent
from ...usage import Usage
from ..dialect import decode_json, stream_broken
from ..draft import Draft, OpenText
from ..errors import error_in_response, excerpt
from ..json_values import as_count
from .arguments import GrowingArguments, PartialArgument

NAME: Final = "gemini"
#: The field that the provider wants back unchanged.
SIGNATURE: Final = "thoughtSignature"
_REFUSALS: Final = (
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"),
    *("ESCALATION", "PUP_LIMITED_DISABLED"),
)
_STOPS: Final[dict[str, MessageStop]] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    # The limit of one response: a continuation token would get the rest.
    "CONTINUATION": "max_tokens",
    **dict.fromkeys(_REFUSALS, "refusal"),
}
#: Mistakes of the model, which it seldom makes twice.
_MISTAKES: Final = frozenset(
    {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"}
)
#: Reasons that mean the same as none.
_UNSPECIFIED: Final = (
    *("", "FINISH_REASON_UNSPECIFIED"),
    *("BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"),
)
_MAX_MESSAGE: Final = 300


# -- the wire format -------------------------------------------------------------------


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Base class: fields are in camel case on the wire."""


class _FunctionCall(_Wire):
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw()
    id: str | None = None
    partial_args: list[PartialArgument] | None = None
    will_continue: bool | None = None


class _Part(_Wire):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(_Wire):
    parts: list[_Part] | None = None


class _Candidate(_Wire):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None
    grounding_metadata: Any = None


class _Feedback(_Wire):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Tokens(_Wire):
    prompt_token_count: Any = None
    candidates_token_count: Any = None
    thoughts_token_count: Any = None
    cached_content_token_count: Any = None
    tool_use_prompt_token_count: Any = None

    def as_usage(self) -> Usage:
        """Return the counts that make sense; tools of the provider count as input."""
        thoughts = as_count(self.thoughts_token_count)
        return Usage(
            as_count(self.prompt_token_count)
            + as_count(self.tool_use_prompt_token_count),
            as_count(self.candidates_token_count) + thoughts,
            as_count(self.cached_content_token_count),
            reasoning_tokens=thoughts,
        )


class GeminiChunk(_Wire):
    """A complete response, or a part of a streamed one."""

    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Tokens | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: Any = None


_chunks: Final = msgspec.json.Decoder(GeminiChunk)
_lists: Final = msgspec.json.Decoder(list[msgspec.Raw])
_untyped: Final = msgspec.json.Decoder(dict[str, Any])
_values: Final = msgspec.json.Decoder(Any)


# -- decoding --------------------------------------------------------------------------


def is_end(event: ServerSentEvent) -> bool:
    """Return whether the response is complete with *event*."""
    data = event.data
    # Arguments are no strings here, and may have these keys too: take a closer look.
    if 'finishReason"' not in data and 'blockReason"' not in data:
        return False
    try:
        chunks = [decode_json(_chunks, piece) for piece in _split(data)]
    except ProtocolError:
        return False
    reasons: list[str | None] = []
    for chunk in chunks:
        reasons += [c.finish_reason for c in chunk.candidates or () if not c.index]
        if chunk.prompt_feedback is not None:
            reasons.append(chunk.prompt_feedback.block_reason)
    return any(map(_specified, reasons))


def decode(stream: Iterable[ServerSentEvent], draft: Draft) -> Iterator[Event]:
    """Yield our events for those of a streamed response."""
    reader = _Reader(draft)
    for event in stream:
        if event.data.startswith("["):
            for piece in _split(event.data):
                yield from reader.add(piece)
        else:
            yield from reader.add(event.data)
    yield from reader.finish()


def decode_body(body: bytes, draft: Draft) -> Iterator[Event]:
    """Yield our events for a response that is not streamed."""
    reader = _Reader(draft)
    for piece in _split(body.strip()):
        yield from reader.add(piece)
    yield from reader.finish()


def _split(data: str | bytes) -> Iterable[bytes]:
    """Return the chunks in *data*, which is one of them or a list."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if raw == b"[DONE]":  # proxies may send it, the provider never does
        return ()
    if not raw.startswith(b"["):
        return (raw,)
    return [bytes(piece) for piece in decode_json(_lists, raw)]


def _specified(reason: str | None) -> str:
    """Return *reason*, or nothing if it is unspecified."""
    return "" if reason is None or reason in _UNSPECIFIED else reason


class _Reader:
    """A response that grows with every chunk."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._has_begun = False
        self._response_id = ""
        self._tokens: _Tokens | None = None
        self._finish = ""
        #: The provider's explanation of the end.
        self._detail = ""
        self._is_blocked = False
        self._sources: dict[str, Citation] = {}
        #: The arguments of the last call, while they arrive in pieces.
        self._growing: GrowingArguments | None = None
        #: The candidates of the chunk with all their fields, once they are needed.
        self._untyped: list[Any] | None = None

    def add(self, data: str | bytes) -> Iterator[Event]:
        """Yield the events for a chunk."""
        chunk = decode_json(_chunks, data)
        self._untyped = None
        if chunk.error:
            raise error_in_response(chunk.error)
        if not self._has_begun:
            self._draft.model = self._draft.model or chunk.model_version or ""
            self._response_id = self._response_id or chunk.response_id or ""
            contents = (c.content for c in chunk.candidates or () if not c.index)
            parts = (part for each in contents if each for part in each.parts or ())
            if any(part.text != "" for part in parts):
                yield from self._begin()
        for number, candidate in enumerate(chunk.candidates or ()):
            if candidate.index:  # the request asks for one candidate
                continue
            if candidate.content is not None and candidate.content.parts:
                yield from self._parts(candidate.content.parts, data, number)
            if candidate.finish_reason and not self._is_blocked:
                self._finish = _specified(candidate.finish_reason) or self._finish
                self._detail = candidate.finish_message or ""
            if candidate.grounding_metadata:
                self._sources.update(_sources(candidate.grounding_metadata))
        if chunk.usage_metadata is not None and chunk.usage_metadata != self._tokens:
            self._tokens = chunk.usage_metadata
            self._draft.usage = self._tokens.as_usage()
            if self._has_begun:
                yield UsageUpdated(self._draft.usage)
        if chunk.prompt_feedback and _specified(chunk.prompt_feedback.block_reason):
            self._is_blocked = True
            self._finish = _specified(chunk.prompt_feedback.block_reason)
            message = chunk.prompt_feedback.block_reason_message
            self._detail = message or f"The prompt was blocked: {self._finish}"

    def finish(self) -> Iterator[Event]:
        """Yield the events that complete the response."""
        if not self._finish:
            raise stream_broken()
        if not self._has_begun:
            if self._finish in _MISTAKES and not self._is_blocked:
                detail = excerpt(self._detail or "no explanation", _MAX_MESSAGE)
                raise ProviderUnavailable(
                    f"the model wrote an invalid response, {self._finish}: {detail}",
                    retryable=True,
                )
            yield from self._begin()
        yield from self._end_call(is_complete=self._finish == "STOP")
        stop = "refusal" if self._is_blocked else _STOPS.get(self._finish, "other")
        # A model that calls a tool which it does not have will be told so.
        is_call = self._finish in ("STOP", "UNEXPECTED_TOOL_CALL")
        if is_call and self._draft.has_calls and not self._is_blocked:
            stop = "tool_calls"
        if stop == "refusal" and self._detail:
            self._draft.refusal(self._detail)
        for block in reversed(self._draft.blocks) if self._sources else ():
            if not isinstance(block, OpenText) or block.kind is not Text:
                continue
            if any(block.pieces):
                block.citations.extend(self._sources.values())
                break
        detail = self._detail if stop == "other" else ""
        yield from self._draft.finish(stop, self._finish, detail)

    def _begin(self) -> Iterator[Event]:
        """Yield the first events, once there is anything to deliver.

        Before that, the whole request can be repeated.
        """
        self._has_begun = True
        yield MessageStarted(self._draft.model, self._response_id)
        if self._tokens is not None:
            yield UsageUpdated(self._draft.usage)

    def _parts(
        self, parts: list[_Part], data: str | bytes, candidate: int
    ) -> Iterator[Event]:
        draft = self._draft
        for number, part in enumerate(parts):
            text, signature = part.text, part.thought_signature
            if part.function_call is not None:
                yield from self._call(part.function_call, signature or "")
            elif signature and text is not None:
                # It must be sent back as the same part: neither joined nor divided.
                draft.new_block()
                draft.open(Thinking if part.thought else Text).signature = signature
                if text:
                    yield draft.thinking(text) if part.thought else draft.text(text)
                draft.new_block()
            elif text:
                yield (draft.thinking if part.thought else draft.text)(text)
            elif text is None:
                if self._untyped is None:
                    self._untyped = decode_json(_untyped, data)["candidates"]
                self._add_other(self._untyped[candidate]["content"]["parts"][number])

    def _call(self, call: _FunctionCall, signature: str) -> Iterator[Event]:
        """Yield the events for a call, or for a piece of one."""
        draft, growing = self._draft, self._growing
        arguments = bytes(call.args).decode("utf-8", "replace")
        arguments = "" if arguments == "null" else arguments
        is_piece = bool(call.will_continue) or call.partial_args is not None
        if growing is None or not growing.is_of(call.name, call.id):
            yield from self._end_call(is_complete=True)
            growing = None
            if not (call.name or arguments or is_piece):
                return  # the end of a call that has ended
            yield draft.start_call(len(draft.calls), call.id or "", call.name or "")
        key = len(draft.calls) - 1
        if signature:
            draft.sign_call(key, signature)
        if growing is None and not is_piece:
            if arguments:
                yield draft.arguments(key, arguments)
            yield from draft.ready(key)
            return
        if growing is None:
            begin = decode_json(_values, arguments) if arguments else None
            growing = GrowingArguments(call.name or "", call.id or "", begin)
            self._growing = growing
        for partial in call.partial_args or ():
            growing.add(partial)
        if not call.will_continue:
            yield from self._end_call(is_complete=True)

    def _end_call(self, *, is_complete: bool) -> Iterator[Event]:
        """Yield the events for the end of a call whose arguments came in pieces."""
        growing, self._growing = self._growing, None
        if growing is not None:
            key = len(self._draft.calls) - 1
            text = growing.as_json(is_complete=is_complete)
            yield self._draft.arguments(key, text)
            yield from self._draft.ready(key)

    def _add_other(self, part: dict[str, Any]) -> None:
        """Add a part that is neither text nor a call."""
        draft, image = self._draft, _image(part)
        signature = {key: part[key] for key in (SIGNATURE,) if part.get(key)}
        if image is not None:
            draft.add(image)
            if signature:  # images have no place for it
                draft.add(ProviderBlock(draft.provider, signature))
        elif part.keys() - {"thought", SIGNATURE}:
            draft.add(ProviderBlock(draft.provider, part))
        elif signature:
            draft.add(Text("", signature=part[SIGNATURE]))


def _image(part: dict[str, Any]) -> Image | None:
    inline = part.get("inlineData")
    kind = inline.get("mimeType") if isinstance(inline, dict) else None
    if part.get("thought") or not str(kind).startswith("image/"):
        return None
    try:
        return Image(b64decode(inline["data"], validate=True), str(kind))  # type: ignore[index]
    except (KeyError, TypeError, ValueError):  # no bytes, or invalid ones
        return None


def _sources(metadata: Any) -> Iterator[tuple[str, Citation]]:
    """Yield the sources of a response, by URL."""
    chunks = metadata.get("groundingChunks") if isinstance(metadata, dict) else None
    for chunk in chunks if isinstance(chunks, list) else ():
        for source in chunk.values() if isinstance(chunk, dict) else ():
            url = source.get("uri") if isinstance(source, dict) else None
            if isinstance(url, str) and url:
                title = str(source.get("title") or "")
                yield url, Citation(title=title, url=url, data=chunk)
