"""The manifests of deploy/, read once."""

import runpy
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from testbed import libyaml

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="session")
def deploy():
    """The folder of manifests."""
    return DEPLOY


@pytest.fixture(scope="session")
def script(deploy):
    """The names of deploy/render.py."""
    return runpy.run_path(str(deploy / "render.py"))


@pytest.fixture(scope="session")
def run_script(script):
    """Run deploy/render.py with arguments, in this process."""

    def run_script(*arguments):
        arguments = [*map(str, arguments)]
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as errors:
            try:
                code = script["main"](arguments)
            except SystemExit as end:
                code = end.code
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())

    return run_script


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
