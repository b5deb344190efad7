"""Quotas in `review`: single pods, whole workloads, and quotas that cannot be read."""

from __future__ import annotations

from fractions import Fraction

import pytest

from policies.quota.ledger.ledger import ROOM
from policies.quota.ledger.open_charges import OpenCharge, compact_text
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN, Bill
from tests.accepted_workloads import accepted


def namespace(**labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}


def quota(gpus=8):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": gpus}]},
    }


def pod_spec(gpus):
    return {"containers": [{"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}


def workload(version, kind, gpus, **spec):
    metadata, labels = {"name": "train", "namespace": "team-a"}, {"labels": {"app": "train"}}
    spec = {"template": {"metadata": labels, "spec": pod_spec(gpus)}, **spec}
    return accepted({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})


def pod(gpus):
    metadata = {"name": "train", "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(gpus)}


def text_of(result):
    """All lines as one, warnings without what goes before each line of them."""
    return " ".join(line.removeprefix("Warning:").strip() for line in result.output.splitlines())


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            workload("apps/v1", "Deployment", 2, replicas=5),
            (
                'Request fewer pods or GPUs: 5 pods at once request 10 GPUs, but limit "all" of GPUQuota gpu allows at most 8 GPUs, so 4 '
                "are created, and the others are refused until some end; spec.replicas [GA506]"
            ),
        ),
        (
            workload("batch/v1", "Job", 3, parallelism=3),
            (
                'Request fewer pods or GPUs: 3 pods at once request 9 GPUs, but limit "all" of GPUQuota gpu allows at most 8 GPUs, so 2 '
                "are created, and the others are refused until some end; spec.parallelism [GA506]"
            ),
        ),
    ],
    ids=["deployment", "job"],
)
def test_workload_whose_pods_do_not_fit_together_is_warned_about(write, invoke, document, said):
    result = invoke("review", write("files.yaml", namespace(), quota(), document))
    assert said in text_of(result)
    assert result.exit_code == 0


def test_workload_whose_pods_fit_together_is_not_spoken_of(write, invoke):
    result = invoke(
        "review", write("files.yaml", namespace(), quota(), workload("apps/v1", "Deployment", 2, replicas=4))
    )
    assert "GA50" not in result.output


def test_workload_whose_pods_do_not_fit_one_by_one_gets_the_event_of_its_controller(write, invoke):
    result = invoke("review", write("files.yaml", namespace(), quota(), workload("batch/v1", "Job", 9, parallelism=3)))
    assert "FailedCreate  Error creating: admission webhook" in result.output
    assert (
        "denied the request: Request fewer GPUs: template needs 9 GPUs, "
        'and limit "all" allows at most 8; exceeded quota: gpu; spec.template [GA502]\n'
    ) in result.output
    assert "GA506" not in result.output
    assert result.exit_code == 1


def test_pod_over_its_quota_is_forbidden(write, invoke):
    result = invoke("review", write("files.yaml", namespace(), quota(), pod(9)))
    assert (
        'Error from server (Forbidden): error when creating "files.yaml": admission webhook "check-pods.gpu-admission.io" '
        'denied the request: Request fewer GPUs: needs 9 GPUs, and limit "all" allows at most 8; exceeded quota: gpu [GA502]\n'
    ) in result.output


def test_pod_that_cannot_be_charged_now_is_one_too_many_requests(write, invoke):
    """The ledger remembers as many pods on their way as it has room for."""
    document = quota()
    nothing = Bill({}, {"gpus": Fraction(0), "memory": Fraction(0), "devices": Fraction(0)})
    document["status"] = {
        "limits": [
            {"name": "all", "key": parse_quota(document).limits[0].key, "hard": "8", "used": "0", "reserved": "0"}
        ],
        "openCharges": compact_text(
            OpenCharge(f"u{n}", "Pod", f"p{n}", "", {OWN: nothing}) for n in range(ROOM.charges)
        ),
        "counted": {"pods": "1", "claims": "1"},
    }
    enforced = namespace(**{"gpu-admission.io/quota": "enforced"})
    result = invoke("review", write("files.yaml", enforced, document, pod(1)))
    assert (
        'Error from server (TooManyRequests): error when creating "files.yaml": admission webhook '
        '"enforce-quota.gpu-admission.io" denied the request: Try again in 10 s, and '
    ) in result.output
    assert ": quota gpu of namespace team-a has no room" in result.output
    assert "[GA504]" in result.output
