"""The simplest killable."""

from syncagent.cancel import Killable


class Counter(Killable):
    """Counts how often it was fired and let go."""

    def __init__(self):
        super().__init__()
        self.fired = 0
        self.let_gone = 0

    def fire(self):
        self.fired += 1

    def let_go(self):
        self.let_gone += 1
