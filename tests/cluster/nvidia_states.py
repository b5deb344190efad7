"""States of nodes with four H100s, and what NVIDIA's own device plugin, GPU Feature Discovery and mig-parted make of them.

The facts are those of `../shared/reference/nvidia`, which lies beside the project where it is developed.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from testbed import manifests

_FACTS = Path(__file__).parents[3] / "shared" / "reference" / "nvidia" / "H100-SXM5-80GB.json"
_CUTS = {
    "all-disabled": [{"devices": "all", "mig-enabled": False}],
    "off": [{"devices": "all", "mig-enabled": False}],
    "empty": [{"devices": "all", "mig-enabled": True, "mig-devices": {}}],
    "whole": [{"devices": "all", "mig-enabled": True, "mig-devices": {"7g.80gb": 1}}],
    "all-1g.10gb": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}],
    "all-1g.20gb": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.20gb": 4}}],
    "all-3g.40gb": [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 2}}],
    "balanced": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}}],
    "me": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb+me": 1, "2g.20gb": 1}}],
    "half": [
        {"devices": [0, 1], "mig-enabled": False},
        {"devices": [2], "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}},
        {"devices": [3], "mig-enabled": True, "mig-devices": {"1g.10gb": 4}},
    ],
}
"""The entries of mig-parted that make each layout."""
PLUGIN_CONFIG, MIG_CONFIG = "states-plugin", "states-mig"
STRATEGIES = ("none", "single", "mixed")


@dataclass(frozen=True)
class State:
    """The cut and sharing of a node's GPUs."""

    layout: str
    sharing: str
    """The name of the device plugin's configuration."""

    def facts(self, strategy):
        """Labels and resources under a MIG strategy; None if they were not computed, or the components do not start."""
        found = facts().get(f"{self.layout}-{strategy}-{self.sharing}")
        if found is None or found["devicePlugin"]["rc"] or found["gfd"]["rc"]:
            return None
        resources = found["devicePlugin"]["resources"] or {}
        return found["gfd"]["labels"] or {}, {name: each["count"] for name, each in resources.items()}

    def refuses(self, strategy, resource, amount):
        """True if the device plugin was seen to refuse a container that requests so many of a resource."""
        found = facts()[f"{self.layout}-{strategy}-{self.sharing}"]["devicePlugin"]["resources"].get(resource)
        return amount > 1 and found is not None and found["requestOfTwo"] not in ("ok", "")

    @property
    def slices(self):
        """The devices that the DRA driver publishes, without the name of the node."""
        return facts()[f"dra-{self.layout}-default"]["dra"]["slices"]


def facts():
    """The computed states, by layout, strategy and configuration."""
    if not _FACTS.exists():
        pytest.skip("the facts of NVIDIA's components are not beside the project")
    return json.loads(_FACTS.read_text())


def states(strategy):
    """The states in which the components start under a MIG strategy; our webhook refuses the others."""
    middle = f"-{strategy}-"
    found = [State(*key.split(middle, 1)) for key in facts() if middle in key and not key.startswith("dra-")]
    return [state for state in found if state.facts(strategy) is not None]


def objects(strategy):
    """The ConfigMaps, with every configuration that the device plugin takes, and the ClusterPolicy of a strategy."""
    documents = {}
    for key, found in facts().items():
        middle = next((f"-{each}-" for each in STRATEGIES if f"-{each}-" in key and not key.startswith("dra-")), "")
        if middle:
            name = key.split(middle, 1)[1]
            if name == "mps" and strategy == "mixed":
                continue
            kept = {field: value for field, value in found["config"].items() if field != "flags"}
            documents[name] = _merged(documents.get(name), kept)
    plugin = {name: yaml.safe_dump(document) for name, document in documents.items()}
    mig = {"config.yaml": yaml.safe_dump({"version": "v1", "mig-configs": _CUTS})}
    return [
        manifests.config_map("gpu-operator", PLUGIN_CONFIG, plugin),
        manifests.config_map("gpu-operator", MIG_CONFIG, mig),
        policy(strategy),
    ]


def policy(strategy):
    """The ClusterPolicy of a strategy."""
    return manifests.cluster_policy(
        mig={"strategy": strategy},
        devicePlugin={"config": {"name": PLUGIN_CONFIG, "default": "excl"}},
        migManager={"enabled": True, "config": {"name": MIG_CONFIG, "default": "all-disabled"}},
    )


def _merged(document, other):
    """One configuration for all layouts: the resources of both."""
    if document is None or "sharing" not in other:
        return document or other
    (kind,) = other["sharing"]
    both = {**document["sharing"][kind], **other["sharing"][kind]}
    listed = {
        each["name"]: each for each in (*document["sharing"][kind]["resources"], *other["sharing"][kind]["resources"])
    }
    return {**document, "sharing": {kind: {**both, "resources": list(listed.values())}}}
