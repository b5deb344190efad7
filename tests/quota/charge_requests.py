"""Quotas, and charges of objects that are being created."""

from policies.admission.concerns import quota as decide_charge
from policies.quota.demands.bills import charge_under
from policies.quota.limits.quota import parse_quota
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS

CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"


SCHEDULER = "system:kube-scheduler"


OF_TEMPLATE = {"resource.kubernetes.io/pod-claim-name": "gpus"}


OF_EXTENDED = {"resource.kubernetes.io/extended-resource-claim": "true"}


def quota(*limits, **spec):
    limits = [{"name": "all", "gpus": 8}, *limits]
    metadata = {"name": "gpu", "namespace": "team-a"}
    return parse_quota(
        {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": "GPUQuota",
            "metadata": metadata,
            "spec": {"limits": limits, **spec},
        }
    )


def by_product(name):
    return {"name": name, "selector": {"products": [f"*-{name}-*", f"*-{name}"]}, "gpus": 8}


def creating(document, user="alice", **fields):
    group = "" if document.get("kind") == "Pod" else "resource.k8s.io"
    fields = {"group": group, "kind": document.get("kind", "Pod"), "namespace": "team-a", **fields}
    return Request(document, user=UserInfo(user), uid="review", **fields)


def decided(document, view, user="alice", settings=DEFAULTS, **fields):
    return decide_charge(creating(document, user, **fields), view, settings)


def charge_request(document, view, user="alice", settings=DEFAULTS, **fields):
    return next(iter(decided(document, view, user, settings, **fields).charges), None)


def amounts(found, limits):
    return {piece: bill.amounts for piece, bill in charge_under(found, limits).pieces.items()}


def owned(claim, annotations, **owner):
    """A claim as it is made for the pod `train`, whose uid is 1."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "1", "controller": True, **owner}
    metadata = {**claim["metadata"], "uid": "c", "annotations": annotations, "ownerReferences": [reference]}
    return {**claim, "metadata": metadata}
