"""Functions over real sockets: what each provider is asked for, and what it is told."""

import json
import threading
from typing import Annotated, Any

import msgspec
import pytest
from support.threads import LONG, meanwhile, together
from workbench import DIALECTS, Cat, Dog, Mood, Movie, Node, Point, served

from syncagent import CancelToken, RunCancelled, llm_chat, llm_function
from syncagent.models import Anthropic, Gemini, OpenAIChat, OpenAIResponses, find_model
from syncagent.models.endpoints import ENDPOINTS
from syncagent.options import Options, ToolSpec
from syncagent.run.output import Output
from syncagent.testing import Send, Stall, call, say

LOOK = ToolSpec("look", "Look.")


def look(where: str) -> str:
    """Look."""
    return f"nothing at {where}"


def returning(kind, real, **settings):
    """Return a function with that return type."""

    def answer(text: str) -> kind:
        """Answer."""

    return llm_function(real, **settings)(answer)


Pick = Annotated[str, msgspec.Meta(pattern="^[ab]+$", max_length=3)]
RETURNED = [
    (int, '{"value": 3}', 3),
    (str, "three", "three"),
    (Any, '{"value": [1]}', [1]),
    (Point, '{"x": 1, "y": null, "tags": []}', Point(1)),
    (list[Point], '{"value": [{"x": 1}]}', [Point(1)]),
    (dict[str, Point], '{"a": {"x": 1}}', {"a": Point(1)}),
    (dict, '{"a": 1}', {"a": 1}),
    (tuple[int, str], '{"value": [1, "a"]}', (1, "a")),
    (set[int], '{"value": [1]}', {1}),
    (Movie, '{"title": "M", "year": null}', {"title": "M"}),
    (Node, '{"name": "a", "children": []}', Node("a")),
    (Cat | Dog | None, '{"value": {"type": "Cat", "lives": 9}}', Cat(9)),
    (Mood, '{"value": "bad"}', Mood.BAD),
    (bytes, '{"value": "aGk="}', b"hi"),
    (Pick, '{"value": "aab"}', "aab"),
]


@pytest.mark.parametrize("kind", DIALECTS)
@pytest.mark.parametrize(("returned", "spoken", "value"), RETURNED)
def test_every_type_is_accepted_by_every_provider(kind, returned, spoken, value):
    """A server that is as strict as the real one takes the request, tools or not."""
    script = [spoken, say(call("look", {"where": "home"})), spoken]
    with served(kind, script) as (real, server):
        assert returning(returned, real)("x") == value
        assert returning(returned, real, tools=[look])("x") == value
        assert len(server.requests) == 3


def test_every_field_may_be_left_out():
    """A class of many optional fields is too much of a choice for one of them."""
    fields = [(f"f{n}", int | None, None) for n in range(20)]
    many = msgspec.defstruct("Many", fields)
    for kind in DIALECTS:
        with served(kind, ["{}"]) as (real, _):
            assert returning(many, real)("x") == many()


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_repair_over_a_socket(kind):
    """What is wrong is said as the user's next words, and the second answer counts."""
    script = ['{"x": "far", "y": 1, "tags": []}', '{"x": 2, "y": 1, "tags": []}']
    with served(kind, script) as (real, server):
        assert returning(Point, real)("x") == Point(2, 1)
        assert "$.x: expected int, got" in str(server.requests[1].payload)


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_cancel_in_the_middle_of_an_answer(kind):
    """Promises 2 and 7: the connection is gone, and what came of the answer is kept."""
    long = json.dumps({"x": 1, "tags": ["tag"] * 99})
    stop = CancelToken()
    with served(kind, [say(long, acts=[Send(6), Stall()])]) as (real, server):
        function = returning(Point, real)
        has_begun = threading.Event()

        class Seen:
            def on_event(self, event):
                if type(event).__name__ == "TextDelta":
                    has_begun.set()

        with (
            meanwhile(lambda: (has_begun.wait(LONG), stop.cancel("enough"))),
            pytest.raises(RunCancelled) as caught,
        ):
            function.using(hooks=[Seen()])("x", cancel=stop)
        server.wait_for_hang_up()
    assert caught.value.result.text
    assert long.startswith(caught.value.result.text)
    assert caught.value.result.cancellation.phase == "stream"


@pytest.mark.parametrize("kind", DIALECTS)
def test_many_threads_over_one_pool(kind):
    """Promise 9: one function, many threads, and no answer goes to another."""
    with served(kind, ['{"value": 7}'] * 16) as (real, server):
        function = returning(int, real)
        got = []
        together(*[lambda: got.append(function("x"))] * 16)
        assert got == [7] * 16
        assert len(server.requests) == 16


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_chat_over_a_socket(kind):
    """Each turn sends what was said before, also after one that was left."""

    @llm_chat(served_later)
    def talk(message: str, history: list) -> None:
        """Be nice."""

    script = [say("One two three four.", acts=[Send(6), Stall()]), "Hello.", "Bye."]
    with served(kind, script) as (real, server):
        chat, history = talk.using(model=real), []
        for event in chat("Hi", history):
            if type(event).__name__ == "TextDelta":
                break
        for words in ("And now?", "And then?"):
            *_, last = chat(words, history)
        assert last.result.text == "Bye."
        assert len(history) == 6
        assert len(server.requests) == 3


served_later = find_model("ollama:any")


# -- what is enforced, and what is told ------------------------------------------------


def payload(real, kind, tools=()):
    """Return what *real* would be sent for an answer of a type."""
    options = Options(output=Output(kind).format)
    return json.loads(real.dialect.build_payload(real.name, "hi", tools, options))


def named(kind, name="any"):
    return kind(name, api_key="k")


def enforced(sent):
    """Return the schema that a provider is to enforce, nothing if there is none."""
    for path in (
        ("text", "format", "schema"),
        ("response_format", "json_schema", "schema"),
        ("output_config", "format", "schema"),
        ("generationConfig", "responseJsonSchema"),
    ):
        found = sent
        for step in path:
            found = found.get(step, {}) if isinstance(found, dict) else {}
        if found:
            return found
    return None


def is_told(sent):
    """Is the schema in the words for the model?"""
    heads = (sent.get("system"), sent.get("systemInstruction"), sent.get("messages"))
    return "JSON schema" in str(heads)


@pytest.mark.parametrize("kind", DIALECTS)
def test_the_strict_mode_is_used_where_it_can_be(kind):
    """Objects with known fields are enforced, and not told as well."""
    sent = payload(named(kind), Point)
    schema = enforced(sent)
    assert set(schema["properties"]) == {"x", "y", "tags"}
    assert not is_told(sent)
    if kind is not Gemini:
        assert schema["required"] == ["x", "y", "tags"]
        assert schema["additionalProperties"] is False
        assert "default" not in str(schema["properties"]["y"].keys())


def test_openai_is_not_strict_about_what_it_cannot_enforce():
    """It has the schema, and may bend it."""
    for kind in (dict[str, int], tuple[int, str], Any, dict):
        chat = payload(named(OpenAIChat), kind)["response_format"]["json_schema"]
        responses = payload(named(OpenAIResponses), kind)["text"]["format"]
        assert chat["strict"] is responses["strict"] is False
        assert chat["schema"] == responses["schema"] == Output(kind).format.schema
    assert payload(named(OpenAIChat), Node)["response_format"]["json_schema"]["strict"]


def test_bounds_are_kept_where_they_are_enforced():
    """And are told beside the field where they are not."""
    kept = enforced(payload(named(OpenAIChat), Point))["properties"]["x"]
    told = enforced(payload(named(Anthropic), Point))["properties"]["x"]
    assert kept["minimum"] == 0
    assert "minimum" not in told
    assert told["description"] == "how far to the right (minimum: 0)"
    assert enforced(payload(named(Anthropic), Pick))["properties"]["value"] == {
        "type": "string",
        "description": 'maxLength: 3, pattern: "^[ab]+$"',
    }


@pytest.mark.parametrize(
    ("name", "is_enforced"),
    [
        ("claude-sonnet-4-5", True),
        ("claude-opus-4-1-20250805", True),
        ("claude-haiku-4-5-20251001", True),
        ("claude-opus-5", True),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-0", False),
        ("claude-3-5-haiku-latest", False),
        ("claude-3-opus-20240229", False),
        ("claude-2.1", False),
    ],
)
def test_models_of_anthropic_that_enforce_nothing(name, is_enforced):
    """Those that were there before are told in words."""
    sent = payload(named(Anthropic, name), Point)
    assert (enforced(sent) is not None) is is_enforced
    assert is_told(sent) is not is_enforced


@pytest.mark.parametrize("kind", [dict[str, int], Node, tuple[int, str]])
def test_what_anthropic_cannot_enforce_is_told(kind):
    """It would reject the request."""
    sent = payload(named(Anthropic), kind)
    assert enforced(sent) is None
    assert is_told(sent)


@pytest.mark.parametrize(
    ("name", "is_enforced"),
    [
        ("gemini-2.5-pro", False),
        ("gemini-2.0-flash", False),
        ("gemini-flash-latest", True),
        ("gemini-3-pro-preview", True),
        ("models/gemini-3.1-flash", True),
        ("gemini-10", True),
    ],
)
def test_a_form_and_tools_exclude_each_other_in_gemini(name, is_enforced):
    """Before its third version; without tools each enforces it."""
    sent = payload(named(Gemini, name), Point, [LOOK])
    assert (enforced(sent) is not None) is is_enforced
    assert is_told(sent) is not is_enforced
    assert enforced(payload(named(Gemini, name), Point))


@pytest.mark.parametrize(
    ("name", "is_enforced"),
    [
        *[("deepseek:any", False), ("groq:any", False), ("ollama:any", True)],
        *[("mistral:any", True), ("xai-chat:any", True), ("openrouter:any", True)],
    ],
)
def test_imitators_that_know_no_forms(name, is_enforced):
    """They are told in words, and not sent what they reject."""
    key = {"api_key": "k"} if ENDPOINTS[name.partition(":")[0]].needs_key else {}
    sent = payload(find_model(name, **key), Point)
    assert ("response_format" in sent) is is_enforced
    assert is_told(sent) is not is_enforced


def test_words_about_the_form_come_after_the_own_ones():
    """A system prompt is kept."""
    options = Options(system="Be brief.", output=Output(dict[str, int]).format)
    sent = named(Anthropic).dialect.build_payload("any", "hi", (), options)
    system = json.loads(sent)["system"]
    assert system.startswith("Be brief.\n\nAnswer with JSON")
    assert '"additionalProperties":{"type":"integer"}' in system
