"""The part of the admin that all tables of the store share."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import Error as DatabaseError
from django.db import connections
from django.http import HttpRequest, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from ...exceptions import ConfigurationError, StoreUnavailable
from .conf import read_settings
from .models import StoreEntry, open_database

__all__ = ["StoreAdmin", "find_problem", "has_store", "name_of"]


class StoreAdmin(admin.ModelAdmin):
    """The admin of a table of the store, which only shows it."""

    list_per_page = 50
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    #: The store may be unavailable, or have no tables yet.
    unavailable_template = "syncagent/admin/unavailable.html"

    # -- permissions ---------------------------------------------------------------

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return false for a site without a store: the index does not show it."""
        return has_store() and bool(super().has_module_permission(request))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return false for a site without a store."""
        return has_store() and bool(super().has_view_permission(request, obj))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return false: only the store adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return false: only the store changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return false: only the store deletes."""
        return False

    # -- views ---------------------------------------------------------------------

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Return the list, or a page that says why it cannot be shown."""
        problem = find_problem()
        if problem is not None:
            return self.explain(request, problem)
        return super().changelist_view(request, extra_context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> Any:
        """Return the page of an entry, or one that says why it cannot be shown."""
        problem = find_problem()
        if problem is not None:
            return self.explain(request, problem)
        if request.method == "POST":
            raise PermissionDenied
        context = {"show_close": True, **(extra_context or {})}
        entry = self.get_object(request, unquote(object_id or ""))
        if entry is not None and self.has_view_permission(request, entry):
            context |= self.details(request, entry)
        return super().changeform_view(request, object_id, form_url, context)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return an entry. PostgreSQL cannot be asked for one with a null character."""
        if "\0" in object_id:
            return None
        return super().get_object(request, object_id, from_field)

    def details(self, request: HttpRequest, entry: Any) -> dict[str, Any]:
        """Return more for the page of an entry, from the store."""
        return {}

    def explain(self, request: HttpRequest, problem: str) -> TemplateResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": self.opts.verbose_name_plural.capitalize(),
            "opts": self.opts,
            "problem": problem,
        }
        return TemplateResponse(request, self.unavailable_template, context, status=503)

    def to_entry(self, entry: StoreEntry) -> HttpResponseRedirect:
        name = f"{self.admin_site.name}:syncagent_{self.opts.model_name}_change"
        return HttpResponseRedirect(reverse(name, args=(quote(entry.pk),)))


def has_store() -> bool:
    try:
        return read_settings().store is not None
    except ConfigurationError:  # manage.py check says so
        return False


def find_problem() -> str | None:
    """Return the reason why the store cannot be read now."""
    try:
        connections[open_database()].ensure_connection()
    except (ConfigurationError, StoreUnavailable, DatabaseError) as error:
        return str(error)
    return None


def name_of(request: HttpRequest) -> str:
    return str(request.user.get_username())
