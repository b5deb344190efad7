"""Workloads of other projects: early warnings, and a warning if their pods cannot be found."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import review
from policies.admission.workload_templates import templates_of, unread_pods
from policies.kubernetes.workloads import WORKLOADS, group_of
from policies.outcome import questions
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, AddedKind, GPUAdmissionPolicy, Workloads
from webhook.cli import main
from webhook.cluster.manifests import ManifestsView

HALF = {"limits": {"nvidia.com/gpu": "0.5"}}
REFUSED = '[nvidia.com/gpu]: its pods would be refused: "0.5" is not a whole number of devices'
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch"},
    "spec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [{"name": "node"}]}}}}}
                ]
            }
        }
    },
}
QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "all", "gpus": 4}]},
}
VIEW = ManifestsView(
    [
        {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"gpu-admission.io/dra": "enabled"}}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}},
        RUNTIME,
        QUOTA,
    ]
)
ADDED = GPUAdmissionPolicy(
    workloads=Workloads(
        (AddedKind("example.com", "TrainingRun", ("spec.workers[*].template",), ("spec.workers[*].size",)),)
    )
)


def pods(resources):
    return {"containers": [{"name": "train", "image": "train", "resources": resources}]}


def workload(version, kind, **spec):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "train", "namespace": "team-a"}, "spec": spec}


def workloads(resources):
    """One of each kind with these resources, and where it has them."""
    template = {"spec": pods(resources)}
    return [
        (workload("argoproj.io/v1alpha1", "Rollout", template=template), "spec.template.spec.containers[0].resources"),
        (
            workload(
                "batch.volcano.sh/v1alpha1", "Job", tasks=[{"template": template}], schedulerName="default-scheduler"
            ),
            "spec.tasks[0].template.spec.containers[0].resources",
        ),
        (
            workload(
                "grove.io/v1alpha1",
                "PodCliqueSet",
                template={"cliques": [{"name": "a", "spec": {"podSpec": pods(resources)}}]},
            ),
            "spec.template.cliques[0].spec.podSpec.containers[0].resources",
        ),
        (
            workload("serving.kserve.io/v1beta1", "InferenceService", predictor={"model": {"resources": resources}}),
            "spec.predictor.model.resources",
        ),
        (
            workload("sparkoperator.k8s.io/v1beta2", "SparkApplication", executor={"template": template}),
            "spec.executor.template.spec.containers[0].resources",
        ),
        (
            workload(
                "trainer.kubeflow.org/v1alpha1",
                "TrainJob",
                runtimeRef={"name": "torch"},
                trainer={"resourcesPerNode": resources},
            ),
            "spec.trainer.resourcesPerNode",
        ),
    ]


def asked(document, settings=DEFAULTS, entry="workloads"):
    names = {"group": group_of(document), "kind": document["kind"], "name": "train", "namespace": "team-a"}
    return review(Request(document, operation="CREATE", entry=entry, **names), VIEW, settings)


@pytest.mark.parametrize("index", range(6))
@pytest.mark.parametrize("entry", ["workloads", ""], ids=["live", "offline"])
def test_author_of_a_workload_is_warned_at_the_field_that_is_wrong(index, entry):
    document, place = workloads(HALF)[index]
    decision = asked(document, entry=entry)
    assert decision.allowed
    assert [f"{finding.path}: {finding.message}" for finding in decision.findings if finding.rule.id == "GA302"] == [
        f"{place}.limits{REFUSED}"
    ]


@pytest.mark.parametrize("index", range(6))
def test_workload_is_explained_by_its_pods(index):
    document, _ = workloads({"limits": {"nvidia.com/gpu": 1}})[index]
    (question,) = questions(document, "team-a", VIEW, DEFAULTS)
    assert question.label == f"{document['kind']} team-a/train"


def training_run(size):
    template = {"spec": pods({"limits": {"nvidia.com/gpu": 1}})}
    return workload("example.com/v1", "TrainingRun", workers=[{"size": size, "template": template}])


def test_kind_of_the_settings_is_reviewed_early():
    document = workload("example.com/v1", "TrainingRun", workers=[{"template": {"spec": pods(HALF)}}])
    assert [finding.rule.id for finding in asked(document, entry="").findings] == ["GA705"]
    (finding,) = asked(document, ADDED, entry="").findings
    assert str(finding.path) == "spec.workers[0].template.spec.containers[0].resources.limits[nvidia.com/gpu]"


def test_kind_of_the_settings_is_explained():
    assert questions(training_run(1), "team-a", VIEW, DEFAULTS) == ()
    assert len(questions(training_run(1), "team-a", VIEW, ADDED)) == 1


def test_kind_of_the_settings_is_added_up_for_its_quota():
    assert not any(finding.rule.id == "GA506" for finding in asked(training_run(4), ADDED).findings)
    (finding,) = (finding for finding in asked(training_run(5), ADDED).findings if finding.rule.id == "GA506")
    assert str(finding.path) == "spec.workers[0].size"


UNREAD = {
    "spark": (
        workload("sparkoperator.k8s.io/v1beta2", "SparkApplication", executor={"gpu": {"name": "nvidia.com/gpu"}}),
        "spec.executor.gpu: not reviewed: Spark writes it into the pods, which are reviewed when they are created",
    ),
    "runtime": (
        workload(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            runtimeRef={"name": "other"},
            trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}},
        ),
        ("spec.runtimeRef: not reviewed: its pods are made from ClusterTrainingRuntime other, which is not known here"),
    ),
}


@pytest.mark.parametrize(("document", "said"), UNREAD.values(), ids=UNREAD)
def test_warning_says_which_gpus_are_not_reviewed(document, said):
    assert " ".join(line.strip() for line in asked(document).warnings) == said


def test_workload_that_mentions_no_gpus_is_not_spoken_of():
    model = {"modelFormat": {"name": "sklearn"}}
    document = workload("serving.kserve.io/v1beta1", "InferenceService", predictor={"model": model})
    assert asked(document).warnings == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def replaced(value, draw):
    """The value with any JSON in place of one of its parts."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: replaced(value[key], draw)}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [replaced(value[0], draw), *value[1:]]
    return draw(JSON)


@given(index=st.integers(0, 5), data=st.data())
def test_any_json_in_place_of_any_part_is_no_error(index, data):
    document, _ = workloads(HALF)[index]
    odd = {**document, "spec": replaced(document["spec"], data.draw)}
    assert asked(odd).allowed
    for found in templates_of(odd, VIEW, DEFAULTS):
        assert isinstance(found.template, dict)
        assert found.count is None or found.count.pods >= 0
    assert all(each.reason for each in unread_pods(odd, VIEW, DEFAULTS))


@given(kind=st.sampled_from(sorted(WORKLOADS)), spec=JSON)
def test_any_json_as_the_spec_of_any_kind_is_no_error(kind, spec):
    group, name = kind
    document = {"apiVersion": f"{group}/v1" if group else "v1", "kind": name, "metadata": {}, "spec": spec}
    assert asked(document).allowed


@given(data=st.data())
def test_any_json_in_place_of_any_part_of_a_runtime_is_no_error(data):
    runtime = {**RUNTIME, "spec": replaced(RUNTIME["spec"], data.draw)}
    view = ManifestsView([runtime])
    for found in templates_of(workloads(HALF)[5][0], view, DEFAULTS):
        assert isinstance(found.template, dict)
        assert found.count.pods >= 0


def test_service_whose_template_is_composed_is_shown_as_converted(tmp_path):
    service, _ = workloads({"limits": {"nvidia.com/gpu": 1}})[3]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": VIEW.get("Namespace", "team-a")["metadata"]}
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [service, namespace]}))
    done = CliRunner().invoke(main, ["review", str(file)])
    assert "InferenceService team-a/train  admitted, converted\n" in done.stdout
