"""The messages of a conversation, and the blocks they are made of.

The same values for every provider, frozen, to and from JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import msgspec

from .exceptions import ConfigurationError

__all__ = [
    "AssistantBlock",
    "AssistantMessage",
    "Citation",
    "File",
    "Image",
    "Json",
    "Message",
    "Outcome",
    "Prompt",
    "ProviderBlock",
    "RedactedThinking",
    "Refusal",
    "ResultBlock",
    "MessageStop",
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

#: Why a model stopped, in our words.
MessageStop = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_calls", "refusal", "pause", "other"
]


class _Block(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """What all blocks have in common."""


class Citation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where something in a text comes from."""

    #: The words that are quoted.
    text: str = ""
    title: str = ""
    url: str = ""
    #: All that the provider says about it.
    data: dict[str, Any] = {}


class Text(_Block, frozen=True, tag="text"):
    """Words."""

    text: str
    citations: tuple[Citation, ...] = ()
    #: What the provider wants back with it, unchanged.
    signature: str = ""


class Thinking(_Block, frozen=True, tag="thinking"):
    """What a model thinks before it speaks, as far as its provider shows it."""

    text: str
    #: What the provider wants back with it, unchanged.
    signature: str = ""


class RedactedThinking(_Block, frozen=True, tag="redacted_thinking"):
    """Thinking that only its provider can read; it wants it back."""

    data: str


class Image(_Block, frozen=True, tag="image"):
    """A picture: its bytes, or where they are.

    :raises ConfigurationError: there is neither, or both.
    """

    data: bytes = b""
    media_type: str = "image/png"
    url: str = ""

    def __post_init__(self) -> None:
        _check_source(self)


class File(_Block, frozen=True, tag="file"):
    """A document: its bytes, or where they are.

    :raises ConfigurationError: there is neither, or both.
    """

    data: bytes = b""
    media_type: str = "application/pdf"
    url: str = ""
    name: str = "document.pdf"

    def __post_init__(self) -> None:
        _check_source(self)


class Json(_Block, frozen=True, tag="json"):
    """A value, for results of tools."""

    value: Any


class Refusal(_Block, frozen=True, tag="refusal"):
    """What a model says in place of an answer that it will not give."""

    text: str


class ToolCall(_Block, frozen=True, tag="tool_call"):
    """A model wants a tool to be called."""

    call_id: str
    name: str
    #: JSON as the model has written it, which may be none.
    arguments: str = "{}"
    #: What the provider wants back with it, unchanged.
    signature: str = ""

    def parse(self) -> dict[str, Any]:
        """Return the arguments.

        :raises ValueError: they are no JSON object; the message is for the model.
        """
        try:
            return msgspec.json.decode(self.arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise ValueError(
                f"the arguments of {self.name} are not a JSON object: {error}"
            ) from None


class ToolResult(_Block, frozen=True, tag="tool_result"):
    """What came of a call."""

    call_id: str
    #: A string is taken for words.
    content: tuple[ResultBlock, ...] = ()
    is_error: bool = False
    #: The tool's; some providers ask for it.
    name: str = ""

    def __post_init__(self) -> None:
        _check_content(self, (Text, Json, Image, File))


class ProviderBlock(_Block, frozen=True, tag="provider"):
    """Something that only one provider knows; it goes back there, and nowhere else."""

    #: Which wire dialect it is from.
    provider: str
    #: As it came.
    data: dict[str, Any]


ResultBlock = Text | Json | Image | File


UserBlock = Text | Image | File


AssistantBlock = (
    Text | Thinking | RedactedThinking | ToolCall | Refusal | Image | ProviderBlock
)


class _Message(msgspec.Struct, frozen=True, tag_field="role", omit_defaults=True):
    """What all messages have in common."""


class UserMessage(_Message, frozen=True, tag="user"):
    """What the user says."""

    #: A string is taken for words.
    content: tuple[UserBlock, ...]

    def __post_init__(self) -> None:
        _check_content(self, (Text, Image, File))

    @classmethod
    def of(cls, prompt: str | UserBlock | list[str | UserBlock]) -> UserMessage:
        """Return what somebody means who gives a string, a block, or several."""
        parts = prompt if isinstance(prompt, (list, tuple)) else [prompt]
        return cls(
            tuple(Text(part) if isinstance(part, str) else part for part in parts)
        )


class AssistantMessage(_Message, frozen=True, tag="assistant"):
    """What a model says."""

    content: tuple[AssistantBlock, ...]
    stop_reason: MessageStop = "end_turn"
    #: The provider's own word for it.
    raw_stop_reason: str = ""
    #: Which wire dialect it is from; signatures go back to that alone.
    provider: str = ""
    model: str = ""
    #: Was it cut off?
    is_cut: bool = False

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
        """All its words, without thinking."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def thinking(self) -> str:
        """All that it shows of its thinking."""
        found = (block for block in self.content if isinstance(block, Thinking))
        return "".join(block.text for block in found)

    @property
    def refusal(self) -> str:
        """What it says in place of an answer, nothing if it answers."""
        found = (block for block in self.content if isinstance(block, Refusal))
        return "".join(block.text for block in found)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that it wants to be called, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


class ToolMessage(_Message, frozen=True, tag="tool"):
    """What came of the calls of the message before it."""

    content: tuple[ToolResult, ...]

    def __post_init__(self) -> None:
        _check_content(self, (ToolResult,))


Message = UserMessage | AssistantMessage | ToolMessage


def _check_content(holder: Any, kinds: tuple[type, ...]) -> None:
    """See to it that *holder* holds blocks that belong there; a string is words."""
    content = holder.content
    if isinstance(content, str) and Text in kinds:
        content = (Text(content),)
        msgspec.structs.force_setattr(holder, "content", content)
    elif isinstance(content, list):
        content = tuple(content)
        msgspec.structs.force_setattr(holder, "content", content)
    if not isinstance(content, tuple):
        raise ConfigurationError(
            f"the content of {type(holder).__name__} is a tuple of blocks; got "
            f"{content!r:.80}"
        )
    for block in content:
        if not isinstance(block, kinds):
            names = ", ".join(kind.__name__ for kind in kinds)
            raise ConfigurationError(
                f"{type(holder).__name__} is made of {names}; got {block!r:.80}"
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
            f"{type(block).__name__} takes data= or url=, one of them"
        )


_decoder = msgspec.json.Decoder(list[Message])


def encode_messages(messages: Iterable[Message]) -> bytes:
    """Return *messages* as JSON.

    :raises ConfigurationError: one holds something that cannot be said in JSON.
    """
    try:
        return msgspec.json.encode(list(messages))
    except (TypeError, UnicodeError) as error:
        raise ConfigurationError(f"these messages are no JSON: {error}") from None


def decode_messages(text: bytes | str) -> list[Message]:
    """Return the messages that :func:`encode_messages` has made JSON of.

    :raises ConfigurationError: it is nothing of the kind.
    """
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError, TypeError) as error:
        raise ConfigurationError(f"these are no messages: {error}") from None


#: ``interrupted``: it was running and was stopped, its effects are unknown;
#: ``abandoned``: it is still running.
Outcome = Literal["done", "failed", "denied", "not_started", "interrupted", "abandoned"]


class ToolOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one call."""

    call_id: str
    #: The tool's.
    name: str
    outcome: Outcome
    #: How long it ran.
    seconds: float = 0.0
    #: What went wrong, if something did.
    error: str = ""
    #: Did it take longer than its timeout?
    timed_out: bool = False


#: What the user says: words, a picture or a file, or several of them.
Prompt = str | UserBlock | Sequence[str | UserBlock]


def user_message(prompt: Any) -> UserMessage:
    """Return what the user says.

    :raises ConfigurationError: it is nothing.
    """
    parts = list(prompt) if isinstance(prompt, (list, tuple)) else [prompt]
    for part in parts:
        if not isinstance(part, (str, *get_args(UserBlock))):
            raise ConfigurationError(
                "a prompt is a string, an Image, a File, or a list of those; got "
                f"{part!r:.80}"
            )
        _check_words(part if isinstance(part, str) else getattr(part, "text", ""))
    message = UserMessage.of(parts)
    if not any(getattr(block, "text", "x").strip() for block in message.content):
        raise ConfigurationError("the prompt is empty; say something to the model")
    return message


def _check_words(text: str) -> None:
    # It would stay in the conversation, and no request could be made of that any more.
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"the prompt cannot be sent, as it is no text: {error}; decode it with "
            "errors='replace'"
        ) from None
