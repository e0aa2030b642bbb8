"""The demo model: a script to talk to where there is no real model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from ...cancel import CancelToken
from ...events import TextDelta
from ...messages import AssistantMessage, Json, Message, Text, ToolMessage, UserMessage
from ...models.response import Events, ModelResponse
from ...options import Options, ToolSpec
from ...testing import ScriptedModel, ScriptedResponse, call, say
from ...transport.timeouts import Timeouts
from ...usage import Usage

__all__ = ["DemoModel", "PACE", "STORY", "demo_model"]

#: Seconds from word to word, about as fast as one reads.
PACE: Final = 0.025

#: Long enough to be stopped.
STORY: Final = """\
Once upon a time there was a thread that waited for a server far away, and the
server had said: one moment. That was on a Tuesday.

On Wednesday the thread was to stop. They set a flag, a fine red one, where all
could see it. But the thread was asleep in a read, deep down where no flags are
seen, and the flag stood in the sun and turned pink.

On Thursday they asked the event loop. "There is no event loop here," said the
thread in its sleep, and that was true. On Friday they locked a lock, and then
the thread that had locked it needed the lock, too. The two of them are there
to this day. People bring flowers.

On Saturday a new colleague came along. She went to the socket that the thread
was waiting for, and shut it down, both ways, from outside. The read returned.
The thread looked at its token, saw who had called, and why, and when, wrote
down all that it had heard so far, closed the door behind it, and went home for
supper. It took less than a millisecond.

On Sunday it was asked whether it could go on. "Of course," it said. "Where
were we?" And if no one has cancelled them, they are talking still.
"""
#: Markdown, with a line of code that is longer than most terminals are wide.
_CODE: Final = """\
A **watchdog** in *one line*, which you can copy as one:

```python
threading.Timer(5, agent.cancel, ["nobody has waited for this long enough"]).start()
```

| what it waits for | how it ends       |
|-------------------|-------------------|
| a silent stream   | at once           |
| `ctx.sleep(60)`   | at once           |
| `time.sleep(60)`  | left or waited for |
"""
_HELP: Final = """\
Here is what you can try. Say:

  tell me a story    long enough for Ctrl+C
  go on              it knows where you cut in
  what did I say?    the conversation is kept
  show me code       Markdown: code, a table, a line that is copied whole
  work 20 seconds    a tool that reports progress, and stops with you
  count for ever     a tool that ignores you; its process is killed
  delete /tmp/old    a tool that needs an approval; it only pretends
  order 2 pizzas     the same; yes, no, always, or other arguments
  book a table       a tool that asks you something

With --tools module:function, say the name of your tool, and I call it; arguments
may follow as JSON: {"city": "Oslo"}."""
_ABOUT: Final = "I am a script, not a model; say help to see what you can try."

#: A pattern, the tool to call, the text before the call, and the tool's arguments, each
#: with the group of the pattern that sets it and a default.
_TOOL_LINES: Final[tuple[tuple[str, str, str, dict[str, tuple[int, Any]]], ...]] = (
    (
        r"\b(?:wait|work)\b(?:\D*(\d{1,4}))?",
        *("work", "I will work on it.", {"seconds": (1, 20)}),
    ),
    (r"\b(?:count|loop|for ?ever)\b", "count_for_ever", "I count, and ignore you.", {}),
    (
        r"\bdelete\b(?:\s+(?:the|my|all|everything|in|folder))*\s*(\S+)?",
        *("delete_files", "I need your approval.", {"folder": (1, "/tmp/old")}),
    ),
    (
        r"\border\b\s*(\d{1,4})?\s*(\w+)?",
        *("order", "I will order it.", {"what": (2, "pizza"), "number": (1, 1)}),
    ),
    (r"\b(?:book|table)\b", "book_table", "Let me see.", {}),
)
#: Arguments for a user's tool, by the type in its schema.
_SAMPLES: Final[dict[Any, Any]] = {
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


class DemoModel(ScriptedModel):
    """Responds from a script, word by word.

    :param pace: seconds from word to word.
    """

    def __init__(self, *, pace: float = PACE) -> None:
        super().__init__()
        self.name = "demo"
        self._pace = pace

    def ask(
        self,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        *,
        token: CancelToken | None = None,
        options: Options | None = None,
        timeouts: Timeouts | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> ModelResponse:
        """Return the response to *messages*.

        Cancellation: ends at once, between two words.
        """
        if isinstance(messages, str):
            messages = [UserMessage.of(messages)]
        size = len(msgspec.json.encode(list(messages), enc_hook=repr))
        scripted = _respond(messages, tools)
        used = Usage(size // 4, len(_text(scripted.message.content)) // 4 + 1)
        scripted = msgspec.structs.replace(scripted, usage=used)
        response = ModelResponse(size)

        def events(token: CancelToken) -> Events:
            token.checkpoint()
            if on_phase is not None:
                on_phase("stream")
            for event in self._play(response, scripted):
                yield event
                if isinstance(event, TextDelta):
                    token.sleep(self._pace)
                token.checkpoint()

        return response.follow(events(token or CancelToken()))

    def _pieces(self, text: str) -> Iterator[str]:
        yield from re.findall(r"\s*\S+\s*|\s+", text)

    def __repr__(self) -> str:
        return "<DemoModel>"


def demo_model(*, pace: float = PACE) -> DemoModel:
    """Return a model that responds to everything.

    :param pace: seconds from word to word.
    """
    return DemoModel(pace=pace)


def _respond(
    messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> ScriptedResponse:
    last = messages[-1]
    if isinstance(last, ToolMessage):
        how = ("The tool says", "The tool failed, it says")
        results = [
            f"{how[each.is_error]}: {_text(each.content)}" for each in last.content
        ]
        return say("\n".join(results))
    prompts = [_text(m.content) for m in messages if isinstance(m, UserMessage)]
    responses = [m for m in messages if isinstance(m, AssistantMessage)]
    prompt = prompts[-1] if prompts else ""

    def says(pattern: str) -> re.Match[str] | None:
        return re.search(pattern, prompt, re.IGNORECASE)

    if says(r"^\s*(help|\?|what can)"):
        return say(_HELP)
    called = _call_tool(prompt, tools, f"call_{len(messages)}")
    if called is not None:
        return called
    if says(r"\b(story|tale|long)\b"):
        return say(STORY)
    if says(r"\b(code|markdown)\b"):
        return say(_CODE)
    cut = responses[-1] if responses and responses[-1].is_cut else None
    if says(r"^\s*(go on|continue|and then)\b"):
        return say(_continue(cut))
    if says(r"what did i say|history"):
        lines = "\n".join(f"  {n}. {text}" for n, text in enumerate(prompts[:-1], 1))
        cuts = sum(response.is_cut for response in responses)
        stopped = f"\n\nYou have stopped me {cuts} times; I remember that, too."
        return say(f"You said:\n\n{lines or 'nothing yet'}{stopped if cuts else ''}")
    heard = "You stopped me just now, and I know it. " if cut is not None else ""
    return say(f"{heard}{_ABOUT} You said: {prompt.strip()[:200]}")


def _continue(cut: AssistantMessage | None) -> str:
    """Continue the story where it was cut off."""
    if cut is None:
        return "You have not stopped me, so there is nothing to continue."
    first = cut.content[0] if len(cut.content) > 1 else None
    last = first.text.rstrip()[-40:] if isinstance(first, Text) else ""
    begin = STORY.find(last) if last else -1
    if begin < 0:
        return f"You stopped me after {last!r}. I had little more to say."
    rest = STORY[begin + len(last) :].lstrip()
    return f"You stopped me after {last!r}, so:\n\n... {rest}"


def _call_tool(
    prompt: str, tools: Sequence[ToolSpec], call_id: str
) -> ScriptedResponse | None:
    """Call the tool that the prompt names, or one of the demo's own."""
    own = {name for _, name, _, _ in _TOOL_LINES}
    for spec in tools:
        name = rf"(?<![\w-]){re.escape(spec.name)}(?![\w-])(.*)"
        rest = re.search(name, prompt, re.DOTALL)
        json = rest and re.search(r"\{.*\}", rest[1], re.DOTALL)
        if rest is None or (json is None and spec.name in own):
            continue  # a pattern below reads the prompt better
        properties, text = spec.parameters.get("properties", {}), rest[1].strip(" ()\n")
        arguments: Any = json[0] if json else {}
        for key in () if json else spec.parameters.get("required", ()):
            schema = properties.get(key, {})
            sample = _SAMPLES.get(schema.get("type"), text or "demo")
            arguments[key] = schema["enum"][0] if "enum" in schema else sample
        return say(f"I call {spec.name}.", call(spec.name, arguments, call_id))
    for pattern, tool_name, text, groups in _TOOL_LINES:
        match = re.search(pattern, prompt, re.IGNORECASE)
        if match and any(spec.name == tool_name for spec in tools):
            found = {
                key: type(default)(match[group]) if match[group] else default
                for key, (group, default) in groups.items()
            }
            return say(text, call(tool_name, found, call_id))
    return None


def _text(blocks: Sequence[Any]) -> str:
    texts = [block.text for block in blocks if isinstance(block, Text)]
    values = [block.value for block in blocks if isinstance(block, Json)]
    return " ".join([*texts, *(msgspec.json.encode(each).decode() for each in values)])
