"""A ClusterPolicy that names a ConfigMap puts its content into effect, with the mistakes in it."""

import pytest

from policies.rules.decision import Severity
from tests.findings import labelled_text

WRONG = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}"


def policy(spec, name="cluster-policy"):
    return f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def stored(data, name="ours", namespace="gpu-operator"):
    metadata = f"metadata: {{name: {name}, namespace: {namespace}}}"
    return f"---\napiVersion: v1\nkind: ConfigMap\n{metadata}\ndata: {data}\n"


NAMING = "{devicePlugin: {config: {name: ours, default: any}}}"
PLUGIN = stored(f"{{any: '{WRONG}'}}")


def findings_of(findings):
    return [(found.rule.id, found.severity, str(found.path)) for found in findings]


def test_policy_that_newly_names_a_config_map_is_refused_for_its_mistakes(examined):
    (found,) = examined(policy(NAMING) + PLUGIN)
    assert (found.severity, found.place) == (Severity.DENY, None)
    assert labelled_text(found) == (
        'spec.devicePlugin.config.name: the ConfigMap "ours" in gpu-operator is invalid at '
        "data.any.sharing.timeSlicing.resources[0].replicas: replicas is 1; sharing needs at least 2; the device plugin would "
        "exit with: number of replicas must be >= 2; write 2 or more, or remove this entry to hand out whole GPUs [GA132]"
    )


@pytest.mark.parametrize(
    ("before", "severity"),
    [
        (NAMING, Severity.WARN),
        ("{devicePlugin: {config: {name: ours, default: other}}}", Severity.WARN),
        ("{devicePlugin: {config: {name: others, default: any}}}", Severity.DENY),
        ("{devicePlugin: {enabled: false, config: {name: ours, default: any}}}", Severity.DENY),
        ("{}", Severity.DENY),
    ],
)
def test_mistake_refuses_the_change_that_puts_it_into_effect_and_warns_later(examined, before, severity):
    found = examined(f"{policy(NAMING)}--- # before\n{policy(before)}{PLUGIN}")
    assert findings_of(found) == [("GA132", severity, "spec.devicePlugin.config.name")]


@pytest.mark.parametrize(
    ("spec", "data", "expected"),
    [
        ("{migManager: {config: {name: ours}}}", "{config.yaml: 'version: v1\n\n  mig-configs: {a: 1}'}", "GA150"),
        ("{dcgmExporter: {config: {name: ours}}}", "{dcgm-metrics.csv: 'DCGM_FI_DEV_GPU_UTIL, guage, text'}", "GA163"),
        ("{devicePlugin: {config: {name: ours, default: any}}}", "{any: 'a: [b'}", "GA133"),
    ],
)
def test_every_config_map_that_is_read_counts(examined, spec, data, expected):
    (path, *_) = [str(found.path) for found in examined(policy(spec) + stored(data)) if found.rule.id == expected]
    assert path.endswith(".config.name")


def test_gpu_cluster_is_refused_for_its_list_of_metrics(examined):
    cluster = (
        "apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}\n"
        "spec: {draDriver: {}, dcgmExporter: {config: {name: ours}}}\n"
    )
    found = examined(cluster + stored("{dcgm-metrics.csv: 'DCGM_FI_DEV_GPU_UTIL, guage, text'}"))
    assert ("GA163", Severity.DENY, "spec.dcgmExporter.config.name") in findings_of(found)


@pytest.mark.parametrize(
    "facts",
    [
        stored("{any: 'version: v1'}"),
        stored(f"{{any: '{WRONG}'}}", name="others") + stored("{any: 'version: v1'}"),
        "",
    ],
)
def test_policy_passes_where_its_config_map_has_no_mistake_or_is_unknown(examined, facts):
    assert findings_of(examined(policy(NAMING) + facts)) == []


def test_component_that_is_switched_off_reads_nothing(examined):
    spec = "{devicePlugin: {enabled: false, config: {name: ours, default: any}}}"
    assert [each for each in findings_of(examined(policy(spec) + PLUGIN)) if each[0] == "GA132"] == []


def test_missing_file_is_reported_once(examined):
    spec = "{migManager: {config: {name: ours}}}"
    found = examined(policy(spec) + stored("{mig.yaml: 'version: v1'}"))
    assert findings_of(found) == [("GA146", Severity.DENY, "spec.migManager.config.name")]


def applied(data):
    """The ConfigMap `ours` as it is applied."""
    return stored(data).removeprefix("---\n")


def test_config_map_without_keys_that_a_policy_names_is_refused(examined):
    (found,) = examined(applied("{}") + f"---\n{policy(NAMING)}")
    assert (found.rule.id, found.severity, str(found.path)) == ("GA133", Severity.DENY, "data")


def test_broken_key_that_nobody_selects_is_a_warning(examined):
    (found,) = examined(applied(f"{{any: 'version: v1', broken: '{WRONG}'}}") + f"---\n{policy(NAMING)}")
    assert (found.rule.id, found.severity) == ("GA132", Severity.WARN)
    assert 'neither the default nor a known node selects "broken", so nothing reads it yet' in found.message


def test_broken_key_that_a_node_selects_is_refused(examined):
    labels = "{nvidia.com/gpu.present: 'true', nvidia.com/device-plugin.config: broken}"
    node = f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: gpu-1, labels: {labels}}}\n"
    (found,) = examined(applied(f"{{any: 'version: v1', broken: '{WRONG}'}}") + f"---\n{policy(NAMING)}" + node)
    assert (found.rule.id, found.severity) == ("GA132", Severity.DENY)


def test_broken_config_map_that_the_policy_does_not_name_is_a_warning(examined):
    (found,) = examined(applied(f"{{any: '{WRONG}'}}") + f"---\n{policy('{}')}")
    assert (found.rule.id, found.severity) == ("GA132", Severity.WARN)
    assert "the ClusterPolicy does not name this ConfigMap, so nothing reads it yet" in found.message
