"""Many runs at once: outcomes, order, failures, and one cancel for all."""

import _thread
import contextvars
import gc
import io
import itertools
import random
import threading

import pytest
from support.threads import LONG, meanwhile, until

from syncagent import Agent, CancelToken, run_many, tool
from syncagent.exceptions import (
    ConfigurationError,
    ProviderUnavailable,
    RunCancelled,
)
from syncagent.models import OpenAIChat, Price
from syncagent.testing import (
    FakeServer,
    Gate,
    ScriptedModel,
    Stall,
    call,
    no_leaks,
    say,
)
from syncagent.usage import Usage


def echo(messages):
    return f"re: {messages[-1].content[-1].text}"


def echoing():
    return Agent(ScriptedModel(echo))


def silent_agent(server):
    return Agent(OpenAIChat("fake", base_url=server.base_url, api_key="k", retries=0))


def silence(request):
    return say("never", acts=[Stall(before_headers=True)])


def workers():
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("syncagent-many-")]


def test_results_come_in_order():
    """100 prompts, 8 threads at most, which end with the batch."""
    seen = []
    with no_leaks():
        batch = run_many(echoing(), [f"{n}" for n in range(100)], width=8)
        for outcome in batch:
            seen.append((outcome.index, outcome.prompt, outcome.result().text))
            assert len(workers()) <= 8
        assert seen == [(n, f"{n}", f"re: {n}") for n in range(100)]
        until(lambda: not workers())


def test_results_as_they_come():
    """A slow first run holds up nobody."""
    gate = Gate()

    def slow(messages):
        if echo(messages) == "re: 0":
            gate.stop_here()
        return echo(messages)

    batch = run_many(Agent(ScriptedModel(slow)), ["0", "1", "2", "3"], width=2)
    order = []
    for outcome in batch.as_completed():
        order.append(outcome.index)
        if len(order) == 3:
            gate.open()
    assert order[-1] == 0
    assert sorted(order) == [0, 1, 2, 3]


def test_over_real_sockets():
    """60 runs, 20 at a time, one connection each."""
    with FakeServer(lambda request: say("Hello.")) as server:
        results = run_many(silent_agent(server), ["hi"] * 60, width=20).results()
    assert [result.text for result in results] == ["Hello."] * 60
    assert len({result.run_id for result in results}) == 60


def test_one_failure_does_not_end_the_rest():
    """It is the outcome of its item, and raised by results() at the end."""

    def answer(messages):
        text = echo(messages)
        return ProviderUnavailable("down") if text == "re: 3" else text

    agent = Agent(ScriptedModel(answer))
    batch = run_many(agent, list("012345"), width=3)
    outcomes = list(batch)
    assert [each.exception() is None for each in outcomes].count(False) == 1
    assert isinstance(outcomes[3].exception(), ProviderUnavailable)
    with pytest.raises(ProviderUnavailable):
        outcomes[3].result()
    assert batch.counts.failed == 1
    with pytest.raises(ProviderUnavailable, match="down"):
        run_many(agent, list("012345")).results()


def test_a_function_makes_each_agent_and_pairs_bring_theirs():
    """The function is called once for each prompt."""
    made = []

    def make():
        made.append(echoing())
        return made[-1]

    assert len(run_many(make, ["a", "b"]).results()) == len(made) == 2
    pairs = [(echoing(), "a"), (echoing(), "b")]
    outcomes = list(run_many(pairs))
    assert [each.agent for each in outcomes] == [agent for agent, _ in pairs]
    assert [each.result().text for each in outcomes] == ["re: a", "re: b"]


@pytest.mark.parametrize(
    "items", [["ab", "cd"], [(echoing(), "a"), "cd"], [echoing()], [("a", echoing())]]
)
def test_prompts_without_an_agent_are_no_pairs(items):
    """A list is refused before anything starts, a generator when it is pulled."""
    with pytest.raises(ConfigurationError, match=r"write run_many\(agent, prompts\)"):
        run_many(items)
    batch = run_many(each for each in items)
    with pytest.raises(ConfigurationError, match=r"write run_many\(agent, prompts\)"):
        list(batch)


def test_an_agent_is_forked_for_each_prompt():
    """Its own conversation stays as it was."""
    agent = echoing()
    agent.run("first")
    outcomes = list(run_many(agent, ["a", "b"]))
    assert len(agent.messages) == 2
    assert [len(each.agent.messages) for each in outcomes] == [4, 4]


def test_an_endless_generator_is_pulled_as_the_width_allows():
    """At most 2 x width items are between the prompts and the caller."""
    pulled = []

    def prompts():
        for number in itertools.count():
            pulled.append(number)
            yield f"{number}"

    with no_leaks(), run_many(echoing(), prompts(), width=4) as batch:
        for taken, _ in enumerate(itertools.islice(batch, 50), 1):
            assert len(pulled) - taken < 8
    assert batch.reason is not None


def test_an_error_of_the_generator_ends_all():
    """It is raised where the next outcome would come, and nothing is left."""

    def prompts():
        yield "a"
        raise KeyError("prompts")

    with no_leaks(), pytest.raises(KeyError, match="prompts"):
        list(run_many(echoing(), prompts()))


@pytest.mark.parametrize("how", ["cancel", "token", "event", "deadline"])
def test_one_cancel_ends_all_at_once(how):
    """Runs that wait for a silent server are cancelled, the others not started."""
    token, event = CancelToken(), threading.Event()
    given = {"token": token, "event": event, "deadline": CancelToken(0.3)}.get(how)
    with no_leaks(), FakeServer(silence) as server:
        batch = run_many(silent_agent(server), ["hi"] * 30, width=5, cancel=given)

        def stop():
            until(lambda: len(server.requests) == 5)
            if how == "cancel":
                receipt = batch.cancel("enough")
                assert receipt
                assert receipt.first
                assert receipt.wait(LONG)
                assert not batch.cancel().first
            token.cancel("enough")
            event.set()

        with meanwhile(stop):
            outcomes = list(batch)
    assert [each.index for each in outcomes] == list(range(30))
    started = [each for each in outcomes if each.started]
    assert len(started) == 5
    assert all(each.result().cancelled for each in started)
    others = [each for each in outcomes if not each.started]
    assert all(isinstance(each.exception(), RunCancelled) for each in others)
    assert batch.counts.cancelled == 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_cancel_at_any_moment(seed):
    """200 items on 50 threads: each has one outcome, a right one; nothing leaks."""
    moment = random.Random(seed).randrange(200)
    with no_leaks():
        batch = run_many(echoing(), [f"{n}" for n in range(200)], width=50)
        outcomes = []
        for outcome in batch.as_completed():
            outcomes.append(outcome)
            if len(outcomes) == moment:
                threading.Thread(target=batch.cancel).start()
    assert sorted(each.index for each in outcomes) == list(range(200))
    for each in outcomes:
        if not each.started:
            assert isinstance(each.exception(), RunCancelled)
        elif not each.result().cancelled:
            assert each.result().text == f"re: {each.index}"
    assert batch.counts.done == 200


def test_ctrl_c_ends_all():
    """A signal handler's exception comes out of the loop, and nothing is left."""
    with no_leaks(), FakeServer(silence) as server:
        batch = run_many(silent_agent(server), ["hi"] * 20, width=4)

        def press():
            until(lambda: len(server.requests) == 4)
            _thread.interrupt_main()

        with meanwhile(press), pytest.raises(KeyboardInterrupt):
            list(batch)
        until(lambda: not workers())


def test_a_batch_that_is_dropped_ends():
    """A loop that breaks leaves no thread behind."""
    with no_leaks():
        for _ in run_many(echoing(), (f"{n}" for n in itertools.count()), width=3):
            break
        gc.collect()
        until(lambda: not workers())


def test_context_variables_reach_the_runs():
    """As they are when the prompt is pulled."""
    tenant = contextvars.ContextVar("tenant")

    def answer(messages):
        return tenant.get()

    tenant.set("acme")
    agent = Agent(ScriptedModel(answer))
    assert run_many(agent, ["hi"]).results()[0].text == "acme"


def test_usage_and_cost_are_added_up():
    """Those of runs that failed, too."""
    model = ScriptedModel(
        lambda messages: say("x", usage=Usage(1_000_000, 0)), price=Price(2.0, 2.0)
    )
    batch = run_many(Agent(model), ["a", "b", "c"])
    batch.results()
    assert batch.usage.input_tokens == 3_000_000
    assert batch.cost == 6.0


def test_each_item_has_its_recording(tmp_path):
    """In a folder, or where a function says."""
    run_many(echoing(), ["a", "b"], record=tmp_path / "new").results()
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["00000.jsonl", "00001.jsonl"]
    run_many(echoing(), ["a"], record=lambda n: tmp_path / f"x{n}").results()
    assert (tmp_path / "x0").stat().st_size


def test_progress_is_shown(monkeypatch):
    """A function gets the counts; without a terminal one line is written."""
    seen = []
    run_many(echoing(), ["a", "b"], progress=seen.append).results()
    assert [(counts.done, counts.total) for counts in seen] == [(1, 2), (2, 2)]
    output = io.StringIO()
    monkeypatch.setattr("sys.stderr", output)
    run_many(echoing(), ["a", "b"], progress=True).results()
    assert output.getvalue() == "2/2 runs\n"


def test_settings_are_those_of_each_run():
    """Such as the type of the answer."""
    batch = run_many(Agent(ScriptedModel(lambda m: "7")), ["a"], output=int)
    assert batch.results()[0].output == 7


def test_a_tool_may_cancel_its_batch():
    """The cancel waits for nothing, also on a worker's own thread."""

    @tool
    def stop() -> str:
        """Stop all."""
        batch.cancel("a tool said so")
        return "ok"

    model = ScriptedModel(lambda messages: say(call("stop")))
    batch = run_many(Agent(model, tools=[stop]), ["a"] * 10, width=2)
    outcomes = list(batch)
    assert len(outcomes) == 10
    assert str(batch.reason) == "a tool said so"


@pytest.mark.parametrize(
    "arguments",
    [
        {"agents": 3, "prompts": ["a"]},
        {"agents": 3},
        {"agents": echoing(), "prompts": None},
        {"agents": echoing(), "prompts": "text"},
        {"agents": echoing(), "prompts": ["a"], "width": 0},
        {"agents": echoing(), "prompts": ["a"], "record": 7},
        {"agents": echoing(), "prompts": ["a"], "progress": 7},
        {"agents": echoing(), "prompts": ["a"], "cancel": 7},
    ],
)
def test_wrong_use(arguments):
    """It is refused before anything starts."""
    with pytest.raises(ConfigurationError):
        run_many(**arguments)
