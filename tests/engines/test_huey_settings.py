"""A consumer of Huey warns about settings that harm runs."""

import pytest

from syncagent.exceptions import ConfigurationError
from syncagent.integrations.huey import complaints, connect
from syncagent.stores import RunStore

pytestmark = pytest.mark.engines


def complaints_of(kind="thread", **options):
    """Return the complaints about a consumer with two tasks."""
    huey = pytest.importorskip("huey").MemoryHuey()
    huey.create_consumer(worker_type=kind)

    @huey.task(name="work", **options)
    def work(run_id):
        options.work(run_id)

    @huey.task(name="mail", timeout=3, expires=3)
    def mail(address):
        """Do something that has nothing to do with runs."""

    return list(complaints(huey))


def test_the_recipe_is_fine():
    """Nothing is said about the settings of the recipe, nor about other tasks."""
    assert complaints_of(retries=3, retry_delay=1) == []


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("process", {}, "use -k thread"),
        ("thread", {"expires": 60}, "has expires=60"),
        ("greenlet", {}, "use -k thread, unless all tools only wait"),
    ],
)
@pytest.mark.filterwarnings("ignore:Monkey-patching")
def test_harmful_settings(kind, options, words):
    """Each one is named, with its effect and the setting to use instead."""
    if kind == "greenlet":
        pytest.importorskip("gevent")
    (complaint,) = complaints_of(kind, **options)
    assert words in complaint


def test_a_timeout():
    """Threads ignore it; in a process it fails the run."""
    assert complaints_of("thread", timeout=60) == []
    _, complaint = complaints_of("process", timeout=60)
    assert "work has a timeout of 60 seconds" in complaint
    assert "use submit(timeout=)" in complaint


def test_a_consumer_that_cannot_open_the_store(caplog, tmp_path):
    """It says why in one line, and not once for each of its workers."""
    huey = pytest.importorskip("huey").MemoryHuey()
    store = RunStore(f"sqlite:///{tmp_path}/runs.db")
    store.close()
    connect(huey, store)
    (prepare,) = huey._startup.values()
    for _ in range(3):
        prepare()
    (record,) = caplog.records
    assert "the store is closed" in record.getMessage()


def test_a_grace_that_cannot_be():
    """It is refused where it is written."""
    pytest.importorskip("huey")
    with pytest.raises(ConfigurationError, match="grace"):
        connect(None, None, grace=-1)
