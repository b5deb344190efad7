"""Warnings for the author of a workload about its pods."""

from __future__ import annotations

import copy
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import review
from policies.admission.workloads import MOST_TEMPLATES
from policies.admission.workloads import workloads as entry
from policies.kubernetes.workloads import group_of, pod_templates
from policies.rules.decision import Decision, Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, RuleOverride
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

MODES = {"team-a": "enabled", "team-preview": "preview", "team-legacy": "disabled", "kube-system": "enabled"}
VIEW = ManifestsView(
    [
        *(
            {"kind": "Namespace", "metadata": {"name": name, "labels": {"gpu-admission.io/dra": mode}}}
            for name, mode in MODES.items()
        ),
        *(
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
            for name in ("gpu.nvidia.com", "mig.nvidia.com")
        ),
    ]
)
REVIEW = partial(review, view=VIEW, settings=DEFAULTS)
COUNTED = {"nvidia.com/gpu.count": "8"}
"""A node selector that conversion cannot say of devices."""
LEFT_ALONE = "is not in conversion.schedulers, so the pod is not converted"


def template(gpus=1, labels=None, annotations=None, **spec):
    metadata = {"labels": {"app": "train", **(labels or {})}, "annotations": annotations or {}}
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    return {"metadata": metadata, "spec": {"containers": [{"name": "train", "resources": resources}], **spec}}


def workload(version, kind, **spec):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "big", "namespace": "team-a"}, "spec": spec}


def deployment(pod_template, **metadata):
    document = workload("apps/v1", "Deployment", replicas=3, template=pod_template)
    return {**document, "metadata": {**document["metadata"], **metadata}}


def jobset(*templates):
    jobs = [{"template": {"spec": {"template": one}}} for one in templates]
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=jobs)


def ray_cluster(first, second):
    return {"headGroupSpec": {"template": first}, "workerGroupSpecs": [{"template": second}]}


def workloads(first, second):
    """One of each kind, of one template or of two."""
    return [
        *(workload("apps/v1", kind, template=second) for kind in ("Deployment", "StatefulSet", "DaemonSet")),
        workload("apps/v1", "ReplicaSet", template=second),
        workload("batch/v1", "Job", template=second),
        workload("batch/v1", "CronJob", jobTemplate={"spec": {"template": second}}),
        jobset(first, second),
        workload("ray.io/v1", "RayJob", rayClusterSpec=ray_cluster(first, second)),
        workload(
            "kubeflow.org/v1",
            "PyTorchJob",
            pytorchReplicaSpecs={"Master": {"template": first}, "Worker": {"template": second}},
        ),
        workload(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            leaderWorkerTemplate={"leaderTemplate": first, "workerTemplate": second},
        ),
    ]


PLACES = {
    "Deployment": "spec.template",
    "StatefulSet": "spec.template",
    "DaemonSet": "spec.template",
    "ReplicaSet": "spec.template",
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
    "JobSet": "spec.replicatedJobs[1].template.spec.template",
    "RayJob": "spec.rayClusterSpec.workerGroupSpecs[0].template",
    "PyTorchJob": "spec.pytorchReplicaSpecs.Worker.template",
    "LeaderWorkerSet": "spec.leaderWorkerTemplate.workerTemplate",
}


def asked(document, old=None, namespace="team-a", **request):
    operation = "CREATE" if old is None else "UPDATE"
    names = {"group": group_of(document), "kind": document["kind"], "name": "big"}
    return Request(document, old, **{"operation": operation, "namespace": namespace, **names, **request})


def early_words(request, view, settings, review):
    return entry(request, view, settings, lambda pod, *_: review(pod))


def words(document, old=None, **request):
    """The lines that its author sees; whatever they are, the workload passes as it is."""
    decision = early_words(asked(document, old, **request), VIEW, DEFAULTS, REVIEW)
    assert decision.allowed
    assert (decision.object, decision.patch, decision.templates) == (document, (), ())
    return decision.warnings


@pytest.mark.parametrize("document", workloads(template(), template("0.5")), ids=lambda document: document["kind"])
def test_pods_that_would_be_refused_are_reported_at_their_template(document):
    (finding,) = early_words(asked(document), VIEW, DEFAULTS, REVIEW).findings
    assert (finding.rule.id, finding.severity) == ("GA302", Severity.WARN)
    assert str(finding.path) == f"{PLACES[document['kind']]}.spec.containers[0].resources.limits[nvidia.com/gpu]"
    assert finding.message == 'its pods would be refused: "0.5" is not a whole number of devices'


@pytest.mark.parametrize("document", workloads(template(), template(2)), ids=lambda document: document["kind"])
def test_pods_that_would_be_converted_are_not_worth_a_word(document):
    assert words(document) == ()


def test_refusal_of_pods_is_a_warning_word_for_word():
    assert words(deployment(template("0.5"))) == (
        'Request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb: its pods would be refused: "0.5" is not',
        "  a whole number of devices; spec.template.spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]",
    )


def test_warning_of_pods_is_reported_as_it_is():
    (finding,) = early_words(asked(deployment(template(schedulerName="volcano"))), VIEW, DEFAULTS, REVIEW).findings
    assert finding.severity is Severity.WARN
    assert plain_text(finding).startswith(f'spec.template.spec.schedulerName: "volcano" {LEFT_ALONE}; ')


def test_settings_judge_the_pods_and_decide_what_is_reported():
    rules = (
        RuleOverride(rule="GA302", severity=Severity.WARN, namespaces=("team-a",)),
        RuleOverride(rule="GA307", severity=Severity.AUDIT),
    )
    reported = partial(review, view=VIEW, settings=GPUAdmissionPolicy(rules=rules))
    (warned,) = early_words(asked(deployment(template("0.5"))), VIEW, DEFAULTS, reported).findings
    audited = early_words(asked(deployment(template(nodeSelector=COUNTED))), VIEW, DEFAULTS, reported)
    assert warned.message == '"0.5" is not a whole number of devices, so the pod is not converted'
    assert [(finding.rule.id, finding.severity) for finding in audited.findings] == [("GA307", Severity.AUDIT)]
    assert audited.warnings == ()


def test_preview_says_what_would_become_of_the_pods():
    assert words(deployment(template()), namespace="team-preview") == (
        "would be converted to ResourceClaimTemplate gpu-c6e64bdbb49dc79c: 1 x gpu.nvidia.com (train)",
    )


def test_preview_of_pods_that_conversion_would_refuse_says_so():
    (finding,) = early_words(
        asked(deployment(template("0.5")), namespace="team-preview"), VIEW, DEFAULTS, REVIEW
    ).findings
    assert finding.message == 'the pod would be refused: "0.5" is not a whole number of devices'


def test_preview_of_equal_templates_says_it_once():
    assert len(words(jobset(template(), template()), namespace="team-preview")) == 1


@pytest.mark.parametrize("namespace", ["team-legacy", "unknown", "kube-system"])
def test_namespace_that_does_not_convert_has_no_word_about_conversion(namespace):
    assert words(deployment(template(schedulerName="volcano")), namespace=namespace) == ()


def test_amount_that_the_api_server_refuses_is_reported_where_nothing_converts():
    (finding,) = early_words(
        asked(deployment(template("0.5")), namespace="team-legacy"), VIEW, DEFAULTS, REVIEW
    ).findings
    assert finding.message == 'its pods would be refused: "0.5" is not a whole number of devices'


def test_cluster_of_which_nothing_is_known_has_no_word_about_it():
    nothing = partial(review, view=ManifestsView(), settings=DEFAULTS)
    assert early_words(asked(deployment(template())), VIEW, DEFAULTS, nothing).findings == ()


def test_wish_that_can_never_be_granted_is_reported_of():
    document = deployment(template(annotations={"gpu-admission.io/min-memory": "lots"}))
    (finding,) = early_words(asked(document, namespace="team-legacy"), VIEW, DEFAULTS, REVIEW).findings
    assert (finding.rule.id, finding.severity) == ("GA401", Severity.WARN)
    assert str(finding.path) == "spec.template.metadata.annotations[gpu-admission.io/min-memory]"
    assert finding.message.startswith("its pods would be refused: ")


def test_gpus_taken_behind_the_scheduler_s_back_are_reported_of():
    (finding,) = early_words(
        asked(deployment(template(gpus=0, runtimeClassName="nvidia"))), VIEW, DEFAULTS, REVIEW
    ).findings
    assert (finding.rule.id[:3], finding.severity) == ("GA6", Severity.WARN)
    assert str(finding.path) == "spec.template.spec.runtimeClassName"


def test_pods_without_gpus_are_not_worth_a_word():
    assert words(deployment(template(gpus=0))) == ()


def test_unchanged_template_is_not_reported_again():
    assert words(deployment(template("0.5")), deployment(template("0.5"))) == ()


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(template(), id="resources"),
        pytest.param(template("0.5", nodeSelector={"zone": "a"}), id="spec"),
        pytest.param(template("0.5", labels={"kueue.x-k8s.io/queue-name": "a"}), id="labels"),
        pytest.param(template("0.5", annotations={"gpu-admission.io/product": "H100*"}), id="annotations"),
        pytest.param(template("0.5", annotations={"kubectl.kubernetes.io/restartedAt": "now"}), id="restarted"),
    ],
)
def test_changed_template_is_reported_of(before):
    assert words(deployment(template("0.5")), deployment(before)) == words(deployment(template("0.5")))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda one: one["spec"].update(replicas=9), id="replicas"),
        pytest.param(lambda one: one["metadata"].update(labels={"team": "a"}), id="labels of the workload"),
        pytest.param(lambda one: one["spec"]["template"]["metadata"].update(creationTimestamp=None), id="null"),
        pytest.param(
            lambda one: one["spec"]["template"]["spec"]["containers"][0]["resources"].update(
                requests={"nvidia.com/gpu": "0.5"}
            ),
            id="what is filled in anyway",
        ),
    ],
)
def test_change_that_makes_no_other_pods_is_not_reported_of(change):
    changed = copy.deepcopy(deployment(template("0.5")))
    change(changed)
    assert words(changed, deployment(template("0.5"))) == ()


def test_only_the_templates_that_changed_are_reported_of():
    before = jobset(template("0.5"), template())
    (finding,) = early_words(asked(jobset(template("0.5"), template("0.25")), before), VIEW, DEFAULTS, REVIEW).findings
    assert str(finding.path).startswith("spec.replicatedJobs[1].")


def test_template_that_moved_is_not_reported_again():
    before = jobset(template("0.5"), template())
    assert words(jobset(template(), template(2), template("0.5")), before) == ()


@pytest.mark.parametrize("old", [{}, {"kind": 1}, {"apiVersion": "apps/v1", "kind": "Deployment", "spec": []}])
def test_old_object_without_templates_makes_all_new(old):
    assert words(deployment(template("0.5")), old) == words(deployment(template("0.5")))


@pytest.mark.parametrize("subresource", ["scale", "status"])
def test_subresource_is_not_asked_about(subresource):
    assert words(deployment(template("0.5")), deployment(template()), subresource=subresource) == ()


def test_deletion_is_not_asked_about():
    document = deployment(template("0.5"))
    request = Request(None, document, operation="DELETE", group="apps", kind="Deployment", namespace="team-a")
    assert early_words(request, VIEW, DEFAULTS, REVIEW) == Decision()


def test_workload_on_its_way_out_is_not_reported_of():
    assert words(deployment(template("0.5"), deletionTimestamp="2025-11-21T22:00:00Z"), deployment(template())) == ()


def test_workload_of_a_controller_is_reported_at_the_controller_s_own():
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "big", "controller": True}
    assert words(deployment(template("0.5"), ownerReferences=[owner])) == ()


@pytest.mark.parametrize("owners", [None, [], "text", [1], [{"kind": "Team"}], [{"kind": "Team", "controller": False}]])
def test_workload_that_no_controller_owns_is_reported_of(owners):
    assert words(deployment(template("0.5"), ownerReferences=owners)) == words(deployment(template("0.5")))


def test_object_without_pod_templates_is_not_reported_of():
    assert words({"apiVersion": "v1", "kind": "ConfigMap", "data": {}}) == ()


def test_malformed_template_is_reported_as_its_pods_would_be_refused():
    assert words(deployment({"spec": {"containers": 1}})) == (
        "Write containers as a list: its pods would be refused: containers is a number; spec.template.spec.containers [GA301]",
    )


def test_equal_templates_are_reviewed_once_and_reported_for_each():
    questions = []

    def counted(request):
        questions.append(request)
        return REVIEW(request)

    decision = early_words(asked(jobset(template("0.5"), template("0.5"), template())), VIEW, DEFAULTS, counted)
    assert [finding.path[:3] for finding in decision.findings] == [("spec", "replicatedJobs", n) for n in (0, 1)]
    assert len(questions) == 2


def test_pods_are_reviewed_as_their_controller_would_create_them():
    questions = []

    def kept(request):
        questions.append(request)
        return Decision(object=request.object)

    early_words(asked(deployment(template())), VIEW, DEFAULTS, kept)
    (question,) = questions
    assert (question.operation, question.kind, question.namespace, question.entry) == ("CREATE", "Pod", "team-a", "")
    assert question.object["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    assert question.object["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": 1}


def test_only_the_first_of_many_templates_are_reviewed():
    many = [template(labels={"number": str(number)}) for number in range(MOST_TEMPLATES)]
    assert words(jobset(*many, template("0.5"))) == (
        f"only the first {MOST_TEMPLATES} of {MOST_TEMPLATES + 1} pod templates were reviewed",
    )


def test_unchanged_templates_do_not_count():
    many = [template(labels={"number": str(number)}) for number in range(MOST_TEMPLATES)]
    assert words(jobset(*many, template("0.5")), jobset(*many)) != ()
    assert not any("only the first" in line for line in words(jobset(*many, template("0.5")), jobset(*many)))


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
                {"containers": st.lists(st.just(template()["spec"]["containers"][0]) | JSON, max_size=2)},
                optional={"tolerations": JSON, "affinity": JSON, "nodeSelector": JSON},
            )
            | JSON,
        },
    )
    | JSON
)


@given(
    index=st.integers(0, len(PLACES) - 1),
    first=TEMPLATES,
    second=TEMPLATES,
    metadata=st.fixed_dictionaries({}, optional={"name": JSON, "ownerReferences": JSON}) | JSON,
    old=st.none() | st.dictionaries(st.text(max_size=5), JSON, max_size=2),
)
def test_any_json_in_place_of_any_part_only_warns(index, first, second, metadata, old):
    document = {**workloads(first, second)[index], "metadata": metadata}
    decision = early_words(asked(document, old), VIEW, DEFAULTS, REVIEW)
    assert decision.allowed
    assert decision.object is document
    homes = [each.path for each in pod_templates(document)]
    assert all(
        finding.path == ("metadata", "namespace") or any(finding.path[: len(home)] == home for home in homes)
        for finding in decision.findings
    )
