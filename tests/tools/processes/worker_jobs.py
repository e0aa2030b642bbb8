"""Functions for worker processes to call, and how they say that they have begun."""

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time

from syncagent.tools.processes.channel import frame_parts

#: Seconds after which a test that waits for a process has failed.
LONG = 20.0


class Started:
    """A call in another thread, which has said, by mail, that it runs.

    :param work: the call.
    """

    def __init__(self, mail, work):
        self.outcome = None
        self._work = work
        self._thread = threading.Thread(target=self._do, daemon=True)
        self._thread.start()
        self.pids = mail.line().split()

    def _do(self):
        try:
            self.outcome = self._work()
        except BaseException as error:
            self.outcome = error

    def end(self, timeout=LONG):
        """Return what it raised or returned."""
        self._thread.join(timeout)
        assert not self._thread.is_alive()
        return self.outcome


class Mail:
    """Lines that another process writes into a file, which is a named pipe.

    :param folder: where to put it.
    """

    def __init__(self, folder):
        self.path = str(folder / "mail")
        os.mkfifo(self.path)
        self._number = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._number, select.POLLIN)

    def line(self):
        """Return the next one."""
        said, end = b"", time.monotonic() + LONG
        while not said.endswith(b"\n"):
            assert self._poll.poll(LONG * 1000), "no process has said anything"
            try:
                more = os.read(self._number, 1)
            except BlockingIOError:  # one has hung up, and another has just called
                more = b""
            assert more or time.monotonic() < end, "no process has said any more"
            said += more
        return said.decode().strip()

    def close(self):
        os.close(self._number)


def is_gone(pid, timeout=LONG):
    """Wait for the end of any process, child or not."""
    try:
        number = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(number)


def tell(path, text):
    with open(path, "w") as mail:
        mail.write(f"{text}\n")


# -- jobs --------------------------------------------------------------------------


def add(left, right=0):
    return left + right


def pid():
    return os.getpid()


class Tool:
    """What a decorator may leave in place of a function."""

    def __init__(self, function):
        self.function = function


@Tool
def decorated(value):
    return value * 2


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, more):
        return self.value + more

    @staticmethod
    def double(value):
        return 2 * value


def loop(path):
    tell(path, os.getpid())
    while True:
        pass


def swallow(path):
    """Nothing that Python can raise ends this."""
    tell(path, os.getpid())
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def hold_the_lock(path):
    """No other thread of the process runs while the regular expression is at work."""
    import re

    tell(path, os.getpid())
    re.match(r"(a+)+$", "a" * 60 + "b")


def ignore_signals(path):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    loop(path)


def start_child(path):
    child = subprocess.Popen(["sleep", "1000"])
    tell(path, f"{os.getpid()} {child.pid}")
    threading.Event().wait(LONG)


def leave_child():
    """The child has a copy of the connection, so that the end of that tells nothing."""
    child = os.fork()
    if child == 0:
        threading.Event().wait(LONG)
        os._exit(0)
    return child


def leave_child_and_exit(path):
    tell(path, leave_child())
    os._exit(3)


def run_program(path, ctx):
    ctx.run_process(["sh", "-c", f"echo {os.getpid()} $$ > {path}; sleep 1000"])


def exit_hard():
    os._exit(3)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def leave():
    sys.exit(7)


def interrupt():
    raise KeyboardInterrupt


def return_lambda():
    return lambda: None


class Bad:
    """What pickles, and does not unpickle in the process of the test."""

    def __init__(self, at_home):
        self.at_home = at_home

    def __getstate__(self):
        return {"at_home": self.at_home}

    def __setstate__(self, state):
        if os.getpid() == state["at_home"]:
            raise ImportError("no such module here")


def return_bad(at_home):
    return Bad(at_home)


class OddError(Exception):
    """Pickles, but does not unpickle: its __init__ wants more."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class BadError(Exception):
    def __init__(self, at_home):
        super().__init__(at_home)

    def __reduce__(self):
        return remake, (self.args[0],)


def remake(at_home):
    if os.getpid() == at_home:
        raise ImportError("no such module here")
    return BadError(at_home)


def fail(kind, *args):
    raise kind(*args)


def fail_with_lock():
    error = ValueError("with a lock")
    error.lock = threading.Lock()
    raise error


def change_place(folder):
    os.chdir(folder)
    signal.setitimer(signal.ITIMER_REAL, LONG)


def where():
    return os.getcwd()


def alarm():
    return signal.getitimer(signal.ITIMER_REAL)


def signal_self(number):
    os.kill(os.getpid(), number)
    return "alive"


def child_hears_sigint():
    """Return how a program ends that is started here and gets SIGINT."""
    child = subprocess.Popen(["sleep", "1000"])
    child.send_signal(signal.SIGINT)
    return child.wait(LONG)


def talk(ctx, steps):
    for step in range(steps):
        ctx.progress({"step": step})
    return ctx.ask("how many?"), ctx.run_id, ctx.call_id, ctx.credentials


def ask(ctx):
    return ctx.ask("how many?")


def wait_for_timeout(ctx):
    ctx.sleep(LONG)


_kept = []


def keep_context(ctx):
    _kept.append(ctx)


def use_kept_context():
    try:
        _kept[0].progress("late")
    except RuntimeError as error:
        return str(error)


def size_of(data):
    return len(data)


def make(size):
    return b"x" * size


# -- jobs that fork ----------------------------------------------------------------


def wait_for_line(path):
    """Wait until a line is written into a named pipe."""
    with open(path) as gate:
        return gate.readline()


def come_back_twice(gate, value="child"):
    """Fork; both return, the child when it is let through the gate."""
    child = os.fork()
    if child == 0:
        wait_for_line(gate)
        return value
    return child


def fork_and_raise(path, kind):
    """Fork; the child raises, and its exit status is told."""
    child = os.fork()
    if child == 0:
        raise kind(3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tell(path, status)
    return "parent"


def report_from_child(ctx):
    """Use the context in a forked child; return its exit status."""
    child = os.fork()
    if child == 0:
        refusals = 0
        for use in (ctx.progress, ctx.ask):
            try:
                use("from the child")
            except RuntimeError as error:
                refusals += "forked child" in str(error)
        os._exit(2 - refusals)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def wait_at(path, gate, value):
    """Say that it runs, and return when the gate opens."""
    tell(path, os.getpid())
    wait_for_line(gate)
    return value


def ask_on_a_thread(ctx):
    """Return while a thread of the function still waits for an answer."""
    asked = threading.Event()

    def ask():
        asked.set()
        ctx.ask("how many?")

    threading.Thread(target=ask, daemon=True).start()
    asked.wait(LONG)
    return "returned"


def leave_daemon():
    """Leave a process of another session, which holds the connection open."""
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.alarm(int(LONG))
        threading.Event().wait(LONG)
        os._exit(0)
    return child


# -- jobs that write to the channel ------------------------------------------------


def channel():
    """Return the channel of the worker that runs this."""
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["channel"]


def write_all(data):
    """Write bytes to the connection, as a stray child or a bug may."""
    data = memoryview(data)
    while data:
        data = data[os.write(channel()._descriptor, data) :]


def garble(data, value="right"):
    """Write *data* to the connection, and return."""
    write_all(data)
    return value


def garble_and_wait(path, data):
    """Write *data* to the connection, and never return."""
    tell(path, os.getpid())
    write_all(data)
    threading.Event().wait(LONG)


def send_half(path, *, has_daemon):
    """Send half of a frame, and never the rest."""
    daemon = leave_daemon() if has_daemon else 0
    parts = frame_parts(b"r", channel()._number, b"x" * 3_000_000)
    write_all(parts[0] + parts[1][:1_000_000])
    tell(path, f"{os.getpid()} {daemon}")
    threading.Event().wait(LONG)


def send_frame(kind, payload, number=None):
    """Send a frame of any kind, and then return."""
    for part in frame_parts(kind, number or channel()._number, payload):
        write_all(part)


def garble_inside(data, position):
    """Send the frame of a result, with *data* inside."""
    payload = pickle.dumps(b"x" * 200)
    whole = b"".join(frame_parts(b"r", channel()._number, payload))
    write_all(whole[:position] + data + whole[position:])
    return "late"


# -- jobs that change the worker ---------------------------------------------------


def change_path(folder, way):
    if way == "insert":
        sys.path.insert(0, folder)
        sys.argv.append("more")
    else:
        sys.path, sys.argv = (folder,), None


def paths():
    return list(sys.path), list(sys.argv)


def odd_names(function, self, args, kwargs, call=0, name=0):
    return [function, self, args, kwargs, call, name]
