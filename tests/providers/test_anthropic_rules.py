"""The rules of Anthropic's Messages, as the kit knows them."""

import json

import pytest
from anthropic_talk import (
    MARK,
    OLD,
    text,
)
from recorded import entries, folder

from syncagent.testing.providers.anthropic.rules import complaint

ONE = {"disable_parallel_tool_use": True}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def use(call_id="1", **more):
    return {"type": "tool_use", "id": call_id, "name": "add", "input": {}, **more}


def result(call_id="1", **more):
    return {"type": "tool_result", "tool_use_id": call_id, **more}


def image(**source):
    return {"type": "image", "source": source}


def formed(schema):
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


HI = user(text("a"))
TOOL = {"name": "add", "input_schema": {"type": "object"}}
BUDGET = {"type": "enabled", "budget_tokens": 1024}
SIGNED = {"type": "thinking", "thinking": "t", "signature": "s"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": ""}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "at least one message"),
        ({"messages": {}}, "messages"),
        ({"seed": 1}, "seed: Extra inputs"),
        ({"temperature": 1.1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_p": 1, "temperature": 1}, "both"),
        ({"stream": 1}, "stream"),
        ({"stop_sequences": [" "]}, "stop_sequences"),
        ({"metadata": {"x": "y"}}, "metadata.x"),
        ({"metadata": {"user_id": 1}}, "metadata.user_id"),
        ({"metadata": []}, "wrong form"),
        ({"thinking": {"type": "x"}}, "thinking"),
        ({"thinking": {"type": "enabled"}}, "Field required"),
        ({"thinking": {**BUDGET, "budget_tokens": 9}}, "1024"),
        ({"thinking": {**BUDGET, "budget_tokens": 9999}}, "max_tokens"),
        ({"thinking": BUDGET, "temperature": 0}, "temperature"),
        ({"thinking": BUDGET, "top_p": 0.5}, "top_p"),
        ({"thinking": BUDGET, "tool_choice": {"type": "any"}}, "forces tool use"),
        ({"thinking": BUDGET, "messages": [HI, assistant(text("a"))]}, "thinking"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "name"),
        ({"tools": [{**TOOL, "name": "a" * 129}]}, "name"),
        ({"tools": [TOOL, TOOL]}, "unique"),
        ({"tools": [{"name": "add"}]}, "input_schema"),
        ({"tools": [{**TOOL, "input_schema": {}}]}, "object"),
        ({"tool_choice": {"type": "auto"}}, "providing tools"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "'x'"),
        ({"tools": [TOOL], "tool_choice": {"type": "none", **ONE}}, "Extra inputs"),
        ({"output_format": {"type": "text"}}, "json_schema"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "schema"),
        (formed({"type": "object"}), "format.schema: For 'object'"),
        (formed({"type": "array", "items": {"properties": {}}}), "schema.items: For"),
        (formed({"type": "integer", "minimum": 0}), "'integer' type, property"),
        (formed({"$ref": "#/$defs/a"}), "Circular reference"),
        (formed({"anyOf": [{"type": ["integer", "null"]}] * 16}), "too many"),
        ({"system": [text(" ")]}, "non-whitespace"),
        ({"system": [image()]}, "system.0.type"),
        ({"system": 7}, "system"),
        ({"system": [{**text("a"), "cache_control": MARK}] * 5}, "maximum of 4"),
    ],
)
def test_fields_that_are_rejected(changes, words):
    """Each rule of the provider is known."""
    fine = {"model": OLD, "max_tokens": 2000, "messages": [HI]}
    assert complaint(fine) is None
    assert words in complaint({**fine, **changes})


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([assistant(text("a"))], "first message"),
        ([HI, HI], "alternate"),
        ([{"role": "system", "content": "a"}], "role"),
        ([{"role": "user", "content": ""}], "non-empty"),
        ([{"role": "user", "content": 7}], "valid list"),
        ([user()], "non-empty content"),
        ([user(text(""))], "non-empty"),
        ([user(text("\n"))], "non-whitespace"),
        ([user({"text": "a"})], "type"),
        ([user(use())], "not allowed"),
        ([user(SIGNED)], "not allowed"),
        ([HI, assistant(image(type="url", url="https://x"))], "not allowed"),
        ([HI, assistant(text("a "))], "trailing whitespace"),
        ([HI, assistant(SIGNED), HI], "final block"),
        ([HI, assistant({**SIGNED, "signature": ""}, text("a"))], "signature"),
        ([HI, assistant({"type": "redacted_thinking"}, text("a"))], "data"),
        ([HI, assistant({**SIGNED, "cache_control": MARK}, text("a"))], "cache"),
        ([user(image())], "tag None"),
        ([user(image(type="url", url="ftp://x"))], "URL"),
        ([user(image(type="base64", media_type="image/bmp", data="eA=="))], "media"),
        ([user(image(type="base64", media_type="image/png", data="!"))], "base64"),
        ([user({"type": "document", "source": {"type": "text"}})], "text/plain"),
        ([HI, assistant(use()), HI], "without `tool_result`"),
        ([HI, assistant(use())], "without `tool_result`"),
        ([HI, assistant(use()), user(text("a"), result())], "without `tool_result`"),
        ([HI, assistant(use(), use("2")), user(result())], "after: 2"),
        ([user(result())], "unexpected"),
        ([HI, assistant(use()), user(result(), result())], "single result"),
        ([HI, assistant(use(), use()), user(result())], "unique"),
        ([HI, *[assistant(use()), user(result())] * 2], "unique"),
        ([HI, assistant(use("a.b")), user(result("a.b"))], "tool_use.id"),
        ([HI, assistant(use(name="a b")), user(result())], "tool_use.name"),
        ([HI, assistant(use(input="{}")), user(result())], "dictionary"),
        ([HI, assistant(use()), user(result(is_error=True))], "cannot be empty"),
        ([HI, assistant(use()), user(result(content=[text("")]))], "non-empty"),
        ([HI, assistant(use()), user(result(content=[use()]))], "does not match"),
        (
            [
                HI,
                assistant(use()),
                user(result(content=[image(type="url")], is_error=True)),
            ],
            "must be type `text`",
        ),
    ],
)
def test_messages_that_are_rejected(messages, words):
    """Each rule of the provider is known."""
    assert words in complaint({"model": OLD, "max_tokens": 9, "messages": messages})


LOOP = [HI, assistant(use()), user(result())]
THOUGHT = [HI, assistant(SIGNED, use()), user(result())]
MORE = [assistant(use("2")), user(result("2"))]


@pytest.mark.parametrize(
    ("messages", "thinking", "is_fine"),
    [
        (LOOP, BUDGET, False),
        ([*LOOP, *MORE], BUDGET, False),
        ([HI, assistant(text("a"), use()), user(result())], BUDGET, False),
        (LOOP, {"type": "disabled"}, True),
        (THOUGHT, BUDGET, True),
        ([*THOUGHT, *MORE], BUDGET, True),
        ([*LOOP, assistant(text("a")), HI], BUDGET, True),
        ([*LOOP, assistant(text("a")), HI, *MORE], BUDGET, False),
    ],
)
def test_calls_of_a_turn_that_thinks_come_after_thinking(messages, thinking, is_fine):
    """The turn that goes on has to begin with it, earlier ones need not."""
    sent = {"model": OLD, "max_tokens": 2000, "messages": messages}
    said = complaint({**sent, "thinking": thinking})
    assert (said is None) is is_fine
    assert is_fine or "Expected `thinking` or `redacted_thinking`, but found" in said


OPUS, SONNET, HAIKU = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"
NEW = [OPUS, SONNET, HAIKU, "claude-opus-4-7", "claude-fable-5", "m", "fake"]
ADAPTIVE = {"type": "adaptive"}
DISABLED = {"type": "disabled"}
BETWEEN = {"type": "between_tools"}
ENDS = "The conversation must end with a user message."


def efforts(word, **more):
    return {"output_config": {"effort": word}, **more}


@pytest.mark.parametrize(
    ("models", "changes", "words"),
    [
        (NEW, {"thinking": BUDGET}, '"thinking.type.enabled" is not supported'),
        (NEW, {"temperature": 0.5}, "`temperature` is deprecated for this model."),
        (NEW, {"top_p": 1}, "`top_p` is deprecated"),
        (NEW, {"top_k": 3}, "`top_k` is deprecated"),
        (NEW, {"messages": [HI, assistant(text("a"))]}, ENDS),
        (["claude-opus-4-6"], {"messages": [HI, assistant(text("a"))]}, ENDS),
        ([OLD], {"thinking": ADAPTIVE}, "adaptive thinking is not supported"),
        ([OPUS, "claude-fable-5-2"], {"thinking": DISABLED}, "thinking.type.disabled"),
        ([SONNET], {"thinking": DISABLED}, 'Use "thinking.type.between_tools"'),
        ([OPUS, HAIKU, OLD, "m"], {"thinking": BETWEEN}, "between_tools"),
        ([SONNET], {"thinking": {**BETWEEN, "display": None}}, "Extra inputs"),
        ([HAIKU], {"thinking": {**ADAPTIVE, "budget_tokens": 9}}, "Extra inputs"),
        ([HAIKU], {"thinking": {**ADAPTIVE, "display": "full"}}, "display"),
        ([OPUS, "m"], efforts("minimal"), "output_config.effort: Input should be"),
        ([OLD], efforts("low"), "does not support the effort parameter"),
        (["claude-sonnet-4-6"], efforts("xhigh"), "'xhigh' is not supported"),
        ([HAIKU, "claude-opus-5"], efforts("max", thinking=DISABLED), "max effort"),
        ([SONNET], efforts("xhigh", thinking=BETWEEN), "xhigh effort"),
        (
            [OPUS, SONNET, "claude-fable-5-1"],
            {"tools": [TOOL], "tool_choice": {"type": "any"}},
            'tool_choice: type "tool" and "any" are not supported for this model.',
        ),
        ([OPUS], {"tools": [{"type": "search", "name": "s"}]}, "Input tag 'search'"),
        (
            [OPUS],
            {
                "tools": [
                    {
                        "type": "web_search_20250305",
                        "name": "web_search",
                        "allowed_domains": ["a"],
                        "blocked_domains": ["b"],
                    }
                ]
            },
            "Only one of",
        ),
        (
            [OPUS],
            {"messages": [HI, assistant({"type": "compaction", "content": ""})]},
            "at least 1 character",
        ),
        (
            [OPUS],
            {"messages": [user({"type": "input_text", "text": "a"})]},
            "Input tag 'input_text'",
        ),
    ],
)
def test_what_a_generation_rejects(models, changes, words):
    """The provider's own words, by the name of the model."""
    for model in models:
        fine = {"model": model, "max_tokens": 2000, "messages": [HI]}
        assert complaint(fine) is None
        assert words in complaint({**fine, **changes})


@pytest.mark.parametrize(
    ("models", "changes"),
    [
        (NEW, {"thinking": ADAPTIVE}),
        (NEW, {"thinking": {**ADAPTIVE, "display": "summarized"}}),
        (NEW, efforts("max", thinking=ADAPTIVE)),
        (NEW, {"temperature": 1}),
        ([HAIKU, "m"], {"thinking": ADAPTIVE, "messages": LOOP}),
        ([HAIKU, "claude-opus-5", "m"], efforts("high", thinking=DISABLED)),
        (["claude-sonnet-5"], efforts("max", thinking=DISABLED)),
        ([SONNET], efforts("high", thinking=BETWEEN)),
        (["claude-opus-4-6"], {"thinking": BUDGET}),
        (["claude-opus-4-5"], efforts("low", thinking=BUDGET)),
        (
            [HAIKU, "claude-fable-5", "m"],
            {"tools": [TOOL], "tool_choice": {"type": "any"}, "thinking": ADAPTIVE},
        ),
        (NEW, {"tools": [{"type": "computer_toolset_20260801"}, TOOL]}),
        (NEW, {"messages": [HI, assistant({"type": "compaction", "content": "a"})]}),
    ],
)
def test_what_a_generation_takes(models, changes):
    """The rules are not stricter than the provider."""
    for model in models:
        sent = {"model": model, "max_tokens": 2000, "messages": [HI], **changes}
        assert complaint(sent) is None, model


ENTRIES = [entry for entry in entries() if entry["api"] == "anthropic-messages"]
SENT = [entry for entry in ENTRIES if entry.get("request_file")]


@pytest.mark.skipif(not SENT, reason="no recorded bodies at hand")
@pytest.mark.parametrize("entry", SENT, ids=lambda entry: entry["id"])
def test_what_the_provider_has_accepted_is_no_reason_to_complain(entry):
    """The rules are not stricter than it is, but for a text of white space."""
    sent = json.loads((folder() / entry["request_file"]).read_text())
    assert complaint(sent) in (
        None,
        "messages: text content blocks must contain non-whitespace text",
    )
