"""One cause is one finding: consequences are not repeated, and a finding on many objects is reported once."""

import json

import pytest
from click.testing import CliRunner

from policies.admission import review
from policies.admission.pods import known_namespace
from policies.kubernetes.objects import FieldPath
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy
from policies.rules.settings.choices import RuleOverride
from policies.rules.waivers import once_per_cause, without_repeats
from tests.findings import labelled_text
from webhook.cli import main
from webhook.cluster.manifests import ManifestsView

PRODUCT = "gpu-admission.io/product"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
    "status": {"allocatable": {"nvidia.com/gpu": "8"}},
}
GPU = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}
BROKEN_QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "all", "gpus": 0.5}]},
}


def pod(name="train", **annotations):
    metadata = {"name": name, "namespace": "team-a", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [GPU]}}


def ray_cluster(*names):
    template = {"spec": {"containers": [GPU]}}
    groups = [{"groupName": name, "replicas": 1, "template": template} for name in names]
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": groups}
    metadata = {"name": "ray", "namespace": "team-a"}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}


def findings(document, *cluster, settings=DEFAULTS):
    group = document["apiVersion"].rpartition("/")[0]
    request = Request(document, group=group, kind=document["kind"], namespace="team-a")
    return review(request, ManifestsView(cluster, [document]), settings).findings


def wished(product, settings=DEFAULTS):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    return findings(pod(**{PRODUCT: product}), NODE, namespace, settings=settings)


def test_misspelt_product_is_one_finding_with_what_there_is_and_how_it_is_spelled():
    (found,) = wished("H10O*")
    assert labelled_text(found) == (
        f'metadata.annotations[{PRODUCT}]: 1 node has NVIDIA-H100-80GB-HBM3; none has H10O*; write "H100*" [GA404]'
    )


def test_product_that_is_spelled_right_and_missing_keeps_its_remedy():
    (found,) = wished("H200-NVL")
    assert (found.rule.id, found.remedy) == ("GA404", "request a GPU that exists, or wait for such a node")


def test_one_misspelt_product_among_others_stays_a_finding_of_its_own():
    assert [found.rule.id for found in wished("H10O*,H200-NVL")] == ["GA405", "GA404"]


def test_misspelt_product_that_settings_refuse_is_refused():
    found = wished("H10O*", GPUAdmissionPolicy(rules=(RuleOverride("GA405", Severity.DENY),)))
    assert [(each.rule.id, each.severity) for each in found] == [("GA405", Severity.DENY), ("GA404", Severity.WARN)]


def test_misspelt_product_alone_is_reported_by_its_own_rule():
    (found,) = findings(
        pod(**{PRODUCT: "H10O*"}), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    )
    assert found.rule.id == "GA405"
    assert without_repeats((found,), {}) == (found,)


def test_quota_that_cannot_be_read_is_one_warning_of_a_workload():
    found = [each for each in findings(ray_cluster("a", "b"), BROKEN_QUOTA) if each.rule.id == "GA504"]
    assert [(str(each.path), each.message.endswith("put right (3 pod templates)")) for each in found] == [
        ("spec.headGroupSpec.template", True)
    ]


@pytest.fixture
def printed(tmp_path):
    """`printed(*documents)`: what `gpu-admission review` prints of documents."""

    def run(*documents, output="text"):
        file = tmp_path / "objects.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))
        return CliRunner().invoke(main, ["review", "-o", output, str(file)]).output

    return run


def test_unknown_namespace_is_printed_once_with_how_many_objects_it_concerns(printed):
    text = printed(*(pod(f"train-{number}") for number in range(5)))
    assert text.count("GA324 warn") == 1
    assert "so the pod is reviewed as not converted (5 objects)" in " ".join(text.replace("Warning:", "").split())


def test_unknown_namespace_stays_with_each_object_for_programs(printed):
    results = json.loads(printed(pod("a"), pod("b"), output="json"))
    assert [[each["rule"] for each in result["findings"]] for result in results] == [["GA324"], ["GA324"]]


def test_broken_quota_is_printed_once_for_all_pods(printed):
    text = printed(pod("a"), pod("b"), BROKEN_QUOTA)
    assert text.count("GA504 warn") == 1
    assert "(2 objects)" in text


def test_findings_about_the_object_itself_are_never_counted_together():
    mine = wished("H200-NVL")
    assert once_per_cause([mine, mine], "object") == [mine, mine]


def test_refusals_are_never_counted_together():
    refused = known_namespace.rule.finding(FieldPath(), "unknown", severity=Severity.DENY)
    assert once_per_cause([[refused], [refused]], "object") == [(refused,), (refused,)]


def test_count_of_objects_replaces_those_of_their_templates(tmp_path):
    documents = [ray_cluster("a", "b"), ray_cluster("a"), pod()]
    (tmp_path / "all.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
    done = CliRunner().invoke(main, ["review", str(tmp_path / "all.yaml")])
    assert done.stdout.count("[GA324]") == 1
    assert "(3 objects)" in " ".join(done.stdout.replace("Warning:", "").split())
    assert "pod templates" not in done.stdout
