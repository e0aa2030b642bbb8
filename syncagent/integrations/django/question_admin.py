"""The inbox in the admin: open questions of all runs, with buttons that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from ...exceptions import ConfigurationError, NoSuchRun
from ...stores import InboxEntry
from .answering import answer_of_form, ask_for, may_answer, names_of
from .conf import get_store
from .fields import to_datetime
from .models import QuestionEntry, RunEntry
from .rendering import show_question
from .store_admin import StoreAdmin, find_problem, has_store, name_of

__all__ = ["QuestionAdmin"]

#: How many open questions the page shows.
_MOST_QUESTIONS: Final = 200


class QuestionAdmin(StoreAdmin):
    """The inbox: open questions of all runs, with buttons that answer them."""

    change_list_template = "syncagent/admin/questions.html"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may see or answer questions."""
        can_answer = has_store() and self.has_answer_permission(request)
        return can_answer or super().has_view_permission(request, obj)

    def has_answer_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may answer questions."""
        return bool(request.user.has_perm("syncagent.answer_question"))

    def get_urls(self) -> list[Any]:
        """Return the addresses of the list and of the buttons."""
        wrap = self.admin_site.admin_view
        name = "syncagent_questionentry"
        return [
            path("", wrap(self.changelist_view), name=f"{name}_changelist"),
            path(
                "answer/", wrap(require_POST(self.answer_view)), name=f"{name}_answer"
            ),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Return the open questions, those that wait longest first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        problem = find_problem()
        if problem is not None:
            return self.explain(request, problem)
        names = names_of(request.user)
        is_mine = request.GET.get("mine") == "1"
        entries = get_store().inbox(*names if is_mine else (), limit=_MOST_QUESTIONS)
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": "Open questions",
            "opts": self.opts,
            "is_mine": is_mine,
            "is_cut": len(entries) == _MOST_QUESTIONS,
            "entries": [
                {
                    "run": entry.run,
                    "question": entry.question,
                    "shown": show_question(entry.question),
                    "approver": entry.approver,
                    "asked_at": to_datetime(entry.run.asked_at),
                    "expires_at": to_datetime(entry.run.expires_at),
                    "form": ask_for(entry.question),
                    "can_answer": self._can_answer(request, names, entry),
                }
                for entry in entries
            ],
        }
        return TemplateResponse(request, self.change_list_template, context)

    def _can_answer(
        self, request: HttpRequest, names: tuple[str, ...], entry: InboxEntry
    ) -> bool:
        is_free = request.user.is_superuser or may_answer(
            names, entry.run, entry.question
        )
        return self.has_answer_permission(request) and is_free

    def answer_view(self, request: HttpRequest) -> HttpResponse:
        """Answer a question."""
        if not self.has_answer_permission(request):
            raise PermissionDenied
        problem = find_problem()
        if problem is not None:
            return self.explain(request, problem)
        level, text = messages.ERROR, "The question is closed already."
        entry = self._find_question(request.POST)
        if entry is not None:
            if not self._can_answer(request, names_of(request.user), entry):
                raise PermissionDenied
            level, text = self._answer(request, entry)
        self.message_user(request, text, level)
        name = f"{self.admin_site.name}:syncagent_questionentry_changelist"
        mine = "?mine=1" if request.POST.get("mine") else ""
        return HttpResponseRedirect(reverse(name) + mine)

    @staticmethod
    def _find_question(form: Mapping[str, str]) -> InboxEntry | None:
        """Return the question that a form is about, if its run still has it."""
        run_id, id = form.get("run", ""), form.get("question")
        if "\0" in run_id:  # PostgreSQL cannot be asked for it
            return None
        row = RunEntry.objects.filter(pk=run_id).only("public_id").first()
        run = get_store().get(row.public_id, has_messages=False) if row else None
        if run is None:
            return None
        found = (each for each in run.interrupts if each.id == id)
        return next((InboxEntry(run, each) for each in found), None)

    def _answer(self, request: HttpRequest, entry: InboxEntry) -> tuple[int, str]:
        """Give the answer in a form to the store; return a message about it."""
        question = entry.question
        try:
            given = {question.id: answer_of_form(question, request.POST)}
            answered = get_store().answer(entry.run.id, given, by=name_of(request))
        except (ConfigurationError, NoSuchRun) as error:
            return messages.ERROR, str(error)
        if answered[question.id] != "taken":
            return messages.ERROR, "The question is closed already."
        run = QuestionEntry(run_id=entry.run.run_id)
        self.log_change(request, run, f"Answered question {question.id}.")
        return messages.SUCCESS, "The answer was taken."
