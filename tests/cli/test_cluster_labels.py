"""Labels of cluster objects that are not text are errors with their place."""

from __future__ import annotations

import json

import pytest

from webhook.cli.manifest_reader import ManifestReader

NODES = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: a
    labels:
      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
      nvidia.com/gpu.memory: 81559
      nvidia.com/gpu.present: true
- apiVersion: v1
  kind: Namespace
  metadata: {name: team-a, labels: {gpu-admission.io/dra: {enabled: true}}}
"""


@pytest.mark.parametrize("command", ["review", "serve"])
def test_labels_that_are_not_text_are_problems_at_their_places(run, write, pod, command):
    cluster = write("cluster/nodes.yaml", NODES)
    subject = [write("pod.yaml", pod())] if command == "review" else []
    done = run(command, "--cluster", cluster, *subject)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "cluster/nodes.yaml:10:30: metadata.labels[nvidia.com/gpu.memory]: is 81559; "
        "the value of a label must be text, in quotes\n"
        "cluster/nodes.yaml:11:31: metadata.labels[nvidia.com/gpu.present]: is true; "
        "the value of a label must be text, in quotes\n"
        'cluster/nodes.yaml:14:59: metadata.labels[gpu-admission.io/dra]: is {"enabled": true}; '
        "the value of a label must be text, in quotes\n"
        "3 problems; nothing was done\n"
    )


@pytest.mark.parametrize("metadata", ["", " text", " {labels: }", " {labels: [a]}", " {labels: {a: b}}"])
def test_objects_without_such_labels_are_facts(invoke, write, pod, metadata):
    cluster = write("cluster.yaml", f"apiVersion: v1\nkind: Node\nmetadata:{metadata}\n")
    assert invoke("review", "--cluster", cluster, write("pod.yaml", pod())).exit_code == 0


def test_reviewed_node_with_such_a_label_is_looked_at_without_it(reviewed, write, pod):
    more_memory = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [more_memory]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "new", "labels": {"nvidia.com/gpu.memory": 81559}},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}},
    }
    alone, with_node = (
        reviewed(write("all.yaml", *objects))[0]
        for objects in ([pod(affinity=affinity)], [pod(affinity=affinity), node])
    )
    assert alone == with_node


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_null_of_a_label_in_the_cluster_is_empty_text(write, suffix):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"example.com/gpu": None}}}
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [node]}
    file = write(f"nodes.{suffix}", json.dumps(nodes) if suffix == "json" else nodes)
    reader = ManifestReader()
    (found,) = reader.cluster([file])
    reader.check()
    assert found["items"][0]["metadata"]["labels"] == {"example.com/gpu": ""}
