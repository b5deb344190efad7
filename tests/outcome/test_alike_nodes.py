"""Nodes of which a question reads the same are checked once, with the results that each has alone."""

import random

import pytest

from policies.fleet.cluster_digest import ResourceUsage, read_cluster
from policies.kubernetes.bounds import Work, bounded_by
from policies.outcome import questions, simulate
from policies.outcome.reasons import EVERYTHING
from policies.outcome.survey import Survey
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.outcome.clusters import BASE, GPU, bound
from tests.plan.nodes import gpu_node
from webhook.cluster.manifests import ManifestsView

PRODUCTS = ("NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3")
TAINT = {"key": "dedicated", "value": "render", "effect": "NoSchedule"}
SERVING = k8s.device_class(extendedResourceName=GPU)
NODES = 24


def random_cluster(choose):
    """Nodes that differ in all that is checked, with pods and claims that hold some of their GPUs."""
    objects = [SERVING if choose.random() < 0.5 else BASE[0], *BASE[1:], k8s.template({"count": 2})]
    for number in range(NODES):
        name = f"node-{number:02}"
        labels = {"zone": choose.choice("ab"), "nvidia.com/gpu.sharing-strategy": choose.choice(("none", "mps"))}
        taints = choose.choice(((), (), (TAINT,)))
        if choose.random() < 0.5:
            product = choose.choice(PRODUCTS)
            offered = {GPU: choose.choice("48"), "cpu": choose.choice(("8", "64"))}
            objects.append(gpu_node(name, product=product, labels=labels, taints=taints, **offered))
        else:
            objects.append(k8s.node(name, labels, taints, unschedulable=choose.random() < 0.2))
            objects.append(k8s.resource_slice(k8s.gpus(choose.choice((1, 4))), name))
            objects.append(k8s.holding(f"holder-{number}", range(choose.choice((0, 0, 1))), name))
        if choose.random() < 0.4:
            objects.append(bound(f"pod-{number}", name, gpus=choose.choice((1, 3))))
    if choose.random() < 0.2:
        terms = [{"matchExpressions": [{"key": "zone", "operator": "Is", "values": ["a"]}]}]
        selector = {"nodeSelector": {"nodeSelectorTerms": terms}}
        objects.append(k8s.resource_slice(k8s.gpus(1), "", pool="fabric", **selector))
    return ManifestsView(objects)


def random_pod(choose):
    limits = {GPU: choose.choice("124"), "cpu": choose.choice(("1", "16"))} if choose.random() < 0.7 else {}
    spec = {} if limits else {"resourceClaims": k8s.claiming(resourceClaimTemplateName="gpus")}
    if choose.random() < 0.4:
        spec["nodeSelector"] = {"zone": "a", "nvidia.com/gpu.product": PRODUCTS[0]}
    if choose.random() < 0.4:
        terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    if choose.random() < 0.3:
        spec["tolerations"] = [{"operator": "Exists"}]
    return k8s.pod(limits, stored=True, **spec)


def visited(pod, view, positions=None):
    """The groups of nodes in the order of their first nodes, or the error that stops the scheduler."""
    (question,) = questions(pod, "team-a", view, DEFAULTS)
    assert not question.obstacles
    cluster, usage = view.derive(read_cluster), ResourceUsage(view)
    survey = Survey(question, view, DEFAULTS, EVERYTHING, cluster=cluster, resource_usage=usage)
    failure = survey.visit_nodes(positions)
    groups = [
        (
            alike.positions,
            alike.mismatches,
            alike.worst,
            alike.solution,
            alike.fits_if_empty,
            alike.is_unknown,
            alike.resources,
            [each and each.reason for each in (survey.mismatch(alike), survey.mismatch(alike, if_empty=True))],
        )
        for alike in survey.groups
    ]
    return failure, groups


@pytest.mark.parametrize("seed", range(40))
def test_alike_nodes_have_the_results_of_single_nodes(seed):
    choose = random.Random(seed)
    view = random_cluster(choose)
    pods = [random_pod(choose) for _ in range(4)]
    assert [visited(pod, view) for pod in pods] == [visited(pod, view, range(NODES)) for pod in pods]


def checks_of_second_question(nodes):
    """The steps between which a question can be cancelled, once another has read the same of the devices."""
    slices = [k8s.resource_slice(k8s.gpus(4), f"node-{number}") for number in range(nodes)]
    view = ManifestsView([SERVING, *BASE[1:4], *slices, *(k8s.node(f"node-{number}") for number in range(nodes))])
    calls = []
    for gpus in "12":
        (question,) = questions(k8s.pod({GPU: gpus}, stored=True), "team-a", view, DEFAULTS)
        calls.clear()
        with bounded_by(Work(check=lambda: calls.append(1))):
            outcome = simulate(question, view, DEFAULTS)
        assert outcome.fit_now == nodes
    return len(calls)


def test_further_questions_about_alike_devices_cost_no_steps_for_each_node():
    assert checks_of_second_question(200) == checks_of_second_question(20)
