"""Requirements, metadata and tool settings agree with each other."""

import ast
import configparser
import re
import subprocess
from collections import Counter
from importlib.metadata import distribution

import pytest
from source import DOCS, PACKAGE, ROOT, parse, text_of

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


def test_pre_commit_checks_types_like_tox():
    """The mypy hook has the dependencies of the package and of the typing extra."""
    hooks = text_of(ROOT / ".pre-commit-config.yaml")
    listed = set(re.findall(r"^          - (\S+)$", hooks, re.MULTILINE))
    metadata = [
        re.sub(r"[\"' ]", "", line) for line in distribution("syncagent").requires
    ]
    wanted = {
        requirement.partition(";")[0]
        for requirement in metadata
        if requirement.endswith("extra==typing") or ";" not in requirement
    }
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in wanted}
    names -= {"mypy", "pyright"}  # the hook itself, and the checker of a test
    assert {re.match(r"[\w-]+", line)[0] for line in listed} == names


def test_changelog_fragments_have_a_known_kind():
    """towncrier finds every file in docs/changes.d."""
    kinds = re.findall(
        r'^directory = "(\w+)"$', text_of(ROOT / ".towncrier.toml"), re.M
    )
    assert len(kinds) == 5
    name = re.compile(rf"(\d+|\+[\w-]+)\.({'|'.join(kinds)})\.rst")
    fragments = {path.name for path in (DOCS / "changes.d").iterdir()} - {"README.rst"}
    assert [found for found in fragments if not name.fullmatch(found)] == []
    assert ".. towncrier release notes start\n" in text_of(ROOT / "CHANGELOG.rst")


def test_metadata_is_true():
    """Version, Python, licence and command are as the code says."""
    dist = distribution("syncagent")
    assert dist.version == syncagent.__version__
    assert dist.metadata["Requires-Python"] == ">=3.10"
    assert dist.metadata["License-Expression"] == "MIT"
    scripts = {point.name: point.value for point in dist.entry_points}
    assert scripts == {"syncagent": "syncagent.cli.main:main"}
    urls = dict(line.split(", ") for line in dist.metadata.get_all("Project-URL"))
    assert {"Documentation", "Source", "Issues", "Changelog", "Security"} <= urls.keys()
    [home] = {"/".join(url.split("/")[:5]) for url in urls.values()}
    assert home == f"https://github.com/{dist.name}/{dist.name}"
    for place in urls.values():  # those of files are right
        path = re.sub(r".*/(tree|blob)/main/", "", place)
        assert path == place or (ROOT / path).exists()


def test_the_changelog_has_the_version():
    """Its newest section is that of the version, with a date, or of unreleased work."""
    heading = re.search(r"^(\S+) \((.+)\)\n-+$", text_of(ROOT / "CHANGELOG.rst"), re.M)
    released = re.fullmatch(r"\d+\.\d+\.\d+", syncagent.__version__)
    if released:
        assert heading[1] == syncagent.__version__
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", heading[2])


def test_the_source_distribution_is_the_whole_project():
    """MANIFEST.in takes every file of the repository."""
    try:
        listing = subprocess.run(
            ["git", "ls-files"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout")
    taken = set()
    for line in text_of(ROOT / "MANIFEST.in").splitlines():
        command, *names = line.split()
        taken.update(names if command in ("include", "graft") else ())
    files = set(listing.stdout.split()) - {"MANIFEST.in"}
    assert [name for name in files if name.split("/")[0] not in taken] == []


def test_the_package_is_typed():
    """py.typed lies beside the package, so that type checkers look into it."""
    assert (ROOT / "syncagent" / "py.typed").exists()


def test_data_files_are_in_the_package():
    """A wheel has every file beside the modules, such as the table of prices."""
    strings = {
        node.value
        for node in ast.walk(parse(ROOT / "setup.py"))
        if isinstance(node, ast.Constant)
    }
    files = {path.name for path in PACKAGE.rglob("*.*") if path.is_file()}
    data = {name for name in files if not name.endswith((".py", ".pyc"))}
    assert "known.json" in data
    assert data <= strings


def test_test_modules_have_names_of_their_own():
    """pytest imports them by their base names, and so do tools in worker processes."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []
