"""Rules of packages that are imported late are in every list of rules."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FIRST = "import json, sys, policies.admission; from policies.rules.registry import all_rules, get_rule, rule, rules_on_demand; "


def printed(code):
    """What a new process prints in which nobody has imported a room."""
    done = subprocess.run([sys.executable, "-c", FIRST + code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("rule_id", ["GA100", "GA220", "GA307", "GA326"])
def test_rule_of_a_room_that_is_not_imported_yet_is_found(rule_id):
    assert printed(f"print(json.dumps(get_rule('{rule_id}').id))") == rule_id


def test_all_rules_are_there_at_once():
    families = printed("print(json.dumps(sorted({rule.id[:3] for rule in all_rules()})))")
    assert families == ["GA1", "GA2", "GA3", "GA4", "GA5", "GA6", "GA7"]


def test_rule_that_is_registered_is_found_without_importing_rooms():
    assert printed("get_rule('GA301'); print(json.dumps('policies.configuration' in sys.modules))") is False


def test_unknown_rule_is_none():
    assert printed("print(json.dumps(get_rule('GA999')))") is None


def test_decision_function_imports_subjects_late():
    names = printed("print(json.dumps(sorted(sys.modules)))")
    assert not {"policies.configuration", "policies.conversion.convert", "policies.nvidia.predicates"} & set(names)
