"""``syncagent cancel``, ``answer`` and ``follow``: runs that another process has."""

import signal
import sqlite3

import pytest
from shell import read_until
from store_process import get, submit, working
from support.commands import finish, start
from support.threads import until

from syncagent.cli.store_access import operator_name
from syncagent.events import InterruptRaised, RunFinished, TextDelta, decode_event
from syncagent.stores import RunStore
from syncagent.testing import FakeServer, Send, Stall, call, say

#: Each begins a worker, a process of its own.
pytestmark = pytest.mark.slow


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/runs.db"


def stuck(text="Once upon a time there was"):
    """Return a response that ends in the middle, after some words."""
    return say(text * 3, acts=[Send(12), Stall()])


def run(url, *arguments):
    """Run a command with a store to its end; return its exit code, output, errors."""
    return finish(*arguments, env={"SYNCAGENT_STORE": url})


def follow(url, *arguments):
    """Begin to follow a run."""
    return start("follow", *arguments, env={"SYNCAGENT_STORE": url})


def wait_for(url, id, state):
    return until(lambda: (found := get(url, id)).state == state and found)


# -- which run -----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["cancel", "answer", "follow"])
def test_an_unknown_run(url, command):
    """An id that does not exist, or too little of one that does: code 6."""
    id = submit(url)
    for given, complaint in (("x" * 48, "no run"), (id[:7], "8 characters or more")):
        code, _, err = run(url, command, given)
        assert code == 6
        assert complaint in err
        assert id not in err


def test_the_beginning_of_an_id_is_enough(url):
    """It must fit one run only; a whole id counts, whatever begins with it."""
    for id in ("order-0001", "order-0001-b", "order-0002", "_"):
        submit(url, id=id)
    code, _, err = run(url, "cancel", "order-00")
    assert code == 6
    assert "several runs begin with 'order-00'" in err
    assert run(url, "cancel", "order-0001")[0] == 0
    assert get(url, "order-0001-b").state == "queued"
    assert run(url, "cancel", "order-0001-")[0] == 0
    assert get(url, "order-0001-b").state == "cancelled"
    assert run(url, "cancel", "order_0002")[0] == 6  # no wildcard
    assert run(url, "cancel", "_")[0] == 0


# -- cancel --------------------------------------------------------------------------


def test_a_run_of_another_process_is_cancelled(url):
    """It has ended when the command has; who did it and why is recorded."""
    with FakeServer([stuck()]) as server, working(url, server) as worker:
        id = worker.submit("Tell a story.")
        with follow(url, id) as follower:
            read_until(follower.stdout, "Once")
            code, out, _ = run(url, "cancel", id[:8], "--reason", "too long")
            assert (code, out) == (0, "Cancelled; the run has ended.\n")
            _, err = follower.communicate()
    assert follower.returncode == 130
    assert f"cancelled by {operator_name()}: too long" in err
    found = get(url, id)
    cancel = found.cancel
    assert (found.state, cancel.reason) == ("cancelled", "too long")
    assert (cancel.origin, cancel.by) == ("remote", operator_name())
    code, out, _ = run(url, "cancel", id)
    assert (code, out) == (3, "The run had already ended.\n")


def test_a_cancel_whose_end_does_not_come(url):
    """The worker is frozen: the cancel is recorded, the code is 4, and it counts."""
    with FakeServer([stuck()]) as server, working(url, server) as worker:
        id = worker.submit("Tell a story.")
        wait_for(url, id, "running")
        worker.send_signal(signal.SIGSTOP)
        code, out, err = run(url, "cancel", id, "--wait", "0.1")
        assert code == 4
        assert "ends as soon as its worker notices" in out
        assert "was not recorded within 0.1 s" in err
        code, out, _ = run(url, "cancel", id, "--wait", "0")
        assert code == 0
        assert "It was cancelled before: cancelled by an operator" in out
        with start("cancel", id, env={"SYNCAGENT_STORE": url}) as waiting:
            read_until(waiting.stdout, "before")
            waiting.send_signal(signal.SIGINT)
            waiting.communicate()
        assert waiting.returncode == 130
        worker.send_signal(signal.SIGCONT)
        wait_for(url, id, "cancelled")


def test_a_cancel_can_wait_for_the_turn(url):
    """--mode after_turn does not wait for the end of the run, unless it is told to."""
    with FakeServer([stuck()]) as server, working(url, server) as worker:
        id = worker.submit("Tell a story.")
        wait_for(url, id, "running")
        code, out, _ = run(url, "cancel", id, "--mode", "after_turn")
        assert code == 0
        assert "ends as soon as" in out
        assert "cancelling" in run(url, "runs")[1]
        assert run(url, "cancel", id)[0] == 0
        assert get(url, id).state == "cancelled"


@pytest.mark.parametrize("wrong", [["--mode", "soon"], ["--wait", "x"], []])
def test_wrong_usage_of_cancel(url, wrong):
    """A wrong option, or no id: code 2."""
    assert run(url, "cancel", *(["some-id", *wrong] if wrong else []))[0] == 2


# -- answer --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (["yes"], "launched a rocket"),
        (["no"], "The user said no."),
        (["no", "--reason", "too dear"], "too dear"),
    ],
)
def test_an_approval_lets_the_run_continue(url, answer, heard):
    """The worker goes on at once, and the model gets the result or the reason."""
    replies = [say(call("launch", {"what": "a rocket"})), "Done."]
    with FakeServer(replies) as server, working(url, server) as worker:
        id = worker.submit("Launch it.")
        (question,) = wait_for(url, id, "waiting").interrupts
        listed = f'{question.id}  Allow launch(what="a rocket")?\n'
        assert run(url, "answer", id) == (0, listed, "")
        code, out, _ = run(url, "answer", id[:8], question.id, *answer)
        assert (code, out) == (0, f"{question.id}  taken\n")
        assert wait_for(url, id, "done").result.text == "Done."
        assert heard in str(server.requests[-1].payload["messages"][-1])
        assert run(url, "answer", id, question.id, "no")[0] == 3
        code, out, _ = run(url, "answer", id, "no")  # of two operators, the second
        assert (code, out) == (3, "There are no open questions; the run is done.\n")
        assert "no open questions; the run is done" in run(url, "answer", id)[1]
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        rows = connection.execute("SELECT given_by FROM syncagent_answer").fetchall()
    connection.close()
    assert rows == [(operator_name(),)]


def test_questions_are_answered_with_text(url):
    """Several at once; yes to a question of a tool is a text."""
    asked = [call("ask", {"question": f"{what}?"}, call_id=what) for what in ("A", "B")]
    with (
        FakeServer([say(*asked), "Thanks."]) as server,
        working(url, server) as worker,
    ):
        id = worker.submit("Ask me.")
        first, second = (q.id for q in wait_for(url, id, "waiting").interrupts)
        code, _, err = run(url, "answer", id, "yes")
        assert code == 2
        assert "the run has 2 open questions" in err
        assert run(url, "answer", id, first, "yes", second)[0] == 2
        assert run(url, "answer", id, first, "x", "A", "y")[0] == 2
        assert run(url, "answer", id, first, "x", "--reason", "y")[0] == 2
        assert run(url, "answer", id, "nonsense", "yes")[0] == 6
        assert run(url, "answer", id, first, "yes", second, "a b")[0] == 0
        wait_for(url, id, "done")
        told = str(server.requests[-1].payload["messages"][-2:])
    assert "the user said yes" in told
    assert "the user said a b" in told


@pytest.mark.parametrize(
    ("arguments", "lines", "heard"),
    [
        (['{"name": "Ann", "seats": 3}'], None, "booked {'name': 'Ann', 'seats': 3}"),
        (["/decline"], None, "not booked"),
        (["--fill"], "Ann\nx\n\n", "booked {'name': 'Ann', 'seats': 2}"),
        (["--fill"], "/decline\n", "not booked"),
    ],
)
def test_a_form_is_answered(url, arguments, lines, heard):
    """With JSON, or field by field; a wrong answer leaves the question open."""
    with (
        FakeServer([say(call("book")), "Thanks."]) as server,
        working(url, server) as worker,
    ):
        id = worker.submit("Ask me.")
        (question,) = wait_for(url, id, "waiting").interrupts
        listed = run(url, "answer", id)[1]
        assert "Which table? (form: name (text), seats (integer, optional))" in listed
        code, _, err = run(url, "answer", id, '{"seats": 3}')
        assert (code, "'name' is missing" in err) == (2, True)
        env = {"SYNCAGENT_STORE": url}
        code, out, err = finish("answer", id, *arguments, said=lines, env=env)
        assert (code, out) == (0, f"{question.id}  taken\n")
        assert ("must be a whole number" in err) == ("x" in (lines or ""))
        wait_for(url, id, "done")
        assert heard in str(server.requests[-1].payload["messages"][-1])


def test_an_approval_is_yes_or_no(url):
    """Anything else is refused, and the question stays open."""
    replies = [say(call("launch", {"what": "a rocket"})), "Done."]
    with FakeServer(replies) as server, working(url, server) as worker:
        id = worker.submit("Launch it.")
        wait_for(url, id, "waiting")
        for question in ([], ["approval:"]):  # the beginning of its id is enough
            code, _, err = run(url, "answer", id, *question, "perhaps")
            assert code == 2
            assert "answered with yes or no; got 'perhaps'" in err
        assert get(url, id).state == "waiting"


# -- follow --------------------------------------------------------------------------


def test_a_run_is_followed_to_its_end(url):
    """Text on standard output; tools, questions and usage on standard error."""
    replies = [say("Ready.", call("launch", {"what": "a rocket"})), "It flies."]
    with FakeServer(replies) as server, working(url, server) as worker:
        id = worker.submit("Launch it.")
        with follow(url, id[:8]) as follower:
            read_until(follower.stderr, "answer with: syncagent answer")
            assert run(url, "answer", id, "yes")[0] == 0
            out, err = follower.communicate()
    assert (follower.returncode, out) == (0, "Ready.\nIt flies.\n")
    assert 'tool launch(what="a rocket")\ntool launch done\n' in err
    assert "2 turns" in err
    assert id not in err
    assert run(url, "follow", id, "--quiet")[1] == out


def test_events_are_followed_as_json(url):
    """Each line is an event; --after begins after so many."""
    with FakeServer(["Hello you."]) as server, working(url, server) as worker:
        id = worker.submit("Hello")
        code, out, _ = run(url, "follow", id, "--json")
    lines = out.splitlines()
    events = [decode_event(line.encode()) for line in lines]
    assert code == 0
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello you."
    assert any(isinstance(event, RunFinished) for event in events)
    assert not any(isinstance(event, InterruptRaised) for event in events)
    assert get(url, id).events == len(lines)
    code, out, _ = run(url, "follow", id, "--json", "--after", "2")
    assert (code, out.splitlines()) == (0, lines[2:])
    assert run(url, "follow", id, "--after", "-1")[0] == 2


@pytest.mark.parametrize(
    ("signum", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_ctrl_c_ends_only_the_following(url, signum, expected):
    """The run goes on, and the text so far is there."""
    with FakeServer([stuck()]) as server, working(url, server) as worker:
        id = worker.submit("Tell a story.")
        with follow(url, id) as follower:
            read_until(follower.stdout, "Once upon a")
            follower.send_signal(signum)
            _, err = follower.communicate()
        assert follower.returncode == expected
        assert "no longer following; the run continues" in err
        assert get(url, id).state == "running"


def test_how_a_run_ended_is_the_exit_code(url):
    """A failure is 1, and its message is told; a run that is deleted is 6."""
    with FakeServer([]) as server, working(url, server) as worker:
        id = worker.submit("Hello")
        code, _, err = run(url, "follow", id)
    assert code == 1
    assert "syncagent: the run failed: " in err
    deleted = submit(url, owner="anna")
    with follow(url, deleted) as follower:
        read_until(follower.stderr, "is queued")
        with RunStore(url) as store:
            store.forget("anna")
        _, err = follower.communicate()
    assert follower.returncode == 6
    assert "was deleted" in err


def test_events_that_were_deleted_are_told(url):
    """The retention has passed over the events: they are missing, not invented."""
    with FakeServer(["Hello you."]) as server, working(url, server) as worker:
        id = worker.submit("Hello")
        wait_for(url, id, "done")
    assert run(url, "store", "prune", "--events", "0")[0] == 0
    code, out, err = run(url, "follow", id)
    assert (code, out) == (0, "")
    assert "events are missing" in err


def test_an_observer_keeps_a_run_followed(url):
    """A run that ends without followers does not end while one of them looks."""
    id = submit(url, unfollowed_seconds=30.0)

    def followed_until():
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            rows = connection.execute("SELECT followed_until FROM syncagent_run")
            ((found,),) = rows.fetchall()
        connection.close()
        return found

    with RunStore(url, lease=0.1) as store, store.events(id):
        first = followed_until()
        until(lambda: followed_until() > first)
