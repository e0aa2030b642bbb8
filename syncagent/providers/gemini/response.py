"""Responses in the dialect of Gemini."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ...events import Event, MessageStarted, UsageUpdated
from ...messages import Citation, Image, MessageStop, ProviderBlock, Text, Thinking
from ...usage import Usage
from ..dialect import cut_off, read
from ..draft import Draft, OpenText
from ..refusals import error_in_answer
from ..values import integer

_REFUSALS: Final = (
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)


_STOPS: Final[dict[str, MessageStop]] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    **dict.fromkeys(_REFUSALS, "refusal"),
}


#: Words that stand for having nothing to say.
_UNSAID: Final = ("", "FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED")


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """What all that comes has in common."""


class _FunctionCall(_Wire):
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw()
    id: str | None = None


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


class GeminiChunk(_Wire):
    """An answer, or more of one."""

    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Tokens | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: Any = None


#: Reads an answer, or more of one.
chunks: Final = msgspec.json.Decoder(GeminiChunk)


_lists: Final = msgspec.json.Decoder(list[msgspec.Raw])


_plain: Final = msgspec.json.Decoder(dict[str, Any])


def split(data: str | bytes) -> Iterable[bytes]:
    """Return the answers in *data*: it is one, or a list of some."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if raw == b"[DONE]":  # proxies may say it, the provider never does
        return ()
    if not raw.startswith(b"["):
        return (raw,)
    return [bytes(piece) for piece in read(_lists, raw)]


def _end(word: str | None) -> str:
    """Return why an answer ends, nothing if *word* does not say so."""
    return "" if word is None or word in _UNSAID else word


def is_last(chunk: GeminiChunk) -> bool:
    """Tell whether the answer is complete with *chunk*."""
    feedback = chunk.prompt_feedback
    words = [c.finish_reason for c in chunk.candidates or () if not c.index]
    return any(map(_end, [*words, feedback.block_reason if feedback else ""]))


class GeminiReader:
    """An answer of which there is more with every chunk."""

    def __init__(self, draft: Draft | None = None) -> None:
        self._draft = draft or Draft(NAME)
        self._has_begun = False
        self._tokens: _Tokens | None = None
        self._finish = ""
        #: What is said in place of the answer, or of the rest of it.
        self._refusal = ""
        self._is_blocked = False
        self._sources: dict[str, Citation] = {}
        #: The candidates of the chunk with all that is in them, once it takes a look.
        self._whole: list[Any] | None = None

    def take(self, data: str | bytes) -> Iterator[Event]:
        """Yield what is new with a chunk."""
        chunk = read(chunks, data)
        self._whole = None
        if chunk.error:
            raise error_in_answer(chunk.error)
        if not self._has_begun and (chunk.candidates or chunk.prompt_feedback):
            self._has_begun = True
            self._draft.model = chunk.model_version or ""
            yield MessageStarted(self._draft.model, chunk.response_id or "")
        for number, candidate in enumerate(chunk.candidates or ()):
            if candidate.index:  # others than the first were not asked for
                continue
            if candidate.content is not None and candidate.content.parts:
                yield from self._parts(candidate.content.parts, data, number)
            if candidate.finish_reason and not self._is_blocked:
                self._finish = _end(candidate.finish_reason) or self._finish
                self._refusal = candidate.finish_message or ""
            if candidate.grounding_metadata:
                self._sources.update(_sources(candidate.grounding_metadata))
        if chunk.usage_metadata is not None and chunk.usage_metadata != self._tokens:
            self._tokens = chunk.usage_metadata
            self._draft.usage = _usage(self._tokens)
            yield UsageUpdated(self._draft.usage)
        if chunk.prompt_feedback and _end(chunk.prompt_feedback.block_reason):
            self._is_blocked = True
            self._finish = _end(chunk.prompt_feedback.block_reason)
            words = chunk.prompt_feedback.block_reason_message
            self._refusal = words or f"The prompt was blocked: {self._finish}"

    def finish(self) -> Iterator[Event]:
        """Yield what there is to say when no more comes."""
        if not self._finish:
            raise cut_off()
        stop = "refusal" if self._is_blocked else _STOPS.get(self._finish, "other")
        if stop == "refusal" and self._refusal:
            self._draft.refusal(self._refusal)
        if stop == "end_turn" and self._draft.has_calls:
            stop = "tool_calls"
        for block in reversed(self._draft.blocks) if self._sources else ():
            if not isinstance(block, OpenText) or block.kind is not Text:
                continue
            if any(block.pieces):
                block.citations.extend(self._sources.values())
                break
        yield from self._draft.finish(stop, self._finish)

    def _parts(
        self, parts: list[_Part], data: str | bytes, candidate: int
    ) -> Iterator[Event]:
        for number, part in enumerate(parts):
            if part.function_call is not None:
                yield from self._call(part.function_call, part.thought_signature)
            elif part.thought_signature and part.text is not None:
                yield from self._signed(part, part.text, part.thought_signature)
            elif part.text:
                draft = self._draft
                yield (draft.thinking if part.thought else draft.text)(part.text)
            elif part.text is None:
                if self._whole is None:
                    self._whole = read(_plain, data)["candidates"]
                self._keep(self._whole[candidate]["content"]["parts"][number])

    def _signed(self, part: _Part, text: str, signature: str) -> Iterator[Event]:
        # It must go back as the part that it came as: neither joined nor divided.
        draft = self._draft
        draft.new_block()
        draft.open(Thinking if part.thought else Text).signature = signature
        if text:
            yield draft.thinking(text) if part.thought else draft.text(text)
        draft.new_block()

    def _call(self, call: _FunctionCall, signature: str | None) -> Iterator[Event]:
        draft, key = self._draft, len(self._draft.calls)
        yield draft.start_call(key, call.id or "", call.name or "")
        arguments = bytes(call.args).decode("utf-8", "replace")
        if arguments not in ("", "null"):
            yield draft.arguments(key, arguments)
        draft.sign_call(key, signature or "")
        yield from draft.ready(key)

    def _keep(self, part: dict[str, Any]) -> None:
        """Add a part that is neither words nor a call."""
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
    except (KeyError, TypeError, ValueError):  # no bytes, or none that can be read
        return None


def _sources(metadata: Any) -> Iterator[tuple[str, Citation]]:
    """Yield what an answer is grounded on, by address."""
    found = metadata.get("groundingChunks") if isinstance(metadata, dict) else None
    for chunk in found if isinstance(found, list) else ():
        for source in chunk.values() if isinstance(chunk, dict) else ():
            url = source.get("uri") if isinstance(source, dict) else None
            if isinstance(url, str) and url:
                title = str(source.get("title") or "")
                yield url, Citation(title=title, url=url, data=chunk)


def _usage(tokens: _Tokens) -> Usage:
    thoughts = integer(tokens.thoughts_token_count)
    return Usage(
        integer(tokens.prompt_token_count)
        + integer(tokens.tool_use_prompt_token_count),
        integer(tokens.candidates_token_count) + thoughts,
        integer(tokens.cached_content_token_count),
        reasoning_tokens=thoughts,
    )


#: The dialect's name; signatures of messages with another are of no use to it.
NAME: Final = "gemini"


#: The field with what the provider wants back unchanged.
SIGNATURE: Final = "thoughtSignature"
