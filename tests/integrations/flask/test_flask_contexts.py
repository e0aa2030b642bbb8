"""The application context of a run's tools and hooks."""

from flask import current_app, g
from flask_site import Visitor, make_site

from syncagent import Agent, ToolContext, tool
from syncagent._context import within_context
from syncagent.testing import ScriptedModel, call, say


@tool
def look(ctx: ToolContext) -> str:
    """Look at the application."""
    before = g.get("seen")
    g.seen = ctx.call_id
    return f"{current_app.name} {before}"


def looking(*calls):
    return ScriptedModel([say(*(call("look", {}, each) for each in calls)), "Done."])


class Hook:
    """Notes what it finds at the end of a run."""

    def __init__(self):
        self.found = []

    def on_finish(self, result):
        self.found.append((current_app.name, g.get("seen")))
        self.result = result


def test_each_call_has_a_context_of_its_own():
    """A tool finds the application and an empty ``g``, which is torn down after it."""
    hook, torn = Hook(), []
    site = make_site(looking("one", "two"), tools=[look], hooks=[hook])
    site.teardown_appcontext(lambda error: torn.append(g.get("seen")))
    anna = Visitor(site)
    id = anna.start()
    anna.wait(id)
    results = hook.result.messages[2].content
    assert [each.content[0].text for each in results] == ["site None", "site None"]
    assert hook.found == [("site", None)]
    assert [seen for seen in torn if seen] == ["one", "two"]


def test_a_tool_that_fails_is_torn_down():
    """The context of a call ends however the call does."""
    torn = []

    @tool
    def fail() -> str:
        """Fail."""
        g.seen = "failed"
        raise ValueError

    model = ScriptedModel([say(call("fail")), "Done."])
    site = make_site(model, tools=[fail])
    site.teardown_appcontext(lambda error: torn.append(g.get("seen")))
    anna = Visitor(site)
    anna.wait(anna.start())
    assert "failed" in torn


def test_surroundings_that_fail_do_not_stop_a_run():
    """Whatever is to surround a run, the run has an end."""

    class Broken:
        def __enter__(self):
            raise ValueError("no")

        def __exit__(self, *raised):
            raise ValueError("never entered")

    with within_context(Broken):
        handle = Agent(ScriptedModel(["Hello."])).start("Go.")
    assert handle.result(20).text == "Hello."
    handle.join(20)


def test_other_runs_have_no_surroundings():
    """The context of a request's runs is removed after the request."""
    with within_context(lambda: 1 / 0):
        pass
    assert Agent(looking(), tools=[look]).run("Go.").text == ""
