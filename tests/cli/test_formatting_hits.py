"""The summary of a run shows what its prompts found in the cache of the provider."""

import pytest

from syncagent.cli.formatting import compacted_text, run_text
from syncagent.events import Compacted
from syncagent.result import RunResult
from syncagent.usage import Usage


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(1000, 5, cached_tokens=830), "1000 tokens in (83% cached), 5 out"),
        (Usage(1000, 5), "1000 tokens in, 5 out"),
    ],
)
def test_the_hit_rate_is_shown(usage, text):
    """Only if there was a hit."""
    result = RunResult(
        text="", stop_reason="end_turn", run_id="r", messages=(), usage=usage, turns=2
    )
    assert text in run_text(result, 1.0)


def test_a_compaction_is_told_on_one_line():
    """With the sizes, and the steps or the hook that did it."""
    event = Compacted(12000, 3000, 90, 9, "window", ("ClearResults", "Summarize"))
    assert compacted_text(event) == (
        "the conversation was compacted from about 12,000 to 3,000 tokens by "
        "ClearResults, Summarize"
    )
    assert compacted_text(Compacted(9, 3, 2, 1, "hook")).endswith("by a hook")
