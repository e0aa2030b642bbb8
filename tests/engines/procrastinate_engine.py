"""Procrastinate, whose broker is the database of the store."""

import os
import subprocess
import sys

from engine import Engine


class ProcrastinateEngine(Engine):
    """A worker of Procrastinate; jobs are rows in PostgreSQL."""

    name = "procrastinate"
    recipe = "procrastinate_web"
    packages = ("procrastinate",)
    ready = "Starting worker"

    @property
    def command(self):
        return [*_PROGRAM, "worker", "--queues=agents"]

    def set_up(self, environment):
        subprocess.run(
            [sys.executable, *_PROGRAM, "schema", "--apply"],
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
        )


_PROGRAM = ("-m", "procrastinate", "--app", "procrastinate_recipe.app")
