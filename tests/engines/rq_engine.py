"""RQ, with work horses."""

from engine import Engine


class RQEngine(Engine):
    """A worker, which forks a work horse for each job.

    Not a pool of them: one that is idle when the pool ends may take a released run
    along, and then the run is handed out again only after a minute.
    """

    packages = ("rq",)
    needs_redis = True
    has_broker = True
    ready = "*** Listening on runs"
    runs_at_once = 1

    def __init__(self, recipe="rq_recipe", worker="RunWorker"):
        self.name = f"rq-{worker}"
        self.recipe = recipe
        self._worker = worker

    @property
    def command(self):
        return [
            *("-m", "rq.cli", "worker", "runs"),
            *("--worker-class", f"{self.recipe}.{self._worker}"),
        ]
