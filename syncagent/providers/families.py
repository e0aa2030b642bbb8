"""Names, efforts and temperatures of models, for the families of every dialect."""

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
#: A vendor before the name, as at gateways and clouds, or the mark of a tuned model.
_VENDOR: Final = re.compile(r"\A(?:.*/)?(?:ft:|(?:[a-z-]+\.)+)?")


def bare_name(model: str) -> str:
    """Return the name of a model in lower case, without a vendor before it."""
    return _VENDOR.sub("", model.lower())


def nearest_effort(wanted: Effort, words: Sequence[Effort]) -> Effort:
    """Return the nearest of the *words* of a model; of two, the one that thinks more.

    ``none`` is not next to any other word: thinking is turned off on request only.
    """
    others = [word for word in words if word != "none" or wanted == "none"]
    place = EFFORTS.index
    return min(
        others, key=lambda word: (abs(place(word) - place(wanted)), -place(word))
    )


def cannot_stop(model: str, least: str = "") -> ConfigurationError:
    """Return the error about the effort ``none`` for a model that always thinks.

    :param least: the lowest effort of the model, if it has any.
    """
    hint = f"; its least effort is {least!r}" if least else "; leave out effort="
    return ConfigurationError(
        f"{model} cannot stop thinking, as effort='none' asks{hint}"
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

    Models of a gateway, whose names have a slash, are not checked: the gateway may drop
    the field.

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
