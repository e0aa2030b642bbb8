"""A disk that stalls or is full: runs go on, and the file tells what is missing."""

import logging
import threading

from syncagent import logs

JOIN_S = 10
log = logging.getLogger("syncagent.test")


def test_a_stalled_disk_holds_nobody_up_and_losses_are_reported(
    log_path, read_json, stall
):
    """The caller gets through while nothing is written; one line counts the lost."""
    with logs.configure(log_path, json=True, queue_size=10) as setup:
        with stall():
            for i in range(100):
                log.info("%d", i)
            lost = setup.lost
            assert 89 <= lost <= 90
        assert setup.flush()
        log.info("room again")
    messages = [each["message"] for each in read_json()]
    [report] = [each for each in messages if "lost" in each]
    assert report.startswith(f"{lost} log records were lost")
    assert messages.index(report) >= 5, "there was no room yet"
    assert len(messages) == 100 - lost + 2
    assert "room again" in messages


def test_stop_gives_up_on_a_stalled_disk(log_path, stall, capsys):
    """stop() keeps to its timeout; the thread ends when the disk answers."""
    setup = logs.configure(log_path)
    with stall():
        log.info("waits")
        assert not setup.flush(timeout=0.05)
        assert not setup.stop(timeout=0.05)
    assert "did not finish within 0.05 s" in capsys.readouterr().err
    [thread] = [t for t in threading.enumerate() if t.name == "syncagent-logs"] or [
        None
    ]
    if thread is not None:
        thread.join(JOIN_S)
    assert setup.stop()
    assert "waits" in log_path.read_text()


FULL_DISK = """
import logging, resource, signal, sys
from syncagent import logs
from syncagent.testing import FakeClock

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = logging.getLogger("syncagent.test")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

with FakeClock() as clock, logs.configure(sys.argv[1], json=True) as setup:
    log.info("before")
    assert setup.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    for minute in range(2):
        clock.advance(61)
        for i in range(20):
            log.info("x" * 300)
        assert setup.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    log.info("after")
    assert setup.flush()
    print(setup.lost)
"""


def test_a_full_disk_costs_records_but_neither_thread_nor_line(
    log_path, read_json, run_script
):
    """Writing goes on when there is room again; standard error hears once a minute."""
    done = run_script(FULL_DISK, log_path)
    lost = int(done.stdout)
    assert 35 < lost < 40
    assert done.stderr.count("\n") == done.stderr.count("File too large") == 2
    messages = [each["message"] for each in read_json()]
    assert messages[0] == "before"
    assert messages[-2] == "after"
    assert messages[-1].startswith(f"{lost} log records were lost")
    assert len(messages) == 40 - lost + 3


def test_a_directory_that_vanishes_costs_records_but_not_the_thread(tmp_path, capsys):
    """The file is made again when its directory is back."""
    home = tmp_path / "home"
    home.mkdir()
    with logs.configure(home / "x.log", max_bytes=0) as setup:
        for path in list(home.iterdir()):
            path.unlink()
        home.rmdir()
        log.info("nowhere")
        assert setup.flush()
        home.mkdir()
        log.info("back")
    assert "records are lost until that ends" in capsys.readouterr().err
    text = (home / "x.log").read_text()
    assert "back" in text
    assert "1 log record was lost" in text
