"""Configuration over HTTPS: refusals come with one cause per field, as the API server's own validation writes them."""

from pathlib import Path

import pytest

from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG_MAP = libyaml.load((EXAMPLES / "time-slicing" / "configmap.yaml").read_text())


@pytest.fixture
async def refusal(start_webhook, review_of):
    webhook = await start_webhook(view=ManifestsView())
    return await webhook.client.ask("configuration", review_of(CONFIG_MAP, namespace="gpu-operator"))


async def test_broken_time_slicing_is_invalid_field_by_field(refusal):
    status = refusal["status"]
    assert (refusal["allowed"], status["code"], status["reason"]) == (False, 422, "Invalid")
    assert (status["details"]["kind"], status["details"]["name"]) == ("ConfigMap", "time-slicing-config")
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "data.any.sharing.timeSlicing.resources[0].replicas",
        "data[tesla-t4].sharing.timeSlicing.replicas",
        "(all)",
    ]


async def test_tour_and_example_show_the_causes_word_for_word(refusal):
    causes = refusal["status"]["details"]["causes"]
    printed = ['The ConfigMap "time-slicing-config" is invalid: ', *(f"* {c['field']}: {c['message']}" for c in causes)]
    assert "\n".join(printed) in (EXAMPLES.parent / "docs" / "tour.md").read_text()
    # A review of files shows all reasons and does not name itself.
    assert "\n".join(printed[:-1]) in (EXAMPLES / "time-slicing" / "expected.txt").read_text()


async def test_configuration_that_works_passes_silently(start_webhook, review_of):
    webhook = await start_webhook(view=ManifestsView())
    text = CONFIG_MAP["data"]["any"].replace("replicas: 1", "replicas: 4")
    document = {**CONFIG_MAP, "data": {"any": text}}
    response = await webhook.client.ask("configuration", review_of(document, namespace="gpu-operator"))
    assert response.keys() == {"uid", "allowed"}
    assert response["allowed"] is True


async def test_label_of_a_node_is_judged_where_it_comes_with_the_status(start_webhook, review_of):
    webhook = await start_webhook(view=ManifestsView())
    before = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": {}}}
    after = {**before, "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.workload.config": "vm-passthru"}}}
    written = {"operation": "UPDATE", "subResource": "status", "oldObject": before, "namespace": ""}
    response = await webhook.client.ask("nodes", review_of(after, **written))
    assert "vm-passthru" in str(response.get("status") or response.get("warnings"))


async def test_invalid_settings_are_refused_field_by_field(start_webhook, review_of):
    webhook = await start_webhook(view=ManifestsView())
    policy = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"access": {"mode": "audit"}},
    }
    kind = {"group": "gpu-admission.io", "version": "v1alpha1", "kind": "GPUAdmissionPolicy"}
    status = (await webhook.client.ask("configuration", review_of(policy, kind=kind)))["status"]
    assert (status["code"], status["reason"], status["details"]["group"]) == (422, "Invalid", "gpu-admission.io")
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "field": "spec.access.mode",
            "message": 'Write warn or deny: mode is "audit" [GA701]',
        }
    ]
