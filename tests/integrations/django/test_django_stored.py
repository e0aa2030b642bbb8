"""A site whose runs are in a store: its own database, any worker, WSGI and ASGI."""

import json
import os
import signal

import pytest
import site_of_tests
from django.db import connections
from django.test import override_settings
from sites import Site
from support.web.servers import moments

from syncagent.exceptions import ConfigurationError
from syncagent.integrations.django.checks import check_settings
from syncagent.integrations.django.conf import get_runs
from syncagent.integrations.django.databases import store_url
from syncagent.integrations.web.stored_runs import StoredRuns
from syncagent.stores import RunStore
from syncagent.stores.urls import open_backend

GOOD = site_of_tests.SYNCAGENT
TOKEN = {"Authorization": f"Bearer {site_of_tests.TOKEN}"}

# -- the setting -------------------------------------------------------------------


def database(monkeypatch, **settings):
    """Have the default database be another one, without a connection."""
    changed = {**connections["default"].settings_dict, **settings}
    monkeypatch.setattr(connections["default"], "settings_dict", changed)


def test_beside_a_file_of_sqlite(monkeypatch, tmp_path):
    """django:default is a file beside that of the database, whatever its name."""
    database(monkeypatch, NAME=tmp_path / "a %20 db.sqlite3")
    backend = open_backend(store_url("default"))
    assert backend.path == str(tmp_path / "a %20 db-runs.sqlite3")


def test_in_postgresql(monkeypatch):
    """django:default has the same server, database, user and TLS settings."""
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setattr(type(connections["default"]), "vendor", "postgresql")
    database(
        monkeypatch,
        NAME="a b&c",
        USER="anna",
        PASSWORD="p@ss/w%rd",
        HOST="/run/sockets",
        PORT="",
        OPTIONS={"sslmode": "require", "pool": True, "isolation_level": 3},
    )
    assert psycopg.conninfo.conninfo_to_dict(store_url("default")) == {
        "dbname": "a b&c",
        "user": "anna",
        "password": "p@ss/w%rd",
        "host": "/run/sockets",
        "sslmode": "require",
    }


def test_databases_that_cannot_be(monkeypatch):
    """Each error says what to set instead."""
    with pytest.raises(ConfigurationError, match="DATABASES has no 'other'"):
        store_url("other")
    with pytest.raises(ConfigurationError, match="not a plain file"):
        store_url("default")  # in memory
    monkeypatch.setattr(type(connections["default"]), "vendor", "mysql")
    with pytest.raises(ConfigurationError, match="needs PostgreSQL or SQLite"):
        store_url("default")


def found(**changes):
    with override_settings(SYNCAGENT={**GOOD, **changes}):
        return [(message.id, message.msg) for message in check_settings(None)]


def test_several_workers_need_no_warning(monkeypatch, tmp_path):
    """With a store manage.py check has nothing to say about several workers."""
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    assert found()[0][0] == "syncagent.W003"
    assert found(STORE=f"sqlite:///{tmp_path}/runs.db") == []


def test_a_store_with_an_agent_of_its_own(tmp_path):
    """A RunStore needs no AGENT, and a second one is an error."""
    store = RunStore(f"sqlite:///{tmp_path}/runs.db", site_of_tests.make_stored_agent)
    assert found(STORE=store, AGENT=None) == []
    ((id, message),) = found(STORE=store)
    assert id == "syncagent.E005"
    assert "make_agent of its own" in message
    store.close()


def test_a_store_with_an_engine(tmp_path):
    """ENQUEUE gets each run, by its dotted name, too; it needs the URL of a store."""
    url = f"sqlite:///{tmp_path}/runs.db"
    carried = []
    changes = {"STORE": url, "ENQUEUE": lambda run: carried.append(run.id)}
    with override_settings(SYNCAGENT={**GOOD, **changes}), get_runs().store as store:
        assert [store.submit("A story")] == carried
    assert found(STORE=url, ENQUEUE="site_of_tests.make_agent") == []
    ((id, message),) = found(ENQUEUE=print)
    assert (id, "needs the URL of a store" in message) == ("syncagent.E005", True)
    ((id, message),) = found(STORE=url, ENQUEUE="nowhere.enqueue")
    assert (id, "cannot be imported" in message) == ("syncagent.E001", True)


def test_nothing_is_opened_by_a_setting(tmp_path):
    """The runs of a store exist before a worker opens it, or its first request."""
    url = f"sqlite:///{tmp_path}/runs.db"
    with override_settings(SYNCAGENT={**GOOD, "STORE": url}):
        runs = get_runs()
        assert isinstance(runs, StoredRuns)
        runs.close()
    assert list(tmp_path.iterdir()) == []


# -- served ------------------------------------------------------------------------


@pytest.fixture(
    scope="module", params=[("django-gunicorn", "--workers", "3"), ("django-uvicorn",)]
)
def stored(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    with Site(
        request.param[0], folder, *request.param[1:], STORE="django:default"
    ) as s:
        yield s
        assert (folder / "notes-runs.sqlite").exists()


def start(site, talk, fake):
    """Begin a run, and return its id."""
    body = {"prompt": talk, "options": {"provider": fake.base_url}}
    status, said = site.ask("POST", "/runs", body)
    assert status == 202, said
    return json.loads(said)["id"]


@pytest.mark.slow
def test_stop(stored, fake):
    """10 of 10 runs are followed and stopped, whichever worker is asked."""
    for _ in range(10):
        id = start(stored, "stall", fake)
        with stored.follow(id) as client:
            client.until("text_delta")
            assert stored.ask("POST", f"/runs/{id}/cancel", {})[0] == 202
            assert client.until("end")[2]["cancellation"]["origin"] == "user"


@pytest.mark.slow
def test_an_approval(stored, fake):
    """The answer may reach another worker than the question came from."""
    for _ in range(5):
        id = start(stored, "approval", fake)
        with stored.follow(id) as client:
            question = client.until("interrupt_raised")[2]["interrupts"][0]["id"]
            body = {"answers": {question: {"allow": True}}}
            assert stored.ask("POST", f"/runs/{id}/answers", body)[0] == 200
            assert "launched to the moon" in client.until("end")[2]["text"]


@pytest.mark.slow
def test_a_reload(stored, fake):
    """A stream goes on after the last event that was seen, and ends with 204."""
    id = start(stored, "long", fake)
    with stored.follow(id) as client:
        first = client.until("text_delta")
    with stored.follow(id, first[0]) as client:
        rest = [event for event in client.events() if event and event[0]]
    assert [event[0] for event in rest] == list(range(first[0] + 1, rest[-1][0] + 1))
    said = [e[2]["text"] for e in (first, *rest) if e[1] == "text_delta"]
    assert "".join(said) == "word " * 3000
    with stored.follow(id, rest[-1][0]) as client:
        assert client.response.status == 204


@pytest.mark.slow
def test_no_connection_is_kept_for_a_run(stored, fake):
    """The agent was made with the database, whose connection is closed after that."""
    id = start(stored, "stall", fake)
    with stored.follow(id) as client:
        client.until("text_delta")
    assert stored.wait(lambda state: state["databases"] == 0, "no connection")
    assert stored.ask("POST", f"/runs/{id}/cancel", {})[0] == 202


@pytest.mark.slow
def test_the_operator(stored, fake):
    """The operator lists the runs of all workers, and cancels one."""
    id = start(stored, "stall", fake)
    _, said = stored.ask("GET", "/operator/runs", user="", **TOKEN)
    assert id in [run["id"] for run in json.loads(said)["runs"]]
    path = f"/operator/runs/{id}/cancel"
    assert stored.ask("POST", path, user="", **TOKEN)[0] == 202
    with stored.follow(id) as client:
        assert client.until("end")[2]["cancellation"]["origin"] == "remote"


@pytest.mark.slow
def test_a_run_that_is_nowhere(stored):
    """No process closes the connection: another one has no other runs."""
    status, said = stored.ask("GET", f"/runs/{'x' * 48}")
    assert (status, json.loads(said)["error"]["code"]) == (404, "not_found")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["django-gunicorn", "django-uvicorn"])
def test_sigterm_gives_the_run_back(name, fake, tmp_path):
    """A server that ends leaves its run to another one, which finishes it."""
    with Site(name, tmp_path, STORE="django:default") as site:
        id = start(site, "stall", fake)
        with site.follow(id) as client:
            client.until("text_delta")
            pid = site.state()["pid"]
            os.kill(pid, signal.SIGTERM)
            assert "end" not in [each[1] for each in client.events() if each]
        site.stop()
    with RunStore(f"sqlite:///{tmp_path}/notes-runs.sqlite") as store:
        run = next(run for run in (store.get(id) for _ in moments()) if run)
        assert (run.state, run.crashes) == ("queued", 0)
        assert store.cancel(id)
