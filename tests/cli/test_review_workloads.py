"""Workloads: their pods are reviewed, and findings are at the lines of their template."""

from __future__ import annotations

import copy
import io
import json
from contextlib import redirect_stderr, redirect_stdout

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.objects import lookup
from policies.kubernetes.workloads import pod_templates
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement
from tests.accepted_workloads import accepted
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.review import FORMATS, TextOptions
from webhook.cli.review.file_reviews import print_review
from webhook.cli.review.review_report import Review, ReviewedObject, findings_of
from webhook.cli.subjects import Circumstances, SubjectReader, admit
from webhook.cluster.manifests import ManifestsView

CLUSTER = [
    {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"gpu-admission.io/dra": "enabled"}}},
    {"kind": "Namespace", "metadata": {"name": "team-legacy"}},
    *(
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
        for name in ("gpu.nvidia.com", "mig.nvidia.com")
    ),
]


def template(gpus=1, **spec):
    container = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": [container], **spec}}


def workload(version, kind, **fields):
    metadata = {"name": "big", "namespace": "team-a"}
    return accepted({"apiVersion": version, "kind": kind, "metadata": metadata, **fields})


def ray_cluster(first, second):
    return {"headGroupSpec": {"template": first}, "workerGroupSpecs": [{"template": second}]}


def workloads(first, second):
    """One of each kind, of one template or of two."""
    simple = {"spec": {"template": first}}
    return [
        workload("v1", "PodTemplate", template=first),
        workload("v1", "ReplicationController", **simple),
        *(workload("apps/v1", kind, **simple) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
        workload("batch/v1", "Job", **simple),
        workload("batch/v1", "CronJob", spec={"jobTemplate": {"spec": {"template": first}}}),
        workload(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            spec={"replicatedJobs": [{"template": {"spec": {"template": one}}} for one in (first, second)]},
        ),
        workload(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            spec={"leaderWorkerTemplate": {"leaderTemplate": first, "workerTemplate": second}},
        ),
        workload("ray.io/v1", "RayCluster", spec=ray_cluster(first, second)),
        workload("ray.io/v1", "RayJob", spec={"rayClusterSpec": ray_cluster(first, second)}),
        workload("ray.io/v1", "RayService", spec={"rayClusterConfig": ray_cluster(first, second)}),
        workload(
            "kubeflow.org/v1",
            "PyTorchJob",
            spec={"pytorchReplicaSpecs": {"Master": {"template": first}, "Worker": {"template": second}}},
        ),
        workload(
            "kubeflow.org/v2beta1",
            "MPIJob",
            spec={"mpiReplicaSpecs": {"Launcher": {"template": first}, "Worker": {"template": second}}},
        ),
    ]


KINDS = [document["kind"] for document in workloads({}, {})]


@pytest.fixture
def result(folder):
    """Admit one object, with what a cluster of DRA offers."""

    def result(document, settings=DEFAULTS):
        (folder / "file.json").write_text(json.dumps(document))
        reader = ManifestReader()
        (subject,) = SubjectReader(Circumstances(), reader.problems).subjects(reader.manifests(["file.json"]))
        return admit(subject, ManifestsView(CLUSTER, [document]), settings)

    return result


@pytest.mark.parametrize("index", range(len(KINDS)), ids=KINDS)
def test_pods_of_a_workload_are_converted_in_its_templates(result, index):
    document = workloads(template(), template(2))[index]
    admitted = result(document)
    count = len(pod_templates(document))
    assert (admitted.verdict, admitted.change) == ("admitted", "converted")
    assert len(admitted.templates) == count
    for found in pod_templates(admitted.after):
        resources = lookup(found.template, ("spec", "containers", 0, "resources"))
        assert resources == {"claims": [{"name": "gpu", "request": "train"}]}, str(found.path)
        assert found.template["metadata"].keys() == {"labels", "annotations"}
    assert jsonpatch.apply_patch(copy.deepcopy(admitted.before), list(admitted.patch)) == admitted.after


@pytest.mark.parametrize("index", range(len(KINDS)), ids=KINDS)
def test_finding_is_reported_at_the_template_s_place(result, index):
    document = workloads(template(), template(nodeSelector={"nvidia.com/gpu.count": "8"}))[index]
    places = [one.path for one in pod_templates(document) if "nodeSelector" in one.template["spec"]]
    admitted = result(document)
    assert [finding.path for finding in admitted.findings] == [
        (*path, "spec", "nodeSelector", "nvidia.com/gpu.count") for path in places
    ]
    assert admitted.is_refused is bool(places)


def test_deployment_is_shown_with_its_pods_as_admitted(invoke, cluster, write):
    document = workload("apps/v1", "Deployment", spec={"replicas": 2, "template": template()})
    done = invoke("review", "--cluster", cluster, write("deployment.yaml", document))
    assert done.exit_code == 0
    assert (
        done.stdout
        == """\
deployment.yaml:1  Deployment team-a/big  admitted, converted
--- Deployment team-a/big before admission
+++ Deployment team-a/big as admitted
@@ -9,14 +9,23 @@
     metadata:
       labels:
         app: train
+        gpu-admission.io/managed: "true"
+      annotations:
+        gpu-admission.io/converted: '{"containers":[{"name":"train","kind":"container","resources":{"nvidia.com/gpu":1}}]}'
     spec:
       containers:
       - name: train
         resources:
-          limits:
-            nvidia.com/gpu: 1
-          requests:
-            nvidia.com/gpu: 1
+          claims:
+          - name: gpu
+            request: train
+      resourceClaims:
+      - name: gpu
+        resourceClaimTemplateName: gpu-c6e64bdbb49dc79c
+      tolerations:
+      - key: nvidia.com/gpu
+        operator: Exists
+        effect: NoSchedule
   selector:
     matchLabels:
       app: train
refers to ResourceClaimTemplate team-a/gpu-c6e64bdbb49dc79c (-o yaml prints it in full)

1 object: 1 admitted (1 converted)
"""
    )


def test_refused_pods_are_reported_as_the_event_of_their_controller(invoke, cluster, write):
    document = workload("batch/v1", "Job", spec={"template": template("0.5")})
    done = invoke("review", "--cluster", cluster, write("job.yaml", document))
    assert done.exit_code == 1
    assert (
        done.stdout
        == """\
job.yaml:1  Job team-a/big  refused
FailedCreate  Error creating: admission webhook "convert-pods.gpu-admission.io" denied the request: \
Request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb: "0.5" is not a whole number of devices; \
spec.template.spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]
  GA302 deny  job.yaml:16:29  GPUs must be requested in whole numbers
                nvidia.com/gpu: '0.5'
                                ^

1 object: 1 refused
"""
    )


def test_each_template_that_is_refused_has_an_event(invoke, cluster, write):
    document = workloads(template("0.5"), template("0.25"))[KINDS.index("JobSet")]
    done = invoke("review", "--cluster", cluster, write("jobset.yaml", document))
    assert [line for line in done.stdout.splitlines() if line.startswith("FailedCreate")] == [
        'FailedCreate  Error creating: admission webhook "convert-pods.gpu-admission.io" denied the request: '
        f'Request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb: "{amount}" is not a whole number '
        f"of devices; spec.replicatedJobs[{index}].template.spec.template.spec.containers[0].resources.limits"
        "[nvidia.com/gpu] [GA302]"
        for index, amount in enumerate(("0.5", "0.25"))
    ]


def test_malformed_template_is_refused_as_the_workload_would_be(invoke, cluster, write):
    document = workload("batch/v1", "Job", spec={"template": {"spec": {"containers": 1}}})
    done = invoke("review", "--cluster", cluster, write("job.yaml", document))
    assert done.stdout.splitlines()[1] == (
        'The Job "big" is invalid: spec.template.spec.containers: Write containers as a list: it is a number [GA301]'
    )


def test_warning_names_the_template_s_place(reviewed, write):
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100"}
    document = workload("batch/v1", "Job", spec={"template": template(nodeSelector=selector)})
    (found,) = reviewed(write("job.yaml", document))
    assert found["warnings"] == [
        'Write "NVIDIA-H100-80GB-HBM3": no device matches product NVIDIA-H100; the cluster has NVIDIA-A100-SXM4-80GB on 1 node,',
        "  NVIDIA-H100-80GB-HBM3 on 2 nodes; spec.template.spec.nodeSelector[nvidia.com/gpu.product] [GA313]",
    ]


def test_preview_of_a_workload_says_what_would_be(reviewed, write):
    document = workload("batch/v1", "Job", spec={"template": template()})
    document["metadata"]["namespace"] = "team-preview"
    (found,) = reviewed(write("job.yaml", document))
    assert found["warnings"] == [
        "would be converted to ResourceClaimTemplate gpu-c6e64bdbb49dc79c: 1 x gpu.nvidia.com (train)"
    ]


def test_unknown_namespace_is_reported_once_and_at_the_workload(invoke, write):
    document = workloads(template(), template())[KINDS.index("JobSet")]
    done = invoke("review", "-o", "json", write("jobset.yaml", document))
    assert [finding["path"] for finding in json.loads(done.stdout)[0]["findings"]] == ["metadata.namespace"]


def test_template_without_metadata_gets_some(result):
    bare = {"spec": template()["spec"]}
    admitted = result(workload("batch/v1", "Job", spec={"template": bare}))
    assert admitted.patch[0] == {"op": "add", "path": "/spec/template/metadata", "value": {}}
    assert admitted.after["spec"]["template"]["metadata"].keys() == {"annotations", "labels"}
    assert jsonpatch.apply_patch(copy.deepcopy(admitted.before), list(admitted.patch)) == admitted.after


def test_template_without_metadata_and_without_marks_gets_none(result):
    document = workload("batch/v1", "Job", spec={"template": {"spec": template()["spec"]}})
    document["metadata"]["namespace"] = "team-legacy"
    admitted = result(document, GPUAdmissionPolicy(placement=Placement(tolerate_gpu_nodes="Always")))
    assert (admitted.verdict, admitted.change) == ("admitted", "changed")
    assert admitted.after["spec"]["template"].keys() == {"spec"}
    assert jsonpatch.apply_patch(copy.deepcopy(admitted.before), list(admitted.patch)) == admitted.after


def test_pod_of_a_job_that_kueue_queues_counts_as_controlled(reviewed, write):
    labelled = template()
    labelled["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "research"
    (found,) = reviewed(write("job.yaml", workload("batch/v1", "Job", spec={"template": labelled})))
    assert found["findings"] == []
    assert found["templates"]


def test_workload_of_a_kind_without_rules_is_not_reviewed(reviewed, write):
    document = workload("example.com/v1", "Job", spec={"template": template("0.5")})
    (found,) = reviewed(write("job.yaml", document))
    assert (found["verdict"], found["patch"]) == ("not reviewed", [])


def test_admitted_workload_is_written_with_its_templates(invoke, cluster, write):
    document = workloads(template(), template(2))[KINDS.index("RayCluster")]
    done = invoke("review", "--cluster", cluster, "-o", "yaml", write("ray.yaml", document))
    again = invoke("review", "--cluster", cluster, "-o", "yaml", write("again.yaml", done.stdout))
    assert done.stdout.count("kind: ResourceClaimTemplate\n") == 2
    assert again.stdout == done.stdout


def test_workload_that_is_to_be_named_gives_its_pods_a_name_to_begin_with(result):
    document = workload("batch/v1", "Job", spec={"template": template()})
    document["metadata"] = {"generateName": "train-", "namespace": "team-a"}
    assert result(document).subject.label == "Job team-a/train-*"


def test_update_reviews_templates_that_did_not_change_too(reviewed, write):
    document = workload("apps/v1", "Deployment", spec={"replicas": 2, "template": template("0.5")})
    before = {**document, "spec": {**document["spec"], "replicas": 1}}
    old = write("old.yaml", before)
    (found,) = reviewed("--operation", "UPDATE", "--old", old, write("deployment.yaml", document))
    assert (found["verdict"], [finding["severity"] for finding in found["findings"]]) == ("refused", ["deny"])


def test_workload_of_a_controller_is_reviewed_like_any_other(reviewed, write):
    document = workload("apps/v1", "ReplicaSet", spec={"template": template("0.5")})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "big", "controller": True}
    document["metadata"]["ownerReferences"] = [owner]
    (found,) = reviewed(write("replicaset.yaml", document))
    assert found["verdict"] == "refused"


def test_malformed_template_that_is_only_warned_about_stays_as_it_is(invoke, cluster, write):
    settings = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec: {rules: [{rule: GA301, severity: warn}]}
"""
    document = workload("batch/v1", "Job", spec={"template": {"metadata": [], "spec": {"containers": 1}}})
    file = write("job.yaml", document)
    done = invoke("review", "--cluster", cluster, "--settings", write("settings.yaml", settings), file)
    assert done.exit_code == 0
    assert done.stdout.startswith(
        "job.yaml:1  Job team-a/big  admitted\nWarning: Write metadata as a mapping: it is a list; "
        "spec.template.metadata [GA301]\n"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TEMPLATES = (
    st.fixed_dictionaries(
        {},
        optional={
            "metadata": st.fixed_dictionaries({}, optional={"labels": JSON, "annotations": JSON}) | JSON,
            "spec": st.fixed_dictionaries(
                {"containers": st.lists(st.just({"name": "a"}) | JSON)}, optional={"tolerations": JSON}
            )
            | JSON,
        },
    )
    | JSON
)


@given(index=st.integers(0, len(KINDS)), first=TEMPLATES, second=TEMPLATES, metadata=JSON)
def test_any_json_in_place_of_a_template_has_a_report(tmp_path_factory, index, first, second, metadata):
    pods = [{"apiVersion": "v1", "kind": "Pod", **(first if isinstance(first, dict) else {"spec": first})}]
    document = [*workloads(first, second), *pods][index]
    if metadata:
        document["metadata"] = metadata
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps(document))
    reader = ManifestReader()
    subjects = SubjectReader(Circumstances(), reader.problems).subjects(reader.manifests([str(file)]))
    results = [admit(subject, ManifestsView(CLUSTER, [document]), DEFAULTS) for subject in subjects]
    assert len(results) == 1
    review = Review(tuple(ReviewedObject(result, tuple(findings_of(result))) for result in results), (), ())
    printed = {name: standard_output(name, review) for name in FORMATS}
    assert json.loads(printed["json"])[0]["verdict"] == results[0].verdict
    assert json.loads(printed["sarif"])["version"] == "2.1.0"
    assert bool(printed.pop("yaml")) is bool(printed.pop("patch")) is not results[0].is_refused
    assert all(printed.values())


def standard_output(output, review):
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()):
        print_review(review, output, TextOptions())
    return printed.getvalue()
