"""A cap on threads that were left behind: further calls are refused, not piled up."""

import pytest
from support.threads import until
from support.tools import agent_for, outcomes, told

from syncagent import ConfigurationError, ToolDefaults, abandoned, tool
from syncagent.events import ToolStarted
from syncagent.testing import Gate, call


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()
    until(lambda: not abandoned())


def stuck(gate, **settings):
    """Return a tool that hears no cancel."""

    @tool(timeout=0.01, **settings)
    def job() -> str:
        """Stand there."""
        gate.stop_here()
        return "did"

    return job


@tool
def patient() -> str:
    """Be waited for."""
    return "did"


CALLS = [call("job", call_id=f"c{n}") for n in range(4)]


@pytest.mark.parametrize("is_own", [True, False])
def test_further_calls_are_refused(gate, is_own):
    """Promise 7: three are left behind, the fourth is not even started."""
    own = {"max_abandoned": 3} if is_own else {}
    defaults = {} if is_own else {"tool_defaults": ToolDefaults(max_abandoned=3)}
    calls = [*CALLS, call("patient")]
    agent = agent_for(stuck(gate, **own), patient, calls=calls, **defaults)
    with agent.stream("Do it.") as stream:
        started = [each.call_id for each in stream if isinstance(each, ToolStarted)]
    result = stream.result
    assert result.stop_reason == "end_turn"
    assert outcomes(result) == [*["abandoned"] * 3, "not_started", "done"]
    assert started == ["c0", "c1", "c2", "call_patient"]
    assert told(result)[3].startswith("Not started: 3 or more earlier calls did not")
    gate.open()
    until(lambda: not abandoned())
    assert outcomes(agent.run("Do it.")) == ["done"] * 5, "there is room again"


def test_a_tool_s_own_number_counts():
    """It beats that of the agent; the default is generous."""
    assert patient.max_abandoned == 100
    own = tool(max_abandoned=7)(patient.function)
    agent = agent_for(own, tool_defaults=ToolDefaults(max_abandoned=1))
    assert agent.tools[0].max_abandoned == 7


@pytest.mark.parametrize("wrong", [-1, 1.5, "many", True])
def test_a_wrong_number(wrong):
    """It is refused when the tool is made."""
    with pytest.raises(ConfigurationError, match="max_abandoned"):
        tool(max_abandoned=wrong)(patient.function)
    with pytest.raises(ConfigurationError, match="max_abandoned"):
        ToolDefaults(max_abandoned=wrong)
