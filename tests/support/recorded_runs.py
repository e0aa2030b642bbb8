"""Real runs over sockets, recorded: what a picture is made of."""

import threading

from syncagent import Agent, ToolContext, tool
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Gate, Status, call, say
from syncagent.transport import Retries

#: What must never be more than text.
MARKUP = "</script><script>window.hacked = 1</script>"
HOSTILE = (
    f"\x1b[2J{MARKUP}"
    "<img src=x onerror='window.hacked = 2'>"
    "</pre></details><svg onload=window.hacked=3></svg>"
    "\x1b]0;hacked\x07\x1b[31m\u202edekcah"
)


@tool
def echo(text: str) -> str:
    """Return what is given."""
    return f"echo: {text}"


@tool(requires_approval=True)
def publish(text: str) -> str:
    """Publish something."""
    return f"published: {text}"


@tool
def wait(ctx: ToolContext, number: int) -> str:
    """Wait until the run ends."""
    ctx.progress(f"waiting {number}")
    ctx.sleep(60)
    return "too late"


@tool(on_cancel="kill")
def spin() -> int:
    """Compute for ever."""
    while True:
        pass


def model_on(server, name="large"):
    """Return a model that asks *server*."""
    return OpenAIChat(
        name, base_url=server.base_url, api_key="none", retries=Retries(limit=2)
    )


def film_normal(path):
    """Record a run with a tool, an approval and an answer."""
    with FakeServer() as server:
        server.add(
            say("I publish it.", call("publish", {"text": "news"}, "publish_1")),
            say("Echo, too.", call("echo", {"text": "hello"}, "echo_1")),
            "It is out.",
        )
        agent = Agent(
            model_on(server), tools=[echo, publish], approve=lambda request: True
        )
        return agent.run("Publish the news.", record=path)


def film_hostile(path):
    """Record a run in which everybody says what would be code somewhere."""
    with FakeServer() as server:
        server.add(say(HOSTILE, call("echo", {"text": HOSTILE}, "echo_1")), HOSTILE)
        agent = Agent(model_on(server, HOSTILE[:60]), tools=[echo])
        return agent.run(HOSTILE, record=path)


def film_cancelled(path):
    """Record a run that is cancelled while three tools run at once."""
    with FakeServer() as server:
        calls = [
            call("wait", {"number": 1}, "wait_1"),
            call("wait", {"number": 2}, "wait_2"),
            call("spin", {}, "spin_1"),
        ]
        server.add(say("All at once.", *calls))
        agent = Agent(model_on(server), tools=[wait, spin], parallel_tools=3)
        with agent.stream("Do it all.", record=path) as stream:
            waiting = {"wait_1", "wait_2"}
            for event in stream:
                if type(event).__name__ == "ToolProgress":
                    waiting.discard(event.call_id)
                if not waiting:
                    break
            canceller = threading.Thread(target=agent.cancel, args=("enough",))
            canceller.start()
            list(stream)
            canceller.join()
        return stream.result


def film_sub_agent(path):
    """Record a run with a sub-agent, after an error that is tried again."""
    with FakeServer() as server:
        server.add(
            say("no", acts=[Status(503, headers={"retry-after": "0"})]),
            say("I ask.", call("scout", {"prompt": "Look."}, "scout_1")),
            say("I look.", call("echo", {"text": "there"}, "echo_1")),
            "Nothing there.",
            "Nothing, they say.",
        )
        scout = Agent(model_on(server, "small"), tools=[echo], name="scout")
        return Agent(model_on(server), tools=[scout]).run("Find it.", record=path)


def film_moved(path):
    """Record a run that goes on in the background."""
    gate = Gate()

    @tool
    def hold(ctx: ToolContext) -> str:
        """Hold the run until it has moved."""
        gate.stop_here(token=ctx.token)
        return "held"

    with FakeServer() as server:
        server.add(say("I hold.", call("hold", {}, "hold_1")), "There I am.")
        agent = Agent(model_on(server), tools=[hold])
        with agent.stream("Go.", record=path) as stream:
            next(stream)
            agent.background()
            left = list(stream)[-1].result
        gate.open()
        result = left.handle.result(20)
        left.handle.join(20)
        return result
