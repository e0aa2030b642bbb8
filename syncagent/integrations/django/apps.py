"""The configuration of the Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.core.signals import request_finished, setting_changed
from django.db.models.signals import post_migrate

from ..._context import after_each_call
from ..web.processes import store_openers
from .checks import check_settings
from .conf import forget_views, open_store
from .databases import close_connections, close_reader
from .tables import migrate_store
from .tasks import connect_tasks

__all__ = ["SyncAgentConfig"]


class SyncAgentConfig(AppConfig):
    """Runs of agents. The app starts no thread when it is loaded."""

    name = "syncagent.integrations.django"
    label = "syncagent"
    verbose_name = "Agents"

    def ready(self) -> None:
        """Register checks, the clean-up of threads, and the store for workers."""
        checks.register(check_settings, "syncagent")
        after_each_call(close_connections)
        store_openers.append(open_store)
        connect_tasks()
        setting_changed.connect(forget_views, dispatch_uid="syncagent")
        post_migrate.connect(migrate_store, sender=self, dispatch_uid="syncagent")
        request_finished.connect(close_reader, dispatch_uid="syncagent")
