"""A memo never changes an answer, however pods, callers, settings and the cluster change between calls."""

import asyncio
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.rules.settings import Exemption
from tests.properties import examples
from tests.robustness.generated_clusters import CLUSTERS, GPU, H100, PODS, SETTINGS, T4
from tests.server.memo.pods_and_clusters import ENTRIES_FOR_PODS, USERS, ChangingCluster, body_of, pod_of

CALLS = 40
_EXEMPTIONS = (
    Exemption(users=("alice",), from_=("access",)),
    Exemption(service_accounts=("tools/*",), from_=("conversion", "GA4*")),
)


@st.composite
def exempting(draw):
    chosen = draw(st.lists(st.sampled_from(_EXEMPTIONS), max_size=2, unique=True))
    return replace(draw(SETTINGS), exemptions=tuple(chosen))


def change(cluster, random, given_settings):
    """Change something that rules may read."""
    match random.randrange(13):
        case 0 | 10 | 11 | 12:
            cluster.settings = random.choice(given_settings)
        case 1 | 2:
            labels = {"gpu-admission.io/dra": random.choice(["enabled", "enabled", "preview"])}
            if random.random() < 0.5:
                labels["gpu-admission.io/dra-strategy"] = random.choice(["rename", "template", "auto"])
            cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}})
        case 3 | 4:
            labels = {f"{GPU}.product": random.choice([H100, T4]), f"{GPU}.memory": "81559", "zone": "c"}
            node = {"metadata": {"name": "node-9", "labels": labels}, "status": {"allocatable": {GPU: "8"}}}
            cluster.put({"apiVersion": "v1", "kind": "Node", **node}, random.choice(["MODIFIED", "DELETED"]))
        case 5:
            spec = {"limits": [{"type": "Container", "default": {GPU: random.choice(["0", "1"])}}]}
            limits = {"name": "gpus", "namespace": "team-a"}
            item = {"apiVersion": "v1", "kind": "LimitRange", "metadata": limits, "spec": spec}
            cluster.put(item, random.choice(["MODIFIED", "DELETED"]))
        case 6:
            own = {"metadata": {"name": random.choice(["high", "low"])}, "value": random.randrange(3)}
            cluster.put({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **own})
        case 7:
            container = {"name": "c", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}
            spec = {"nodeName": "node-0", "priority": random.randrange(-1, 2), "containers": [container]}
            metadata = {"name": f"other-{random.randrange(3)}", "namespace": "team-b"}
            cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        case 8:
            cluster.view.set_server_version((1, random.choice([34, 36])))
        case 9:
            for store in cluster.stores_of(random.choice(["Node", "DeviceClass", "Namespace"])):
                store.mark(random.choice(["stale", "synced"]))
            cluster.now += random.choice([1, 200])


def keep_template(cluster, pod, random):
    """Store a template that a converted pod references, as it should be or with another content."""
    for claim in pod["spec"].get("resourceClaims", []):
        metadata = {"name": claim.get("resourceClaimTemplateName", ""), "namespace": "team-a"}
        spec = {"spec": {"devices": {"requests": []}}} if random.random() < 0.2 else {}
        cluster.put({"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec})


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    objects=CLUSTERS,
    templates=st.lists(PODS, min_size=1, max_size=2),
    given_settings=st.lists(exempting(), min_size=2, max_size=2),
    random=st.randoms(use_true_random=True),
)
def test_answers_with_a_memo_equal_those_without(objects, templates, given_settings, random):
    cluster = ChangingCluster(objects, given_settings[0])
    entries = random.sample(ENTRIES_FOR_PODS, 2)
    with asyncio.Runner() as runner:
        for number in range(CALLS):
            if number % 8 == 7:
                change(cluster, random, given_settings)
            pod = pod_of(random.choice(templates), random)
            entry = random.choice(entries)
            if entry == "enforce-quota":
                pod = cluster.converted(runner.run, pod)
                if random.random() < 0.2:
                    keep_template(cluster, pod, random)
            user = random.choice(USERS) if random.random() < 0.2 else USERS[0]
            body = body_of(pod, user, dry_run=random.random() < 0.1)
            with_memo = cluster.answer(runner.run, entry, body, remembers=True)
            assert with_memo == cluster.answer(runner.run, entry, body, remembers=False)
            assert b"has not reviewed this" not in with_memo
