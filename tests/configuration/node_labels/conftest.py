"""Findings on the labels of a node."""

import json

import pytest

from policies.rules.request import UserInfo
from tests.configuration.node_labels.objects import node


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA154", {label: value}, *cluster)`: severity, message and remedy of a rule's findings."""

    def tell(rule, labels, *cluster, before=None, user=""):
        parts = [json.dumps(part) for part in (node(**labels), *cluster)]
        if before is not None:
            parts.insert(1, f"# before\n{json.dumps(node(**before))}")
        text = "\n---".join([parts[0], *(f" {part}" if part.startswith("#") else f"\n{part}" for part in parts[1:])])
        found = examined(text, user=UserInfo(user))
        return [(str(one.severity), one.message, one.remedy) for one in found if one.rule.id == rule]

    return tell
