"""What is kept of objects: everything that rules read, and no secret."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import yaml

import policies
from policies.kubernetes.workloads import WORKLOADS, group_of
from policies.kubernetes.yaml import load_document
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cli.manifest_reader import Manifest
from webhook.cli.snapshots.reductions import reduction_of, without_values
from webhook.cli.subjects import Circumstances, SubjectReader, admit
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES, WORKLOAD_RESOURCES

ROOT = Path(__file__).parents[3]
FOLDERS = (Path(policies.__file__).parent / "rule_examples", ROOT / "tests" / "configuration", ROOT / "examples")
REDUCED = {*WORKLOADS, ("", "Pod"), *(("nvidia.com", kind) for kind in ("ClusterPolicy", "NVIDIADriver", "GPUCluster"))}
NEVER_STORED = {"GA104", "GA109"}
"""Rules on what the API server drops: fields beside spec, and fields that only kubectl's copy of the object still has."""
SECRET = "hunter2"


def reduced(document):
    resource = WORKLOAD_RESOURCES.get((group_of(document), document["kind"])) or RESOURCES[document["kind"]]
    return reduction_of(resource)(document)


def is_reduced(document):
    return (group_of(document), document["kind"]) in REDUCED


def findings(documents):
    """The findings of each object, with all others at hand."""
    view, place = ManifestsView((), documents), load_document("{}")
    reader = SubjectReader(Circumstances(), [], view=view)
    subjects = reader.subjects([Manifest(document, "x.yaml", place, ()) for document in documents])
    return [
        [(each.rule.id, str(each.path), each.message) for each in found if each.rule.id not in NEVER_STORED]
        for found in (admit(subject, view, DEFAULTS).findings for subject in subjects)
    ]


def documents_of(file):
    try:
        documents = list(libyaml.load_all(file.read_text()))
    except yaml.YAMLError:
        return []
    objects = [each for each in documents if isinstance(each, dict) and "kind" in each]
    return [each for one in objects for each in one.get("items", [one]) if "metadata" in each]


@cache
def examples():
    """The objects of each example file that has an object of a reduced kind."""
    found = {file: documents_of(file) for folder in FOLDERS for file in sorted(folder.rglob("*.yaml"))}
    return {file: documents for file, documents in found.items() if any(map(is_reduced, documents))}


def test_reduced_objects_have_the_findings_of_whole_ones():
    for file, documents in examples().items():
        after = findings([reduced(each) if is_reduced(each) else each for each in documents])
        assert after == findings(documents), file


def test_examples_of_every_rule_on_pods_and_on_gpu_software_are_compared():
    compared = {file.parent.name[:3] for file in examples()}
    assert {"GA1", "GA2", "GA3", "GA4", "GA6"} <= compared
    assert len(examples()) > 500


def container(**fields):
    return {
        "name": "main",
        "image": "train:1",
        "env": [{"name": "PASSWORD", "value": SECRET}, {"name": "FROM", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "command": ["sh", "-c", SECRET],
        "args": [SECRET],
        "workingDir": f"/{SECRET}",
        "livenessProbe": {
            "httpGet": {"path": f"/{SECRET}", "httpHeaders": [{"name": "Authorization", "value": SECRET}]}
        },
        "lifecycle": {"postStart": {"exec": {"command": [SECRET]}}},
        "volumeMounts": [{"name": "data", "mountPath": f"/{SECRET}"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "newField": SECRET,
        **fields,
    }


def pod_spec(**fields):
    return {
        "containers": [container(**fields)],
        "initContainers": [container()],
        "ephemeralContainers": [container()],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": [SECRET]}],
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [
            {"name": "host", "hostPath": {"path": "/dev"}},
            {"name": "data", "csi": {"driver": "d", "volumeAttributes": {"token": SECRET}}},
            {"name": "flex", "flexVolume": {"options": {"password": SECRET}}},
        ],
    }


def metadata(**fields):
    applied = {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "example.com/token": SECRET}
    managed = [{"manager": SECRET}]
    return {"name": "train", "namespace": "team-a", "annotations": applied, "managedFields": managed, **fields}


def pod(**fields):
    return {
        "metadata": metadata(),
        "spec": pod_spec(**fields),
        "status": {"phase": "Running", "message": SECRET, "containerStatuses": [{"lastState": {"message": SECRET}}]},
    }


def test_nothing_that_may_hold_a_secret_is_kept_of_a_pod():
    assert SECRET not in json.dumps(reduction_of(RESOURCES["Pod"])(pod()))


def written_at(path, value):
    """A mapping with a value at a path such as `spec.workers[*].template`."""
    for step in reversed(path.split(".")):
        name = step.removesuffix("[*]")
        value = {name: [value] if step.endswith("[*]") else value}
    return value


@pytest.mark.parametrize(("group", "kind"), [key for key, each in WORKLOADS.items() if each.templates])
def test_nothing_that_may_hold_a_secret_is_kept_of_a_workload(group, kind):
    workload = {"metadata": metadata(), "status": {"message": SECRET}}
    for path in WORKLOADS[group, kind].templates:
        workload |= written_at(path, {"metadata": metadata(), "spec": pod_spec()})
    workload.setdefault("spec", {})["entrypoint"] = f"python train.py --token {SECRET}"
    workload["spec"]["sparkConf"] = {"spark.password": SECRET}
    kept = reduction_of(WORKLOAD_RESOURCES[group, kind])(workload)
    assert SECRET not in json.dumps(kept)
    assert "nvidia.com/gpu" in json.dumps(kept)


def test_variables_of_gpu_software_keep_values_only_where_rules_read_them():
    env = [
        {"name": "HTTPS_PROXY", "value": f"http://u:{SECRET}@p"},
        {"name": "CONTAINERD_SOCKET", "value": "/x"},
        {"name": "NVIDIA_API_KEY", "value": SECRET},
    ]
    kept = reduction_of(RESOURCES["ClusterPolicy"])({"metadata": metadata(), "spec": {"toolkit": {"env": env}}})
    assert kept["spec"]["toolkit"]["env"] == [
        {"name": "HTTPS_PROXY", "value": "redacted"},
        {"name": "CONTAINERD_SOCKET", "value": "/x"},
        {"name": "NVIDIA_API_KEY", "value": "redacted"},
    ]
    assert "annotations" not in kept["metadata"] or not kept["metadata"]["annotations"]


def test_values_that_a_read_variable_refers_to_are_kept():
    env = [
        {"name": "INNER", "value": "all"},
        {"name": "MINE", "value": "$(INNER)"},
        {"name": "OTHER", "value": SECRET},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "$(MINE)"},
    ]
    (kept,) = reduction_of(RESOURCES["Pod"])(pod(env=env))["spec"]["containers"]
    assert kept["env"] == [*env[:2], {"name": "OTHER", "value": "redacted"}, env[3]]


def test_pods_that_have_ended_are_left_out():
    assert reduction_of(RESOURCES["Pod"])({**pod(), "status": {"phase": "Succeeded"}}) is None


def test_secrets_are_never_kept():
    with pytest.raises(KeyError):
        reduction_of(RESOURCES["Secret"])


def test_config_maps_without_content_keep_their_keys():
    config_map = {"kind": "ConfigMap", "data": {"a": SECRET}, "binaryData": {"b": SECRET}}
    assert without_values(config_map) == {"kind": "ConfigMap", "data": {"a": ""}, "binaryData": {"b": ""}}


@pytest.mark.parametrize("key", ["kueue.x-k8s.io/pod-suspending-parent", "nvidia.com/use-gputype"])
def test_annotations_that_neighbours_read_are_kept(key):
    metadata = {"name": "a", "namespace": "b", "annotations": {key: "x", "example.com/secret": "y"}}
    kept = reduction_of(RESOURCES["Pod"])({"metadata": metadata, "spec": {"containers": []}})
    assert kept["metadata"]["annotations"] == {key: "x"}
