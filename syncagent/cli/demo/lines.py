"""What the demo model says to what: a table of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ...messages import (
    AssistantMessage,
    Json,
    Message,
    Text,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from ...options import ToolSpec
from ...testing import ScriptedResponse, call, say
from ...usage import Usage
from .story import STORY
from .tools import demo_tools

__all__ = ["LINES", "DemoLine", "DemoTalk", "find_reply"]


class DemoTalk(msgspec.Struct, frozen=True):
    """What the model can see when it is its turn."""

    messages: list[Message]
    tools: Sequence[ToolSpec]

    @property
    def prompts(self) -> list[str]:
        """All that the user has said."""
        said = (m for m in self.messages if isinstance(m, UserMessage))
        return [_words(message.content) for message in said]

    @property
    def cut_off(self) -> str | None:
        """What it was saying when the user stopped it, if that was just now."""
        answers = (m for m in self.messages[::-1] if isinstance(m, AssistantMessage))
        last = next(answers, None)
        if last is None or not last.is_cut:
            return None
        first = last.content[0] if len(last.content) > 1 else None
        return first.text if isinstance(first, Text) else ""

    @property
    def size(self) -> int:
        """How much there is to read, in bytes."""
        return len(msgspec.json.encode(self.messages, enc_hook=repr))

    def has(self, name: str) -> bool:
        """Is there a tool of that name?"""
        return any(spec.name == name for spec in self.tools)


def find_reply(talk: DemoTalk) -> ScriptedResponse:
    """Return the first line of the table that fits, with what it has cost."""
    last = talk.messages[-1]
    if isinstance(last, ToolMessage):
        reply = _results(last.content)
    else:
        prompt = talk.prompts[-1] if talk.prompts else ""
        found = (_answer(line, prompt, talk) for line in LINES)
        reply = next((each for each in found if each is not None), say(_ABOUT))
    used = Usage(
        talk.size // 4,
        sum(len(block.text) // 4 for block in _texts(reply.message.content)) + 1,
    )
    return msgspec.structs.replace(reply, usage=used)


def _results(results: tuple[ToolResult, ...]) -> ScriptedResponse:
    """Say what the tools have said."""
    parts = []
    for result in results:
        how = "went wrong, it says" if result.is_error else "says"
        parts.append(f"The tool {how}: {_words(result.content)}")
    return say("\n".join(parts))


def _help(match: re.Match[str], talk: DemoTalk) -> ScriptedResponse:
    known = "\n".join(
        f"  {line.sample:<18} {line.about}" for line in LINES if line.about
    )
    return say(f"Here is what you can try. Say:\n\n{known}\n\n{_OWN_TOOLS}")


def _story(match: re.Match[str], talk: DemoTalk) -> ScriptedResponse:
    return say(STORY)


def _go_on(match: re.Match[str], talk: DemoTalk) -> ScriptedResponse | None:
    """Go on where the story was cut off."""
    cut = talk.cut_off
    if cut is None:
        return say("Nobody has stopped me, so there is nothing to go on with.")
    last = cut.rstrip()[-40:]
    begin = STORY.find(last) if last else -1
    if begin < 0:
        return say(f"You stopped me after {last!r}. I had little more to say.")
    rest = STORY[begin + len(last) :].lstrip()
    return say(f"You stopped me after {last!r}, so:\n\n... {rest}")


def _said(match: re.Match[str], talk: DemoTalk) -> ScriptedResponse:
    before = talk.prompts[:-1]
    if not before:
        return say("Nothing yet: this is the first thing that you say.")
    lines = "\n".join(f"  {number}. {text}" for number, text in enumerate(before, 1))
    cuts = sum(isinstance(m, AssistantMessage) and m.is_cut for m in talk.messages)
    often = "once" if cuts == 1 else f"{cuts} times"
    stopped = f"\n\nYou have stopped me {often}, and I remember that, too."
    return say(f"You said:\n\n{lines}{stopped if cuts else ''}")


def _named_tool(match: re.Match[str], talk: DemoTalk) -> ScriptedResponse | None:
    """Call a tool whose name is in the prompt, with arguments that might do."""
    prompt = match.string
    for spec in talk.tools:
        after = re.search(
            rf"(?<![\w-]){re.escape(spec.name)}(?![\w-])(.*)", prompt, re.S
        )
        if after is None:
            continue
        given = re.search(r"\{.*\}", after[1], re.S)
        if given is None and spec.name in _KNOWN:
            continue  # there is a line for it, which reads the prompt better
        arguments = given[0] if given else _arguments(spec, after[1].strip(" ()\n"))
        return say(f"I call {spec.name}.", call(spec.name, arguments, _id(talk)))
    return None


def _tool(
    name: str, words: str, **arguments: Any
) -> Callable[..., ScriptedResponse | None]:
    """Return a line that calls a tool; arguments may be groups of the pattern."""

    def answer(match: re.Match[str], talk: DemoTalk) -> ScriptedResponse | None:
        if not talk.has(name):
            return None
        found = {key: _group(match, value) for key, value in arguments.items()}
        return say(words, call(name, found, _id(talk)))

    return answer


def _group(match: re.Match[str], value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    group, default = value
    found = match[group]
    return default if not found else type(default)(found)


def _otherwise(match: re.Match[str], talk: DemoTalk) -> ScriptedResponse:
    heard = "You stopped me just now, and I have heard it. " if talk.cut_off else ""
    return say(f"{heard}{_ABOUT} You said: {match.string.strip()[:200]}")


class DemoLine(msgspec.Struct, frozen=True):
    """What to look for in what the user says, and how to answer."""

    pattern: str
    answer: Callable[[re.Match[str], DemoTalk], ScriptedResponse | None]
    #: For the list of what one can try.
    sample: str = ""
    about: str = ""


_ABOUT: Final = (
    "I am a script, not a model: I know a few lines by heart. Say help to see what "
    "can be tried."
)
_OWN_TOOLS: Final = (
    "With --tools module:function, say the name of your tool, and I call it; arguments "
    'may follow as JSON: {"city": "Oslo"}.'
)

#: Tools for which there is a line.
_KNOWN: Final = frozenset(each.name for each in demo_tools())

#: The first that fits, and has an answer, counts.
LINES: Final = (
    DemoLine(r"^\s*(help|\?|what can)", _help),
    DemoLine(r"", _named_tool),
    DemoLine(
        r"\b(story|tale|long)\b", _story, "tell me a story", "long enough for Ctrl+C"
    ),
    DemoLine(
        r"^\s*(go on|continue|and then)\b", _go_on, "go on", "it knows where you cut in"
    ),
    DemoLine(
        r"what did i say|history", _said, "what did I say?", "the conversation is kept"
    ),
    DemoLine(
        r"\b(?:wait|work)\b(?:\D*(\d{1,4}))?",
        _tool("work", "I will work on it.", seconds=(1, 20)),
        *("work 20 seconds", "a tool that says how far it is, and stops with you"),
    ),
    DemoLine(
        r"\b(count|loop|for ?ever)\b",
        _tool("count_for_ever", "I count, and listen to nobody."),
        *("count for ever", "a tool that never looks up; its process is killed"),
    ),
    DemoLine(
        r"\bdelete\b(?:\s+(?:the|my|all|everything|in|folder))*\s*(\S+)?",
        _tool("delete_files", "I need your approval for that.", folder=(1, "/tmp/old")),
        *("delete /tmp/old", "a tool that has to be approved; it only pretends"),
    ),
    DemoLine(
        r"\border\b\s*(\d{1,4})?\s*(\w+)?",
        _tool("order", "I will order it.", what=(2, "pizza"), number=(1, 1)),
        *("order 2 pizzas", "the same; yes, no, always, or other arguments"),
    ),
    DemoLine(
        r"\b(book|table)\b",
        _tool("book_table", "Let me see."),
        *("book a table", "a tool that asks you something"),
    ),
    DemoLine(r"", _otherwise),
)


def _answer(line: DemoLine, prompt: str, talk: DemoTalk) -> ScriptedResponse | None:
    match = re.search(line.pattern, prompt, re.IGNORECASE)
    return None if match is None else line.answer(match, talk)


# -- reading -----------------------------------------------------------------------


def _texts(blocks: Sequence[Any]) -> list[Text]:
    return [block for block in blocks if isinstance(block, Text)]


def _words(blocks: Sequence[Any]) -> str:
    shown = [
        msgspec.json.encode(block.value).decode() if isinstance(block, Json) else ""
        for block in blocks
    ]
    return " ".join([*(text.text for text in _texts(blocks)), *filter(None, shown)])


def _id(talk: DemoTalk) -> str:
    """Return an id that no other call of the conversation has."""
    return f"call_{len(talk.messages)}"


def _arguments(spec: ToolSpec, rest: str) -> dict[str, Any]:
    """Return arguments that might do for a tool about which the schema is known."""
    properties = spec.parameters.get("properties", {})
    found = {}
    for name in spec.parameters.get("required", ()):
        kind = properties.get(name, {})
        if "enum" in kind:
            found[name] = kind["enum"][0]
        else:
            found[name] = _SAMPLES.get(kind.get("type"), rest or "demo")
    return found


_SAMPLES: Final[dict[Any, Any]] = {
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}
