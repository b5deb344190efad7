"""Patches among manifests get one hint to review the output of kustomize."""

import pytest
import yaml
from click.testing import CliRunner

from policies.admission import review
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.findings import labelled_text
from webhook.cli import main
from webhook.cli.folders import patch_files, read_kustomizations
from webhook.cluster.manifests import ManifestsView

HINT = "review the output of `kubectl kustomize`"
REQUIRED = ("operator", "daemonsets", "driver", "toolkit", "devicePlugin", "dcgmExporter", "dcgm", "gfd")


def findings(**spec):
    document = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": spec,
    }
    request = Request(document, group="nvidia.com", kind="ClusterPolicy")
    return review(request, ManifestsView([], [document]), DEFAULTS).findings


def test_most_required_fields_missing_is_one_hint():
    (found,) = findings(dcgm={"enabled": True})
    assert found.severity is Severity.DENY
    assert labelled_text(found) == (
        "spec: looks like a patch, because 8 of 9 required fields are missing; the API server refuses it as an object; "
        f"{HINT} [GA101]"
    )


def test_directives_of_kustomize_are_one_hint():
    found = findings(toolkit={"env": [{"name": "A", "$patch": "delete"}]}, dcgm={"$patch": "replace", "enabled": False})
    assert [labelled_text(each) for each in found] == [
        f"spec: looks like a patch, because it has directives of kustomize; {HINT} [GA101]"
    ]


def test_mistakes_in_a_patch_are_found():
    assert ("GA101", Severity.DENY) in [
        (found.rule.id, found.severity) for found in findings(driver={"kernelModuleType": "precompiled"})
    ]


def test_forgotten_fields_are_one_refusal():
    found = findings(**{name: {} for name in REQUIRED[2:]})
    assert [labelled_text(each) for each in found if each.rule.id == "GA101"] == [
        (
            "spec: 3 required fields are missing: daemonsets, nodeStatusExporter, operator; the API server refuses the object "
            "without them; add daemonsets: {}, and the others like it [GA101]"
        )
    ]


def test_one_forgotten_field_is_reported_at_its_place():
    (found,) = (each for each in findings(**{name: {} for name in REQUIRED}) if each.rule.id == "GA101")
    assert str(found.path) == "spec.nodeStatusExporter"


@pytest.mark.parametrize("operation", ["replace", "add", "remove"])
def test_json_patch_is_reported_as_one(tmp_path, operation):
    file = tmp_path / "patch.yaml"
    file.write_text(yaml.safe_dump([{"op": operation, "path": "/spec/driver/version", "value": "580.95.05"}]))
    done = CliRunner().invoke(main, ["review", str(file)])
    assert f"looks like a JSON patch; {HINT}" in done.output


@pytest.mark.parametrize("field", ["patches", "patchesJson6902"])
def test_files_that_a_kustomization_names_as_patches_are_skipped_with_the_hint(tmp_path, field):
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {}}},
    }
    (overlay / "memory.yaml").write_text(yaml.safe_dump(patch))
    (overlay / "replicas.yaml").write_text(yaml.safe_dump([{"op": "replace", "path": "/spec/replicas", "value": 2}]))
    named = [
        {"path": "memory.yaml"},
        {"path": "../overlay/replicas.yaml", "target": {"kind": "Deployment"}},
        {"patch": "x"},
    ]
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["../base"], field: named}))
    (tmp_path / "pod.yaml").write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}})
    )
    done = CliRunner().invoke(main, ["review", str(tmp_path)])
    assert done.exit_code == 0
    assert f"2 files skipped: patches; {HINT}" in done.output


def test_strategic_merge_patches_are_named_by_their_path_or_written_out(tmp_path):
    kustomization = tmp_path / "kustomization.yml"
    kustomization.write_text(yaml.safe_dump({"patchesStrategicMerge": ["a.yaml", "kind: Pod\nmetadata: {name: a}\n"]}))
    (tmp_path / "broken").mkdir()
    broken = tmp_path / "broken" / "kustomization.yaml"
    broken.write_text("patches: [")
    found = read_kustomizations([str(kustomization), str(broken), "b.yaml"])
    assert patch_files(found) == {str(tmp_path / "a.yaml")}


@pytest.mark.parametrize(
    ("field", "exit_code"),
    [
        ({"labels": [{"pairs": {"app": "llm"}, "includeSelectors": True}]}, 0),
        ({"commonLabels": {"app": "llm"}}, 0),
        ({"labels": [{"pairs": {"app": "llm"}}]}, 1),
    ],
)
def test_selectors_that_a_kustomization_writes_are_not_missing(tmp_path, field, exit_code):
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm"},
        "spec": {"template": template},
    }
    (tmp_path / "deployment.yaml").write_text(yaml.safe_dump(deployment))
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["deployment.yaml"], **field}))
    done = CliRunner().invoke(main, ["review", str(tmp_path)])
    assert (done.exit_code, "selector is missing; a Deployment" in done.output) == (exit_code, exit_code == 1)
