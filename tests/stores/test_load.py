"""Many runs, while workers are killed, people cancel and answer, a server restarts."""

import pytest
from support import postgres
from support.load import Plan, load_postgres, load_sqlite


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.stress), "postgres"])
def load(request):
    """Yield a function that puts a load on a store, and prints how it went."""
    if request.param == "postgres" and postgres.MISSING:
        pytest.skip(postgres.MISSING)

    def load(plan):
        report = (load_sqlite if request.param == "sqlite" else load_postgres)(plan)
        print(f"\n{request.param}\n{report.table}")
        return report

    return load


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_load_with_everything(load):
    """Every run ends, every receipt is right, and no tool runs twice."""
    fewer = {"kills": 1, "terms": 1, "restarts": 1, "pause": 0.3, "lease": 2.0}
    report = load(Plan(runs=100, live=40, late=3.0, redelivers=True, **fewer))
    assert report.wrong == []


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_two_thousand_runs(load):
    """The same with 2,000 runs, 200 live at a time."""
    assert load(Plan()).wrong == []
