"""Node selectors that match no node, with the label or value that a node has."""

import pytest

from policies.admission import review
from policies.kubernetes.pod_templates import with_defaults
from policies.placement.selector_misspellings import existing_labels
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.findings import labelled_text, plain_text
from webhook.cluster.manifests import ManifestsView

AFFINITY = (
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
)


def selecting(pod, **labels):
    return pod({"nvidia.com/gpu": 1}, nodeSelector={f"nvidia.com/{key}": value for key, value in labels.items()})


def findings_of(pod, view):
    return [plain_text(finding) for finding in existing_labels(pod, view)]


def by_affinity(pod, key, operator, *values):
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("gpu.product", "NVIDIA-A100-SXM4-40G", '"NVIDIA-A100-SXM4-40G" {}; write "NVIDIA-A100-SXM4-40GB"'),
        ("gpu.product", "A100", '"A100" {}; write "NVIDIA-A100-SXM4-40GB"'),
        (
            "gpu.product",
            "NVIDIA-H10O-80GB-HBM3",
            '"NVIDIA-H10O-80GB-HBM3" {}; write "NVIDIA-H100-80GB-HBM3-SHARED": the GPUs there are shared',
        ),
        ("gpu.family", "hoper", '"hoper" {}; write "hopper"'),
        ("gpu.memory", "80", '"80" {}; write "81559": the label is in MiB, and as the driver reports it'),
        ("gpu.memory", "81920", '"81920" {}; write "81559": the label is in MiB, and as the driver reports it'),
        ("gpu.present", "True", '"True" {}; write "true"'),
    ],
)
def test_value_that_no_node_has_is_reported_with_a_similar_one(pod, cluster, key, value, text):
    reported_text = text.format(f"is the nvidia.com/{key} of no node")
    assert findings_of(selecting(pod, **{key: value}), cluster("f1", "f4")) == [
        f"spec.nodeSelector[nvidia.com/{key}]: {reported_text}"
    ]


def test_incomplete_product_name_is_completed(pod, cluster, node):
    other = node("f1", "other", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    (text,) = findings_of(selecting(pod, **{"gpu.product": "A100-80GB"}), cluster("f4", other))
    assert text.endswith('; write "NVIDIA-A100-SXM4-80GB"')


def test_several_products_are_named(pod, cluster, node):
    other = node("f1", "other", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    (text,) = findings_of(selecting(pod, **{"gpu.product": "A100"}), cluster("f1", other))
    assert text == (
        'spec.nodeSelector[nvidia.com/gpu.product]: "A100" is the nvidia.com/gpu.product of no node; '
        'write one of "NVIDIA-A100-SXM4-40GB" and "NVIDIA-A100-SXM4-80GB"'
    )


@pytest.fixture
def products(cluster, node):
    """A cluster with a node for each of these products."""

    def products(*labels):
        return cluster(*(node("f1", f"n{n}", {"nvidia.com/gpu.product": label}) for n, label in enumerate(labels)))

    return products


HERE = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4-SHARED")


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("NVIDIA-H100-SXM5-80GB", 'write "NVIDIA-H100-80GB-HBM3"'),
        ("H100", 'write "NVIDIA-H100-80GB-HBM3"'),
        ("nvidia-l4", 'write "NVIDIA-L4-SHARED": the GPUs there are shared'),
        ("NVIDIA-L4", 'write "NVIDIA-L4-SHARED": the GPUs there are shared'),
        (
            "NVIDIA-B200-SXM-180GB",
            'the cluster has "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3" and "NVIDIA-L4-SHARED", which are other GPUs; for a node that comes later, the name is "NVIDIA-B200"',
        ),
        (
            "NVIDIA-H100-SXM5-96GB",
            'the cluster has "NVIDIA-H100-80GB-HBM3", which has other memory; choose from what there is',
        ),
        (
            "H100-PCI-E",
            'the cluster has "NVIDIA-H100-80GB-HBM3", which has another form factor; for a node that comes later, the name is "NVIDIA-H100-PCIe"',
        ),
        (
            "nvidia-tesla-a100",
            'the cluster has "NVIDIA-A100-SXM4-80GB", which has other memory; for a node that comes later, the name is "NVIDIA-A100-SXM4-40GB"',
        ),
        ("nvidia-h100-mega-80gb", 'write "NVIDIA-H100-80GB-HBM3"'),
    ],
)
def test_product_of_the_same_gpu_is_suggested_or_else_what_there_is(pod, products, value, remedy):
    (text,) = findings_of(selecting(pod, **{"gpu.product": value}), products(*HERE))
    assert text.endswith(f'"{value}" is the nvidia.com/gpu.product of no node; {remedy}')


def test_products_of_nodes_are_listed_up_to_three(pod, products):
    here = products(*HERE, "NVIDIA-A30", "NVIDIA-A40")
    (text,) = findings_of(selecting(pod, **{"gpu.product": "L40S"}), here)
    assert (
        '; the cluster has "NVIDIA-A100-SXM4-80GB", "NVIDIA-A30", "NVIDIA-A40" and 2 more, which are other GPUs;'
        in text
    )


@pytest.mark.parametrize("value", ["NVIDIA-A30-SHARED", "NVIDIA-A30-MIG-1g.6gb"])
def test_gpu_that_the_author_wants_shared_or_divided_may_come_later(pod, products, value):
    assert findings_of(selecting(pod, **{"gpu.product": value}), products("NVIDIA-A30")) == []


@pytest.mark.parametrize(
    ("value", "label", "remedy"),
    [
        ("A30-SHARED", "NVIDIA-A30", 'write "NVIDIA-A30": the GPUs there are not shared'),
        (
            "NVIDIA-A30",
            "NVIDIA-A30-MIG-1g.6gb",
            'the cluster has "NVIDIA-A30-MIG-1g.6gb", which is this GPU divided by MIG; choose from what there is',
        ),
        (
            "a30-mig-2g.12gb",
            "NVIDIA-A30-MIG-1g.6gb",
            'the cluster has "NVIDIA-A30-MIG-1g.6gb", which is this GPU without such MIG devices; for a node that comes later, the name is "NVIDIA-A30-MIG-2g.12gb"',
        ),
        (
            "NVIDIA-A30-MIG-1g.5gb",
            "NVIDIA-A30",
            'the cluster has "NVIDIA-A30", which is this GPU without such MIG devices; choose from what there is',
        ),
    ],
)
def test_label_of_the_same_gpu_used_otherwise_is_named_with_the_difference(pod, products, value, label, remedy):
    (text,) = findings_of(selecting(pod, **{"gpu.product": value}), products(label))
    assert text.endswith(f'"{value}" is the nvidia.com/gpu.product of no node; {remedy}')


GKE = "cloud.google.com/gke-accelerator"


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("H100", 'write "nvidia-h100-80gb"'),
        ("NVIDIA-H100-80GB-HBM3", 'write "nvidia-h100-80gb"'),
        ("nvidia-h100-mega-80gb", None),
        ("nvidia-l4", None),
    ],
)
def test_name_of_the_cloud_for_the_same_gpu_is_suggested(pod, cluster, node, value, remedy):
    view = cluster(node("f1", labels={GKE: "nvidia-h100-80gb"}))
    expected = [f'spec.nodeSelector[{GKE}]: "{value}" is the {GKE} of no node; {remedy}'] if remedy else []
    assert findings_of(pod(nodeSelector={GKE: value}), view) == expected


@pytest.mark.parametrize(("key", "value"), [(GKE, "nvidia-h100-80gb"), ("karpenter.k8s.aws/instance-gpu-name", "h100")])
def test_label_of_a_cloud_that_no_node_has_is_translated(pod, products, key, value):
    assert findings_of(pod(nodeSelector={key: value}), products(*HERE)) == [
        f'spec.nodeSelector[{key}]: no node has the label {key}; write nvidia.com/gpu.product: "NVIDIA-H100-80GB-HBM3"'
    ]


def test_label_that_no_node_has_is_reported_with_a_similar_one(pod, cluster):
    assert findings_of(selecting(pod, **{"gpu.produt": "NVIDIA-A100-SXM4-40GB"}), cluster("f1")) == [
        "spec.nodeSelector[nvidia.com/gpu.produt]: no node has the label nvidia.com/gpu.produt; write nvidia.com/gpu.product"
    ]


def test_value_of_an_affinity_is_reported_at_its_place(pod, cluster):
    assert findings_of(by_affinity(pod, "nvidia.com/gpu.family", "In", "amper"), cluster("f1")) == [
        f'spec.{AFFINITY}.values[0]: "amper" is the nvidia.com/gpu.family of no node; write "ampere"'
    ]


@pytest.mark.parametrize(
    ("values", "listed"),
    [
        (("H100", "A100"), '["NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"]'),
        (("H100", "NVIDIA-H200"), '["NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"]'),
        (("Voodoo-2", "A100"), '["Voodoo-2", "NVIDIA-A100-SXM4-80GB"]'),
    ],
)
def test_list_of_products_is_replaced_by_a_whole_list(pod, products, values, listed):
    (text,) = findings_of(by_affinity(pod, "nvidia.com/gpu.product", "In", *values), products(*HERE))
    assert text == (
        f'spec.{AFFINITY}.values: "{values[0]}" and "{values[1]}" are the nvidia.com/gpu.product of no node; write {listed}'
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gpu.product", "NVIDIA-A100-SXM4-40GB"),
        ("gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("gpu.product", "NVIDIA-H100-80GB-HBM3-SHARED"),
        ("gpu.product", "Voodoo-2"),
        ("gpu.family", "blackwell"),
        ("gpu.memory", "143771"),
        ("gpu.memory", "plenty"),
        ("gpu.produt", "NVIDIA-H200"),
        ("cuda.driver-version.full", "580.95.04"),
        ("gpu.count", "3"),
        ("gpu.clique", "a.1"),
    ],
)
def test_value_that_may_come_later_is_not_reported(pod, cluster, key, value):
    assert findings_of(selecting(pod, **{key: value}), cluster("f1")) == []


@pytest.mark.parametrize(
    ("operator", "values"), [("NotIn", ["amper"]), ("In", ["amper", "ampere"]), ("Exists", []), ("Gt", ["1"])]
)
def test_condition_that_nodes_meet_is_not_reported(pod, cluster, operator, values):
    assert findings_of(by_affinity(pod, "nvidia.com/gpu.family", operator, *values), cluster("f1")) == []


def test_label_of_others_is_not_judged(pod, cluster):
    assert findings_of(pod(nodeSelector={"example.com/gpu.family": "amper"}), cluster("f1")) == []


def test_nothing_is_reported_while_nodes_are_unknown(pod):
    assert findings_of(selecting(pod, **{"gpu.family": "amper"}), ManifestsView()) == []


def test_what_is_proposed_is_no_finding(pod, cluster):
    labels = {"gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "gpu.memory": "81559", "gpu.family": "hopper"}
    assert findings_of(selecting(pod, **labels), cluster("f4")) == []


def reviewed(pod, view):
    request = Request(with_defaults(pod.document), kind="Pod", namespace="team-a", name="train")
    return [labelled_text(finding) for finding in review(request, view, DEFAULTS).findings]


def test_converted_pod_is_reported_once_that_no_device_matches(pod, cluster):
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a", "labels": {"gpu-admission.io/dra": "enabled"}},
    }
    view = cluster("gpucluster", "f1", namespace)
    (finding,) = reviewed(selecting(pod, **{"gpu.product": "NVIDIA-A100-SXM4-40G"}), view)
    assert finding.startswith(
        "spec.nodeSelector[nvidia.com/gpu.product]: no device matches product NVIDIA-A100-SXM4-40G;"
    )
    assert finding.endswith('; write "NVIDIA-A100-SXM4-40GB" [GA313]')


def test_pod_that_is_not_converted_is_reported(pod, cluster):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    view = cluster("f1", namespace, {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClassList", "items": []})
    assert reviewed(selecting(pod, **{"gpu.family": "amper"}), view) == [
        'spec.nodeSelector[nvidia.com/gpu.family]: "amper" is the nvidia.com/gpu.family of no node; write "ampere" [GA409]'
    ]
