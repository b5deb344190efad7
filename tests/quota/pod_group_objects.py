"""PodGroups whose pods share claims, and their pods and claims."""

from __future__ import annotations

from typing import Any

__all__ = ["ENTRY", "group", "group_claim", "member"]

ENTRY = {"name": "gpus", "resourceClaimTemplateName": "gpus"}


def group(name="ring", uid="g", entries=(ENTRY,), claim=""):
    """A PodGroup; `claim` is the name of the claim that was made for its first entry."""
    statuses = [{"name": entries[0]["name"], "resourceClaimName": claim}] if claim else []
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team-a", "uid": uid},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": list(entries)},
        "status": {"resourceClaimStatuses": statuses},
    }


def member(pod, name="train", uid="1", group="ring", entries=(ENTRY,), **spec: Any):
    """A pod of a group, made by the fixture `pod`."""
    spec = {"resourceClaims": list(entries), "schedulingGroup": {"podGroupName": group}, **spec}
    document = pod(**spec).document
    return {**document, "metadata": {**document["metadata"], "name": name, "uid": uid}}


def group_claim(claim, name="ring-gpus-x", uid="c", group_uid="g", piece="gpus", owner=()):
    """A claim as it is made for the group `ring`, out of one that the fixture `claim` makes."""
    reference = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "name": "ring",
        "uid": group_uid,
        "controller": True,
        **dict(owner),
    }
    metadata = {
        **claim["metadata"],
        "name": name,
        "uid": uid,
        "annotations": {"resource.kubernetes.io/pod-claim-name": piece},
        "ownerReferences": [reference],
    }
    return {**claim, "metadata": metadata}
