"""Temporal: what can be tried without its server, which is an activity."""

import importlib
import sys
import threading

import pytest
from engine import HERE
from support.threads import until

testing = pytest.importorskip("temporalio.testing")
pytestmark = pytest.mark.engines


@pytest.fixture
def recipe(monkeypatch, tmp_path):
    monkeypatch.setenv("SYNCAGENT_STORE", f"sqlite:///{tmp_path}/runs.db")
    monkeypatch.syspath_prepend(HERE / "recipes")
    recipe = importlib.import_module("temporal_recipe")
    with recipe.store:
        yield recipe
    del sys.modules["temporal_recipe"]


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_run_in_an_activity(recipe, tmp_path, is_cancelled):
    """The activity beats while the run is at work; a cancel of it cancels the run."""
    ledger = tmp_path / "ledger"
    id = recipe.store.submit("Go.", labels={"kind": "held", "effects": str(ledger)})
    environment = testing.ActivityEnvironment()
    beats = []
    environment.on_heartbeat = lambda *details: beats.append(details)
    activity = threading.Thread(target=environment.run, args=(recipe.work, id))
    activity.start()
    until(lambda: ledger.exists() and beats)
    if is_cancelled:
        environment.cancel()
    else:
        (tmp_path / "ledger.go").touch()
    activity.join(10)
    assert not activity.is_alive()
    run = recipe.store.get(id)
    if is_cancelled:
        assert (run.state, run.cancel.origin) == ("cancelled", "remote")
    else:
        assert run.state == "done"
