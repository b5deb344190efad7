"""Subjects with equal requests share the visits of nodes, and get the same fits as alone."""

import random
from pathlib import Path

import pytest

from policies.outcome import Situation, subjects_of
from policies.outcome.fits import FitFinder
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.outcome.clusters import BASE, GPU, bound
from tests.plan.nodes import gpu_node
from webhook.cli.settings import read_cluster_files
from webhook.cluster.manifests import ManifestsView

EXAMPLES = Path(__file__).parents[2] / "examples"
PRODUCTS = ("NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4")


def random_situation(seed):
    """Nodes of several products with pods, some of which hold claims."""
    choose = random.Random(seed)
    objects = [*BASE, k8s.template({"count": 2})]
    for number in range(6):
        name = f"node-{number}"
        if choose.random() < 0.5:
            objects.append(gpu_node(name, 4, product=choose.choice(PRODUCTS)))
        else:
            objects += [k8s.node(name), k8s.resource_slice(k8s.gpus(4), name)]
            pod = k8s.pod(
                name=f"claims-{number}",
                stored=True,
                nodeName=name,
                resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"),
            )
            objects += [pod, k8s.holding(f"claims-{number}", [0, choose.randrange(1, 4)], name, "team-a")]
    for number in range(8):
        where = f"node-{choose.randrange(6)}"
        objects.append(bound(f"pod-{number}", where, gpus=choose.choice([1, 2]), owner=f"ReplicaSet/r-{number % 5}"))
    objects.append(k8s.pod({GPU: "3"}, name="pending", stored=True))
    return Situation(ManifestsView(objects), DEFAULTS)


def fits(situation, *, shares):
    """The fit of each subject."""
    finder = FitFinder(situation)
    finder.has_local_devices = shares and finder.has_local_devices
    return {each.label: finder.fit(each) for each in subjects_of(*situation)}


@pytest.mark.parametrize("seed", range(12))
def test_fits_of_random_clusters_are_those_of_single_visits(seed):
    situation = random_situation(seed)
    assert fits(situation, shares=True) == fits(situation, shares=False)


def test_fits_of_the_examples_are_those_of_single_visits():
    names = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy", "cluster-with-operator")
    files = read_cluster_files([str(EXAMPLES / name) for name in names], None)
    situation = Situation(ManifestsView(files.facts), files.settings)
    assert fits(situation, shares=True) == fits(situation, shares=False)
