"""The agents of the recipes: their tools write down each effect, with its process."""

import os
import time

from syncagent import Agent, ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.models import Anthropic
from syncagent.stores import RunStore
from syncagent.stores.lifetimes import OPEN_STORES
from syncagent.testing import ScriptedModel, call, say

# A test cannot wait 15 seconds until a dead worker counts as dead. The recipes are what
# a user writes, so they do not say so.
RunStore.__init__.__kwdefaults__["lease"] = float(os.environ.get("STORE_LEASE", "15"))

#: In the ledger of a run: its process is about to release it.
LEAVING = "leaving"
#: The call of each turn, for each kind of run. The last turn says "All done."
TURNS = {
    "quick": ["charge", "charge"],
    "slow": ["charge", "hold", "charge"],
    "held": ["hold"],
    "approved": ["refund", "charge"],
    "busy": ["compute"],
    "remote": [],
}
#: The effects of a slow run.
SLOW = ["charge-0", "hold-1", "charge-2"]


def make_agent(run):
    """Return the agent of a run, which any process can make."""

    turns = TURNS[run.labels["kind"]]

    def respond(messages):
        turn = sum(isinstance(message, ToolMessage) for message in messages)
        if turn == len(turns):
            return "All done."
        return say(call(turns[turn], "{}", f"{turns[turn]}-{turn}"))

    model = ScriptedModel(respond)
    if run.labels["kind"] == "remote":  # a real socket, to a server of the test
        model = Anthropic("any", base_url=run.labels["server"], api_key="any")
    return Agent(model, tools=tools_of(run))


def tools_of(run):
    """Return the tools of a run."""

    @tool
    def charge(ctx: ToolContext) -> str:
        """Charge a customer."""
        write(run, ctx.call_id)
        return "charged"

    @tool
    def hold(ctx: ToolContext) -> str:
        """Work until the test lets go of it, or the run is cancelled."""
        write(run, ctx.call_id)
        has_told = False
        while not os.path.exists(run.labels["effects"] + ".go"):
            if is_leaving() and not has_told:
                has_told = True
                write(run, LEAVING)
            ctx.sleep(0.01)
        return "held"

    @tool(requires_approval=True)
    def refund(ctx: ToolContext) -> str:
        """Refund a customer."""
        write(run, ctx.call_id)
        return "refunded"

    @tool
    def compute(ctx: ToolContext) -> str:
        """Compute for longer than the lease, and never wait."""
        write(run, ctx.call_id)
        end = time.monotonic() + 2.5 * float(os.environ["STORE_LEASE"])
        while time.monotonic() < end:
            pass
        return "computed"

    return [charge, hold, refund, compute]


def is_leaving():
    """True if this process is about to release its runs."""
    workers = [store._worker for store in OPEN_STORES]
    return any(worker is None or worker.is_leaving for worker in workers)


def write(run, what):
    """Append a line to the ledger of a run, in one step."""
    path = run.labels["effects"]
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{what} {os.getpid()}\n".encode())
    finally:
        os.close(descriptor)
