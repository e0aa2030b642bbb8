"""The end of a response: why it stopped, and its usage."""

from __future__ import annotations

from typing import Final

from ...messages import MessageStop, Refusal
from ...usage import Usage
from ..draft import Draft, OpenText
from ..errors import error_in_response
from ..json_values import as_count, as_string, get_path
from .wire import ChatChunk, Choice

#: Our words for those of OpenAI and compatible servers, in lower case.
_STOPS: Final[dict[str, MessageStop]] = {
    "": "end_turn",
    "stop": "end_turn",
    "eos": "end_turn",
    "eos_token": "end_turn",
    "end_turn": "end_turn",
    "complete": "end_turn",
    "completed": "end_turn",
    "stop_sequence": "stop_sequence",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
    "sensitive": "refusal",
}
#: Words for a response that broke off: a retry may help.
_ERRORS: Final = frozenset({"error", "network_error", "insufficient_system_resource"})


def raise_for_error(choice: Choice) -> None:
    """Raise the error that a server sent in place of a message."""
    finish = (choice.finish_reason or "").lower()
    if choice.error or finish in _ERRORS:
        raise error_in_response(choice.error or f"the response ended with {finish!r}")


def stop_reason(draft: Draft, finish: str) -> MessageStop:
    """Return our word for why the response ended."""
    stop = _STOPS.get(finish.lower(), "other")
    if stop not in ("end_turn", "other"):
        return stop
    # Some servers report "stop", or a value of their own, for calls and refusals too.
    if draft.has_calls:
        return "tool_calls"
    texts = (block for block in draft.blocks if isinstance(block, OpenText))
    is_refused = any(block.kind is Refusal for block in texts)
    return "refusal" if is_refused else stop


def stop_detail(stop: MessageStop, choice: Choice) -> str:
    """Return the word of the provider behind a gateway for an irregular end."""
    is_regular = stop not in ("other", "refusal")
    return "" if is_regular else as_string(choice.native_finish_reason)


def find_usage(chunk: ChatChunk) -> Usage | None:
    """Return the usage in *chunk*, wherever the server has put it.

    :raises ProviderError: Groq has stopped the stream with an error.
    """
    groq_error = get_path(chunk.x_groq, "error")
    if groq_error:
        raise error_in_response(groq_error)
    of_choices = (choice.usage for choice in chunk.choices or ())
    places = (chunk.usage, get_path(chunk.x_groq, "usage"), *of_choices)
    usage = next((place for place in places if place and isinstance(place, dict)), None)
    if usage is None:
        return None

    def count(*paths: str) -> int:
        found = (as_count(get_path(usage, *path.split("."))) for path in paths)
        return next(filter(None, found), 0)

    sent, received = count("prompt_tokens"), count("completion_tokens")
    reasoning = count("completion_tokens_details.reasoning_tokens", "reasoning_tokens")
    # Some servers do not count reasoning as completion, as their total shows.
    if reasoning and count("total_tokens") == sent + received + reasoning:
        received += reasoning
    cached = count(
        "prompt_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",
        "cached_tokens",
    )
    written = count("prompt_tokens_details.cache_write_tokens")
    return Usage(sent, received, cached, written, reasoning)
