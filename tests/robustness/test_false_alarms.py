"""False alarms found on public documents: what is right, or changes nothing, is not refused.

What each case rests on is in the source of its rule: `gpu-admission rules GA147`.
"""

import pytest

from policies.admission import review
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.findings import labelled_text
from webhook.cluster.manifests import ManifestsView

MIG_CONFIG = "nvidia.com/mig.config"
NOT_REVIEWED = ["GA705"]
"""What is said of an object of a kind that no rule is about."""
OFF = {"nvidia.com/gpu.deploy.device-plugin": "false"}


def read(text):
    return [each for each in libyaml.load_all(text) if each]


def findings(text, *cluster, operation="CREATE", old=None):
    """The findings on the one object of a text, with its rules."""
    (document,) = read(text) if isinstance(text, str) else (text,)
    group, _, _ = document["apiVersion"].rpartition("/")
    metadata = document.get("metadata") or {}
    request = Request(
        document,
        old_object=old,
        operation=operation,
        group=group,
        kind=document["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
    )
    return review(request, ManifestsView(cluster, [document]), DEFAULTS).findings


def rules(*arguments, **options):
    return sorted({found.rule.id for found in findings(*arguments, **options)})


def mig_node(config="all-balanced", **labels):
    known = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", MIG_CONFIG: config, **labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": known}}


def policy(**spec):
    components = ("operator", "daemonsets", "driver", "toolkit", "devicePlugin", "dcgmExporter", "dcgm", "gfd")
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {**{name: {} for name in (*components, "nodeStatusExporter")}, **spec},
    }


SINGLE = {"mig": {"strategy": "single"}}


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        (SINGLE, OFF),
        ({**SINGLE, "devicePlugin": {"enabled": False}}, {}),
        (
            {**SINGLE, "sandboxWorkloads": {"enabled": True}},
            {"nvidia.com/gpu.workload.config": "vm-vgpu"},
        ),
        ({"mig": {"strategy": "none"}}, OFF),
    ],
)
def test_mig_nodes_without_a_device_plugin_need_no_strategy(spec, labels):
    assert "GA147" not in rules(policy(**spec), mig_node(**labels))
    assert "GA155" not in rules(mig_node(**labels), policy(**spec))


def test_mig_nodes_of_a_gpu_cluster_need_no_strategy():
    cluster = {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "gpu-cluster"}}
    labels = {"nvidia.com/mig.strategy": "single"}
    assert "GA155" not in rules(mig_node(**labels), cluster)
    assert "GA155" in rules(mig_node(**labels))


def test_mig_nodes_with_a_device_plugin_still_need_a_strategy():
    assert "GA147" in rules(policy(**SINGLE), mig_node())
    assert "GA155" in rules(mig_node(), policy(**SINGLE))


@pytest.mark.parametrize("kind", ["gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"])
def test_bus_id_that_every_device_has_needs_no_guard(kind):
    claim = f"""
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {{name: gpu, namespace: team-a}}
    spec:
      devices:
        requests:
        - name: gpu
          exactly:
            deviceClassName: {kind}
            selectors:
            - cel: {{expression: 'device.attributes["resource.kubernetes.io"].pciBusID == "0000:18:00.0"'}}"""
    assert "GA221" not in rules(claim)
    assert "GA221" in rules(claim.replace("pciBusID", "pcieRoot"))


def test_clique_has_fields_beside_its_metadata():
    clique = """
    apiVersion: resource.nvidia.com/v1beta1
    kind: ComputeDomainClique
    metadata: {name: domain.clique, namespace: dra-driver-nvidia-gpu}
    daemons:
    - {nodeName: gpu-1, ipAddress: 10.0.0.7, cliqueID: clique, index: 0, status: Ready}"""
    assert rules(clique) == []


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("GpuConfig", {"sharing": {"strategy": "TimeSlicing"}}),
        ("MigDeviceConfig", {}),
        ("VfioDeviceConfig", {}),
        ("ComputeDomainChannelConfig", {"domainID": "2f1c7a9e-0000-4000-8000-000000000001"}),
        ("ComputeDomainDaemonConfig", {}),
    ],
)
def test_remedy_for_a_config_as_an_object_says_where_it_belongs(kind, fields):
    document = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "metadata": {"name": "x"}, **fields}
    (found,) = findings(document)
    assert labelled_text(found) == (
        f'kind: "{kind}" is a part of claims, not an object; kubectl would refuse it with: no matches for kind; move it '
        "into devices.config[].opaque.parameters of a ResourceClaim or ResourceClaimTemplate [GA100]"
    )


@pytest.mark.parametrize(
    "kind", ["DynamoGraphDeployment", "DynamoComponentDeployment", "DynamoGraphDeploymentRequest", "PodSnapshot"]
)
def test_kinds_of_other_operators_in_the_group_are_not_judged(kind):
    document = {"apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "llm", "namespace": "team-a"}}
    assert rules({**document, "spec": {"services": {}}}) == NOT_REVIEWED


METRICS = "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).\n"


def metrics(namespace, key="counters.csv"):
    metadata = {"name": "exporter-metrics", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: METRICS}}


def test_metrics_of_an_exporter_without_the_operator_have_any_key():
    assert rules(metrics("monitoring")) == []
    assert rules(metrics("gpu-operator")) == ["GA162"]


def test_component_that_is_never_deployed_is_a_warning():
    # As in the sample of the operator's own repository.
    enabled = {name: {"enabled": True} for name in ("vgpuDeviceManager", "vfioManager", "sandboxDevicePlugin")}
    sample = policy(vgpuManager={"enabled": True}, sandboxWorkloads={"enabled": False}, **enabled)
    found = [found for found in findings(sample) if found.rule.id == "GA186"]
    assert [(str(one.path), one.severity) for one in found] == [("spec.vgpuManager.enabled", Severity.WARN)]
