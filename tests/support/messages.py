"""Hypothesis strategies for messages, valid and odd."""

from hypothesis import strategies as st

from syncagent.messages import (
    AssistantMessage,
    File,
    Image,
    Json,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

PROVIDERS = ["", "openai-chat", "openai-responses", "anthropic", "gemini", "else"]
WORDS = st.sampled_from(["", " ", "hi", "\n", "wörld 🙂", '"quoted"', "\x00"])
IDS = st.sampled_from(["1", "2", "", "a:b c", "x" * 100])
NAMES = st.sampled_from(["weather", "look", "", "my tool", "a.b/c", "ü" * 99, "9"])
ARGUMENTS = st.sampled_from(['{"a": 1}', "{}", "", "not json", "[1]", '{"a": '])
PICTURES = st.sampled_from(
    [Image(b"\x89PNG", "image/png"), Image(url="https://x.example/a.png")]
)
FILES = st.sampled_from([File(b"%PDF-1.4"), File(url="https://x.example/a.pdf")])
RESULTS = st.builds(
    ToolResult,
    IDS,
    st.lists(
        st.one_of(st.builds(Text, WORDS), st.just(Json({"a": [1]})), PICTURES),
        max_size=2,
    ).map(tuple),
    st.booleans(),
)
BLOCKS = st.one_of(
    st.builds(Text, WORDS),
    st.builds(Thinking, WORDS, st.sampled_from(["", "c2ln"])),
    st.builds(RedactedThinking, st.just("c2VjcmV0")),
    st.builds(Refusal, WORDS),
    st.builds(ToolCall, IDS, NAMES, ARGUMENTS),
    st.builds(
        ProviderBlock, st.just("else"), st.just({"type": "server_thing", "id": "1"})
    ),
)
MESSAGES = st.one_of(
    st.builds(
        UserMessage,
        st.lists(st.one_of(st.builds(Text, WORDS), PICTURES, FILES), max_size=3).map(
            tuple
        ),
    ),
    st.builds(
        AssistantMessage,
        st.lists(BLOCKS, max_size=4).map(tuple),
        provider=st.sampled_from(PROVIDERS),
    ),
    st.builds(ToolMessage, st.lists(RESULTS, max_size=3).map(tuple)),
)
