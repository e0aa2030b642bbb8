"""Replies of the store are lost, before and after the commit: the end is the same."""

import pytest
from support.store_work import (
    ROUNDS,
    WRITES,
    LosesReplies,
    Watched,
    check_done,
    effects,
    finish_all,
    interrupted,
    make_agent,
    submit,
)

from syncagent.exceptions import StoreUnavailable
from syncagent.stores import RunStore


class LosesEverySecond:
    """Fails at every second operation: all replies are lost once."""

    def __init__(self, when):
        self._when = when
        self.count = 0

    def at(self, operation, when):
        if when == self._when:
            self.count += 1
            if self.count % 2:
                raise StoreUnavailable(f"{when} {operation}")


#: Whether the operation is lost, or only the reply to it: the harder case.
WHEN = [pytest.param("before", marks=pytest.mark.stress), "after"]


def end_of(url, kind, folder, faults):
    """Do a run with faults, and check its end; return it."""
    store = RunStore(url, make_agent, lease=15.0)
    store.backend = Watched(store.backend, faults.at, WRITES)
    with store:
        id = submit(store, kind, folder)
        finish_all(store, [id])
        run = check_done(store, id)
    assert interrupted(run) == run.crashes == 0
    assert len(effects(run)) == sum(map(len, ROUNDS[kind]))
    assert run.attempt == (2 if kind == "approved" else 1)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("kind", ROUNDS)
def test_each_reply_lost(url, kind, when, tmp_path):
    """One reply is lost: nothing is done twice, and no worker gives up."""
    number = 0
    while True:
        number += 1
        faults = LosesReplies(number, when)
        end_of(url, kind, tmp_path, faults)
        if not faults.failed:
            break
    assert number > 8


@pytest.mark.slow
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("kind", ROUNDS)
def test_every_second_reply_lost(url, kind, when, tmp_path):
    """All replies are lost once: the same."""
    end_of(url, kind, tmp_path, LosesEverySecond(when))
