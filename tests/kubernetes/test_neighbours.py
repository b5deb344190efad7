"""The table of neighbours: each row changes an answer where it should, and nothing where it should not.

`python tests/kubernetes/test_neighbours.py` writes the rows of docs/neighbours.md anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.admission import common_part, review
from policies.admission.objects import review_object
from policies.admission.workload_templates import templates_of
from policies.analyses.audit import Survey, audit
from policies.kubernetes.neighbours import KEYS_READ, NEIGHBOURS
from policies.kubernetes.workloads import group_of
from policies.outcome import questions
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, parse_settings
from tests.accepted_workloads import accepted
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

PAGE = Path(__file__).parents[2] / "docs" / "neighbours.md"
NAMESPACE = {"kind": "Namespace", "metadata": {"name": "team", "labels": {"gpu-admission.io/dra": "enabled"}}}
CLASSES = [
    {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
    for name in ("gpu.nvidia.com", "mig.nvidia.com")
]
VIEW = ManifestsView([NAMESPACE, *CLASSES])
QUEUED = {"kueue.x-k8s.io/queue-name": "research"}


def template(limits=None, metadata=None, **spec):
    container = {"name": "train", "resources": {"limits": limits or {"nvidia.com/gpu": 1}}}
    return {"metadata": metadata or {"labels": {"app": "train"}}, "spec": {"containers": [container], **spec}}


def workload(version, kind, labels, **spec):
    metadata = {"name": "big", "namespace": "team", "labels": labels}
    return accepted({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})


def reviewed(document, view=VIEW):
    request = Request(document, group=group_of(document), kind=document["kind"], namespace="team", name="big")
    return review_object(request, view, DEFAULTS)


def rules(document, view=VIEW):
    return [finding.rule.id for finding in reviewed(document, view).findings]


def row(neighbour):
    schedules = {
        None: "no scheduler",
        (True, True): "allocates claims, and makes them for DeviceClasses",
        (True, False): "allocates claims, makes none for DeviceClasses",
    }
    ability = (neighbour.allocates_claims, neighbour.makes_claims) if neighbour.schedulers else None
    names = ", ".join(f"`{name}`: " for name in neighbour.schedulers)
    return f"| {neighbour.name} {neighbour.version} | {neighbour.effect} | {neighbour.answer} | {names}{schedules[ability]} |"


@pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=lambda each: each.name)
def test_page_has_the_row_of_each_neighbour(neighbour):
    assert row(neighbour) in PAGE.read_text().splitlines()


def test_page_has_no_other_rows():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(NEIGHBOURS)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_queue_of_a_workload_is_that_of_its_pods(kind):
    document = workload("apps/v1", kind, QUEUED, template=template())
    (finding,) = reviewed(document).findings
    assert (finding.rule.id, str(finding.path)) == ("GA316", "metadata.labels[kueue.x-k8s.io/queue-name]")
    assert reviewed(document).change == ""
    assert "Job" not in finding.remedy


@pytest.mark.parametrize(
    "document",
    [
        workload(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            QUEUED,
            leaderWorkerTemplate={"workerTemplate": template()},
        ),
        workload(
            "serving.kserve.io/v1beta1", "InferenceService", QUEUED, predictor={**template()["spec"], "minReplicas": 1}
        ),
    ],
    ids=lambda each: each["kind"],
)
def test_queue_reaches_pods_of_other_kinds(document):
    assert rules(document) == ["GA316"]


def explained(document, view=VIEW):
    return [finding.rule.id for each in questions(document, "team", view, DEFAULTS) for finding in each.warnings]


def audited(document):
    survey = Survey(VIEW, DEFAULTS)
    survey.add([document])
    (row,) = audit(VIEW, DEFAULTS, survey).readiness
    return row.converts, [each.rule.id for each in row.obstacles]


PARTS = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        (workload("apps/v1", "Deployment", QUEUED, template=template()), "GA316"),
        (workload("apps/v1", "Deployment", {}, template=template(PARTS)), "GA337"),
    ],
    ids=["queued by Kueue", "parts of GPUs of HAMi"],
)
def test_explain_and_audit_say_why_pods_are_left(document, rule):
    assert explained(document) == [rule]
    assert audited(document) == (0, [rule])


def test_explain_and_audit_say_nothing_of_a_queued_job():
    job = workload("batch/v1", "Job", QUEUED, template=template())
    assert explained(job) == []
    # The nodes of this cluster are unknown, and so is what the Job keeps.
    assert audited(job) == (0, ["migration-unknown"])


def test_explain_says_nothing_of_conversion_where_it_is_only_previewed():
    namespace = {**NAMESPACE, "metadata": {"name": "team", "labels": {"gpu-admission.io/dra": "preview"}}}
    document = workload("apps/v1", "Deployment", QUEUED, template=template())
    assert explained(document, ManifestsView([namespace, *CLASSES])) == []


@pytest.mark.parametrize("kind", ["Job", "DaemonSet"])
def test_queue_of_an_object_that_kueue_counts_or_does_not_know_stays_there(kind):
    version = "batch/v1" if kind == "Job" else "apps/v1"
    answer = reviewed(workload(version, kind, QUEUED, template=template()))
    assert (answer.findings, answer.change) == ((), "converted")


@pytest.mark.parametrize("queue", ["", None, 7])
def test_queue_without_a_name_is_not_copied(queue):
    document = workload("apps/v1", "Deployment", {"kueue.x-k8s.io/queue-name": queue}, template=template())
    (found,) = templates_of(document, VIEW, DEFAULTS)
    assert found.template == template()


def test_queue_of_the_template_gives_way_to_that_of_the_workload():
    own = {"labels": {"kueue.x-k8s.io/queue-name": "other", "app": "a"}, "annotations": {"b": "c"}}
    document = workload("apps/v1", "Deployment", QUEUED, template=template(metadata=own))
    (found,) = templates_of(document, VIEW, DEFAULTS)
    assert found.template["metadata"] == {"labels": {**QUEUED, "app": "a"}, "annotations": {"b": "c"}}


@pytest.mark.parametrize("metadata", ["text", ["a"], {"labels": "text"}], ids=str)
def test_template_with_malformed_metadata_stays(metadata):
    document = workload("apps/v1", "Deployment", QUEUED, template={**template(), "metadata": metadata})
    (found,) = templates_of(document, VIEW, DEFAULTS)
    assert found.template["metadata"] == metadata


def test_template_that_has_the_queue_can_be_written_back():
    document = workload("apps/v1", "Deployment", QUEUED, template=template(metadata={"labels": QUEUED}))
    (found,) = templates_of(document, VIEW, DEFAULTS)
    assert not found.is_composed


def test_kai_makes_no_claim_for_a_class_even_if_it_is_listed():
    spec = {"conversion": {"schedulers": ["default-scheduler", "kai-scheduler", "volcano"]}}
    policy = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    settings = parse_settings({**policy, "spec": spec})
    fast = {"kind": "DeviceClass", "metadata": {"name": "fast"}, "spec": {"extendedResourceName": "acme.com/gpu"}}
    view = ManifestsView([NAMESPACE, {"apiVersion": "resource.k8s.io/v1", **fast}])

    def found(scheduler):
        pod = template({"acme.com/gpu": 1}, schedulerName=scheduler)
        pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "namespace": "team"},
            "spec": pod["spec"],
        }
        return [plain_text(each) for each in review(Request(document, namespace="team"), view, settings).findings]

    assert any("KAI Scheduler makes no claims" in text for text in found("kai-scheduler"))
    assert not any("makes no claims" in text for text in found("volcano"))


@pytest.mark.parametrize("key", KEYS_READ)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_rules_see_the_keys_that_neighbours_read(field, key):
    read = {f"{key}queue-name" if key.endswith("/") else key: "x"}
    document = {"metadata": {field: {**read, "example.com/x": "x"}}, "spec": {}}
    assert common_part(document)["metadata"][field] == read


if __name__ == "__main__":
    lines = PAGE.read_text().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("|---")) + 1
    end = next(place for place in range(first, len(lines)) if not lines[place].startswith("| "))
    PAGE.write_text("\n".join([*lines[:first], *map(row, NEIGHBOURS), *lines[end:]]) + "\n")
