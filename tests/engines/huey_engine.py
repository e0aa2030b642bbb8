"""Huey, with its tasks in a SQLite file."""

from engine import Engine


class HueyEngine(Engine):
    """A consumer of Huey with threads, or with processes."""

    database = "sqlite"
    ready = "The following commands are available"

    def __init__(self, kind, recipe="huey_recipe", *, needs_redis=False):
        self.name = f"huey-{kind}{'-redis' * needs_redis}"
        self.packages = ("huey", "redis") if needs_redis else ("huey",)
        self.recipe = recipe
        self.needs_redis = self.has_broker = needs_redis
        self._kind = kind

    @property
    def command(self):
        return [
            *("-m", "huey.bin.huey_consumer", f"{self.recipe}.huey"),
            *("-k", self._kind, "-w", "4", "-m", "0.2"),
        ]

    def environment(self, folder):
        return {"HUEY_FILE": str(folder / "huey.db")}
