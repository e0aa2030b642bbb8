"""Every key, in every state of a conversation."""

import pytest

from syncagent.testing import Send, Stall, call, say

WORDS = "Once upon a time there was a thread that waited for a token. " * 3

#: How each state is reached, and how one sees that it is.
STATES = {
    "idle": None,
    "typed": None,
    "headers": say("never", acts=[Stall()]),
    "streaming": say(WORDS, acts=[Send(12), Stall()]),
    "tool": say("Let me see.", call("wait")),
    "approval": say("May I?", call("delete", {"path": "/etc"})),
    "question": say("Well.", call("inquire")),
    "background": say(WORDS, acts=[Send(12), Stall()]),
}
SEEN = {
    "headers": "waiting for the model",
    "streaming": "Once upon",
    "tool": "wait()",
    "approval": "[y]es  [n]o  [a]lways  [e]dit",
    "question": "answer:",
}

STOPPED = "(stopped;"
REFUSED = "(denied; the run is stopped)"
MOVED = "(in the background, as run"
IDLE = "(no run to move"
#: What is seen when a key was pressed; nothing: all stays as it was.
TABLE = {
    "idle": {"ctrl-c": "(Ctrl+C again to leave)", "escape": "", "ctrl-b": IDLE},
    "typed": {"ctrl-c": "cleared", "escape": "", "ctrl-b": IDLE, "ctrl-d": ""},
    "headers": {"ctrl-c": STOPPED, "escape": STOPPED, "ctrl-b": MOVED},
    "streaming": {"ctrl-c": STOPPED, "escape": STOPPED, "ctrl-b": MOVED},
    "tool": {"ctrl-c": STOPPED, "escape": STOPPED, "ctrl-b": MOVED},
    "approval": {"ctrl-c": REFUSED, "escape": REFUSED, "ctrl-b": MOVED},
    "question": {"ctrl-c": REFUSED, "escape": REFUSED, "ctrl-b": MOVED},
    "background": {
        "ctrl-c": "1 in the background will be stopped)",
        "escape": "",
        "ctrl-b": IDLE,
    },
}
#: These never do anything to what goes on.
HARMLESS = ("left", "delete", "f5")


def reach(console, server, state):
    """Bring a conversation that is idle into a state."""
    console.wait_for_prompt()
    if state == "typed":
        console.type("half a line")
        console.wait_for(lambda: console.input == "> half a line")
    elif state != "idle":
        if state == "background" and "as run" in console.text:
            return  # it is there, and stays
        server.add(STATES[state])
        console.enter("go on")
        seen = SEEN.get(state, "Once upon")
        console.wait_for(lambda: any(seen in row for row in console.rows[-4:]))
        if state == "background":
            console.press("ctrl-b")
            console.wait_for(MOVED)
            console.wait_for_prompt()


def leave_state(console):
    """Bring it back to where the next key begins."""
    console.press("ctrl-u")
    if not console.is_idle():
        console.press("escape")
    console.wait_for_prompt()


@pytest.mark.parametrize("state", STATES)
def test_every_key(start, server, state):
    """A key does what the table says, whatever goes on, and nothing typed is lost."""
    console = start()
    for key, wanted in TABLE[state].items():
        reach(console, server, state)
        before = console.text.count(wanted or "> half")
        console.press(key)
        if wanted == "cleared":
            console.wait_for_prompt()
        elif wanted:
            console.wait_for(lambda: console.text.count(wanted) > before)  # noqa: B023
        check_line(console, state)
        leave_state(console)
    reach(console, server, state)
    console.press(*HARMLESS)
    check_line(console, state)
    leave_state(console)
    reach(console, server, state if state != "typed" else "idle")
    console.press("ctrl-d")
    assert console.wait_for_end() == 0
    assert console.is_restored()


def check_line(console, state):
    """See that what is typed arrives, and that nothing else was typed by a key."""
    if state == "typed" and "half" in console.input:
        assert "half a lin" in "\n".join(console.rows)
    console.type("zz")
    console.wait_for(lambda: console.input.endswith("zz"))
    if console.input.startswith("> "):
        assert console.input in ("> zz", "> half a linezz", "> half a linzz")
