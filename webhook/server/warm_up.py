"""Warming up: reviews before the first call, so that no call waits for an import or a digest."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import orjson

from policies import outcome
from policies.admission import Course, decide
from policies.admission.concerns import warm
from policies.admission.webhooks import ENTRIES
from policies.kubernetes.names import DRA_LABEL, STRATEGY_LABEL
from policies.kubernetes.view import ChangedView
from webhook.server.admission_response import encode
from webhook.server.admission_review import decode
from webhook.server.driver import Driver
from webhook.server.review_runner import ReviewRunner
from webhook.server.turns import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.admission.webhooks import Entry
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["warm_up"]

_ROUNDS = 9
"""CPython specialises the code of a function after eight calls."""
_MOST_SECONDS = 10.0
"""Seconds after which the server starts anyway. After the digests, all rounds take less than a second."""
_NAMESPACE = "gpu-admission-warm-up"
_QUOTA = {"metadata": {"name": "gpu", "namespace": _NAMESPACE}, "spec": {"limits": [{"name": "all", "devices": 1}]}}

_logger = logging.getLogger("gpu_admission.server")


def warm_up(view: ClusterView, settings: GPUAdmissionPolicy, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Compute the digests of a cluster, and answer calls of each form without effects.

    The digests of explanations are computed too. Nothing is read from the API server. The warm-up ends early, with a line in
    the log, after ten seconds or if a review fails; the server starts anyway.

    Args:
        view: The cluster.
        settings: The current settings.
        clock: Returns monotonic seconds.
    """
    end = clock() + _MOST_SECONDS
    warm(view)
    outcome.warm(view)
    with asyncio.Runner() as loop:
        for number in range(_ROUNDS):
            for name, labels, document in _samples(number):
                if clock() > end:
                    _logger.warning("the first calls may be slow: the warm-up took more than %g seconds", _MOST_SECONDS)
                    return
                namespace = {"metadata": {"name": _NAMESPACE, "labels": labels}}
                seen = ChangedView(
                    view, {("Namespace", "", _NAMESPACE): namespace, ("GPUQuota", _NAMESPACE, "gpu"): _QUOTA}
                )
                try:
                    loop.run(_answer(ENTRIES[name], _body(document), seen, settings, clock))
                except Exception:
                    _logger.exception("the first call of %s may be slow: its warm-up failed", name)
                    return


async def _answer(
    entry: Entry, body: bytes, view: ClusterView, settings: GPUAdmissionPolicy, clock: Callable[[], float]
) -> None:
    """Answer a call as `webhook.server.admission` does, without logs, metrics and effects.

    Raises:
        RuntimeError: A concern that fails open failed.
    """
    request = decode(body, entry.name)
    course = Course.start(request)
    driver = Driver(view, templates=None, quotas=None)
    run = ReviewRunner().for_call(body, Deadline.start(clock, None))
    await driver.drive(decide(entry, settings, course, entry.concerns), view, settings, run)
    if course.failures:
        raise RuntimeError(course.failures[0].remark)
    orjson.dumps(encode(course.decision, entry, request))


def _samples(number: int) -> Iterator[tuple[str, dict[str, str], Object]]:
    """Entries, labels of the namespace, and objects to create in it; each number has its own selectors."""
    for strategy in ("template", "rename", "leave", "auto"):
        for resource in ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"):
            yield "convert-pods", {DRA_LABEL: "enabled", STRATEGY_LABEL: strategy}, _pod(resource)
    wish = {"gpu-admission.io/product": "H100*", "gpu-admission.io/min-memory": "10Gi"}
    yield "convert-pods", {DRA_LABEL: "enabled"}, _pod("nvidia.com/gpu", annotations=wish)
    yield "place-pods", {DRA_LABEL: "preview"}, _pod("nvidia.com/gpu", annotations=wish)
    for entry in ("enforce-converted-pods", "enforce-quota", "check-pods"):
        yield entry, {DRA_LABEL: "enabled"}, _pod("nvidia.com/gpu")
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        yield entry, {}, _pod("nvidia.com/gpu", nodeSelector={"nvidia.com/gpu.family": "hopper"}, resourceClaims=claims)
    yield "guard-pods", {}, _pod("cpu", volumes=[{"name": "dev", "hostPath": {"path": "/dev"}}])
    attributes = 'device.attributes["gpu.nvidia.com"]'
    expression = (
        f'"productName" in {attributes} && {attributes}.productName != "{number}" && {attributes}.type == "gpu"'
    )
    exactly = {"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": expression}}]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    yield "claims", {}, claim
    yield "check-pods", {}, claim


def _pod(resource: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    amounts = {resource: "1"}
    container = {"name": "main", "image": "main", "resources": {"limits": amounts, "requests": amounts}}
    metadata = {"name": "warm-up", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def _body(document: Object) -> bytes:
    group, _, version = document["apiVersion"].rpartition("/")
    request = {
        "uid": "warm-up",
        "kind": {"group": group, "version": version, "kind": document["kind"]},
        "namespace": _NAMESPACE,
        "operation": "CREATE",
        "userInfo": {"username": "gpu-admission"},
        "object": document,
        "dryRun": True,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
