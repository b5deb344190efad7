"""Nodes with labels of GPU Feature Discovery, in `nodes/`, and small clusters and pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.kubernetes.pods import Pod
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

NODES = Path(__file__).parent / "nodes"


def fixture(name):
    """The objects of the one file in `nodes/` whose name begins so: `f1`, `gpucluster`."""
    (path,) = NODES.glob(f"{name}*.yaml")
    return list(libyaml.load_all(path.read_text()))


@pytest.fixture
def node():
    """A node of a fixture, with changes: `node("f1", "other-name", {"label": "value"}, {"nvidia.com/gpu": "2"})`.

    A label or an amount that is None is taken away.
    """

    def node(fixture_name, name=None, labels=None, offers=None):
        (document,) = fixture(fixture_name)
        if name:
            document["metadata"]["name"] = document["metadata"]["labels"]["kubernetes.io/hostname"] = name
        for place, changes in ((document["metadata"]["labels"], labels), (document["status"]["allocatable"], offers)):
            place.update(changes or {})
            for key in [key for key, value in place.items() if value is None]:
                del place[key]
        return document

    return node


@pytest.fixture
def cluster():
    """A view of fixtures, by name, and of other objects: `cluster("f1", "f4", some_node)`."""

    def cluster(*parts):
        return ManifestsView([item for part in parts for item in (fixture(part) if isinstance(part, str) else [part])])

    return cluster


@pytest.fixture
def pod():
    """A pod with one container, `main`: `pod({"nvidia.com/gpu": 1}, nodeSelector={...}, annotations={...})`."""

    def pod(limits=None, *, annotations=None, **spec):
        container = {"name": "main", "image": "train", "resources": {"limits": limits or {}}}
        metadata = {"name": "train", "namespace": "team-a", "annotations": annotations or {}}
        return Pod.read(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
        )

    return pod
