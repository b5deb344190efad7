"""Access rules over HTTPS: new pods, and ephemeral containers."""

import copy

VISIBLE = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
SAID = 'NVIDIA_VISIBLE_DEVICES is "all" in'


def debugged(document):
    """The pod with a container that `kubectl debug` adds."""
    after = copy.deepcopy(document)
    after["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "ubuntu", "env": [VISIBLE]}]
    return after


async def test_pod_that_takes_gpus_passes_with_a_warning(ask, pod, review_of):
    document = pod(0)
    document["spec"]["containers"][0]["env"] = [VISIBLE]
    response = await ask("guard-pods", review_of(document))
    assert response["allowed"] is True
    said = " ".join(line.strip() for line in response["warnings"])
    assert said.startswith(
        f'Request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void: {SAID} container "main", '
    )
    assert said.endswith("; spec.containers[0].env[0].value [GA601]")
    assert response["auditAnnotations"] == {"findings": "GA601=warn"}


async def test_pod_that_asks_passes_silently(ask, pod, review_of):
    assert (await ask("check-pods", review_of(pod(namespace="team-legacy")))).keys() == {"uid", "allowed"}


async def test_container_that_debugs_is_reported_of(ask, pod, review_of):
    before = pod(0)
    request = {"operation": "UPDATE", "subResource": "ephemeralcontainers", "oldObject": before}
    response = await ask("guard-pods", review_of(debugged(before), **request))
    assert response["allowed"] is True
    said = " ".join(line.strip() for line in response["warnings"])
    assert said.startswith(
        f'Set NVIDIA_VISIBLE_DEVICES to void: an ephemeral container cannot request GPUs: {SAID} ephemeral container "debug"'
    )
    assert said.endswith("; spec.ephemeralContainers[0].env[0].value [GA601]")


async def test_image_that_changes_is_reviewed_by_its_guard(ask, pod, review_of):
    before = pod(0, runtimeClassName="nvidia")
    after = copy.deepcopy(before)
    after["spec"]["containers"][0]["image"] = "nvcr.io/nvidia/cuda:12"
    response = await ask("guard-changes", review_of(after, operation="UPDATE", oldObject=before))
    assert response["allowed"] is True
    assert response["auditAnnotations"] == {"findings": "GA603=warn, GA608=audit"}


async def test_other_updates_pass_silently(ask, pod, review_of):
    before = pod(0)
    request = {"operation": "UPDATE", "oldObject": before}
    assert (await ask("guard-pods", review_of(debugged(before), **request))).keys() == {"uid", "allowed"}
