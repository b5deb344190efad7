"""Checking wishes in the settings at the start does not import predicates or the CEL engine."""

import subprocess
import sys


def test_wishes_are_read_without_predicates():
    code = (
        "import sys; from policies.nvidia.wishes import Wish; Wish.of({'product': 'H100*'}).contradictions(); "
        "print(any(name.startswith(('policies.nvidia.predicates', 'policies.devices')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_wishes_become_predicates_without_the_cel_engine():
    code = (
        "import sys; from policies.nvidia.labels import Subject; from policies.nvidia.wishes import Wish; "
        "from policies.nvidia.labels import device_predicate; "
        "device_predicate(Wish.of({'product': 'H100*'}), Subject('gpu')).cel(); "
        "print(any(name.startswith('policies.devices') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
