"""The store in Django's admin: runs, conversations, open and closed questions.

The models only read. Everything that the admin does goes through the store, with the
name of the user, which the store records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import F, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from ...conversation.restored import whole_messages
from ...exceptions import NoSuchRun
from ...stores import StoredRun
from ...stores.backend import Backend
from .conf import get_store
from .models import AnswerEntry, ConversationEntry, QuestionEntry, RunEntry
from .question_admin import QuestionAdmin
from .rendering import show_json, show_messages, show_question
from .store_admin import StoreAdmin, find_problem, has_store, name_of

__all__ = [
    "AnswerAdmin",
    "ConversationAdmin",
    "KindFilter",
    "RunAdmin",
    "StateFilter",
]

admin.site.register(QuestionEntry, QuestionAdmin)

_LIVE: Final = ("queued", "running", "waiting")
_ENDED: Final = ("done", "cancelled", "failed", "limit")
_KINDS: Final = ("approved", "denied", "answered", "expired", "withdrawn")
_REASON: Final = "stopped in the admin"
#: How many events of a run are counted by kind.
_MOST_EVENTS: Final = 5000


class _EventKind(msgspec.Struct, frozen=True):
    type: str


_EVENT_KIND: Final = msgspec.json.Decoder(_EventKind)


# -- runs --------------------------------------------------------------------------


class StateFilter(admin.SimpleListFilter):
    """Choose runs by their state; by default those that are live."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        names = ("live", *_LIVE, "ended", *_ENDED, "all")
        return [(name, name) for name in names]

    def value(self) -> str:
        """Return the choice. A search finds runs in any state."""
        return super().value() or self.default

    def __init__(
        self, request: HttpRequest, params: Any, model: Any, model_admin: Any
    ) -> None:
        self.default = "all" if request.GET.get("q") else "live"
        super().__init__(request, params, model, model_admin)

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """Yield the choices, without one for no choice."""
        yield from list(super().choices(changelist))[1:]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        """Return the runs; each choice has an index."""
        state = self.value()
        if state in ("live", *_LIVE):
            queryset = queryset.filter(ended_at__isnull=True)
        elif state in ("ended", *_ENDED):
            queryset = queryset.filter(ended_at__isnull=False)
        return queryset.filter(state=state) if state in _LIVE + _ENDED else queryset


@admin.register(RunEntry)
class RunAdmin(StoreAdmin):
    """Runs, with an action that stops them."""

    list_display = (
        *("shown_prompt", "state", "owner", "agent", "conversation", "worker"),
        *("created_at", "ended_at", "shown_error"),
    )
    list_filter = (StateFilter,)
    list_select_related = ("worker",)
    search_fields = ("run_id__exact", "owner__exact")
    search_help_text = "A whole run id, or a whole owner."
    sortable_by = ("owner", "created_at", "ended_at")
    actions = ("stop_selected",)
    change_form_template = "syncagent/admin/run.html"
    fields = (
        *("run_id", "public_id", "state", "owner", "agent", "conversation", "worker"),
        *("attempt", "crashes", "created_at", "ended_at"),
    )

    @admin.display(description="prompt")
    def shown_prompt(self, run: RunEntry) -> str:
        """Return the beginning of the prompt, for the list."""
        return f"{run.prompt_beginning:.80}" or "(no text)"

    @admin.display(description="error")
    def shown_error(self, run: RunEntry) -> str:
        """Return the beginning of the error, for the list."""
        return f"{run.error_text:.80}"

    def get_ordering(self, request: HttpRequest) -> tuple[Any, ...]:
        """Return an order that has an index: newest first, or live and then ended."""
        state = request.GET.get("state") or "live"
        if "q" in request.GET or state in ("live", *_LIVE):
            return ("-created_at",)
        return (F("ended_at").desc(nulls_first=True),)

    # -- stopping ------------------------------------------------------------------

    def has_stop_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may stop runs."""
        return bool(request.user.has_perm("syncagent.stop_run"))

    @admin.action(description="Stop the selected runs", permissions=["stop"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Stop runs, and say how many were live."""
        runs = list(queryset)
        selected = len(runs)
        if request.POST.get("select_across") != "1":
            # The filter leaves out those that have ended since the page was made.
            selected = len(request.POST.getlist(ACTION_CHECKBOX_NAME))
        live = [run for run in runs if run.ended_at is None]
        stopped = sum(self._stop(request, run) for run in live)
        text = f"{stopped} live {'run was' if stopped == 1 else 'runs were'} stopped; "
        self.message_user(request, f"{text}{selected - stopped} had ended already.")

    def _stop(self, request: HttpRequest, run: RunEntry) -> bool:
        """Stop a run; return whether it was live."""
        try:
            receipt = get_store().cancel(
                run.public_id, _REASON, "remote", by=name_of(request)
            )
        except NoSuchRun:
            return False
        if receipt:
            self.log_change(request, run, "Stopped.")
        return bool(receipt)

    def get_urls(self) -> list[Any]:
        """Add the address of the Stop button."""
        view = self.admin_site.admin_view(require_POST(self.stop_view))
        own = path("<path:object_id>/stop/", view, name="syncagent_runentry_stop")
        return [own, *super().get_urls()]

    def stop_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Stop one run."""
        if not self.has_stop_permission(request):
            raise PermissionDenied
        problem = find_problem()
        if problem is not None:
            return self.explain(request, problem)
        run = self.get_object(request, unquote(object_id))
        if run is None or not self.has_view_permission(request, run):
            raise PermissionDenied
        was_live = self._stop(request, run)
        text = "The run was stopped." if was_live else "The run had ended already."
        self.message_user(request, text)
        return self.to_entry(run)

    # -- the page of a run ---------------------------------------------------------

    def details(self, request: HttpRequest, entry: RunEntry) -> dict[str, Any]:
        """Return the result, the messages and the events of a run."""
        store = get_store()
        run = store.get(entry.public_id, has_messages=False)
        if run is None:
            return {}
        rows = store.call(lambda backend: backend.messages(run.id))
        return {
            "run": run,
            "can_stop": run.is_live and self.has_stop_permission(request),
            "error": str(run.error or ""),
            "questions": [show_question(each) for each in run.interrupts],
            "shown_messages": show_messages(whole_messages(rows)),
            "labels": show_json(run.labels) if run.labels else "",
            "kinds": store.call(lambda backend: _count_events(backend, run)),
            "most_events": _MOST_EVENTS if run.events > _MOST_EVENTS else None,
        }


def _count_events(backend: Backend, run: StoredRun) -> list[tuple[str, int]]:
    """Return how many events of each kind a run has."""
    kinds: Counter[str] = Counter()
    after = 0
    while after < min(run.events, _MOST_EVENTS):
        found = backend.events(run.run_id, after)
        if not found:  # too old: they were deleted
            break
        kinds.update(_EVENT_KIND.decode(line).type for _, line in found)
        after = found[-1][0]
    return kinds.most_common()


# -- conversations -----------------------------------------------------------------


@admin.register(ConversationEntry)
class ConversationAdmin(StoreAdmin):
    """Conversations with their messages; they can be deleted."""

    list_display = ("shown_title", "owner", "version", "changed_at", "live_run")
    ordering = ("-changed_at",)
    search_fields = ("owner__exact",)
    search_help_text = "A whole owner."
    sortable_by = ("owner", "changed_at")
    change_form_template = "syncagent/admin/conversation.html"
    fields = ("name", "title", "owner", "version", "created_at", "changed_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Return conversations, each with the id of its live run."""
        live = RunEntry.objects.filter(
            conversation_key=OuterRef("key"), ended_at__isnull=True
        )
        found = super().get_queryset(request)
        return found.annotate(live_run_id=Subquery(live.values("run_id")[:1]))

    @admin.display(description="title")
    def shown_title(self, conversation: ConversationEntry) -> str:
        """Return the title, for the list."""
        return f"{conversation!s:.80}"

    @admin.display(description="live run")
    def live_run(self, conversation: Any) -> str:
        """Return a link to the live run."""
        return self._link(conversation.live_run_id)

    def _link(self, run_id: str | None) -> str:
        if not run_id:
            return ""
        name = f"{self.admin_site.name}:syncagent_runentry_change"
        address = reverse(name, args=(quote(run_id),))
        return str(format_html('<a href="{}">{}</a>', address, run_id))

    def details(self, request: HttpRequest, entry: ConversationEntry) -> dict[str, Any]:
        """Return the messages of a conversation."""
        conversation = get_store().conversation(entry.name, owner=entry.owner)
        return {"shown_messages": show_messages(conversation.messages())}

    # -- deleting ------------------------------------------------------------------

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may delete conversations."""
        return has_store() and bool(
            request.user.has_perm("syncagent.delete_conversationentry")
        )

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the things that would be deleted, for the question before."""
        names = [f"{each}, with its messages and runs" for each in objs]
        return names, {"conversations": len(names)}, set(), []

    def delete_model(self, request: HttpRequest, obj: ConversationEntry) -> None:
        """Delete a conversation, as the store does it: a live run ends."""
        get_store().conversation(obj.name, owner=obj.owner).delete()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Delete conversations."""
        for each in queryset:
            self.delete_model(request, each)


# -- closed questions --------------------------------------------------------------


class KindFilter(admin.SimpleListFilter):
    """Choose closed questions by their outcome."""

    title = "outcome"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [(name, name) for name in _KINDS]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        """Return the questions with this outcome."""
        return queryset.filter(kind=self.value()) if self.value() else queryset


@admin.register(AnswerEntry)
class AnswerAdmin(StoreAdmin):
    """The record of answers: who answered what, and when."""

    list_display = (
        *("given_at", "kind", "tool", "approver", "given_by", "owner", "agent"),
        "run_id",
    )
    list_filter = (KindFilter,)
    ordering = ("-given_at",)
    search_fields = ("run_id__exact", "owner__exact")
    search_help_text = "A whole run id, or a whole owner."
    sortable_by = ("given_at", "owner")
    fields = (
        *("given_at", "kind", "given_by", "approver", "asked_at", "run_id", "owner"),
        *("agent", "conversation", "shown_question", "shown_answer"),
    )
    readonly_fields = ("shown_question", "shown_answer")

    @admin.display(description="tool")
    def tool(self, entry: AnswerEntry) -> str:
        """Return the tool that the question was about."""
        return str(getattr(entry.question, "tool", ""))

    @admin.display(description="question")
    def shown_question(self, entry: AnswerEntry) -> str:
        """Return the question, with arguments."""
        return str(format_html("<pre>{}</pre>", show_json(entry.question)))

    @admin.display(description="answer")
    def shown_answer(self, entry: AnswerEntry) -> str:
        """Return the answer."""
        return str(format_html("<pre>{}</pre>", show_json(entry.answer)))
