"""The interface that every wire dialect implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec

from ..events import Event
from ..exceptions import ConfigurationError, ProtocolError, ProviderError, StreamBroken
from ..messages import Message
from ..options import Options, OutputFormat, ServerTool, ToolSpec
from ..sse import ServerSentEvent
from ..transcript.transcript import Piece, Transcript
from .draft import Draft
from .encoding import json_bytes
from .errors import excerpt, explain
from .quirks import Quirks
from .strict_schemas import with_format_in_system

T = TypeVar("T")


class Dialect(ABC):
    """The wire format of one kind of provider.

    :param issuer: the endpoint. Signatures, encrypted reasoning and blocks of the
        provider's own are sent back to their issuer only.
    :param quirks: differences between the endpoint and others with the same dialect.
    """

    #: Its name, which is also the issuer if none is given.
    name: ClassVar[str]
    #: Names of options that the provider does not have.
    unknown_options: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        issuer: str = "",
        quirks: Quirks = Quirks(),  # noqa: B008 - it is frozen
    ) -> None:
        self.issuer = issuer or self.name
        self.quirks = quirks
        #: Identifies the encoding of messages; see :meth:`.Transcript.encode`.
        self.encoding = (self.name, self.issuer, repr(quirks))

    @property
    def endpoint(self) -> str:
        """The name of the endpoint, for error messages."""
        return self.issuer.partition("@")[0]

    def build_payload(
        self,
        model: str,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        options: Options = Options(),  # noqa: B008 - it is frozen
        *,
        stream: bool = True,
    ) -> bytes:
        """Return the body of the request for the model's next message.

        :param messages: preferably a :class:`~syncagent.transcript.Transcript`, which
            remembers how its messages were encoded; a string is a user message.
        :raises ConfigurationError: the provider does not have one of the options.
        """
        for name in sorted(self.unknown_options):
            if getattr(options, name) not in (None, "", (), {}, False):
                raise ConfigurationError(
                    f"{self.endpoint} models have no option {name}; leave it out, or "
                    "pass the provider's own field with extra="
                )
        if options.forces_call and not tools:
            raise ConfigurationError(
                f"tool_choice is {options.tool_choice!r}, but there are no tools; pass "
                "tools, or leave it out"
            )
        if options.output is not None and not self.can_enforce(
            model, tools, options.output
        ):
            options = with_format_in_system(options)
        transcript = (
            messages if isinstance(messages, Transcript) else Transcript(messages)
        )
        fields = self.fields(model, tools, options, stream=stream)
        if options.cache or options.cache_key:
            fields |= self.cache_fields(transcript, options)
        conversation, pieces = self.conversation(model, transcript, options)
        for name, value in options.extra.items():
            known = fields.get(name)
            if isinstance(known, dict) and isinstance(value, dict):
                fields[name] = {**known, **value}
            elif isinstance(known, list) and isinstance(value, list):
                fields[name] = [*known, *(item for item in value if item not in known)]
            else:
                fields[name] = value
        if conversation in fields:
            raise ConfigurationError(
                f"extra= cannot hold {conversation}: that field is the conversation"
            )
        start = json_bytes(fields, "the request")[:-1] + (b"," if fields else b"")
        return b"".join([start, b'"%s":[' % conversation.encode(), *pieces, b"]}"])

    def can_enforce(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        """Return whether the provider enforces *output*; else the prompt does."""
        return True

    def server_tools(self, model: str, options: Options) -> list[dict[str, Any]]:
        """Return the tools that the provider runs, in its own form.

        :raises ConfigurationError: the provider does not have one of them.
        """
        return [
            tool if isinstance(tool, dict) else self.server_tool(model, tool)
            for tool in options.server_tools
        ]

    def server_tool(self, model: str, tool: ServerTool) -> dict[str, Any]:
        """Return a typed tool in the provider's own form."""
        raise ConfigurationError(
            f"{self.endpoint} models have no {type(tool).__name__}; leave it out, or "
            "pass a dict in the provider's own form"
        )

    @abstractmethod
    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        """Return all fields of the request except the conversation."""

    def cache_fields(
        self, transcript: Sequence[Message], options: Options
    ) -> dict[str, Any]:
        """Return the fields that help the provider find the request in its cache."""
        return {}

    @abstractmethod
    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        """Return the name of the field with the conversation, and its encoded items."""

    @abstractmethod
    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        """Yield our events for those of a streamed response, as they arrive.

        The last one is :class:`~syncagent.events.MessageFinished`.

        :param draft: an empty draft to fill. It holds what has arrived if the stream
            breaks off.
        :raises StreamBroken: the stream ended before the response was complete.
        :raises ProviderError: the stream carries an error, or is invalid.
        """

    @abstractmethod
    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        """Yield the same events for a response that is not streamed.

        :param draft: an empty draft to fill.
        :raises ProviderError: the response is an error, or is invalid.
        """

    @abstractmethod
    def is_end(self, event: ServerSentEvent) -> bool:
        """Return whether *event* says that the response is complete."""

    def explain(self, error: ProviderError) -> ProviderError:
        """Return the error that the body of *error*, from the transport, describes."""
        return explain(error)


def without_none(**fields: Any) -> dict[str, Any]:
    """Return *fields* without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def decode_json(decoder: msgspec.json.Decoder[T], data: str | bytes | msgspec.Raw) -> T:
    """Decode *data*.

    :raises ProtocolError: it does not have the form that the provider documents.
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        problem = str(error)
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    raise ProtocolError(
        f"the provider sent an invalid response ({problem}); is it the right kind of "
        "model for this address?",
        body=excerpt(text),
    )


def stream_broken() -> StreamBroken:
    """Return the error for a stream that ends before the response is complete."""
    return StreamBroken(
        "the stream ended before the response was complete; all that arrived was "
        "delivered",
        phase="stream",
        retryable=True,
    )
