"""Leave tools behind that never end, and end all the same."""

import signal
import sys
import threading

from support.tools import Background, agent_for, outcomes

from syncagent import abandoned, tool

_begun = threading.Event()
_never = threading.Event()


@tool(timeout=0.05)
def late() -> str:
    """Never end."""
    _never.wait()


@tool(on_cancel="abandon", grace=0.0)
def deaf() -> str:
    """Never end, either."""
    _begun.set()
    _never.wait()


def main():
    assert outcomes(agent_for(late).run("Do it.")) == ["abandoned"]
    agent = agent_for(deaf)
    background = Background(agent)
    assert _begun.wait(10)
    agent.cancel()
    assert outcomes(background.result()) == ["abandoned"]
    print([each.name for each in abandoned()])


if __name__ == "__main__":
    signal.alarm(15)
    main()
    sys.exit(7)
