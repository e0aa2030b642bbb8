"""The official conformance suite, on our own MCP server over HTTP."""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import conformance
import pytest
from real_servers import MISSING
from support.processes import script_environment

pytestmark = [
    pytest.mark.mcp_real,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]

#: The scenarios for servers with tools. The others are about resources, prompts,
#: completion, sampling, roots and tasks, which the server does not have.
SCENARIOS = [
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "json-schema-2020-12",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
    "http-header-validation",
    "http-custom-header-server-validation",
    "input-required-result-basic-elicitation",
    "input-required-result-request-state",
    "input-required-result-multi-round",
    "input-required-result-missing-input-response",
    "input-required-result-result-type",
    "input-required-result-unsupported-methods",
    "input-required-result-tampered-state",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
]
#: Scenarios with checks that need more: a tool that wants sampling, lists of prompts
#: and resources.
PARTS = {"server-stateless": 2, "caching": 3}


@pytest.fixture(scope="module")
def url():
    process = subprocess.Popen(
        [sys.executable, Path(__file__).parent / "conformance_server.py"],
        stdout=subprocess.PIPE,
        text=True,
        env=script_environment(),
    )
    with process:
        yield process.stdout.readline().strip()
        process.kill()


def run(url, scenario):
    with tempfile.TemporaryDirectory() as folder:
        options = ["--url", url, "--scenario", scenario, "-o", folder]
        options += ["--spec-version", "2026-07-28"]
        _, output = conformance.run_group([*conformance.SUITE, "server", *options])
        checks = Counter(
            check["status"]
            for path in Path(folder).rglob("checks.json")
            for check in json.loads(path.read_text())
        )
    return checks, output


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_about_tools_is_passed(url, scenario):
    """Every check of it succeeds, without a warning."""
    checks, output = run(url, scenario)
    assert checks["SUCCESS"], output
    assert not checks["FAILURE"] + checks["WARNING"], output


@pytest.mark.parametrize("scenario", PARTS)
def test_only_checks_of_other_features_fail(url, scenario):
    """The number of checks that cannot succeed stays as it is."""
    checks, output = run(url, scenario)
    assert checks["SUCCESS"] > checks["FAILURE"] == PARTS[scenario], output
