"""What type checkers see: the types of results, the README, and shared arguments."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from syncagent import (
    Agent,
    Runtime,
    ToolContext,
    llm_chat,
    llm_function,
    run_many,
    tool,
)
from syncagent.conversation.request import RunRequest
from syncagent.integrations.web.mcp import MCPApp
from syncagent.integrations.web.runs import Runs
from syncagent.mcp import MCPServer, MCPServers
from syncagent.mcp.servers import make_server
from syncagent.mcp.serving import MCPService, serve_stdio
from syncagent.mcp.serving.call_state import CallState
from syncagent.models import Model, find_model
from syncagent.models.local import Local
from syncagent.options import Options
from syncagent.stores import RunStore, StoredConversation
from syncagent.tools.settings import ToolSettings
from syncagent.tools.tool import Tool

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: An error that pyright reports: the name of the file, and the line.
ERROR = r"(\w+\.py):(\d+):\d+ - error"
#: Many small files of the interpreter's type hints are read.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def check(*command: str | Path) -> str:
    """Return what a type checker says, an empty string if it is content."""
    ended = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    return ended.stdout + ended.stderr if ended.returncode else ""


def readme_blocks() -> list[str]:
    """Return the Python of the README, block by block."""
    pattern = r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)"
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    return [
        re.sub(r"^    ", "", block, flags=re.MULTILINE)
        for block in re.findall(pattern, text)
    ]


def test_mypy_accepts_the_readme(tmp_path: Path) -> None:
    """Code copied from the README passes ``mypy --strict``, and output= has a type."""
    pytest.importorskip("mypy")
    blocks = readme_blocks()
    assert len(blocks) >= 2
    files = [tmp_path / f"block_{number}.py" for number in range(len(blocks))]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block, encoding="utf-8")
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'users'}"
    found = check("mypy", "--strict", "--config-file=", cache, *files)
    assert not found, found
    found = check("mypy", "--strict", "--config-file=", cache, HERE / "outputs.py")
    assert not found, found


def test_pyright_reveals_the_same_types() -> None:
    """Pyright, and so the editors that use it, knows the types of results."""
    if find_spec("pyright") is None or check("pyright", "--version"):
        pytest.skip("pyright is not installed, or cannot be downloaded")
    found = check("pyright", "--project", HERE, "--pythonpath", sys.executable)
    errors = {(name, int(line)) for name, line in re.findall(ERROR, found)}
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    wrong = {
        ("wrong.py", number)
        for number, line in enumerate(lines, start=1)
        if "# type: ignore" in line
    }
    assert len(wrong) >= 8
    assert errors == wrong, found


def shared(name: str) -> set[str]:
    """Return the names in a class of ``_arguments.py``, with those it inherits."""
    tree = ast.parse((ROOT / "syncagent" / "_arguments.py").read_text(encoding="utf-8"))
    classes = {
        node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    found, waiting = set(), [name]
    while waiting:
        node = classes.get(waiting.pop())
        if node is None:
            continue
        for base in node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            waiting.append(plain.id if isinstance(plain, ast.Name) else "")
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                found.add(field.target.id)
    return found


def parameters(function: Callable[..., Any], *but: str) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", *but}


def test_shared_arguments_are_those_of_the_functions() -> None:
    """No argument is missing for type checkers, and none is made up."""
    run = ("prompt", "answers", "output")
    for name, function in (
        ("RunArguments", Agent.run),
        ("StreamArguments", Agent.stream),
        ("ResumeArguments", Agent.resume),
        ("ResumeArguments", Agent.resume_stream),
        ("DriveArguments", Agent.drive),
        ("StartArguments", Agent.start),
    ):
        assert shared(name) == parameters(function, *run), name
    batch = parameters(run_many, "agents", "prompts", "output")
    assert shared("BatchArguments") == batch
    agent = parameters(Agent, "model", "tools")
    assert shared("AgentArguments") == agent
    assert shared("FunctionArguments") == {*agent, "model", "tools", "repairs"}
    fields = set(ToolSettings.__struct_fields__)
    assert shared("ToolArguments") == fields - {"name", "description"}
    assert shared("NamedToolArguments") == fields
    assert shared("OptionArguments") == set(Options.__struct_fields__)
    inside = parameters(RunRequest.inside, "setup", "outer", "prompt")
    assert shared("InsideArguments") == inside
    by_us = {"cancel", "outer_deps", "keeper", "needs_price", "budgets", "shows_agents"}
    assert shared("SubAgentArguments") == inside - by_us - {"output"}
    submit = parameters(RunStore.submit, "prompt", "owner", "conversation")
    assert shared("SubmitArguments") == submit
    model = parameters(Model, "name", "base_url", "endpoint", "options")
    assert shared("LocalArguments") == {*model, *Options.__struct_fields__}


def test_shared_arguments_of_mcp_are_those_of_the_functions() -> None:
    """The same for servers of MCP, and for the services that are such servers."""
    server = parameters(MCPServer, "open", "name", "timeouts")
    assert shared("MCPServerArguments") == server
    stdio = parameters(MCPServer.stdio, "command", "env", "cwd", "name", "settings")
    http = parameters(MCPServer.http, "url", "headers", "kind", "name", "settings")
    assert shared("MCPServersArguments") == {*server, *stdio, *http}
    assert shared("MCPServiceArguments") == parameters(MCPService, "tools")
    assert shared("MCPAppArguments") == parameters(MCPApp, "service")
    assert shared("StateArguments") < set(CallState.__struct_fields__)


@pytest.mark.parametrize(
    "function",
    [
        *(Agent, Agent.load, Agent.as_tool, Agent.run, Agent.start, Runtime.start),
        *(ToolContext.agent, llm_function, llm_chat, run_many, tool, find_model),
        *(Model, Local, Tool, StoredConversation.submit, Runs.start),
        *(MCPServer.stdio, MCPServer.http, MCPServers.load, MCPServers.of),
        *(make_server, serve_stdio),
    ],
    ids=lambda function: function.__qualname__,
)
def test_arguments_that_are_passed_on_have_names(function: Callable[..., Any]) -> None:
    """No public function takes just any keyword argument."""
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            assert re.fullmatch(r"Unpack\[\w+(\[Deps\])?\]", str(each.annotation))
