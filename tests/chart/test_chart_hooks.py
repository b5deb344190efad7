"""The hooks keep the order of docs/upgrade.md, with no more rights than they need."""

import pytest
import yaml

from tests.deploy.grants import grants_of, listed_rights
from webhook.cli.installation.webhook_configurations import read_version_manifests

SPEC = {"access": {"mode": "deny"}}


def hooks(documents):
    """Hooks by kind and name."""
    return {
        (each["kind"], each["metadata"]["name"]): each
        for each in documents
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }


def annotation(document, name):
    return document["metadata"]["annotations"][f"helm.sh/{name}"]


@pytest.fixture(scope="module")
def default_hooks(helm):
    return hooks(helm.template())


def arguments(job):
    return job["spec"]["template"]["spec"]["containers"][0]["args"]


def test_each_event_runs_one_command(default_hooks):
    jobs = {annotation(each, "hook"): arguments(each) for (kind, _), each in default_hooks.items() if kind == "Job"}
    file = "/etc/gpu-admission/webhooks/webhooks.yaml"
    assert jobs == {
        "post-install,post-upgrade": ["apply-webhooks", file, "--timeout=250"],
        "pre-rollback": ["apply-webhooks", file, "--timeout=250", "--rollback"],
        "pre-delete": ["delete-webhooks"],
    }


def test_rights_and_file_are_there_before_the_command(default_hooks):
    for (kind, _), document in default_hooks.items():
        events = {*annotation(document, "hook").split(",")}
        if kind in {"Job", "Pod"}:
            needed = [each for (other, _), each in default_hooks.items() if other not in {"Job", "Pod", "ConfigMap"}]
            if document["spec"].get("template", document)["spec"].get("volumes"):
                needed.append(default_hooks["ConfigMap", "gpu-admission-webhooks"])
            for each in needed:
                assert events <= {*annotation(each, "hook").split(",")}
                assert int(annotation(each, "hook-weight")) < int(annotation(document, "hook-weight"))


def test_hooks_leave_the_log_of_a_job_that_failed_and_no_rights(default_hooks):
    for (kind, _), document in default_hooks.items():
        policies = annotation(document, "hook-delete-policy")
        is_log = kind in {"ConfigMap", "Job", "Pod"}
        assert policies == f"before-hook-creation,hook-succeeded{'' if is_log else ',hook-failed'}"


def test_security_page_lists_every_right_of_the_hooks_and_no_other(default_hooks):
    account = {"kind": "ServiceAccount", "name": "gpu-admission-webhooks", "namespace": "gpu-admission"}
    rights = {each.right for each in grants_of(default_hooks.values(), account)}
    assert rights
    assert listed_rights(1).keys() == rights


def test_services_and_policies_do_not_select_pods_of_hooks(default_hooks, helm):
    labels = [
        default_hooks["Pod", "gpu-admission-test"]["metadata"]["labels"],
        *(each["spec"]["template"]["metadata"]["labels"] for (kind, _), each in default_hooks.items() if kind == "Job"),
    ]
    (deployment,) = (each for each in helm.template() if each["kind"] == "Deployment")
    selected = deployment["spec"]["selector"]["matchLabels"].items()
    assert [selected <= each.items() for each in labels] == [False] * 4


def test_pods_of_hooks_comply_with_the_restricted_level(default_hooks):
    specs = [
        each["spec"].get("template", each)["spec"]
        for (kind, _), each in default_hooks.items()
        if kind in {"Job", "Pod"}
    ]
    for spec in specs:
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_hooks_use_image_secrets_and_places_of_the_service(helm):
    values = {
        "image": {"repository": "r.example.com/a", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "r"}],
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"pool": "system"},
        "openshift": True,
        "hooks": {"timeoutSeconds": 60},
    }
    job = hooks(helm.template(values))["Job", "gpu-admission-apply-webhooks"]
    spec = job["spec"]["template"]["spec"]
    assert job["spec"]["activeDeadlineSeconds"] == 60
    assert "--timeout=40" in arguments(job)  # ends before the deadline, at which the pod and its log are deleted
    assert (spec["containers"][0]["image"], spec["containers"][0]["imagePullPolicy"]) == (
        "r.example.com/a:0.1.0",
        "Always",
    )
    assert spec["imagePullSecrets"] == [{"name": "r"}]
    assert spec["priorityClassName"] == "system-node-critical"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    assert "runAsUser" not in spec["securityContext"]


def test_command_finds_webhooks_and_the_image_in_the_file(helm, tmp_path):
    found = hooks(helm.template({"image": {"tag": "dev"}}))["ConfigMap", "gpu-admission-webhooks"]
    file = tmp_path / "webhooks.yaml"
    file.write_text(found["data"]["webhooks.yaml"])
    manifests = read_version_manifests(str(file))
    assert manifests.image == "gpu-admission:dev"
    assert [each["kind"] for each in manifests.configurations] == [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]


def test_settings_are_an_object_of_the_release(helm):
    (settings,) = (each for each in helm.template({"settings": {"spec": SPEC}}) if each["kind"] == "GPUAdmissionPolicy")
    assert (settings["metadata"]["name"], settings["spec"]) == ("default", SPEC)
    assert "annotations" not in settings["metadata"]


def test_settings_of_another_tool_are_not_created(helm):
    spec = {"configuration": {"operatorNamespaces": ["nvidia"]}}
    documents = helm.template({"settings": {"create": False, "spec": spec}})
    assert not any(each["kind"] == "GPUAdmissionPolicy" for each in documents)
    assert "nvidia" in yaml.safe_dump(hooks(documents)["ConfigMap", "gpu-admission-webhooks"])
