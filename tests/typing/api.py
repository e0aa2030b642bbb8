"""Code as users write it; checked by mypy --strict, never run."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import requests

import syncagent
from syncagent import (
    AfterToolResult,
    Agent,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Budget,
    Cancelled,
    CancelPolicy,
    CancelToken,
    ClearResults,
    Fallback,
    Handle,
    Limiter,
    Limits,
    ProviderError,
    Retries,
    Rule,
    RunFinished,
    RunResult,
    Runtime,
    Summarize,
    Timeouts,
    ToolContext,
    ToolDefaults,
    abandoned,
    cancel_on_signals,
    llm_chat,
    llm_function,
    logs,
    run_many,
    tool,
)
from syncagent.cancel import (
    Alarm,
    CancelReason,
    Killable,
    Origin,
    Receipt,
    Registration,
    RunSlot,
)
from syncagent.compaction import Compaction, Room
from syncagent.events import InterruptRaised, Lagged, MessageFinished, TextDelta
from syncagent.exceptions import Declined, StreamBroken
from syncagent.functions.llm_chat import ChatStream
from syncagent.hooks import BeforeModel, BeforeTool, Deny, Replace
from syncagent.interrupts import Question
from syncagent.messages import Image, Message, UserMessage
from syncagent.models import Model, OpenAIChat, cost, find_model
from syncagent.models.aws import SigV4
from syncagent.options import Options, ToolSpec
from syncagent.sse import EventDecoder, ServerSentEvent, decode_events
from syncagent.testing import (
    FakeClock,
    FakeServer,
    Gate,
    ScriptedModel,
    Send,
    Stall,
    call,
    cancel_everywhere,
    no_leaks,
    say,
)
from syncagent.timeline import Timeline, read_timeline, render_html, render_text
from syncagent.tools.source import ToolSource
from syncagent.tools.tool import AnyTool
from syncagent.transcript import Transcript
from syncagent.transport import (
    CancellableAdapter,
    CancellableSession,
    EventStream,
    Transport,
    WholeResponse,
)


def tokens() -> None:
    token: CancelToken = CancelToken(timeout=1.5)
    child: CancelToken = token.child(deadline=5)
    linked: CancelToken = CancelToken.any_of(token, child)
    first: bool = linked.cancel("why", origin="remote")
    reason: CancelReason | None = token.reason
    text: str = token.reason or ""
    origin: Origin | None = token.origin
    left: float | None = token.remaining()
    event: threading.Event = token.signal
    woken: bool = token.wait(5) and event.wait(1.0)
    print(first, reason, text, origin, left, woken)


def blocking(token: CancelToken) -> str:
    try:
        token.sleep(1)
        token.checkpoint()
    except Cancelled as stop:
        return f"{stop.origin}: {stop.reason}"
    return "done"


def callbacks(token: CancelToken, lock: threading.Lock) -> None:
    registration: Registration = token.on_cancel(lock.release)
    taken_back: bool = registration.close()
    with token.on_cancel(lambda: print("cancelled")) as again:
        print(again, taken_back)


def signals(slot: RunSlot) -> None:
    with cancel_on_signals(CancelToken(), slot) as token:
        token.wait()


def handler(signum: int, frame: FrameType | None) -> None:
    receipt: Receipt = RunSlot().cancel("signal", origin="signal")
    if receipt and receipt.first:
        print(receipt.phase, receipt.latency, receipt.wait(timeout=1))


class Bell(Killable):
    def fire(self) -> None: ...


def is_end(event: ServerSentEvent) -> bool:
    return event.data == "[DONE]"


def streams(token: CancelToken) -> None:
    transport = Transport(
        timeout=Timeouts(connect=5, total=None),
        retries=Retries(limit=1),
        proxies={"https": "http://127.0.0.1:3128"},
        verify="/etc/ssl/ca.pem",
    )
    stream: EventStream = transport.stream(
        "https://model.example/", json={"a": 1}, token=token, is_end=is_end
    )
    with stream as events:
        for event in events:
            name: str = event.event
            print(name, event.data, event.id, stream.status, stream.request_id)


def replies() -> str:
    try:
        reply: WholeResponse = Transport(timeout=(3, 60), retries=0).post(
            "https://model.example/",
            data=b"{}",
            headers={"X-A": "b"},
            auth=("me", "secret"),
            on_phase=print,
        )
    except ProviderError as error:
        return f"{error.status} {error.retry_after} {error.body}"
    except (StreamBroken, TimeoutError, ConnectionError) as error:
        return str(error)
    return f"{reply.status} {reply.json()}"


def sessions(token: CancelToken) -> None:
    session: requests.Session = CancellableSession(token)
    session.mount("https://", CancellableAdapter(pool_maxsize=10))
    print(session.get("https://model.example/").status_code)


def events(chunks: list[bytes]) -> list[ServerSentEvent]:
    decoder = EventDecoder(max_event_bytes=100)
    return [*decode_events(chunks), *decoder.feed(b"data: a\n\n")]


def alarms(token: CancelToken) -> None:
    alarm = Alarm(token)
    alarm.set(5, "too slow")
    if token.flag():
        alarm.stop()


def logging_set_up() -> None:
    with logs.configure("agent.log", json=True):
        pass


def testing() -> None:
    gate = Gate()
    with no_leaks(), FakeClock() as clock:
        clock.advance(1)
        gate.open()


def models(token: CancelToken) -> str:
    model: Model = find_model("anthropic:claude-sonnet-5-5", temperature=0.5)
    transcript = Transcript([UserMessage.of(["look", Image(b"x")])])
    spec = ToolSpec("weather", "Tell it.", {"type": "object"})
    for event in model.ask(transcript, [spec], token=token):
        if isinstance(event, TextDelta):
            print(event.text)
        elif isinstance(event, MessageFinished):
            price: float | None = cost(event.usage, model.name)
            print(price)
            transcript.append(event.message)
    return model.respond(transcript, options=Options(max_tokens=9)).message.text


def scripts() -> None:
    with FakeServer([say("hi", call("f", {"a": 1}), acts=[Send(1), Stall()])]) as fake:
        OpenAIChat("any", base_url=fake.base_url, api_key="any")
        OpenAIChat("any", api_key=lambda: "any", headers={"A": "b", "C": lambda: "d"})
        OpenAIChat("any", auth=SigV4("bedrock", "eu-central-1"))
    ScriptedModel(["hello", TimeoutError()])


@tool
def weather(city: str, ctx: ToolContext) -> str:
    """Tell the weather."""
    ctx.sleep(1)
    return city


@tool(on_cancel="kill", timeout=5)
def count(to: int) -> int:
    """Count."""
    return to


class ReadOnly:
    def before_tool(self, event: BeforeTool) -> Deny | None:
        return Deny("no") if event.call.name == "write" else None


def approve(request: ApprovalRequest) -> Approval:
    return Approval(True, arguments=request.arguments)


def patient(request: ApprovalRequest, token: CancelToken) -> bool:
    return not token.wait(5)


class Shop:
    def current_tools(self, token: CancelToken) -> list[AnyTool]:
        token.checkpoint()
        return [weather]


def shop() -> ToolSource:
    return Shop()


def fill_in(question: Question, token: CancelToken) -> dict[str, object] | bool:
    return {"name": str(question)} if question.form and not token.cancelled else False


@tool
def book(ctx: ToolContext) -> str:
    try:
        values = ctx.ask("Which?", form={"type": "object"}, token=ctx.token.child())
    except Declined as error:
        return str(error)
    return ctx.ask("Why?") + str(values.get("name"))


def agents(event: threading.Event, token: CancelToken) -> str:
    agent = Agent(
        "anthropic:claude-sonnet-5-5",
        tools=[weather, count],
        limits=Limits(turns=5),
        cancel_policy=CancelPolicy(partial_text="discard"),
        hooks=[ReadOnly()],
        tool_defaults=ToolDefaults(on_cancel="abandon", timeout=30),
        approve=approve,
    )
    result: RunResult = agent.run("hello", timeout=5, cancel=event, record="a.jsonl")
    receipt: Receipt = agent.cancel("enough", mode="after_turn")
    receipt.wait(1)
    with agent.fork().stream(["look", Image(b"x")], cancel=token) as stream:
        for step in stream:
            if isinstance(step, TextDelta):
                print(step.text)
            elif isinstance(step, RunFinished):
                print(step.result.usage.total_tokens)
    Agent(ScriptedModel("x"), approve=patient, ask=input)
    Agent(ScriptedModel("x"), tools=[Shop(), weather], ask=fill_in)
    print(stream.result.tool_outcomes[0].outcome, [t.name for t in abandoned()])
    sweep = cancel_everywhere(lambda: Agent(ScriptedModel(lambda said: "x")), "go")
    return result.text + sweep.points[0].phase


@tool
def whose(ctx: ToolContext[Place]) -> float:
    """Tell how far north."""
    print(ctx.deps.west)  # type: ignore[attr-defined]
    return ctx.deps.north


def with_deps(agent: Agent[Place], place: Place) -> str:
    agent.run("hello", deps=place, options={"temperature": 0}, metadata={"a": 1})
    agent.run("hello", deps="Oslo")  # type: ignore[call-overload]
    agent.start("hello", deps=place, tools=[whose], options=Options(seed=1)).close()
    agent.resume({}, deps=7)  # type: ignore[call-overload]
    made: Agent[Place] = Agent(ScriptedModel("x"), deps=place)
    forked: Agent[Place] = made.fork()
    Agent[str](ScriptedModel("x"), deps=place)  # type: ignore[arg-type]
    free = Agent(ScriptedModel("x"))  # takes any
    free.run("hello", deps=place, metadata={}).metadata.get("a")
    free.run("hello", deps="Oslo")
    return driven(forked) + driven(free)


class LastTwo:
    """A step of a compaction, as users write it."""

    def compact(
        self, messages: Sequence[Message], room: Room
    ) -> Sequence[Message] | None:
        print(room.window, room.target, room.size(messages), room.ask("Sum up."))
        return messages[-2:] if len(messages) > 2 else None


class Wrong:
    def compact(self, messages: str) -> str:
        return messages


def long_work(budget: Budget, limiter: Limiter) -> float:
    model = OpenAIChat("x", api_key="k", limiter=limiter)
    Agent(
        model,
        compaction=[ClearResults(2, spare=["look"]), Summarize("openai:x"), LastTwo()],
        budget=budget,
    )
    Agent(model, compaction=Compaction(LastTwo(), at=0.7, window=9))
    Agent(model, compaction=LastTwo(), budget=None)
    Agent(model, compaction=Wrong())  # type: ignore[arg-type]
    Agent(model, budget=limiter)  # type: ignore[arg-type]
    OpenAIChat("x", limiter=budget)  # type: ignore[arg-type]
    left = budget.remaining.cost
    return (budget.spent.cost or 0.0) + (left or 0.0) + limiter.waiting


def replacing(event: BeforeModel) -> Replace:
    return Replace([UserMessage.of("Hi."), *event.messages])


def approve_for(request: ApprovalRequest) -> bool:
    tenant: Place = request.deps
    return tenant.north > 0


def driven(agent: Agent) -> str:
    with agent.drive("hello", on_event=print, record=io.BytesIO()) as driver:
        step = driver.next()
        if isinstance(step, ApprovalRequest):
            step.approve({"to": 3}, remember="arguments")
        elif isinstance(step, AuthRequest):
            step.provide("secret")
        elif isinstance(step, AwaitingInput):
            step.submit(step.question)
        elif isinstance(step, AfterToolResult):
            print([tool.outcome for tool in step.outcomes])
        else:
            return step.result.text
        state: str = driver.snapshot().state
    again = Agent.load(
        state, ScriptedModel("x"), tools=[count], rules=[Rule("x", True)]
    )
    return again.resume({asked.id: True for asked in again.interrupts}).text


def in_background(agent: Agent, event: threading.Event) -> float:
    handle: Handle = agent.start("hello", keep_alive=True)
    for news in handle.subscribe(cancel=event):
        if isinstance(news, Lagged):
            print(news.missed)
        elif isinstance(news, InterruptRaised):
            handle.answer(news.interrupts[0].id, True, remember=True)
    handle.send_input(["more", Image(b"x")])
    handle.interrupt().wait(1)
    print(handle.state.tool, handle.result(5).stop_reason, agent.background())
    with Runtime(drain=5) as runtime:
        runtime.start(agent, "hello").add_done_callback(lambda done: print(done.run_id))
        runtime.cancel_all("enough")
        return float(len(runtime.shutdown(1).cancelled))


@dataclass
class Place:
    north: float
    east: float


@llm_function(model="openai:gpt-6-luna", tools=[weather], limits=Limits(turns=5))
def locate(name: str, *, near: list[str] | None = None) -> Place:
    """Find the place."""
    raise NotImplementedError


@llm_chat(model="anthropic:claude-sonnet-5-5")
def tutor(message: str, history: list[Message]) -> None:
    """You are a patient tutor."""


class Atlas:
    @llm_function(model="openai:gpt-6-luna")
    def find(self, name: str) -> list[Place]:
        """Find all places with that name."""
        raise NotImplementedError

    @llm_chat(model="openai:gpt-6-luna")
    def talk(self, message: str, history: list[Message]) -> None:
        """Talk about maps."""


def functions(event: threading.Event, token: CancelToken) -> Place:
    place: Place = locate("Oslo", near=["sea"])
    locate(7)  # type: ignore[call-overload]
    locate("Oslo", far=[])  # type: ignore[call-overload]
    place = locate("Oslo", cancel=event, timeout=5)
    with locate.stream("Oslo", cancel=token) as stream:
        for step in stream:
            print(step)
    place = locate.value(stream.result)
    handle: Handle = locate.start("Oslo")
    place = locate.value(handle.result(5))
    places: list[Place] = Atlas().find("Oslo")
    places = Atlas.find(Atlas(), "Oslo", timeout=5)
    Atlas().find(7)  # type: ignore[call-overload]
    Agent(ScriptedModel("x"), tools=[locate])
    places.append(place)
    return locate.using(model=ScriptedModel("x"))("Oslo")


def chats(history: list[Message]) -> tuple[Message, ...]:
    stream: ChatStream = tutor("hello", history, timeout=5)
    for step in stream:
        if isinstance(step, RunFinished):
            print(step.result.text)
    for step in Atlas().talk("hello", history):
        print(step)
    tutor(7, history)  # type: ignore[call-overload]
    stream.cancel("enough").wait(1)
    return tutor.agent(stream.history).messages


def recorded(agent: Agent) -> str:
    with open("run.jsonl", "w") as file:
        agent.start("hello", record=file).close()
    timeline: Timeline = read_timeline(Path("run.jsonl"))
    print(render_text(timeline, width=80), timeline.rows[0].after_cancel)
    return render_html(timeline)


def unknown_names() -> None:
    # mypy would call the ignore unused if the package accepted every name.
    print(syncagent.Nonsense)  # type: ignore[attr-defined]


def many_runs(agent: Agent, token: CancelToken) -> float | None:
    """Outcomes have results and errors; a batch has sums."""
    batch = run_many(agent, ["a", "b"], width=4, cancel=token, timeout=3.0)
    for outcome in batch.as_completed():
        error: BaseException | None = outcome.exception()
        if error is None:
            text: str = outcome.result().text
            print(outcome.index, text)
    results: list[RunResult] = run_many(lambda: agent, ["a"]).results()
    run_many([(agent, "a")], progress=lambda counts: print(counts.done))
    if batch.cancel("enough"):
        print(results[0].model)
    return batch.cost


def another_model() -> Agent:
    """A Fallback is a model, and takes names."""
    return Agent(Fallback("openai:gpt-6-luna", "local", pause=5.0))


def limit_many_runs(agent: Agent[None]) -> float | None:
    """A limiter and a budget, shared."""
    limiter = Limiter(concurrent=8, requests_per_minute=60, patience=10)
    budget = Budget(cost=5.0, tokens=10_000, calls=3)
    find_model("openai:gpt-6-luna", limiter=limiter)
    other = Agent("openai:gpt-6-luna", limiter=limiter, budget=budget)
    other.run("hi", budget=budget)
    run_many(agent, ["hi"], limiter=limiter, budget=budget).results()
    left: int | None = budget.remaining.tokens
    assert left == 0
    return budget.spent.cost
