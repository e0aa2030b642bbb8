"""The tables of the store as models, which only read.

The store makes its tables, changes and deletes what is in them. Its own migrations are
the only ones: ``manage.py migrate`` calls them where the tables are in a database of
the site.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import msgspec
from django.db import DEFAULT_DB_ALIAS, models

from ...exceptions import ConfigurationError
from ...interrupts import Interrupt
from ...messages import UserMessage
from ...stores.records import StoredAnswer, StoredError
from ..web.presentation import beginning_of
from .conf import get_store, store_database
from .databases import open_reader
from .fields import StoreTime

__all__ = [
    "AnswerEntry",
    "ConversationEntry",
    "QuestionEntry",
    "RunEntry",
    "StoreEntry",
    "StoreQuerySet",
    "WorkerEntry",
    "open_database",
]

_PROMPT: Final = msgspec.json.Decoder(UserMessage)
_ERROR: Final = msgspec.json.Decoder(StoredError)
_QUESTION: Final[msgspec.json.Decoder[Interrupt]] = msgspec.json.Decoder(Interrupt)


def open_database() -> str:
    """Return the name of the database with the store, which this thread can read now.

    :raises ConfigurationError: the site has no store, or its tables are missing.
    :raises StoreUnavailable: the store is unavailable.
    """
    store = get_store()
    store.open()  # makes a file of SQLite, checks the tables of PostgreSQL
    return store_database() or open_reader(store._url)


class StoreQuerySet(models.QuerySet):
    """Rows of the store, whichever database it is in; routers are not asked."""

    @property
    def db(self) -> str:
        """The name of the database."""
        return DEFAULT_DB_ALIAS if self.query.is_empty() else open_database()

    def using(self, alias: str | None) -> StoreQuerySet:
        """Return nothing: ``dumpdata`` goes through databases, and has no use here."""
        empty: StoreQuerySet = self.none()
        return empty

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise _read_only()

    update = delete = bulk_create = bulk_update = _refuse


class StoreEntry(models.Model):
    """A row of the store."""

    objects = StoreQuerySet.as_manager()

    class Meta:
        """Django neither makes nor changes the tables."""

        abstract = True
        managed = False
        base_manager_name = "objects"
        default_permissions: tuple[str, ...] = ("view",)

    def save_base(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to save."""
        raise _read_only()

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to delete."""
        raise _read_only()


def _read_only() -> ConfigurationError:
    return ConfigurationError(
        "models of the store only read; change runs, conversations and answers with "
        "the store: get_store() of syncagent.integrations.django.conf"
    )


class WorkerEntry(StoreEntry):
    """A process that can work on runs."""

    id = models.TextField(primary_key=True)
    host = models.TextField()
    pid = models.IntegerField()

    class Meta(StoreEntry.Meta):
        db_table = "syncagent_worker"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class RunEntry(StoreEntry):
    """A run. Its key is the id in logs, because the public one is a secret."""

    run_id = models.TextField("run id", primary_key=True)
    public_id = models.TextField("public id", db_column="id")
    owner = models.TextField()
    agent = models.TextField()
    conversation = models.TextField()
    conversation_key = models.TextField()
    prompt = models.TextField()
    state = models.TextField()
    attempt = models.IntegerField("workers so far")
    crashes = models.IntegerField("workers that died with it")
    worker = models.ForeignKey(
        WorkerEntry,
        models.DO_NOTHING,
        db_column="worker",
        db_constraint=False,
        null=True,
        related_name="+",
    )
    events = models.IntegerField()
    error = models.TextField()
    created_at = StoreTime("submitted")
    ended_at = StoreTime("ended", null=True)

    class Meta(StoreEntry.Meta):
        db_table = "syncagent_run"
        verbose_name = "run"
        permissions = (("stop_run", "Can stop runs"),)

    def __str__(self) -> str:
        return str(self.run_id)

    @property
    def prompt_beginning(self) -> str:
        """The beginning of the prompt."""
        return beginning_of(_PROMPT.decode(self.prompt))

    @property
    def error_text(self) -> str:
        """The error of a run that failed."""
        return str(_ERROR.decode(self.error)) if self.error else ""


class QuestionEntry(RunEntry):
    """A run that has open questions."""

    class Meta(StoreEntry.Meta):
        proxy = True
        verbose_name = "open question"
        permissions = (("answer_question", "Can answer open questions"),)


class ConversationEntry(StoreEntry):
    """A conversation."""

    key = models.TextField(primary_key=True)
    name = models.TextField("conversation", db_column="id")
    owner = models.TextField()
    title = models.TextField()
    version = models.IntegerField()
    created_at = StoreTime("begun")
    changed_at = StoreTime("changed")

    class Meta(StoreEntry.Meta):
        db_table = "syncagent_conversation"
        verbose_name = "conversation"
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return str(self.title or self.name)


class AnswerEntry(StoreEntry):
    """A question that is closed: who answered what, and when."""

    id = models.TextField(primary_key=True)
    run_id = models.TextField("run id")
    owner = models.TextField()
    agent = models.TextField()
    conversation = models.TextField()
    approver = models.TextField("asked")
    question_body = models.TextField(db_column="question")
    kind = models.TextField("outcome")
    answer_body = models.TextField(db_column="answer")
    given_by = models.TextField("answered by")
    asked_at = StoreTime("asked at", null=True)
    given_at = StoreTime("closed at")

    class Meta(StoreEntry.Meta):
        db_table = "syncagent_audit"
        verbose_name = "closed question"

    def __str__(self) -> str:
        return f"{self.kind}: {getattr(self.question, 'tool', '') or self.run_id}"

    @property
    def question(self) -> Interrupt:
        """The question."""
        return _QUESTION.decode(self.question_body)

    @property
    def answer(self) -> StoredAnswer:
        """The answer; empty if there was none."""
        return StoredAnswer.decode(self.answer_body.encode())
