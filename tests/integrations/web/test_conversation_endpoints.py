"""Conversations over HTTP: list, reopen, fork, delete, and two tabs at once."""

import threading
from urllib.parse import quote

import pytest
from support.threads import LONG
from support.web.kept_sites import FRAMEWORKS, kept_site
from support.web.servers import moments

#: Ids that clients may choose, each a challenge for paths.
NAMES = [
    "a b",
    "a/b",
    "/a//b/",
    "100%",
    "a%2Fb",
    "?x=1#y",
    "fork",
    "a/fork",
    "a/delete",
    "Grüße, 世界 👋",
    "line\nbreak",
    "'; DROP TABLE runs; --",
    "x" * 256,
]


def test_list_and_show(site):
    """A conversation is listed with its title, and has the messages of its runs."""
    anna = site.person("anna")
    anna.run("Hello", conversation="c1", options={"n": 1})
    anna.run("Bye", conversation="c1")
    anna.run("Other", conversation="c2")
    status, said = anna.get("conversations")
    assert status == 200
    assert [(c["id"], c["title"]) for c in said["conversations"]] == [
        ("c2", "Other"),
        ("c1", "Hello"),
    ]
    last, first = said["conversations"]
    assert (first["version"], first["live_run"], first["labels"]) == (2, "", {})
    assert last["changed_at"] >= first["changed_at"]
    status, view = anna.conversation("c1")
    assert (status, view["version"], view["prompt"]) == (200, 2, "")
    texts = [(m["role"], m["content"][0]["text"]) for m in view["messages"]]
    assert texts == [
        ("user", "Hello"),
        ("assistant", "Hello, number 1"),
        ("user", "Bye"),
        ("assistant", "Bye, number 2"),
    ]


def test_tools_are_shown_without_private_details(site):
    """Calls and results are there; the message of an exception is not."""
    anna = site.person("anna")
    anna.run("fail", conversation="c")
    _, view = anna.conversation("c")
    _, called, result, _ = view["messages"]
    (block,) = called["content"]
    assert (block["type"], block["name"], block["arguments"]) == (
        *("tool_call", "fail"),
        "{}",
    )
    (block,) = result["content"]
    assert (block["type"], block["is_error"]) == ("tool_result", True)
    assert "dbhost" not in str(view)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_show_tool_errors(framework, tmp_path):
    """An application that shows them in events shows them here, too."""
    pytest.importorskip("flask" if framework == "wsgi" else framework)
    with kept_site(framework, tmp_path, show_tool_errors=True) as site:
        anna = site.person("anna")
        anna.run("fail", conversation="c")
        assert "dbhost" in str(anna.conversation("c")[1])


def test_a_live_run(site):
    """A conversation names its live run and the prompt, which no message has yet."""
    anna = site.person("anna")
    anna.run("Hello", conversation="c")
    id = anna.start("wait", conversation="c")
    _, view = anna.conversation("c")
    assert (view["live_run"], view["prompt"]) == (id, "wait")
    assert len(view["messages"]) == 2
    assert anna.post(f"runs/{id}/cancel", {})[0] == 202
    anna.wait(id)
    _, view = anna.conversation("c")
    assert (view["live_run"], view["prompt"]) == ("", "")


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_text_is_an_id(site, name):
    """Whatever a client calls a conversation, it can show, fork and delete it."""
    anna = site.person("anna")
    anna.run("Hello", conversation=name)
    path = f"conversations/{quote(name, safe='')}"
    status, view = anna.get(path)
    assert (status, view.get("id")) == (200, name)
    status, forked = anna.post(f"{path}/fork", {"at": 1})
    assert status == 201
    assert forked["id"] != name
    assert anna.post(f"{path}/delete", {}) == (200, {"id": name, "is_deleted": True})
    assert anna.get(path)[0] == 404
    assert anna.conversation(forked["id"])[0] == 200


@pytest.mark.parametrize("name", ["%00", "x" * 257, "%ff%fe", "nothing", "%E2%80"])
def test_what_is_no_id(site, name):
    """A null character, half a letter and a long text are 404, as an unknown id is."""
    anna = site.person("anna")
    for ask in (
        lambda: anna.get(f"conversations/{name}"),
        lambda: anna.post(f"conversations/{name}/fork", {}),
        lambda: anna.post(f"conversations/{name}/delete", {}),
    ):
        assert ask()[0] == 404


def test_other_owners(site):
    """A conversation of another owner is 404, and two owners can use one name."""
    anna, bert = site.person("anna"), site.person("bert")
    anna.run("Hello", conversation="c")
    assert bert.get("conversations")[1] == {"conversations": []}
    for status, said in (
        bert.conversation("c"),
        bert.post("conversations/c/fork", {}),
        bert.post("conversations/c/delete", {}),
    ):
        assert (status, said["error"]["code"]) == (404, "not_found")
    bert.run("Mine", conversation="c")
    assert bert.post("conversations/c/delete", {})[0] == 200
    assert anna.conversation("c")[1]["title"] == "Hello"


def test_nobody(site):
    """A request without an owner sees no conversation."""
    nobody = site.person("")
    for path in ("conversations", "conversations/c", "inbox", "audit"):
        assert nobody.get(path)[0] == 403
    for path in ("conversations/c/fork", "conversations/c/delete"):
        assert nobody.post(path, {})[0] == 403


def test_fork(site):
    """A fork has the first messages, and both go on without each other."""
    anna = site.person("anna")
    anna.run("One", conversation="c")
    anna.run("Two", conversation="c")
    status, forked = anna.post("conversations/c/fork", {"at": 2})
    assert (status, forked["title"], forked["live_run"]) == (201, "One", "")
    anna.run("Three", conversation=forked["id"], version=forked["version"])
    _, view = anna.conversation(forked["id"])
    assert view["messages"][-1]["content"][0]["text"] == "Three, number 2"
    assert len(anna.conversation("c")[1]["messages"]) == 4
    assert anna.post("conversations/c/fork", {"at": -1})[0] == 422
    assert anna.post("conversations/c/fork", {"at": "x"})[0] == 422
    assert anna.post("conversations/c/fork", {"to": 1})[0] == 422


def test_delete_ends_the_live_run(site):
    """With a conversation its runs are gone, also a live one."""
    anna = site.person("anna")
    id = anna.start("wait", conversation="c")
    assert anna.post("conversations/c/delete", {})[0] == 200
    assert anna.get(f"runs/{id}")[0] == 404
    assert anna.get("conversations")[1] == {"conversations": []}


def test_other_origins_are_refused(site):
    """A page of another site, and a form, can neither fork nor delete."""
    anna = site.person("anna")
    anna.run("Hello", conversation="c")
    for path in ("conversations/c/fork", "conversations/c/delete"):
        assert anna.post(path, {}, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert anna.post(path, {}, Origin="https://evil.example")[0] == 403
        assert anna.post(path, {}, **{"Content-Type": "text/plain"})[0] == 415
        assert anna.get(path)[0] == 404  # an id that ends like this
    assert anna.conversation("c")[0] == 200


def test_wrong_methods(site):
    """Lists take no POST, and a conversation itself takes none."""
    anna = site.person("anna")
    for path in ("conversations", "conversations/c", "inbox", "audit"):
        assert anna.post(path, {})[0] == 405


# -- two tabs ----------------------------------------------------------------------


def test_a_late_tab(site):
    """The tab that has not seen the last run gets 409, and no run begins."""
    anna = site.person("anna")
    anna.run("One", conversation="c", version=0)
    anna.run("Two", conversation="c", version=1)
    body = {"prompt": "Late", "conversation": "c", "version": 1}
    status, said = anna.post("runs", body)
    assert (status, said["error"]["code"]) == (409, "conversation_changed")
    _, view = anna.conversation("c")
    assert (view["version"], len(view["messages"])) == (2, 4)
    assert anna.post("runs", {**body, "version": 0})[0] == 409
    assert anna.post("runs", {**body, "version": 2})[0] == 202


@pytest.mark.parametrize("version", [-1, 1.5, "1", True, 2**53])
def test_versions_that_cannot_be(site, version):
    """A version is a number that is not negative, of a named conversation."""
    anna = site.person("anna")
    body = {"prompt": "Hello", "conversation": "c", "version": version}
    assert anna.post("runs", body)[0] == 422
    assert anna.post("runs", {"prompt": "Hello", "version": 0})[0] == 422


def test_two_tabs_race(site):
    """Of two tabs that send at the same moment one wins, and nothing is lost."""
    anna = site.person("anna")
    won = []
    for number in range(10):
        version = anna.conversation("c")[1].get("version", 0)
        barrier = threading.Barrier(2)
        said = {}

        def send(tab, number=number, version=version, barrier=barrier, said=said):
            body = {"prompt": f"{tab}{number}", "conversation": "c"}
            barrier.wait(LONG)
            said[tab] = site.person("anna").post("runs", {**body, "version": version})

        tabs = [threading.Thread(target=send, args=[tab]) for tab in "AB"]
        for tab in tabs:
            tab.start()
        for tab in tabs:
            tab.join(LONG)
        (winner,) = [tab for tab, (status, _) in said.items() if status == 202]
        (loser,) = set("AB") - {winner}
        assert said[loser][0] == 409
        assert said[loser][1]["error"]["code"] in ("conversation_changed", "busy")
        anna.wait(said[winner][1]["id"])
        won.append(f"{winner}{number}")
    _, view = anna.conversation("c")
    asked = [m["content"][0]["text"] for m in view["messages"] if m["role"] == "user"]
    assert asked == won


def test_it_is_read_whole_while_runs_come_and_go(site):
    """A run that ends while a conversation is read is in it once."""
    anna = site.person("anna")
    for number in range(8):
        id = anna.start(f"n{number}", conversation="c")
        for _ in moments():
            status, view = anna.conversation("c")
            assert status == 200
            shown = [m["content"][0]["text"] for m in view["messages"]]
            shown += [view["prompt"]] if view["live_run"] else []
            assert shown.count(f"n{number}") == 1, view
            if not view["live_run"]:
                break
        anna.wait(id)


# -- without a store ---------------------------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_without_a_store(framework, tmp_path):
    """There are no such endpoints, and the response says why."""
    pytest.importorskip("flask" if framework == "wsgi" else framework)
    with kept_site(framework, tmp_path, has_store=False) as site:
        anna = site.person("anna")
        for status, said in (
            anna.get("conversations"),
            anna.get("conversations/c"),
            anna.post("conversations/c/fork", {}),
            anna.post("conversations/c/delete", {}),
            anna.get("inbox"),
            anna.get("audit"),
        ):
            assert (status, said["error"]["code"]) == (404, "no_store")
        body = {"prompt": "Hello", "conversation": "c", "version": 0}
        assert anna.post("runs", body)[0] == 422
