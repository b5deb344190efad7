"""A cluster whose ClusterPolicy and nodes were changed by the generated commands, and reviews in it."""

import json
import re
import shlex
from pathlib import Path

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.findings import labelled_text
from webhook.cluster.manifests import ManifestsView

VALID = Path(__file__).parents[1] / "configuration" / "valid"
CLUSTER_POLICY = libyaml.load((VALID / "cluster-policy-helm-defaults.yaml").read_text())


def merged(base, patch):
    """A JSON Merge Patch applied."""
    if not isinstance(patch, dict):
        return patch
    return {**base, **{key: merged(base.get(key) or {}, value) for key, value in patch.items()}}


def commands(generated):
    """The commands of the steps, as words."""
    return [shlex.split(line) for step in generated.steps for line in step.lines if line.startswith("kubectl")]


def patched_policy(generated):
    """The ClusterPolicy after the generated patch."""
    (command,) = [command for command in commands(generated) if command[1] == "patch"]
    assert command[:6] == ["kubectl", "patch", "clusterpolicies.nvidia.com/cluster-policy", "--type", "merge", "-p"]
    return merged(CLUSTER_POLICY, json.loads(command[6]))


def labelled_node(generated, product, **labels):
    """A node with a product after the generated label; the selector of the command must select it."""
    (command,) = [command for command in commands(generated) if command[1] == "label"]
    assert command[:4] == ["kubectl", "label", "nodes", "-l"]
    assert command[5] == "--overwrite"
    key, value = command[6].split("=")
    selected = re.fullmatch(r"nvidia\.com/gpu\.product(?:=(\S+)| in \((\S+)\))", command[4])
    assert product in (selected[1] or selected[2]).split(",")
    found = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product, **labels, key: value}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-01", "labels": found}}


def findings(document, *others, old=None):
    """What a review finds in an object beside others."""
    group, _, _ = document["apiVersion"].rpartition("/")
    metadata = document["metadata"]
    request = Request(
        document,
        old_object=old,
        operation="UPDATE" if old else "CREATE",
        group=group,
        kind=document["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )
    return [labelled_text(each) for each in review(request, ManifestsView([*others], [document]), DEFAULTS).findings]
