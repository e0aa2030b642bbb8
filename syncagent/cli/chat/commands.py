"""What begins with a slash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

from ...agent import Agent
from ...exceptions import ConfigurationError
from ..choices import choose_model
from ..plain_text import on_one_line
from .talk import AgentTalk, AgentWork, Work
from .wording import about_error, seconds_text, usage_text

if TYPE_CHECKING:
    from .session import Session

__all__ = ["HELP", "complete", "run_command"]

HELP: Final = """\
/help              this
/model [NAME]      the model; with a name, go on with another one
/tools             what it may call
/usage             tokens and cost up to now
/save FILE         write the conversation to a file
/load FILE         go on with one that was written
/background        have the work go on in the background, as Ctrl+B does
/runs [N [stop]]   what is in the background; one of them: its answer, or stop it
/exit              leave, as Ctrl+D does

Ctrl+C or ESC      stop the answer, and keep it; in a question: no, and stop
Ctrl+C             clears the line; on an empty one, twice, leaves
Ctrl+J, Tab        a new line; complete a command
//...              is said, with one slash"""

#: What every saved state has near its begin.
_MARK: Final = b'"syncagent.agent"'


def run_command(session: Session, line: str) -> None:
    """Do what a line with a slash says; what cannot be done is said."""
    name, _, rest = line.partition(" ")
    command = _COMMANDS.get(name)
    try:
        if command is None:
            raise ConfigurationError(f"there is no {name}; /help shows what there is")
        command(session, rest.strip())
    except Exception as error:  # odd names and numbers, files, modules with tools
        session.screen.line(f"error: {about_error(error)}", "error")


def complete(text: str) -> str:
    """Return *text*, completed as far as that is clear, if it begins a command."""
    if not text.startswith("/"):
        return text
    found = [name for name in _COMMANDS if name.startswith(text)]
    return os.path.commonprefix(found) or text  # noqa: RUF071 - letters are meant


def _help(session: Session, rest: str) -> None:
    session.screen.line(HELP)


def _agent(session: Session, what: str) -> Agent:
    agent = session.talk.agent
    if agent is None:
        raise ConfigurationError(f"{what} is for agents; this is a function's chat")
    return agent


def _idle_agent(session: Session, what: str) -> Agent:
    agent = _agent(session, what)
    if session.work is not None:
        raise ConfigurationError(
            f"{what} has to wait until the work has ended; Ctrl+C stops it, Ctrl+B "
            "has it go on in the background"
        )
    return agent


def _model(session: Session, rest: str) -> None:
    if not rest:
        model = _agent(session, "/model").model
        session.screen.line(f"{model.endpoint.name}:{model.name}")
        return
    agent = _idle_agent(session, "/model NAME")
    if session.remake is None:
        raise ConfigurationError("the model is the program's choice here")
    model, about = choose_model(rest)
    session.talk = AgentTalk(session.remake(agent, model, None))
    session.screen.line(about or f"from now on: {rest}")


def _tools(session: Session, rest: str) -> None:
    tools = _agent(session, "/tools").tools
    if not tools:
        session.screen.line("none; give some with --tools MODULE:NAME")
    for tool in tools:
        asks = " (asks first)" if tool.requires_approval else ""
        about = on_one_line(tool.spec.description, 70)
        session.screen.line(f"{tool.name}{asks}: {about}")


def _usage(session: Session, rest: str) -> None:
    usage, cost = session.used
    if not usage.total_tokens:
        session.screen.line("nothing yet")
        return
    session.screen.line(
        f"{usage_text(usage, cost)} ({usage.input_tokens:,} in, of which "
        f"{usage.cached_tokens:,} from a cache; {usage.output_tokens:,} out)"
    )


def _save(session: Session, rest: str) -> None:
    path = _path(rest, "/save")
    state = _idle_agent(session, "/save").save()
    if path.exists() and not _is_state(path):
        raise ConfigurationError(
            f"{path} is no saved conversation, so it is not overwritten; take another "
            "name"
        )
    with NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as f:
        try:
            f.write(state)
            f.flush()
            os.replace(f.name, path)  # one of the two is there, whatever happens
        except BaseException:
            os.unlink(f.name)
            raise
    session.screen.line(f"saved to {path}; /load, or chat --load, goes on with it")


def _load(session: Session, rest: str) -> None:
    path = _path(rest, "/load")
    agent = _idle_agent(session, "/load")
    if session.remake is None:
        raise ConfigurationError("the conversation is the program's choice here")
    state = path.read_text(encoding="utf-8")
    session.go_on_with(session.remake(agent, None, state))


def _path(text: str, command: str) -> Path:
    if not text:
        raise ConfigurationError(f"{command} needs the name of a file")
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:  # of a user who is not there
        raise ConfigurationError(f"{command} {text}: {error}") from None
    if path.exists() and not path.is_file():  # a pipe would be waited for, for ever
        raise ConfigurationError(f"{path} is no file")
    return path


def _is_state(path: Path) -> bool:
    with path.open("rb") as file:
        return _MARK in file.read(100)


def _background(session: Session, rest: str) -> None:
    session.to_background()


def _runs(session: Session, rest: str) -> None:
    if not rest:
        if not session.runs:
            session.screen.line("nothing is in the background; Ctrl+B sends work there")
        for work in session.runs:
            session.screen.line(_row(work))
        return
    number, _, what = rest.partition(" ")
    if not number.isdecimal() or not 1 <= int(number) <= len(session.runs):
        raise ConfigurationError(f"there is no run {number}; /runs shows what there is")
    work = session.runs[int(number) - 1]
    if what.strip() == "stop":
        work.stop(force=work.is_stopping)
    elif what:
        raise ConfigurationError(f"/runs {number} stop, or nothing; got {what!r}")
    else:
        _show(session, work)


def _row(work: Work) -> str:
    if not work.is_over:
        how = "waits for your answer" if work.questions else "at work"
    elif work.error is not None:
        how = "failed"
    elif work.result is None or work.result.cancelled:
        how = "stopped"
    else:
        how = "done"
    return (
        f"run {work.number}: {how}, {seconds_text(work.age)}: "
        f"{on_one_line(work.prompt, 50)}"
    )


def _show(session: Session, work: Work) -> None:
    session.screen.line(_row(work))
    if isinstance(work, AgentWork) and work.questions and not work.is_over:
        session.questions.take_all_of(work)
    elif work.error is not None:
        session.screen.line(f"error: {about_error(work.error)}", "error")
    else:
        session.screen.say((work.text or "nothing was said yet") + "\n")


def _exit(session: Session, rest: str) -> None:
    session.leave(0)


_COMMANDS: Final[dict[str, Callable[[Session, str], None]]] = {
    "/background": _background,
    "/exit": _exit,
    "/help": _help,
    "/load": _load,
    "/model": _model,
    "/quit": _exit,
    "/runs": _runs,
    "/save": _save,
    "/tools": _tools,
    "/usage": _usage,
}
