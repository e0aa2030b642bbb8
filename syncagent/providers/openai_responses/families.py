"""Families of models, and the words that each understands.

The efforts are those that OpenAI and xAI document for each model, or name in their
error messages. A newer name of a known family counts as its latest model; a name of no
known family, such as a deployment's, counts as a model that understands everything.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, get_args

import msgspec

from ...exceptions import ConfigurationError
from ...options import Effort, Options

_EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
_UP_TO_HIGH: Final[tuple[Effort, ...]] = ("low", "medium", "high")
_UP_TO_XHIGH: Final[tuple[Effort, ...]] = (*_UP_TO_HIGH, "xhigh")
_UP_TO_MAX: Final[tuple[Effort, ...]] = (*_UP_TO_XHIGH, "max")
#: A vendor in front of the name, as gateways and clouds have it, or the mark of a
#: fine-tuned model.
_PREFIX: Final = re.compile(r"\A(?:.*/)?(?:ft:|(?:[a-z-]+\.)+)?")


class ResponsesFamily(msgspec.Struct, frozen=True):
    """Models that understand the same."""

    #: A pattern for the beginning of their names.
    names: str
    #: From the lowest one; empty if their effort cannot be set.
    efforts: tuple[Effort, ...] = _EFFORTS
    #: False for models that never reason; they reject the fields of reasoning.
    reasons: bool = True
    #: When they take a temperature: ``idle`` is while they do not reason.
    sampling: Literal["always", "idle", "never"] = "always"

    def word_for(self, model: str, effort: Effort) -> Effort | None:
        """Return the nearest effort of the model; None if there is nothing to ask for.

        :raises ConfigurationError: the model does not reason, or cannot stop to.
        """
        if not self.reasons and effort == "none":
            return None
        if not self.efforts:
            raise ConfigurationError(
                f"the effort of {model} cannot be set; leave out effort="
            )
        if effort == "none" and "none" not in self.efforts:
            raise ConfigurationError(
                f"{model} always thinks, so its effort cannot be 'none'; the lowest "
                f"one is {self.efforts[0]!r}"
            )
        place = _EFFORTS.index
        others = [word for word in self.efforts if word != "none" or effort == "none"]
        # Of two that are equally near, it is the higher one.
        return min(reversed(others), key=lambda word: abs(place(word) - place(effort)))

    def check_sampling(self, model: str, options: Options) -> None:
        """Raise ConfigurationError if the model rejects a temperature or top_p.

        OpenAI's models do so while they reason. A gateway may leave the field out, and
        without an effort some models reason and others do not: the provider decides.
        """
        names = [n for n in ("temperature", "top_p") if getattr(options, n) is not None]
        is_idle = self.sampling == "idle" and options.effort in (None, "none")
        if not names or self.sampling == "always" or is_idle or "/" in model:
            return
        hint = " or set effort='none'," if "none" in self.efforts else ""
        raise ConfigurationError(
            f"{model} takes no {' or '.join(names)} while it reasons; leave it out,"
            f"{hint} or pass it with extra="
        )


#: The first that fits counts.
_FAMILIES: Final = (
    ResponsesFamily(r"chatgpt-4|gpt-[34]|gpt-5-chat|gpt-audio", (), reasons=False),
    ResponsesFamily(r"o\d.*-research|computer-use|gpt-5\.\d+-chat", ("medium",)),
    ResponsesFamily(r"o\d|codex-mini", _UP_TO_HIGH, sampling="never"),
    ResponsesFamily(r"gpt-5-pro", ("high",), sampling="never"),
    ResponsesFamily(r"gpt-5(\.1)?-codex(?!-max)", _UP_TO_HIGH, sampling="never"),
    ResponsesFamily(r"gpt-5\.[1-5]-codex", _UP_TO_XHIGH, sampling="never"),
    ResponsesFamily(r"gpt-5\.[2-5]-pro", _UP_TO_XHIGH[1:], sampling="never"),
    ResponsesFamily(r"gpt-5(?![.\d])", ("minimal", *_UP_TO_HIGH), sampling="never"),
    ResponsesFamily(r"gpt-5\.1(?!\d)", ("none", *_UP_TO_HIGH), sampling="idle"),
    ResponsesFamily(r"gpt-5\.[2-5](?!\d)", ("none", *_UP_TO_XHIGH), sampling="idle"),
    ResponsesFamily(r"gpt-[\d.]+-astra", _UP_TO_MAX, sampling="never"),
    ResponsesFamily(r"gpt-\d", ("none", *_UP_TO_MAX), sampling="idle"),
    ResponsesFamily(r"gpt-oss", _UP_TO_HIGH),
    ResponsesFamily(r"grok-3-mini", ("low", "high")),
    ResponsesFamily(r"grok-4\.20-multi-agent", _UP_TO_XHIGH),
    ResponsesFamily(r"grok-4[.-]3", ("none", *_UP_TO_HIGH)),
    ResponsesFamily(r"grok-4[.-]5", _UP_TO_HIGH),
    ResponsesFamily(r"grok-(?:[23]|4(?![.\d])|4\.[12]|code|build)", ()),
    ResponsesFamily(r"grok", _UP_TO_XHIGH),
)
_UNKNOWN: Final = ResponsesFamily("")


@lru_cache
def find_family(model: str) -> ResponsesFamily:
    """Return the family of a model."""
    name = _PREFIX.sub("", model.lower())
    return next((each for each in _FAMILIES if re.match(each.names, name)), _UNKNOWN)
