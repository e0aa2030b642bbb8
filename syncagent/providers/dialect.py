"""What every wire dialect can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from .._redaction import redact
from ..events import Event
from ..exceptions import ConfigurationError, ProtocolError, ProviderError, StreamBroken
from ..messages import Message
from ..options import Options, OutputFormat, ToolSpec
from ..sse import ServerSentEvent
from ..transcript.transcript import Piece, Transcript
from .blocks import encoded
from .draft import Draft
from .refusals import explain
from .schemas import in_words

T = TypeVar("T")

#: How much of what makes no sense an error carries, in characters.
_EXCERPT: Final = 4000


class Dialect(ABC):
    """How one kind of provider is spoken to."""

    #: Its name; what carries it goes back to nobody else.
    name: ClassVar[str]
    #: Names of options that it has no word for.
    unknown_options: ClassVar[frozenset[str]] = frozenset()

    def build_payload(
        self,
        model: str,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        options: Options = Options(),  # noqa: B008 - it is frozen
        *,
        stream: bool = True,
    ) -> bytes:
        """Return the body of the request for the next message of a model.

        :param messages: best a :class:`~syncagent.transcript.Transcript`, which
            remembers what was made of it; a string is what the user says.
        :raises ConfigurationError: the provider has no word for one of the options.
        """
        for name in sorted(self.unknown_options):
            if getattr(options, name) not in (None, "", (), {}, False):
                raise ConfigurationError(
                    f"{self.name} models know no {name}; leave it out, or say it in "
                    "the provider's own words with extra="
                )
        forced = options.tool_choice not in (None, "auto", "none")
        if forced and not tools:
            raise ConfigurationError(
                f"tool_choice is {options.tool_choice!r}, but there are no tools"
            )
        if options.output is not None and not self._enforces(
            model, tools, options.output
        ):
            options = in_words(options)
        transcript = (
            messages if isinstance(messages, Transcript) else Transcript(messages)
        )
        head = self._head(model, tools, options, stream=stream)
        field, pieces = self._body(transcript, options)
        fields = _merged(head, options.extra)
        if field in fields:
            raise ConfigurationError(
                f"extra= cannot hold {field}: that is the conversation itself"
            )
        begin = encoded(fields, "the request")[:-1] + (b"," if fields else b"")
        return b"".join([begin, b'"%s":[' % field.encode(), *pieces, b"]}"])

    def _enforces(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        """Is there a word for the form of an answer? Else the model is told it."""
        return True

    @abstractmethod
    def _head(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        """Return all fields but the conversation."""

    @abstractmethod
    def _body(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        """Return the name of the field with the conversation, and what is in it."""

    @abstractmethod
    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        """Yield our events for those of a stream, as they come.

        The last one is :class:`~syncagent.events.MessageFinished`.

        :param draft: an empty one, for those who want to see what has come when the
            stream does not come to its end.
        :raises StreamBroken: the stream ends before the answer does.
        :raises ProviderError: the stream carries an error, or makes no sense.
        """

    @abstractmethod
    def decode_reply(self, body: bytes) -> Iterator[Event]:
        """Yield the same events for an answer that is no stream.

        :raises ProviderError: it is an error, or makes no sense.
        """

    @abstractmethod
    def is_end(self, event: ServerSentEvent) -> bool:
        """Tell whether the protocol says with *event* that the answer is complete."""

    def explain(self, error: ProviderError) -> ProviderError:
        """Return the error that *error*, of a transport, means for this provider."""
        return explain(error)


def given(**fields: Any) -> dict[str, Any]:
    """Return *fields* without those that nobody has given."""
    return {name: value for name, value in fields.items() if value is not None}


def _merged(head: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Return both; what is said in the provider's own words counts more."""
    fields = dict(head)
    for name, value in extra.items():
        known = fields.get(name)
        is_both = isinstance(known, dict) and isinstance(value, dict)
        fields[name] = {**known, **value} if known and is_both else value
    return fields


def read(decoder: msgspec.json.Decoder[T], data: str | bytes | msgspec.Raw) -> T:
    """Decode *data*.

    :raises ProtocolError: it is not what a provider should say.
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        said = str(error)
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    raise ProtocolError(
        f"the provider sent something that makes no sense ({said}); is it the right "
        "kind of model for this address?",
        body=redact(text[:_EXCERPT]),
    )


def cut_off() -> StreamBroken:
    """Return the error for a stream that ends before the answer does."""
    return StreamBroken(
        "the stream ended before the answer was complete; what came was delivered",
        phase="stream",
        retryable=True,
    )
