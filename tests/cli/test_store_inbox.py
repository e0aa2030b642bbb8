"""``syncagent inbox``, ``audit`` and ``conversations``: for people, on all hosts."""

import json
import re

import pytest
from shell import on_terminal
from store_process import get
from support.commands import finish
from support.store_work import by_hand

from syncagent import Agent, tool
from syncagent.cli.store_access import operator_name
from syncagent.interrupts import Approval
from syncagent.messages import AssistantMessage, Text
from syncagent.testing import ScriptedModel, call, say

#: A title, a name or an argument that would take over a terminal.
HOSTILE = "x\x1b]0;owned\x07\x9b2J\u202ey\r\nz"
#: The characters of it that must not reach a terminal.
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")

HI = AssistantMessage((Text("Hi."),))


@tool(requires_approval=True)
def launch(what: str) -> str:
    """Launch it."""
    return f"launched {what}"


def make_agent(run):
    asked = call("launch", {"what": run.labels.get("what", "a rocket")}, "c1")
    model = ScriptedModel(lambda messages: "Done." if len(messages) > 1 else say(asked))
    return Agent(model, tools=[launch], answer_timeout=run.labels.get("seconds"))


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def store(url):
    """Yield a store that works on a run only if it is told to."""
    with by_hand(
        url, make_agent, approver_of=lambda run, _: run.labels.get("for")
    ) as s:
        yield s


def asking(store, prompt="Launch it.", *, owner="anna", conversation="", **labels):
    """Add a run that waits for an approval; return its id."""
    id = store.submit(prompt, owner=owner, conversation=conversation, labels=labels)
    store.work(id)
    return id


def run(url, *arguments):
    """Run a command with a store to its end; return its exit code, output, errors."""
    return finish(*arguments, env={"SYNCAGENT_STORE": url})


# -- inbox ---------------------------------------------------------------------------


def test_open_questions_are_listed(store, url):
    """Oldest first, each with the whole call, for whom it is, and when it expires."""
    first = asking(store, what="a rocket " * 30, **{"for": "finance"}, seconds=7200)
    second = asking(store, owner="bert", conversation="chat 1")
    code, out, err = run(url, "inbox")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"{first} {store.get(first).interrupts[0].id}"
    assert lines[1] == '    Allow launch(what="' + "a rocket " * 30 + '")?'
    assert lines[2] == "    for finance, owner anna, asked 0s ago, expires in 2h"
    assert lines[3].startswith(f"{second} approval:")
    assert lines[5] == (
        "    for bert, owner bert, conversation chat 1, asked 0s ago, does not expire"
    )


def test_questions_are_chosen_by_approver_and_owner(store, url):
    """Several names can be given: those of a person and of groups."""
    asking(store, **{"for": "finance"})
    mine = asking(store, **{"for": "bert"})
    others = asking(store, owner="carl")
    lines = run(url, "inbox", "--for", "bert", "carl", "--json")[1].splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["id"] for each in found] == [mine, others]
    assert found[0]["approver"] == "bert"
    assert found[0]["question"]["arguments"] == {"what": "a rocket"}
    assert found[0]["expires_at"] is None
    assert others in run(url, "inbox", "--owner", "carl")[1]
    assert run(url, "inbox", "--for", "dora") == (
        0,
        "",
        "There are no open questions.\n",
    )
    assert run(url, "inbox", "--limit", "0")[0] == 2


def test_answer_takes_what_the_inbox_prints(store, url):
    """The first line of a question goes before yes or no; then it is not listed."""
    id = asking(store)
    given = run(url, "inbox")[1].splitlines()[0].split()
    code, out, _ = run(url, "answer", *given, "yes")
    assert (code, out) == (0, f"{given[1]}  taken\n")
    assert run(url, "inbox")[1] == ""
    assert get(url, id).state == "queued"


def test_the_inbox_is_harmless_on_a_terminal(store, url):
    """Control characters are shown as pictures; ids are short, and can be used."""
    id = asking(store, HOSTILE, owner=HOSTILE, conversation=HOSTILE, what=HOSTILE)
    env = {"SYNCAGENT_STORE": url, "NO_COLOR": "1"}
    for arguments in (["inbox"], ["inbox", "--json"], ["conversations"], ["runs"]):
        with on_terminal(*arguments, **env) as terminal:
            assert terminal.finish() == 0
        shown = terminal.screen.replace("\r\n", "\n")
        assert "owned" in shown
        assert not RAW.search(shown), arguments
        if arguments == ["inbox"]:
            assert shown.startswith(f"{id[:12]} approval:")
    store.answer(id, {"c1": Approval(False, reason=HOSTILE)}, by=HOSTILE)
    with on_terminal("audit", **env, COLUMNS="300") as terminal:
        assert terminal.finish() == 0
    assert "denied" in terminal.screen
    assert not RAW.search(terminal.screen.replace("\r\n", "\n"))


# -- audit ---------------------------------------------------------------------------


def test_answers_are_recorded_with_their_kind(store, url):
    """No one said no to a question that expired, or whose run was cancelled."""
    approved = asking(store, **{"for": "finance"})
    assert run(url, "answer", approved, "yes")[0] == 0
    denied = asking(store, owner="bert")
    assert run(url, "answer", denied, "no", "--reason", "too dear")[0] == 0
    expired = asking(store, seconds=0.01)
    while store.get(expired).state == "waiting":
        store.backend.recover(10, 5)
    withdrawn = asking(store, owner="carl")
    assert run(url, "cancel", withdrawn)[0] == 0
    code, out, _ = run(url, "audit")
    head, *lines = out.splitlines()
    assert code == 0
    assert head.split() == ["TIME", "ANSWER", "BY", "FOR", "OWNER", "RUN", "QUESTION"]
    kinds = [line.split()[2] for line in lines]
    assert kinds == ["withdrawn", "expired", "denied", "approved"]
    assert lines[2].endswith('Allow launch(what="a rocket")? too dear')
    assert operator_name() in lines[3]
    assert operator_name() not in lines[1]
    (line,) = run(url, "audit", "--owner", "bert", "--json")[1].splitlines()
    entry = json.loads(line)
    assert (entry["kind"], entry["by"]) == ("denied", operator_name())


def test_answers_of_one_run(store, url):
    """By its id in logs, or the id to answer with; none is not an error."""
    id = asking(store)
    run(url, "answer", id, "yes")
    run(url, "answer", asking(store), "yes")
    for given in (id, id[:8], store.get(id).run_id):
        assert len(run(url, "audit", "--run", given)[1].splitlines()) == 2, given
    assert run(url, "audit", "--run", "x" * 12) == (0, "", "There are no answers.\n")


def test_changed_arguments_are_shown(store, url):
    """Who approved another call than the model asked for is told with that call."""
    id = asking(store)
    store.answer(id, {"c1": Approval(True, {"what": "a kite"}, remember=True)}, by="bo")
    out = run(url, "audit")[1]
    assert 'launch(what="a rocket")? as launch(what="a kite") (remembered)' in out


# -- conversations -------------------------------------------------------------------


def test_conversations_are_listed_and_shown(store, url):
    """Last changed first, with the title; the messages as text, or as JSON."""
    store.conversation("old", owner="anna").append("Hello there.", HI, "Again.")
    asking(store, "Launch it now.", owner="bert", conversation="new")
    head, first, second = run(url, "conversations")[1].splitlines()
    assert head.split() == ["ID", "OWNER", "VERSION", "STATE", "CHANGED", "TITLE"]
    assert first.split()[:4] == ["new", "bert", "1", "live"]
    assert second.endswith("Hello there.")
    (line,) = run(url, "conversations", "--owner", "anna", "--json")[1].splitlines()
    assert json.loads(line)["title"] == "Hello there."
    code, out, _ = run(url, "conversations", "show", "old", "--owner", "anna")
    assert (code, out) == (0, "user: Hello there.\nassistant: Hi.\nuser: Again.\n")
    code, out, _ = run(url, "conversations", "--owner=anna", "--json", "show", "old")
    assert json.loads(out.splitlines()[2])["content"][0]["text"] == "Again."
    assert (
        run(url, "conversations", "--owner", "x")[2] == "There are no conversations.\n"
    )


def test_a_conversation_is_forked_and_deleted(store, url):
    """The new id is printed; the original stays until it is deleted."""
    store.conversation("a", owner="anna").append("One", HI)
    of_anna = ("--owner", "anna")
    assert run(url, "conversations", "fork", "a", "b", *of_anna)[:2] == (0, "b\n")
    other = run(url, "conversations", "fork", "a", "--at", "1", *of_anna)[1].strip()
    assert run(url, "conversations", "show", other, *of_anna)[1] == "user: One\n"
    code, _, err = run(url, "conversations", "fork", "a", "b", *of_anna)
    assert code == 1
    assert "already" in err
    deleted = run(url, "conversations", "delete", "a", *of_anna)
    assert deleted == (0, "Deleted.\n", "")
    assert run(url, "conversations", "show", "b", *of_anna)[0] == 0


@pytest.mark.parametrize("action", ["show", "fork", "delete"])
def test_a_conversation_that_does_not_exist(url, store, action):
    """Code 6; another owner's conversation of this name is not found."""
    store.conversation("a", owner="anna").append("One")
    for arguments in (["a"], ["b", "--owner", "anna"]):
        code, out, err = run(url, "conversations", action, *arguments)
        assert (code, out) == (6, "")
        assert "there is no conversation" in err
    assert store.conversation("a", owner="anna").version == 1


def test_calls_and_results_are_shown(store, url):
    """A conversation with tools can be read."""
    id = asking(store, conversation="c")
    store.answer(id, {"c1": True})
    store.work(id)
    out = run(url, "conversations", "show", "c", "--owner", "anna")[1]
    assert out.splitlines() == [
        "user: Launch it.",
        'assistant: [launch {"what":"a rocket"}]',
        "tool: launched a rocket",
        "assistant: Done.",
    ]


def test_conversations_and_answers_are_pruned(store, url):
    """Each by its own age; a conversation goes after its runs."""
    id = asking(store, conversation="c")
    store.answer(id, {"c1": True})
    store.work(id)
    kept = run(url, "store", "prune", "--conversations", "0", "--audit", "1h")
    nothing = "Deleted 0 conversations.\nDeleted the record of 0 answers.\n"
    assert kept[:2] == (0, nothing)
    code, out, _ = run(
        *(url, "store", "prune"),
        *("--audit", "0", "--conversations", "0", "--runs", "0"),
    )
    assert (code, out) == (
        0,
        "Deleted 1 run.\nDeleted 1 conversation.\nDeleted the record of 1 answer.\n",
    )
