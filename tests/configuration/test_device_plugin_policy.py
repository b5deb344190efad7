"""`spec.devicePlugin` of a ClusterPolicy, and the ConfigMap that it names."""

import json

import pytest

from policies.rules.decision import Severity
from tests.findings import plain_text

SLICED = {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}
MPS = {"version": "v1", "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}
CONFIG = {"name": "time-slicing", "default": "any"}


def policy(config=CONFIG, **spec):
    plugin = {**({"config": config} if config else {}), **spec.pop("devicePlugin", {})}
    metadata = {"name": "cluster-policy"}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": metadata,
        "spec": {"devicePlugin": plugin, **spec},
    }


def config_map(namespace="gpu-operator", name="time-slicing", **configurations):
    data = {key: json.dumps(value) for key, value in (configurations or {"any": SLICED}).items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def node(name="gpu-1", **labels):
    found = {"nvidia.com/gpu.present": "true", **{f"nvidia.com/{key}": value for key, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": found}}


def labelled(key, name="gpu-1"):
    return node(name, **{"device-plugin.config": key})


def resource_slice(node_name="gpu-1", kind="gpu"):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpu.nvidia.com"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"type": {"string": kind}}}],
        },
    }


@pytest.fixture
def findings_of(examined):
    def tell(document, *facts, before=None):
        text = json.dumps(document) + (f"\n--- # before\n{json.dumps(before)}" if before else "")
        text += "".join(f"\n---\n{json.dumps(fact)}" for fact in facts)
        ours = {"GA130", "GA131", "GA143", "GA145"}
        return [(found.rule.id, found.severity, plain_text(found)) for found in examined(text) if found.rule.id in ours]

    return tell


def test_a_policy_with_its_config_map_gives_no_finding(findings_of):
    assert findings_of(policy(), config_map(), node(), labelled("any", "gpu-2")) == []


def test_a_policy_whose_surroundings_are_unknown_gives_no_finding(findings_of):
    assert findings_of(policy()) == []
    assert findings_of(policy({"name": "time-slicing"})) == []


NAME = "spec.devicePlugin.config.name"
DEFAULT = "spec.devicePlugin.config.default"
NO_CONFIG_MAP = f'{NAME}: ConfigMap "time-slicing" not found in gpu-operator'
NOT_STARTED = "the device plugin's pods would stay in ContainerCreating"


def test_a_config_map_that_does_not_exist_is_refused(findings_of):
    expected = f'{NO_CONFIG_MAP}; {NOT_STARTED}; create ConfigMap "time-slicing" in gpu-operator first'
    assert findings_of(policy(), config_map(name="unlike")) == [("GA130", Severity.DENY, expected)]


def test_a_config_map_of_a_similar_name_is_suggested(findings_of):
    expected = f'{NO_CONFIG_MAP}; {NOT_STARTED}; write "time-slicing-1"'
    assert findings_of(policy(), config_map(name="time-slicing-1")) == [("GA130", Severity.DENY, expected)]


def test_a_config_map_in_another_namespace_is_refused(findings_of):
    expected = (
        f"{NO_CONFIG_MAP}, only in default, where the operator does not look; {NOT_STARTED}; "
        'create ConfigMap "time-slicing" in gpu-operator first'
    )
    assert findings_of(policy(), config_map("default")) == [("GA130", Severity.DENY, expected)]


@pytest.mark.parametrize("disabled", [True, False])
def test_a_config_map_that_nothing_reads_may_be_missing(findings_of, disabled):
    components = {"devicePlugin": {"enabled": False}, "gfd": {"enabled": not disabled}}
    assert len(findings_of(policy(**components), config_map("default"))) == (0 if disabled else 1)


@pytest.mark.parametrize("name", ["time-slicing.v1", "a" * 64, "Time-Slicing"])
def test_config_map_name_that_no_volume_can_have_is_refused(findings_of, name):
    expected = (
        f'{NAME}: "{name}" cannot name a volume, and the operator mounts the ConfigMap as a volume of its name; rename the '
        "ConfigMap to at most 63 lower-case letters, digits and dashes"
    )
    found = findings_of(policy({"name": name, "default": "any"}), config_map(name=name))
    assert found == [("GA130", Severity.DENY, expected)]


@pytest.mark.parametrize("name", ["config", "device-plugin", "mps-root"])
def test_a_config_map_named_like_a_volume_of_the_daemon_set_is_refused(findings_of, name):
    expected = (
        f'{NAME}: "{name}" is also a volume of the device plugin\'s DaemonSet; the operator would report: Duplicate value: '
        f'"{name}"; rename the ConfigMap, for example to "device-plugin-config"'
    )
    found = findings_of(policy({"name": name, "default": "any"}), config_map(name=name))
    assert found == [("GA130", Severity.DENY, expected)]


@pytest.mark.parametrize(
    ("default", "keys", "there_are", "remedy"),
    [
        ("time-slicing", ["any"], 'which has "any"', 'write "any"'),
        ("a100-80gb", ["a100-40gb", "tesla-t4"], 'which has "a100-40gb", "tesla-t4"', "write a key of the ConfigMap"),
        ("a100-80g", ["a100-80gb", "tesla-t4"], 'which has "a100-80gb", "tesla-t4"', 'write "a100-80gb"'),
        (
            "x",
            ["one", "two", "three", "four"],
            'which has "one", "two", "three" and 1 more',
            "write a key of the ConfigMap",
        ),
    ],
)
def test_a_default_that_is_no_key_is_refused(findings_of, default, keys, there_are, remedy):
    expected = (
        f'{DEFAULT}: "{default}" is not a key of ConfigMap "time-slicing", {there_are}; the config manager would exit with: '
        f"specified config  does not exist; {remedy}"
    )
    document = policy({"name": "time-slicing", "default": default})
    assert findings_of(document, config_map(**dict.fromkeys(keys, SLICED))) == [("GA131", Severity.DENY, expected)]


def test_a_default_without_a_name_is_warned_about(findings_of):
    expected = (
        f'{DEFAULT}: is "any", but config.name is empty, so the operator ignores both; write '
        "config.name, the name of the ConfigMap"
    )
    assert findings_of(policy({"default": "any"})) == [("GA131", Severity.WARN, expected)]


def test_a_default_that_no_node_reads_is_only_warned_about(findings_of):
    found = findings_of(policy({"name": "time-slicing", "default": "none"}), config_map(), labelled("any"))
    assert [one[:2] for one in found] == [("GA131", Severity.WARN)]


def test_a_label_that_is_no_key_warns(findings_of):
    expected = (
        f'{NAME}: ConfigMap "time-slicing" has no key "a100", which the label nvidia.com/device-plugin.config of 2 nodes '
        '("gpu-1", "gpu-2") selects; the config manager would exit with: specified config a100 does not exist; add '
        '"a100" to the ConfigMap, or label the nodes with an existing key'
    )
    found = findings_of(policy(), config_map(), labelled("a100"), labelled("a100", "gpu-2"))
    assert found == [("GA131", Severity.WARN, expected)]


def without_default(nodes):
    return (
        f"{DEFAULT}: is empty, and {nodes} without the label nvidia.com/device-plugin.config would get an empty "
        "configuration; set default to any, or label the nodes with nvidia.com/device-plugin.config"
    )


def test_no_default_and_no_label_warns(findings_of):
    expected = without_default('2 nodes ("gpu-1", "gpu-2")')
    found = findings_of(policy({"name": "time-slicing"}), config_map(), node(), node("gpu-2"))
    assert found == [("GA131", Severity.WARN, expected)]


def test_no_default_where_some_nodes_have_labels_is_noted_only(findings_of):
    expected = without_default('the node "gpu-2"')
    found = findings_of(policy({"name": "time-slicing"}), config_map(), labelled("any"), node("gpu-2"))
    assert found == [("GA131", Severity.AUDIT, expected)]


def test_no_default_names_the_keys_that_there_are(findings_of):
    found = findings_of(policy({"name": "time-slicing"}), config_map(any=SLICED, half=SLICED), node())
    assert 'set default to one of "any", "half", or label the nodes with' in found[-1][2]


def test_no_default_where_all_nodes_have_labels_is_fine(findings_of):
    assert findings_of(policy({"name": "time-slicing"}), config_map(), labelled("any")) == []


def test_mixed_with_an_mps_configuration_is_refused(findings_of):
    expected = (
        'spec.mig.strategy: is mixed, and "any" of ConfigMap "time-slicing" shares GPUs by mps; the device plugin would '
        "exit with: using --mig-strategy=mixed is not supported with MPS; write single or none"
    )
    assert findings_of(policy(mig={"strategy": "mixed"}), config_map(any=MPS)) == [("GA143", Severity.DENY, expected)]
    assert findings_of(policy(mig={"strategy": "mixed"})) == []
    assert findings_of(policy(mig={"strategy": "single"}), config_map(any=MPS)) == []


def test_mixed_with_an_mps_configuration_that_nothing_reads_is_only_warned_about(findings_of):
    config, mixed = config_map(any=SLICED, mps=MPS), {"strategy": "mixed"}
    assert [one[:2] for one in findings_of(policy(mig=mixed), config)] == [("GA143", Severity.WARN)]
    assert [one[:2] for one in findings_of(policy(mig=mixed), config, labelled("mps"))] == [("GA143", Severity.DENY)]


def test_a_strategy_that_a_configuration_was_not_written_for_is_warned_about(findings_of):
    expected = (
        'spec.mig.strategy: is single, which overrides migStrategy: mixed in "any" of '
        'ConfigMap "time-slicing"; write mixed, or remove migStrategy there'
    )
    mixed = {**SLICED, "flags": {"migStrategy": "mixed"}}
    assert findings_of(policy(mig={"strategy": "single"}), config_map(any=mixed)) == [
        ("GA143", Severity.WARN, expected)
    ]


@pytest.mark.parametrize("of_file", ["none", "mixed"])
def test_a_configuration_for_nodes_without_mig_fits_every_strategy(findings_of, of_file):
    written = {**SLICED, "flags": {"migStrategy": of_file}}
    assert findings_of(policy(mig={"strategy": "mixed"}), config_map(any=written)) == []


@pytest.mark.parametrize("arguments", [["--mig-strategy=mixed"], ["--v=4", "--mig-strategy", "mixed"]])
def test_an_argument_that_contradicts_the_policy_warns(findings_of, arguments):
    expected = (
        f"spec.devicePlugin.args[{len(arguments) // 2}]: sets the MIG strategy mixed, but spec.mig.strategy is single, "
        "which GPU Feature Discovery uses; remove it, and write spec.mig.strategy"
    )
    document = policy(None, mig={"strategy": "single"}, devicePlugin={"args": arguments})
    assert findings_of(document) == [("GA143", Severity.WARN, expected)]


def test_an_argument_that_overrides_the_config_map_warns(findings_of):
    written = {**SLICED, "flags": {"failOnInitError": False, "plugin": {"deviceIDStrategy": "uuid"}}}
    expected = (
        'spec.devicePlugin.args[1]: overrides deviceIDStrategy: "uuid" in "any" of ConfigMap '
        '"time-slicing", because the command line wins over the file; write deviceIDStrategy '
        "in one place only"
    )
    arguments = ["--fail-on-init-error=false", "--device-id-strategy=index"]
    assert findings_of(policy(devicePlugin={"args": arguments}), config_map(any=written)) == [
        ("GA143", Severity.WARN, expected)
    ]


def test_other_arguments_give_no_finding(findings_of):
    arguments = ["--device-list-strategy=envvar", "-v", "", "--pass-device-specs"]
    assert findings_of(policy(devicePlugin={"args": arguments}), config_map()) == []


BY_DRA = (
    'spec.devicePlugin.enabled: is true, and the node "gpu-1" hands out its GPUs by DRA (gpu.nvidia.com) already; two pods '
    "could get one GPU; write devicePlugin.enabled: false, or label nodes of DRA nvidia.com/gpu.deploy.device-plugin: "
    '"false"'
)


def test_turning_on_the_plugin_where_dra_hands_out_gpus_is_refused(findings_of):
    off = policy(None, devicePlugin={"enabled": False})
    assert findings_of(policy(None), node(), resource_slice()) == [("GA145", Severity.DENY, BY_DRA)]
    assert findings_of(policy(None), node(), resource_slice(), before=off) == [("GA145", Severity.DENY, BY_DRA)]


def test_a_plugin_that_was_on_beside_dra_only_warns(findings_of):
    on = policy(None)
    assert findings_of(on, node(), resource_slice(), before=on) == [("GA145", Severity.WARN, BY_DRA)]


@pytest.mark.parametrize(
    ("document", "facts"),
    [
        (policy(None, devicePlugin={"enabled": False}), [node(), resource_slice()]),
        (policy(None), [node(**{"gpu.deploy.device-plugin": "false"}), resource_slice()]),
        (policy(None), [node(), resource_slice("gpu-2")]),
        (policy(None), [node(), resource_slice(kind="vfio")]),
        (policy(None), [node()]),
        (policy(None), [resource_slice()]),
    ],
    ids=["off", "node-left-out", "other-node", "vfio", "no-slices", "no-nodes"],
)
def test_each_node_may_hand_out_gpus_in_one_way(findings_of, document, facts):
    assert findings_of(document, *facts) == []
