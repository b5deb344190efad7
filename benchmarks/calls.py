"""Calls of the webhook: the bytes of a whole request, made before anything is timed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from benchmarks.devices import DOMAIN
from benchmarks.pods import OTHER_NAMESPACE, claim, pod

if TYPE_CHECKING:
    from benchmarks.servers import Streams


_PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
_TWO = {"nvidia.com/gpu": "2"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "converted pod": ("convert-pods", pod(_TWO, nodeSelector=_PRODUCT)),
    "converted pod, MIG": ("convert-pods", pod({"nvidia.com/mig-1g.10gb": "1"})),
    "placed pod": ("place-pods", pod(_TWO, namespace=OTHER_NAMESPACE, nodeSelector=_PRODUCT)),
    "checked pod": ("check-pods", pod(_TWO, namespace=OTHER_NAMESPACE, nodeSelector=_PRODUCT)),
    "guarded pod without GPUs": ("guard-pods", pod({}, namespace=OTHER_NAMESPACE)),
    "claim": ("claims", claim(f'{DOMAIN}.type == "gpu"')),
}
"""The entry that is called, and the object."""


def calls_of(entry: str, document: dict[str, Any], count: int) -> list[bytes]:
    """Calls of an entry for objects that differ in name and uid, as those of one template do."""
    return [_call_of(entry, document) for _ in range(count)]


def review_of(document: dict[str, Any]) -> dict[str, Any]:
    """The AdmissionReview of an object's creation."""
    group, _, version = document["apiVersion"].rpartition("/")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": group, "version": version, "kind": document["kind"]},
            "name": document["metadata"].get("name", ""),
            "namespace": document["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
            "object": document,
        },
    }


def call_for(entry: str, review: dict[str, Any]) -> bytes:
    """The request that posts a review to an entry."""
    body = json.dumps(review).encode()
    head = (
        f"POST /{entry}?timeout=10s HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def post(streams: Streams, call: bytes) -> bytes:
    """Send a request and return the body of the answer.

    Raises:
        SystemExit: The answer is not 200.
    """
    reader, writer = streams
    writer.write(call)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"the webhook answered {head.decode()}")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


def check_answer(entry: str, answer: bytes) -> None:
    """Make sure that what is measured is an admission, with a patch from the entry that converts.

    Raises:
        SystemExit: It is something else.
    """
    response = json.loads(answer)["response"]
    if not response["allowed"] or (entry == "convert-pods" and "patch" not in response):
        raise SystemExit(f"{entry} answered something else than expected: {response}")


def _call_of(entry: str, document: dict[str, Any]) -> bytes:
    unique = os.urandom(5).hex()
    metadata = {**document["metadata"], "name": f"train-{unique}", "uid": unique}
    review = review_of({**document, "metadata": metadata})
    review["request"]["uid"] = unique
    return call_for(entry, review)
