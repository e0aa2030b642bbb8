"""Names and efforts of models, for the families of every dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, get_args

from ..exceptions import ConfigurationError
from ..options import Effort, Options

#: When a model takes a temperature: ``idle`` is while it does not think.
Sampling = Literal["always", "idle", "never"]

#: All efforts, from the least to the most.
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
UP_TO_HIGH: Final[tuple[Effort, ...]] = ("low", "medium", "high")
UP_TO_XHIGH: Final[tuple[Effort, ...]] = (*UP_TO_HIGH, "xhigh")
UP_TO_MAX: Final[tuple[Effort, ...]] = (*UP_TO_XHIGH, "max")
#: A vendor before the name, as gateways and clouds have it, or the mark of a tuned
#: model.
_VENDOR: Final = re.compile(r"\A(?:.*/)?(?:ft:|(?:[a-z-]+\.)+)?")


def bare_name(model: str) -> str:
    """Return the name of a model in lower case, without a vendor before it."""
    return _VENDOR.sub("", model.lower())


def nearest_effort(wanted: Effort, words: Sequence[Effort]) -> Effort:
    """Return the nearest of the *words* of a model; of two, the one that thinks more.

    Thinking is never turned off by this: ``none`` is no neighbour of the others.
    """
    others = [word for word in words if word != "none" or wanted == "none"]
    place = EFFORTS.index
    return min(
        others, key=lambda word: (abs(place(word) - place(wanted)), -place(word))
    )


def check_sampling(
    model: str,
    sampling: Sampling,
    options: Options,
    effort: Effort | None,
    *,
    can_stop: bool,
) -> None:
    """Raise ConfigurationError if the model rejects a temperature or top_p.

    Without an effort some models think and others do not: the provider decides. A
    gateway, whose names have a slash, may leave the field out.

    :param can_stop: true if the model can be told not to think.
    """
    values = {"temperature": options.temperature, "top_p": options.top_p}
    names = [name for name, value in values.items() if value not in (None, 1)]
    is_idle = sampling == "idle" and effort in (None, "none")
    if not names or sampling == "always" or is_idle or "/" in model:
        return
    hint = " set effort='none'," if can_stop else ""
    raise ConfigurationError(
        f"{model} takes no {' or '.join(names)} while it thinks; leave it out,{hint} "
        "or pass it with extra="
    )
