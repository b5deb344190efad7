"""Entries of the version before are answered with one concern each, until the webhook configurations are upgraded."""

import base64
import json

import pytest

from policies.entries import RETIRED
from webhook.cluster.manifests import ManifestsView

QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "all", "gpus": 1}]},
}
FINDINGS = {
    "conversion-check": (False, "GA321=deny"),
    "access": (True, "GA601=warn"),
    "quota": (False, "GA502=deny"),
    "quota-enforced": (False, "GA502=deny"),
}
"""Whether an entry admits a pod of `team-a` that is not converted, sets NVIDIA_VISIBLE_DEVICES and exceeds the quota."""


def test_every_retired_entry_is_tested_here():
    assert {*FINDINGS, "conversion", "placement", "preview"} == RETIRED


async def test_conversion_converts_and_does_not_place(ask, pod, review_of):
    response = await ask("conversion", review_of(pod()))
    assert response["auditAnnotations"]["template"].startswith("gpu-")
    unconverted = await ask("conversion", review_of(pod(schedulerName="volcano")))
    assert (unconverted["auditAnnotations"], "patch" in unconverted) == ({"findings": "GA315=warn"}, False)


async def test_placement_places_and_does_not_convert(ask, pod, review_of):
    response = await ask("placement", review_of(pod()))
    assert [each["path"] for each in json.loads(base64.b64decode(response["patch"]))] == ["/spec/tolerations"]


async def test_preview_warns_and_changes_nothing(ask, pod, review_of):
    response = await ask("preview", review_of(pod(namespace="team-preview")))
    assert set(response) == {"uid", "allowed", "warnings"}
    assert response["warnings"][0].startswith("would be converted to ResourceClaimTemplate gpu-")


@pytest.mark.parametrize("entry", FINDINGS)
async def test_validating_entry_has_findings_of_its_concern_only(start_webhook, cluster, pod, review_of, entry):
    namespace = cluster.get("Namespace", "team-a")
    webhook = await start_webhook(ManifestsView([namespace, QUOTA]))
    document = pod(0 if entry == "access" else 2)
    document["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    response = await webhook.client.ask(entry, review_of(document))
    assert (response["allowed"], response["auditAnnotations"]) == (FINDINGS[entry][0], {"findings": FINDINGS[entry][1]})
