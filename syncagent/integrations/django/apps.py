"""The configuration of the Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed

from ..._context import after_each_call
from ..web.processes import store_openers
from .checks import check_settings
from .conf import forget_views, open_store
from .databases import close_connections

__all__ = ["SyncAgentConfig"]


class SyncAgentConfig(AppConfig):
    """Runs of agents. The app has no models and starts no thread when it is loaded."""

    name = "syncagent.integrations.django"
    label = "syncagent"
    verbose_name = "Agents"

    def ready(self) -> None:
        """Register the checks, the clean-up of threads, and the store for workers."""
        checks.register(check_settings, "syncagent")
        after_each_call(close_connections)
        store_openers.append(open_store)
        setting_changed.connect(forget_views, dispatch_uid="syncagent")
