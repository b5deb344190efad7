"""deploy/apply-webhooks.sh replaces the webhook configurations, there and back, without a moment in which calls fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from testbed import manifests
from testbed.version_before import webhook_configurations
from testbed.webhook_configurations import called_at, current_configurations

SCRIPT = Path(__file__).parents[2] / "deploy" / "apply-webhooks.sh"
FOLDERS = os.pathsep.join((os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ["PATH"]))
VERSIONS = {"before": webhook_configurations(), "now": current_configurations()}


@pytest.fixture
def installed(real):
    """The webhook configurations, which are restored."""
    stored = [real.get(each["kind"], each["metadata"]["name"]).object for each in VERSIONS["now"]]
    yield stored
    for document in stored:
        now = real.get(document["kind"], document["metadata"]["name"]).object
        document["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
        assert real.api.replace(document).accepted


@pytest.fixture
def run(real, tmp_path):
    """Runs a command that ends with a file of manifests: those of a version."""
    for program in ("kubectl", "jq"):
        if shutil.which(program, path=FOLDERS) is None:
            pytest.skip(f"there is no {program} here")
    environ = {**os.environ, "PATH": FOLDERS, "KUBECONFIG": str(real.kubeconfig)}

    def run(command, version):
        file = tmp_path / f"{version}.yaml"
        file.write_text(yaml.safe_dump_all([called_at(real.service.url, each) for each in VERSIONS[version]]))
        subprocess.run([*command, file], env=environ, check=True, capture_output=True, text=True)

    return run


def clients(cluster):
    """The webhooks that are installed, each with its caBundle."""
    return {
        webhook["name"]: webhook["clientConfig"].get("caBundle")
        for each in VERSIONS["now"]
        for webhook in cluster.get(each["kind"], each["metadata"]["name"]).object["webhooks"]
    }


def names(version):
    return {webhook["name"] for document in VERSIONS[version] for webhook in document["webhooks"]}


def test_webhooks_of_another_version_have_the_ca_bundle_at_once(real, installed, run):
    (bundle,) = {*clients(real).values()}
    team = real.namespace(dra="enabled")
    run(["kubectl", "apply", "--validate=false", "-f"], "now")
    for version in ("before", "now"):
        run(["sh", SCRIPT], version)
        assert clients(real) == dict.fromkeys(names(version), bundle)
        assert "resourceClaims" in real.create(manifests.pod(team), dry_run=True).object["spec"]
