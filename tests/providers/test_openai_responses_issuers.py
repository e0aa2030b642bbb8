"""Items of one provider with this API never go to another one."""

import json

import pytest
from responses_talk import HELLO

from syncagent.messages import AssistantMessage, Text, ToolMessage, ToolResult
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of
from syncagent.providers.openai_responses.request import OpenAIResponsesDialect
from syncagent.testing.providers.openai_responses.rules import complaint
from syncagent.testing.providers.played import PLAYED
from syncagent.transcript import Transcript

OPENAI = dialect_of(ENDPOINTS["openai"])


def called(call_id, number=1, **more):
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "add",
        "arguments": f'{{"a":{number}}}',
        "status": "completed",
        **more,
    }


def said(text, **more):
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "status": "completed", "content": [part]}
    return {**item, "role": "assistant", **more}


def reasoning(**more):
    return {"type": "reasoning", "id": "rs_1", "summary": [], **more}


#: Items in the forms in which the providers send them.
RECORDED = {
    "xai": [
        reasoning(
            summary=[{"type": "summary_text", "text": "Add."}],
            encrypted_content="xai-k3Jd9+/x",
            status="completed",
        ),
        {
            "type": "web_search_call",
            "id": "ws_44d1",
            "status": "completed",
            "action": {"type": "search", "query": "x", "sources": []},
        },
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "xs_call_1",
            "name": "x_keyword_search",
            "input": '{"query":"x"}',
            "status": "completed",
        },
        said("Look:"),
        called("call_93028771"),
    ],
    "azure": [
        reasoning(encrypted_content="gAAAAABpOtherResource==", content=[]),
        said("Hm.", phase="commentary"),
        called("call_Qx1"),
    ],
    "openrouter": [
        reasoning(
            id="rs_tmp_0dj", encrypted_content="CiQBjz1rX6", format="google-gemini-v1"
        ),
        {"type": "openrouter:web_search", "id": "or_1", "status": "completed"},
        called("tool_0_add"),
    ],
    "deepseek": [
        reasoning(content=[{"type": "reasoning_text", "text": "Add them."}]),
        called("call_00_pZ"),
    ],
    "bedrock-mantle": [
        reasoning(content=[{"type": "reasoning_text", "text": "Add them."}]),
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "x", "tools": []},
        called("call_fe01"),
    ],
}


def answer(issuer, items):
    """Return the message that comes of the items of a response."""
    body = json.dumps({"status": "completed", "model": "m", "output": items}).encode()
    return list(OpenAIResponsesDialect(issuer).decode_body(body))[-1].message


def sent(dialect, *answers):
    """Return the items of a payload with answers, and the results of their calls."""
    messages = [HELLO]
    for each in answers:
        results = [ToolResult(c.call_id, (Text(c.arguments),)) for c in each.tool_calls]
        messages += [each, ToolMessage(tuple(results))]
    payload = json.loads(dialect.build_payload("gpt-6-luna", messages))
    assert complaint(payload) is None
    return payload["input"]


@pytest.mark.parametrize("issuer", RECORDED)
def test_items_of_others_do_not_go_to_openai(issuer):
    """B13: it would answer 400 to them; text and calls do go."""
    items = sent(OPENAI, answer(issuer, RECORDED[issuer]))
    kinds = {item.get("type", "message") for item in items}
    assert kinds <= {"message", "function_call", "function_call_output"}
    assert "function_call" in kinds
    assert not [item for item in items if {"encrypted_content", "phase"} & set(item)]


@pytest.mark.parametrize("issuer", [name for name in RECORDED if name != "xai"])
def test_items_go_back_to_the_one_who_made_them(issuer):
    """Verbatim, and in their order."""
    recorded = RECORDED[issuer]
    own = [i for i in recorded if i["type"] not in ("message", "function_call")]
    answered = answer(issuer, recorded)
    items = sent(OpenAIResponsesDialect(issuer), answered)
    assert [item for item in items if item in own] == own
    phases = [item["phase"] for item in recorded if "phase" in item]
    assert [item["phase"] for item in items if "phase" in item] == phases


def test_a_model_that_does_not_reason_gets_no_reasoning_of_others():
    """It rejects it; the next one that does reason gets it again."""
    answered = answer("openai", [reasoning(encrypted_content="x"), called("call_1")])
    result = ToolMessage((ToolResult("call_1", (Text("3"),)),))
    conversation = Transcript([HELLO, answered, result])
    for model, expected in (("gpt-6-luna", 1), ("gpt-4.1", 0), ("gpt-6-luna", 1)):
        payload = json.loads(OPENAI.build_payload(model, conversation))
        kinds = [item.get("type") for item in payload["input"]]
        assert kinds.count("reasoning") == expected
        assert kinds[-2:] == ["function_call", "function_call_output"]
        assert complaint(payload) is None


def test_a_call_of_a_tool_that_the_provider_ran_stays():
    """xAI shows its searches as calls, but runs all tools of its own."""
    answered = answer("xai", RECORDED["xai"])
    dialect = dialect_of(ENDPOINTS["xai"])
    messages = [HELLO, answered, ToolMessage((ToolResult("call_93028771"),))]
    payload = json.loads(dialect.build_payload("grok-4.5", messages))
    assert payload["input"][1:4] == RECORDED["xai"][:3]
    assert PLAYED["xai"].complaint(payload, "") is None
    assert answer("xai", RECORDED["xai"][:-1]).stop_reason == "end_turn"


def test_an_address_of_ones_own_is_another_origin():
    """A gateway may pass requests on to anyone."""
    items = sent(OPENAI, answer("openai@0a1b2c3d", RECORDED["azure"]))
    assert not [item for item in items if item.get("type") == "reasoning"]


def test_ids_of_calls_that_come_again_in_each_response():
    """Every call keeps its own result."""
    first, second, third = (
        answer("openai", [called("call_0", n), called("call_1", n + 10)])
        for n in range(3)
    )
    items = sent(OPENAI, first, second, third)
    calls = {i["call_id"]: i["arguments"] for i in items if "arguments" in i}
    results = {i["call_id"]: i["output"] for i in items if "output" in i}
    assert len(calls) == 6
    assert calls == results


NAMESPACED = {"namespace": "crm", "caller": {"type": "program", "caller_id": "prog_1"}}


@pytest.mark.parametrize(("issuer", "expected"), [("openai", NAMESPACED), ("xai", {})])
def test_the_namespace_of_a_call_goes_back_with_it(issuer, expected):
    """To its own provider alone."""
    answered = answer(issuer, [called("c1", **NAMESPACED)])
    items = sent(OPENAI, answered)
    (call,) = [item for item in items if item.get("type") == "function_call"]
    assert {name: call[name] for name in NAMESPACED if name in call} == expected


def test_the_usual_caller_is_not_kept():
    """A call by the model itself has no signature."""
    answered = answer("openai", [called("c1", caller={"type": "direct"})])
    assert answered.tool_calls[0].signature == ""


def test_a_signature_of_another_kind_breaks_nothing():
    """Whatever was put there is left out."""
    call = answer("openai", [called("c1")]).tool_calls[0]
    for signature in ("c2ln", "[1]", "{", "7"):
        odd = type(call)(call.call_id, call.name, call.arguments, signature)
        (item,) = [
            item
            for item in sent(OPENAI, AssistantMessage((odd,), provider="openai"))
            if item.get("type") == "function_call"
        ]
        assert not set(NAMESPACED) & set(item)


CLIENT_CALLS = [
    {"type": "custom_tool_call", "name": "patch", "input": "x"},
    {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "shell_call", "action": {"commands": ["ls"]}},
    {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "x"}},
    {"type": "computer_call", "action": {"type": "screenshot"}},
]


@pytest.mark.parametrize("item", CLIENT_CALLS, ids=lambda item: item["type"])
@pytest.mark.parametrize("before", [[], [said("Hm.")], [reasoning(content=[])]])
def test_a_call_of_a_tool_that_nobody_runs(item, before):
    """The response says so, and the next request goes without it."""
    sealed = reasoning(encrypted_content="gAAAAx")
    item = {**item, "id": "x_1", "call_id": "call_x", "status": "completed"}
    answered = answer("openai", [*before, sealed, item])
    assert answered.stop_reason == "other"
    assert "a tool that the provider defines" in answered.stop_detail
    assert item in [getattr(block, "data", None) for block in answered.content]
    items = sent(OPENAI, answered)
    assert item not in items
    assert sealed not in items


def test_a_call_that_nobody_runs_beside_one_of_ours():
    """The run goes on with ours."""
    custom = {**CLIENT_CALLS[0], "call_id": "call_x"}
    answered = answer("openai", [custom, called("c1")])
    assert answered.stop_reason == "tool_calls"
    assert [item.get("type") for item in sent(OPENAI, answered)[1:3]] == [
        "function_call",
        "function_call_output",
    ]


def test_a_hosted_tool_with_its_output_goes_back():
    """The provider ran it, so nothing is missing."""
    shell = {**CLIENT_CALLS[2], "call_id": "call_x"}
    output = {"type": "shell_call_output", "call_id": "call_x", "output": []}
    answered = answer("openai", [shell, output])
    assert answered.stop_reason == "end_turn"
    assert sent(OPENAI, answered)[1:3] == [shell, output]
