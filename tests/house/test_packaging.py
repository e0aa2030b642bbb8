"""What is declared is what is tested."""

import ast
import configparser
import re
from importlib.metadata import distribution

from source import ROOT, parse

import syncagent


def declared():
    """Return name -> requirement of setup.py, dependencies and the test extra."""
    strings = [
        node.value
        for node in ast.walk(parse(ROOT / "setup.py"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    found = (re.match(r"([a-z][a-z0-9-]*)>=([0-9.]+)", text) for text in strings)
    return {match[1]: match[2] for match in found if match}


def test_lowest_versions_are_those_that_tox_tests():
    """The floors in setup.py are the pins of ``tox -e min``."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    pins = dict(
        line.split("==") for line in tox["testenv:min"]["deps"].strip().splitlines()
    )
    floors = declared()

    def number(version):
        return tuple(int(part) for part in (*version.split("."), "0", "0")[:3])

    requires = distribution("syncagent").requires
    needed = {re.match(r"[\w-]+", r)[0] for r in requires if ";" not in r}
    assert needed <= pins.keys()
    for name, pin in pins.items():
        assert number(pin)[:2] == number(floors[name])[:2], name


def test_metadata_is_true():
    """Version, Python, licence and command are as the code says."""
    dist = distribution("syncagent")
    assert dist.version == syncagent.__version__
    assert dist.metadata["Requires-Python"] == ">=3.10"
    assert dist.metadata["License-Expression"] == "MIT"
    scripts = {point.name: point.value for point in dist.entry_points}
    assert scripts == {"syncagent": "syncagent.cli.main:main"}


def test_the_package_is_typed():
    """py.typed lies beside the package, so that type checkers look into it."""
    assert (ROOT / "syncagent" / "py.typed").exists()
