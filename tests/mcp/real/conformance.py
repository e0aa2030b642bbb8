"""Run scenarios of the official conformance suite against our client.

::

    SYNCAGENT_MCP_REAL=FOLDER python tests/mcp/real/conformance.py

prints the table of the documentation.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(os.environ.get("SYNCAGENT_MCP_REAL") or "/nonexistent")
SUITE = [
    str(FOLDER / "bin" / "node"),
    str(FOLDER / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"),
]
CLIENT = [sys.executable, str(Path(__file__).parent / "conformance_client.py")]

#: Seconds for the client in one scenario. The suite takes 30 by itself, which is
#: little on a machine with more to do.
LONGEST = 50

#: Scenarios about logins, in both revisions and in the newer one only.
AUTH = [
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "pre-registration",
]
MODERN_AUTH = [
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
]

#: The scenarios that each revision requires of a client.
REQUIRED = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        *(f"auth/{name}" for name in AUTH),
    ],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        *(f"auth/{name}" for name in [*AUTH, *MODERN_AUTH]),
    ],
}

#: Scenarios beyond the required ones that the client passes: an extension, and one
#: that is younger than the revisions.
BEYOND = [
    ("auth/client-credentials-basic", None),
    ("json-schema-2020-12-preservation", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
    ("auth/2025-03-26-oauth-metadata-backcompat", None),
    ("auth/2025-03-26-oauth-endpoint-fallback", None),
]


@dataclass
class Outcome:
    """The verdict of the suite on one scenario."""

    scenario: str
    revision: str | None
    code: int
    #: Checks by their status: SUCCESS, FAILURE, WARNING, SKIPPED, INFO.
    checks: Counter
    output: str

    @property
    def is_passed(self):
        """True if the suite is content, and has really checked something."""
        bad = self.checks["FAILURE"] + self.checks["WARNING"]
        return self.code == 0 and not bad and self.checks["SUCCESS"] > 0


def required(revision):
    """Return the scenarios that the suite itself lists as required of clients."""
    command = [*SUITE, "list", "--client", "--requirements", revision]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    section = done.stdout.split("Client scenarios", 1)[1].split("Run and reported")[0]
    return [line[4:].strip() for line in section.splitlines() if line[:4] == "  - "]


def run(scenario, revision):
    """Run one scenario, and return its outcome."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--scenario", scenario, "-o", folder]
        options += ["--spec-version", revision] if revision else []
        options += ["--timeout", str(LONGEST * 1000)]
        command = [*SUITE, "client", "--command", shlex.join(CLIENT), *options]
        code, output = run_group(command)
        checks = Counter(
            check["status"]
            for path in Path(folder).rglob("checks.json")
            for check in json.loads(path.read_text())
        )
    return Outcome(scenario, revision, code, checks, output)


def run_group(command):
    """Run *command* with its children, and leave none of them behind."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LONGEST + 30)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return process.returncode, output


def main():
    """Print the outcome of every scenario as rows of a reST list table."""
    cases = [(name, each) for each in REQUIRED for name in REQUIRED[each]]
    outcomes = [run(*case) for case in [*cases, *BEYOND]]
    for each in outcomes:
        verdict = "passed" if each.is_passed else "FAILED"
        print(f"   * - ``{each.scenario}``")
        print(f"     - {each.revision or 'its own'}")
        print(f"     - {verdict}, checks: {each.checks['SUCCESS']}")
    return 0 if all(each.is_passed for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
