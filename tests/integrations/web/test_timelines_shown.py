"""The timeline of a run over HTTP tells no more than its stream does."""

import pytest
from support.threads import LONG
from support.web.runs import ANNA, make_runs

from syncagent import Agent, tool
from syncagent.integrations.web.views import Views, WebRequest
from syncagent.testing import ScriptedModel, call, say


@tool
def fails() -> str:
    """Fail, and name a host."""
    raise OSError("dbhost.internal does not answer")


@pytest.mark.parametrize("show", [False, True])
def test_what_tools_raise(show):
    """Issue 8: what a tool has raised is in the timeline only where it may be shown."""
    with make_runs(recording=100_000, show_tool_errors=show) as runs:
        agent = Agent(ScriptedModel([say(call("fails")), "It failed."]), tools=[fails])
        run = runs.start(agent, "Try it.", owner=ANNA)
        assert run.handle.join(LONG)
        views = Views(runs, lambda *asked: agent)
        page = views.timeline(WebRequest(original=ANNA), run.id).body.decode()
    assert "It failed." in page
    assert "fails" in page
    assert ("dbhost.internal" in page) is show
