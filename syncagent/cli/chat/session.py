"""A chat session: it decides what to do with the user's input."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Literal

from ...agent import Agent
from ...cancel import CancelToken
from ...events import InterruptRaised, RunFinished
from ...exceptions import SyncAgentError
from ...models.model import Model
from ...tools.abandoned import abandoned
from ...usage import Usage
from ..choices import choose_model
from ..exit_codes import exit_code_of
from ..formatting import end_text, error_text, seconds_text, usage_text
from ..plain_text import on_one_line
from ..wording import error_line
from .conversations import AgentChatRun, AgentConversation, ChatConversation, ChatRun
from .progress import Progress
from .questions import QuestionQueue
from .screen import CommandKey, LineKind, Screen
from .slash_commands import run_command

__all__ = ["GREETING", "MakeAgent", "Session", "WhileBusy"]

#: How to treat input while a run is live: send it afterwards, pass it to the run, or
#: stop the run and send it at once.
WhileBusy = Literal["queue", "steer", "interrupt"]
#: Makes an agent for another model, or from a saved state; None keeps the old one.
MakeAgent = Callable[[Agent, Model | None, str | None], Agent]
#: Returns the model of a name, and what to tell the user about it.
FindModel = Callable[[str], tuple[Model, str]]

GREETING: Final = "{name}. /help for help; Ctrl+C stops a response, Ctrl+D leaves."

#: Seconds for live runs to end when the user leaves: before a line says so, after it,
#: and after a forced cancel.
_LEAVING: Final = (0.5, 2.0, 1.0)
#: Lines of the queue that are shown.
_MAX_QUEUED: Final = 3
_PROMPT: Final = "> "


class Session:
    """One chat; it is the :class:`~.screen.Controller` of its screen.

    All methods are called on the screen's thread.

    :param make_agent: for ``/model NAME`` and ``/load``; without it they are refused.
    :param find_model: returns the model of that name, and its introduction.
    :param greeting: shown first.
    """

    def __init__(
        self,
        conversation: ChatConversation,
        screen: Screen,
        *,
        while_busy: WhileBusy = "queue",
        make_agent: MakeAgent | None = None,
        find_model: FindModel = choose_model,
        greeting: str = "",
    ) -> None:
        self.conversation = conversation
        self.screen: Final = screen
        self.while_busy: Final = while_busy
        self.make_agent: Final = make_agent
        self.find_model: Final = find_model
        self._greeting = greeting
        #: The live run in the foreground.
        self.foreground: ChatRun | None = None
        #: All runs that were moved to the background, live or not, by number.
        self.background_runs: list[ChatRun] = []
        self.progress = Progress()
        #: Usage of all runs that have ended, and its cost as far as it is known.
        self.used: tuple[Usage, float | None] = (Usage(), None)
        #: Input to send, in this order.
        self._queue: deque[str] = deque()
        #: Results of background runs, sent to the model with the next prompt.
        self._notices: list[str] = []
        self.questions: Final = QuestionQueue(screen)
        #: True after a Ctrl+C on an empty line: the next one leaves.
        self._is_warned = False
        self.exit_code: int | None = None

    # -- the state, for the screen -------------------------------------------------

    @property
    def is_over(self) -> bool:
        """True once the chat should end."""
        return self.exit_code is not None

    @property
    def is_busy(self) -> bool:
        """True while a run is live in the foreground."""
        return self.foreground is not None

    @property
    def is_stopping(self) -> bool:
        """True while the run in the foreground was stopped and has not ended."""
        return self.foreground is not None and self.foreground.is_stopping

    @property
    def has_live_runs(self) -> bool:
        """True while a run is live, in the foreground or in the background."""
        return self.foreground is not None or self._live_background_runs > 0

    @property
    def _live_background_runs(self) -> int:
        return sum(not run.is_over for run in self.background_runs)

    @property
    def prompt(self) -> str:
        """The text before the input."""
        return self.questions.prompt or _PROMPT

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers to choose from with the arrow keys, if there are any."""
        question = self.questions.current
        return () if question is None else question.choices

    @property
    def is_asking(self) -> bool:
        """True while the input is an answer to a question."""
        return self.questions.current is not None

    @property
    def is_secret(self) -> bool:
        """True while the input must not be shown."""
        question = self.questions.current
        return question is not None and question.is_secret

    def status(self) -> list[str]:
        """Return lines about running tools and queued input."""
        first = list(self._queue)[:_MAX_QUEUED]
        fold = self.screen.fold
        queued = [f"  queued: {on_one_line(fold(text), 60)}" for text in first]
        if len(self._queue) > _MAX_QUEUED:
            queued.append(f"  and {len(self._queue) - _MAX_QUEUED} more")
        return [*self.progress.tools(), *queued] if self.is_busy else queued

    def summary(self) -> str:
        """Return one line about the state of the chat."""
        if self.foreground is not None:
            is_waiting = self.questions.is_waiting
            note = "a question waits: send or clear your line" if is_waiting else ""
            return self.progress.summary(self.foreground, self.conversation.cost, note)
        usage, cost = self.used
        live = self._live_background_runs
        parts = [usage_text(usage, cost)] if usage.total_tokens else []
        parts += [f"{live} in the background (/runs)"] if live else []
        left = len(abandoned())
        parts += [f"{left} tool{'s' * (left != 1)} left running"] if left else []
        return ", ".join([*parts, "/help for help, Ctrl+D leaves"])

    # -- input ---------------------------------------------------------------------

    def begin(self) -> None:
        """Greet the user; continue a conversation that was loaded."""
        if self._greeting:
            self.screen.line(self._greeting)
        if self.conversation.agent is not None:
            self.resume(self.conversation.agent)

    def resume(self, agent: Agent) -> None:
        """Continue the conversation of *agent*, which may wait for an answer."""
        if self.conversation.agent is not agent:
            self.conversation = AgentConversation(agent)
        self._notices.clear()
        count = len(agent.messages)
        if count:
            self.screen.line(f"(continuing a conversation of {count} messages)")
        if agent.is_paused:
            self.screen.line("(it was saved while it waited for your answer)")
            self._start("", ())

    def submit(self, text: str) -> None:
        """Handle a line that the user sent."""
        self._is_warned = False
        if self.is_asking:
            self.questions.answer(text)
        elif text.startswith("/") and not text.startswith("//"):
            self._echo(text)
            run_command(self, text.strip())
            self.screen.line("", "user")
        elif text.strip():
            message = text.removeprefix("/") if text[:2] == "//" else text
            run = self.foreground
            if run is None:
                self._start_next(message)
            elif run.is_stopping or self.while_busy == "queue":
                self._queue.append(message)
            elif self.while_busy == "interrupt":
                self._queue.append(message)
                run.stop()
            elif run.send(message):
                self._echo(message)
                self.screen.line("  (passed on at the next safe point)")
            else:
                self._queue.append(message)
        self.questions.ask_next()

    def input_changed(self) -> None:
        """Ask a question that waited for an empty line."""
        if self.questions.is_waiting:
            self.questions.ask_next()

    def _echo(self, text: str) -> None:
        shown = self.screen.fold(text)
        self.screen.line(_PROMPT + shown.replace("\n", "\n  "), "user")

    def press(self, key: CommandKey) -> None:
        """Handle a key."""
        was_warned, self._is_warned = self._is_warned, False
        if key == "ctrl-d":
            self.leave(0)
        elif key == "ctrl-b":
            self.move_to_background()
        elif self.is_asking:
            refused = self.questions.refuse()
            if refused is not None:
                self._stop(refused, force=False)
        elif self.foreground is not None:
            is_again = key == "ctrl-c" and self.foreground.is_stopping
            self._stop(self.foreground, force=is_again)
        elif key == "ctrl-c" and self.screen.text:
            self.screen.set_text("")
            self.questions.ask_next()
        elif key == "ctrl-c" and was_warned:
            self.leave(0)
        elif key == "ctrl-c":
            self._is_warned = True
            live = self._live_background_runs
            also = f"; {live} in the background will be stopped" if live else ""
            self.screen.line(f"(Ctrl+C again to leave{also})")

    def _stop(self, run: ChatRun, *, force: bool) -> None:
        if force:
            self.screen.line(
                "(forced to stop where that is possible; /background leaves it behind)"
            )
        if run is self.foreground and self._queue:
            self._put_back(self._queue)
            self._queue.clear()
        run.stop(force=force)

    def leave(self, code: int) -> None:
        """End the chat with exit code *code*; also from a signal handler."""
        if self.exit_code is None:
            self.exit_code = code

    # -- runs in the foreground ----------------------------------------------------

    def _start_next(self, text: str) -> None:
        self._echo(text)  # here, and not in the middle of the response before it
        texts, self._notices = (*self._notices, text), []
        if not self._start(text, texts):
            self._notices = list(texts[:-1])
            self._put_back((text, *self._queue))
            self._queue.clear()

    def _start(self, prompt: str, texts: tuple[str, ...]) -> bool:
        try:
            run = self.conversation.start(texts, prompt)
        except Exception as error:  # of an agent's hooks, too
            self.screen.line(f"error: {error_text(error)}", "error")
            return False
        self.foreground = run
        self.progress = Progress()
        run.watch(self.screen.post, self._on_event, self._on_end)
        return True

    def _on_event(self, run: ChatRun, event: Any) -> None:
        if isinstance(event, InterruptRaised) and isinstance(run, AgentChatRun):
            self.questions.add(run, event)
        elif isinstance(event, RunFinished):
            usage, cost = self.used
            if event.result.cost is not None:
                cost = (cost or 0.0) + event.result.cost
            self.used = usage + event.result.usage, cost
        if run is self.foreground:
            self.progress.take(event, self.screen)

    def _on_end(self, run: ChatRun) -> None:
        self.questions.drop_closed()
        if run is self.foreground:
            self.foreground = None
            self.screen.end_response()
            if run.error is not None:
                text = error_line(error_text(run.error))
                self.screen.line(f"error: {text}", "error")
            elif run.result is not None:
                how = end_text(run.result)
                took = seconds_text(run.seconds or 0.0)
                used = usage_text(run.result.usage, run.result.cost)
                summary = f"{how}; {took}, {used}" if how else f"{took}, {used}"
                kind: LineKind = "stop" if run.result.cancelled else "note"
                self.screen.line(f"({summary})", kind)
            elif run.is_stopping:
                self.screen.line("(stopped)", "stop")
            self.screen.line("", "user")
            if run.is_stopping:
                self._put_back(run.unread_inputs)
            else:
                self._queue.extendleft(reversed(run.unread_inputs))
            if self._queue:
                self._start_next(self._queue.popleft())
        elif run in self.background_runs:
            self._report_background(run)
            if run.unread_inputs:
                self._put_back(run.unread_inputs)
        self.questions.ask_next()

    def _put_back(self, texts: Iterable[str]) -> None:
        """Put input that was not sent back to the prompt: the user decides again."""
        typed = [self.screen.text] if self.screen.text else []
        self.screen.set_text("\n".join([*texts, *typed]))

    # -- runs in the background ----------------------------------------------------

    def move_to_background(self) -> None:
        """Continue the run in the background, and the conversation without it."""
        run = self.foreground
        if run is None:
            self.screen.line("(no run to move to the background)")
            return
        self.screen.end_response()
        run.move_to_background()
        try:
            fork = self.conversation.fork()
        except SyncAgentError:  # the run has just ended
            return
        self.foreground, self.conversation, run.fork = None, fork, fork
        self.background_runs.append(run)
        run.number = len(self.background_runs)
        self.questions.put_off(run)
        self.screen.line(f"(in the background, as run {run.number}: /runs)\n")
        if self._queue:
            self._start_next(self._queue.popleft())

    def _report_background(self, run: ChatRun) -> None:
        name = f"run {run.number} in the background"
        took = seconds_text(run.seconds or 0.0)
        result = run.result
        if run.error is not None:
            error = on_one_line(error_text(run.error), 200)
            self.screen.aside(f"({name} failed after {took}: {error})\n", "error")
        elif result is None or result.cancelled:
            self.screen.aside(f"({name} was stopped after {took})\n")
        else:
            text = on_one_line(result.text, 60)
            # Its result joins the conversation.
            is_unused = self.conversation is run.fork and run.fork.runs_started == 0
            if is_unused and self.foreground is None:
                self.conversation = run.conversation
                joined = "the conversation continues from there"
            else:
                self._notices.append(
                    f"[A task in the background has ended. Its prompt was: "
                    f"{run.prompt}\nIts result: {result.text}]"
                )
                joined = "the model learns it with your next message"
            self.screen.aside(
                f"({name} is done after {took}: {text}\n"
                f"/runs {run.number} shows all of it; {joined})\n"
            )

    # -- from begin to end ---------------------------------------------------------

    def run(self, token: CancelToken | None = None) -> int:
        """Run the chat; return the exit code.

        Cancellation: *token* and signals end it at once.
        """

        def obey(token: CancelToken) -> None:
            self.leave(exit_code_of(str(token.reason or ""), token.origin or "user"))

        registration = None
        if token is not None:
            registration = token.on_cancel(
                lambda: self.screen.post(lambda: obey(token))
            )
        try:
            self.screen.run(self)
        finally:
            if registration is not None:
                registration.close()
            self.close()
        return self.exit_code or 0

    def close(self) -> None:
        """Stop all live runs; name those that do not end.

        Cancellation: a few seconds at most.
        """
        runs = (self.foreground, *self.background_runs)
        live = [run for run in runs if run and not run.is_over]
        for number, seconds in enumerate(_LEAVING):
            for run in live:
                run.stop(force=number == len(_LEAVING) - 1)
            for run in live:
                run.join(seconds / len(live))
            live = [run for run in live if not run.join(0)]
            if live and number == 0:
                _print("Stopping; Ctrl+C does not wait for it.")
        for run in live:
            _print(f"still running, cannot be stopped: {on_one_line(run.prompt, 60)}")


def _print(line: str) -> None:
    with suppress(OSError):  # the terminal is gone
        print(line, file=sys.stderr)
