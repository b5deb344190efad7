"""A cluster that changes, and the pods of its templates, for comparing answers with and without a memo."""

from __future__ import annotations

import base64
import copy
import json

import jsonpatch
import orjson

from policies.admission import load_rules
from policies.admission.webhooks import ENTRIES
from webhook.cluster.live import LiveView
from webhook.cluster.store import Listing
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds
from webhook.server.admission import Admission
from webhook.server.metrics import Metrics

__all__ = ["ENTRIES_FOR_PODS", "USERS", "ChangingCluster", "body_of", "pod_of"]

ENTRIES_FOR_PODS = ("convert-pods", "place-pods", "place-unconverted-pods", "check-pods", "guard-pods", "enforce-quota")
USERS = ("system:serviceaccount:kube-system:job-controller", "alice", "system:serviceaccount:tools:runner")
_ALWAYS_KNOWN = ("PriorityClass", "Pod", "LimitRange", "ResourceQuota", "GPUQuota", "RuntimeClass", "ConfigMap")


class ChangingCluster:
    """Stores of everything that is watched, a view of them, and a server whose memo lives as long."""

    def __init__(self, objects, settings):
        # Imports would use up the time of the first pod's namespace.
        load_rules()
        self.now = 1000.0
        self.stores = {each: store_of(each, lambda: self.now) for each in watched_kinds(())}
        self.view = LiveView(self.stores.items())
        self.view.set_server_version((1, 36))
        self.settings = settings
        self.server = self.fresh_server()
        listed = {each["kind"].removesuffix("List") for each in objects if "kind" in each}
        for kind in {*listed, *_ALWAYS_KNOWN}:
            shown = [each for each in objects if each.get("kind") == kind]
            for store in self.stores_of(kind):
                listing = Listing(store)
                listing.add(shown)
                listing.finish("1")

    def stores_of(self, kind):
        return [store for each, store in self.stores.items() if each.kind == kind]

    def put(self, item, event="MODIFIED"):
        for store in self.stores_of(item["kind"]):
            store.apply({"type": event, "object": item})

    def fresh_server(self):
        """A server that has seen no pod."""
        return Admission(self.view, lambda: self.settings, Metrics(), clock=lambda: 0.0)

    def answer(self, run, entry, body, *, remembers):
        """The bytes of an answer: of the server with its memo, or of one that has seen no pod."""
        server = self.server if remembers else self.fresh_server()
        return run(server.answer(ENTRIES[entry], body, server.deadline(None)))

    def converted(self, run, pod):
        """The pod as conversion leaves it."""
        response = json.loads(self.answer(run, "convert-pods", body_of(pod), remembers=False))["response"]
        return pod if "patch" not in response else jsonpatch.apply_patch(pod, _patch(response))


def _patch(response):
    return orjson.loads(base64.b64decode(response["patch"]))


def pod_of(template, random):
    """A pod of a template: what differs between its pods is random, and sometimes a bit of what does not."""
    pod = copy.deepcopy(template)
    number = random.randrange(10**6)
    metadata = pod["metadata"] | {"name": f"train-{number}", "uid": str(number)}
    labels, annotations = metadata.setdefault("labels", {}), metadata.setdefault("annotations", {})
    if random.random() < 0.5:
        metadata |= {"generateName": f"train-{number % 7}-", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if random.random() < 0.3:
        labels["batch.kubernetes.io/job-completion-index"] = str(number % 10)
        annotations["batch.kubernetes.io/job-completion-index"] = str(number % 10)
        pod["spec"]["hostname"] = f"train-{number % 10}"
    if random.random() < 0.2:
        labels |= {"statefulset.kubernetes.io/pod-name": f"train-{number}", "apps.kubernetes.io/pod-index": "3"}
    if random.random() < 0.1:
        metadata["managedFields"] = [{"manager": "kubectl", "time": str(number)}]
    match random.randrange(30):
        case 0:
            labels["app"] = random.choice(["a", "b"])
        case 1:
            annotations["gpu-admission.io/product"] = random.choice(["H100*", "B300"])
        case 2:
            owner = {"apiVersion": "batch/v1", "kind": random.choice(["Job", "DaemonSet"]), "name": "t", "uid": "t"}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
        case 3:
            pod["spec"]["priorityClassName"] = random.choice(["high", "low"])
        case 4:
            labels["gpu-admission.io/dra"] = "disabled"
    return {**pod, "metadata": metadata}


def body_of(pod, user=USERS[0], *, dry_run=False, namespace="team-a", old=None):
    """The review of a pod's creation."""
    request = {
        "uid": pod["metadata"].get("uid", "0"),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "name": pod["metadata"].get("name", ""),
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": user},
        "object": pod,
        "oldObject": old,
        "dryRun": dry_run,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
