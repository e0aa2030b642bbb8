"""The errors as a tree."""

import inspect
import pickle

import pytest

from syncagent import exceptions

NAMES = [getattr(exceptions, name) for name in exceptions.__all__]
CLASSES = [name for name in NAMES if inspect.isclass(name)]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_is_drawn_documented_and_picklable(error):
    """It stands in the tree, says what it is, and can cross a process."""
    assert f"{error.__name__}(" in exceptions.__doc__
    assert inspect.getdoc(error)
    again = pickle.loads(pickle.dumps(error("what happened")))
    assert type(again) is error
    assert str(again) == str(error("what happened"))
    assert vars(again) == vars(error("what happened"))


def test_one_root():
    """Everything that is an error can be caught by one name."""
    for error in CLASSES:
        assert issubclass(error, exceptions.SyncAgentError) != (
            error is exceptions.Cancelled
        )
