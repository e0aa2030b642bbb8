"""Every state of a handle, and everything that can be done to it then."""

import pytest
from support import handles
from support.handles import MORE, words_of
from support.threads import LONG

from syncagent import ConfigurationError
from syncagent.events import RunFinished, StateChanged
from syncagent.testing import complaints

# What is said, then what the last run has ended as, then the state of the handle. The
# last column is what became of the tool call, if there was one.
ENDS = """
               | interrupt         | cancel            | shutdown         | tool
never_used     | no - idle         | no - idle         | no - done        | -
after_interrupt| no cancelled idle | no cancelled idle | no cancelled done| -
silent_stream  | yes cancelled idle| yes cancelled done| yes shutdown done| -
flowing_stream | yes cancelled idle| yes cancelled done| yes shutdown done| -
retry_back_off | yes cancelled idle| yes cancelled done| yes shutdown done| -
queued         | yes cancelled idle| yes cancelled done| yes shutdown done| -
approval       | yes cancelled idle| yes cancelled done| yes shutdown done| not_started
auth           | yes cancelled idle| yes cancelled done| yes shutdown done| not_started
user_input     | yes cancelled idle| yes cancelled done| yes shutdown done| interrupted
own_thread     | yes cancelled idle| yes cancelled done| yes shutdown done| interrupted
worker_thread  | yes cancelled idle| yes cancelled done| yes shutdown done| abandoned
process        | yes cancelled idle| yes cancelled done| yes shutdown done| interrupted
other_agent    | yes cancelled idle| yes cancelled done| yes shutdown done| interrupted
done           | no end_turn done  | no end_turn done  | no end_turn done | -
failed         | no error failed   | no error failed   | no error failed  | -
shut_down      | no shutdown done  | no shutdown done  | no shutdown done | -
"""

# What each says; and, when what it waits for has come, what it has come to: after more
# was sent, and after the others. Each of them also subscribes.
TALKS = """
               | send_input| then         | respond| background| then
never_used     | yes       | end_turn idle| wrong  | no        | - idle
after_interrupt| yes       | end_turn done| wrong  | no        | cancelled idle
silent_stream  | yes       | end_turn done| wrong  | no        | end_turn done
flowing_stream | yes       | end_turn done| wrong  | no        | end_turn done
queued         | yes       | end_turn done| wrong  | no        | end_turn done
approval       | yes       | end_turn done| yes    | no        | end_turn done
auth           | yes       | end_turn done| yes    | no        | end_turn done
user_input     | yes       | end_turn done| yes    | no        | end_turn done
own_thread     | yes       | end_turn done| wrong  | no        | end_turn done
worker_thread  | yes       | end_turn done| wrong  | no        | end_turn done
process        | yes       | end_turn done| wrong  | no        | end_turn done
other_agent    | yes       | end_turn done| wrong  | no        | end_turn done
done           | no        | end_turn done| wrong  | no        | end_turn done
failed         | no        | error failed | wrong  | no        | error failed
shut_down      | no        | shutdown done| wrong  | no        | shutdown done
"""


def rows(table):
    """Return the cells of a table: the words of each row, without its head."""
    lines = table.strip("\n").splitlines()[1:]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def ends():
    for state, *cells, tool in rows(ENDS):
        names = ("interrupt", "cancel", "shutdown")
        for name, cell in zip(names, cells, strict=True):
            yield pytest.param(state, name, cell, tool, id=f"{state}-{name}")


def talks():
    for state, sent, after_more, *cells, after in rows(TALKS):
        yield pytest.param(state, "send_input", sent, after_more, id=f"{state}-send")
        names = ("respond", "background")
        for name, cell in zip(names, cells, strict=True):
            yield pytest.param(state, name, cell, after, id=f"{state}-{name}")


@pytest.mark.parametrize(("state", "name", "cell", "tool"), list(ends()))
def test_what_ends_something(state, name, cell, tool, tmp_path):
    """Promises 1 to 8: at once, in every state, and exactly what the table says."""
    scene = getattr(handles, state)(tmp_path)
    handle, said = scene.handle, words_of(scene.agent)
    follower = handle.subscribe()
    receipt = getattr(handle, name)("enough")
    answer, word, end = cell.split()
    assert (answer == "yes") == bool(receipt) == receipt.first
    assert receipt.wait(LONG)
    if end in ("done", "failed"):
        assert handle.ended.wait(LONG)
    else:
        assert handle.wait(LONG)
    assert (scene.word(), handle.state) == (word, end)
    assert handle.done() == (end != "idle")
    assert handle.cancelled() == (end == "done" and word in ("cancelled", "shutdown"))
    assert handle.interrupts == ()
    if receipt:
        result = handle.result(LONG)
        assert result.cancellation.reason == "enough"
        outcomes = [each.outcome for each in result.tool_outcomes]
        assert outcomes == ([] if tool == "-" else [tool])
    # Only what never had its turn is still to be said.
    waiting = [block.text for each in handle.pending_inputs for block in each.content]
    assert waiting == (["Do it."] if state == "queued" else [])
    assert words_of(scene.agent) == said
    assert complaints(scene.agent.messages) == {}
    scene.check_end()
    check_events(handle, follower)


@pytest.mark.parametrize(("state", "name", "answer", "then"), list(talks()))
def test_what_does_not(state, name, answer, then, tmp_path):
    """The run goes on, and comes to what it would have come to."""
    scene = getattr(handles, state)(tmp_path)
    follower = scene.handle.subscribe()
    assert globals()[name](scene) == answer
    scene.let_go()
    word, end = then.split()
    assert scene.word() == word
    if end != "idle":
        assert scene.handle.ended.wait(LONG)
    assert scene.handle.state == end
    assert scene.handle.pending_inputs == ()
    was_heard = name == "send_input" and answer == "yes"
    assert words_of(scene.agent).count(MORE) == was_heard
    assert complaints(scene.agent.messages) == {}
    scene.check_end()
    check_events(scene.handle, follower)


def check_events(handle, follower):
    """See that whoever subscribed in that state has seen all, as one does who is late.

    All that is said about its state is what it was, in the end too.
    """
    seen = list(follower)
    assert seen == list(handle.subscribe())
    assert seen[-1].state == handle.state
    assert follower.is_over
    finished = [event for event in seen if isinstance(event, RunFinished)]
    begun = [event for event in seen if event == StateChanged("processing")]
    assert len(finished) + (handle.state == "failed") <= len(begun)


# -- what can be said, and what the table calls the answer -------------------------


def send_input(scene):
    if not scene.handle.done():
        scene.handle.send_input(MORE)
        return "yes"
    with pytest.raises(ConfigurationError, match="is over"):
        scene.handle.send_input(MORE)
    return "no"


def respond(scene):
    for asked in scene.handle.interrupts:
        return "yes" if scene.handle.answer(asked.id, scene.answer) else "no"
    with pytest.raises(ConfigurationError, match="no open question"):
        scene.handle.answer("nothing", True)
    return "wrong"


def background(scene):
    return "yes" if scene.agent.background() else "no"
