"""What Django is told about this app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed

from ..._context import after_each_call
from .checks import check_settings
from .conf import forget_views
from .databases import close_connections

__all__ = ["SyncAgentConfig"]


class SyncAgentConfig(AppConfig):
    """Runs of agents. It has no models, and begins no thread when it is loaded."""

    name = "syncagent.integrations.django"
    label = "syncagent"
    verbose_name = "Agents"

    def ready(self) -> None:
        """Register checks, and what tidies up threads of ours."""
        checks.register(check_settings, "syncagent")
        after_each_call(close_connections)
        setting_changed.connect(forget_views, dispatch_uid="syncagent")
