"""The command ``syncagent answer``: answer the questions of a run of a store."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from ..interrupts import (
    AfterToolResult,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
)
from ..schemas.forms import Form
from .approvals import DENIED, approval_question
from .exit_codes import EXIT_NO_SUCH_RUN, EXIT_TOO_LATE
from .forms import DECLINE, fill_in, form_text
from .plain_text import on_one_line
from .store_access import add_run, find_id, opened_store, operator_name
from .streams import read_line

if TYPE_CHECKING:
    from ..stores import StoredRun

__all__ = ["SUMMARY", "add_arguments", "question_text", "run"]

SUMMARY: Final = "answer the questions of a run of a store, and let it continue"

_EPILOG: Final = """\
Without an answer it lists the open questions. If there is one question, its id can be
omitted: syncagent answer ID yes

A form is answered with JSON, such as '{"name": "Ann"}'; one field also with its value;
/decline says no. --fill asks for the fields one after the other.

exit codes: 0 taken; 2 wrong usage; 3 too late: answered before, or the run has
continued or ended; 5 the store is unavailable, and doing it again is safe; 6 no such
run or question.
"""
_STATUSES: Final = {
    "taken": "taken",
    "over": "too late: it was answered before, or the run has continued or ended",
    "refused": "the run has no such question",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_run(parser)
    parser.add_argument(
        "answers",
        metavar="QUESTION ANSWER",
        nargs="*",
        help="the id of a question, and yes or no for an approval, else a text; "
        "several pairs are answered at once",
    )
    parser.add_argument(
        "--fill",
        action="store_true",
        help="fill in a form on the terminal; the id of its question may be given",
    )
    parser.add_argument(
        "--reason", metavar="TEXT", help="why not, for the model, with no"
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Answer questions, or list them.

    Cancellation: ends at once.

    :return: 0 if all answers are taken; else see the exit codes.
    :raises NoSuchRun: there is no such run.
    :raises StoreUnavailable: the store is unavailable.
    """
    with opened_store(options, token) as store:
        id = find_id(store, options.id)
        found = store.get(id)
        if found is not None and options.fill:
            options.answers = _fill_in(options, found, token)
        if found is None or not options.answers:
            return _list_questions(found)
        if len(options.answers) == 1 and not found.interrupts:
            _list_questions(found)
            return EXIT_TOO_LATE
        answers = _parse_answers(options, found)
        statuses = store.answer(id, answers, by=operator_name())
    for question, status in statuses.items():
        print(f"{on_one_line(question)}  {_STATUSES[status]}")
    if "refused" in statuses.values():
        return EXIT_NO_SUCH_RUN
    return EXIT_TOO_LATE if "over" in statuses.values() else 0


def _list_questions(run: StoredRun | None) -> int:
    questions = () if run is None else run.interrupts
    for question in questions:
        print(f"{on_one_line(question.id)}  {question_text(question)}")
    if not questions:
        state = "was deleted" if run is None else f"is {run.state}"
        print(f"There are no open questions; the run {state}.")
    return 0


def question_text(question: Interrupt) -> str:
    """Return a question on one line, with everything that a person must know."""
    if isinstance(question, ApprovalRequest):
        return on_one_line(approval_question(question))
    if isinstance(question, AuthRequest):
        return on_one_line(
            f"{question.tool} needs credentials for {question.provider}, which only "
            "authenticate= can give; answer no to refuse"
        )
    if isinstance(question, AfterToolResult):
        return "Input for the model?"
    text = f"{question.tool} asks: {question.question}"
    if question.form is not None:
        text = f"{text} (form: {form_text(question.form)})"
    return on_one_line(text)


def _fill_in(
    options: argparse.Namespace, run: StoredRun, token: CancelToken
) -> list[str]:
    """Ask for the fields of a form; return the question and its answer as words.

    Cancellation: ends at once.
    """
    forms = [
        question
        for question in run.interrupts
        if isinstance(question, AwaitingInput) and question.form is not None
        if not options.answers or _find(run, options.answers[0]) is question
    ]
    if len(forms) != 1 or len(options.answers) > 1:
        options.parser.error(
            f"--fill takes one question with a form; {len(forms)} are open: name one, "
            "as listed by: syncagent answer ID"
        )
    (question,) = forms
    assert question.form is not None

    def tell(line: str, end: str = "\n") -> None:
        print(line, end=end, file=sys.stderr, flush=True)

    def ask(prompt: str) -> str | None:
        tell(prompt, end="")
        return read_line(sys.stdin.fileno(), token)

    answer = fill_in(question.question, question.form, ask, tell)
    if answer is None:
        options.parser.error("--fill needs a line for each field")
    word = DECLINE if answer is False else msgspec.json.encode(answer).decode()
    return [question.id, word]


def _parse_answers(options: argparse.Namespace, run: StoredRun) -> dict[str, Any]:
    """Return the answers by the ids of their questions; exit if they do not fit."""
    words: list[str] = list(options.answers)
    if len(words) == 1:
        if len(run.interrupts) != 1:
            options.parser.error(
                f"the run has {len(run.interrupts)} open questions; name the question "
                "before its answer, as listed by: syncagent answer ID"
            )
        words.insert(0, run.interrupts[0].id)
    if len(words) % 2:
        options.parser.error("every question needs one answer; quote long answers")
    pairs = list(zip(words[::2], words[1::2], strict=True))
    questions = {given: _find(run, given) for given, _ in pairs}
    asked = [q.id if q is not None else given for given, q in questions.items()]
    if len(set(asked)) < len(pairs):
        options.parser.error("a question is answered twice")
    answers = [_parse_answer(options, questions[given], word) for given, word in pairs]
    if options.reason is not None and not any(
        isinstance(answer, Approval) and not answer.allow for answer in answers
    ):
        options.parser.error("--reason goes with no")
    return dict(zip(asked, answers, strict=True))


def _find(run: StoredRun, given: str) -> Interrupt | None:
    """Return the open question with this id, or the one whose id begins with it."""
    for question in run.interrupts:
        names = (question.id, getattr(question, "call_id", None))
        if given in names or given == on_one_line(question.id):  # as it is listed
            return question
    near = [each for each in run.interrupts if each.id.startswith(given)]
    return near[0] if given and len(near) == 1 else None


def _parse_answer(
    options: argparse.Namespace, question: Interrupt | None, word: str
) -> Approval | str | dict[str, Any] | bool:
    if isinstance(question, AwaitingInput) and question.form is not None:
        try:
            return word != DECLINE and Form.of(question.form).check(word)
        except ConfigurationError as error:
            options.parser.error(str(error))
    is_yes_or_no = question is None or isinstance(
        question, (ApprovalRequest, AuthRequest)
    )
    if is_yes_or_no and word.lower() in ("no", "n"):
        return Approval(False, reason=options.reason or DENIED)
    if isinstance(question, AuthRequest):
        options.parser.error(
            "credentials are never stored; give the agent authenticate=, or answer no"
        )
    if is_yes_or_no and word.lower() in ("yes", "y"):
        return Approval(True)
    if isinstance(question, ApprovalRequest):
        options.parser.error(f"an approval is answered with yes or no; got {word!r}")
    return word
