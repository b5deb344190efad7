"""Only `policies.fleet` decides which GPUs a pod gets: few modules may import what the answer is made of."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ONLY_FLEET = {"policies/fleet", "policies/devices", "policies/claims"}
ALLOWED = {
    "extended_resource_name": ONLY_FLEET
    | {
        "policies/conversion/surroundings.py",
        "policies/placement/advertised_resources.py",
        "policies/placement/resource_requests.py",
        "policies/quota/native_limits.py",  # the key under which Kubernetes' quota counts a claim
    },
    "selector_texts": ONLY_FLEET,
    "selected_types": ONLY_FLEET,
    "has_nvidia_class_name": ONLY_FLEET
    | {
        "policies/placement/advertised_resources.py",
        "policies/placement/resource_requests.py",
        "policies/placement/wanted_nodes.py",
    },
    "parse_resource": ONLY_FLEET
    | {
        "policies/conversion",  # the meaning of the names that it converts
        "policies/placement",  # the labels that describe what a name stands for
        "policies/configuration/config_maps",  # the names that a device plugin is configured with
        "policies/quota/demands/pods.py",  # how much of a GPU a name is
        "policies/quota/queues.py",  # the names that a queue covers
        "policies/analyses/audit/checks.py",  # the names in a ResourceQuota
        "policies/analyses/usage/held_gpus.py",  # the names that a node advertises
        "policies/analyses/plan",  # the names that it will advertise
        "policies/analyses/cutover",  # the names that nodes advertise, and that workloads request, before it
        "policies/analyses/migrate",  # the names that it no longer advertises, and those in a ResourceQuota
        "policies/outcome/grants.py",  # the requests that the device plugin of a node serves
        "policies/outcome/question.py",  # whether what is unknown about GPUs concerns a question
    },
}


@pytest.mark.parametrize("name", ALLOWED)
def test_parts_of_the_answer_are_imported_where_it_is_given(name):
    for path in (path for room in ("policies", "webhook") for path in (ROOT / room).rglob("*.py")):
        where, text = str(path.relative_to(ROOT)), path.read_text()
        if name in text and not where.startswith(tuple(ALLOWED[name])):
            imports = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
            assert name not in {alias.name for node in imports for alias in node.names}, where
