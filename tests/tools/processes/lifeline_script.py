"""Run a program in the background, and end in some way.

usage: lifeline_script.py WAY PIPE
"""

import os
import signal
import sys
import threading
from contextlib import suppress

from support.threads import until
from support.tools import agent_for

from syncagent import ToolContext, tool


@tool
def serve(ctx: ToolContext) -> str:
    """Run a program that does not end by itself, and takes no notice of signals."""
    text = "trap '' TERM HUP INT; sleep 1000 & echo $$ $! > {}; wait; sleep 1000"
    return ctx.run_process(["sh", "-c", text.format(sys.argv[2])]).stdout


def is_held():
    """True once the system was told to end a group with this process."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError), open(f"/proc/self/fdinfo/{number}") as info:
            flags = next(line for line in info if line.startswith("flags:"))
            if int(flags.split()[1], 8) & os.O_ASYNC:
                return True
    return False


def main(way):
    handle = agent_for(serve).start("Do it.")
    input()  # the test has read the numbers
    until(is_held)
    if way == "exit":
        sys.exit(0)
    elif way == "raise":
        raise ValueError("the end")
    elif way == "os._exit":
        os._exit(0)
    elif way == "thread":
        threading.Thread(target=os._exit, args=(0,)).start()
    elif way != "return":
        os.kill(os.getpid(), getattr(signal, way))
    del handle


if __name__ == "__main__":
    main(sys.argv[1])
