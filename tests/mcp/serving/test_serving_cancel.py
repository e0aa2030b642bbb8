"""A client's cancel, and its leave, end a call of our MCP server in every phase."""

import json
import os
import threading

import pytest
from support.mcp_clients import envelope, piped
from support.threads import LONG

from syncagent import Agent, ToolContext, tool
from syncagent.cancel import clock
from syncagent.exceptions import Cancelled
from syncagent.mcp.serving import MCPService
from syncagent.testing import FakeServer, Gate, ScriptedModel, Stall, call, say

#: Seconds in which a cancel has ended a call, on a busy machine.
PROMPT = 5.0


class Journal:
    """Where tools note that they have begun and ended."""

    def __init__(self):
        self.began = threading.Event()
        self.ended = threading.Event()
        self.error = None

    def __enter__(self):
        self.began.set()
        return self

    def __exit__(self, kind, error, trace):
        self.error = error
        self.ended.set()

    def wait_begun(self):
        assert self.began.wait(LONG), "the call did not begin"

    def wait_cancelled(self):
        assert self.ended.wait(PROMPT), "the call was not cancelled in time"
        assert isinstance(self.error, Cancelled), self.error


@tool
def ready() -> str:
    """Show that the server goes on."""
    return "ready"


def sleeping(journal):
    @tool
    def stuck(ctx: ToolContext) -> None:
        with journal:
            ctx.sleep(3600)

    return stuck


def in_a_program(journal):
    @tool
    def stuck(ctx: ToolContext) -> None:
        with journal:
            ctx.run_process(["sleep", "3600"])

    return stuck


def with_progress(journal):
    @tool
    def stuck(ctx: ToolContext) -> None:
        with journal:
            while True:
                ctx.progress("still here")
                ctx.sleep(0.01)

    return stuck


def on_a_thread(journal):
    @tool(timeout=3600)
    def stuck(ctx: ToolContext) -> None:
        with journal:
            ctx.sleep(3600)

    return stuck


def asking(journal):
    @tool
    def stuck(ctx: ToolContext) -> None:
        with journal:
            ctx.ask("Are you there?")

    return stuck


def in_a_sub_agent(journal):
    inner = Agent(ScriptedModel([say("", call("wait"))]), tools=[waiting(journal)])

    @tool
    def stuck(ctx: ToolContext) -> None:
        ctx.agent(inner, "Wait.")

    return stuck


def waiting(journal):
    @tool
    def wait(ctx: ToolContext) -> None:
        with journal:
            ctx.sleep(3600)

    return wait


def an_agent_in_a_tool(journal):
    model = ScriptedModel([say("", call("wait"))])
    return Agent(model, tools=[waiting(journal)], name="stuck")


PHASES = [sleeping, in_a_program, with_progress, on_a_thread, asking]
PHASES += [in_a_sub_agent, an_agent_in_a_tool]
ASKING = {"elicitation": {}}


def begin(client, journal, arguments):
    """Start the call and return its id, once it is stuck."""
    client.initialize(ASKING)
    id = client.call("stuck", arguments, meta={"progressToken": "t"})
    journal.wait_begun()
    return id


def arguments_of(make):
    return {"prompt": "Go."} if make is an_agent_in_a_tool else {}


@pytest.mark.parametrize("make", PHASES)
def test_a_cancel_ends_the_call_at_once(make):
    """The tool unwinds, nothing is sent for it, and the next call is served."""
    journal = Journal()
    with piped(MCPService([make(journal), ready])) as client:
        id = begin(client, journal, arguments_of(make))
        if make is asking:
            question = client.receive()
            assert question["method"] == "elicitation/create"
        client.cancel(id)
        journal.wait_cancelled()
        if make is asking:
            withdrawn = client.receive()
            assert withdrawn["method"] == "notifications/cancelled"
            assert withdrawn["params"]["requestId"] == question["id"]
        client.call("ready", id="next")
        while (message := client.receive()).get("id") != "next":
            assert message["method"] == "notifications/progress"


@pytest.mark.parametrize("make", PHASES)
def test_a_client_that_leaves_ends_its_calls(make):
    """The end of the input is a cancel, and the server ends."""
    journal = Journal()
    with piped(MCPService([make(journal), ready])) as client:
        begin(client, journal, arguments_of(make))
        client.leave()
        journal.wait_cancelled()
        client.thread.join(PROMPT)
        assert not client.thread.is_alive()


def test_a_cancel_ends_the_request_to_a_model():
    """The connection to the provider is closed, in the middle of a response."""
    from syncagent.models.dialects import OpenAIChat

    with FakeServer() as provider:
        provider.add(say("never", acts=[Stall(before_headers=True)]))
        model = OpenAIChat("m", base_url=provider.base_url, api_key="none")
        with piped(MCPService([Agent(model, name="slow"), ready])) as client:
            id = client.call("slow", {"prompt": "Hello"}, meta=envelope())
            while not provider.requests:
                client.token.wait(0.01)
            client.cancel(id)
            began = clock.now()
            assert client.result_of(client.call("ready", meta=envelope()))
            client.leave()
            client.thread.join(LONG)
            assert clock.now() - began < PROMPT


@pytest.mark.slow
def test_a_cancel_kills_the_process_of_a_tool():
    """A tool that computes without end is killed, with everything it has started."""
    with piped(MCPService([tool(on_cancel="kill")(spin), ready])) as client:
        id = client.call("spin", meta=envelope(progressToken=1))
        pid = int(client.receive()["params"]["message"])
        client.cancel(id)
        began = clock.now()
        while is_alive(pid):
            assert clock.now() - began < PROMPT
            client.token.wait(0.01)
        assert client.result_of(client.call("ready", meta=envelope()))


def spin(ctx: ToolContext) -> None:
    """Compute without end."""
    ctx.progress(f"{os.getpid()}")
    while True:
        pass


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_cancel_of_one_leaves_nine():
    """Ten calls run; the other nine get their responses."""
    gates, journals = [Gate() for _ in range(10)], [Journal() for _ in range(10)]

    @tool
    def hold(number: int, ctx: ToolContext) -> int:
        with journals[number]:
            gates[number].stop_here(token=ctx.token)
        return number

    with piped(MCPService(hold)) as client:
        for number in range(10):
            client.call("hold", {"number": number}, id=number, meta=envelope())
        for gate in gates:
            gate.wait_reached()
        client.cancel(4)
        journals[4].wait_cancelled()
        for gate in gates:
            gate.open()
        assert {client.receive()["id"] for _ in range(9)} == {*range(10)} - {4}
        assert client.is_silent()


def test_odd_cancels_are_ignored():
    """Unknown ids, ids of answered calls, a second cancel, and none at all."""
    with piped(MCPService(ready)) as client:
        id = client.call("ready", meta=envelope())
        assert client.result_of(id)
        for odd in (id, id, "unknown", None, [1], True):
            client.cancel(odd)
        client.send({"method": "notifications/cancelled"})
        assert client.is_silent()


def test_an_id_can_be_used_again_after_a_cancel():
    """The first call unwinds slowly, and does not answer for the second."""
    gate, ended = Gate(), threading.Event()

    @tool
    def first(ctx: ToolContext) -> str:
        try:
            gate.stop_here()
            return "late"
        finally:
            ended.set()

    with piped(MCPService([first, ready])) as client:
        client.call("first", id=1, meta=envelope())
        gate.wait_reached()
        client.cancel(1)
        client.call("ready", id=1, meta=envelope())
        assert client.result_of(1)["content"][0]["text"] == "ready"
        gate.open()
        assert ended.wait(LONG)
        assert client.is_silent()


def test_a_client_that_does_not_read_can_still_cancel():
    """The output is full, and the input is read."""
    journal = Journal()

    @tool
    def flood(ctx: ToolContext) -> str:
        return "x" * 90_000

    with piped(MCPService([sleeping(journal), flood])) as client:
        id = client.call("stuck", meta=envelope())
        journal.wait_begun()
        for _ in range(30):  # far more than a pipe holds
            client.call("flood", meta=envelope())
        client.cancel(id)
        journal.wait_cancelled()
        assert len({client.receive()["id"] for _ in range(30)}) == 30


def test_progress_is_dropped_for_a_client_that_does_not_read():
    """Reports do not fill the memory, and the response still comes."""
    line = "x" * 1000

    @tool
    def report(ctx: ToolContext) -> str:
        for _ in range(3000):
            ctx.progress(line)
        return "done"

    with piped(MCPService([report])) as client:
        id = client.call("report", meta=envelope(progressToken="t"))
        client.token.wait(0.3)
        reports = 0
        while "id" not in (message := client.receive()):
            reports += 1
        assert message["id"] == id
        assert 0 < reports < 3000


def test_a_deaf_tool_does_not_hold_the_server():
    """A tool that ignores the cancel is left behind after the grace."""
    gate = Gate()

    @tool
    def deaf() -> None:
        gate.stop_here()

    began = clock.now()
    with piped(MCPService(deaf), grace=0.1) as client:
        client.call("deaf", meta=envelope())
        gate.wait_reached()
        client.leave()
        client.thread.join(LONG)
        assert clock.now() - began < PROMPT
        gate.open()
        left = [
            each for each in threading.enumerate() if each.name.endswith("mcp-call")
        ]
        for thread in left:
            thread.join(LONG)


def test_an_abandoned_tool_frees_its_call():
    """With on_cancel="abandon" the place of the call is free after the grace."""
    gate = Gate()

    @tool(on_cancel="abandon", grace=0.05)
    def deaf() -> None:
        gate.stop_here()

    with piped(MCPService([deaf, ready], max_calls=1)) as client:
        id = client.call("deaf", meta=envelope())
        gate.wait_reached()
        client.cancel(id)
        while True:
            answer = client.response_to(client.call("ready", meta=envelope()))
            if "result" in answer:
                break
            client.token.wait(0.02)
        gate.open()
        for thread in threading.enumerate():
            if thread.name == "syncagent-deaf":
                thread.join(LONG)


@pytest.mark.stress
def test_a_thousand_cancelled_calls_leave_nothing():
    """No thread, no descriptor, no id; the server answers as before."""
    journal = Journal()
    with piped(MCPService([sleeping(journal), ready])) as client:
        before = len(os.listdir("/proc/self/fd"))
        for number in range(1000):
            client.call("stuck", id=number, meta=envelope())
            client.cancel(number)
            if number % 20 == 0:
                client.result_of(client.call("ready", id="r", meta=envelope()))
        assert client.result_of(client.call("ready", id="r", meta=envelope()))
        assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_a_stop_and_its_response_may_cross():
    """A cancel at any moment gives one response or none, never two."""
    seen = []
    with piped(MCPService(ready)) as client:
        for number in range(100):
            client.call("ready", id=number, meta=envelope())
            client.cancel(number)
        client.call("ready", id="end", meta=envelope())
        while not seen or seen[-1] != "end":
            seen.append(client.receive()["id"])
    assert len(seen) == len({json.dumps(each) for each in seen})
