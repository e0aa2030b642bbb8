"""How responses of compatible servers end: words, usage, sources."""

import json

import pytest
from support.chat import chunk, finished, replied

from syncagent.exceptions import ProviderUnavailable, RateLimited, StreamBroken
from syncagent.messages import Citation
from syncagent.usage import Usage

SAID = chunk({"content": "Hi"})
STOP = chunk(finish="stop")


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        *[(word, "end_turn") for word in ("eos", "eos_token", "COMPLETE", "end_turn")],
        *[(word, "max_tokens") for word in ("max_tokens", "MAX_TOKENS")],
        *[(word, "max_tokens") for word in ("model_length", "length")],
        ("model_context_window_exceeded", "max_tokens"),
        *[(word, "stop_sequence") for word in ("stop_sequence", "STOP_SEQUENCE")],
        *[(word, "refusal") for word in ("sensitive", "content_filter", "SAFETY")],
        *[(word, "other") for word in ("abort", "unheard_of")],
    ],
)
def test_the_words_of_compatible_servers(finish, expected):
    """Regular ones are known; any other is never a normal end."""
    found = finished("vllm", SAID, chunk(finish=finish)).message
    assert (found.stop_reason, found.raw_stop_reason) == (expected, finish)


@pytest.mark.parametrize(
    "finish", ["network_error", "insufficient_system_resource", "ERROR"]
)
def test_a_response_that_broke_off_on_the_server(finish):
    """An error that a retry may cure, in a stream and in a whole response."""
    with pytest.raises(ProviderUnavailable, match=finish.lower()) as caught:
        finished("zai", SAID, chunk(finish=finish))
    assert caught.value.retryable
    with pytest.raises(ProviderUnavailable, match=finish.lower()):
        replied("zai", {"choices": [{"message": {}, "finish_reason": finish}]})


def test_the_word_behind_a_gateway_explains_an_irregular_end():
    """A regular one needs no explanation."""
    end = chunk(finish="content_filter")
    end["choices"][0]["native_finish_reason"] = "PROHIBITED_CONTENT"
    found = finished("openrouter", SAID, end).message
    assert (found.stop_reason, found.stop_detail) == ("refusal", "PROHIBITED_CONTENT")
    end["choices"][0] |= {"finish_reason": "stop", "native_finish_reason": "completed"}
    assert finished("openrouter", SAID, end).message.stop_detail == ""


def test_a_filtered_response_without_a_message():
    """B21: Azure leaves the message out; this is a refusal, and no broken stream."""
    filters = {"hate": {"filtered": True, "severity": "high"}}
    choice = {"finish_reason": "content_filter", "content_filter_results": filters}
    found = replied("openai-chat", {"id": "1", "model": "m", "choices": [choice]})
    assert (found.message.content, found.message.stop_reason) == ((), "refusal")


@pytest.mark.parametrize("choices", [[], [{"finish_reason": "stop"}], [{}]])
def test_any_other_response_without_a_message_is_broken(choices):
    """It is never an empty answer."""
    with pytest.raises(StreamBroken):
        replied("openai-chat", {"id": "1", "choices": choices})


# -- usage -----------------------------------------------------------------------------


def both(endpoint, usage):
    """Return the usage of a stream and of a whole response, which are the same."""
    streamed = finished(endpoint, SAID, STOP, {"choices": [], "usage": usage}).usage
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop"}
    assert replied(endpoint, {"choices": [choice], "usage": usage}).usage == streamed
    return streamed


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (  # xAI, B16
            {
                "prompt_tokens": 12,
                "completion_tokens": 2,
                "total_tokens": 354,
                "completion_tokens_details": {"reasoning_tokens": 340},
            },
            Usage(12, 342, reasoning_tokens=340),
        ),
        (  # OpenAI
            {
                "prompt_tokens": 12,
                "completion_tokens": 342,
                "total_tokens": 354,
                "completion_tokens_details": {"reasoning_tokens": 340},
            },
            Usage(12, 342, reasoning_tokens=340),
        ),
        (  # OpenAI since gpt-5.6, OpenRouter, B17
            {
                "prompt_tokens": 9000,
                "completion_tokens": 5,
                "prompt_tokens_details": {
                    "cached_tokens": 1000,
                    "cache_write_tokens": 7000,
                },
            },
            Usage(9000, 5, 1000, 7000),
        ),
        (  # DeepSeek
            {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "prompt_cache_hit_tokens": 64,
                "prompt_cache_miss_tokens": 36,
            },
            Usage(100, 5, 64),
        ),
        (  # Moonshot
            {"prompt_tokens": 100, "completion_tokens": 5, "cached_tokens": 64},
            Usage(100, 5, 64),
        ),
        (  # nonsense
            {"prompt_tokens": -5, "completion_tokens": "7", "total_tokens": None},
            Usage(),
        ),
    ],
)
def test_usage_as_providers_report_it(usage, expected):
    """Output includes reasoning, input includes what was cached."""
    assert both("openai-chat", usage) == expected


USAGE = {"prompt_tokens": 3, "completion_tokens": 4}


def test_usage_at_the_place_of_groq():
    """B19: in the last chunk, beside the reason to stop."""
    end = chunk(finish="stop", x_groq={"id": "req_1", "usage": USAGE})
    first = chunk({"content": "Hi"}, x_groq={"id": "req_1"})
    assert finished("groq", first, end).usage == Usage(3, 4)


def test_an_error_at_the_place_of_groq():
    """The stream was stopped early; it is no complete response."""
    error = {"id": "req_1", "error": "Rate limit reached for model"}
    with pytest.raises((ProviderUnavailable, RateLimited), match="Rate limit"):
        finished("groq", SAID, chunk({}, x_groq=error))


def test_usage_at_the_place_of_moonshot():
    """Inside of the choice, in older versions."""
    end = chunk(finish="stop")
    end["choices"][0]["usage"] = {**USAGE, "cached_tokens": 2}
    assert finished("moonshot", SAID, end).usage == Usage(3, 4, 2)


def test_usage_that_grows_with_every_chunk():
    """NVIDIA reports it so; the last one counts, and not the sum."""
    chunks = [
        chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": n})
        for n in range(1, 5)
    ]
    assert finished("nvidia", *chunks, STOP).usage == Usage(9, 4)


# -- sources ---------------------------------------------------------------------------

LINK = {
    "url": "https://a.example",
    "title": "A",
    "content": "words",
    "start_index": 0,
    "end_index": 2,
}
ANNOTATION = {"type": "url_citation", "url_citation": LINK}
CITATION = Citation("words", "A", "https://a.example", ANNOTATION)


def cited(message):
    """Return the citations of the only text."""
    (text,) = message.content
    assert text.text == "Hi"
    return text.citations


def test_annotations_are_citations():
    """In a delta of their own, repeated, before the text, or in a whole message."""
    marks = chunk({"annotations": [ANNOTATION, {"type": "file"}, 7]})
    for events in ([SAID, marks, STOP], [marks, SAID, STOP], [SAID, marks, marks]):
        found = finished("openrouter", *events, STOP).message
        assert cited(found) == (CITATION,)
    message = {"content": "Hi", "annotations": [ANNOTATION]}
    whole = replied("openrouter", {"choices": [{"message": message}]}).message
    assert cited(whole) == (CITATION,)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (
            {"citations": ["https://a.example", 7]},
            Citation(url="https://a.example", data={"url": "https://a.example"}),
        ),
        (
            {
                "citations": ["https://a.example"],
                "search_results": [{"url": "https://a.example", "title": "A"}],
            },
            Citation("", "A", "https://a.example", {"url": "https://a.example"}),
        ),
    ],
)
def test_sources_of_a_response_are_citations(sources, expected):
    """Perplexity repeats them in every chunk."""
    said, end = {**SAID, **sources}, {**STOP, **sources}
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop"}
    for found in (
        finished("openai-chat", said, end).message,
        replied("openai-chat", {"choices": [choice], **sources}).message,
    ):
        (citation,) = cited(found)
        assert (citation.title, citation.url) == (expected.title, expected.url)
        assert json.dumps(citation.data)


@pytest.mark.parametrize("odd", [7, "x", [None], {}, [{"url_citation": 7}]])
def test_odd_sources_do_no_harm(odd):
    """The text is what it is."""
    said = chunk({"content": "Hi", "annotations": odd}, citations=odd)
    end = chunk(finish="stop", citations=odd, search_results=odd)
    found = finished("openrouter", said, end).message
    assert found.text == "Hi"
