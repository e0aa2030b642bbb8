"""What every test has: nothing left behind, and a bound on how long it takes."""

import gc
import logging
import os
import signal
import stat
from contextlib import contextmanager
from datetime import date

import hypothesis
import pytest
from support import every_line

from syncagent._context import NO_RUN, run_id
from syncagent.testing import no_leaks

#: A test that takes more seconds than this on an idle machine is marked ``slow``.
SLOW_S = 0.5
#: An unmarked test fails the run if it takes this many times as long, unless the
#: machine has more to do than these tests: machines are rarely idle.
MARGIN = 10
#: These marks imply ``slow``, so that ``-m "not slow"`` is enough for a quick run.
LONG_RUNS = ("stress", "local", "browser", "engines", "mcp_real")

# Hypothesis takes a busy machine for a slow test.
hypothesis.settings.register_profile(
    "shared machine",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("shared machine")


def pytest_addoption(parser, pluginmanager):
    if not pluginmanager.hasplugin("xdist"):  # -p no:xdist: what tox.ini says is void
        parser.addoption("--numprocesses")
        parser.addoption("--dist")
    parser.addoption(
        "--first-line",
        type=int,
        default=date.today().toordinal() % 1000,
        help="the first line at which the tests of Ctrl+C raise (default: by the day)",
    )


def pytest_report_header(config):
    return f"first line of Ctrl+C: --first-line {config.getoption('--first-line')}"


def pytest_configure(config):
    """Hear Ctrl+C, also where a shell starts the tests in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    every_line.first_line = config.getoption("--first-line")
    if hasattr(config, "workerinput"):
        let_go_of_pipes_in_forks()
    else:  # the reports of all workers come together here
        config.pluginmanager.register(SlowTests())


def let_go_of_pipes_in_forks():
    """See that only this worker holds its pipes: their end is its end.

    Else a test that hangs while its forked child lives would hang the whole run.
    """
    pipes = list(filter(is_pipe, range(3, 100)))
    nothing = os.open(os.devnull, os.O_RDWR)

    def let_go():
        for number in pipes:
            os.dup2(nothing, number)

    os.register_at_fork(after_in_child=let_go)


def is_pipe(number):
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if any(map(item.get_closest_marker, LONG_RUNS)):
            item.add_marker("slow")


class SlowTests:
    """Fails a run in which a test is slow by far without being marked as slow."""

    def __init__(self):
        self._found = []

    def pytest_runtest_logreport(self, report):
        is_late = report.when == "call" and report.duration > SLOW_S * MARGIN
        is_busy = os.getloadavg()[0] > 2 * os.cpu_count()
        if is_late and not is_busy and "slow" not in report.keywords:
            self._found.append(f"{report.duration:.1f} s: {report.nodeid}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self._found:
            terminalreporter.section("slow, and not marked as slow", red=True)
            for each in self._found:
                terminalreporter.line(each)


@pytest.fixture(autouse=True, scope="module")
def small_heap():
    """Have the garbage collector look only at what the tests of one module make."""
    gc.collect()
    gc.freeze()


@contextmanager
def level_kept():
    """Fail a test that leaves another level at the logger of the SDK."""
    logger = logging.getLogger("syncagent")
    before = logger.level
    yield
    assert logger.level == before


@pytest.fixture(autouse=True)
def nothing_left():
    """Fail a test that leaves a thread of the SDK or a descriptor behind."""
    with no_leaks(), level_kept():
        yield
    # A signal handler that raises at the very end of a run may leave its id here.
    run_id.set(NO_RUN)
