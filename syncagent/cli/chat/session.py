"""A conversation as somebody has it who sits at a terminal; it knows no terminal."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Literal

from ...agent import Agent
from ...cancel import CancelToken
from ...events import InterruptRaised, RunFinished
from ...exceptions import SyncAgentError
from ...models.model import Model
from ...result import RunResult
from ...usage import Usage
from ..exit_codes import exit_code_of
from ..plain_text import on_one_line
from .commands import run_command
from .progress import Progress
from .questions import Questions
from .screen import Command, Screen
from .talk import AgentTalk, AgentWork, Talk, Work
from .wording import about_error, ended_line, seconds_text, usage_text

__all__ = ["Remake", "Session", "WhileBusy"]

#: What comes of a line that is typed while it works: it is said afterwards; it is heard
#: at the next safe point; or it takes the place of what goes on.
WhileBusy = Literal["queue", "steer", "interrupt"]
#: Makes an agent for another model, or of a saved state; nothing for what stays.
Remake = Callable[[Agent, Model | None, str | None], Agent]

#: Seconds that what goes on has to end when somebody leaves: before that is said, after
#: that, and when nothing is waited for any more.
_LEAVING: Final = (0.5, 2.0, 1.0)
#: How many lines are shown that wait.
_QUEUED: Final = 3
_PROMPT: Final = "> "


class Session:
    """Who decides what comes of what is typed, and what is shown.

    All of it is called on the screen's thread.

    :param remake: if the model may be changed, and states be loaded.
    :param greeting: what to show first.
    """

    def __init__(
        self,
        talk: Talk,
        screen: Screen,
        *,
        while_busy: WhileBusy = "queue",
        remake: Remake | None = None,
        greeting: str = "",
    ) -> None:
        self.talk = talk
        self.screen: Final = screen
        self.while_busy: Final = while_busy
        self.remake: Final = remake
        self._greeting = greeting
        #: What goes on in the foreground.
        self.work: Work | None = None
        #: What was sent to the background, in that order, also if it has ended.
        self.runs: list[Work] = []
        self.progress = Progress()
        #: Tokens of all that has ended, and what they cost, as far as that is known.
        self.used: tuple[Usage, float | None] = (Usage(), None)
        #: What is to be said, one after the other.
        self._queue: deque[str] = deque()
        #: What the model is told with the next thing that is said.
        self._tidings: list[str] = []
        self.questions: Final = Questions(screen)
        self._is_warned = False
        self.exit_code: int | None = None

    # -- what the screen looks at --------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Is it time to leave?"""
        return self.exit_code is not None

    @property
    def is_busy(self) -> bool:
        """Is something going on, so that time is shown?"""
        return self.work is not None

    @property
    def label(self) -> str:
        """What stands before the line that is typed."""
        return self.questions.label or _PROMPT

    @property
    def is_secret(self) -> bool:
        """Is nobody to see what is typed?"""
        asking = self.questions.current
        return asking is not None and asking.is_secret

    @property
    def is_asking(self) -> bool:
        """Is what is typed an answer?"""
        return self.questions.current is not None

    def status(self) -> list[str]:
        """Return what goes on right now."""
        shown = list(self._queue)[:_QUEUED]
        queued = [f"  queued: {on_one_line(text, 60)}" for text in shown]
        if len(self._queue) > _QUEUED:
            queued.append(f"  and {len(self._queue) - _QUEUED} more")
        return [*self.progress.tools(), *queued] if self.work is not None else queued

    def summary(self) -> str:
        """Return in one line how it stands."""
        if self.work is not None:
            waits = self.questions.is_waiting
            note = "asks something: send or clear your line" if waits else ""
            return self.progress.summary(self.work, self.talk.cost, note)
        usage, cost = self.used
        live = sum(not run.is_over for run in self.runs)
        parts = [usage_text(usage, cost)] if usage.total_tokens else []
        parts += [f"{live} in the background (/runs)"] if live else []
        return ", ".join([*parts, "/help for help, Ctrl+D leaves"])

    # -- what is typed -------------------------------------------------------------

    def begin(self) -> None:
        """Greet, and go on with what waits for an answer."""
        if self._greeting:
            self.screen.line(self._greeting)
        agent = self.talk.agent
        if agent is not None:
            self.go_on_with(agent)

    def go_on_with(self, agent: Agent) -> None:
        """Have the conversation be that of *agent*, which may wait for an answer."""
        if self.talk.agent is not agent:
            self.talk = AgentTalk(agent)
        self._tidings.clear()
        count = len(agent.messages)
        if count:
            self.screen.line(f"(a conversation of {count} messages goes on)")
        if agent.is_paused:
            self.screen.line("(it has waited for your answer since it was saved)")
            self._start("", ())

    def submit(self, text: str) -> None:
        """Take a line that was typed."""
        self._is_warned = False
        if self.is_asking:
            self.questions.answer(text)
        elif text.startswith("/") and not text.startswith("//"):
            self._echo(text)
            run_command(self, text.strip())
            self.screen.line("", "user")
        elif text.strip():
            self._say(text.removeprefix("/") if text[:2] == "//" else text)
        self.questions.ask_next()

    def typed(self) -> None:
        """Take note that what is typed has changed."""
        if self.questions.is_waiting:
            self.questions.ask_next()

    def _echo(self, text: str) -> None:
        self.screen.line(_PROMPT + text.replace("\n", "\n  "), "user")

    def _say(self, text: str) -> None:
        work = self.work
        if work is None:
            self._begin_next(text)
        elif work.is_stopping or self.while_busy == "queue":
            self._queue.append(text)
        elif self.while_busy == "interrupt":
            self._queue.append(text)
            work.stop()
        elif work.send(text):
            self._echo(text)
            self.screen.line("  (heard at the next safe point)")
        else:
            self._queue.append(text)

    def press(self, key: Command) -> None:
        """Take a key."""
        was_warned, self._is_warned = self._is_warned, False
        if key == "ctrl-d":
            self.leave(0)
        elif key == "ctrl-b":
            self.to_background()
        elif self.is_asking:
            refused = self.questions.refuse()
            if refused is not None:
                # Not answered: a round that has its answers might begin something else.
                self._stop(refused, force=False)
        elif self.work is not None:
            self._stop(self.work, force=key == "ctrl-c" and self.work.is_stopping)
        elif key == "ctrl-c" and self.screen.text:
            self.screen.set_text("")
            self.questions.ask_next()
        elif key == "ctrl-c":
            self._warn_or_leave(was_warned)

    def _stop(self, work: Work, *, force: bool) -> None:
        if force:
            self.screen.line(
                "(not waited for, as far as that is possible; Ctrl+B leaves it behind)"
            )
        if work is self.work and self._queue:
            self._put_back(self._queue)
            self._queue.clear()
        work.stop(force=force)

    def _warn_or_leave(self, was_warned: bool) -> None:
        if was_warned:
            self.leave(0)
            return
        self._is_warned = True
        live = sum(not run.is_over for run in self.runs)
        also = f"; {live} in the background will be stopped" if live else ""
        self.screen.line(f"(Ctrl+C again to leave{also})")

    def leave(self, code: int) -> None:
        """Be over; from a signal handler, too."""
        if self.exit_code is None:
            self.exit_code = code

    # -- what is said --------------------------------------------------------------

    def _begin_next(self, text: str) -> None:
        self._echo(text)  # now, and not in the middle of the answer before
        said, self._tidings = (*self._tidings, text), []
        if not self._start(text, said):
            self._tidings = list(said[:-1])
            self._put_back((text, *self._queue))
            self._queue.clear()

    def _start(self, prompt: str, said: tuple[str, ...]) -> bool:
        try:
            work = self.talk.start(said, prompt)
        except Exception as error:  # of an agent's own hooks, too
            self.screen.line(f"error: {about_error(error)}", "error")
            return False
        self.work = work
        self.progress = Progress()
        work.follow(self.screen.post, self._heard, self._ended)
        return True

    def _heard(self, work: Work, event: Any) -> None:
        """Show what happens in some work, if it is in the foreground."""
        if isinstance(event, InterruptRaised) and isinstance(work, AgentWork):
            self.questions.take(work, event)
        elif isinstance(event, RunFinished):
            self._add_up(event.result)
        if work is self.work:
            self.progress.take(event, self.screen)

    def _add_up(self, result: RunResult) -> None:
        usage, cost = self.used
        if result.cost is not None:
            cost = (cost or 0.0) + result.cost
        self.used = usage + result.usage, cost

    def _ended(self, work: Work) -> None:
        self.questions.drop_over()
        if work is self.work:
            self._ended_here(work)
        elif work in self.runs:
            self._ended_there(work)
        self.questions.ask_next()

    def _ended_here(self, work: Work) -> None:
        self.work = None
        if work.error is not None:
            self.screen.line(f"error: {about_error(work.error)}", "error")
        elif work.result is not None:
            self.screen.line(ended_line(work.result, work.seconds or 0.0))
        elif work.is_stopping:
            self.screen.line("(stopped)")
        self.screen.line("", "user")
        if work.is_stopping:
            self._put_back(work.unheard)
        else:
            self._queue.extendleft(reversed(work.unheard))
        if self._queue:
            self._begin_next(self._queue.popleft())

    def _put_back(self, texts: Iterable[str]) -> None:
        """Give back what was typed and not said: whoever stops it decides anew."""
        there = [*texts, *([self.screen.text] if self.screen.text else [])]
        self.screen.set_text("\n".join(there))

    # -- in the background ---------------------------------------------------------

    def to_background(self) -> None:
        """Have the work go on in the background, and go on without it."""
        work = self.work
        if work is None:
            self.screen.line("(nothing is at work that could go to the background)")
            return
        work.leave()
        try:
            aside = self.talk.fork()
        except SyncAgentError:  # it has just ended: there is nothing to be moved
            return
        self.work, self.talk, work.aside = None, aside, aside
        self.runs.append(work)
        work.number = len(self.runs)
        self.questions.put_off(work)
        self.screen.line(f"(in the background, as run {work.number}: /runs)\n")
        if self._queue:
            self._begin_next(self._queue.popleft())

    def _ended_there(self, work: Work) -> None:
        self._tell_end(work)
        if work.unheard:
            self._put_back(work.unheard)

    def _tell_end(self, work: Work) -> None:
        head = f"(run {work.number} in the background"
        took = seconds_text(work.seconds or 0.0)
        result = work.result
        if work.error is not None:
            about = on_one_line(about_error(work.error), 200)
            self.screen.aside(f"{head} has failed after {took}: {about})\n", "error")
        elif result is None or result.cancelled:
            self.screen.aside(f"{head} was stopped after {took})\n")
        else:
            joins = self._join(work, result.text)
            words = on_one_line(result.text, 60)
            more = f"/runs {work.number} shows all of it; {joins}"
            self.screen.aside(f"{head} is done after {took}: {words}\n{more})\n")

    def _join(self, work: Work, text: str) -> str:
        """Have the conversation know what came of it; return how."""
        is_same = self.talk is work.aside and self.talk.times_said == 0
        if is_same and self.work is None:
            self.talk = work.talk
            return "the conversation goes on from there"
        self._tidings.append(
            "[What was sent to the background has ended meanwhile. It was about: "
            f"{work.prompt}\nWhat came of it: {text}]"
        )
        return "the model hears of it with what you say next"

    # -- all of it -----------------------------------------------------------------

    def run(self, token: CancelToken | None = None) -> int:
        """Have the conversation; return the exit code.

        Cancellation: ends at once with *token*, and with signals.
        """
        hold = None
        if token is not None:
            hold = token.on_cancel(lambda: self.screen.post(partial(self._obey, token)))
        try:
            self.screen.run(self)
        finally:
            if hold is not None:
                hold.close()
            self.close()
        return self.exit_code or 0

    def _obey(self, token: CancelToken) -> None:
        self.leave(exit_code_of(str(token.reason or ""), token.origin or "user"))

    def close(self) -> None:
        """End all that goes on; say so if something does not.

        Cancellation: a few seconds at most.
        """
        live = [run for run in (self.work, *self.runs) if run and not run.is_over]
        for number, seconds in enumerate(_LEAVING):
            for work in live:
                work.stop(force=number == len(_LEAVING) - 1)
            for work in live:
                work.join(seconds / len(live))
            live = [work for work in live if not work.join(0)]
            if live and number == 0:
                print("It ends what goes on; Ctrl+C does not wait.", file=sys.stderr)
        for work in live:
            said = on_one_line(work.prompt, 60)
            print(f"left at work, as it does not stop: {said}", file=sys.stderr)
