"""Labels of nodes that name configurations: the configurations must exist."""

import json

import pytest

from tests.configuration.node_labels.objects import (
    FILE,
    MIG,
    OWN,
    PLUGIN,
    SHARING,
    STATE,
    WORKLOAD,
    config_map,
    mig,
    node,
    policy,
)


@pytest.mark.parametrize(
    ("labels", "cluster", "severity", "said", "remedy"),
    [
        (
            {MIG: "cuts"},
            OWN,
            "deny",
            f'"cuts" is the name of the ConfigMap itself, which has "halves", "ninth", "of-h100" and 2 more{STATE}',
            "write one of these",
        ),
        (
            {MIG: "halfs"},
            OWN,
            "deny",
            f'"halfs" is not a configuration of the ConfigMap "cuts", which has "halves", "ninth", "of-h100" and 2 more{STATE}',
            'write "halves"',
        ),
        (
            {MIG: "all-1g.5gb"},
            OWN,
            "deny",
            f'"all-1g.5gb" is not a configuration of the ConfigMap "cuts", which has "halves", "ninth", "of-h100" and 2 more{STATE}',
            "write one of these",
        ),
        (
            {MIG: "custom"},
            (mig(),),
            "deny",
            (
                '"custom" is not a configuration that the operator brings, and the ClusterPolicy names no ConfigMap in '
                f"migManager.config.name{STATE}"
            ),
            "define it in a mig-parted ConfigMap that migManager.config.name names",
        ),
        (
            {MIG: "all-9g.99gb"},
            (mig(),),
            "warn",
            (
                '"all-9g.99gb" is not a configuration that the operator brings, and what the MIG '
                "manager makes for this node is not known here"
            ),
            "define it in a mig-parted ConfigMap that migManager.config.name names",
        ),
        (
            {MIG: "custom"},
            (),
            "warn",
            '"custom" is not a configuration that the operator brings, and the ClusterPolicy is not known here',
            "define it in a mig-parted ConfigMap that migManager.config.name names",
        ),
        (
            {MIG: "custom"},
            ({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicyList", "items": []},),
            "warn",
            '"custom" is not a configuration that the operator brings, and no ClusterPolicy is known here',
            "define it in a mig-parted ConfigMap that migManager.config.name names",
        ),
        (
            {MIG: "custom"},
            OWN[:1],
            "warn",
            f'"custom" is not a configuration that the operator brings, and the ConfigMap "cuts" is not known here{STATE}',
            "write the name of a configuration that exists",
        ),
        (
            {MIG: "custom"},
            (OWN[0], config_map("other")),
            "warn",
            f'"custom" is not a configuration that the operator brings, and the ConfigMap "cuts" does not exist{STATE}',
            "write the name of a configuration that exists",
        ),
        (
            {MIG: "custom"},
            (OWN[0], config_map("cuts", **{"config.yaml": "\t"})),
            "warn",
            f'"custom" is not a configuration that the operator brings, and the ConfigMap "cuts" cannot be read{STATE}',
            "write the name of a configuration that exists",
        ),
        (
            {MIG: "all-1g.5gb"},
            (mig(), config_map("gpu-1-mig-config", **{"config.yaml": FILE})),
            "deny",
            (
                '"all-1g.5gb" is not a configuration that the MIG manager made for this node, which has "halves", "ninth", '
                f'"of-h100" and 2 more{STATE}'
            ),
            "write one of these",
        ),
        (
            {MIG: "1g.10gb-2,3g.40gb-1"},
            (),
            "deny",
            '"1g.10gb-2,3g.40gb-1" cannot be the value of a label, and is to be the name of a configuration',
            "define a configuration in a mig-parted ConfigMap and write its name",
        ),
        (
            {PLUGIN: "slices"},
            SHARING,
            "deny",
            (
                '"slices" is the name of the ConfigMap itself, which has "a100", "any"; the device plugin would exit with: '
                "specified config slices does not exist"
            ),
            "write one of these",
        ),
        (
            {PLUGIN: "a10"},
            SHARING,
            "deny",
            (
                '"a10" is not a key of the ConfigMap "slices", which has "a100", "any"; the device '
                "plugin would exit with: specified config a10 does not exist"
            ),
            "write one of these",
        ),
        (
            {PLUGIN: "slices"},
            SHARING[:1],
            "warn",
            '"slices" must be a key of the ConfigMap "slices", which is not known here',
            "write one of its keys",
        ),
        (
            {PLUGIN: "a100"},
            (SHARING[0], config_map("other")),
            "warn",
            '"a100" must be a key of the ConfigMap "slices", which does not exist',
            "write one of its keys",
        ),
        (
            {PLUGIN: "a100"},
            (policy(),),
            "warn",
            '"a100" is never read, because the ClusterPolicy names no ConfigMap in devicePlugin.config.name',
            "name a ConfigMap in the ClusterPolicy first",
        ),
    ],
)
def test_configuration_that_does_not_exist_is_reported(findings_of, labels, cluster, severity, said, remedy):
    assert findings_of("GA154", labels, *cluster) == [(severity, said, remedy)]


@pytest.mark.parametrize(
    ("labels", "cluster"),
    [
        ({MIG: "halves"}, OWN),
        ({MIG: "all-1g.5gb"}, (mig(),)),
        ({MIG: "all-1g.10gb.me"}, ()),
        ({MIG: "all-1g.5gb"}, OWN[:1]),
        ({MIG: "halves"}, (mig(), config_map("default-mig-parted-config", **{"config.yaml": FILE}))),
        ({MIG: ""}, OWN),
        ({PLUGIN: "a100"}, SHARING),
        ({PLUGIN: "a100"}, SHARING[:1]),
        ({PLUGIN: "a100"}, ()),
        ({PLUGIN: ""}, SHARING),
    ],
)
def test_configuration_that_exists_or_is_not_known_is_left_alone(findings_of, labels, cluster):
    assert findings_of("GA154", labels, *cluster) == []


def test_label_that_stays_is_not_judged(examined, findings_of):
    labels = {MIG: "custom", PLUGIN: "a10", WORKLOAD: "vm"}
    for rule in ("GA154", "GA155", "GA156", "GA157"):
        assert findings_of(rule, {**labels, "other": "new"}, mig(), *SHARING[1:], before=labels) == []


def test_label_that_changes_is_judged(findings_of):
    assert findings_of("GA154", {PLUGIN: "a10"}, *SHARING, before={PLUGIN: "any"})[0][0] == "deny"


def test_label_that_goes_is_not_judged(findings_of):
    assert findings_of("GA154", {}, *SHARING, before={PLUGIN: "any"}) == []


def test_node_that_goes_is_not_judged(examined):
    parts = [json.dumps(part) for part in (node(**{PLUGIN: "a10"}), *SHARING)]
    text = "# operation: DELETE\n" + "\n---\n".join(parts)
    assert not [one for one in examined(text) if one.rule.id == "GA154"]


@pytest.mark.parametrize(
    "user",
    [
        "system:node:gpu-1",
        "system:serviceaccount:gpu-operator:gpu-operator",
        "system:serviceaccount:gpu-operator:nvidia-mig-manager",
        "system:serviceaccount:nvidia-gpu-operator:gpu-operator",
        "system:serviceaccount:node-feature-discovery:nfd-master",
        "system:serviceaccount:openshift-nfd:nfd-master",
    ],
)
def test_kubelets_and_operators_are_only_warned(findings_of, user):
    assert findings_of("GA154", {PLUGIN: "a10"}, *SHARING, user=user)[0][0] == "warn"


T4 = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/mig.capable": "false"}


@pytest.mark.parametrize(
    ("labels", "manager"),
    [({MIG: "halfs"}, {"enabled": False}), ({MIG: "halfs", **T4}, {}), ({MIG: "too-much"}, {"enabled": False})],
)
def test_mig_label_that_no_manager_reads_is_not_refused(findings_of, labels, manager):
    cluster = (mig("single", migManager={"config": {"name": "cuts"}, **manager}), OWN[1])
    assert findings_of("GA154", labels, *cluster) == []
    assert [one[0] for one in findings_of("GA155", labels, *cluster)] == ["warn"]


def test_plugin_label_that_nothing_reads_is_only_warned_about(findings_of):
    config = {"config": {"name": "slices", "default": "any"}, "enabled": False}
    cluster = (policy(devicePlugin=config, gfd={"enabled": False}), SHARING[1])
    ((severity, message, _),) = findings_of("GA154", {PLUGIN: "a10"}, *cluster)
    assert (severity, "is never read" in message) == ("warn", True)
