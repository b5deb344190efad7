"""The administrator adds a kind of workloads: its authors are warned once the webhooks are rendered with the settings."""

import runpy
from pathlib import Path

import pytest

from policies.rules.settings import parse_settings
from testbed import libyaml, manifests
from testbed.api import JSON_PATCH
from testbed.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
KIND = {"group": "kinds.gpu-admission.test", "kind": "TrainingRun", "templates": ["spec.workers[*].template"]}
SETTINGS = {"workloads": {"kinds": [KIND]}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "trainingruns.kinds.gpu-admission.test"},
    "spec": {
        "group": "kinds.gpu-admission.test",
        "scope": "Namespaced",
        "names": {"kind": "TrainingRun", "plural": "trainingruns", "singular": "trainingrun"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
UNCOVERED = (
    "GPUAdmissionPolicy default: Set settings.spec of the Helm chart, or apply manifests that deploy/render.py --settings FILE "
    "renders: no rule of webhook workloads.gpu-admission.io matches trainingruns.kinds.gpu-admission.test, so their authors get "
    "no warnings; spec.workloads.kinds[0]"
)
CONFIGURATION = ("ValidatingWebhookConfiguration", "gpu-admission")


def rendered_rules():
    """The rules of the webhook `workloads`, as `deploy/render.py --settings` prints them."""
    script = runpy.run_path(str(DEPLOY / "render.py"))
    policy = parse_settings(manifests.settings(**SETTINGS))
    documents = libyaml.load_all(script["with_settings"](script["render"](DEPLOY / "overlays" / "default"), policy))
    (webhooks,) = (each["webhooks"] for each in documents if each["kind"] == CONFIGURATION[0])
    return next(each["rules"] for each in webhooks if each["name"] == "workloads.gpu-admission.io")


def set_rules(cluster, rules):
    """Give the installed webhook other rules; returns those that it had."""
    stored = cluster.get(*CONFIGURATION).object["webhooks"]
    index = next(index for index, each in enumerate(stored) if each["name"] == "workloads.gpu-admission.io")
    operation = {"op": "replace", "path": f"/webhooks/{index}/rules", "value": rules}
    assert cluster.patch(*CONFIGURATION, body=[operation], content_type=JSON_PATCH).accepted
    return stored[index]["rules"]


@pytest.fixture
def configured(cluster):
    """A cluster that serves the kind, with settings that name it."""
    cluster.belongings.add(DEFINITION, may_exist=True)
    path = "/apis/kinds.gpu-admission.test/v1"
    until(lambda: cluster.api.request("GET", path).code == 200, "the kind is served")
    assert cluster.configure(**SETTINGS).accepted
    until(lambda: UNCOVERED in cluster.service.probe()["notes"], "the service names the setting", 60)
    before = None
    try:
        before = set_rules(cluster, rendered_rules())
        yield cluster
    finally:
        if before is not None:
            set_rules(cluster, before)
        cluster.delete("GPUAdmissionPolicy", "default")
        cluster.delete("CustomResourceDefinition", DEFINITION["metadata"]["name"])
        cluster.tidy()


def created(cluster, team):
    resources = {"limits": {"nvidia.com/gpu": "0.5"}}
    template = {"spec": {"containers": [{"name": "train", "image": "train", "resources": resources}]}}
    document = {
        "apiVersion": "kinds.gpu-admission.test/v1",
        "kind": "TrainingRun",
        "metadata": {"name": "train", "namespace": team},
        "spec": {"workers": [{"template": template}]},
    }
    path = f"/apis/kinds.gpu-admission.test/v1/namespaces/{team}/trainingruns"
    return cluster.api.request("POST", path, {"dryRun": "All"}, document)


def test_author_of_an_added_kind_is_warned_and_the_setting_is_covered(configured):
    team = configured.namespace(dra="enabled")
    reason = 'its pods would be refused: "0.5" is not a whole number of devices'
    place = "spec.workers[0].template.spec.containers[0].resources.limits[nvidia.com/gpu]"

    def warned():
        answer = created(configured, team)
        assert answer.accepted, answer.message
        return f"{reason}; {place} [GA302]" in " ".join(line.strip() for line in answer.warnings)

    until(warned, "the author is warned")
    until(lambda: UNCOVERED not in configured.service.probe()["notes"], "the setting is covered", 60)
