"""A state that is damaged, changed, too new or of other tools is refused, in words."""

import copy
import json

import pytest
from support.questions import (
    DO,
    OPEN,
    WONDER,
    asking,
    do,
    doing,
    model,
    open_door,
    outcomes,
    the_one,
    wonder,
)

from syncagent import Agent, tool
from syncagent.exceptions import ConfigurationError, StateInvalid, SyncAgentError
from syncagent.testing import complaints

TOOLS = [do, open_door, wonder]


def paused(*script):
    """Return the state of an agent that waits for an answer, of all kinds."""
    agent = asking(*script, tools=TOOLS)
    agent.run("Go.")
    return agent.save()


STATES = {
    "approval": paused(doing("a", "b")),
    "auth": paused(OPEN),
    "question": paused(WONDER),
}
#: What is put in the place of everything else.
VALUES = [None, True, -1, 10**30, 1.5, "", "x", [], {}, ["x"], {"x": 1}, "\ud800"]


def load(state):
    return Agent.load(state, model(), tools=TOOLS)


def places(value, path=()):
    """Yield the way to each part of a JSON value."""
    yield path
    if isinstance(value, (dict, list)):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in list(keys):
            yield from places(value[key], (*path, key))


def changed(root, path, change):
    """Return a copy of *root* in which *change* was done to the part at *path*."""
    holder = {"": copy.deepcopy(root)}
    *way, last = ("", *path)
    part = holder
    for key in way:
        part = part[key]
    change(part, last)
    return holder[""]


def put(value):
    """Return what puts *value* in the place of a part."""
    return lambda part, key: part.__setitem__(key, value)


def drop(part, key):
    """Take a part away."""
    del part[key]


def double(part, key):
    """Have all of a list twice."""
    if isinstance(part[key], list):
        part[key] = part[key] * 2


def go_on(agent):
    """Answer everything that an agent waits for, to the end."""
    answers = {"ApprovalRequest": False, "AuthRequest": None, "AwaitingInput": "so"}
    for _ in range(9):
        if not agent.is_paused:
            return
        given = {each.id: answers[type(each).__name__] for each in agent.interrupts}
        agent.resume(given)
    raise AssertionError("it waits for ever")


@pytest.mark.parametrize("point", STATES)
def test_cut_off_anywhere(point):
    """Whatever its length, half a state is none."""
    state = STATES[point]
    for length in range(len(state)):
        with pytest.raises(StateInvalid, match="cut off or changed"):
            load(state[:length])


@pytest.mark.parametrize("point", STATES)
def test_changed_anywhere(point):
    """Any part replaced, dropped or doubled: refused, or it can be gone on with."""
    root = json.loads(STATES[point])
    changes = [*map(put, VALUES), drop, double]
    refused = usable = 0
    for path in places(root):
        for change in changes if path else map(put, VALUES):
            state = json.dumps(changed(root, path, change))
            try:
                agent = load(state)
            except StateInvalid:
                refused += 1
                continue
            assert agent.save()
            go_on(agent)
            assert complaints(agent.messages) == {}
            usable += 1
    assert refused > usable > 0


def test_bytes_flipped():
    """It may also be bytes; none of them can be changed into another exception."""
    state = STATES["approval"].encode()
    assert load(state).is_paused
    for number in range(len(state)):
        for byte in (0x00, 0xFF, ord('"'), state[number] ^ 0x20):
            broken = state[:number] + bytes([byte]) + state[number + 1 :]
            try:
                load(broken)
            except StateInvalid:
                pass


@pytest.mark.parametrize(
    "wrong",
    ["", "null", "[]", "{}", "12", '"x"', "not JSON", "\ud800", b"\xff\xfe", "["],
)
def test_no_state_at_all(wrong):
    """The error says that it is none."""
    with pytest.raises(StateInvalid, match="state"):
        load(wrong)


@pytest.mark.parametrize("wrong", [None, 5, {}, ["a"], object()])
def test_nothing_to_be_read(wrong):
    """What is no string is refused as such."""
    with pytest.raises(StateInvalid, match=r"must be a string made by agent\.save"):
        load(wrong)


def test_nested_too_deep():
    """Nor does a state that is made for it end the interpreter."""
    for text in ("[" * 100_000, '{"a":' * 100_000, '{"format":' + "[" * 100_000):
        with pytest.raises(StateInvalid):
            load(text)


def test_of_a_newer_version():
    """It says which one, and what to do."""
    root = json.loads(STATES["approval"])
    root["version"] += 1
    root["messages"] = "something new"
    with pytest.raises(StateInvalid, match=r"version 2.*upgrade"):
        load(json.dumps(root))


def test_of_something_else():
    """Another program's JSON is no state of an agent."""
    root = json.loads(STATES["approval"])
    root["format"] = "syncagent.other"
    with pytest.raises(StateInvalid, match="not the state of an agent"):
        load(json.dumps(root))


def test_fields_that_nobody_knows():
    """A later version may add something that an older one can do without."""
    root = json.loads(STATES["approval"])
    root["new"] = root["run"]["new"] = {"x": 1}
    assert load(json.dumps(root)).is_paused


# -- other tools -----------------------------------------------------------------------


def test_a_tool_that_is_not_there():
    """It says which, and where to give it."""
    with pytest.raises(StateInvalid, match=r"'do'.*the tools: wonder.*tools="):
        Agent.load(STATES["approval"], model(), tools=[wonder])
    with pytest.raises(StateInvalid, match="the tools: none"):
        Agent.load(STATES["approval"], model())


def test_a_tool_that_is_not_there_and_is_not_needed():
    """What has ended needs no tool."""
    agent = asking(DO, approve=lambda request: True, tools=[do])
    agent.run("Go.")
    assert Agent.load(agent.save(), model()).run("Go on.").text == "ok"


def test_a_tool_with_another_signature():
    """Arguments that were approved of, and do not fit any more, are not changed."""

    @tool(name="do", requires_approval=True)
    def other(how: int) -> None:
        """Do it otherwise."""

    with pytest.raises(StateInvalid, match="'do' with arguments that do not fit"):
        Agent.load(STATES["approval"], model(), tools=[other])


def test_a_tool_that_need_not_be_approved_any_more():
    """What was asked is still asked: somebody was shown the question."""
    free = tool(name="do")(do.function)
    agent = Agent.load(paused(DO), model(), tools=[free])
    assert outcomes(agent.resume({the_one(agent).id: False})) == ["denied"]


# -- somebody has changed it -----------------------------------------------------------


def tampered(point, path, value):
    """Return a state in which one part says something else."""
    return json.dumps(changed(json.loads(STATES[point]), path, put(value)))


LAST = ("messages", 1, "content", 0)


@pytest.mark.parametrize(
    ("point", "path", "value"),
    [
        ("approval", ("run", "calls", 0, "call", "name"), "wonder"),
        ("approval", ("run", "calls", 0, "call", "arguments"), '{"what":"z"}'),
        ("approval", ("run", "calls", 0, "call", "call_id"), "c1"),
        ("approval", (*LAST, "name"), "wonder"),
        ("approval", (*LAST, "arguments"), '{"what":"z"}'),
        ("approval", ("run", "calls", 0, "arguments"), {"what": "z"}),
        ("approval", ("run", "in_round"), 1),
        ("approval", ("run", "in_round"), 3),
        ("approval", ("run", "in_round"), -1),
        ("approval", ("run", "questions", 0, "arguments"), {"what": "harmless"}),
        ("approval", ("run", "questions", 0, "tool"), "wonder"),
        ("approval", ("run", "questions", 0, "call_id"), "c1"),
        ("approval", ("run", "questions", 0, "call_id"), "c7"),
        ("approval", ("messages",), []),
        ("question", ("run", "questions", 0, "question"), "Really?"),
        ("question", ("run", "calls", 0, "question"), "Really?"),
        ("question", ("run", "calls", 0, "question"), None),
        ("auth", ("run", "questions", 0, "tool"), "do"),
    ],
)
def test_calls_and_questions_that_do_not_fit(point, path, value):
    """Nobody is asked about one thing to have another one done."""
    with pytest.raises(StateInvalid, match=r"was changed|cannot be read"):
        load(tampered(point, path, value))


def test_two_questions_with_one_id():
    """One answer is not for two calls."""
    root = json.loads(STATES["approval"])
    first, second = root["run"]["questions"]
    second["id"] = first["id"]
    with pytest.raises(StateInvalid, match="one id"):
        load(json.dumps(root))


def test_a_state_invalid_is_an_error_like_others():
    """Whoever catches wrong settings catches it, too."""
    assert issubclass(StateInvalid, ConfigurationError)
    assert issubclass(StateInvalid, SyncAgentError)
    assert issubclass(StateInvalid, ValueError)
