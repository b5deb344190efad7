"""Audits that keep the proofs of the last one say what audits say that prove everything anew."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.audit import KeptProofs, Survey, audit
from policies.analyses.migrate.proof import MigrationProver
from policies.outcome import comparison
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.outcome.clusters import GPU, bound
from tests.plan.nodes import gpu_node
from webhook.cluster.live import LiveView
from webhook.cluster.store import Listing
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds

PRODUCTS = ("NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4-SHARED")


def deployment(name, gpus=1, replicas=2, **fields):
    spec = k8s.pod({GPU: str(gpus)}, **fields)["spec"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"replicas": replicas, "template": {"metadata": {}, "spec": spec}},
    }


class Cluster:
    """The stores of a running cluster, and workloads, which only a survey reads."""

    def __init__(self):
        self.stores = {each: store_of(each) for each in watched_kinds(())}
        for store in self.stores.values():
            Listing(store).finish("1")
        self.view = LiveView(self.stores.items())
        self.workloads = {}
        self.settings = DEFAULTS
        for document in (k8s.device_class(), k8s.namespace(), *(gpu_node(f"node-{number}", 2) for number in range(3))):
            self.put(document)

    def put(self, document, change="MODIFIED"):
        of_kind = {each.kind: store for each, store in self.stores.items()}
        of_kind[document["kind"]].apply({"type": change, "object": document})

    def objects(self, kind):
        return [each for watched, store in self.stores.items() if watched.kind == kind for each in store.list()]

    def audit(self, kept=None):
        """The readiness by the proofs of before; without any, by those of a view that has no digests."""
        view = LiveView(self.stores.items()) if kept is None else self.view
        survey = Survey(view, self.settings)
        survey.add([*self.workloads.values(), *self.objects("Pod")])
        return audit(view, self.settings, survey, kept=kept).readiness


def change_nothing(cluster, choose):
    """The next audit has the same inputs."""


def change_workload(cluster, choose):
    name = f"web-{choose.randrange(3)}"
    priority = choose.choice([{}, {"priority": 100, "priorityClassName": "high"}])
    cluster.workloads[name] = deployment(name, choose.choice([1, 2, 4]), choose.choice([1, 3]), **priority)


def end_workload(cluster, choose):
    cluster.workloads.pop(f"web-{choose.randrange(3)}", None)


def start_pod(cluster, choose):
    owner = choose.choice(["", "ReplicaSet/web"])
    node = f"node-{choose.randrange(3)}"
    cluster.put(bound(f"pod-{choose.randrange(4)}", node, gpus=choose.choice([1, 2]), owner=owner))


def end_pod(cluster, choose):
    pods = cluster.objects("Pod")
    if pods:
        cluster.put(choose.choice(pods), "DELETED")


def change_node(cluster, choose):
    cluster.put(gpu_node(f"node-{choose.randrange(4)}", choose.choice([1, 2, 4]), product=choose.choice(PRODUCTS)))


def publish_devices(cluster, choose):
    devices = k8s.gpus(choose.choice([1, 2]), product=choose.choice(["NVIDIA H100 80GB HBM3", "Tesla T4"]))
    cluster.put(k8s.resource_slice(devices, f"node-{choose.randrange(3)}"))


def hold_devices(cluster, choose):
    cluster.put(k8s.holding(f"other-{choose.randrange(2)}", [0], f"node-{choose.randrange(3)}"))


def change_class(cluster, choose):
    products = choose.choice(["true", "device.attributes['gpu.nvidia.com'].productName == 'Tesla T4'"])
    cluster.put(k8s.device_class(selector=products))


def limit_namespace(cluster, choose):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus", "namespace": "team-a"}}
    cluster.put({**quota, "spec": {"hard": {f"requests.{GPU}": "8"}}}, choose.choice(["MODIFIED", "DELETED"]))


def charge_namespace(cluster, choose):
    limits = [{"name": "all", choose.choice(["gpus", "memory"]): choose.choice([4, 100])}]
    head = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota"}
    cluster.put({**head, "metadata": {"name": "gpu", "namespace": "team-a"}, "spec": {"limits": limits}})


def change_settings(cluster, choose):
    conversion = replace(DEFAULTS.conversion, allow_pod_opt_out=choose.choice([True, False]))
    cluster.settings = replace(DEFAULTS, conversion=conversion)


CHANGES = (
    change_nothing,
    change_workload,
    end_workload,
    start_pod,
    end_pod,
    change_node,
    publish_devices,
    hold_devices,
    change_class,
    limit_namespace,
    charge_namespace,
    change_settings,
)


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 99)), min_size=3, max_size=8))
def test_audits_between_changes_are_those_that_prove_everything_anew(changes):
    cluster, kept = Cluster(), KeptProofs()
    for name in ("web-0", "web-1"):
        cluster.workloads[name] = deployment(name)
    for change, seed in changes:
        change(cluster, random.Random(seed))
        assert cluster.audit(kept) == cluster.audit()


def busy_cluster():
    cluster = Cluster()
    for number in range(3):
        cluster.workloads[f"web-{number}"] = deployment(f"web-{number}", number + 1)
    cluster.put(bound("train", "node-0", gpus=2))
    return cluster


def proven(cluster, kept, monkeypatch):
    """The number of workloads that one more audit proves."""
    found, prove = [], MigrationProver.prove
    with monkeypatch.context() as patched:
        patched.setattr(MigrationProver, "prove", lambda prover, each: found.append(each) or prove(prover, each))
        cluster.audit(kept)
    return len(found)


def test_audit_whose_inputs_did_not_change_proves_nothing(monkeypatch):
    cluster, kept = busy_cluster(), KeptProofs()
    assert [proven(cluster, kept, monkeypatch) for _ in range(3)] == [4, 0, 0]


def test_new_workload_is_the_only_one_that_is_proven(monkeypatch):
    cluster, kept = busy_cluster(), KeptProofs()
    cluster.audit(kept)
    cluster.workloads["new"] = deployment("new", 4)
    assert proven(cluster, kept, monkeypatch) == 1


def test_workloads_of_one_form_without_pods_are_proven_once(monkeypatch):
    cluster = busy_cluster()
    for number in range(5):
        cluster.workloads[f"like-{number}"] = deployment(f"like-{number}", 2)
    assert proven(cluster, KeptProofs(), monkeypatch) == 4


@pytest.mark.parametrize(
    "change", [start_pod, change_node, publish_devices, hold_devices, change_class, charge_namespace]
)
def test_change_of_what_proofs_rest_on_proves_all_anew(monkeypatch, change):
    cluster, kept = busy_cluster(), KeptProofs()
    cluster.audit(kept)
    change(cluster, random.Random(1))
    assert proven(cluster, kept, monkeypatch) >= 4


def test_proofs_of_workloads_that_ended_are_dropped():
    cluster, kept = busy_cluster(), KeptProofs()
    cluster.audit(kept)
    cluster.workloads = {}
    cluster.audit(kept)
    assert len(kept.proofs) == 1


def test_stores_that_replace_others_prove_all_anew(monkeypatch):
    cluster, kept = busy_cluster(), KeptProofs()
    cluster.audit(kept)
    cluster.view.show([*cluster.stores.items()][:-1])
    assert proven(cluster, kept, monkeypatch) == 4


def test_workload_beyond_the_limit_is_unknown_although_others_are_known(monkeypatch):
    for module in ("policies.analyses.audit.readiness", comparison.__name__):
        monkeypatch.setattr(f"{module}.MOST_SUBJECTS", 3)
    cluster, kept = busy_cluster(), KeptProofs()
    (first,) = cluster.audit(kept)
    (again,) = cluster.audit(kept)
    del cluster.workloads["web-0"]
    (fewer,) = cluster.audit(kept)
    assert first == again
    assert (first.unknown, fewer.unknown) == (1, 0)
