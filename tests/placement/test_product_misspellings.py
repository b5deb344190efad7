"""Products that do not exist, with the name that was probably meant."""

import pytest

from policies.placement.wish_annotations import read_wishes
from policies.placement.wish_labels import existing_products
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS
from tests.findings import plain_text

WISH = "metadata.annotations[gpu-admission.io/product]"
COMPARE = "compare with the label nvidia.com/gpu.product of your nodes"


@pytest.fixture
def findings_of(pod, cluster):
    """The texts of the findings on a wish for products in a cluster of these parts."""

    def findings_of(text, *parts):
        asking = pod({"nvidia.com/gpu": 1}, annotations={"gpu-admission.io/product": text})
        view = cluster(*parts)
        found = list(existing_products(read_wishes(asking, "team-a", view, DEFAULTS), view))
        assert {(finding.rule.id, finding.severity) for finding in found} <= {("GA405", Severity.WARN)}
        return [plain_text(finding) for finding in found]

    return findings_of


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("H10O*", "H100*"),
        ("A10O*", "A100*"),
        ("H100", "H100*"),
        ("h100sxm", "H100-80GB-HBM3"),
        ("A100-80", "A100*80GB*"),
        ("tesla-a100", "A100*"),
        ("NVIDIA-H100_MIG_1g.10gb", "H100*-MIG-1g.10gb"),
        ("H100 or A100", "H100*,A100*"),
        ("NVIDIA-H100", "H100*"),
        ("T4", "Tesla-T4"),
        ("Testla-T4", "Tesla-T4"),
        ("GB-200*", "GB200*"),
        ("H100-80GB", "H100-80GB-HBM3"),
        ("A100-SXM-40GB", "A100-SXM4-40GB"),
        ("l4O*", "L40*"),
        ("A100-80GB", "A100*80GB*"),
    ],
)
def test_near_product_is_suggested(findings_of, text, suggestion):
    assert findings_of(text) == [f'{WISH}: "{text}" names no GPU that is known; write "{suggestion}"']


def test_suggestion_is_the_same_with_and_without_a_cluster(findings_of, node):
    here = [
        node("f1", label, {"nvidia.com/gpu.product": label})
        for label in ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")
    ]
    for text in ("A100-80GB", "A100-SXM4", "*A100-40GB", "H100", "H10O*", "H100 or A100"):
        remedies = {findings_of(text, *parts)[0].rpartition("; ")[2] for parts in ((), here)}
        assert len(remedies) == 1


def test_product_of_the_cluster_is_suggested_before_one_that_is_only_known(findings_of, node):
    cards = node("f1", labels={"nvidia.com/gpu.product": "NVIDIA-H100-PCIe"})
    assert findings_of("H100-80GB", cards)[0].endswith('; write "H100-PCIe"')


@pytest.mark.parametrize(
    ("text", "others", "name"),
    [
        ("H10O*", '"NVIDIA-A100-SXM4-40GB", which is another GPU', "H100*"),
        ("A100-80GB", '"NVIDIA-A100-SXM4-40GB", which has other memory', "A100*80GB*"),
        ("A100-PCI-E", '"NVIDIA-A100-SXM4-40GB", which has another form factor', "A100*PCIe*"),
    ],
)
def test_other_gpu_of_the_cluster_is_named_as_such(findings_of, text, others, name):
    assert findings_of(text, "f1")[0].endswith(
        f'; the cluster has {others}; for a node that comes later, the name is "{name}"'
    )


def test_product_far_from_all_is_reported_without_a_suggestion(findings_of):
    assert findings_of("Voodoo*", "f1") == [
        f'{WISH}: "Voodoo*" names no GPU in the cluster, and none that is known; {COMPARE}'
    ]


def test_product_far_from_all_may_exist_while_nodes_are_unknown(findings_of):
    assert findings_of("Voodoo*") == []


def test_near_product_is_suggested_while_nodes_are_unknown(findings_of):
    assert findings_of("H10O*") == [f'{WISH}: "H10O*" names no GPU that is known; write "H100*"']


@pytest.mark.parametrize(
    "text",
    ["H100*", "tesla t4", "*", "!*MIG*", "A100*MIG-1g*", "!*-MIG-1g.5gb", "A100-SXM4-40GB-MIG-3g.20gb", "*PCIe"],
)
def test_product_that_is_known_is_right(findings_of, text):
    assert findings_of(text, "f1") == []


def test_product_that_the_cluster_has_is_right(findings_of, node):
    assert findings_of("Voodoo*", node("f1", labels={"nvidia.com/gpu.product": "NVIDIA-Voodoo5"})) == []
    assert findings_of("*3g.20gb", "f2") == []


def test_product_of_the_resource_slices_is_right(findings_of):
    slices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "a"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1},
            "devices": [
                {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "productName": {"string": "Voodoo 5"}}}
            ],
        },
    }
    assert findings_of("Voodoo-5", "f1", slices) == []


def test_excluded_product_that_does_not_exist_excludes_nothing(findings_of):
    assert findings_of("A100*,!H10O*", "f1") == [
        f'{WISH}: "H10O*" names no GPU in the cluster, and none that is known; write "H100*"'
    ]


def test_each_pattern_is_reported(findings_of):
    assert [text.split('"')[1] for text in findings_of("H10O*,A100*,T5,!Voodoo*", "f1")] == ["H10O*", "T5", "Voodoo*"]


def test_five_patterns_are_reported_and_the_others_counted(findings_of):
    texts = findings_of(",".join(f"Voodoo{number}*" for number in range(7)), "f1")
    assert [text.split('"')[1] for text in texts[:-1]] == [f"Voodoo{number}*" for number in range(5)]
    assert texts[-1] == f"{WISH}: 2 more patterns name no GPU in the cluster, and none that is known; {COMPARE}"


def test_sixth_pattern_is_counted(findings_of):
    texts = findings_of("H10O*,A10O*,l4O*,Testla-T4,GB-200*,!H100-80GB")
    assert len(texts) == 6
    assert texts[-1] == f"{WISH}: one more pattern names no GPU that is known; {COMPARE}"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("H100|A100", 'write "H100*,A100*"'),
        ("H100/A100-80GB", 'write "H100*,A100*80GB*"'),
        ("^(H100|A100).*", 'write "H100*,A100*"'),
        ("NVIDIA\N{EM DASH}H100\N{EM DASH}80GB", 'write "H100-80GB-HBM3"'),
        ("NVIDIA-L4-SHARED", 'write "L4", and gpu-admission.io/sharing: "shared"'),
        ("Voodoo|Riva", "write a comma between names"),
        ("!H100|A100", "write a comma between names"),
    ],
)
def test_list_that_cannot_be_read_is_written_anew_where_its_names_are_clear(pod, cluster, text, remedy):
    asking = pod({"nvidia.com/gpu": 1}, annotations={"gpu-admission.io/product": text})
    (finding,) = read_wishes(asking, "team-a", cluster("f1"), DEFAULTS).findings
    assert (finding.rule.id, finding.remedy) == ("GA401", remedy)
