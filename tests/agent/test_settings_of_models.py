"""Settings of the model that an agent is given by mistake."""

import inspect

import pytest

from syncagent import Agent, llm_function
from syncagent.exceptions import ConfigurationError
from syncagent.testing import ScriptedModel


def test_a_model_by_name():
    """The error says what to write, and that works."""
    with pytest.raises(TypeError) as found:
        Agent("ollama:qwen3", temperature=0.2, tools=[])
    assert str(found.value) == (
        "temperature is a setting of the model: pass "
        'find_model("ollama:qwen3", temperature=...) in place of the name; '
        "from syncagent.models import find_model"
    )
    space = {}
    exec(
        "from syncagent import Agent\nfrom syncagent.models import find_model\n"
        'agent = Agent(find_model("ollama:qwen3", temperature=0.2))',
        space,
    )
    assert space["agent"].model.options.temperature == 0.2


def test_several():
    """All of them are named, those of the address too."""
    with pytest.raises(TypeError, match=r"^api_key and top_p are settings of the mod"):
        Agent(model="openai:gpt-6-luna", api_key="secret-1", top_p=1)


def test_a_model_that_was_made():
    """It has its settings from its class."""
    with pytest.raises(TypeError, match=r"write ScriptedModel\(\.\.\., seed=\.\.\.\)"):
        Agent(ScriptedModel("x"), seed=7)


def test_other_mistakes_stay_as_they_are():
    """Python's own words, and ours."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'timout'"):
        Agent(ScriptedModel("x"), timout=7)
    with pytest.raises(TypeError, match="missing 1 required positional"):
        Agent()
    with pytest.raises(ConfigurationError, match="messages must be a list"):
        Agent(ScriptedModel("x"), messages=7)


def test_functions_say_it_too():
    """Their settings are those of an agent."""
    with pytest.raises(ConfigurationError, match=r"find_model\(\"ollama:x\", seed="):
        llm_function("ollama:x", seed=7)


def test_the_signature_is_explicit():
    """Editors and help() show the parameters."""
    assert "parallel_tools" in inspect.signature(Agent).parameters
    kinds = {each.kind for each in inspect.signature(Agent).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
