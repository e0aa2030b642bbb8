"""What serves the tests of agents serves here too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "agent"))
