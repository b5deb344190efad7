"""kubernetes-asyncio without its models. Each test has a process of its own: what is imported stays imported."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def outcome():
    """What a script prints; a script that fails fails the test."""

    def run(script, **environ):
        root = Path(__file__).parents[2]
        command = [sys.executable, "-W", "error", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=environ, timeout=50)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    return run


LOAD = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
from webhook.cluster.kubernetes_config import kubernetes_config
"""


def test_models_and_apis_are_not_imported(outcome):
    script = LOAD + "before = len(sys.modules); kubernetes_config(); print(len(sys.modules) - before < 300)"
    assert outcome(script) == ["True"]


def test_whole_library_can_be_imported_afterwards(outcome):
    script = LOAD + (
        "kubernetes_config()\n"
        "print([name for name in sys.modules if name.startswith('kubernetes_asyncio')])\n"
        "import kubernetes_asyncio.client, kubernetes_asyncio.config\n"
        "print(kubernetes_asyncio.client.CoreV1Api.__name__, kubernetes_asyncio.config.load_kube_config.__name__)"
    )
    assert outcome(script) == ["[]", "CoreV1Api load_kube_config"]


def test_library_that_is_there_already_is_used(outcome):
    script = (
        "import kubernetes_asyncio.client as client\n"
        + LOAD
        + ("print(kubernetes_config().configuration is client.Configuration)")
    )
    assert outcome(script) == ["True"]


def test_library_that_is_built_otherwise_is_imported_whole(outcome):
    script = LOAD + (
        "import webhook.cluster.kubernetes_config as module\n"
        "real = module.import_module\n"
        "def odd(name):\n"
        "    if name.endswith('client.configuration') and 'kubernetes_asyncio.client.api' not in sys.modules:\n"
        "        if not hasattr(sys.modules['kubernetes_asyncio'], '__file__'):\n"
        "            raise ImportError('no module client.configuration')\n"
        "    return real(name)\n"
        "module.import_module = odd\n"
        "print(kubernetes_config().kubeconfig_loader.__name__)\n"
        "print('kubernetes_asyncio.client.api' in sys.modules)"
    )
    assert outcome(script) == [
        (
            "kubernetes-asyncio has an unknown structure (no module client.configuration); importing all of it, which "
            "takes 35 MiB more"
        ),
        "KubeConfigLoader",
        "True",
    ]


def test_classes_are_those_of_the_library(outcome):
    script = LOAD + (
        "found = kubernetes_config()\n"
        "print(found.configuration.__name__, found.kubeconfig_merger.__name__, found.kubeconfig_loader.__name__, "
        "found.in_cluster_loader.__name__)"
    )
    assert outcome(script) == ["Configuration KubeConfigMerger KubeConfigLoader InClusterConfigLoader"]
