"""The commands of a chat, such as ``/help``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

from ...agent import Agent
from ...exceptions import ConfigurationError, SyncAgentError
from ...tools.source import source_name
from ..demo.model import DemoModel
from ..formatting import error_text, seconds_text, usage_text
from ..plain_text import on_one_line
from ..wording import error_line
from .conversations import AgentChatRun, AgentConversation, ChatRun

if TYPE_CHECKING:
    from .session import Session

__all__ = ["complete", "run_command"]

_HELP: Final = """\
/help              show the commands and keys
/model [NAME]      show the model, or continue with another one
/tools             list the tools that the model may call
/usage             show tokens and cost so far
/save FILE         write the conversation to a file
/load FILE         continue a conversation from a file
/stop [TOOL]       stop only a running tool; the run goes on
/background        continue the run in the background
/runs [N [stop]]   list the runs in the background; show or stop run N
/exit              leave
//...              send a line that begins with one slash
"""

#: Every saved state has it in its first bytes.
_MARK: Final = b'"syncagent.agent"'


_Command = Callable[["Session", str], None]
_COMMANDS: Final[dict[str, _Command]] = {}


def _command(*names: str) -> Callable[[_Command], _Command]:
    """Register a function as a command; it gets the rest of the line."""

    def register(function: _Command) -> _Command:
        _COMMANDS.update(dict.fromkeys(names, function))
        return function

    return register


def run_command(session: Session, line: str) -> None:
    """Run a line that begins with a slash; show an error if it fails."""
    name, _, rest = line.partition(" ")
    command = _COMMANDS.get(name)
    try:
        if command is None:
            raise ConfigurationError(
                f"unknown command {name}; /help lists the commands"
            )
        command(session, rest.strip())
    except Exception as error:  # of files, of modules with tools, of models
        text = error_text(error)
        if isinstance(error, OSError) and error.filename and error.strerror:
            text = f"{error.filename}: {error.strerror}"
        elif isinstance(error, SyncAgentError):
            text = error_line(text)
        session.screen.line(f"error: {text}", "error")


def complete(text: str) -> str:
    """Return *text* with the name of a command completed as far as it is unique."""
    if not text.startswith("/"):
        return text
    names = [name for name in _COMMANDS if name.startswith(text)]
    return os.path.commonprefix(names) or text  # noqa: RUF071 - letters are meant


def _agent(session: Session, command: str) -> Agent:
    agent = session.conversation.agent
    if agent is None:
        raise ConfigurationError(f"{command} needs an agent; this chat is a function")
    return agent


def _idle_agent(session: Session, command: str) -> Agent:
    agent = _agent(session, command)
    if session.foreground is not None:
        raise ConfigurationError(
            f"{command} needs an idle agent; stop the run with Ctrl+C, or move it away "
            "with /background"
        )
    return agent


@_command("/model")
def _model(session: Session, name: str) -> None:
    if not name:
        model = _agent(session, "/model").model
        session.screen.line("demo" if isinstance(model, DemoModel) else model.full_name)
        return
    agent = _idle_agent(session, "/model NAME")
    if session.make_agent is None:
        raise ConfigurationError("the model is fixed by this program")
    model, notice = session.find_model(name)
    session.conversation = AgentConversation(session.make_agent(agent, model, None))
    session.screen.line(f"the model is now {name}. {notice}".rstrip())


@_command("/tools")
def _tools(session: Session, rest: str) -> None:
    agent = _agent(session, "/tools")
    tools, sources = agent.tools, agent._setup.toolbox.sources
    if not tools and not sources:
        session.screen.line("no tools; add some with --tools MODULE:NAME")
    for tool in tools:
        asks = " (asks first)" if tool.requires_approval else ""
        about = on_one_line(tool.spec.description, 70)
        session.screen.line(f"{tool.name}{asks}: {about}")
    if sources:
        names = ", ".join(map(source_name, sources))
        session.screen.line(f"asked for tools at each turn: {names}")


@_command("/usage")
def _usage(session: Session, rest: str) -> None:
    usage, cost = session.used
    if not usage.total_tokens:
        session.screen.line("no tokens used yet")
        return
    session.screen.line(
        f"{usage_text(usage, cost)} ({usage.input_tokens:,} in, of which "
        f"{usage.cache_hit_rate:.0%} from a cache; {usage.output_tokens:,} out)"
    )


@_command("/save")
def _save(session: Session, file: str) -> None:
    path = _path(file, "/save")
    state = _idle_agent(session, "/save").save()
    if path.exists():
        with path.open("rb") as old:
            if _MARK not in old.read(100):
                raise ConfigurationError(
                    f"{path} is not a saved conversation and is not overwritten; "
                    "choose another name"
                )
    with NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as f:
        try:
            f.write(state)
            f.flush()
            os.replace(f.name, path)  # the old or the new one is there, at any moment
        except BaseException:
            os.unlink(f.name)
            raise
    session.screen.line(f"saved to {path}; continue with /load, or with chat --load")


@_command("/load")
def _load(session: Session, file: str) -> None:
    path = _path(file, "/load")
    agent = _idle_agent(session, "/load")
    if session.make_agent is None:
        raise ConfigurationError("the conversation is fixed by this program")
    state = path.read_text(encoding="utf-8")
    session.resume(session.make_agent(agent, None, state))


def _path(file: str, command: str) -> Path:
    if not file:
        raise ConfigurationError(f"{command} needs a file name")
    try:
        path = Path(file).expanduser()
    except RuntimeError as error:  # ~user of an unknown user
        raise ConfigurationError(f"{command} {file}: {error}") from None
    if path.exists() and not path.is_file():  # reading a pipe could block for ever
        raise ConfigurationError(f"{path} is not a regular file")
    return path


@_command("/runs")
def _runs(session: Session, rest: str) -> None:
    runs = session.background_runs
    if not rest:
        if not runs:
            session.screen.line(
                "no runs in the background; /background moves one there"
            )
        for run in runs:
            session.screen.line(_row(run))
        return
    number, _, action = rest.partition(" ")
    if not number.isdecimal() or not 1 <= int(number) <= len(runs):
        raise ConfigurationError(f"no run {number}; /runs lists the runs")
    run = runs[int(number) - 1]
    if action.strip() == "stop":
        if run.is_over:
            raise ConfigurationError(f"run {number} has already ended")
        session.screen.line(f"(stopping run {number})")
        run.stop(force=run.is_stopping)
        return
    if action:
        raise ConfigurationError(
            f"/runs {number} takes stop or nothing; got {action!r}"
        )
    session.screen.line(_row(run))
    if isinstance(run, AgentChatRun) and run.interrupts and not run.is_over:
        session.questions.add_all_of(run)
    elif run.error is not None:
        session.screen.line(f"error: {error_text(run.error)}", "error")
    else:
        session.screen.write((run.text or "no text yet") + "\n")
        session.screen.end_response()


def _row(run: ChatRun) -> str:
    if not run.is_over:
        state = "waits for your answer" if run.interrupts else "running"
    elif run.error is not None:
        state = "failed"
    elif run.result is None or run.result.cancelled:
        state = "stopped"
    else:
        state = "done"
    age, prompt = seconds_text(run.age), on_one_line(run.prompt, 50)
    return f"run {run.number}: {state}, {age}: {prompt}"


@_command("/stop")
def _stop(session: Session, name: str) -> None:
    run, running = session.foreground, session.progress.running
    calls = [id for id, tool in running.items() if name in ("", tool, id)]
    if not isinstance(run, AgentChatRun) or not calls:
        which = f" {name}" if name else ""
        raise ConfigurationError(f"no tool{which} is running; Ctrl+C stops the run")
    if not name and len(calls) > 1:
        names = ", ".join(dict.fromkeys(running.values()))
        raise ConfigurationError(f"several tools are running; /stop one of: {names}")
    for call_id in calls:
        run.stop_call(call_id)


@_command("/help")
def _help(session: Session, rest: str) -> None:
    session.screen.line(f"{_HELP}\n{session.screen.key_help}")


@_command("/background")
def _background(session: Session, rest: str) -> None:
    session.move_to_background()


@_command("/exit", "/quit")
def _exit(session: Session, rest: str) -> None:
    session.leave(0)
