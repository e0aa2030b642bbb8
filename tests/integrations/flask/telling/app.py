"""A site whose model calls the tool that the prompt names, with exactly its arguments.

The prompt is JSON: {"tool": ..., "arguments": "..."}.
"""

import json
import secrets

from flask import Flask, session

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import Declined
from syncagent.hooks import Change, Deny
from syncagent.integrations.flask import SyncAgent
from syncagent.interrupts import Rule
from syncagent.messages import AssistantMessage, ToolCall
from syncagent.testing import ScriptedModel

#: Text that reads "send $100" if its direction is turned.
TURNED = "send \u202e001$\u202c"


@tool(requires_approval=lambda arguments, ctx: f"reason: {TURNED}")
def pay(amount: int | float, note: str = "", to: str = "") -> dict[str, object]:
    """Pay, and tell with which arguments.

    :param amount: how much.
    :param note: why.
    :param to: whom.
    """
    return {"amount": amount, "note": note, "is_int": isinstance(amount, int)}


@tool(isolation="thread")
def report(ctx: ToolContext, text: str) -> str:
    """Report progress, and ask.

    :param text: the question.
    """
    ctx.progress({"done": 9007199254740993, "note": TURNED})
    return ctx.ask(text)


@tool
def fill_in(ctx: ToolContext, form: str) -> dict[str, object]:
    """Ask with a form, and tell the answer.

    :param form: as JSON.
    """
    try:
        return {"answer": ctx.ask(f"Fill in: {TURNED}", form=json.loads(form))}
    except Declined:
        return {"answer": "declined"}


@tool(requires_approval=True)
def read_file(path: str) -> str:
    """Tell which file would be read.

    :param path: of the file.
    """
    return f"the text of {path}"


class DataOnly:
    """Allows files below /data, and moves those of /tmp there."""

    def before_tool(self, event):
        path = event.arguments.get("path", "/data/")
        if path.startswith("/tmp/"):
            return Change({"path": f"/data{path}"})
        return None if path.startswith("/data/") else Deny("only /data")


def visitor(request):
    return session.get("visitor")


def make_agent(request, start):
    told = json.loads(start.prompt)
    call = ToolCall("call_1", told["tool"], told["arguments"])
    message = AssistantMessage((call,), stop_reason="tool_calls")
    return Agent(
        ScriptedModel([message, "Done."]),
        tools=[pay, report, fill_in, read_file],
        hooks=[DataOnly()],
        rules=[Rule("read_file", allow=False, arguments={"path": "/etc/passwd"})],
    )


app = Flask(__name__)
app.config.from_prefixed_env()
agents = SyncAgent(
    app,
    make_agent=make_agent,
    owner_of=visitor,
    authorize=lambda request, run: run.owner == visitor(request),
)
app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")


@app.before_request
def identify_visitor():
    session.setdefault("visitor", secrets.token_urlsafe(16))
