"""ClusterPolicy and MIG: ConfigMaps of the MIG manager, the strategy, the MIG devices of nodes, settings without effect."""

import json

import pytest

A100 = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/mig.capable": "true",
}
T4 = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/mig.capable": "false"}
FILE = "version: v1\nmig-configs:\n  all-disabled: [{devices: all, mig-enabled: false}]\n"
SOME = FILE + (
    "  some:\n  - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}\n  - {devices: [1], mig-enabled: false}\n"
)


def policy(spec):
    return "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec: " + spec


def config_map(name="mig-config", namespace="gpu-operator", **data):
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def node(name, config=None, **labels):
    known = labels or A100
    chosen = {"nvidia.com/mig.config": config} if config else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {**known, **chosen}}}


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA146", spec, *cluster)`: path, severity, message and remedy of a rule's findings."""

    def tell(rule, spec, *cluster, before=None, head=""):
        parts = [head + policy(spec)]
        text = "\n---\n".join([*parts, *map(json.dumps, cluster)])
        if before:
            text = text.replace(parts[0], f"{parts[0]}\n--- # before\n{policy(before)}", 1)
        found = examined(text)
        return [(str(one.path), str(one.severity), one.message, one.remedy) for one in found if one.rule.id == rule]

    return tell


NAMED = "{migManager: {config: {name: mig-config}}}"


@pytest.mark.parametrize(
    ("config", "said", "remedy"),
    [
        (
            config_map("other"),
            ('ConfigMap "mig-config" not found in gpu-operator; the MIG manager could cut no GPU'),
            'create ConfigMap "mig-config" in gpu-operator first, with the key config.yaml',
        ),
        (
            config_map(namespace="default"),
            (
                'ConfigMap "mig-config" not found in gpu-operator, only in default, where the '
                "operator does not look; the MIG manager could cut no GPU"
            ),
            'create ConfigMap "mig-config" in gpu-operator first, with the key config.yaml',
        ),
        (
            config_map(),
            'ConfigMap "mig-config" has no key config.yaml; the MIG manager could cut no GPU',
            "add the key config.yaml to it",
        ),
        (
            config_map(**{"mig.yaml": FILE}),
            'ConfigMap "mig-config" has "mig.yaml" and not config.yaml; the MIG manager could cut no GPU',
            'rename the key in ConfigMap "mig-config" to config.yaml',
        ),
        (
            config_map(**{"config.yaml": FILE.replace("all-disabled", "none")}),
            '"mig-config" has "none" and not all-disabled, which nodes without a label get',
            'add all-disabled to ConfigMap "mig-config", or write default: ""',
        ),
    ],
)
def test_config_map_that_does_not_serve_is_refused(findings_of, config, said, remedy):
    assert findings_of("GA146", NAMED, config) == [("spec.migManager.config.name", "deny", said, remedy)]


@pytest.mark.parametrize(
    ("spec", "cluster"),
    [
        (NAMED, ()),
        (NAMED, (config_map(**{"config.yaml": FILE}),)),
        ("{migManager: {config: {name: default-mig-parted-config}}}", (config_map("other"),)),
        (NAMED, (config_map(**{"config.yaml": "\tbroken"}),)),
        (
            '{migManager: {config: {name: mig-config, default: ""}}}',
            (config_map(**{"config.yaml": SOME.replace("all-disabled", "x")}),),
        ),
        ("{migManager: {enabled: false, config: {name: mig-config}}}", (config_map("other"),)),
        ('{migManager: {config: {name: ""}}}', (config_map("other"),)),
        ("{migManager: {gpuClientsConfig: {name: mig-config}}}", (config_map(**{"clients.yaml": "version: v1"}),)),
    ],
)
def test_config_map_that_serves_or_is_not_known_is_left_alone(findings_of, spec, cluster):
    assert findings_of("GA146", spec, *cluster) == []


def test_config_map_of_a_manager_without_nodes_is_only_warned_about(findings_of):
    assert [one[1] for one in findings_of("GA146", NAMED, config_map("other"), node("a", **T4))] == ["warn"]
    assert [one[1] for one in findings_of("GA146", NAMED, config_map("other"), node("a", **A100))] == ["deny"]


def test_clients_need_their_own_file(findings_of):
    found = findings_of(
        "GA146", "{migManager: {gpuClientsConfig: {name: mig-config}}}", config_map(**{"config.yaml": "a"})
    )
    said = 'ConfigMap "mig-config" has "config.yaml" and not clients.yaml; the MIG manager could cut no GPU'
    assert [one[:3] for one in found] == [("spec.migManager.gpuClientsConfig.name", "deny", said)]


SINGLE = "{mig: {strategy: single}}"
MANY = 'is "single", and the configuration "all-balanced" of the node "a" makes 1g.5gb, 2g.10gb, 3g.20gb; '
MANY += "the device plugin would exit with: more than one MIG device type present on node"


def test_strategy_single_with_several_profiles_is_refused(findings_of):
    remedy = "write strategy: mixed, and let pods request resources such as nvidia.com/mig-1g.10gb"
    assert findings_of("GA147", SINGLE, node("a", "all-balanced")) == [("spec.mig.strategy", "deny", MANY, remedy)]


def test_strategy_that_is_only_kept_is_warned_about(findings_of):
    found = findings_of("GA147", SINGLE, node("a", "all-balanced"), before=SINGLE)
    assert [one[1:3] for one in found] == [("warn", MANY)]


def test_strategy_that_becomes_single_is_refused(findings_of):
    found = findings_of("GA147", SINGLE, node("a", "all-balanced"), before="{mig: {strategy: mixed}}")
    assert [one[1] for one in found] == ["deny"]


def test_own_configuration_that_cuts_only_some_gpus_is_refused(findings_of):
    spec = "{mig: {strategy: single}, migManager: {config: {name: mig-config}}}"
    found = findings_of("GA147", spec, config_map(**{"config.yaml": SOME}), node("a", "some"), node("b", "some"))
    said = (
        'is "single", and the configuration "some" of 2 nodes ("a", "b") cuts some GPUs and leaves others whole; the '
        "device plugin would exit with: all devices on the node must be configured with the same migEnabled value"
    )
    assert [one[1:3] for one in found] == [("deny", said)]


def test_gpus_without_devices_are_warned_about(findings_of):
    found = findings_of("GA147", SINGLE, node("a", "all-enabled"))
    said = (
        'is "single", and the configuration "all-enabled" of the node "a" enables MIG on GPU 0 and makes no devices there; the '
        "device plugin would exit with: device 0 has no MIG devices configured"
    )
    assert [one[1:3] for one in found] == [("warn", said)]


PREPARED = FILE + (
    "  half:\n  - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}\n"
    "  - {devices: [1], mig-enabled: true, mig-devices: {}}\n"
    "  misspelt: [{devices: all, mig-enabled: true, mig-devices: {1g.4gb: 7}}]\n"
)


@pytest.mark.parametrize(
    ("config", "more", "severity", "gpu"),
    [
        ("half", {"nvidia.com/gpu.count": "2"}, "deny", 1),
        ("half", {}, "warn", 1),
        ("misspelt", {"nvidia.com/gpu.memory": "40960"}, "deny", 0),
    ],
)
def test_own_configuration_that_leaves_a_gpu_without_devices_is_refused_where_the_gpu_exists(
    findings_of, config, more, severity, gpu
):
    spec = "{mig: {strategy: single}, migManager: {config: {name: mig-config}}}"
    gpus = node("a", config, **A100, **more)
    found = findings_of("GA147", spec, config_map(**{"config.yaml": PREPARED}), gpus)
    said = f"device {gpu} has no MIG devices configured"
    assert [(one[1], said in one[2]) for one in found] == [(severity, True)]


def test_name_of_a_profile_that_another_driver_may_have_is_left_to_other_rules(findings_of):
    spec = "{mig: {strategy: single}, migManager: {config: {name: mig-config}}}"
    assert findings_of("GA147", spec, config_map(**{"config.yaml": PREPARED}), node("a", "misspelt")) == []


def test_strategy_mixed_with_parts_of_gpu_instances_is_refused(findings_of):
    parts = FILE + "  parts: [{devices: all, mig-enabled: true, mig-devices: {1c.3g.20gb: 6}}]\n"
    spec = "{mig: {strategy: mixed}, migManager: {config: {name: mig-config}}}"
    found = findings_of("GA147", spec, config_map(**{"config.yaml": parts}), node("a", "parts"))
    said = (
        'is "mixed", and the configuration "parts" of the node "a" makes 1c.3g.20gb; the device plugin would exit with: MIG '
        "profile '1c.3g.20gb' does not match any resource patterns"
    )
    remedy = "write strategy: single, or profiles that fill their GPU instances"
    assert found == [("spec.mig.strategy", "deny", said, remedy)]
    single = spec.replace("mixed", "single")
    assert findings_of("GA147", single, config_map(**{"config.yaml": parts}), node("a", "parts")) == []


@pytest.mark.parametrize("strategy", ["", "none"])
def test_cut_nodes_without_a_strategy_are_warned_about(findings_of, strategy):
    found = findings_of("GA147", f'{{mig: {{strategy: "{strategy}"}}}}', node("a", "all-1g.5gb"))
    said = "is none" if strategy else "is not set"
    said += ', so the MIG devices that nvidia.com/mig.config sets on the node "a" are not advertised'
    remedy = "write strategy: single or strategy: mixed, or label the nodes all-disabled"
    assert found == [("spec.mig.strategy", "warn", said, remedy)]


@pytest.mark.parametrize(
    ("spec", "cluster"),
    [
        (SINGLE, ()),
        (SINGLE, (node("a", "all-1g.5gb"),)),
        (SINGLE, (node("a", "all-disabled"), node("b"))),
        (SINGLE, (node("a", "somebody-elses"),)),
        ("{mig: {strategy: mixed}}", (node("a", "all-balanced"),)),
        ("{}", (node("a", "all-disabled"), node("b"))),
    ],
)
def test_strategy_that_suits_is_left_alone(findings_of, spec, cluster):
    assert findings_of("GA147", spec, *cluster) == []


def test_labels_that_no_manager_reads_are_reported(findings_of):
    found = findings_of("GA148", "{mig: {strategy: single}, migManager: {enabled: false}}", node("a", "all-1g.5gb"))
    said = 'is false, so the label nvidia.com/mig.config of the node "a" has no effect'
    remedy = "write migManager: {enabled: true}, or divide the GPUs yourself and remove the labels"
    assert found == [("spec.migManager.enabled", "warn", said, remedy)]


def test_configurations_for_gpus_that_cannot_be_cut_are_recorded(findings_of):
    found = findings_of("GA148", NAMED, node("a", **T4))
    said = '"mig-config" is never read, because MIG cannot divide any GPU of the node "a"'
    remedy = "remove it, or add nodes with GPUs such as A100, H100 or B200"
    assert found == [("spec.migManager.config.name", "audit", said, remedy)]


@pytest.mark.parametrize(
    ("value", "said", "remedy"),
    [
        ('"True"', 'is "True"', 'write "true"'),
        ('"1"', 'is "1"', 'write "true"'),
        ('"no"', 'is "no"', 'write "false"'),
        ('""', 'is ""', 'write "false"'),
    ],
)
def test_reboot_that_is_no_boolean_is_reported(findings_of, value, said, remedy):
    found = findings_of("GA148", f"{{migManager: {{env: [{{name: WITH_REBOOT, value: {value}}}]}}}}")
    text = f'{said}, and only "true" lets the MIG manager reboot a node that needs it'
    assert found == [("spec.migManager.env[0].value", "warn", text, remedy)]


@pytest.mark.parametrize(
    ("spec", "cluster"),
    [
        ("{mig: {strategy: single}, migManager: {enabled: false}}", ()),
        ("{mig: {strategy: single}, migManager: {enabled: false}}", (node("a", "all-disabled"),)),
        ("{mig: {strategy: none}, migManager: {enabled: false}}", (node("a", "all-1g.5gb"),)),
        ("{migManager: {enabled: true}}", (node("a", **T4),)),
        (NAMED, (node("a", **T4), node("b"))),
        (NAMED, (node("a", **{"nvidia.com/gpu.present": "true"}),)),
        ('{migManager: {env: [{name: WITH_REBOOT, value: "true"}, {name: OTHER, value: "True"}]}}', ()),
    ],
)
def test_settings_that_have_effect_are_left_alone(findings_of, spec, cluster):
    assert findings_of("GA148", spec, *cluster) == []


@pytest.mark.parametrize("rule", ["GA146", "GA147", "GA148"])
def test_deleted_policy_gives_no_finding(findings_of, rule):
    spec = "{mig: {strategy: single}, migManager: {enabled: true, config: {name: mig-config}}}"
    assert findings_of(rule, spec, config_map("other"), node("a", "all-balanced"), head="# operation: DELETE\n") == []


def test_file_in_binary_data_serves_the_mig_manager(findings_of):
    stored = {**config_map(), "binaryData": {"config.yaml": "dmVyc2lvbjogdjE="}}
    assert findings_of("GA146", NAMED, stored) == []
