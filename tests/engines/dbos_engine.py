"""DBOS, whose queue is in the database of the store."""

import os
import subprocess
import sys
from pathlib import Path

from engine import HERE, Engine


class DBOSEngine(Engine):
    """A process with DBOS; runs are steps of workflows."""

    name = "dbos"
    recipe = "dbos_recipe"
    packages = ("dbos",)
    ready = "ready"

    @property
    def command(self):
        return [HERE / "recipes" / "dbos_worker.py"]

    def set_up(self, environment):
        program = Path(sys.executable).with_name("dbos")
        subprocess.run(
            [program, "migrate", "-s", environment["SYNCAGENT_STORE"]],
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
        )
