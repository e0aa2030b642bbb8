"""Calls, durations, usage, errors and endings as text for people."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ..events import Compacted
from ..exceptions import SyncAgentError
from ..result import RunResult
from ..transport.redactor import public_url
from ..usage import Usage
from .plain_text import on_one_line

__all__ = [
    "address_text",
    "call_text",
    "compacted_text",
    "end_text",
    "error_text",
    "outcome_text",
    "run_text",
    "seconds_text",
    "short_call_text",
    "usage_text",
]

#: The beginning of an address that is neither a host nor a host and a port.
_NO_HOST: Final = re.compile(r"[^/?#@\[]*:(?!\d*(?:[/?#]|\Z))")
_ARGUMENT_LIMIT: Final = 40
_CALL_LIMIT: Final = 100


def address_text(url: str) -> str:
    """Return *url* without its query, and with asterisks for users and passwords.

    A gateway's address may contain another one, with credentials of its own.
    """
    scheme, separator, rest = url.partition("://")
    parts = []
    for part in rest.split("://") if separator else [url]:
        shown = public_url(part)
        is_hidden = not part.startswith(shown) or _NO_HOST.match(shown)
        shown = "" if _NO_HOST.match(shown) else shown
        parts.append(f"***@{shown}" if is_hidden else shown)
    return on_one_line(f"{scheme}://" * bool(separator) + "://".join(parts))


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """Return a complete tool call: a user who approves it must see all of it."""
    parts = [f"{key}={_json(value)}" for key, value in arguments.items()]
    return f"{name}({', '.join(parts)})"


def compacted_text(event: Compacted) -> str:
    """Return that a conversation was replaced by a shorter one."""
    who = ", ".join(event.steps) or "a hook"
    return on_one_line(
        f"the conversation was compacted from about {event.before:,} to "
        f"{event.after:,} tokens by {who}"
    )


def short_call_text(name: str, arguments: dict[str, Any]) -> str:
    """Return a tool call on one line, shortened."""
    parts = [
        f"{key}={on_one_line(_json(value), _ARGUMENT_LIMIT)}"
        for key, value in arguments.items()
    ]
    return on_one_line(f"{name}({', '.join(parts)})", _CALL_LIMIT)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return repr(value)


def seconds_text(seconds: float) -> str:
    """Return a duration such as ``1.3 s``, ``2 min 5 s`` or ``1 h 7 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def usage_text(usage: Usage, cost: float | None) -> str:
    """Return the tokens used, and their cost if there is one and it is known."""
    about = "about " if usage.estimated else ""
    text = f"{about}{usage.total_tokens:,} tokens"
    if not cost:  # the local model is free
        return text
    return f"{text}, ${cost:.4f}" if cost < 1 else f"{text}, ${cost:.2f}"


def run_text(result: RunResult, seconds: float) -> str:
    """Return the turns, the tokens, the cost and the duration of a run."""
    usage = result.usage
    about = "about " if usage.estimated else ""
    cost = f", ${result.cost:.4f}" if result.cost else ""
    hits = f" ({usage.cache_hit_rate:.0%} cached)" if usage.cached_tokens else ""
    return (
        f"{result.turns} turn{'s' * (result.turns != 1)}, {about}{usage.input_tokens} "
        f"tokens in{hits}, {usage.output_tokens} out{cost}, {seconds:.1f} s"
    )


def error_text(error: BaseException) -> str:
    """Return the message of an error, without a traceback.

    The type is added unless the error is an expected one, whose message says enough.
    """
    message = str(error).strip() or type(error).__name__
    is_expected = isinstance(error, (SyncAgentError, OSError))
    return message if is_expected else f"{type(error).__name__}: {message}"


def outcome_text(outcome: str) -> str:
    """Return the outcome of a tool call in words."""
    if outcome == "abandoned":
        return "left running (abandoned)"
    return outcome.replace("_", " ")


def end_text(result: RunResult) -> str:
    """Return why a run ended, empty if the model finished its response."""
    if result.cancellation is not None:
        if result.stop_reason == "stopped":
            reason = result.cancellation.reason
            return f"a policy stopped the run{': ' if reason else ''}{reason}"
        is_timeout = result.cancellation.origin == "deadline"
        how = "timed out" if is_timeout else "stopped"
        return f"{how}; the text so far is kept"
    if result.limit is not None:
        return f"the limit on {result.limit.replace('_', ' ')} was reached"
    reasons = {
        "end_turn": "",
        "max_tokens": "the response was too long for the model and is cut off",
        "refusal": "the model refused to answer",
        "other": "the provider ended the response irregularly "
        f"({result.raw_stop_reason or 'it gave no reason'})",
        "interrupt": "the run waits for an answer that no one can give here",
    }
    return reasons.get(result.stop_reason, f"the run ended with {result.stop_reason}")
