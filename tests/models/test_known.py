"""The file of known models: what it says about itself, and what stands in it."""

import json
import subprocess
import sys
from datetime import date
from itertools import pairwise

import pytest

from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.known import _FILE, known_date, known_models
from syncagent.models.prices import find_known

TABLE = json.loads(_FILE.read_text(encoding="utf-8"))
#: Providers that the source of the table does not have, or not this face of them.
WITHOUT_PRICES = {
    *("snowflake", "vertex-responses", "alibaba", "nvidia", "nebius", "sambanova"),
    *("heroku", "ollama-cloud", "huggingface", "vercel"),
}


def test_it_says_how_old_it_is_and_where_it_is_from():
    """Its date, its source and the whole MIT notice are in the file."""
    assert known_date() == date.fromisoformat(TABLE["date"])
    assert TABLE["source"].startswith("genai-prices ")
    notice = " ".join(TABLE["license"])
    assert "MIT License" in notice
    assert "Copyright (c) Pydantic" in notice
    assert "permission notice shall be included" in notice
    assert "WITHOUT WARRANTY OF ANY KIND" in notice


def test_it_is_small_and_easy_to_compare():
    """One model stands on each line, in order."""
    text = _FILE.read_text(encoding="utf-8")
    assert len(text) < 150_000
    count = sum(map(len, TABLE["models"].values()))
    assert sum(line.startswith('   "') for line in text.splitlines()) == count
    assert all(list(table) == sorted(table) for table in TABLE["models"].values())


@pytest.mark.parametrize("provider", TABLE["models"])
def test_every_entry_is_plausible(provider):
    """Prices are positive and not in cents; longer prompts do not cost less."""
    for name, known in known_models(provider).items():
        assert name == name.lower()
        assert known.window is None or known.window > 0
        changes = [change.price for change in known.later]
        for price in (known.price, *changes):
            assert 0 <= price.input < 1000, name
            assert 0 <= price.output < 1000, name
            for shorter, longer in pairwise((price, *price.tiers)):
                assert longer.input >= shorter.input, name
            borders = [tier.above for tier in price.tiers]
            assert borders == sorted(borders), name


def test_the_examples_of_the_endpoints_are_known():
    """The names in the documentation have a price."""
    unknown = {
        endpoint.name
        for endpoint in ENDPOINTS.values()
        # A server of one's own has no price, and "my-deployment" may be any model.
        if endpoint.needs_key and not endpoint.example.startswith("my-")
        if find_known(endpoint.example, endpoint.name) is None
    }
    assert unknown <= WITHOUT_PRICES


def test_it_is_read_only_when_needed():
    """Neither the import nor a new model reads the file."""
    script = (
        "import syncagent, syncagent.models, syncagent.models.known as known\n"
        "model = syncagent.models.OpenAIChat('gpt-6-luna', api_key='none')\n"
        "assert not known._table.cache_info().misses\n"
        "assert model.context_window > 1000\n"
        "assert known._table.cache_info().misses == 1\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=20)
