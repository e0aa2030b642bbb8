"""A worker of Dramatiq warns about settings that harm runs."""

import types

import pytest

pytestmark = pytest.mark.engines

INFINITE = float("inf")
GOOD = {"time_limit": INFINITE}


def complaints_of(prefetch=8, **options):
    """Return the complaints about a broker with two actors, and a worker."""
    dramatiq = pytest.importorskip("dramatiq")
    from dramatiq.brokers.stub import StubBroker

    from syncagent.integrations.dramatiq import complaints

    broker = StubBroker()

    @dramatiq.actor(broker=broker, **options)
    def work(run_id):
        options.work(run_id)

    @dramatiq.actor(broker=broker, time_limit=1)
    def send_mail(address):
        """Do something that has nothing to do with runs."""

    worker = types.SimpleNamespace(queue_prefetch=prefetch, worker_threads=8)
    return list(complaints(broker, worker))


def test_the_recipe_is_fine():
    """Nothing is said about the settings of the recipe, nor about other actors."""
    assert complaints_of(max_retries=0, **GOOD) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "work has a time limit of 600000 milliseconds"),
        ({"time_limit": 5}, "work has a time limit of 5 milliseconds"),
        ({**GOOD, "notify_shutdown": True}, "work has notify_shutdown"),
        ({**GOOD, "max_age": 9}, "work has a max_age of 9 milliseconds"),
        ({**GOOD, "prefetch": 16}, "set it to 8 in the environment"),
    ],
)
def test_harmful(settings, words):
    """One sentence says what is set, what it does, and what to set."""
    (complaint,) = complaints_of(**settings)
    assert words in complaint
