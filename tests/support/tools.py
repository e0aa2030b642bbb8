"""Agents whose model calls tools, tools that are stuck, and runs on another thread."""

import os
import select
import threading

from syncagent import Agent, Image, ToolContext
from syncagent.events import ToolFinished
from syncagent.messages import Text, ToolMessage, UserMessage
from syncagent.testing import ScriptedModel, call, complaints, say

#: Seconds after which a test that waits for something has failed.
LONG = 20.0
#: Seconds within which something happens "at once" on a machine with much to do.
SOON = 5.0
AGAIN = "Go on."
LAST = "All is done."
PICTURE = Image(data=b"\x89PNG")


def model(*calls):
    """Return a model that calls these tools for each prompt but one."""

    def reply(messages):
        last = messages[-1]
        is_prompt = isinstance(last, UserMessage) and last.content[-1].text != AGAIN
        return say(*calls) if is_prompt else LAST

    return ScriptedModel(reply, piece=100)


def agent_for(*tools, calls=None, **settings):
    """Return an agent that calls its tools, each once, or as *calls* say."""
    made = Agent(ScriptedModel(), tools=tools)
    wanted = [call(each.name) for each in made.tools] if calls is None else calls
    return Agent(model(*wanted), tools=tools, **settings)


def run_tools(*tools, calls=None, **settings):
    """Run an agent that calls its tools, and return its result."""
    return agent_for(*tools, calls=calls, **settings).run("Do it.")


def outcomes(result):
    """Return what became of each call."""
    return [each.outcome for each in result.tool_outcomes]


def results(result):
    """Return what the model was told about each call."""
    return [
        each
        for message in result.new_messages
        if isinstance(message, ToolMessage)
        for each in message.content
    ]


def told(result):
    """Return the words of those."""
    blocks = [block for each in results(result) for block in each.content]
    return [block.text for block in blocks if isinstance(block, Text)]


class Background:
    """A run on another thread."""

    def __init__(self, agent, prompt="Do it.", **settings):
        self.agent = agent
        self.events = []
        self._stream = agent.stream(prompt, **settings)
        self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            with self._stream as stream:
                for event in stream:
                    self.events.append(event)
        except BaseException as error:
            self._error = error

    @property
    def run_id(self):
        return self._stream.run_id

    def join(self, timeout):
        """Wait for its end for so long, and no longer."""
        self._thread.join(timeout)

    def result(self, timeout=LONG):
        """Wait for it."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), f"the run has not ended in {timeout} s"
        if self._error is not None:
            raise self._error
        return self._stream.result

    def finished(self):
        """Return what its events say about each call."""
        seen = [each for each in self.events if isinstance(each, ToolFinished)]
        return {each.call_id: each.outcome for each in seen}


def check(agent, result, expected):
    """See that all say the same about the calls, and that the agent goes on."""
    assert outcomes(result) == expected
    calls = [each.call_id for each in result.tool_outcomes]
    assert [each.call_id for each in results(result)] == calls
    flags = [each.is_error for each in results(result)]
    assert flags == [outcome != "done" for outcome in expected]
    assert complaints(agent.messages) == {}
    assert agent.run(AGAIN).text == LAST
    assert complaints(agent.messages) == {}


class Door:
    """Where tools of other threads and processes wait until they are let through."""

    def __init__(self, folder):
        self._paths = [str(folder / name) for name in ("mail", "door")]
        for path in self._paths:
            os.mkfifo(path)
        self._mail, self._door = (os.open(path, os.O_RDWR) for path in self._paths)

    @property
    def arguments(self):
        """What the tools of this module are to be called with."""
        return dict(zip(("mail", "door"), self._paths, strict=True))

    def wait_reached(self):
        """Wait for the next tool to stand there, and return its process."""
        said = b""
        while not said.endswith(b"\n"):
            assert select.select([self._mail], [], [], LONG)[0], "nobody is there"
            said += os.read(self._mail, 1)
        return int(said)

    def open(self, number=1):
        """Let as many through."""
        os.write(self._door, b"x" * number)

    def close(self):
        os.close(self._mail)
        os.close(self._door)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def is_gone(pid):
    """Wait for the end of any process, child or not."""
    try:
        number = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([number], [], [], LONG)[0])
    finally:
        os.close(number)


def stand_at(mail, door):
    """Say that it is there, and wait to be let through, whatever is cancelled."""
    number = os.open(door, os.O_RDWR)
    try:
        with open(mail, "w") as file:
            file.write(f"{os.getpid()}\n")
        os.read(number, 1)
    finally:
        os.close(number)


# -- tools, which worker processes can import --------------------------------------


def give_back(mail: str, door: str) -> list:
    """Return something when it is let through."""
    stand_at(mail, door)
    return ["late", PICTURE]


def break_down(mail: str, door: str) -> str:
    """Raise something when it is let through."""
    stand_at(mail, door)
    raise ValueError("too late")


def cooperate(mail: str, door: str, ctx: ToolContext) -> str:
    """Stop when it should."""
    with open(mail, "w") as file:
        file.write(f"{os.getpid()}\n")
    ctx.sleep(LONG)
    return "slept"


def process_id() -> int:
    """Return where it runs."""
    return os.getpid()


def whoami(ctx: ToolContext) -> list:
    """Return what is known about the call."""
    ctx.progress({"at": 1})
    answer = ctx.ask("how?")
    return [ctx.run_id, ctx.call_id, ctx.idempotency_key, ctx.credentials, answer]


def hear_nobody(ctx: ToolContext) -> str:
    """Run an agent where none can be."""
    return ctx.agent(None, "hello")


def take(number: int) -> str:
    """Take a number."""
    return f"got {number}"


def unpicklable() -> object:
    """Return what no other process can have."""
    return threading.Lock()


def misbehave(how: str) -> str:
    """Raise what goes up, in a process where it need not."""
    raise {
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "memory": MemoryError(),
        "generator": GeneratorExit(),
    }[how]


def die(code: int) -> str:
    """End the process."""
    os._exit(code)
