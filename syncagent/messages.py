"""The messages of a conversation: their blocks, their JSON, and the outcomes of calls.

All values are frozen, the same for every provider, and survive a trip through JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from ._short import short_fields, shortened
from .exceptions import ConfigurationError

__all__ = [
    "AssistantBlock",
    "AssistantMessage",
    "Citation",
    "File",
    "Image",
    "Json",
    "Message",
    "MessageStop",
    "Outcome",
    "Prompt",
    "ProviderBlock",
    "RedactedThinking",
    "Refusal",
    "ResultBlock",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolMessage",
    "ToolOutcome",
    "ToolResult",
    "UserBlock",
    "UserMessage",
    "decode_messages",
    "encode_messages",
    "user_message",
]

#: How many characters of a text the repr of a message has.
_SHOWN: Final = 200

# -- blocks ------------------------------------------------------------------------


class _Block(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """The base of all blocks."""

    def __repr__(self) -> str:
        return short_fields(self)


class Citation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The source of a statement in a text."""

    #: The quoted text.
    text: str = ""
    title: str = ""
    url: str = ""
    #: Everything the provider sent about it.
    data: dict[str, Any] = {}


class Text(_Block, frozen=True, tag="text"):
    """A block of text."""

    text: str
    citations: tuple[Citation, ...] = ()
    #: Sent back to the provider unchanged.
    signature: str = ""


class Thinking(_Block, frozen=True, tag="thinking"):
    """Reasoning that precedes a response, as far as the provider shows it."""

    text: str
    #: Sent back to the provider unchanged.
    signature: str = ""


class RedactedThinking(_Block, frozen=True, tag="redacted_thinking"):
    """Reasoning that only its provider can read; it is sent back unchanged."""

    data: str


class Image(_Block, frozen=True, tag="image"):
    """A picture, as bytes or as a URL.

    :raises ConfigurationError: neither data nor URL is given, or both are.
    """

    data: bytes = b""
    media_type: str = "image/png"
    url: str = ""

    def __post_init__(self) -> None:
        _check_source(self)


class File(_Block, frozen=True, tag="file"):
    """A document, as bytes or as a URL.

    :raises ConfigurationError: neither data nor URL is given, or both are.
    """

    data: bytes = b""
    media_type: str = "application/pdf"
    url: str = ""
    name: str = "document.pdf"

    def __post_init__(self) -> None:
        _check_source(self)


class Json(_Block, frozen=True, tag="json"):
    """A JSON value in the result of a tool."""

    value: Any


class Refusal(_Block, frozen=True, tag="refusal"):
    """The model's explanation for declining a request."""

    text: str


class ToolCall(_Block, frozen=True, tag="tool_call"):
    """The model's request to call a tool."""

    call_id: str
    name: str
    #: JSON as the model wrote it; it may be malformed.
    arguments: str = "{}"
    #: Sent back to the provider unchanged.
    signature: str = ""

    def parse(self) -> dict[str, Any]:
        """Return the arguments.

        :raises ValueError: they are not a JSON object; the message is for the model.
        """
        try:
            return msgspec.json.decode(self.arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise ValueError(
                f"the arguments of {self.name} are not a JSON object: {error}"
            ) from None


class ToolResult(_Block, frozen=True, tag="tool_result"):
    """The result of a tool call, as the model sees it."""

    call_id: str
    #: A string becomes a :class:`Text` block.
    content: tuple[ResultBlock, ...] = ()
    is_error: bool = False
    #: The name of the tool; some providers require it.
    name: str = ""

    def __post_init__(self) -> None:
        _check_content(self, (Text, Json, Image, File))


class ProviderBlock(_Block, frozen=True, tag="provider"):
    """A block that only one provider understands; it is sent to no other."""

    #: The endpoint that it came from.
    provider: str
    #: The block as it was received.
    data: dict[str, Any]


ResultBlock = Text | Json | Image | File

UserBlock = Text | Image | File

AssistantBlock = (
    Text | Thinking | RedactedThinking | ToolCall | Refusal | Image | ProviderBlock
)


# -- messages ----------------------------------------------------------------------

#: Why a model stopped, the same word for every provider.
MessageStop = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_calls", "refusal", "pause", "other"
]


class _Message(msgspec.Struct, frozen=True, tag_field="role", omit_defaults=True):
    """The base of all messages."""

    def __repr__(self) -> str:
        content: tuple[Any, ...] = getattr(self, "content", ())
        cut = ", cut off" if getattr(self, "is_cut", False) else ""
        parts = ", ".join(_short_block(block) for block in content)
        return f"<{type(self).__name__}: {parts or 'empty'}{cut}>"


class UserMessage(_Message, frozen=True, tag="user"):
    """A message of the user."""

    #: A string becomes a :class:`Text` block.
    content: tuple[UserBlock, ...]

    def __post_init__(self) -> None:
        _check_content(self, (Text, Image, File))

    @classmethod
    def of(cls, prompt: str | UserBlock | list[str | UserBlock]) -> UserMessage:
        """Return a message made of a string, a block, or a list of both."""
        parts = prompt if isinstance(prompt, (list, tuple)) else [prompt]
        return cls(
            tuple(Text(part) if isinstance(part, str) else part for part in parts)
        )


class AssistantMessage(_Message, frozen=True, tag="assistant"):
    """A message of the model."""

    content: tuple[AssistantBlock, ...]
    stop_reason: MessageStop = "end_turn"
    #: The provider's own word for it.
    raw_stop_reason: str = ""
    #: The endpoint that it came from; signatures are sent back only there.
    provider: str = ""
    model: str = ""
    #: True if the message was cut off.
    is_cut: bool = False
    #: The provider's explanation of an irregular end.
    stop_detail: str = ""
    #: The reason of the cancel that cut it off, and its origin; ``error`` if an error
    #: did that. Never sent to a model.
    cut_reason: str = ""
    cut_origin: str = ""

    def __post_init__(self) -> None:
        _check_content(
            self,
            (
                *(Text, Thinking, RedactedThinking, ToolCall),
                *(Refusal, Image, ProviderBlock),
            ),
        )

    @property
    def text(self) -> str:
        """All text, without thinking."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def thinking(self) -> str:
        """All visible thinking."""
        found = (block for block in self.content if isinstance(block, Thinking))
        return "".join(block.text for block in found)

    @property
    def refusal(self) -> str:
        """The text of a refusal, or an empty string."""
        found = (block for block in self.content if isinstance(block, Refusal))
        return "".join(block.text for block in found)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


class ToolMessage(_Message, frozen=True, tag="tool"):
    """The results of the calls of the message before it."""

    content: tuple[ToolResult, ...]

    def __post_init__(self) -> None:
        _check_content(self, (ToolResult,))


def _short_block(block: Any) -> str:
    """Return a block as a part of the repr of its message."""
    if isinstance(block, Text):
        return repr(shortened(block.text, _SHOWN))
    if isinstance(block, ToolCall):
        return f"{block.name}({shortened(block.arguments, _SHOWN)})"
    if isinstance(block, ToolResult):
        parts = ", ".join(_short_block(each) for each in block.content)
        return f"{block.name or block.call_id} -> {parts or 'nothing'}"
    return short_fields(block)


Message = UserMessage | AssistantMessage | ToolMessage


def _check_content(holder: Any, kinds: tuple[type, ...]) -> None:
    """Check the blocks of *holder*; turn a string into text, a list into a tuple."""
    content = holder.content
    if isinstance(content, str) and Text in kinds:
        content = (Text(content),)
        msgspec.structs.force_setattr(holder, "content", content)
    elif isinstance(content, list):
        content = tuple(content)
        msgspec.structs.force_setattr(holder, "content", content)
    if not isinstance(content, tuple):
        raise ConfigurationError(
            f"the content of {type(holder).__name__} must be a tuple of blocks; got "
            f"{content!r:.80}"
        )
    for block in content:
        if not isinstance(block, kinds):
            names = ", ".join(kind.__name__ for kind in kinds)
            raise ConfigurationError(
                f"{type(holder).__name__} may contain {names}; got {block!r:.80}"
            )


def _check_source(block: Image | File) -> None:
    data: Any = block.data
    if not isinstance(data, bytes):
        raise ConfigurationError(
            f"{type(block).__name__}(data=...) takes bytes, such as those of "
            f"Path(...).read_bytes(); got {data!r:.60}"
        )
    for name in ("url", "media_type"):
        value: Any = getattr(block, name)
        if not isinstance(value, str):
            raise ConfigurationError(
                f"{type(block).__name__}({name}=...) takes a string; got {value!r:.60}"
            )
    if bool(block.data) == bool(block.url):
        raise ConfigurationError(
            f"{type(block).__name__} takes exactly one of data= and url="
        )


# -- JSON --------------------------------------------------------------------------

_decoder = msgspec.json.Decoder(list[Message])


def encode_messages(messages: Iterable[Message]) -> bytes:
    """Return *messages* as JSON.

    :raises ConfigurationError: a message holds a value that JSON cannot represent.
    """
    try:
        return msgspec.json.encode(list(messages))
    except (TypeError, UnicodeError) as error:
        raise ConfigurationError(
            f"the messages cannot be encoded as JSON: {error}"
        ) from None


def decode_messages(text: bytes | str) -> list[Message]:
    """Return the messages that :func:`encode_messages` encoded.

    :raises ConfigurationError: *text* does not hold messages.
    """
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError, TypeError) as error:
        raise ConfigurationError(
            f"the messages cannot be decoded from JSON: {error}"
        ) from None


# -- outcomes of tool calls --------------------------------------------------------

#: ``interrupted``: the call was stopped while it ran, its effects are unknown;
#: ``abandoned``: it is still running.
Outcome = Literal["done", "failed", "denied", "not_started", "interrupted", "abandoned"]


class ToolOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one tool call."""

    call_id: str
    #: The name of the tool.
    name: str
    outcome: Outcome
    #: Duration in seconds.
    seconds: float = 0.0
    #: The error message, or an empty string.
    error: str = ""
    #: True if the call exceeded its timeout.
    timed_out: bool = False
    #: True if ``cancel_call()`` reached it before its end. Its tool may have run to its
    #: end all the same: then the outcome says so.
    cancelled: bool = False


# -- prompts -----------------------------------------------------------------------

#: The input of the user: text, an image, a file, or a list of them.
Prompt = str | UserBlock | Sequence[str | UserBlock]


def user_message(prompt: Any) -> UserMessage:
    """Return *prompt* as a message.

    :raises ConfigurationError: it is empty, or not a ``Prompt``.
    """
    parts = list(prompt) if isinstance(prompt, (list, tuple)) else [prompt]
    for part in parts:
        if not isinstance(part, (str, *get_args(UserBlock))):
            raise ConfigurationError(
                "a prompt must be a string, an Image, a File, or a list of those; got "
                f"{part!r:.80}"
            )
        # A lone surrogate would stay in the conversation and break every later request.
        try:
            (part if isinstance(part, str) else getattr(part, "text", "")).encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"the prompt cannot be encoded as UTF-8: {error}; decode it with "
                "errors='replace'"
            ) from None
    message = UserMessage.of(parts)
    if not any(getattr(block, "text", "x").strip() for block in message.content):
        raise ConfigurationError("the prompt is empty; give the model some text")
    return message
