"""A saved state is claimed: of all that load it, one gets the agent."""

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from support.processes import (
    in_child,
    run_script,
    script_command,
    script_environment,
)
from support.questions import (
    DO,
    asking,
    do,
    doing,
    model,
    outcomes,
    said_to_model,
)
from support.threads import LONG, together

from syncagent import Agent, ConfigurationError, tool
from syncagent.conversation import claimed
from syncagent.exceptions import StateInvalid, StateTaken
from syncagent.testing import call, say


def paused(*script):
    """Return an agent that waits for an approval."""
    agent = asking(*(script or [DO]), tools=[do])
    agent.run("Go.")
    return agent


def load(state, claim, **settings):
    return Agent.load(state, model(), **{"tools": [do], **settings}, claim=claim)


def approve(agent):
    """Resume with a yes to everything."""
    return agent.resume({question.id: True for question in agent.interrupts})


@pytest.fixture
def claims(tmp_path):
    return tmp_path / "claims"


# -- one of them -----------------------------------------------------------------------


def test_the_second_load_is_refused(claims):
    """The first gets the agent and resumes it; the second learns what to do."""
    state = paused().save()
    first = load(state, claims)
    with pytest.raises(StateTaken, match=r"what that holder has saved.*without claim="):
        load(state, claims)
    assert said_to_model(approve(first).messages) == ["did it"]


def test_it_is_the_same_state_in_any_notation(claims):
    """Bytes, other blanks, another order of keys: a copy of a run is no second one."""
    state = paused().save()
    load(state, claims)
    root = json.loads(state)
    turned = dict(reversed(root.items()))
    for copy in (state.encode(), f"{state}\n", json.dumps(root, indent=1), turned):
        text = copy if isinstance(copy, (str, bytes)) else json.dumps(copy)
        with pytest.raises(StateTaken):
            load(text, claims)


def test_states_that_one_holder_saved_exclude_each_other(claims):
    """Two states of one pause differ, and would yet call the same tool twice."""
    driver = paused().drive()
    early = driver.snapshot().state
    driver.send_input("Hurry.")
    late = driver.snapshot().state
    assert early != late
    load(late, claims)
    with pytest.raises(StateTaken):
        load(early, claims)


def test_what_the_holder_saves_can_be_claimed(claims):
    """Once for each holder in turn, in one folder, and older states stay taken."""
    states = [paused(doing("a", "b")).save()]
    for _ in range(3):
        states.append(load(states[-1], claims).save())
    for taken in states[:-1]:
        with pytest.raises(StateTaken):
            load(taken, claims)
    assert outcomes(approve(load(states[-1], claims))) == ["done", "done"]


def test_a_later_pause_of_the_run_can_be_claimed(claims):
    """A run that asks again is handed on again."""
    agent = paused(DO)
    holder = Agent.load(agent.save(), model(DO), tools=[do], claim=claims)
    assert approve(holder).stop_reason == "interrupt"
    next_holder = load(holder.save(), claims)
    assert outcomes(approve(next_holder)) == ["done", "done"]


def test_without_a_claim_nothing_changes(claims):
    """Loading without a claim looks at none, and saves what was loaded."""
    state = paused().save()
    assert "claims" not in state
    held = load(state, claims).save()
    for each in (state, held):
        assert Agent.load(each, model(), tools=[do]).save() == each


def test_runs_do_not_exclude_each_other(claims):
    """Two runs that look the same are two; so are two folders."""
    states = [paused().save() for _ in range(3)]
    for state in states:
        load(state, claims)
        load(state, claims.with_name("others"))


def test_an_idle_state_is_claimed_by_its_text(claims):
    """Without a run there is nothing else; and its holder can always save it again."""
    agent = asking("Hello.")
    agent.run("Hi.")
    held = load(agent.save(), str(claims)).save()
    with pytest.raises(StateTaken):
        load(agent.save().encode() + b"\n", claims)
    assert load(held, claims).run("Go on.").text == "ok"


# -- many at once ----------------------------------------------------------------------


def pay(order):
    """Return an agent that waits for a yes to pay an order."""

    @tool(name="pay", requires_approval=True)
    def pay(order: int) -> None:
        """Pay an order."""

    agent = Agent(model(say(call("pay", {"order": order}))), tools=[pay])
    agent.run("Pay.")
    return agent.save()


def in_processes(mode, folder, count, *arguments):
    """Run the script over so many states; return what is in the ledger, counted."""
    states = [pay(number) for number in range(count)]
    (folder / "states").write_bytes(msgspec.json.encode(states))
    ran = run_script("conversation/claimed_script", mode, folder, *arguments)
    assert ran.returncode == 0, ran.stderr
    return Counter((folder / "ledger").read_text(encoding="ascii").splitlines())


@pytest.mark.slow
def test_processes_race(tmp_path):
    """8 processes, 50 states: each has one winner, and its tool is called once."""
    ledger = in_processes("race", tmp_path, 50, 8)
    for number in range(50):
        assert ledger[f"won {number}"] == ledger[f"paid {number}"] == 1
        assert ledger[f"taken {number}"] == 7


@pytest.mark.slow
def test_processes_that_are_killed_while_they_race(tmp_path):
    """Never two winners; a kill costs one state a process, and blocks nothing."""
    ledger = in_processes("storm", tmp_path, 200, 20)
    assert set(ledger.values()) == {1}
    assert 200 - 20 * 2 <= len(ledger) <= 200
    assert len(os.listdir(tmp_path / "claims")) == 200


def test_threads_race(claims):
    """16 threads, 20 states: one gets each agent."""
    states = [paused().save() for _ in range(20)]
    won = []

    def work():
        for number, state in enumerate(states):
            try:
                load(state, claims)
            except StateTaken:
                continue
            won.append(number)

    together(*[work] * 16)
    assert sorted(won) == list(range(20))


def killed_at_line(number, state, claims):
    """Kill this process at a line of the claim; return whether it had so many."""
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename != claimed.__file__:
            return None
        left -= event == "line"
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    load(state, claims)
    return False


def test_killed_at_every_line(claims):
    """The state is then free or taken, and never half: later loads do as they should.

    It is free up to the line that creates the file, and taken from there.
    """
    fates = []
    for number in range(1, 200):
        state, other = paused().save(), paused().save()
        load(other, claims)
        if in_child(lambda n=number, s=state: killed_at_line(n, s, claims)) is False:
            break
        try:
            load(state, claims)
            fates.append("free")
        except StateTaken:
            fates.append("taken")
        for taken in (state, other):
            with pytest.raises(StateTaken):
                load(taken, claims)
    assert fates == sorted(fates)
    assert set(fates) == {"free", "taken"}


# -- the folder ------------------------------------------------------------------------


def test_only_the_owner_can_read_claims(claims):
    """Whatever the umask, and a claim says nothing about its run."""
    before = os.umask(0)
    try:
        load(paused().save(), claims)
    finally:
        os.umask(before)
    [claim] = claims.iterdir()
    assert stat.S_IMODE(claims.stat().st_mode) == 0o700
    assert stat.S_IMODE(claim.stat().st_mode) == 0o600
    assert (len(claim.name), claim.stat().st_size) == (64, 0)


def test_a_deleted_claim_is_forgotten(claims):
    """The error names the file, so that a person can take a claim back."""
    state = paused().save()
    load(state, claims)
    with pytest.raises(StateTaken) as caught:
        load(state, claims)
    [claim] = claims.iterdir()
    assert str(claim) in str(caught.value)
    claim.unlink()
    assert load(state, claims).is_paused


def test_a_symbolic_link_is_not_followed(claims, tmp_path):
    """A link in the place of a claim is a claim, and its target is not created."""
    state = paused().save()
    load(state, claims)
    [claim] = claims.iterdir()
    claim.unlink()
    claim.symlink_to(tmp_path / "target")
    with pytest.raises(StateTaken):
        load(state, claims)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("wrong", ["", 5, b"claims", True, [], "a\0b"])
def test_a_claim_that_is_no_path(wrong):
    """It is refused in words, before the state is looked at."""
    with pytest.raises(ConfigurationError, match="claim must be the path of a folder"):
        load("no state", wrong)


def test_a_folder_that_cannot_be(tmp_path):
    """A file, or a folder in a place that does not exist: nothing is loaded."""
    (tmp_path / "file").touch()
    for wrong, why in (("file", "Not a directory"), ("no/such", "No such file")):
        with pytest.raises(ConfigurationError, match=f"not loaded.*{why}.*claim=") as e:
            load(paused().save(), tmp_path / wrong)
        assert type(e.value) is ConfigurationError


@pytest.mark.parametrize("change", [lambda s: s[:-1], lambda s: s.replace("do", "du")])
def test_an_invalid_state_is_not_claimed(claims, change):
    """Nor one that lacks a tool: it can be loaded when it is repaired."""
    state = paused().save()
    with pytest.raises(StateInvalid):
        load(change(state), claims)
    with pytest.raises(StateInvalid):
        load(state, claims, tools=[])
    assert not claims.exists()
    assert load(state, claims).is_paused


def test_a_full_disk(tmp_path):
    """What cannot be claimed is not loaded, and the claims so far stay."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare, to mount a small disk")
    states = [pay(number) for number in range(9)]
    (tmp_path / "states").write_bytes(msgspec.json.encode(states))
    disk = tmp_path / "disk"
    disk.mkdir()
    # The root of the disk, the folder, and three claims.
    mount = 'mount -t tmpfs -o nr_inodes=5 none "$0" && cd "$0" && exec "$@"'
    command = script_command("conversation/claimed_script", "full", tmp_path)
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, disk, *command],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env=script_environment(),
    )
    if "unshare:" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"no small disk can be mounted here: {ran.stderr}")
    assert ran.returncode == 0, ran.stderr
    loaded, error, left = msgspec.json.decode(ran.stdout)
    assert (loaded, left) == (3, 3)
    assert "No space left" in error


def test_no_descriptor_is_left(claims):
    """Then there is no claim and no agent, and the next caller gets it."""
    state = paused().save()

    def without_descriptors():
        load(paused().save(), claims)  # what is imported late is there now
        limit = os.dup(0) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        try:
            load(state, claims)
        except ConfigurationError as error:
            return str(error)
        return "loaded"

    assert "Too many open files" in in_child(without_descriptors)
    assert len(list(claims.iterdir())) == 1
    assert load(state, claims).is_paused
    with pytest.raises(StateTaken):
        load(state, claims)


def test_a_claim_is_taken_back_if_a_signal_handler_raises(claims):
    """A watchdog's TimeoutError reaches the caller, who gets no agent: the next does.

    It is an OSError, and yet no error of the folder.
    """
    state = paused().save()
    claims.mkdir()

    def ring(number, frame):
        raise TimeoutError("the watchdog")

    def trace(frame, event, argument):
        if Path(frame.f_code.co_filename).name == "claimed.py":
            if frame.f_code.co_name == "_sync":
                signal.raise_signal(signal.SIGALRM)
            return trace
        return None

    before = signal.signal(signal.SIGALRM, ring)
    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(TimeoutError, match="the watchdog"):
            load(state, claims)
    finally:
        sys.settrace(tracer)
        signal.signal(signal.SIGALRM, before)
    assert load(state, claims).is_paused


def test_it_is_a_setting_that_cannot_work():
    """Code that catches wrong settings catches it, too."""
    assert issubclass(StateTaken, ConfigurationError)
    assert not issubclass(StateTaken, StateInvalid)
