"""``manage.py syncagent`` on a site whose runs are in a store."""

from io import StringIO

import pytest
import site_of_tests
from django.core.management import CommandError, call_command
from django.test import override_settings

from syncagent.integrations.web.settings import WebSettings
from syncagent.stores import RunStore

needs_store = pytest.mark.skipif(
    "store" not in WebSettings.__struct_fields__, reason="SYNCAGENT has no STORE"
)


def command(*arguments):
    """Run a command; return its exit code and what it printed."""
    out, code = StringIO(), 0
    try:
        call_command("syncagent", *arguments, stdout=out)
    except SystemExit as ended:
        code = ended.code
    return code, out.getvalue()


@needs_store
def test_the_commands_use_the_store_of_the_site(tmp_path):
    """They are those of ``syncagent``, with its exit codes."""
    url = f"sqlite:///{tmp_path}/runs.db"
    with RunStore(url, enqueue=lambda run: None) as store:
        id = store.submit("A story", owner="anna")
    with override_settings(SYNCAGENT={**site_of_tests.SYNCAGENT, "STORE": url}):
        code, output = command("runs", "--live")
        assert code == 0
        assert id in output
        assert command("cancel", id[:8]) == (0, "Cancelled; the run has ended.\n")
        assert command("cancel", id)[0] == 3
        assert command("follow", id)[0] == 130
        for listed in ("inbox", "audit", "conversations"):
            assert command(listed, "--owner", "anna")[0] == 0
        assert command("conversations", "show", "x")[0] == 6
        assert command("store", "check")[0] == 0
        assert command("nonsense")[0] == 2


def test_without_a_store():
    """The command says what is missing, and what there is instead."""
    with pytest.raises(CommandError, match="syncagent_runs and syncagent_cancel"):
        command("runs")
