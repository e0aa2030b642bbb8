"""A handle in a forked child."""

from support.agents import model
from support.handles import silent_stream
from support.processes import in_child
from support.threads import LONG

from syncagent import Agent, ConfigurationError


def test_a_forked_child_has_no_part_in_it():
    """Promise 9: nothing there reaches the parent's run, waits for it, or is lost."""
    scene = silent_stream(None)
    handle = scene.handle
    follower = handle.subscribe()

    def is_refused(function, *given):
        try:
            function(*given)
        except ConfigurationError as error:
            return "belongs to the process" in str(error)
        return False

    def use_in_child():
        ends = [handle.cancel(), handle.interrupt(), handle.shutdown()]
        refused = [
            is_refused(handle.result),
            is_refused(handle.wait),
            is_refused(handle.send_input, "x"),
            is_refused(handle.answer, "x", True),
        ]
        handle.close()
        followed = [len(list(each)) for each in (follower, handle.subscribe())]
        return [*map(bool, ends), *refused, handle.done(), *followed]

    seen = len(handle.thread.events._ring)
    said = in_child(use_in_child)
    assert said == [*[False] * 3, *[True] * 4, False, seen, seen]
    assert not handle.done()
    scene.let_go()
    assert handle.result(LONG).text == "late"
    scene.check_end()


def test_a_child_can_start_handles_of_its_own():
    """Also from an agent whose run in the parent is live."""
    scene = silent_stream(None)

    def start_in_child():
        agent = Agent(model("child"))
        with agent.start("Do it.") as handle:
            return handle.result(LONG).text

    assert in_child(start_in_child) == "child"
    scene.let_go()
    scene.check_end()
