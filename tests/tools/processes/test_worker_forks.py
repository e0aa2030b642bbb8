"""Functions in workers that fork: only the worker itself comes back."""

import os

import pytest
import worker_jobs as jobs
from calling import Called, context, run
from worker_jobs import Started, is_gone, tell


@pytest.fixture
def gates(tmp_path):
    """Named pipes that a job waits at until a line is written into them."""
    paths = [str(tmp_path / name) for name in ("first", "second")]
    for path in paths:
        os.mkfifo(path)
    return paths


def test_a_child_that_returns_too(mail, gates):
    """S2, 9: the second result of a call is never that of the next one."""
    child = run(jobs.come_back_twice, gates[0])
    started = Called(mail, jobs.wait_at, gates[1], "mine")
    tell(gates[0], "go")  # now, while another call waits for its result
    assert is_gone(child)
    tell(gates[1], "go")
    assert started.end() == "mine"
    assert [run(jobs.add, number) for number in range(20)] == list(range(20))


def test_children_that_return_at_once():
    """S2, 9: the same however the two results come together."""
    for number in range(30):
        child = run(jobs.come_back_twice, os.devnull)
        assert isinstance(child, int)
        assert run(jobs.add, number) == number


@pytest.mark.parametrize(
    ("kind", "status"), [(SystemExit, "3"), (KeyError, "1"), (KeyboardInterrupt, "1")]
)
def test_a_child_that_raises(mail, kind, status):
    """S2: it ends as a program does that raises the same."""
    started = Started(mail, lambda: run(jobs.fork_and_raise, mail.path, kind))
    assert started.pids == [status]
    assert started.end() == "parent"


def test_a_child_cannot_use_the_context():
    """S2, 9: it would write into the frames of the worker."""
    assert run(jobs.report_from_child, context=context()) == 0
    assert run(jobs.add, 1) == 1


def test_a_child_of_an_import(tmp_path, monkeypatch):
    """S2, 6: a module that forks when it is imported is not called twice."""
    calls = tmp_path / "calls"
    calls.write_text("")
    (tmp_path / "forking_jobs.py").write_text(
        "import os\nif 'FORKS' in os.environ: os.fork()\n"
        "def job(path):\n"
        "    with open(path, 'a') as calls: calls.write('x')\n"
        "    return 'once'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import forking_jobs

    monkeypatch.setenv("FORKS", "1")
    assert run(forking_jobs.job, str(calls)) == "once"
    assert calls.read_text() == "x"
    assert run(jobs.add, 1) == 1


def test_a_question_that_is_still_open():
    """S2, 9: its answer is not taken for the next call, nor the call for it."""
    worker = run(jobs.pid)
    served = []

    def serve(kind, question):
        served.append(question)
        return 42

    for _ in range(5):
        said = run(jobs.ask_on_a_thread, context=context(), serve=serve)
        assert said == "returned"
        assert run(jobs.pid) == worker
