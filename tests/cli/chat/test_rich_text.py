"""Responses in Markdown, long pastes and choices, on a real terminal."""

import re

import pytest
from console import chat

from syncagent.testing import Gate, Send, Stall, call, say

DEFINITION = (
    "def a_long_name(argument_one: int, argument_two: str, three: float) -> tuple: pass"
)
URL = "https://example.com/a/path/that/is/longer/than/a/row/of/this/terminal?and=more"
ANSWER = f"""\
# The plan

Here is **what matters** and `some code`, and a list:

- {URL}

```python
{DEFINITION}
```

| Name | Value |
|------|-------|
| one  | 1     |

Done."""


def uncoloured(raw):
    """Return what was sent to the terminal without colours."""
    return re.sub(rb"\x1b\[[0-9;]*m", b"", raw).decode()


def attributes(console, words):
    """Return the attributes of the last letter of *words* on the screen."""
    rows = [*console.screen.history.top, *console.screen.buffer.values()]
    for row in rows:
        text = "".join(row[column].data for column in range(console.screen.columns))
        if words in text:
            return row[text.index(words) + len(words) - 1]
    raise AssertionError(f"{words!r} is not on the screen")


def test_markdown_is_rendered(start, server):
    """Headings, emphasis, code, lists and tables, without their marks."""
    server.add(ANSWER)
    console = start(lines=40)
    console.enter("go")
    console.wait_for("Done.")
    console.wait_for_prompt()
    assert attributes(console, "The plan").bold
    assert attributes(console, "what matters").bold
    assert attributes(console, "some code").fg == "cyan"
    assert attributes(console, URL[:40]).underscore
    assert attributes(console, "def a_long").fg != "default"
    assert "• https" in console.text
    assert "Name │ Value" in console.rows
    assert "**" not in console.text
    assert "```" not in console.text


def test_code_and_addresses_are_copied_in_one_line(start, server):
    """They are sent without a line end in them: the terminal wraps them."""
    server.add(ANSWER)
    console = start(columns=50)
    console.enter("go")
    console.wait_for("Done.")
    console.wait_for_prompt()
    sent = uncoloured(console.raw)
    assert f"{DEFINITION}\r" in sent
    assert f" {URL}\r" in sent
    at = sent.index(DEFINITION)
    wrapping = max(sent.rfind("\x1b[?7h", 0, at), 0)
    assert wrapping >= sent.rfind("\x1b[?7l", 0, at)


def test_what_has_scrolled_away_is_never_drawn_again(start, server):
    """Piece by piece or at once, each row is printed once, and no row is changed."""
    gate = Gate()
    text = "\n\n".join(f"Paragraph **{number}** of many. " * 8 for number in range(20))
    server.add(say(text, acts=[Send(900), Stall(gate), Send()]))
    console = start(lines=12)
    console.enter("go")
    console.wait_for("Paragraph 2 of many.")
    top = len(console.screen.history.top)
    before = console.text.split("\n")[:top]
    gate.open()
    console.wait_for("Paragraph 19 of many.")
    console.wait_for_prompt()
    assert top > 3
    assert console.text.split("\n")[:top] == before
    assert " ".join(console.text.split()).count("Paragraph 7 of many.") == 8


def test_code_is_shown_before_its_line_is_complete(start, server):
    """A line that has no end yet waits above the input; a stop keeps it."""
    server.add(say("So:\n\n```python\nx = [1, 2,", acts=[Send(), Stall()]))
    console = start()
    console.enter("go")
    console.wait_for("x = [1, 2,")
    console.press("ctrl-c")
    console.wait_for("(stopped; the text so far is kept")
    console.wait_for_prompt()
    assert console.text.count("x = [1, 2,") == 1
    assert attributes(console, "(stopped").fg == "red"


def test_a_command_does_not_cut_a_line_of_code(start, server):
    """Its output is above the line that is being written."""
    gate = Gate()
    code = f"value = compute({'1, ' * 100}2)"
    text = f"```python\n{code}\n```\n"
    server.add(say(text, acts=[Send(30), Stall(gate), Send()]))
    console = start()
    console.enter("go")
    console.wait_for("1, 1, 1")
    console.enter("/usage")
    console.wait_for("no tokens used yet")
    gate.open()
    console.wait_for("1, 2)")
    console.wait_for_prompt()
    sent = uncoloured(console.raw)
    assert sent.index("no tokens used yet\r") < sent.index(f"{code}\r")
    assert attributes(console, "= compute").fg == "default"
    assert attributes(console, "python").fg != "default"


def paste(console, text):
    console.type(f"\x1b[200~{text}\x1b[201~")


LINES = "\n".join(f"line {number} of the paste" for number in range(200))


def test_a_long_paste_is_folded(start, server):
    """It is one character of the input and one note of the echo, and sent as it is."""
    server.add("I have read it.")
    console = start()
    console.type("Look: ")
    paste(console, LINES)
    console.wait_for(lambda: console.input == "> Look: [200 lines]")
    console.type("x")
    console.press("left", "delete")
    console.type(" Well?")
    console.wait_for(lambda: console.input == "> Look: [200 lines] Well?")
    console.press("enter")
    console.wait_for("I have read it.")
    console.wait_for_prompt()
    (message,) = server.requests[-1].payload["messages"]
    assert message["content"] == f"Look: {LINES} Well?"
    assert "> Look: [200 lines] Well?" in console.rows
    assert "line 7 of the paste" not in console.text


def test_a_folded_paste_can_be_deleted_and_recalled(start, server):
    """Backspace takes all of it away; the history has it."""
    server.add("Once.", "Twice.")
    console = start()
    paste(console, LINES)
    console.wait_for(lambda: console.input == "> [200 lines]")
    console.type("\x7f")
    console.wait_for(lambda: console.input == "> ")
    paste(console, LINES)
    console.wait_for(lambda: console.input == "> [200 lines]")
    console.press("enter")
    console.wait_for("Once.")
    console.wait_for_prompt()
    console.press("up")
    console.wait_for(lambda: console.input == "> [200 lines]")
    console.press("enter")
    console.wait_for("Twice.")
    assert server.requests[-1].payload["messages"][-1]["content"] == LINES


def test_a_queued_paste_comes_back_folded(start, server):
    """A stop puts it back into the input, to be sent or edited."""
    server.add(say("One moment please.", acts=[Send(12), Stall()]), "Yes.")
    console = start()
    console.enter("go")
    console.wait_for("One moment")
    paste(console, LINES)
    console.wait_for(lambda: console.input == "> [200 lines]")
    console.press("enter")
    console.wait_for("queued: [200 lines]")
    console.press("ctrl-c")
    console.wait_for("(stopped")
    console.wait_for(lambda: console.input == "> [200 lines]")
    console.press("enter")
    console.wait_for("Yes.")
    assert server.requests[-1].payload["messages"][-1]["content"] == LINES


def test_a_short_paste_stays_as_it_is(start, server):
    server.add("Fine.")
    console = start()
    paste(console, "one\ntwo")
    console.wait_for(lambda: console.input == "  two")
    console.press("enter")
    console.wait_for("Fine.")
    assert "> one" in console.rows


@pytest.mark.parametrize(
    ("keys", "word", "outcome"),
    [
        (["right"], "yes", "done"),
        (["down", "down"], "no", "denied"),
        (["left", "left"], "always", "done"),
        (["right", "up", "up", "right", "right"], "yes", "done"),
    ],
)
def test_arrow_keys_choose_an_answer(start, server, keys, word, outcome):
    """They put the word into the input, where it can be seen; Enter sends it."""
    server.add(say(call("delete", {"path": "it"})), "Well.")
    console = start()
    console.enter("go")
    console.wait_for("[e]dit")
    assert attributes(console, "Allow delete").fg == "brown"  # yellow, to pyte
    console.press(*keys)
    console.wait_for(lambda: console.input.endswith(f"[e]dit {word}"))
    assert attributes(console, f"[{word[0]}]{word[1:]}").reverse
    console.press("enter")
    console.wait_for("Well.")
    assert re.search(rf"delete\(.*\)  {outcome}", console.text)
    assert attributes(console, "  delete").fg == "cyan"


def test_arrow_keys_move_in_an_answer_that_is_typed(start, server):
    """Only a line that is empty, or a choice, is replaced."""
    server.add(say(call("delete", {"path": "it"})), "Well.")
    console = start()
    console.enter("go")
    console.wait_for("[e]dit")
    console.type("ys")
    console.press("left")
    console.type("e")
    console.wait_for(lambda: "[e]dit ye" in console.input)
    console.press("enter")
    console.wait_for('delete(path="it")  done')


def test_nothing_is_chosen_at_first(start, server):
    """Enter alone allows nothing: it says how to answer."""
    server.add(say(call("delete", {"path": "it"})), "Well.")
    console = start()
    console.enter("go")
    console.wait_for("[e]dit")
    console.press("enter")
    console.wait_for("then Enter")
    console.enter("n")
    console.wait_for("denied")


def test_without_colours_no_bar_is_reversed(start, server):
    """NO_COLOR leaves bold and underlined text, and marks code with its signs."""
    server.add("Here is **what matters** and `some code`.")
    console = start(NO_COLOR="1")
    console.enter("go")
    console.wait_for("some code")
    console.wait_for_prompt()
    styles = re.findall(rb"\x1b\[([0-9;]*)m", console.raw)
    assert {int(n or 0) for style in styles for n in style.split(b";")} <= {0, 1, 3, 4}
    assert attributes(console, "what matters").bold
    assert "`some code`" in console.text


def test_a_stop_before_the_first_word_keeps_nothing_and_says_so(start, server):
    server.add(say("Never.", acts=[Stall()]))
    console = start()
    console.enter("go")
    console.wait_for("waiting for the model")
    console.press("escape")
    console.wait_for("(stopped;")
    console.wait_for_prompt()
    assert "text so far" not in console.text


def test_the_chat_introduces_its_model():
    """A script says that it is one, and a key is mentioned."""
    with chat("--model", "demo") as console:
        console.wait_for("A script, not a model, with tools to try")
    with chat(OPENAI_API_KEY="sk-not-used") as console:
        console.wait_for("OPENAI_API_KEY is set: --model openai:gpt-6-luna uses it.")
        console.wait_for_prompt()
        assert "sk-not-used" not in console.text
