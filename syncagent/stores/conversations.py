"""Conversations of a store: messages that runs share, in any process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from .._checks import check_number
from ..conversation.restored import whole_messages
from ..exceptions import ConfigurationError
from ..messages import AssistantMessage, Message, Prompt, ToolMessage, UserMessage
from .records import Changed, ConversationChange, ConversationRecord, conversation_key
from .submission import check_added, check_texts, title_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import SubmitArguments
    from .run_store import RunStore

__all__ = ["StoredConversation"]


class StoredConversation:
    """A conversation as it was when it was read, and what can be done with it.

    Its version protects from lost updates: :meth:`submit`, :meth:`append` and
    :meth:`change` raise ``ConversationChanged`` if another caller was faster. Then
    :meth:`refresh` it, look, and decide again.

    ``store.conversation(id)`` returns it, also for one that has not begun.
    """

    def __init__(self, store: RunStore, record: ConversationRecord) -> None:
        self._store: Final = store
        self._record = record

    # -- looking -------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The name of the conversation, which is unique for its owner."""
        return self._record.id

    @property
    def owner(self) -> str:
        """The owner, in the application's own terms."""
        return self._record.owner

    @property
    def title(self) -> str:
        """The beginning of the first prompt, or what :meth:`change` was given."""
        return self._record.title

    @property
    def labels(self) -> dict[str, Any]:
        """Anything that the application has noted with it."""
        return self._record.labels

    @property
    def version(self) -> int:
        """The version that was read; 0 for a conversation that had not begun."""
        return self._record.version

    @property
    def created_at(self) -> float:
        """When it began, in seconds since 1970."""
        return self._record.created_at

    @property
    def changed_at(self) -> float:
        """When it was last changed, or its last run began."""
        return self._record.changed_at

    @property
    def live_run(self) -> str:
        """The id of the live run; empty if no run is live."""
        return self._record.live_run

    def messages(self) -> tuple[Message, ...]:
        """Return the messages of all runs that have ended, as the store has them now.

        :raises StoreUnavailable: the store is unavailable.
        """
        key = self._record.key
        return whole_messages(
            self._store.call(lambda store: store.conversation_messages(key))
        )

    def refresh(self) -> StoredConversation:
        """Read it again, and return it."""
        fresh = self._store.conversation(self.id, owner=self.owner)
        self._record = fresh._record
        return self

    # -- changing ------------------------------------------------------------------

    def submit(self, prompt: Prompt, **arguments: Unpack[SubmitArguments]) -> str:
        """Add a run that continues the conversation, and return its id.

        :param arguments: as for :meth:`syncagent.stores.RunStore.submit`.
        :raises ConversationChanged: another caller was faster; nothing has happened.
        :raises AgentBusy: it has a live run.
        :raises InterruptPending: that run waits for answers.
        """
        arguments.setdefault("version", self.version)
        id = self._store.submit(
            prompt, owner=self.owner, conversation=self.id, **arguments
        )
        self._advance()
        return id

    def append(self, *messages: Message | str) -> None:
        """Add messages, such as those of a chat that another system has kept.

        :param messages: a string is a user message.
        :raises ConversationChanged: another caller was faster; nothing has happened.
        :raises AgentBusy: it has a live run.
        :raises InterruptPending: that run waits for answers.
        :raises ConfigurationError: one of them is not a message.
        """
        if not messages:
            raise ConfigurationError("append() needs a message")
        new = tuple(
            UserMessage.of(each) if isinstance(each, str) else each for each in messages
        )
        for message in new:
            if not isinstance(message, (UserMessage, AssistantMessage, ToolMessage)):
                raise ConfigurationError(
                    f"append() needs messages or strings; got {message!r:.80}"
                )
        title = None if self.version else title_of(new[0])
        self._change(messages=new, title=title)

    def change(
        self, *, title: str | None = None, labels: Mapping[str, Any] | None = None
    ) -> None:
        """Change the title or the labels, also while a run is live.

        :param labels: replace all of them, as JSON.
        :raises ConversationChanged: another caller was faster; nothing has happened.
        """
        if title is not None:
            check_texts({"title": title})
        body = None
        if labels is not None:
            try:
                body = msgspec.json.encode(dict(labels)).decode()
            except (TypeError, ValueError, RecursionError) as error:
                raise ConfigurationError(f"labels must be JSON: {error}") from None
        self._change(title=title, labels=body)

    def _change(self, **fields: Any) -> None:
        change = ConversationChange(
            key=self._record.key,
            id=self.id,
            owner=self.owner,
            nonce=uuid4().hex,
            version=self.version,
            **fields,
        )
        self._check(self._store.call(lambda store: store.change(change)))
        self._advance()

    def _advance(self) -> None:
        """Read it again after a change of this caller.

        The version is that of this change: one that others made since has not been
        seen, and the next change of this caller must not pass over it.
        """
        seen = self.version + 1
        self.refresh()
        self._record = replace(self._record, version=seen)

    def _check(self, changed: Changed) -> None:
        if changed == "missing":
            raise ConfigurationError(f"there is no conversation {self.id!r:.80}")
        if changed != "done":
            check_added(changed, self.id, None)

    def fork(
        self, id: str | None = None, *, owner: str | None = None, at: int | None = None
    ) -> StoredConversation:
        """Return a new conversation that begins with the messages of this one.

        A live run is not a part of it.

        :param id: its name; by default a random one.
        :param owner: its owner, by default the same.
        :param at: begin with only so many messages.
        :raises ConfigurationError: this one has not begun, or *id* is taken.
        """
        if at is not None:
            check_number("at", at, is_integer=True, unit="messages")
        name = uuid4().hex if id is None else id
        to = self.owner if owner is None else owner
        check_texts({"id": name, "owner": to})
        change = ConversationChange(
            key=conversation_key(to, name, ""),
            id=name,
            owner=to,
            nonce=uuid4().hex,
            title=self.title,
        )
        key = self._record.key
        changed = self._store.call(lambda store: store.fork(key, at, change))
        if changed == "taken":
            raise ConfigurationError(f"there is a conversation {name!r:.80} already")
        self._check(changed)
        return self._store.conversation(name, owner=to)

    def delete(self) -> bool:
        """Delete it with its runs, and end a live one; return false if it was gone.

        The record of answers stays: see :meth:`RunStore.audit`.
        """
        record = self._record
        found = self._store.call(
            lambda store: store.forget_conversation(record.key, record.owner)
        )
        self._store.open().sweep_soon()  # the live run may be in this process
        self.refresh()
        return found

    def __repr__(self) -> str:
        return f"<StoredConversation {self.id!r:.80}, version {self.version}>"
