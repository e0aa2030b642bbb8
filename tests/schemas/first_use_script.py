"""Threads that use new types at the same moment; a crash ends the process."""

import sys
from dataclasses import make_dataclass
from typing import Annotated

from support.threads import together

from syncagent.schemas.shape import Shape

if __name__ == "__main__":
    sys.setswitchinterval(1e-6)
    for number in range(int(sys.argv[1])):
        shape = Shape(Annotated[int, f"number {number}"])
        together(*[lambda shape=shape: shape.convert(3)] * 4)
        shared = make_dataclass("Shared", [("numbers", list[int])])
        hints = [list[shared], dict[str, shared], shared | None, shared]
        together(*[lambda hint=hint: Shape(hint).schema for hint in hints])
    print("well")
