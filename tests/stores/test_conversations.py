"""Conversations in a store: versions, forks, labels, deletion, and their end."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.store_work import by_hand
from support.threads import LONG, until

from syncagent import Agent, tool
from syncagent.exceptions import (
    AgentBusy,
    ConfigurationError,
    ConversationChanged,
    InterruptPending,
)
from syncagent.messages import AssistantMessage, Text, UserMessage
from syncagent.stores import RunStore
from syncagent.testing import Gate, ScriptedModel, call, complaints, say

#: How often two tabs send at the same moment, and to how many conversations.
RACES = 1000
CONVERSATIONS = 50


def texts_of(messages):
    """Return the texts of users; neighbouring messages are one."""
    users = (m for m in messages if isinstance(m, UserMessage))
    return [block.text for message in users for block in message.content]


def make_agent(run):
    """Return an agent that deletes if it is told to, and else repeats the prompts."""

    @tool(requires_approval=True)
    def delete() -> str:
        """Delete it."""
        return "deleted"

    def respond(messages):
        prompts = texts_of(messages)
        if isinstance(messages[-1], UserMessage) and prompts[-1] == "delete":
            return say(call("delete", {}, f"delete_{len(messages)}"))
        return " | ".join(prompts)

    return Agent(ScriptedModel(respond), tools=[delete])


def do(chat, prompt):
    """Do a run of a conversation; return what the model says."""
    store = chat._store
    id = chat.submit(prompt)
    store.work(id)
    return store.get(id).result.text


def prompts_of(chat):
    messages = chat.messages()
    assert complaints(messages) == {}
    return texts_of(messages)


@pytest.fixture
def store(url):
    with by_hand(url, make_agent) as store:
        yield store


def test_a_conversation_is_reopened_by_its_id(url, store):
    """Another process finds its title, its version and its messages."""
    chat = store.conversation("trip", owner="anna")
    assert (chat.version, chat.messages(), chat.live_run) == (0, (), "")
    assert do(chat, "Rome\n in  May?") == "Rome\n in  May?"
    assert do(chat, "And Paris?") == "Rome\n in  May? | And Paris?"
    with by_hand(url, make_agent) as other:
        (again,) = other.conversations(owner="anna")
        assert (again.id, again.title, again.version) == ("trip", "Rome in May?", 2)
        assert prompts_of(again) == ["Rome\n in  May?", "And Paris?"]
        assert again.created_at <= again.changed_at
        assert other.conversations(owner="ben") == []
        assert do(again, "three").count("|") == 2


def test_two_owners_use_one_id(store):
    """They never share messages."""
    assert do(store.conversation("c", owner="anna"), "mine") == "mine"
    assert do(store.conversation("c", owner="ben"), "other") == "other"
    assert prompts_of(store.conversation("c", owner="anna")) == ["mine"]


def test_the_slower_of_two_tabs_is_told(store):
    """Nothing of it is stored; it reads again, and decides."""
    do(store.conversation("c"), "one")
    fast, slow = store.conversation("c"), store.conversation("c")
    do(fast, "two")
    with pytest.raises(ConversationChanged, match="read it again"):
        slow.submit("too late")
    assert prompts_of(slow) == ["one", "two"]
    assert do(slow.refresh(), "three") == "one | two | three"
    with pytest.raises(ConversationChanged):
        store.submit("stale", conversation="c", version=1)
    with pytest.raises(ConversationChanged):
        store.submit("begun before", conversation="new", version=1)


def test_a_change_right_after_ones_own_is_noticed(store, monkeypatch):
    """A caller that has just written has not seen what another one wrote since."""
    chat, other = store.conversation("c"), store.conversation("c")
    refresh = type(chat).refresh

    def late(self):
        monkeypatch.undo()
        do(other.refresh(), "two")
        return refresh(self)

    id = store.submit("one", conversation="c")
    store.work(id)
    chat.refresh()
    monkeypatch.setattr(type(chat), "refresh", late)
    chat.change(title="mine")
    with pytest.raises(ConversationChanged):
        chat.submit("three")
    assert do(chat.refresh(), "three") == "one | two | three"


def test_a_live_run_makes_it_busy(store):
    """Also for a caller that has seen the last version."""
    chat = store.conversation("c")
    id = chat.submit("delete")
    assert chat.live_run == id
    with pytest.raises(AgentBusy):
        chat.submit("another")
    with pytest.raises(AgentBusy):
        chat.append("another")
    chat.change(title="a title needs no messages")
    store.work(id)
    for late in (chat.append, chat.submit):
        with pytest.raises(InterruptPending):
            late("another")
    store.cancel(id)
    assert do(chat.refresh(), "next") == "delete | next"


def race(url, count):
    """Have two tabs send at the same moment, again and again; return what was taken."""
    barrier = threading.Barrier(2, timeout=LONG)

    def send(name):
        taken = []
        with by_hand(url, lambda run: Agent(ScriptedModel(lambda _: "ok"))) as tab:
            for number in range(count):
                chat = tab.conversation(str(number % CONVERSATIONS))
                barrier.wait()
                prompt = f"{name}-{number}"
                try:
                    id = chat.submit(prompt)
                except (ConversationChanged, AgentBusy):
                    pass
                else:
                    tab.work(id)
                    taken.append(prompt)
                barrier.wait()
        return taken

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(send, ("left", "right")))


@pytest.mark.slow
def test_nothing_is_lost_when_two_tabs_race(url):
    """Exactly one is taken each time, and its prompt is in the conversation once."""
    check_race(url, RACES)


@pytest.mark.stress
def test_nothing_is_lost_when_two_tabs_race_for_long(url):
    check_race(url, 10_000)


def check_race(url, count):
    left, right = race(url, count)
    assert len(left) + len(right) == count
    with by_hand(url) as store:
        chats = store.conversations()
        prompts = [prompt for chat in chats for prompt in prompts_of(chat)]
        assert sorted(prompts) == sorted(left + right)
        assert sum(chat.version for chat in chats) == count
        numbers = sorted(int(prompt.split("-")[1]) for prompt in prompts)
        assert numbers == list(range(count))


@pytest.mark.slow
def test_nothing_is_lost_when_many_append(url):
    """Each one repeats until it is taken; all messages are there once."""

    def add(name):
        with by_hand(url) as store:
            chat = store.conversation("c")
            for number in range(10):
                while True:
                    try:
                        chat.refresh().append(f"{name}-{number}")
                        break
                    except ConversationChanged:
                        pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, "abcd"))
    with by_hand(url) as store:
        texts = texts_of(store.conversation("c").messages())
        assert sorted(texts) == sorted(f"{a}-{n}" for a in "abcd" for n in range(10))


def test_an_old_chat_is_imported(store):
    """Messages of another system are the beginning of a conversation."""
    chat = store.conversation("old", owner="anna")
    chat.append(
        UserMessage.of("Who are you?"), AssistantMessage((Text("A chat of 2019."),))
    )
    assert (chat.version, chat.title) == (1, "Who are you?")
    assert do(chat, "Still there?") == "Who are you? | Still there?"
    chat.append("a note by hand")
    assert do(chat, "now?").endswith("Still there? | a note by hand | now?")
    assert complaints(chat.messages()) == {}
    for wrong in ((), (7,), (None,)):
        with pytest.raises(ConfigurationError):
            chat.append(*wrong)


def test_a_fork_has_the_messages_and_goes_its_own_way(store):
    """What follows in one is not in the other; labels and title are copied."""
    chat = store.conversation("c", owner="anna")
    do(chat, "one")
    do(chat, "two")
    chat.change(labels={"colour": "red"})
    copy = chat.fork("copy")
    early = chat.fork(at=2)
    gift = chat.fork("c", owner="ben")
    assert do(copy, "three") == "one | two | three"
    assert do(early, "second thoughts") == "one | second thoughts"
    assert do(gift, "hello") == "one | two | hello"
    assert prompts_of(chat) == ["one", "two"]
    assert (copy.title, copy.labels) == ("one", {"colour": "red"})
    assert len({copy.id, early.id, chat.id}) == 3
    with pytest.raises(ConfigurationError, match="already"):
        chat.fork("copy")
    with pytest.raises(ConfigurationError, match="no conversation"):
        store.conversation("never begun").fork()


def test_a_fork_in_the_middle_of_a_run(store):
    """It has what was there before the run, and is not busy."""
    chat = store.conversation("c")
    do(chat, "one")
    id = chat.submit("delete")
    store.work(id)
    copy = chat.fork()
    assert copy.live_run == ""
    assert do(copy, "two") == "one | two"
    store.cancel(id)
    assert prompts_of(chat) == ["one", "delete"]


def test_labels_and_title_are_changed_with_the_version(store):
    """The slower of two is told."""
    chat, other = (store.conversation("c", owner="anna") for _ in range(2))
    chat.change(title="Trip", labels={"pinned": True})
    assert (chat.title, chat.labels, chat.version) == ("Trip", {"pinned": True}, 1)
    with pytest.raises(ConversationChanged):
        other.change(title="Other")
    chat.change(labels={})
    assert (chat.title, chat.labels) == ("Trip", {})
    for wrong in ({"title": 7}, {"labels": {"x": object()}}, {"title": "\0"}):
        with pytest.raises(ConfigurationError):
            chat.change(**wrong)


def test_an_id_must_be_text(store):
    for wrong in ("", None, "\0", 7, "\ud800"):
        with pytest.raises(ConfigurationError):
            store.conversation(wrong)
    with pytest.raises(ConfigurationError, match="needs conversation"):
        store.submit("hello", version=0)


def test_a_conversation_outlives_its_runs(store):
    """Retention deletes runs; the next one continues with all messages."""
    chat = store.conversation("c")
    do(chat, "one")
    do(chat, "two")
    store.backend.prune(-1.0, -1.0, 100)
    assert store.list() == []
    assert prompts_of(chat) == ["one", "two"]
    assert do(chat.refresh(), "three") == "one | two | three"
    store.backend.prune(-1.0, -1.0, 100)
    assert prompts_of(chat.fork()) == ["one", "two", "three"]


def test_a_conversation_is_deleted_when_it_is_old(store):
    """With its messages, and not before its runs."""
    chat = store.conversation("c")
    do(chat, "one")
    prune = store.backend.prune
    assert prune(1e9, 1e9, 9, conversations_seconds=-1.0) == 0
    prune(-1.0, -1.0, 9, conversations_seconds=1e9)
    assert [each.id for each in store.conversations()] == ["c"]
    assert prune(-1.0, -1.0, 9, conversations_seconds=-1.0) == 1
    assert store.conversations() == []
    assert store.backend.single("SELECT count(*) FROM syncagent_message") == [(0,)]
    assert do(chat.refresh(), "new") == "new"


@pytest.mark.parametrize("way", ["conversation", "owner"])
def test_deleting_ends_the_live_run_of_this_process(url, way):
    """At once, and not at the next beat; nothing of it is left."""
    gate = Gate()

    def make(run):
        return Agent(ScriptedModel([gate, "never said"]))

    with RunStore(url, make, lease=900) as store:
        chat = store.conversation("c", owner="anna")
        id = chat.submit("hello")
        gate.wait_reached()
        until(lambda: store.get(id).events)  # else writing them would notice it
        (keeper,) = store.open().keepers.values()
        if way == "owner":
            assert store.forget("anna") == 1
        else:
            assert chat.delete()
            assert not chat.delete()
        until(lambda: not store.open().keepers)
        assert keeper.lost_reason == "the store has forgotten the run"
        assert store.list() == []
        assert store.conversations() == []
        for table in ("message", "event", "answer", "audit"):
            rows = store.backend.single(f"SELECT count(*) FROM syncagent_{table}")
            assert rows == [(0,)]


def test_deleting_one_leaves_the_others(store):
    keep = store.conversation("keep", owner="anna")
    gone = store.conversation("gone", owner="anna")
    do(keep, "one")
    do(gone, "two")
    assert gone.delete()
    assert (gone.version, gone.messages()) == (0, ())
    assert [each.id for each in store.conversations()] == ["keep"]
    assert do(keep, "three") == "one | three"
    assert store.forget("anna") == 2
    assert store.conversations() == []
