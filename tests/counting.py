"""An engine in plain Python that counts insertions where they happen, knowing nothing of the budget."""

from edgeforest.codes import Reader
from edgeforest.core_pure import Engine, Grower, Training
from edgeforest.nodes import Nodes


class CountingList(list):
    """A histogram that counts how often one of its cells is written."""

    writes = 0

    def __setitem__(self, place, value):
        self.writes += 1
        super().__setitem__(place, value)


class CountingNodes(Nodes):
    """The operations on a node; `insertions` are those that it made."""

    insertions = 0

    def add(self, c, values, stride):
        c.h = counting = CountingList(c.h)
        super().add(c, values, stride)
        # One insertion writes the class, or the count and each power of the target.
        cells = len(c.h) // stride if self.data.regression else 1
        assert counting.writes % cells == 0
        assert counting.writes // cells == len(values[0])
        self.insertions += counting.writes // cells
        c.h = list(counting)


def counting_training(X, y, **options):
    """A training, and a list of its operations on nodes: empty until it has begun."""
    made = []

    def make_nodes(task):
        made.append(CountingNodes(task))
        return made[-1]

    engine = Engine("pure", Reader, lambda task: Grower(task, make_nodes))
    return Training(X, y, engine=engine, **options), made
