"""Resources that no node advertises, with those that exist and the name that was probably meant."""

import pytest

from policies.admission import review
from policies.kubernetes.pods import Pod
from policies.placement.resource_requests import node_findings
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.findings import plain_text
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import ManifestsView

NO_CLASSES = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClassList", "items": []}
IMPLICIT = "deviceclass.resource.kubernetes.io/"
DRA = "is advertised by no node; DRA hands out 8 NVIDIA-A100-SXM4-40GB and 8 NVIDIA-H100-80GB-HBM3 here"
OPT_IN = 'label the namespace "team-a" gpu-admission.io/dra: enabled, so that its pods are converted to DRA'
RULE = "request a resource that exists, or wait for a node that advertises this one"


def findings_of(pod, view):
    return [plain_text(finding).partition(": ")[2] for finding in node_findings(pod, "team-a", view, DEFAULTS)]


def device_class(name, resource):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"extendedResourceName": resource},
    }


def empty_node(**labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "empty", "labels": labels}}


def mig_slice(profile, count):
    attributes = {
        "type": {"string": "mig"},
        "productName": {"string": "NVIDIA H200"},
        "profile": {"string": profile},
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "mig"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "h200-1",
            "pool": {"name": "h200-1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"mig-{number}", "attributes": attributes} for number in range(count)],
        },
    }


ON_MIXED = "nvidia.com/mig-1g.5gb on 1 node, nvidia.com/mig-2g.10gb on 1 node and nvidia.com/mig-3g.20gb on 1 node"


@pytest.mark.parametrize(
    ("parts", "resource", "text"),
    [
        pytest.param(
            ("f1",),
            "gpus",
            'there is nvidia.com/gpu on 1 node; write "nvidia.com/gpu"',
            id="plural",
        ),
        pytest.param(("f1",), "GPU", 'there is nvidia.com/gpu on 1 node; write "nvidia.com/gpu"', id="capitals"),
        pytest.param(
            ("f2", "f1"),
            "mig-1g.10gb",
            "there is nvidia.com/gpu on 1 node, nvidia.com/mig-1g.5gb on 1 node, nvidia.com/mig-2g.10gb on 1 node and "
            'nvidia.com/mig-3g.20gb on 1 node; write "nvidia.com/mig-1g.5gb" if that MIG device will do, or wait for a node with this one',
            id="profile of a GPU with more memory",
        ),
        pytest.param(
            ("f2",),
            "mig-4g.20gb",
            f'there is {ON_MIXED}; write "nvidia.com/mig-3g.20gb" if that MIG device will do, or wait for a node with this one',
            id="profile with as much memory",
        ),
        pytest.param(("f2",), "mig-7g.40gb", f"there is {ON_MIXED}; {RULE}", id="profile that is like no other"),
        pytest.param(
            ("f2",), "mig-1g5gb", f'there is {ON_MIXED}; write "nvidia.com/mig-1g.5gb"', id="misspelt profile"
        ),
        pytest.param(
            ("f2",),
            "gpu",
            f'there is {ON_MIXED}; write "nvidia.com/mig-3g.20gb" if a MIG device will do, or wait for whole GPUs',
            id="whole GPU where all are cut",
        ),
        pytest.param(
            ("f3",),
            "mig-1g.5gb",
            "1 node hands out 1g.5gb devices as nvidia.com/gpu, by the MIG strategy single; "
            'write "nvidia.com/gpu" and the nodeSelector nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb',
            id="profile under the strategy single",
        ),
        pytest.param(
            ("f3",),
            "mig-2g.10gb",
            f"there is nvidia.com/gpu (MIG 1g.5gb) on 1 node; {RULE}",
            id="another profile under the strategy single",
        ),
        pytest.param(
            ("f1", "f3"),
            "mig-2g.10gb",
            'there is nvidia.com/gpu on 2 nodes; write "nvidia.com/gpu" for a whole GPU, or wait for a node with such MIG '
            "devices",
            id="profile where GPUs are whole",
        ),
        pytest.param(
            ("f4", "f5"),
            "gpu.shared",
            "2 nodes share their GPUs and hand the shares out as nvidia.com/gpu, for lack of renameByDefault; "
            'write "nvidia.com/gpu" and the annotation gpu-admission.io/sharing: shared',
            id="shares that are not renamed",
        ),
        pytest.param(
            ("f1", "f4"),
            "gpu.shared",
            "1 node shares its GPUs and hands the shares out as nvidia.com/gpu, for lack of renameByDefault; "
            'write "nvidia.com/gpu" and the annotation gpu-admission.io/sharing: shared',
            id="shares that are not renamed, and whole GPUs",
        ),
        pytest.param(
            ("f1",),
            "gpu.shared",
            'there is nvidia.com/gpu on 1 node, and no node shares it; write "nvidia.com/gpu"',
            id="share where GPUs are whole",
        ),
        pytest.param(("f1",), "hostdev", f"there is nvidia.com/gpu on 1 node; {RULE}", id="something else of NVIDIA's"),
        pytest.param(
            (empty_node(),),
            "gpu",
            f"the only node has no GPU; {RULE}",
            id="no GPU in the cluster",
        ),
        pytest.param(
            (empty_node(),), "gpus", 'the only node has no GPU; write "nvidia.com/gpu"', id="misspelt as well"
        ),
        pytest.param(
            (empty_node(**{"nvidia.com/gpu.present": "true"}),),
            "gpu",
            "1 node has GPUs by its labels, and nothing advertises them; check whether NVIDIA's device plugin runs there",
            id="no device plugin",
        ),
        pytest.param(
            (
                empty_node(
                    **{"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID"}
                ),
            ),
            "gpu",
            "1 node has GPUs by its labels; mig.strategy single does not allow the MIG devices of 1 node "
            "(nvidia.com/gpu.product ends with -MIG-INVALID), so the device plugin exits there; let an administrator set "
            "mig.strategy: mixed, or select a MIG configuration with one profile",
            id="a device plugin that exits",
        ),
    ],
)
def test_what_no_node_advertises_is_reported_with_what_there_is(pod, cluster, parts, resource, text):
    view = cluster(*parts, NO_CLASSES)
    assert findings_of(pod({f"nvidia.com/{resource}": 1}), view) == [f"is advertised by no node; {text}"]


def test_nodes_are_counted(pod, cluster, node):
    others = [node("f1", f"a100-whole-{number}") for number in range(2, 13)]
    view = cluster("f1", *others, node("f2", offers={"nvidia.com/mig-1g.5gb": None}), NO_CLASSES)
    assert findings_of(pod({"nvidia.com/mig-1g.5gb": 1}), view) == [
        (
            "is advertised by no node; there is nvidia.com/gpu on 12 nodes, nvidia.com/mig-2g.10gb on 1 node and "
            f"nvidia.com/mig-3g.20gb on 1 node; {RULE}"
        )
    ]


def test_whole_gpu_where_there_are_shares_under_their_own_name(pod, cluster, node):
    renamed = node("f4", offers={"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "32"})
    assert findings_of(pod({"nvidia.com/gpu": 1}), cluster(renamed, NO_CLASSES)) == [
        (
            "is advertised by no node; there is nvidia.com/gpu.shared on 1 node; "
            'write "nvidia.com/gpu.shared" if a share will do, or wait for a node with whole GPUs'
        )
    ]


@pytest.mark.parametrize(
    ("parts", "resource"),
    [
        pytest.param(("f1", NO_CLASSES), "nvidia.com/gpu", id="on a node"),
        pytest.param(("f2", NO_CLASSES), "nvidia.com/mig-2g.10gb", id="MIG device on a node"),
        pytest.param(("f1", device_class("mine", "nvidia.com/mig-1g.5gb")), "nvidia.com/mig-1g.5gb", id="DeviceClass"),
        pytest.param(("f1", NO_CLASSES), "amd.com/gpu", id="another vendor's"),
        pytest.param(("f1", NO_CLASSES), "nvidia.com/gpumem", id="another scheduler's"),
        pytest.param((), "nvidia.com/gpu", id="nodes unknown"),
        pytest.param((), "nvidia.com/mig-1g.5gb", id="nodes unknown, MIG device"),
        pytest.param((), "nvidia.com/hostdev", id="nodes unknown, something else"),
        pytest.param(({"apiVersion": "v1", "kind": "NodeList", "items": []},), "nvidia.com/gpu", id="no nodes"),
        pytest.param(("gpucluster",), f"{IMPLICIT}gpu.nvidia.com", id="implicit name"),
        pytest.param(("gpucluster",), f"{IMPLICIT}gpu.amd.com", id="implicit name of another vendor"),
        pytest.param(("f1",), f"{IMPLICIT}gpus.nvidia.com", id="classes unknown"),
    ],
)
def test_what_exists_or_cannot_be_judged_is_not_reported(pod, cluster, parts, resource):
    assert findings_of(pod({resource: 1}), cluster(*parts)) == []


def test_amount_of_nothing_is_not_reported(pod, cluster):
    assert findings_of(pod({"nvidia.com/gpus": 0}), cluster("f1", NO_CLASSES)) == []


def test_resource_is_reported_once_for_a_pod(cluster):
    containers = [{"name": name, "resources": {"limits": {"nvidia.com/gpus": 1}}} for name in ("one", "two")]
    pod = Pod.read({"metadata": {"name": "a"}, "spec": {"containers": containers}})
    findings = list(node_findings(pod, "team-a", cluster("f1", NO_CLASSES), DEFAULTS))
    assert [str(finding.path) for finding in findings] == ["spec.containers[0].resources.limits[nvidia.com/gpus]"]


def test_unknown_classes_leave_a_doubt(pod, cluster):
    assert findings_of(pod({"nvidia.com/gpu": 1}), cluster(empty_node())) == [
        (
            "is advertised by no node; the only node has no GPU; DeviceClasses are unknown, so one may provide it; "
            "request a resource that exists, or wait for a node that advertises this one"
        )
    ]


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        ("gpus", "gpu"),
        ("GPU", "gpu"),
        ("Gpus", "gpu"),
        ("gpu_shared", "gpu.shared"),
        ("gpus.shared", "gpu.shared"),
        ("MIG-1g.5gb", "mig-1g.5gb"),
        ("mig-1g5gb", "mig-1g.5gb"),
        ("mig-1g.10GB.me", "mig-1g.10gb.me"),
        ("mig1g.5g", "mig-1g.5gb"),
    ],
)
def test_name_that_is_surely_misspelt_is_reported_without_nodes(pod, resource, meant):
    assert findings_of(pod({f"nvidia.com/{resource}": 1}), ManifestsView()) == [
        f'NVIDIA\'s device plugin advertises no resource of this name; write "nvidia.com/{meant}"'
    ]


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        ("nvidia/gpu", "gpu"),
        ("nvdia.com/gpu", "gpu"),
        ("nvidia.com.com/gpus", "gpu"),
        ("nvida.com/mig-1g10gb", "mig-1g.10gb"),
        ("alpha.kubernetes.io/nvidia-gpu", "gpu"),
        ("gpu", "gpu"),
        ("mig-1g.10gb", "mig-1g.10gb"),
    ],
)
def test_misspelt_vendor_is_reported_without_nodes(pod, resource, meant):
    assert findings_of(pod({resource: 1}), ManifestsView()) == [
        f'NVIDIA\'s device plugin advertises no resource of this name; write "nvidia.com/{meant}"'
    ]


def test_resource_without_a_vendor_is_reported_by_the_review(pod):
    request = Request(pod({"gpu": 1}).document, namespace="team-a", entry="place-pods")
    (finding,) = review(request, ManifestsView(), DEFAULTS).findings
    assert plain_text(finding).endswith('no resource of this name; write "nvidia.com/gpu"')


def test_misspelt_vendor_is_reported_with_what_nodes_have(pod, cluster):
    assert findings_of(
        pod({"nvdia.com/gpu": 1}),
        cluster({**empty_node(), "status": {"allocatable": {"nvidia.com/gpu": "8"}}}, NO_CLASSES),
    ) == ['is advertised by no node; there is nvidia.com/gpu on 1 node; write "nvidia.com/gpu"']


@pytest.mark.parametrize("resource", ["nvidia.com/pgpu", "nvidia.com/nvswitch"])
def test_resource_of_passed_through_gpus_is_not_taken_for_a_misspelt_one(pod, resource, cluster):
    node = {**empty_node(), "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    (text,) = findings_of(pod({resource: 1}), cluster(node, NO_CLASSES))
    assert text == (
        "is advertised by no node; there is nvidia.com/gpu on 1 node; wait for a node with nvidia.com/gpu.workload.config: "
        "vm-passthrough, where NVIDIA's Kata device plugin hands it out"
    )


@pytest.mark.parametrize("resource", ["amd.com/gpu", "media.com/gpu", "gpu.intel.com/i915", "nvdia.com/hostdev"])
def test_resource_of_another_vendor_is_not_reported(pod, resource, cluster):
    assert (
        findings_of(
            pod({resource: 1}),
            cluster({**empty_node(), "status": {"allocatable": {"nvidia.com/gpu": "8"}}}, NO_CLASSES),
        )
        == []
    )


def test_resource_with_a_name_like_nvidias_that_a_node_advertises_is_not_reported(pod, cluster):
    assert (
        findings_of(
            pod({"nvidia/gpu": 1}),
            cluster({**empty_node(), "status": {"allocatable": {"nvidia/gpu": "8"}}}, NO_CLASSES),
        )
        == []
    )


@pytest.mark.parametrize("resource", ["pgpu", "vgpu", "gpucores", "hostdev", "GH100_H100_SXM5_80GB", "mig-all", ""])
def test_name_that_may_be_meant_is_not_reported_without_nodes(pod, resource):
    assert findings_of(pod({f"nvidia.com/{resource}": 1}), ManifestsView()) == []


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        ("nvidia.com/gpu", f"{DRA}; {OPT_IN}"),
        ("nvidia.com/mig-1g.5gb", f"{DRA}; {OPT_IN}"),
        ("nvidia.com/gpus", f'{DRA}; write "nvidia.com/gpu"'),
        ("nvidia.com/hostdev", f"{DRA}; {RULE}"),
        (
            f"{IMPLICIT}gpu.nvida.com",
            f'there is no DeviceClass "gpu.nvida.com", so the pod would stay Pending; write "{IMPLICIT}gpu.nvidia.com"',
        ),
        (
            f"{IMPLICIT}mig-1g.gpu.nvidia.com",
            (
                'there is no DeviceClass "mig-1g.gpu.nvidia.com", so the pod would stay Pending; install the driver that brings '
                "it, or write the name of a class that exists: gpu.nvidia.com, mig.nvidia.com, vfio.gpu.nvidia.com"
            ),
        ),
    ],
)
def test_remedy_in_a_cluster_with_dra_only_says_how_to_get_there(pod, cluster, resource, text):
    assert findings_of(pod({resource: 1}), cluster("gpucluster")) == [text]


def test_namespace_that_converts_has_other_reasons(pod, cluster):
    labels = {"gpu-admission.io/dra": "enabled"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}
    assert findings_of(pod({"nvidia.com/gpu": 1}), cluster("gpucluster", namespace)) == [
        f"{DRA}; let the pod be converted to DRA; gpu-admission review shows what prevents it"
    ]


def test_pod_that_opts_out_is_reported(pod, cluster):
    out = pod({"nvidia.com/gpu": 1})
    out.labels["gpu-admission.io/dra"] = "disabled"
    assert findings_of(out, cluster("gpucluster")) == [f"{DRA}; remove the pod's label gpu-admission.io/dra: disabled"]


def test_class_that_stands_for_the_resource_is_enough(pod, cluster):
    named = device_class("named", "nvidia.com/gpu")
    assert findings_of(pod({"nvidia.com/gpu": 1}), cluster("gpucluster", named)) == []


def test_mig_devices_of_dra_count_beside_a_device_plugin(pod, cluster):
    view = cluster("f1", mig_slice("1g.18gb", 7), NO_CLASSES)
    assert findings_of(pod({"nvidia.com/mig-1g.18gb": 1}), view) == [
        f"is advertised by no node; DRA hands out 7 NVIDIA-H200 MIG 1g.18gb here; {OPT_IN}"
    ]
    assert findings_of(pod({"nvidia.com/mig-2g.35gb": 1}), view) == [
        (
            'is advertised by no node; there is nvidia.com/gpu on 1 node; write "nvidia.com/gpu" for a whole GPU, or wait for a '
            "node with such MIG devices"
        )
    ]


@pytest.mark.parametrize("rule", ["GA412", "GA413"])
@pytest.mark.parametrize("example", ["wrong", "right"])
def test_examples_of_the_rules_are_true(rule, example):
    pod, node = libyaml.load_all(getattr(read_examples(rule), example))
    view = ManifestsView([{"apiVersion": "v1", **node}, NO_CLASSES])
    found = {finding.rule.id for finding in node_findings(Pod.read(pod), "team-a", view, DEFAULTS)}
    assert found == ({rule} if example == "wrong" else set())
