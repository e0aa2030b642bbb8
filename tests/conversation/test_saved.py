"""A saved agent goes on in another process, from wherever it stood."""

import msgspec
import pytest
from saved_script import TOOLS
from support.processes import run_script
from support.questions import (
    DO,
    KEY,
    OPEN,
    WONDER,
    asking,
    do,
    doing,
    model,
    outcomes,
    said_to_model,
    the_one,
)

from syncagent import Agent, Approval, Image, Limits, Rule
from syncagent.messages import RedactedThinking, Thinking
from syncagent.models import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from syncagent.models.prices import Price
from syncagent.testing import FakeServer, call, complaints, say
from syncagent.usage import Usage

FREE = say(call("free", {"what": "it"}))
FACES = ["resume", "drive", "start"]


def driven(*script, steps=1, answers=(), said=(), prompt="Go.", **settings):
    """Return a driver that has gone so many steps, each answered."""
    agent = asking(*script, tools=TOOLS, **settings)
    driver = agent.drive(prompt)
    given = list(answers)
    for number in range(steps):
        step = driver.next()
        if number < len(given):
            driver.answer(step.id, given[number])
    for words in said:
        driver.send_input(words)
    return driver


def paused(*script, **settings):
    """Return the state of an agent that waits."""
    agent = asking(*script, tools=TOOLS, **settings)
    agent.run("Go.")
    return agent.save()


def states():
    """Return states of all points where one may be saved, and what is expected."""
    yield "approval", paused(DO), ["did it"]
    yield "auth", paused(OPEN), ["opened with 16 characters"]
    yield "question", paused(WONDER), ["so, so"]
    agent = asking(WONDER, tools=TOOLS)
    agent.run("Go.")
    agent.resume({the_one(agent).id: "first"})
    yield "second question", agent.save(), ["first, so"]
    yield "driven approval", driven(DO).snapshot().state, ["did it"]
    yield "driven auth", driven(OPEN).snapshot().state, ["opened with 16 characters"]
    yield "driven question", driven(WONDER).snapshot().state, ["so, so"]
    yield "after tools", driven(FREE).snapshot().state, ["did it"]
    driver = driven(doing("a", "b"))
    driver.answer("c1", False)
    yield "half answered", driver.snapshot().state, ["did a", "did b"]
    driver.answer("c0", True)
    driver.next()
    yield "some denied", driver.snapshot().state, ["did a", "Denied."]


STATES = {name: (state, told) for name, state, told in states()}


@pytest.fixture(scope="module", params=FACES)
def gone_on(request, tmp_path_factory):
    """Return what another process makes of all states, by one way to go on."""
    jobs = [{"state": state, "face": request.param} for state, _ in STATES.values()]
    path = tmp_path_factory.mktemp("saved") / "jobs.json"
    path.write_bytes(msgspec.json.encode(jobs))
    ran = run_script("conversation/saved_script", path)
    assert ran.returncode == 0, ran.stderr
    return dict(zip(STATES, msgspec.json.decode(ran.stdout), strict=True))


@pytest.mark.parametrize("point", STATES)
def test_it_goes_on_in_another_process(gone_on, point):
    """The same run, to its end: each call has its result, and all is counted."""
    state, told = STATES[point]
    there = gone_on[point]
    assert "error" not in there, there["error"]
    assert there["is_same"], "what was loaded is saved as it was"
    assert (there["stop"], there["told"]) == ("end_turn", told)
    saved = msgspec.json.decode(state)
    assert there["run_id"] == saved["run"]["run_id"]
    assert (there["turns"], there["usage"]) == (2, 20)
    messages = msgspec.convert(there["messages"], tuple[dict, ...])
    assert messages[: len(saved["messages"])] == tuple(saved["messages"])
    assert KEY not in state


def elsewhere(tmp_path, *jobs):
    """Return what another process makes of jobs."""
    path = tmp_path / "jobs.json"
    path.write_bytes(msgspec.json.encode(list(jobs)))
    ran = run_script("conversation/saved_script", path)
    assert ran.returncode == 0, ran.stderr
    return msgspec.json.decode(ran.stdout)


def test_what_waits_for_nothing(tmp_path):
    """New, idle, cancelled and finished agents have nothing to go on with."""
    fresh = asking(tools=TOOLS)
    idle = asking("hello", tools=TOOLS)
    idle.run("Go.")
    let_go = asking(DO, tools=TOOLS)
    let_go.run("Go.")
    let_go.cancel()
    stopped = driven(DO)
    stopped.cancel()
    stopped.next()
    awaiting = driven(FREE, steps=3)
    found = [fresh.save(), idle.save(), let_go.save()]
    found += [stopped.snapshot().state, awaiting.snapshot().state]
    jobs = [{"state": state, "face": face} for state in found for face in FACES]
    for job, there in zip(jobs, elsewhere(tmp_path, *jobs), strict=True):
        assert "error" not in there
        assert (there["stop"], there["is_same"]) == (None, True)
        messages = msgspec.json.decode(job["state"])["messages"]
        assert there["messages"] == messages


def test_input_that_was_not_heard(tmp_path):
    """It is said there, in order: after the tools, or in a run of its own."""
    shots = [
        driven(FREE, said=["two", "three"]),
        driven(DO, said=["two", "three"]),
        driven(steps=0, said=["two", "three"]),
        driven("ok", "ok", steps=2, said=["two", "three"]),
    ]
    jobs = [{"state": each.snapshot().state, "face": "drive"} for each in shots]
    for there in elsewhere(tmp_path, *jobs):
        users = [
            each["content"] for each in there["messages"] if each["role"] == "user"
        ]
        words = [block["text"] for content in users for block in content]
        assert words == ["Go.", "two", "three"]
        assert there["stop"] == "end_turn"


def test_the_submit_of_an_interrupt_is_saved(tmp_path):
    """What was submitted after tools and not heard is heard there."""
    driver = driven(FREE, answers=["two"])
    [there] = elsewhere(tmp_path, {"state": driver.snapshot().state, "face": "drive"})
    words = [each["content"] for each in there["messages"] if each["role"] == "user"]
    assert [block["text"] for each in words for block in each] == ["Go.", "two"]


@pytest.mark.parametrize("face", FACES)
def test_output_has_to_be_given_again(tmp_path, face):
    """A state cannot hold a type: without it an error says so, with it it works."""
    agent = asking(DO, tools=TOOLS)
    agent.run("Go.", output=int)
    job = {"state": agent.save(), "face": face}
    without, with_it = elsewhere(tmp_path, job, {**job, "output": True})
    assert "ConfigurationError" in without["error"]
    assert "output=" in without["error"]
    assert (with_it["output"], with_it["stop"]) == (7, "end_turn")
    again = Agent.load(job["state"], model(), tools=TOOLS)
    assert again.save() == job["state"]  # also if it is saved in between


# -- all that is in there --------------------------------------------------------------


def test_everything_that_was_said():
    """Pictures, thinking, signatures, usage and cost come back as they were."""
    first = say(
        Thinking("Hm.", "signed"),
        RedactedThinking("opaque"),
        "Let me see.",
        call("do", {"what": "it"}),
        usage=Usage(100, 20, 30, 4, 5),
    )
    agent = asking(first, tools=TOOLS)
    agent.run(["Look.", Image(data=b"\x89PNG\x00\xff"), Image(url="http://x/y.png")])
    other = Agent.load(agent.save(), model(), tools=TOOLS)
    assert other.messages == agent.messages
    assert other.usage == agent.usage == Usage(100, 20, 30, 4, 5)
    assert (other.interrupts, other.state) == (agent.interrupts, agent.state)
    result = other.resume({the_one(other).id: True})
    assert result.usage == Usage(110, 25, 30, 4, 5)
    assert complaints(other.messages) == {}


def test_pictures_among_results():
    """A round of which some calls are done keeps what they gave."""
    picture = Image(data=b"\x89PNG\x01")

    def draw() -> list:
        """Draw."""
        return ["a picture", picture, {"n": 1}]

    script = say(call("draw"), call("wonder"))
    agent = asking(script, tools=[draw, TOOLS[2]])
    agent.run("Go.")
    other = Agent.load(agent.save(), model(), tools=[draw, TOOLS[2]])
    while other.is_paused:
        result = other.resume({the_one(other).id: "so"})
    assert outcomes(result) == ["done", "done"]
    assert picture in result.messages[2].content[0].content


def test_rules_and_limits_go_on():
    """What was remembered is not asked again; a restart is no way around a limit."""
    agent = asking(doing("a"), tools=[do], rules=[Rule("other", False)])
    agent.run("Go.")
    agent.resume({the_one(agent).id: Approval(True, remember="arguments")})
    limits = Limits(turns=3, tool_calls=2)
    rounds = [say(call("do", {"what": w}, f"c{n}")) for n, w in enumerate("aabb")]
    other = Agent.load(agent.save(), model(*rounds), tools=[do], limits=limits)
    assert other.rules == agent.rules
    assert len(other.rules) == 2
    result = other.run("Again.")
    assert (outcomes(result), result.limit) == (
        ["done", "done", "not_started"],
        "tool_calls",
    )
    waits = asking(DO, tools=[do], limits=Limits(turns=1))
    waits.run("Go.")
    last = Agent.load(waits.save(), model(), tools=[do], limits=Limits(turns=1))
    assert last.resume({the_one(last).id: True}).limit == "turns"


def test_what_it_cost():
    """It is counted on, and a limit on it holds after a restart, too."""
    limits = Limits(cost=25.0)
    with FakeServer([DO, "never said"]) as server:
        settings = {"base_url": server.base_url, "api_key": KEY, "retries": 0}
        dear = OpenAIChat("fake", price=Price(2e6, 1e6), **settings)
        agent = Agent(dear, tools=[do], limits=limits)
        assert agent.run("Go.").cost == 25.0
        other = Agent.load(agent.save(), dear, tools=[do], limits=limits)
        result = other.resume({the_one(other).id: True})
    assert (result.stop_reason, result.limit) == ("limit", "cost")
    assert (result.cost, outcomes(result)) == (25.0, ["done"])


def test_save_is_for_whoever_drives():
    """Between the events of a stream, in a hook, and when nothing is live."""
    states = []
    agent = asking(FREE, tools=TOOLS)
    with agent.stream("Go.") as stream:
        states += [agent.save() for _ in stream]
    told = []
    for state in states:
        other = Agent.load(state, model(), tools=TOOLS)
        if other.is_paused:
            assert other.resume().stop_reason == "end_turn"
        told += said_to_model(other.messages) or ["nothing"]
        assert complaints(other.messages) == {}
    assert (told[0], told[-1]) == ("nothing", "did it")
    begun = [words for words in told if words.startswith("Interrupted")]
    assert len(begun) == 2  # while it ran: before ToolStarted, and after


def test_a_state_of_another_model():
    """What one provider has said can be gone on with by any other."""
    first = say(Thinking("Hm.", "signed"), "Let me.", call("do", {"what": "it"}))
    kinds = [OpenAIChat, OpenAIResponses, Anthropic, Gemini]
    for kind, other_kind in zip(kinds, kinds[1:] + kinds[:1], strict=True):
        with FakeServer([first, "ok"]) as server:
            settings = {"base_url": server.base_url, "api_key": KEY, "retries": 0}
            agent = Agent(kind("fake", **settings), tools=[do])
            agent.run("Go.")
            state = agent.save()
            assert KEY not in state
            other = Agent.load(state, other_kind("other", **settings), tools=[do])
            result = other.resume({the_one(other).id: True})
        assert (result.text, outcomes(result)) == ("ok", ["done"])


def test_two_agents_from_one_state():
    """A state is a value: each goes its own way."""
    state = STATES["approval"][0]
    agents = [Agent.load(state, model(), tools=TOOLS) for _ in range(2)]
    for agent, answer in zip(agents, (True, False), strict=True):
        agent.resume({the_one(agent).id: answer})
    assert [said_to_model(a.messages) for a in agents] == [["did it"], ["Denied."]]
