"""The steps of NVIDIA's guides: make a ConfigMap, then name it in the ClusterPolicy."""

import pytest

from testbed import manifests
from testbed.waiting import until

NAME = "mig-layouts"
GOOD = "version: v1\nmig-configs:\n  all-disabled:\n  - devices: all\n    mig-enabled: false\n"
NOT_YAML = GOOD.replace("    mig-enabled", "   mig-enabled")
UNRECOGNISED = "all GPUs as they are"


@pytest.fixture
def operator(cluster):
    """A cluster without a ClusterPolicy and without this ConfigMap, before and after the scenario."""

    def clear():
        cluster.delete("ClusterPolicy", "cluster-policy")
        cluster.delete("ConfigMap", NAME, "gpu-operator")

    clear()
    yield cluster
    clear()


def layouts(text):
    return manifests.config_map("gpu-operator", NAME, {"config.yaml": text})


def policy(**mig_manager):
    return manifests.cluster_policy(devicePlugin={"enabled": False}, migManager=mig_manager)


NAMING = policy(config={"name": NAME})


def causes(answer):
    return [cause for cause in answer.causes if "[GA149]" in cause]


def test_config_map_is_judged_before_anything_names_it(operator):
    answer = operator.create(layouts(NOT_YAML))
    assert answer.causes == [
        (
            "data[config.yaml]: Correct line 5: config.yaml is not YAML in line 5: expected another key of the mapping that "
            "begins at line 3: check the indentation and the quotes; no node could be cut by MIG [GA149]"
        )
    ]


def test_cluster_policy_is_refused_while_the_config_map_that_it_names_has_a_mistake(operator):
    assert operator.create(layouts(UNRECOGNISED)).accepted
    reported = until(lambda: causes(operator.create(NAMING, dry_run=True)), "the ConfigMap is seen")
    assert reported == [
        (
            "spec.migManager.config.name: Write version: v1 and, below mig-configs:, a list of entries for each name: the "
            f'ConfigMap "{NAME}" in gpu-operator is invalid at data[config.yaml]: config.yaml is a single value, not a mapping; mig-parted '
            "cannot read it [GA149]"
        )
    ]
    assert operator.apply(layouts(GOOD)).accepted
    until(lambda: operator.create(NAMING, dry_run=True).accepted, "the ConfigMap is right")


def test_steps_of_the_guide_pass_and_what_is_in_effect_stays_right(operator):
    assert operator.create(layouts(GOOD)).accepted
    until(lambda: operator.create(NAMING).accepted, "the ClusterPolicy names the ConfigMap")
    reported = until(lambda: causes(operator.apply(layouts(UNRECOGNISED))), "the ClusterPolicy is seen")
    assert reported == [
        (
            "data[config.yaml]: Write version: v1 and, below mig-configs:, a list of entries for each name: config.yaml is a "
            "single value, not a mapping; mig-parted cannot read it [GA149]"
        )
    ]


def test_edit_of_the_operators_own_config_map_is_warned_about(operator):
    own = manifests.config_map("gpu-operator", "default-mig-parted-config", {"config.yaml": GOOD})
    answer = operator.create(own, dry_run=True)
    assert " ".join(line.strip() for line in answer.warnings) == (
        'Give the ConfigMap another name, such as "custom-mig-parted-config", and name it in spec.migManager.config.name of '
        'the ClusterPolicy: "default-mig-parted-config" belongs to the GPU Operator, which writes its own content over it; '
        "metadata.name [GA107]"
    )
