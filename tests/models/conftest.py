"""Fixtures of all tests of models."""

import pytest
from support.model_classes import CLASSES

from syncagent.transport import close_idle


@pytest.fixture(params=CLASSES, ids=lambda kind: kind.__name__)
def kind(request):
    """Each of the classes."""
    return request.param


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request):
    """Both ways to receive a response."""
    return request.param


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()
