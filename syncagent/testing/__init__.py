"""What tests of syncagent use, for the tests of its users too."""

from .clock import FakeClock
from .gate import Gate
from .leaks import no_leaks

__all__ = ["FakeClock", "Gate", "no_leaks"]
