"""Three verdicts: an object that no rule looked at is never reported as admitted."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from webhook.cli import main

GPU = {"limits": {"nvidia.com/gpu": 1}}
GPU_POD = {"containers": [{"name": "a", "image": "b", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
TOLERANT_POD = {"containers": [{"name": "a"}], "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
WEB_POD = {"containers": [{"name": "web", "image": "nginx"}]}
NO_RULES = "gpu-admission has no rules for this kind"


def an_object(version, kind, namespace="team-a", **fields):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": namespace}, **fields}


@pytest.fixture
def review(tmp_path):
    """Review objects: the exit code, and what is printed."""

    def review(*objects, settings=None, output="json", arguments=()):
        file = tmp_path / "all.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        if settings is not None:
            policy = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "spec": settings}
            (tmp_path / "settings.json").write_text(json.dumps({**policy, "metadata": {"name": "default"}}))
            arguments = ("--settings", str(tmp_path / "settings.json"), *arguments)
        done = CliRunner().invoke(main, ["review", "-o", output, *arguments, str(file)])
        return done.exit_code, json.loads(done.stdout) if output == "json" else done.stdout

    return review


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (an_object("v1", "pod", spec=GPU_POD), NO_RULES),
        (an_object("example.com/v1", "Training", spec={"template": {"spec": GPU_POD}}), NO_RULES),
        (an_object("v1", "Pod", "kube-system", spec=GPU_POD), 'no webhook is called for namespace "kube-system"'),
        (
            an_object("apps/v1", "Deployment", "kube-system", spec={"template": {"spec": GPU_POD}}),
            'no webhook is called for namespace "kube-system"',
        ),
        (
            an_object("v1", "ConfigMap", "kube-system", data={"a": "b"}),
            'no webhook is called for namespace "kube-system"',
        ),
        (an_object("v1", "ConfigMap", data={"a": "b"}), "it is not recognised as GPU configuration"),
        (an_object("apps/v1", "Deployment", spec={}), "there is no pod template at spec.template"),
    ],
    ids=["kind of no API", "unknown kind", "pod", "workload", "ConfigMap of kube-system", "ConfigMap", "no template"],
)
def test_object_that_no_rule_looks_at_is_not_reviewed(review, document, reason):
    _, (result,) = review(document)
    assert (result["verdict"], result["notReviewed"], "allowed" in result) == ("not reviewed", reason, False)


def test_object_that_rules_look_at_is_admitted(review):
    code, results = review(an_object("v1", "Pod", spec=WEB_POD), an_object("v1", "Node", ""))
    assert (code, [(each["verdict"], each["notReviewed"]) for each in results]) == (0, [("admitted", "")] * 2)


def test_refusal_wins(review):
    half = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "0.5"}}}]}
    labels = {"gpu-admission.io/dra": "enabled"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}
    code, results = review(an_object("v1", "Pod", spec=half), namespace, an_object("x.io/v1", "Train", spec=half))
    assert code == 1
    assert [each["verdict"] for each in results] == ["refused", "admitted", "not reviewed"]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (an_object("v1", "pod", spec=GPU_POD), "spec.containers[0].resources.limits[nvidia.com/gpu]"),
        (an_object("x.io/v1", "Train", spec={"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}), "spec.gpu.name"),
        (an_object("x.io/v1", "Train", spec={"resources": {"limits": {"gpu": "1"}}}), "spec.resources.limits.gpu"),
        (an_object("x.io/v1", "Train", spec={"resources": {"amd.com/gpu": 1}}), "spec.resources[amd.com/gpu]"),
        (an_object("x.io/v1", "Train", spec={"deviceClassName": "gpu.nvidia.com"}), "spec.deviceClassName"),
        (
            an_object("x.io/v1", "Train", spec={"labels": {"gpu-admission.io/dra": "disabled"}}),
            "spec.labels[gpu-admission.io/dra]",
        ),
        (an_object("apps.nvidia.com/v1", "Train", spec={}), "apiVersion"),
        (an_object("v1", "ConfigMap", data={"pod.yaml": "limits: {nvidia.com/gpu: 1}"}), "data[pod.yaml]"),
        (an_object("v1", "Pod", "kube-system", spec=GPU_POD), "spec.containers[0].resources.limits[nvidia.com/gpu]"),
    ],
    ids=["resource", "name", "gpu", "of AMD", "DeviceClass", "our label", "group", "text", "kube-system"],
)
def test_unreviewed_object_that_mentions_gpus_is_pointed_out(review, document, path):
    code, (result,) = review(document)
    found = [each["path"] for each in result["findings"] if each["rule"] == "GA705"]
    assert (code, result["verdict"], found) == (4, "not reviewed", [path])


@pytest.mark.parametrize(
    "document",
    [
        an_object("v1", "Service", spec={"selector": {"nvidia.com/gpu": "x"}}),
        an_object("rbac.authorization.k8s.io/v1", "Role", rules=[{"resourceNames": ["nvidia.com/gpu"]}]),
        an_object("v1", "ConfigMap", data={"a": "https://docs.nvidia.com/cuda, docs.nvidia.com, nvidia-smi"}),
        an_object("x.io/v1", "Train", spec={"image": "nvcr.io/nvidia/pytorch:25.10"}, status={"nvidia.com/gpu": 1}),
        an_object("karpenter.sh/v1", "NodePool", spec={"limits": {"nvidia.com/gpu": 10}}),
        an_object("apps/v1", "DaemonSet", "kube-system", spec={"template": {"spec": TOLERANT_POD}}),
    ],
    ids=[
        *("Service", "Role", "addresses", "image and status"),
        *("node pool", "toleration"),
    ],
)
def test_unreviewed_object_without_gpus_is_not_pointed_out(review, document):
    code, (result,) = review(document)
    assert (code, result["verdict"], result["findings"]) == (0, "not reviewed", [])


def test_deletion_of_a_gpu_pod_is_not_pointed_out(review):
    code, (result,) = review(an_object("v1", "Pod", spec=GPU_POD), arguments=("--operation", "DELETE"))
    assert (code, result["verdict"], result["findings"]) == (0, "not reviewed", [])


@pytest.mark.parametrize(("severity", "code"), [("off", 0), ("audit", 0), ("warn", 4), ("deny", 1)])
def test_settings_decide_what_an_unreviewed_gpu_means(review, severity, code):
    settings = {"rules": [{"rule": "GA705", "severity": severity}]}
    assert review(an_object("x.io/v1", "Train", spec=GPU_POD), settings=settings)[0] == code


def test_text_says_why_an_object_was_not_reviewed_and_what_to_do(review):
    code, text = review(an_object("x.io/v1", "Train", spec=GPU_POD), output="text")
    first, *warning, place, _source, _caret, _, summary = text.splitlines()
    assert code == 4
    assert first.endswith(f"  Train team-a/a  not reviewed: {NO_RULES}")
    assert " ".join(line.removeprefix("Warning:").strip() for line in warning) == (
        "Add the kind to workloads.kinds in the settings with templates: [spec], or review the pods that it makes: "
        f"the object mentions GPUs, but was not reviewed: {NO_RULES}; spec.containers[0].resources.limits[nvidia.com/gpu] "
        "[GA705]"
    )
    assert "GA705 warn" in place
    assert summary == "1 object: 1 not reviewed"


def test_summary_counts_each_verdict(review):
    half = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "0.5"}}}]}
    opted_in = {"name": "team-a", "labels": {"gpu-admission.io/dra": "enabled"}}
    _, text = review(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": opted_in},
        an_object("v1", "Pod", spec=WEB_POD),
        an_object("v1", "Pod", spec=GPU_POD),
        an_object("v1", "Pod", spec=half),
        an_object("v1", "Service"),
        an_object("v1", "ConfigMap"),
        output="text",
    )
    assert text.splitlines()[-1] == ("6 objects: 3 admitted (1 with warnings, 1 converted), 1 refused, 2 not reviewed")


def test_unreviewed_objects_are_among_the_printed(review):
    code, text = review(an_object("v1", "Service"), output="yaml")
    assert (code, "kind: Service" in text) == (0, True)


def test_word_for_a_misspelt_kind_is_the_kind(review):
    _, (result,) = review(an_object("v1", "pod", spec=GPU_POD))
    assert result["findings"][0]["remedy"] == "write kind: Pod, if that is meant"


@pytest.mark.parametrize(("version", "kind"), [("apps/v1", "DeploymentSet"), ("grove.io/v1alpha1", "PodClique")])
def test_kind_of_another_meaning_is_no_misspelt_one(review, version, kind):
    _, (result,) = review(an_object(version, kind, spec=GPU_POD))
    assert "workloads.kinds" in result["findings"][0]["remedy"]


@pytest.mark.parametrize(
    ("spec", "templates"),
    [
        (GPU_POD, "[spec]"),
        ({"worker": GPU_POD}, "[spec.worker]"),
        ({"worker": {"template": {"metadata": {}, "spec": GPU_POD}}}, "[spec.worker.template]"),
        ({"pools": [{"template": {"spec": GPU_POD}}]}, '["spec.pools[*].template"]'),
    ],
)
def test_advice_for_an_unknown_kind_names_its_pod_templates(review, spec, templates):
    _, (result,) = review(an_object("x.io/v1", "Train", spec=spec))
    assert result["findings"][0]["remedy"] == (
        f"add the kind to workloads.kinds in the settings with templates: {templates}, or review the pods that it makes"
    )


def test_advice_for_an_unknown_kind_makes_it_reviewed(review):
    spec = {"pools": [{"template": {"spec": GPU_POD}}]}
    settings = {"workloads": {"kinds": [{"group": "x.io", "kind": "Train", "templates": ["spec.pools[*].template"]}]}}
    code, (result,) = review(an_object("x.io/v1", "Train", spec=spec), settings=settings)
    assert (code, result["verdict"]) == (0, "admitted")


@pytest.mark.parametrize("spec", [{"gpus": {"limits": {"gpu": 1}}}, {"pools": {"a.b/c": GPU_POD}}])
def test_unknown_kind_without_a_pod_template_is_not_for_the_settings(review, spec):
    _, (result,) = review(an_object("x.io/v1", "Train", spec=spec))
    assert result["findings"][0]["remedy"] == (
        "review the pods that it makes; it has no pod template that settings could name"
    )


@pytest.mark.parametrize(
    ("version", "kind", "spec", "reason"),
    [
        ("apps.nvidia.com/v1alpha1", "NIMService", {"resources": GPU}, "the NIM Operator makes its pods"),
        (
            "nvidia.com/v1alpha1",
            "DynamoGraphDeployment",
            {"services": {"a": {"resources": GPU}}},
            "the Dynamo operator",
        ),
        (
            "production-stack.vllm.ai/v1alpha1",
            "VLLMRuntime",
            {"deploymentConfig": {"resources": {"gpu": "1"}}},
            "vLLM's",
        ),
        (
            "serving.kserve.io/v1alpha1",
            "LLMInferenceServiceConfig",
            {"template": GPU_POD},
            "it makes no pods of its own",
        ),
    ],
)
def test_kind_of_a_serving_operator_is_not_reviewed_for_its_own_reason(review, version, kind, spec, reason):
    code, (result,) = review(an_object(version, kind, spec=spec))
    assert (code, result["verdict"]) == (4, "not reviewed")
    assert result["notReviewed"].startswith(reason)
    assert result["findings"][0]["remedy"] == "review the pods that it makes"


@pytest.mark.parametrize(
    ("selector", "code", "verdict"), [("deviceSelector", 0, "admitted"), ("deviceClassName", 1, "refused")]
)
def test_taint_rule_is_reviewed(review, selector, code, verdict):
    spec = {selector: {"pool": "node-a"}, "taint": {"key": "example.com/repair", "effect": "NoSchedule"}}
    found, (result,) = review(an_object("resource.k8s.io/v1", "DeviceTaintRule", spec=spec))
    assert (found, result["verdict"]) == (code, verdict)


def test_plural_of_a_kind_is_a_slip_of_the_pen(review):
    _, (result,) = review(an_object("v1", "Pods", spec=GPU_POD))
    assert result["findings"][0]["remedy"] == "write kind: Pod, if that is meant"


QUEUE = {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"]}]}


@pytest.mark.parametrize("kind", ["LocalQueue", "Workload"])
def test_object_of_a_queue_that_mentions_gpus_is_not_pointed_out(review, kind):
    code, (result,) = review(an_object("kueue.x-k8s.io/v1beta1", kind, spec=QUEUE))
    assert (code, result["verdict"], result["findings"]) == (0, "not reviewed", [])


@pytest.mark.parametrize(
    ("version", "kind", "spec", "remedy"),
    [
        (
            "argoproj.io/v1alpha1",
            "Application",
            {"source": {"helm": {"parameters": [{"name": "resources", "value": "nvidia.com/gpu"}]}}},
            "review what it installs: the output of `helm template` or `kubectl kustomize`",
        ),
        (
            "resource.k8s.io/v1",
            "ResourceSlice",
            {"driver": "gpu.nvidia.com"},
            "if the cluster has it, give it with --cluster",
        ),
    ],
)
def test_kind_that_makes_no_pods_itself_is_pointed_out_with_what_to_review(review, version, kind, spec, remedy):
    code, (result,) = review(an_object(version, kind, spec=spec))
    assert (code, result["findings"][0]["remedy"]) == (4, remedy)
