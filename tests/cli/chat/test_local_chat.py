"""The terminal with a real model on this machine."""

import pytest
from console import chat

#: Seconds within which a small model on a slow machine has begun to answer.
PATIENCE = 120.0


@pytest.mark.local
@pytest.mark.timeout(300)
def test_a_real_model_is_stopped_in_the_middle():
    """It streams, ends with Ctrl+C, keeps what it said, and answers the next."""
    with chat("--model", "local", is_fresh=True) as console:
        console.wait_for_prompt()
        console.enter("Count from one to five hundred, in words, one per line.")
        console.wait_for("writing,", PATIENCE)
        console.press("ctrl-c")
        console.wait_for("stopped; the text so far is kept")
        console.wait_for_prompt()
        console.enter("Say hello.")
        console.wait_for(lambda: console.text.count(" tokens)") == 2, PATIENCE)
        console.wait_for_prompt()
        assert "error" not in console.text
        console.press("ctrl-d")
        assert console.wait_for_end() == 0
        assert console.is_restored()
