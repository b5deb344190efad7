"""An API server evaluates the conditions of the guard within its limits of CEL, whatever a pod holds."""

import re

from testbed import manifests
from testbed.waiting import until

ERRORS = re.compile(r"^apiserver_admission_match_condition_evaluation_errors_total\{.*guard-.*$", re.MULTILINE)


def large_pod(namespace):
    """A pod without a sign of GPU access, with nearly as many entries as one may have without a review.

    The API server adds one mount to each container.
    """
    mounts = [{"name": "v", "mountPath": f"/{number:0>40}"} for number in range(98)]
    container = {
        "image": "registry.example/train:1",
        "env": [{"name": f"A{n}"} for n in range(100)],
        "volumeMounts": mounts,
    }
    pod = manifests.pod(namespace)
    pod["metadata"]["annotations"] = {f"a{number}": "" for number in range(4900)}
    pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    for listed in ("containers", "initContainers"):
        pod["spec"][listed] = [{"name": f"{listed[0]}{number}", **container} for number in range(50)]
    return pod


def reviews(real, namespace):
    return [line for line in real.service.log().splitlines() if '"guard-pods"' in line and namespace in line]


def test_pod_below_the_limits_is_searched_without_an_error(real):
    namespace = real.namespace()
    assert real.create(large_pod(namespace)).accepted
    assert not ERRORS.search(real.api.request("GET", "/metrics").object)
    assert reviews(real, namespace) == []


def test_pod_with_more_variables_is_reviewed(real):
    pod = manifests.pod(namespace := real.namespace())
    (container,) = pod["spec"]["containers"]
    container.update(resources={}, env=[{"name": f"A{number}"} for number in range(101)])
    assert real.create(pod).accepted
    until(lambda: reviews(real, namespace), "its review is logged")
