"""configure(): what a line holds, how a set-up begins, is replaced, and stops."""

import contextvars
import json
import logging
import os
import re
import threading
import time
from contextlib import contextmanager
from logging.handlers import QueueHandler

import pytest

from syncagent import ConfigurationError, logs
from syncagent._context import run_id
from syncagent.logs import configuration

JOIN_S = 10
log = logging.getLogger("syncagent.test")


@contextmanager
def unheard_by_pytest():
    """Keep records from the handlers of pytest, which change them and raise."""
    log.parent.propagate = False
    try:
        yield
    finally:
        log.parent.propagate = True


def test_importing_adds_no_handler_and_no_weight(run_script):
    """The library sets up nothing and loads no log handler until it is asked to."""
    run_script(
        "import logging, sys, syncagent.logs\n"
        "assert not logging.getLogger('syncagent').handlers\n"
        "assert not logging.getLogger().handlers\n"
        "assert not {'concurrent_log_handler', 'multiprocessing'} & set(sys.modules)\n"
    )


def test_a_text_line_has_its_fields_in_order(log_path):
    """Time in UTC, level, pid, thread, run id, logger and message, in one line."""
    with logs.configure(log_path):
        log.warning("hello %s", "world")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING  "
        rf"{os.getpid()} \[MainThread\] - syncagent\.test: hello world\n",
        log_path.read_text(),
    )


def test_a_json_line_has_its_fields_and_the_extras(log_path, read_json):
    """An extra appears beside our fields, and under another name if it is one."""
    with logs.configure(log_path, json=True):
        log.info("hi", extra={"turn": 3, "level": "mine", "odd": {1: {2}}})
    [record] = read_json()
    assert record.pop("ts").endswith("Z")
    assert record == {
        "level": "INFO",
        "logger": "syncagent.test",
        "run_id": "-",
        "pid": os.getpid(),
        "thread": "MainThread",
        "message": "hi",
        "turn": 3,
        "level_": "mine",
        "odd": {"1": [2]},
    }


def test_the_run_id_is_that_of_the_thread_that_logs(log_path, read_json):
    """The id comes from the context at the time of the call, not of the write."""

    def work(name):
        run_id.set(name)
        log.info(name)

    threads = [
        threading.Thread(target=contextvars.Context().run, args=(work, f"run-{i}"))
        for i in range(5)
    ]
    with logs.configure(log_path, json=True):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(JOIN_S)
        log.info("run-8", extra={"run_id": "run-8"})
        log.info("-")
    records = read_json()
    assert len(records) == 7
    assert all(each["run_id"] == each["message"] for each in records)


def test_a_run_id_filter_serves_formats_of_the_user(capsys):
    """A handler of the user's may name the run id in its format."""
    record = logging.makeLogRecord({"msg": "hi"})
    context = contextvars.copy_context()
    context.run(run_id.set, "run-1")
    assert context.run(logs.RunIdFilter().filter, record)
    assert logging.Formatter("%(run_id)s %(message)s").format(record) == "run-1 hi"


def test_extras_are_those_of_the_moment_of_the_call(log_path, read_json, stall):
    """What a caller does to a value after logging it does not change the record."""
    value = {"items": [1]}
    with logs.configure(log_path, json=True), stall():
        log.info("first", extra={"value": value})
        value["items"].append(2)
    assert read_json()[0]["value"] == {"items": [1]}


def test_a_message_whose_arguments_do_not_fit_is_written_all_the_same(log_path):
    """A wrong number of arguments costs neither the record nor the caller."""
    with logs.configure(log_path), unheard_by_pytest():
        log.info("one %s two %s", "x")
    assert "'one %s two %s' % ('x',)" in log_path.read_text()


class Witness(logging.Handler):
    """A handler of the user's that keeps what it sees."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


def test_other_handlers_see_the_record_as_it_was(log_path):
    """Redaction and the run id happen to a copy of the record."""
    witness, value = Witness(), object()
    with logs.configure(log_path, json=True) as setup, unheard_by_pytest():
        log.parent.addHandler(witness)
        try:
            raise ValueError("api_key=abc")
        except ValueError:
            log.exception("password=%s", "xyz", extra={"value": value})
        assert setup.flush()
        log.parent.removeHandler(witness)
    [record] = witness.records
    assert (record.msg, record.args, record.value) == ("password=%s", ("xyz",), value)
    assert record.exc_info[0] is ValueError
    assert record.exc_text is None
    assert "run_id" not in vars(record)


def test_the_file_rotates_and_keeps_so_many_backups(log_path):
    """Beyond max_bytes a new file begins, and no more than backups remain."""
    with logs.configure(log_path, max_bytes=1000, backups=2):
        for _ in range(100):
            log.info("x" * 100)
    names = sorted(path.name for path in log_path.parent.glob("agent.log*"))
    assert names == ["agent.log", "agent.log.1", "agent.log.2"]
    assert log_path.with_name("agent.log.1").stat().st_size < 1400


def test_levels_are_lowered_for_the_file_and_restored_after(log_path):
    """A level lets its records into the file, and leaves no trace on the logger."""
    before = log.parent.level
    with logs.configure(log_path, level="debug"):
        log.debug("low")
        with logs.configure(log_path, level=logging.ERROR):
            log.warning("middle")
        log.error("high")
    with logs.configure(log_path, level=logging.DEBUG):
        assert log.parent.level == logging.DEBUG
    assert log.parent.level == before
    assert [line.split()[-1] for line in log_path.read_text().splitlines()] == ["low"]


def test_stopping_twice_leaves_no_thread_and_no_handler(log_path):
    """stop() is idempotent, and afterwards the logger is as it was."""
    before = logging.getLogger("syncagent").handlers[:]
    setup = logs.configure(log_path)
    log.info("last words")
    assert setup.stop()
    assert setup.stop()
    assert setup.flush()
    log.info("too late")
    assert logging.getLogger("syncagent").handlers == before
    assert "syncagent-logs" not in {thread.name for thread in threading.enumerate()}
    assert log_path.read_text().count("\n") == 1


def test_configuring_again_neither_loses_nor_doubles_a_record(tmp_path):
    """Threads that log while the set-up is replaced find each record in one file."""
    done = threading.Event()
    counts = [0, 0, 0]

    def work(which):
        while not done.is_set():
            log.info("%d %d", which, counts[which])
            counts[which] += 1
            done.wait(0.0005)

    setup = logs.configure(tmp_path / "0.log", json=True, queue_size=10**6)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for i in range(1, 12):
        setup = logs.configure(tmp_path / f"{i}.log", json=True, queue_size=10**6)
    done.set()
    for thread in threads:
        thread.join(JOIN_S)
    assert setup.stop()
    lines = [
        line
        for path in tmp_path.glob("*.log")
        for line in path.read_text().splitlines()
    ]
    found = sorted(json.loads(line)["message"] for line in lines)
    assert found == sorted(f"{w} {i}" for w in range(3) for i in range(counts[w]))


def test_configuring_again_for_the_same_file_keeps_the_order(
    log_path, read_json, stall
):
    """What waited in the former set-up is written before anything logged later."""
    former = logs.configure(log_path, json=True)
    replacing = threading.Thread(
        target=logs.configure, args=(log_path,), kwargs={"json": True}
    )
    with stall():
        for i in range(1000):
            log.info("%d", i)
        replacing.start()
        deadline = time.monotonic() + JOIN_S
        while (
            configuration._setups["syncagent"] is former and time.monotonic() < deadline
        ):
            replacing.join(0.001)
        assert configuration._setups["syncagent"] is not former
        for i in range(1000, 2000):
            log.info("%d", i)
    replacing.join(JOIN_S)
    assert configuration._setups["syncagent"].stop()
    assert [each["message"] for each in read_json()] == [str(i) for i in range(2000)]


def test_a_handler_that_somebody_still_holds_does_nothing_after_stop(log_path):
    """A thread that was about to log when stop() came starts nothing anew."""
    setup = logs.configure(log_path)
    [ours] = [each for each in log.parent.handlers if isinstance(each, QueueHandler)]
    assert setup.stop()
    ours.handle(logging.makeLogRecord({"msg": "late", "levelno": logging.ERROR}))
    assert "syncagent-logs" not in {thread.name for thread in threading.enumerate()}


def test_a_set_up_that_was_replaced_does_not_stop_its_successor(tmp_path):
    """stop() of the old object concerns the old file only."""
    old = logs.configure(tmp_path / "old.log")
    with logs.configure(tmp_path / "new.log"):
        assert old.stop()
        log.info("goes on")
    assert "goes on" in (tmp_path / "new.log").read_text()


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"level": "LOUD"}, ConfigurationError, "'LOUD' is unknown"),
        ({"level": -1}, ConfigurationError, "-1 is unknown"),
        ({"level": None}, TypeError, "level must be .* not None"),
        ({"level": True}, TypeError, "level must be .* not True"),
        ({"max_bytes": -1}, ConfigurationError, "max_bytes must be at least 0; got -1"),
        ({"max_bytes": 1.5}, TypeError, "max_bytes must be an int, not 1.5"),
        ({"backups": -2}, ConfigurationError, "backups must be at least 0; got -2"),
        ({"backups": "5"}, TypeError, "backups must be an int, not '5'"),
        ({"queue_size": 0}, ConfigurationError, "queue_size must be at least 1; got 0"),
        ({"logger": log}, TypeError, "name of a logger, not <Logger"),
    ],
)
def test_a_bad_setting_is_refused_with_its_value(log_path, settings, error, says):
    """A mistake is reported by configure() itself, and creates nothing."""
    with pytest.raises(error, match=says):
        logs.configure(log_path, **settings)
    assert not log_path.exists()


@pytest.mark.parametrize(
    ("path", "error", "says"),
    [
        ("", ConfigurationError, "path is empty"),
        (None, TypeError, "NoneType"),
        (b"x.log", TypeError, r"not b'x\.log'"),
        ("missing/x.log", ConfigurationError, "existing directory"),
        (".", ConfigurationError, "is a directory"),
        ("pipe", ConfigurationError, "not a regular file"),
        ("file/x.log", ConfigurationError, "existing directory"),
        ("nul\0.log", ConfigurationError, "embedded null"),
        ("/proc/self/x.log", ConfigurationError, "cannot log to"),
    ],
)
def test_a_bad_path_is_refused_at_once(tmp_path, monkeypatch, path, error, says):
    """A path that cannot be written shows on the caller's thread, with advice."""
    before = logging.getLogger("syncagent").handlers[:]
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "file").touch()
    with pytest.raises(error, match=says):
        logs.configure(path)
    assert logging.getLogger("syncagent").handlers == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused_at_once(tmp_path):
    """Rotation needs to create files, so a read-only directory is an error."""
    tmp_path.chmod(0o555)
    with pytest.raises(ConfigurationError, match="may create files"):
        logs.configure(tmp_path / "x.log")
