"""Variables in a configuration file: ``${VAR}``, ``${VAR:-default}``, ``${input:id}``.

A variable without a value is an error that names it. It never becomes an empty text: a
server would get a header that looks right and says nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from ..exceptions import ConfigurationError

__all__ = ["ConfigInput", "Variables", "variables_in"]

_VARIABLE: Final = re.compile(r"\$\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
#: Names that mean a place, and no variable of the environment.
_PLACES: Final = ("workspaceFolder", "workspaceFolderBasename", "userHome")
_INPUT: Final = "input:"


class ConfigInput(msgspec.Struct, frozen=True):
    """A value that a file wants from a person, as in VS Code's ``inputs``."""

    id: str
    description: str = ""
    #: True if it must not be shown while it is typed.
    is_secret: bool = False
    default: str | None = None
    #: The values to choose from; empty for any text.
    options: tuple[str, ...] = ()


def variables_in(text: str) -> Iterator[str]:
    """Yield the names of the environment variables that *text* uses."""
    for match in _VARIABLE.finditer(text):
        name = match[1].partition(":-")[0].removeprefix("env:")
        if name not in _PLACES and _NAME.match(name):
            yield name


class Variables:
    """The values for the variables of one file.

    :param folder: the folder of the project that the file belongs to.
    :param inputs: the inputs that the file declares, by id.
    :param ask: returns the value of an input; each is asked for once.
    :param environment: by default that of this process.
    """

    def __init__(
        self,
        folder: str,
        inputs: Mapping[str, ConfigInput],
        ask: Callable[[ConfigInput], str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        values = (
            folder,
            os.path.basename(folder),
            os.path.expanduser("~"),
        )
        self._places = dict(zip(_PLACES, values, strict=True))
        self._inputs = inputs
        self._ask = ask
        self._environment = os.environ if environment is None else environment
        self._answers: dict[str, str] = {}

    def expand(self, text: str, place: str) -> str:
        """Return *text* with values in place of variables; values are not looked at.

        :param place: the file and the path in it, for errors.
        :raises ConfigurationError: a variable has no value, or none is called so.
        """
        if "${" in _VARIABLE.sub("", text):
            raise ConfigurationError(
                f"{place}: a variable is not closed, or is inside another; write "
                "${NAME} or ${NAME:-default}"
            )
        return _VARIABLE.sub(lambda match: self._value(match[1], place), text)

    def _value(self, name: str, place: str) -> str:
        if name in self._places:
            return self._places[name]
        if name.startswith(_INPUT):
            return self._input(name.removeprefix(_INPUT), place)
        variable, has_default, default = name.partition(":-")
        variable = variable.removeprefix("env:")
        if not _NAME.match(variable):
            raise ConfigurationError(
                f"{place}: ${{{name:.60}}} is not known here; there are ${{NAME}}, "
                "${NAME:-default}, ${env:NAME}, ${input:ID}, "
                + ", ".join(f"${{{each}}}" for each in _PLACES)
            )
        value = self._environment.get(variable)
        if has_default:  # as in a shell: an empty one counts as missing
            return value or default
        if value is None:
            raise ConfigurationError(
                f"{place}: the environment variable {variable} is not set; set it, or "
                f"write ${{{variable}:-default}} in the file"
            )
        return value

    def _input(self, id: str, place: str) -> str:
        wanted = self._inputs.get(id, ConfigInput(id))
        if id not in self._answers:
            if self._ask is None:
                about = f" ({wanted.description:.200})" if wanted.description else ""
                raise ConfigurationError(
                    f"{place}: needs the input {id!r:.60}{about} from a person; pass "
                    "ask=, or write ${NAME} and set that environment variable"
                )
            self._answers[id] = self._ask(wanted)
        return self._answers[id]
