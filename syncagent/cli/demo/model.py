"""A scripted model to talk to where there is no real one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ...cancel import CancelToken
from ...events import TextDelta
from ...messages import Message, UserMessage
from ...models.response import Events, ModelResponse
from ...options import Options, ToolSpec
from ...testing import ScriptedModel, ScriptedResponse
from ...transport.timeouts import Timeouts
from .lines import DemoTalk, find_reply

__all__ = ["DemoModel", "PACE", "demo_model"]

#: Seconds from word to word: as fast as one reads.
PACE: Final = 0.025


class DemoModel(ScriptedModel):
    """Answer from a table of lines, word by word, as fast as one reads.

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
        """Return what there is to say to *messages*.

        Cancellation: ends at once, between two words.
        """
        said = [UserMessage.of(messages)] if isinstance(messages, str) else messages
        talk = DemoTalk(list(said), tools)
        answer, reply = ModelResponse(talk.size), find_reply(talk)
        return answer.follow(
            self._paced(answer, reply, token or CancelToken(), on_phase)
        )

    def _paced(
        self,
        answer: ModelResponse,
        reply: ScriptedResponse,
        token: CancelToken,
        on_phase: Callable[[str], object] | None,
    ) -> Events:
        token.checkpoint()
        if on_phase is not None:
            on_phase("stream")
        for event in self._play(answer, reply):
            yield event
            if isinstance(event, TextDelta):
                token.sleep(self._pace)
            token.checkpoint()

    def _pieces(self, text: str) -> Iterator[str]:
        yield from re.findall(r"\s*\S+\s*|\s+", text)

    def __repr__(self) -> str:
        return "<DemoModel>"


def demo_model(*, pace: float = PACE) -> DemoModel:
    """Return a model that has something to say to everything.

    :param pace: seconds from word to word.
    """
    return DemoModel(pace=pace)
