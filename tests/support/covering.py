"""Parametrise a product of axes of which the default run takes only a part."""

from itertools import combinations, product

import pytest


def each_value(names, *axes):
    """Run a test with every value of every axis; the whole product is ``stress``.

    :param names: as for ``pytest.mark.parametrize``.
    :param axes: the values of each name.
    """
    number = max(map(len, axes))
    chosen = {tuple(case % len(axis) for axis in axes) for case in range(number)}
    return _parametrize(names, axes, chosen)


def each_pair(names, *axes):
    """Run a test with every pair of values of any two axes; else as `each_value`."""
    cases = list(product(*(range(len(axis)) for axis in axes)))
    wanted = {pair for case in cases for pair in _pairs(case)}
    chosen = set()
    while wanted:
        best = max(cases, key=lambda case: len(wanted & _pairs(case)))
        chosen.add(best)
        wanted -= _pairs(best)
    return _parametrize(names, axes, chosen)


def _pairs(case):
    """Return the pairs of (axis, number of its value) in a case."""
    return set(combinations(enumerate(case), 2))


def _parametrize(names, axes, chosen):
    cases = []
    for case in product(*(range(len(axis)) for axis in axes)):
        values = [axis[number] for axis, number in zip(axes, case, strict=True)]
        marks = () if case in chosen else pytest.mark.stress
        cases.append(pytest.param(*values, marks=marks))
    return pytest.mark.parametrize(names, cases)
