"""Every test begins as a new process would."""

import pytest

from kilotune.experiments.problems import procedure_measurements


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> None:
    """Of what other tests have measured."""
    procedure_measurements._remembered.cache_clear()
