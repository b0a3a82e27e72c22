"""GAMED_EXAMPLES sets how many examples the slow tests try: `few` for the gate, `many` on request.

Few examples are the same in each run, so that a test fails for a change and not by chance. Many are drawn at random.
docs/internals/testing.md lists the tests that read this setting.
"""

import os
from collections.abc import Mapping

from hypothesis import HealthCheck, settings

FEW, MANY = "few", "many"


def read_amount(environ: Mapping[str, str]) -> str:
    """Return the value of GAMED_EXAMPLES, FEW where the variable is not set; raise ValueError for any other value."""
    amount = environ.get("GAMED_EXAMPLES", FEW)
    if amount not in (FEW, MANY):
        raise ValueError(f"GAMED_EXAMPLES is {amount!r}. Set it to {FEW} or {MANY}, or unset it.")
    return amount


AMOUNT = read_amount(os.environ)


def examples(few: int, many: int) -> int:
    """Return the number that GAMED_EXAMPLES asks for."""
    return few if AMOUNT == FEW else many


def histories(few: int, many: int) -> int:
    """Return the number of random histories of a database; a fifth on PostgreSQL, which takes longer for each."""
    number = examples(few, many)
    return number // 5 if os.environ.get("GAMED_TEST_STORE") == "postgresql" else number


def load_profile() -> None:
    """Make hypothesis follow GAMED_EXAMPLES; no test depends on the speed of the machine."""
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile(FEW, patient, max_examples=histories(100, 100), derandomize=True, database=None)
    settings.register_profile(MANY, patient, max_examples=1000)
    settings.load_profile(AMOUNT)
