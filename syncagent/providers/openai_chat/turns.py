"""Turns in the dialect of OpenAI's Chat Completions, and of compatible servers."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from ...messages import File, Image, ProviderBlock, Refusal, Text, ToolCall, UserBlock
from ...transcript.turns import AssistantTurn, Turn, UserTurn
from ..encoding import arguments_of, json_bytes, text_of, tool_name_of, url_of
from ..json_values import as_dicts
from ..quirks import Quirks

#: The field for thinking that a gateway expects back as it came.
DETAILS: Final = "reasoning_details"
#: The length of call ids for servers that require short ones.
_SHORT_ID: Final = 9
_MAX_NAME: Final = 64
#: The assistant's message between tool results and the user's, where there must be one.
_REPLY: Final = {"role": "assistant", "content": "OK"}


class TurnEncoder:
    """Encode turns for one provider.

    :param issuer: the endpoint; thinking and signatures are sent back only there.
    """

    def __init__(self, issuer: str, quirks: Quirks) -> None:
        self._origin = issuer
        self._quirks = quirks

    def __call__(self, turn: Turn) -> bytes:
        """Return a turn as JSON, or several values with commas between them."""
        if isinstance(turn, UserTurn):
            return b",".join(map(json_bytes, self._user(turn)))
        return json_bytes(self._assistant(turn))

    def _user(self, turn: UserTurn) -> Iterator[dict[str, Any]]:
        attachments: list[UserBlock] = []
        for result in turn.results:
            text = "\n".join(map(text_of, result.content))
            content = f"Error: {text}" if result.is_error else text or "(no output)"
            call_id = self._id(result.call_id)
            yield {"role": "tool", "tool_call_id": call_id, "content": content}
            # A result is text only; its images and files follow as the user's.
            attachments += [b for b in result.content if isinstance(b, (Image, File))]
        parts = [self._part(block) for block in (*attachments, *turn.content)]
        if parts and turn.results and self._quirks.has_reply_after_results:
            yield _REPLY
        if len(parts) == 1 and parts[0]["type"] == "text":
            yield {"role": "user", "content": parts[0]["text"]}
        elif parts:
            yield {"role": "user", "content": parts}

    def _part(self, block: UserBlock) -> dict[str, Any]:
        if isinstance(block, Text):
            return {"type": "text", "text": block.text}
        if isinstance(block, Image):
            return {"type": "image_url", "image_url": {"url": url_of(block)}}
        if self._quirks.has_document_urls:
            document = {"type": "document_url", "document_url": url_of(block)}
            return {**document, "document_name": block.name}
        if block.url and not block.url.startswith("data:"):
            # The provider takes the bytes of a file only; the model can still be told.
            return {"type": "text", "text": f"(a file, at {block.url})"}
        file = {"filename": block.name, "file_data": url_of(block)}
        return {"type": "file", "file": file}

    def _assistant(self, turn: AssistantTurn) -> dict[str, Any]:
        blocks = [block for message in turn.messages for block in message.content]
        texts = [block.text for block in blocks if isinstance(block, Text)]
        refusals = [block.text for block in blocks if isinstance(block, Refusal)]
        if not self._quirks.has_refusals:
            texts, refusals = texts + refusals, []
        is_own = turn.messages[-1].provider == self._origin
        calls = [self._call(call, is_own) for call in turn.calls.values()]
        text = "".join(texts)
        message: dict[str, Any] = {"role": "assistant"}
        if text.strip() or not (calls or refusals):
            message["content"] = text if text.strip() else "(nothing)"
        if refusals:
            message["refusal"] = "".join(refusals)
        self._add_thinking(message, turn)
        if calls:
            message["tool_calls"] = calls
        return message

    def _call(self, call: ToolCall, is_own: bool) -> dict[str, Any]:
        # Strict servers parse the arguments of every call, in every request.
        arguments = bytes(arguments_of(call)).decode()
        function = {"name": tool_name_of(call, _MAX_NAME), "arguments": arguments}
        encoded = {
            "id": self._id(call.call_id),
            "type": "function",
            "function": function,
        }
        if is_own and call.signature:
            google = {"thought_signature": call.signature}
            encoded["extra_content"] = {"google": google}
        return encoded

    def _add_thinking(self, message: dict[str, Any], turn: AssistantTurn) -> None:
        """Add the thinking of *turn* that this provider did itself."""
        own = [each for each in turn.messages if each.provider == self._origin]
        field = self._quirks.thinking_field
        if field:
            thinking = "".join(each.thinking for each in own)
            # A message with calls must have the field, even if another provider did
            # the thinking.
            if thinking or turn.calls:
                message[field] = thinking
        details = [
            detail
            for each in own
            for block in each.content
            if isinstance(block, ProviderBlock) and block.provider == self._origin
            for detail in as_dicts(block.data.get(DETAILS))
        ]
        if details:
            message[DETAILS] = details

    def _id(self, call_id: str) -> str:
        """Return the id for the provider; the same call always gets the same id."""
        is_short = len(call_id) == _SHORT_ID and call_id.isalnum()
        if is_short or not self._quirks.has_short_ids:
            return call_id
        return sha256(call_id.encode()).hexdigest()[:_SHORT_ID]
