"""Install real MCP servers and the official conformance suite into a folder.

::

    python tests/mcp/real/install.py FOLDER

Needs the package indexes of Python and npm, and ``npm``; takes about a minute and
400 MB. What is there already is left as it is. The exit code is 1 if something cannot
be installed; standard error says what, and why.

``SYNCAGENT_MCP_REAL=FOLDER`` gives the folder to the tests.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path

#: Virtual environments, by the name of their folder.
PYTHON = {"mcp1": "mcp==1.30.0", "mcp2": "mcp==2.3.0"}

#: Packages of npm. Pinned, so that a run of today and one of next year mean the same.
NODE = {
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
}

#: The suite needs Node 22. npm has its binary as a package for each kind of machine,
#: which needs no install script, unlike the package "node".
NODE_VERSION = "22.23.3"
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}

#: Seconds for one command.
LONGEST = 600


class InstallFailed(Exception):
    """Something cannot be installed; the message says what, and why."""


def install(folder: Path) -> None:
    """Install everything that is missing in *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, requirement in PYTHON.items():
        install_python(folder / name, requirement)
    node = node_package()
    install_node(folder / "node", {**NODE, node: NODE_VERSION})
    binary = folder / "node" / "node_modules" / node / "bin" / "node"
    run([binary, "--version"])
    (folder / "bin").mkdir(exist_ok=True)
    link = folder / "bin" / "node"
    link.unlink(missing_ok=True)
    link.symlink_to(binary)


def node_package() -> str:
    """Return the npm package with Node's binary for this machine."""
    machine = platform.machine().lower()
    if machine not in MACHINES or platform.system() not in ("Linux", "Darwin"):
        raise InstallFailed(f"npm has no Node for {platform.system()} on {machine}")
    return f"node-{platform.system().lower()}-{MACHINES[machine]}"


def install_python(folder: Path, requirement: str) -> None:
    """Install *requirement* into a virtual environment of its own."""
    done = folder / "installed"
    if done.is_file() and done.read_text() == requirement:
        print(f"{requirement}: is there")
        return
    print(f"{requirement}: installing into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", requirement])
    done.write_text(requirement)


def install_node(folder: Path, packages: dict[str, str]) -> None:
    """Install *packages* of npm, without running any of their scripts."""
    if {name: installed_version(folder, name) for name in packages} == packages:
        print(f"{len(packages)} packages of npm: are there")
        return
    if shutil.which("npm") is None:
        raise InstallFailed(
            "npm is not installed; the Node servers and the suite need it"
        )
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"private": True}))
    names = [f"{name}@{version}" for name, version in packages.items()]
    print(f"{' '.join(names)}: installing into {folder}")
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
    run(["npm", "install", *options, *names], cwd=folder)


def installed_version(folder: Path, name: str) -> str | None:
    """Return the version of an npm package in *folder*, or None."""
    try:
        described = (folder / "node_modules" / name / "package.json").read_text()
    except FileNotFoundError:
        return None
    version: str = json.loads(described)["version"]
    return version


def run(command: list[str | Path], cwd: Path | None = None) -> None:
    """Run *command*.

    :raises InstallFailed: with the end of its output.
    """
    words = [str(each) for each in command]
    try:
        done = subprocess.run(
            words, cwd=cwd, capture_output=True, text=True, timeout=LONGEST
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallFailed(f"{words[0]}: {error}") from None
    if done.returncode:
        output = (done.stdout + done.stderr).strip()[-2000:]
        raise InstallFailed(
            f"{' '.join(words)} ended with {done.returncode}:\n{output}"
        )


def main(arguments: list[str]) -> int:
    """Install into the folder that is the one argument, and return the exit code."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        install(Path(arguments[0]).absolute())
    except InstallFailed as error:
        print(f"cannot install: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
