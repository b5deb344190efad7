"""GPUQuotas where no webhook is called: a ValidatingAdmissionPolicy, which the sandbox stores and does not enforce."""

import pytest

from testbed import manifests

WARNING = (
    "Validation failed for ValidatingAdmissionPolicy 'exempt-quotas.gpu-admission.io' with binding "
    "'exempt-quotas.gpu-admission.io': namespace \"kube-system\" is exempt from quotas (no webhook is called for it), so "
    "this GPUQuota limits nothing; delete it [GA507]"
)


@pytest.fixture
def quota(real):
    yield manifests.quota("kube-system", 2)
    real.delete("GPUQuota", "gpu", "kube-system")


def test_quota_in_kube_system_is_stored_with_a_warning(real, quota):
    answer = real.create(quota)
    assert (answer.accepted, answer.warnings) == (True, (WARNING,))
    relabelled = real.patch("GPUQuota", "gpu", "kube-system", body={"metadata": {"labels": {"a": "b"}}})
    assert (relabelled.accepted, relabelled.warnings) == (True, (WARNING,))


def test_status_of_a_quota_in_kube_system_is_written_without_a_warning(real, quota):
    """The leader writes it with each count."""
    assert real.create(quota).accepted
    body = {"status": {"summary": "gpus 0 of 2"}}
    answer = real.patch("GPUQuota", "gpu", "kube-system", body=body, subresource="status")
    assert (answer.accepted, answer.warnings) == (True, ())


def test_quota_of_a_team_is_stored_without_a_warning(real):
    answer = real.create(manifests.quota(real.namespace(), 2))
    assert (answer.accepted, answer.warnings) == (True, ())
