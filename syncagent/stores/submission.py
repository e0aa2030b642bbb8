"""Check the arguments of ``submit()``, and explain why a run was not added."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import msgspec

from .._checks import check_number, check_timeout
from ..conversation.request import check_run_id
from ..exceptions import (
    AgentBusy,
    ConfigurationError,
    ConversationChanged,
    InterruptPending,
    TooManyRuns,
)
from ..messages import Message, Prompt, Text, user_message
from .backend import Added
from .records import NewRun, conversation_key

__all__ = [
    "check_added",
    "check_texts",
    "conversation_changed",
    "new_run",
    "title_of",
]

#: Characters of a title.
_LONGEST_TITLE: Final = 80


def check_texts(texts: Mapping[str, str], *, can_have_null: bool = False) -> None:
    """Refuse values that are not text, and text that a database cannot store.

    :param texts: by their names.
    :param can_have_null: they are stored as JSON, which has a notation for it.
    :raises ConfigurationError: one of them is not fit.
    """
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ConfigurationError(f"{name} must be a string; got {text!r:.80}")
        if "\0" in text and not can_have_null:
            raise ConfigurationError(f"{name} must not contain a null character")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"{name} has half of a surrogate pair; got {text!r:.80}"
            ) from None


def new_run(
    prompt: Prompt,
    *,
    owner: str,
    agent: str,
    conversation: str,
    labels: Mapping[str, Any] | None,
    timeout: float | None,
    id: str | None,
    run_id: str | None,
    unfollowed_seconds: float | None,
    version: int | None,
    lease: float,
) -> NewRun:
    """Return the run to add, from the arguments of ``submit()``.

    :param lease: the lease of the store. Followers are counted with its beats.
    :raises ConfigurationError: an argument has the wrong type or value.
    """
    check_timeout(timeout)
    check_timeout(unfollowed_seconds, "unfollowed_seconds")
    if unfollowed_seconds is not None and unfollowed_seconds < lease:
        raise ConfigurationError(
            f"unfollowed_seconds must be {lease:g} or more, the lease; got "
            f"{unfollowed_seconds!r:.80}"
        )
    if version is not None:
        check_number("version", version, is_integer=True)
        if not conversation:
            raise ConfigurationError("version= needs conversation=")
    texts = {"owner": owner, "agent": agent, "conversation": conversation}
    check_texts(texts)
    id = check_run_id(id) or secrets.token_hex(24)
    message = user_message(prompt)
    try:
        labels_json = msgspec.json.encode(dict(labels or {}))
        prompt_json = msgspec.json.encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"labels and prompt must be JSON: {error}") from None
    return NewRun(
        id=id,
        run_id=check_run_id(run_id) or uuid4().hex,
        **texts,
        key=conversation_key(owner, conversation, id),
        labels=labels_json,
        prompt=prompt_json,
        seconds_left=timeout,
        unfollowed_seconds=unfollowed_seconds,
        title=title_of(message),
        version=version,
    )


def title_of(message: Message) -> str:
    """Return the title of a conversation that begins with *message*."""
    texts = (block.text for block in message.content if isinstance(block, Text))
    words = " ".join(" ".join(texts).replace("\0", " ").split())
    return words if len(words) <= _LONGEST_TITLE else f"{words[: _LONGEST_TITLE - 1]}…"


def check_added(added: Added, conversation: str, max_live: int | None) -> None:
    """Check that a run was added, now or by an earlier call with the same id.

    :raises AgentBusy: the conversation has a live run.
    :raises InterruptPending: that run waits for answers.
    :raises ConversationChanged: it has another version than the caller expects.
    :raises TooManyRuns: the owner has *max_live* runs.
    :raises ConfigurationError: another run has its id.
    """
    if added in ("busy", "waiting"):
        raise (AgentBusy if added == "busy" else InterruptPending)(
            f"the conversation {conversation!r:.80} has a live run; wait for it, "
            "answer it, or cancel it"
        )
    if added == "changed":
        raise conversation_changed(conversation)
    if added == "no room":
        raise TooManyRuns(f"the owner already has {max_live} live runs")
    if added == "taken":
        raise ConfigurationError("id or run_id is that of another run")


def conversation_changed(conversation: str) -> ConversationChanged:
    """Return the error for a version that is not the last one any more."""
    return ConversationChanged(
        f"the conversation {conversation!r:.80} has changed since it was read: another "
        "run or message has been added; read it again, then decide"
    )
