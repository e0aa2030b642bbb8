"""The official conformance suite, on a client made of ``syncagent.mcp`` alone."""

import conformance
import pytest
from real_servers import MISSING

pytestmark = [
    pytest.mark.mcp_real,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]


@pytest.mark.parametrize("revision", conformance.REQUIRED)
def test_no_required_scenario_is_forgotten(revision):
    """The list here is the suite's own list of what a revision requires."""
    assert sorted(conformance.REQUIRED[revision]) == sorted(
        conformance.required(revision)
    )


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        (each, name)
        for each in conformance.REQUIRED
        for name in conformance.REQUIRED[each]
    ],
)
def test_a_required_scenario_is_passed(revision, scenario):
    """The client passes each scenario that a revision requires, without a warning."""
    outcome = conformance.run(scenario, revision)
    assert outcome.is_passed, outcome.output


@pytest.mark.parametrize(("scenario", "revision"), conformance.BEYOND)
def test_more_than_is_required(scenario, revision):
    """It also passes older logins, client credentials, and schemas kept verbatim."""
    outcome = conformance.run(scenario, revision)
    assert outcome.is_passed, outcome.output
