"""The manifests of deploy/, read once."""

from pathlib import Path

import pytest

from testbed import libyaml

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="session")
def deploy():
    """The folder of manifests."""
    return DEPLOY


@pytest.fixture(scope="session")
def installed():
    """The objects of install.yaml."""
    return list(libyaml.load_all((DEPLOY / "install.yaml").read_text()))


@pytest.fixture(scope="session")
def one(installed):
    """The one object of a kind, with a name where there are several."""

    def one(kind, name=""):
        (found,) = (each for each in installed if each["kind"] == kind and name in ("", each["metadata"]["name"]))
        return found

    return one


@pytest.fixture(scope="session")
def webhooks(one):
    """The webhooks by (mutating or validating, entry)."""
    return {
        (kind.removesuffix("WebhookConfiguration").lower(), webhook["clientConfig"]["service"]["path"][1:]): webhook
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for webhook in one(kind)["webhooks"]
    }


@pytest.fixture(scope="module")
def schema(crd):
    """The schema of the one version of the CRD that a module is about; it brings the fixture `crd`."""
    (version,) = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]
