"""Many processes, forks and exits: every record once, and nobody hangs."""

import subprocess
import sys
from collections import Counter

import pytest

CHILD_S = 30

MANY = """
import logging, sys, threading
from syncagent import logs

path, name = sys.argv[1:]
log = logging.getLogger("syncagent.test")

def work(which):
    for i in range(200):
        log.info("%s %d %d %s", name, which, i, "x" * 50)

logs.configure(path, json=True, max_bytes=50_000, backups=1000)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
"""


def test_processes_with_threads_share_a_rotating_file(log_path, read_json, tmp_path):
    """4 processes x 4 threads x 200 records: none is lost, doubled or torn."""
    script = tmp_path / "many.py"
    script.write_text(MANY)
    command = [sys.executable, "-W", "error", str(script), str(log_path)]
    processes = [subprocess.Popen([*command, f"p{i}"]) for i in range(4)]
    assert [process.wait(CHILD_S) for process in processes] == [0] * 4
    found = Counter(each["message"][:-51] for each in read_json())
    expected = {f"p{p} {t} {i}" for p in range(4) for t in range(4) for i in range(200)}
    assert set(found) == expected
    assert set(found.values()) == {1}
    assert log_path.with_name("agent.log.5").exists()


NOISY = """
import logging, os, sys, threading, warnings
from syncagent import logs

warnings.filterwarnings("ignore", "This process", DeprecationWarning)
log = logging.getLogger("syncagent.test")
done = threading.Event()
counts = [0] * 4

def noise(which):
    while not done.is_set():
        log.info("noise %d %d", which, counts[which])
        counts[which] += 1
        done.wait(0.0005)

def child(number):
    for i in range(20):
        log.info("child %d %d", number, i)
    sys.exit(0)

logs.configure(sys.argv[1], json=True, max_bytes=50_000, backups=1000)
threads = [threading.Thread(target=noise, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
children = []
for number in range(30):
    pid = os.fork()
    if pid == 0:
        child(number)
    children.append(pid)
failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
done.set()
for thread in threads:
    thread.join(10)
assert not failed, failed
print(*counts)
"""


@pytest.mark.slow
def test_children_of_a_noisy_parent_neither_hang_nor_repeat(
    log_path, read_json, run_script
):
    """30 forks between the records of 4 threads: each record once, from its process."""
    counts = [int(count) for count in run_script(NOISY, log_path).stdout.split()]
    found = Counter(each["message"] for each in read_json())
    expected = {f"child {c} {i}" for c in range(30) for i in range(20)}
    expected |= {f"noise {w} {i}" for w in range(4) for i in range(counts[w])}
    assert set(found) == expected
    assert set(found.values()) == {1}


QUEUED = """
import fcntl, logging, os, sys, threading, warnings
from syncagent import logs

warnings.filterwarnings("ignore", "This process", DeprecationWarning)
path = sys.argv[1]
log = logging.getLogger("syncagent.test")
setup = logs.configure(path, json=True)
log.info("first")
assert setup.flush()
with open(os.path.join(os.path.dirname(path), ".__agent.lock")) as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    for i in range(100):
        log.info("parent %d", i)
    pid = os.fork()
    if pid == 0:
        assert len(threading.enumerate()) == 1
        lock.close()
        log.info("child")
        sys.exit(0)
    fcntl.flock(lock, fcntl.LOCK_UN)
assert os.waitpid(pid, 0)[1] == 0
"""


def test_what_waits_at_a_fork_is_written_by_the_parent_only(
    log_path, read_json, run_script
):
    """100 queued records appear once, with the parent's pid."""
    run_script(QUEUED, log_path)
    pids = {}
    for record in read_json():
        pids.setdefault(record["pid"], []).append(record["message"])
    parent, child = sorted(pids.values(), key=len, reverse=True)
    assert parent == ["first", *(f"parent {i}" for i in range(100))]
    assert child == ["child"]


CHILDREN = """
import logging, multiprocessing, sys
from syncagent import logs

log = logging.getLogger("syncagent.test")
method, path, where = sys.argv[1:]
if where == "at import" or __name__ == "__main__":
    logs.configure(path, json=True)
    log.info("set up")

def work(number):
    if where == "in child":
        logs.configure(path, json=True)
    for i in range(50):
        log.info("child %d %d", number, i)

if __name__ == "__main__":
    context = multiprocessing.get_context(method)
    children = [context.Process(target=work, args=(i,)) for i in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(20)
    assert [child.exitcode for child in children] == [0, 0, 0]
"""


@pytest.mark.parametrize("where", ["at import", "in child"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_last_records_of_a_multiprocessing_child_are_written(
    log_path, read_json, run_script, method, where
):
    """A child's function returns right after logging, and nothing is missing."""
    source = CHILDREN
    if method == "fork":
        source = "import warnings\nwarnings.simplefilter('ignore')\n" + source
    run_script(source, method, log_path, where)
    found = Counter(each["message"] for each in read_json())
    found.pop("set up")
    assert found == Counter(f"child {c} {i}" for c in range(3) for i in range(50))


LATE = """
import logging, multiprocessing, multiprocessing.util, sys, threading, warnings
from syncagent import logs

warnings.filterwarnings("ignore", "This process", DeprecationWarning)
log = logging.getLogger("syncagent.test")
logs.configure(sys.argv[1], json=True)

def late(finalized):
    finalized.wait(0.5)
    for i in range(500):
        log.info("late %d", i)

def work():
    finalized = threading.Event()
    log.info("early")
    multiprocessing.util.Finalize(None, finalized.set, exitpriority=-200)
    threading.Thread(target=late, args=(finalized,)).start()

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join(20)
assert child.exitcode == 0
"""


def test_a_thread_that_outlives_the_function_of_a_child_is_heard(
    log_path, read_json, run_script
):
    """After the end has begun a record is written before the call returns."""
    run_script(LATE, log_path)
    messages = [each["message"] for each in read_json()]
    assert messages == ["early", *(f"late {i}" for i in range(500))]


EXIT = """
import atexit, logging, sys
from syncagent import logs

log = logging.getLogger("syncagent.test")
logs.configure(sys.argv[1], json=True)
atexit.register(log.info, "from atexit")
for i in range(2000):
    log.info("%d", i)
"""


def test_a_program_that_ends_has_written_everything(log_path, read_json, run_script):
    """Falling off the end of a script loses nothing, nor do exit handlers."""
    run_script(EXIT, log_path)
    messages = [each["message"] for each in read_json()]
    assert messages == [*(str(i) for i in range(2000)), "from atexit"]


NO_THREADS = """
import logging, resource, sys, threading
from syncagent import logs

log = logging.getLogger("syncagent.test")
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
threading.stack_size(2**30)
setup = logs.configure(sys.argv[1])
log.info("flushed")
assert threading.active_count() == 1
assert setup.flush()
with open(sys.argv[1]) as file:
    print(file.read())
log.info("stopped")
"""


def test_where_no_thread_can_start_the_caller_writes(log_path, run_script):
    """flush() and the end of the program write what a missing thread did not."""
    done = run_script(NO_THREADS, log_path)
    assert "flushed" in done.stdout
    assert "stopped" in log_path.read_text()


SHUTDOWN = """
import logging, sys, threading
from syncagent import logs

log = logging.getLogger("syncagent.test")
setup = logs.configure(sys.argv[1], json=True)

def work():
    for i in range(2000):
        log.info("%d", i)

thread = threading.Thread(target=work)
thread.start()
while thread.is_alive():
    logging.shutdown()
    thread.join(0.0001)
assert setup.flush()
assert not setup.lost
"""


def test_the_shutdown_of_logging_disturbs_no_writer(log_path, read_json, run_script):
    """logging.shutdown(), part of dictConfig() too, closes no file under a write."""
    assert run_script(SHUTDOWN, log_path).stderr == ""
    assert len(read_json()) == 2000


LOCKED = """
import os, sys
from syncagent import logs
from syncagent.logs import configuration

with configuration._lock:
    pid = os.fork()
    if pid == 0:
        logs.configure(sys.argv[1]).stop()
        os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
"""


def test_a_child_forked_while_its_parent_configures_can_configure(log_path, run_script):
    """No lock of the parent's is locked for ever in the child."""
    run_script(LOCKED, log_path)


STUCK = """
import logging, sys
from syncagent import logs
from syncagent.logs import configuration

configuration._STOP_S = 0.2
logs.configure(sys.argv[1])
logging.getLogger("syncagent.test").info("never")
"""


def test_a_stalled_disk_does_not_keep_a_program_from_exiting(
    log_path, run_script, stall
):
    """The interpreter leaves after a bounded wait, and says what it leaves behind."""
    with stall():
        done = run_script(STUCK, log_path)
    assert "did not finish within" in done.stderr
    assert log_path.read_text() == ""
