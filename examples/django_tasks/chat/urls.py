"""The pages of the site: the chat, and the admin."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(url="agent/")),
    path("agent/", include("syncagent.integrations.django.urls")),
    path("admin/", admin.site.urls),
]
