"""The URLs of the endpoints.

In the ``urls.py`` of a site::

    path("agent/", include("syncagent.integrations.django.urls")),
"""

from __future__ import annotations

from typing import Final

from django.urls import path, register_converter

from ..web.page import ASSETS
from . import views

__all__ = ["app_name", "urlpatterns"]

app_name: Final = "syncagent"


class _AnyText:
    """The id of a conversation, with slashes and line breaks."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(_AnyText, "syncagent_any_text")

urlpatterns: Final = [
    path("", views.page, name="page"),
    *(path(name, views.asset, {"name": name}, name=name) for name in ASSETS),
    path("runs", views.runs, name="runs"),
    path("runs/<str:id>", views.run, name="run"),
    path("runs/<str:id>/events", views.events, name="events"),
    path("runs/<str:id>/timeline", views.timeline, name="timeline"),
    path("runs/<str:id>/cancel", views.cancel, name="cancel"),
    path(
        "runs/<str:id>/calls/<syncagent_any_text:call_id>/cancel",
        views.cancel_call,
        name="cancel-call",
    ),
    path("runs/<str:id>/answers", views.answers, name="answers"),
    path("conversations", views.conversations, name="conversations"),
    # One path for all: an id may end with "/fork".
    path(
        "conversations/<syncagent_any_text:id>", views.conversation, name="conversation"
    ),
    path("inbox", views.inbox, name="inbox"),
    path("audit", views.audit, name="audit"),
    path("operator/runs", views.operator_runs, name="operator-runs"),
    path(
        "operator/runs/<str:id>/cancel", views.operator_cancel, name="operator-cancel"
    ),
]
