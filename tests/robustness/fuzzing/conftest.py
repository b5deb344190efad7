"""The random seed of fuzzers."""

import os
import random

import pytest


@pytest.fixture
def fuzz_seed():
    """What all chance comes from; FUZZ_SEED has it again."""
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(10**6))
    print(f"\nFUZZ_SEED={seed}")  # noqa: T201 - pytest shows it with failures
    return seed
