"""Requests in the dialect of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from ...events import Event
from ...exceptions import ConfigurationError
from ...messages import AssistantMessage, Message, ProviderBlock, Text, UserMessage
from ...options import (
    BUDGETS,
    CodeExecution,
    Options,
    OutputFormat,
    ServerTool,
    ToolSpec,
    WebSearch,
)
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import AssistantTurn, Turn, turns
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import json_bytes
from ..strict_schemas import closed, subschemas
from . import response
from .families import Family, family_of
from .response import NAME
from .turns import (
    CACHE_MARK,
    begins_with_thinking,
    encode_marked,
    encode_results,
    encode_turn,
    is_partial,
)

#: Default for max_tokens, which the provider requires; a thinking budget comes on top.
_MAX_TOKENS: Final = 8192
#: The same for models that decide themselves how much of it to think with, and for
#: their highest efforts.
_ROOM: Final = 32768
_MUCH_ROOM: Final = 65536
#: The smallest thinking budget that the provider takes.
_MIN_BUDGET: Final = 1024
#: Defaults of models that take no others.
_SAMPLING: Final = {"temperature": 1, "top_p": 0.99}
#: How many places of a schema may have a choice of types.
_MAX_CHOICES: Final = 16


class AnthropicDialect(Dialect):
    """``/v1/messages``."""

    name: ClassVar[str] = NAME

    def build_payload(
        self,
        model: str,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        options: Options = Options(),  # noqa: B008 - it is frozen
        *,
        stream: bool = True,
    ) -> bytes:
        if options.prefill and options.output is not None:
            raise ConfigurationError(
                f"{NAME} models cannot have prefill and output together"
            )
        transcript = (
            messages if isinstance(messages, Transcript) else Transcript(messages)
        )
        thinking = _thinking(model, options) or {}
        budget = thinking.get("budget_tokens", 0)
        if budget and not _may_think(transcript, self.origin):
            _check(model, options, thinking, has_tools=bool(tools))
            options = msgspec.structs.replace(
                options,
                effort=None,
                thinking_tokens=None,
                max_tokens=options.max_tokens or budget + _MAX_TOKENS,
            )
        return super().build_payload(model, transcript, tools, options, stream=stream)

    def can_enforce(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        schema = closed(output.schema) if family_of(model).has_formats else None
        if schema is None:
            return False
        each = list(subschemas(schema))
        choices = ["anyOf" in one or isinstance(one.get("type"), list) for one in each]
        # The provider rejects recursive schemas, and those with many choices.
        return sum(choices) <= _MAX_CHOICES and not any("$ref" in one for one in each)

    def server_tool(self, model: str, tool: ServerTool) -> dict[str, Any]:
        if isinstance(tool, CodeExecution):
            is_old = not family_of(model).words
            version = "20250825" if is_old else "20260521"
            return {"type": f"code_execution_{version}", "name": "code_execution"}
        if not isinstance(tool, WebSearch):
            return super().server_tool(model, tool)
        if tool.allowed_domains and tool.blocked_domains:
            raise ConfigurationError(
                f"{NAME} models search the web with allowed_domains or with "
                "blocked_domains; leave out one of the two"
            )
        # The version that all models have, at all providers. Later ones run code to
        # filter what is found, in a container that the next request has to name.
        return without_none(
            type="web_search_20250305",
            name="web_search",
            max_uses=tool.max_uses,
            allowed_domains=list(tool.allowed_domains) or None,
            blocked_domains=list(tool.blocked_domains) or None,
        )

    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        thinking = _thinking(model, options)
        _check(model, options, thinking or {}, has_tools=bool(tools))
        user = options.metadata.get("user_id")
        system: Any = options.system if options.system.strip() else None
        if system and options.cache:
            system = [{"type": "text", "text": system, "cache_control": CACHE_MARK}]
        version = self.quirks.anthropic_version
        return without_none(
            anthropic_version=version or None,
            model=None if version else model,
            max_tokens=options.max_tokens or _max_tokens(model, options, thinking),
            stream=stream,
            **_sampling(model, options),
            stop_sequences=list(options.stop) or None,
            thinking=thinking,
            output_config=_output_config(model, options) or None,
            metadata={"user_id": user} if user else None,
            system=system,
            **self._tool_fields(model, tools, options),
        )

    def _tool_fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options
    ) -> dict[str, Any]:
        own = [
            without_none(
                name=tool.name,
                input_schema=tool.parameters,
                description=tool.description or None,
            )
            for tool in tools
        ]
        if own and options.cache:
            own[-1]["cache_control"] = CACHE_MARK
        # The mark covers all that comes before it, so the agent's own come last.
        every = [*self.server_tools(model, options), *own]
        return {"tools": every, "tool_choice": _tool_choice(options)} if every else {}

    def conversation(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode = partial(encode_turn, origin=self.origin)
        encode_last: Callable[[Turn], bytes] | None = None
        if options.cache:
            encode_last = encode_marked
        if not options.prefill and _is_paused(transcript, self.origin):
            encode_last = encode_results
        # The last turn is not remembered, so no mark gets into the remembered ones.
        *settled, last = transcript.encode(self.encoding, encode, encode_last)
        pieces = [*settled, last.removesuffix(b",")]
        if options.prefill:
            content = [{"type": "text", "text": options.prefill}]
            pieces += [b",", json_bytes({"role": "assistant", "content": content})]
        return "messages", pieces

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.origin))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.origin))


# -- options ---------------------------------------------------------------------------


def _thinking(model: str, options: Options) -> dict[str, Any] | None:
    family, effort = family_of(model), options.effort
    if options.thinking_tokens is not None:
        if family.has_budgets:
            return _budget(options.thinking_tokens, options.max_tokens)
        raise ConfigurationError(
            f"{model} decides itself how many tokens to think with; pass effort= in "
            "place of thinking_tokens="
        )
    if effort is None:
        return None
    is_off = effort == "none" or (effort == "minimal" and not family.words)
    if is_off and family.off == "never":
        raise ConfigurationError(
            f"{model} always thinks; pass effort='low' for the least of it"
        )
    if is_off:
        return {"type": family.off}
    if family.words:
        display = "summarized" if family.hides_thinking else None
        return without_none(type="adaptive", display=display)
    budget, limit = BUDGETS[effort], options.max_tokens
    if limit is not None:  # an effort is no exact number: leave half for the text
        budget = max(_MIN_BUDGET, min(budget, limit // 2))
    return _budget(budget, limit)


def _budget(budget: int, limit: int | None) -> dict[str, Any]:
    if budget < _MIN_BUDGET:
        raise ConfigurationError(
            f"{NAME} models think with at least {_MIN_BUDGET} tokens; got {budget}"
        )
    if limit is not None and limit <= budget:
        raise ConfigurationError(
            f"max_tokens={limit} leaves no room for text after {budget} tokens of "
            "thinking; raise max_tokens or lower the thinking"
        )
    return {"type": "enabled", "budget_tokens": budget}


def _max_tokens(model: str, options: Options, thinking: dict[str, Any] | None) -> int:
    budget: int = (thinking or {}).get("budget_tokens", 0)
    if budget or not family_of(model).words:
        return budget + _MAX_TOKENS
    return _MUCH_ROOM if options.effort in ("xhigh", "max") else _ROOM


def _output_config(model: str, options: Options) -> dict[str, Any]:
    family, effort = family_of(model), options.effort
    has_effort = effort not in (None, "none") and options.thinking_tokens is None
    config: dict[str, Any] = {}
    if effort is not None and has_effort and family.words:
        config["effort"] = family.word_for(effort)
    if options.output is not None:
        schema = closed(options.output.schema)
        config["format"] = {"type": "json_schema", "schema": schema}
    return config


def _sampling(model: str, options: Options) -> dict[str, Any]:
    if family_of(model).has_sampling:
        return {"temperature": options.temperature, "top_p": options.top_p}
    return {}  # nothing but the defaults has passed the check


def _check(
    model: str, options: Options, thinking: dict[str, Any], *, has_tools: bool
) -> None:
    """Raise ConfigurationError for options that the model would reject."""
    family = family_of(model)
    is_forced = has_tools and options.tool_choice not in (None, "auto", "none")
    _check_model(model, family, options, is_forced=is_forced)
    is_thinking = thinking.get("type") in ("adaptive", "enabled")
    for name, is_wrong in (
        ("a temperature other than 1", options.temperature not in (None, 1)),
        ("a top_p below 0.95", options.top_p is not None and options.top_p < 0.95),
        ("a tool_choice that forces a call", is_forced and "budget_tokens" in thinking),
        ("prefill", options.prefill != ""),
    ):
        if is_thinking and is_wrong:
            raise ConfigurationError(
                f"{NAME} models cannot think with {name}; leave out one of the two"
            )
    if options.temperature is not None and options.top_p is not None:
        raise ConfigurationError(
            f"{NAME} models cannot have temperature and top_p together; leave out one "
            "of the two"
        )
    if options.prefill != options.prefill.rstrip():
        raise ConfigurationError(
            f"prefill must not end with white space for {NAME} models; the response "
            "can begin with it instead"
        )


def _check_model(
    model: str, family: Family, options: Options, *, is_forced: bool
) -> None:
    """Raise ConfigurationError for options that this generation does not have."""
    for name, default in _SAMPLING.items():
        is_default = getattr(options, name) in (None, default)
        if not is_default and not family.has_sampling:
            raise ConfigurationError(
                f"{model} has no {name}: the provider has removed it; leave it out"
            )
    if options.prefill and not family.has_prefill:
        raise ConfigurationError(
            f"{model} does not continue a prefill; ask for the form of the response "
            "with output= or in the instructions"
        )
    if is_forced and not family.has_forced_tools:
        raise ConfigurationError(
            f"{model} cannot be forced to call a tool; leave out tool_choice, and say "
            "in the instructions when to call it"
        )


def _tool_choice(options: Options) -> dict[str, Any] | None:
    is_single = options.parallel_tool_calls is False
    name = options.tool_choice or ("auto" if is_single else None)
    if name is None:
        return None
    if name == "none":
        return {"type": "none"}
    choice: dict[str, Any] = {"type": {"required": "any"}.get(name, name)}
    if name not in ("auto", "required"):
        choice = {"type": "tool", "name": name}
    if is_single:
        choice["disable_parallel_tool_use"] = True
    return choice


def _is_paused(transcript: Transcript, origin: str) -> bool:
    """Return whether the provider is amid its own tools: then no user turn follows."""
    last = transcript[-1] if len(transcript) else None
    if not isinstance(last, AssistantMessage) or last.is_cut or not last.content:
        return False
    block = last.content[-1]
    if not isinstance(block, ProviderBlock) or block.provider != origin:
        return False
    return last.stop_reason == "pause" and not is_partial(block, last)


def _may_think(transcript: Transcript, origin: str) -> bool:
    """Return whether the provider lets the model think with a budget in this turn.

    Amid tool calls only a model that began them with thinking may continue to think,
    and then it must. Calls that another provider's model made, or whose thinking was
    cut, have to be finished without.
    """
    begin, has_user = len(transcript), False
    for number in reversed(range(len(transcript))):
        message = transcript[number]
        if isinstance(message, AssistantMessage):
            # Without calls it is an earlier turn, or the beginning of a joined one.
            is_before = has_user or begin == len(transcript)
            if is_before and not message.tool_calls:
                break
            begin, has_user = number, False
        elif isinstance(message, UserMessage):
            has_user = has_user or any(
                not isinstance(block, Text) or block.text.strip()
                for block in message.content
            )
    first = next(turns(transcript, begin, is_beginning=False))
    if not isinstance(first, AssistantTurn):
        return True
    return begins_with_thinking(first, origin)
