"""Let Django know the models, for their permissions; the store makes the tables.

Only the names and options of the models count: Django does not look at the fields of
tables that it does not manage.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models


def _create(name: str, key: str, table: str, **options: Any) -> migrations.CreateModel:
    """Return the operation that makes a model known."""
    unmanaged = {
        "db_table": table,
        "managed": False,
        "base_manager_name": "objects",
        "default_permissions": ("view",),
    }
    fields = [(key, models.TextField(primary_key=True, serialize=False))]
    return migrations.CreateModel(name, fields, {**unmanaged, **options})


class Migration(migrations.Migration):
    """The models of version 101 of the store."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Any]] = [
        _create("WorkerEntry", "id", "syncagent_worker", default_permissions=()),
        _create(
            *("RunEntry", "run_id", "syncagent_run"),
            verbose_name="run",
            permissions=(("stop_run", "Can stop runs"),),
        ),
        _create(
            *("ConversationEntry", "key", "syncagent_conversation"),
            verbose_name="conversation",
            default_permissions=("view", "delete"),
        ),
        _create("AnswerEntry", "id", "syncagent_audit", verbose_name="closed question"),
        migrations.CreateModel(
            "QuestionEntry",
            fields=[],
            options={
                "proxy": True,
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
                "verbose_name": "open question",
                "permissions": (("answer_question", "Can answer open questions"),),
            },
            bases=("syncagent.runentry",),
        ),
    ]
