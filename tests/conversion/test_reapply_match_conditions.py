"""The entry `reapply` is called for updates of the spec of pods that we marked."""

import copy

import pytest
import yaml
from click.testing import CliRunner

from policies.admission import entries_called, review
from policies.kubernetes.names import MANAGED, RECORD
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cli import main
from webhook.cluster.manifests import ManifestsView

RECORDED = '{"containers":[{"name":"train","kind":"container","resources":{"nvidia.com/gpu":1}}]}'
STORED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train",
        "namespace": "a",
        "labels": {MANAGED: "true"},
        "annotations": {RECORD: RECORDED},
    },
    "spec": {
        "containers": [
            {"name": "train", "image": "a:1", "resources": {"claims": [{"name": "gpu", "request": "train"}]}}
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu-c6e64bdbb49dc79c"}],
    },
}
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: a}
spec:
  containers:
  - {name: train, image: "a:2", resources: {limits: {nvidia.com/gpu: 1}}}
"""


def pod(*, image="a:2", label="true", **metadata):
    document = copy.deepcopy(STORED)
    document["spec"]["containers"][0]["image"] = image
    document["metadata"] |= {"labels": {MANAGED: label}, **metadata}
    return document


def called(document, stored=STORED, **fields):
    request = Request(document, stored, operation="UPDATE", namespace="a", **fields)
    return [entry.name for entry in entries_called(request, ManifestsView(), DEFAULTS)]


def test_update_of_the_spec_of_a_marked_pod_is_reviewed():
    assert called(pod()) == ["reapply", "guard-changes"]


def test_mark_that_is_taken_away_in_the_same_update_does_not_matter():
    assert called(pod(label="")) == ["reapply", "guard-changes"]


@pytest.mark.parametrize(
    ("document", "stored", "fields"),
    [
        (pod(image="a:1", annotations={"note": "x"}), STORED, {}),
        (pod(label=""), pod(image="a:1", label=""), {}),
        (pod(deletionTimestamp="2026-08-11T09:10:17Z"), STORED, {}),
        (pod(), STORED, {"subresource": "status"}),
        (pod(), STORED, {"subresource": "resize"}),
    ],
    ids=["spec is the same", "not marked", "being deleted", "status", "resize"],
)
def test_other_updates_are_not_reviewed(document, stored, fields):
    assert "reapply" not in called(document, stored, **fields)


def test_entry_leaves_other_operations_alone():
    request = Request(pod(), STORED, operation="CREATE", namespace="a", entry="reapply")
    assert (review(request, ManifestsView(), DEFAULTS).patch, review(request, ManifestsView(), DEFAULTS).findings) == (
        (),
        (),
    )


def reapplied(**metadata):
    """The answer of the entry to an update that brings the converted resources back."""
    amounts = {"nvidia.com/gpu": 1}
    container = {"name": "train", "image": "a:2", "resources": {"limits": amounts, "requests": amounts}}
    document = pod(**metadata) | {"spec": {"containers": [container]}}
    request = Request(document, STORED, operation="UPDATE", namespace="a", entry="reapply")
    return review(request, ManifestsView(), DEFAULTS)


def test_entry_leaves_pods_alone_that_are_being_deleted():
    assert reapplied().patch
    assert reapplied(deletionTimestamp="2026-08-11T09:10:17Z").patch == ()


def test_malformed_pod_is_left_to_the_api_server():
    request = Request(pod() | {"spec": {"containers": [1]}}, STORED, operation="UPDATE", namespace="a", entry="reapply")
    assert review(request, ManifestsView(), DEFAULTS).patch == ()


def test_offline_review_of_an_update_shows_the_stored_form(tmp_path):
    (tmp_path / "new.yaml").write_text(MANIFEST)
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(STORED))
    arguments = ["--operation", "UPDATE", "--old", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml"), "-o", "yaml"]
    result = CliRunner().invoke(main, ["review", *arguments])
    assert result.exit_code == 0
    assert libyaml.load(result.stdout)["spec"] == pod()["spec"]
