"""Families of models behind the Responses API: the efforts that each takes.

Source: the documentation of OpenAI and xAI, and their error messages. A newer name of a
known family counts as its latest model. A name of no known family, such as the name of
a deployment, counts as a model that takes everything.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from ...exceptions import ConfigurationError
from ...options import Effort
from ..families import (
    EFFORTS,
    UP_TO_HIGH,
    UP_TO_MAX,
    UP_TO_XHIGH,
    Sampling,
    bare_name,
    cannot_stop,
    nearest_effort,
)


class ResponsesFamily(msgspec.Struct, frozen=True):
    """Models that take the same options."""

    #: A pattern for the beginning of their names.
    names: str
    #: Their efforts, from the lowest; empty if their effort cannot be set.
    efforts: tuple[Effort, ...] = EFFORTS
    #: False for models that never reason; they reject the fields of reasoning.
    reasons: bool = True
    #: When they take a temperature: ``idle`` is while they do not reason.
    sampling: Sampling = "always"

    def word_for(self, model: str, effort: Effort) -> Effort | None:
        """Return the nearest effort of the model; None for one that never reasons.

        :raises ConfigurationError: the model has no such effort.
        """
        if not self.reasons and effort == "none":
            return None
        if not self.efforts:
            raise ConfigurationError(
                f"the effort of {model} cannot be set; leave out effort="
            )
        if effort == "none" and "none" not in self.efforts:
            raise cannot_stop(model, self.efforts[0])
        return nearest_effort(effort, self.efforts)


#: The first that fits counts.
_FAMILIES: Final = (
    ResponsesFamily(r"chatgpt-4|gpt-[34]|gpt-5-chat|gpt-audio", (), reasons=False),
    ResponsesFamily(r"o\d.*-research|computer-use|gpt-5\.\d+-chat", ("medium",)),
    ResponsesFamily(r"o\d|codex-mini", UP_TO_HIGH, sampling="never"),
    ResponsesFamily(r"gpt-5-pro", ("high",), sampling="never"),
    ResponsesFamily(r"gpt-5(\.1)?-codex(?!-max)", UP_TO_HIGH, sampling="never"),
    ResponsesFamily(r"gpt-5\.[1-5]-codex", UP_TO_XHIGH, sampling="never"),
    ResponsesFamily(r"gpt-5\.[2-5]-pro", UP_TO_XHIGH[1:], sampling="never"),
    ResponsesFamily(r"gpt-5(?![.\d])", ("minimal", *UP_TO_HIGH), sampling="never"),
    ResponsesFamily(r"gpt-5\.1(?!\d)", ("none", *UP_TO_HIGH), sampling="idle"),
    ResponsesFamily(r"gpt-5\.[2-5](?!\d)", ("none", *UP_TO_XHIGH), sampling="idle"),
    ResponsesFamily(r"gpt-[\d.]+-astra", UP_TO_MAX, sampling="never"),
    ResponsesFamily(r"gpt-\d", ("none", *UP_TO_MAX), sampling="idle"),
    ResponsesFamily(r"gpt-oss", UP_TO_HIGH),
    ResponsesFamily(r"grok-3-mini", ("low", "high")),
    ResponsesFamily(r"grok-4\.20-multi-agent", UP_TO_XHIGH),
    ResponsesFamily(r"grok-4[.-]3", ("none", *UP_TO_HIGH)),
    ResponsesFamily(r"grok-4[.-]5", UP_TO_HIGH),
    ResponsesFamily(r"grok-(?:[23]|4(?![.\d])|4\.[12]|code|build)", ()),
    ResponsesFamily(r"grok", UP_TO_XHIGH),
)
_UNKNOWN: Final = ResponsesFamily("")


@lru_cache
def find_family(model: str) -> ResponsesFamily:
    """Return the family of a model."""
    name = bare_name(model)
    return next((each for each in _FAMILIES if re.match(each.names, name)), _UNKNOWN)
