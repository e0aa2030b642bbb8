"""The conversations of a store over HTTP: each client sees those of its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ...exceptions import ConfigurationError
from ...stores import StoredConversation
from .bodies import LONGEST_NAME, ForkRequest
from .errors import no_such_conversation
from .kept_bodies import ConversationSummary, ConversationView
from .presentation import whole_prompt

if TYPE_CHECKING:
    from .stored_runs import StoredRuns

__all__ = ["WebConversations"]

#: How many conversations a list shows.
_LIST: Final = 200
#: How often a conversation is read again because a run began or ended at the same time.
_TRIES: Final = 5


class WebConversations:
    """The conversations of the store of *runs*."""

    def __init__(self, runs: StoredRuns) -> None:
        self._runs: Final = runs

    def list(self, owner: str) -> tuple[ConversationSummary, ...]:
        """Return the conversations of an owner, last changed first.

        :raises Refused: the store is unavailable.
        """
        with self._runs.refusals():
            found = self._runs.store.conversations(owner=owner, limit=_LIST)
        return tuple(map(_summary, found))

    def show(self, id: str, owner: str) -> ConversationView:
        """Return a conversation of an owner, with its messages.

        :raises Refused: there is no such conversation, or the store is unavailable.
        """
        conversation = self._find(id, owner)
        with self._runs.refusals():
            for _ in range(_TRIES):
                # The messages are those of ended runs. A run that ends between two
                # reads would be shown twice, or not at all.
                before = (conversation.version, conversation.live_run)
                messages = conversation.messages()
                live_run = conversation.live_run
                run = None
                if live_run:
                    run = self._runs.store.get(live_run, has_messages=False)
                conversation.refresh()
                if before == (conversation.version, conversation.live_run):
                    break
        if not conversation.version:  # deleted at the same moment
            raise no_such_conversation()
        return ConversationView(
            **msgspec.structs.asdict(_summary(conversation)),
            messages=self._runs.presentation.messages(messages),
            prompt="" if run is None else whole_prompt(run.prompt),
        )

    def fork(self, id: str, owner: str, request: ForkRequest) -> ConversationSummary:
        """Return a new conversation that begins with the messages of another one.

        :raises Refused: there is no such conversation, or the store is unavailable.
        """
        conversation = self._find(id, owner)
        try:
            with self._runs.refusals():
                return _summary(conversation.fork(at=request.at))
        except ConfigurationError:  # deleted at the same moment
            raise no_such_conversation() from None

    def delete(self, id: str, owner: str) -> bool:
        """Delete a conversation with its runs; a live one ends.

        :return: false if another request was faster.
        :raises Refused: there is no such conversation, or the store is unavailable.
        """
        conversation = self._find(id, owner)
        with self._runs.refusals():
            return conversation.delete()

    def _find(self, id: str, owner: str) -> StoredConversation:
        """Return a conversation that has begun."""
        if not id or len(id) > LONGEST_NAME:
            raise no_such_conversation()
        try:
            with self._runs.refusals():
                found = self._runs.store.conversation(id, owner=owner)
        except ConfigurationError:  # such as a null character in the path
            raise no_such_conversation() from None
        if not found.version:
            raise no_such_conversation()
        return found


def _summary(conversation: StoredConversation) -> ConversationSummary:
    return ConversationSummary(
        id=conversation.id,
        title=conversation.title,
        version=conversation.version,
        changed_at=conversation.changed_at,
        live_run=conversation.live_run,
        labels=conversation.labels,
    )
