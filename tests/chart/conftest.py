"""The chart, rendered by a real Helm, and the manifests that it is compared with."""

import copy
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from testbed import libyaml
from testbed.helm import VERSIONS, Helm, NoHelmError

ROOT = Path(__file__).parents[2]
NEWEST = next(iter(VERSIONS))
OF_RELEASES = {
    "app.kubernetes.io/instance": "gpu-admission",
    "app.kubernetes.io/version": version("gpu-admission"),
    "app.kubernetes.io/managed-by": "Helm",
    "helm.sh/chart": f"gpu-admission-{version('gpu-admission')}",
}
"""The labels that objects of a release have, and manifests do not."""


def pytest_collection_modifyitems(items):
    """One worker downloads Helm, and the others wait for it."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(300))


def started(version, folder):
    try:
        return Helm(version, folder)
    except NoHelmError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def helm(tmp_path_factory):
    """The newest Helm."""
    return started(NEWEST, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session", params=VERSIONS)
def any_helm(request, tmp_path_factory):
    """Each version of Helm."""
    return started(request.param, tmp_path_factory.mktemp("helm"))


def identity(document):
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def without_labels_of_releases(document):
    """An object whose pods and itself have all labels, without those that only a release has."""
    template = document.get("spec", {}).get("template", {}) if document["kind"] in ("Deployment", "Job") else {}
    for metadata in [document["metadata"], *([template["metadata"]] if template else [])]:
        labels = metadata["labels"]
        assert {name: labels.pop(name, None) for name in OF_RELEASES} == OF_RELEASES, identity(document)
        assert {"app.kubernetes.io/component", "app.kubernetes.io/part-of"} <= labels.keys(), identity(document)
    return document


def is_hook(document):
    return "helm.sh/hook" in document["metadata"].get("annotations", {})


@pytest.fixture(scope="session")
def installed_by():
    """What an installation of rendered objects leaves in a cluster, by identity: the hooks apply the webhooks."""

    def installed_by(documents):
        all_of_them = [without_labels_of_releases(copy.deepcopy(document)) for document in documents]
        left = [document for document in all_of_them if not is_hook(document)]
        for document in left:
            annotations = document["metadata"].get("annotations", {})
            if document["kind"] == "CustomResourceDefinition":
                assert annotations.pop("helm.sh/resource-policy") == "keep"
            if not annotations:
                document["metadata"].pop("annotations", None)
        (file,) = (each for each in documents if each["kind"] == "ConfigMap" and is_hook(each))
        applied = libyaml.load_all(file["data"]["webhooks.yaml"])
        webhooks = [without_labels_of_releases(each) for each in applied if "webhooks" in each]
        found = {identity(document): document for document in (*left, *webhooks)}
        assert len(found) == len(left) + len(webhooks), "an object is there twice"
        return found

    return installed_by


@pytest.fixture(scope="session")
def chart(helm, installed_by):
    """What the chart installs with values."""
    return lambda values=None: installed_by(helm.template(values))


@pytest.fixture(scope="session")
def manifests():
    """The objects of a text of manifests, by identity; the namespace is not the chart's."""

    def manifests(text):
        documents = [document for document in libyaml.load_all(text) if document]
        return {identity(document): document for document in documents if document["kind"] != "Namespace"}

    return manifests


@pytest.fixture(scope="session")
def kustomized(manifests):
    """The objects of a kustomization, as kubectl builds them."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, for kubectl kustomize")

    def kustomized(folder):
        done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return manifests(done.stdout)

    return kustomized


@pytest.fixture
def with_component(tmp_path, kustomized):
    """The default overlay with a component of deploy/."""

    def with_component(name, **more):
        (tmp_path / "deploy").symlink_to(ROOT / "deploy")
        kustomization = {"resources": ["deploy/overlays/default"], "components": [f"deploy/components/{name}"], **more}
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return kustomized(tmp_path)

    return with_component
