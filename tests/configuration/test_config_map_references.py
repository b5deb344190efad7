"""A ConfigMap or key that is in use must not be removed."""

import pytest

from policies.rules.decision import Severity
from tests.findings import plain_text


def config_map(data="{}", name="ours", namespace="gpu-operator", labels="{}"):
    metadata = f"metadata: {{name: {name}, namespace: {namespace}, labels: {labels}}}"
    return f"\napiVersion: v1\nkind: ConfigMap\n{metadata}\ndata: {data}\n"


def policy(spec):
    return f"---\napiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: cluster-policy}}\nspec: {spec}\n"


def node(label, value, name="gpu-1"):
    return f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{{label}: {value}}}}}\n"


def texts(findings):
    return [plain_text(finding) for finding in findings if finding.rule.id == "GA107"]


def updated(before, after, facts):
    return f"{config_map(after)}--- # before{config_map(before)}{facts}"


PLUGIN = policy("{devicePlugin: {config: {name: ours, default: any}}}")


def test_deletion_of_a_config_map_in_use_is_refused(examined):
    (found,) = examined(f"# operation: DELETE{config_map()}{PLUGIN}")
    assert found.severity is Severity.DENY
    assert plain_text(found) == (
        'metadata.name: "ours" is deleted while spec.devicePlugin.config.name of the ClusterPolicy "cluster-policy" names '
        "it; pods that mount it could not start again; point spec.devicePlugin.config.name of the ClusterPolicy "
        '"cluster-policy" at another ConfigMap first'
    )


@pytest.mark.parametrize(
    "spec",
    [
        "{migManager: {config: {name: ours}}}",
        "{migManager: {gpuClientsConfig: {name: ours}}}",
        "{dcgmExporter: {config: {name: ours}}}",
        "{sandboxWorkloads: {enabled: true}, vgpuDeviceManager: {enabled: true, config: {name: ours}}}",
        "{driver: {repoConfig: {configMapName: ours}}}",
        "{driver: {certConfig: {name: ours}}}",
        "{driver: {kernelModuleConfig: {name: ours}}}",
        "{driver: {virtualTopology: {config: ours}}}",
        "{driver: {licensingConfig: {configMapName: ours}}}",
    ],
)
def test_every_reference_of_a_cluster_policy_counts(examined, spec):
    assert len(texts(examined(f"# operation: DELETE{config_map()}{policy(spec)}"))) == 1


def test_references_of_drivers_count(examined):
    driver = "---\napiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: a}\nspec: {repoConfig: {name: ours}}"
    (found,) = texts(examined(f"# operation: DELETE{config_map()}{driver}"))
    assert 'spec.repoConfig.name of the NVIDIADriver "a" names it' in found


@pytest.mark.parametrize(
    "spec",
    [
        "{devicePlugin: {config: {name: other}}}",
        "{devicePlugin: {enabled: false, config: {name: ours}}}",
        "{vgpuDeviceManager: {config: {name: ours}}}",
        "{}",
    ],
)
def test_deletion_of_a_config_map_that_nothing_mounts_passes(examined, spec):
    assert texts(examined(f"# operation: DELETE{config_map()}{policy(spec)}")) == []


def test_deletion_elsewhere_passes(examined):
    assert texts(examined(f"# operation: DELETE{config_map(namespace='team-a')}{PLUGIN}")) == []


def test_deletion_passes_when_no_policy_is_known(examined):
    assert texts(examined(f"# operation: DELETE{config_map()}")) == []


def test_removal_of_the_default_key_warns(examined):
    found = [
        one for one in examined(updated("{any: 'version: v1'}", "{b: 'version: v1'}", PLUGIN)) if one.rule.id == "GA107"
    ]
    assert [one.severity for one in found] == [Severity.WARN]
    assert texts(found) == [
        (
            "data.any: is removed while spec.devicePlugin.config.default of the ClusterPolicy names it; the device plugin "
            'would exit with: specified config any does not exist; keep "any" until nothing names it'
        )
    ]


def test_removal_of_a_key_that_nodes_are_labelled_with_warns(examined):
    nodes = node("nvidia.com/device-plugin.config", "a100") + node("nvidia.com/device-plugin.config", "a100", "gpu-2")
    before, after = "{any: 'version: v1', a100: 'version: v1'}", "{any: 'version: v1'}"
    assert texts(examined(updated(before, after, PLUGIN + nodes))) == [
        (
            'data.a100: is removed while the label nvidia.com/device-plugin.config of 2 nodes ("gpu-1", "gpu-2") names it; '
            'the device plugin would exit with: specified config a100 does not exist; keep "a100" until nothing names it'
        )
    ]


def test_removal_of_a_key_that_nothing_names_passes(examined):
    before, after = "{any: 'version: v1', a100: 'version: v1'}", "{any: 'version: v1'}"
    assert texts(examined(updated(before, after, PLUGIN + node("nvidia.com/device-plugin.config", "any")))) == []


def test_removal_of_a_key_that_is_mounted_warns(examined):
    spec = policy("{dcgmExporter: {config: {name: ours}}}")
    assert texts(examined(updated("{dcgm-metrics.csv: ''}", "{metrics.csv: ''}", spec))) == [
        (
            'data[dcgm-metrics.csv]: is removed while spec.dcgmExporter.config.name of the ClusterPolicy "cluster-policy" has '
            'it mounted; pods that mount it could not start again; keep "dcgm-metrics.csv" until nothing names it'
        )
    ]


MIG = policy("{migManager: {config: {name: ours}}}")


def mig(*names):
    listed = ", ".join(f"{name}: [{{devices: all, mig-enabled: false}}]" for name in names)
    return f"{{config.yaml: 'version: v1\n\n  mig-configs: {{{listed}}}'}}"


def test_removal_of_a_mig_configuration_that_nodes_are_labelled_with_warns(examined):
    facts = MIG + node("nvidia.com/mig.config", "custom")
    assert texts(examined(updated(mig("all-disabled", "custom"), mig("all-disabled"), facts))) == [
        (
            'data[config.yaml]: loses the configuration "custom" while the label nvidia.com/mig.config of the node "gpu-1" '
            'names it; its state would become failed; keep "custom" until no node names it'
        )
    ]


def test_removal_of_a_mig_configuration_that_no_node_uses_passes(examined):
    facts = MIG + node("nvidia.com/mig.config", "all-disabled")
    assert texts(examined(updated(mig("all-disabled", "custom"), mig("all-disabled"), facts))) == []


def test_unchanged_config_map_passes(examined):
    facts = PLUGIN + node("nvidia.com/device-plugin.config", "any")
    assert texts(examined(updated("{any: 'version: v1'}", "{any: 'version: v1'}", facts))) == []
