"""What every test has: nothing left behind, and a bound on how long it takes."""

import signal
from datetime import date

import pytest
from support import every_line

from syncagent._context import NO_RUN, run_id
from syncagent.testing import no_leaks

#: A test that takes more seconds than this on an idle machine is marked ``slow``.
SLOW_S = 0.5
#: An unmarked test fails the run if it takes this many times as long: machines are
#: rarely idle.
MARGIN = 10
#: These marks imply ``slow``, so that ``-m "not slow"`` is enough for a quick run.
LONG_RUNS = ("stress", "local", "browser")


def pytest_addoption(parser):
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
    if not hasattr(config, "workerinput"):  # reports of all workers come together here
        config.pluginmanager.register(SlowTests())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep tests that share a module's server on one worker; mark long ones slow."""
    for item in items:
        if any(map(item.get_closest_marker, LONG_RUNS)):
            item.add_marker("slow")
        definitions = item._fixtureinfo.name2fixturedefs.values()
        is_shared = any(each[-1].scope == "module" for each in definitions)
        if is_shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


class SlowTests:
    """Fails a run in which a test is slow by far without being marked as slow."""

    def __init__(self):
        self._found = []

    def pytest_runtest_logreport(self, report):
        is_late = report.when == "call" and report.duration > SLOW_S * MARGIN
        if is_late and "slow" not in report.keywords:
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


@pytest.fixture(autouse=True)
def nothing_left():
    """Fail a test that leaves a thread of the SDK or a descriptor behind."""
    with no_leaks():
        yield
    # A signal handler that raises at the very end of a run may leave its id here.
    run_id.set(NO_RUN)
