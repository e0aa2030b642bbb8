"""Dramatiq, with threads."""

from engine import Engine


class DramatiqEngine(Engine):
    """A process of Dramatiq's command line, and one process with threads below it."""

    name = "dramatiq"
    packages = ("dramatiq", "redis")
    needs_redis = True
    has_broker = True
    ready = "is ready for action"
    threads = 4

    def __init__(self, recipe="dramatiq_recipe"):
        self.recipe = recipe

    @property
    def command(self):
        threads = str(self.threads)
        return ["-m", "dramatiq", self.recipe, "-p", "1", "-t", threads]

    def environment(self, folder):
        return {"dramatiq_queue_prefetch": str(self.threads)}
