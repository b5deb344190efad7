"""The chart on a real control plane: Helm installs, tests, upgrades, rolls back and uninstalls it.

There is no node. A kubelet of our own runs the replicas and the commands of the hooks as processes, with the rights of their
ServiceAccounts.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from certs import make_authority
from testbed import deploy, libyaml
from testbed.background import Background
from testbed.connection import connect
from testbed.control_plane import ControlPlane
from testbed.helm import CHART, VERSIONS, Helm, NoHelmError
from testbed.kubelet import Kubelet
from testbed.waiting import until
from testbed.webhook_configurations import current_configurations
from webhook.cluster.answers import Unreachable
from webhook.cluster.resources import RESOURCES

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
pytestmark = [
    pytest.mark.skipif(not ASSETS, reason="no control plane: set KUBEBUILDER_ASSETS"),
]
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
POLICIES = RESOURCES["GPUAdmissionPolicy"].path()
RELEASE = ("gpu-admission", "-n", "gpu-admission")
NOW, BEFORE, BROKEN = "0.1.0", "0.0.9", "0.1.1"
IMAGES = {f"gpu-admission:{NOW}", f"gpu-admission:{BEFORE}"}
WEBHOOKS = {
    NOW: current_configurations(),
    BEFORE: [{**each, "webhooks": each["webhooks"][:-1]} for each in current_configurations()],
}
NAMES = {
    version: sorted(each["name"] for document in documents for each in document["webhooks"])
    for version, documents in WEBHOOKS.items()
}
QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"limits": [{"name": "all", "gpus": 8}]},
}


AUTHORITY = make_authority("of a test", now=datetime.now(UTC)).certificate_pem.decode()
VARIANTS = {
    "default": {},
    "closed": {
        "openshift": True,
        "port": 10250,
        "clientCA": {"configMap": "clients", "names": ["a", "b"]},
        "certificates": {"mode": "secret", "caBundle": AUTHORITY},
        "networkPolicy": {"apiServers": ["192.0.2.1/32", "2001:db8::1/128"]},
        "imagePullSecrets": [{"name": "r"}],
    },
    "small": {
        "replicas": 1,
        "priorityClassName": "",
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"maxUnavailable": "25%"},
        "affinity": {"nodeAffinity": None},
        "topologySpreadConstraints": [],
        "tolerations": [{"operator": "Exists"}],
        "podLabels": {"team": "a"},
        "podAnnotations": {"a.example/b": "1"},
    },
    "settings": {
        "gpuOperator": {"namespaces": ["default"]},
        "settings": {
            "spec": {
                "access": {"mode": "deny", "exemptNamespaces": ["ci"]},
                "configuration": {"operatorNamespaces": ["gpu-operator", "kube-public"]},
                "workloads": {"kinds": [{"group": "example.com", "kind": "Policy", "templates": ["spec.template"]}]},
            }
        },
    },
}


class ChartCluster:
    """A control plane with a kubelet."""

    def __init__(self, api, kubeconfig):
        self.api, self.kubeconfig = api, kubeconfig

    def installed(self):
        """The image of the Deployment, and the names of the installed webhooks."""
        found = self.api.get("Deployment", "gpu-admission", "gpu-admission")
        image = found.object["spec"]["template"]["spec"]["containers"][0]["image"] if found.accepted else ""
        stored = [self.api.get(kind, "gpu-admission") for kind in KINDS]
        names = [each["name"] for answer in stored if answer.accepted for each in answer.object["webhooks"]]
        return {"image": image, "webhooks": sorted(names)}

    def images(self):
        """The images of the replicas that have not ended."""
        pods = self.api.list("Pod", "gpu-admission", labelSelector="app.kubernetes.io/name=gpu-admission")
        return sorted(each["spec"]["containers"][0]["image"] for each in pods)


def answers(control_plane, api):
    control_plane.check()
    try:
        # Helm reads the schema of the API first, which comes a moment later.
        return {api.request("GET", path).code for path in ("/readyz", "/openapi/v2")} == {200}
    except Unreachable:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chart")
    background = Background()
    control_plane = ControlPlane(Path(ASSETS))
    if not all(control_plane.has(name) for name in ("kube-controller-manager", "kube-scheduler")):
        pytest.skip("Deployments and Jobs need kube-controller-manager and kube-scheduler in KUBEBUILDER_ASSETS")
    try:
        file = folder / "admin"
        file.write_text(control_plane.start())
        api = connect(background, file)
        until(lambda: answers(control_plane, api), "the API server answers", 60)
        cluster = ChartCluster(api, file)
        kubelet = cluster.kubelet = Kubelet(api, control_plane.kubeconfig, folder, IMAGES, cluster.installed)
        kubelet.start()
        try:
            yield cluster
        finally:
            print(kubelet.logs())  # noqa: T201 - pytest shows it with failures
            kubelet.stop()
            api.close()
    finally:
        control_plane.stop()
        background.close()


@pytest.fixture(params=VERSIONS)
def helm(request, cluster, tmp_path):
    """Each version of Helm, and a cluster without gpu-admission before and after."""
    yield from started(request.param, cluster, tmp_path)


@pytest.fixture
def newest_helm(cluster, tmp_path):
    """The newest version only."""
    yield from started(next(iter(VERSIONS)), cluster, tmp_path)


def started(version, cluster, folder):
    try:
        helm = Helm(version, folder, cluster.kubeconfig)
    except NoHelmError as error:
        pytest.skip(str(error))
    yield helm
    cluster.kubelet.may_end.set()
    helm.run("uninstall", *RELEASE, "--no-hooks")
    for document in reversed(deploy.all_objects()):
        cluster.api.delete(document["kind"], document["metadata"]["name"], document["metadata"].get("namespace", ""))
    cluster.api.delete("GPUQuota", "gpu", "default")
    until(lambda: cluster.api.get("Namespace", "gpu-admission").code == 404, "the namespace is gone", 60)
    cluster.kubelet.commands.clear()


@pytest.fixture(scope="module")
def charts(tmp_path_factory):
    """The folders of the chart by version: this one, one with fewer webhooks, and one whose replicas are never ready."""
    folder = tmp_path_factory.mktemp("charts")
    for version in (BEFORE, BROKEN):
        shutil.copytree(CHART, folder / version)
        metadata = libyaml.load((CHART / "Chart.yaml").read_text())
        (folder / version / "Chart.yaml").write_text(
            yaml.safe_dump(metadata | {"version": version, "appVersion": version})
        )
    text = yaml.safe_dump_all(WEBHOOKS[BEFORE], explicit_start=True).removeprefix("---\n")
    (folder / BEFORE / "templates" / "_webhooks.tpl").write_text(
        f'{{{{- define "gpu-admission.webhooks" -}}}}\n{text}{{{{- end -}}}}\n'
    )
    return {NOW: CHART, BEFORE: folder / BEFORE, BROKEN: folder / BROKEN}


def hook_objects(cluster):
    """What the hooks have left."""
    jobs = [each["metadata"]["name"] for each in cluster.api.list("Job", "gpu-admission")]
    accounts = [each["metadata"]["name"] for each in cluster.api.list("ServiceAccount", "gpu-admission")]
    roles = cluster.api.get("ClusterRole", "gpu-admission-webhooks").accepted
    return jobs, sorted(set(accounts) - {"default", "gpu-admission"}), roles


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_api_server_accepts_every_object(cluster, newest_helm, values):
    documents = newest_helm.template(values)
    (file,) = (each["data"]["webhooks.yaml"] for each in documents if "webhooks.yaml" in each.get("data", {}))
    documents += [each for each in libyaml.load_all(file) if "webhooks" in each]
    (namespace,) = (each for each in deploy.all_objects() if each["kind"] == "Namespace")
    needed = [each for each in documents if each["kind"] in {"CustomResourceDefinition", "ServiceAccount"}]
    for document in (namespace, *needed):
        cluster.api.create(document).object  # noqa: B018 - raises if it is refused
    until(lambda: cluster.api.request("GET", POLICIES).accepted, "the settings are served")
    for document in documents:
        if document not in needed:
            answer = cluster.api.create(document, dry_run=True)
            assert answer.accepted, f"{document['kind']} {document['metadata']['name']}: {answer.message}"
            assert answer.warnings == ()


def test_installation_is_ready_tested_and_removed(cluster, helm):
    values = helm.values_file({"settings": {"spec": {"access": {"mode": "deny"}}}})
    notes = helm.output("install", *RELEASE[:1], CHART, *RELEASE[1:], "--create-namespace", "--wait", "-f", values)
    assert "gpu-admission 0.1.0 is installed: 2 replicas of gpu-admission:0.1.0." in notes
    assert "kubectl label namespace gpu-admission pod-security.kubernetes.io/enforce=restricted" in notes
    assert cluster.installed() == {"image": f"gpu-admission:{NOW}", "webhooks": NAMES[NOW]}
    assert cluster.api.get("GPUAdmissionPolicy", "default").object["spec"] == {"access": {"mode": "deny"}}
    assert hook_objects(cluster) == ([], [], False)

    tested = helm.output("test", *RELEASE)
    assert "Phase:          Succeeded" in tested
    assert cluster.kubelet.commands[-1].output == "".join(
        f"{kind} gpu-admission is installed as in {file}\n"
        for kind in KINDS
        for file in [cluster.kubelet.commands[-1].output.split(" installed as in ")[1].splitlines()[0]]
    )

    values = helm.values_file({"settings": {"spec": {"access": {"mode": "warn"}}}})
    helm.output("upgrade", *RELEASE[:1], CHART, *RELEASE[1:], "--wait", "-f", values)
    assert cluster.api.get("GPUAdmissionPolicy", "default").object["spec"] == {"access": {"mode": "warn"}}

    cluster.api.create(QUOTA).object  # noqa: B018 - raises if it is refused
    helm.output("uninstall", *RELEASE)
    (deleting,) = (each for each in cluster.kubelet.commands if each.arguments == ("delete-webhooks",))
    assert deleting.seen == {"image": f"gpu-admission:{NOW}", "webhooks": []}
    assert cluster.installed() == {"image": "", "webhooks": []}
    assert cluster.api.get("GPUQuota", "gpu", "default").accepted
    assert hook_objects(cluster) == ([], [], False)


def test_upgrade_and_rollback_keep_their_order(cluster, helm, charts):
    helm.output("install", *RELEASE[:1], charts[BEFORE], *RELEASE[1:], "--create-namespace", "--wait")
    assert cluster.installed() == {"image": f"gpu-admission:{BEFORE}", "webhooks": NAMES[BEFORE]}
    cluster.kubelet.commands.clear()

    cluster.kubelet.may_end.clear()
    with ThreadPoolExecutor(1) as pool:
        upgrading = pool.submit(helm.output, "upgrade", *RELEASE[:1], charts[NOW], *RELEASE[1:])
        try:
            until(
                lambda: (
                    cluster.images().count(f"gpu-admission:{NOW}") == 2
                    and any(
                        "apply-webhooks" in each["metadata"]["name"]
                        for each in cluster.api.list("Pod", "gpu-admission")
                    )
                ),
                "two replicas are new, and the Job runs",
                90,
            )
            # An old replica still drains.
            assert f"gpu-admission:{BEFORE}" in cluster.images()
            assert cluster.installed() == {"image": f"gpu-admission:{NOW}", "webhooks": NAMES[BEFORE]}
        finally:
            cluster.kubelet.may_end.set()
        upgrading.result(120)
    (applying,) = cluster.kubelet.commands
    assert (applying.code, applying.seen) == (0, {"image": f"gpu-admission:{NOW}", "webhooks": NAMES[NOW]})
    assert cluster.images() == [f"gpu-admission:{NOW}"] * 2
    bundles = {
        each["clientConfig"].get("caBundle", "")
        for kind in KINDS
        for each in cluster.api.get(kind, "gpu-admission").object["webhooks"]
    }
    assert len(bundles) == 1
    assert bundles != {""}

    cluster.kubelet.commands.clear()
    helm.output("rollback", *RELEASE[:1], 1, *RELEASE[1:], "--wait")
    (going_back,) = cluster.kubelet.commands
    assert going_back.arguments[-1] == "--rollback"
    assert going_back.seen == {"image": f"gpu-admission:{NOW}", "webhooks": NAMES[BEFORE]}
    assert cluster.installed() == {"image": f"gpu-admission:{BEFORE}", "webhooks": NAMES[BEFORE]}
    assert hook_objects(cluster) == ([], [], False)

    helm.output("upgrade", *RELEASE[:1], charts[NOW], *RELEASE[1:])
    assert cluster.installed() == {"image": f"gpu-admission:{NOW}", "webhooks": NAMES[NOW]}


def test_failed_upgrade_changes_no_webhook_and_rolls_back(cluster, helm, charts):
    helm.output("install", *RELEASE[:1], CHART, *RELEASE[1:], "--create-namespace", "--wait")
    before = [cluster.api.get(kind, "gpu-admission").object["webhooks"] for kind in KINDS]
    rolls_back = "--rollback-on-failure" if helm.version.startswith("4") else "--atomic"
    options = (*RELEASE[1:], rolls_back, "--timeout", "20s", "-f", helm.values_file({"hooks": {"timeoutSeconds": 30}}))
    done = helm.run("upgrade", *RELEASE[:1], charts[BROKEN], *options)
    assert done.returncode == 1
    assert "has been rolled back" in done.stderr
    assert [cluster.api.get(kind, "gpu-admission").object["webhooks"] for kind in KINDS] == before
    assert cluster.installed()["image"] == f"gpu-admission:{NOW}"


def test_hook_that_fails_leaves_its_job_and_no_rights(cluster, helm, charts):
    options = (*RELEASE[1:], "--create-namespace", "-f", helm.values_file({"hooks": {"timeoutSeconds": 30}}))
    done = helm.run("install", *RELEASE[:1], charts[BROKEN], *options)
    assert done.returncode == 1
    assert hook_objects(cluster) == (["gpu-admission-apply-webhooks"], [], False)


def test_installation_by_kubectl_becomes_a_release(cluster, helm):
    for document in deploy.all_objects():
        cluster.api.apply(document).object  # noqa: B018 - raises if it is refused
    done = helm.run("install", *RELEASE[:1], CHART, *RELEASE[1:])
    assert "invalid ownership metadata" in done.stderr
    helm.run("uninstall", *RELEASE, "--no-hooks")
    more = ["--force-conflicts"] if helm.version.startswith("4") else []
    helm.output("install", *RELEASE[:1], CHART, *RELEASE[1:], "--take-ownership", *more, "--wait")
    assert cluster.installed() == {"image": f"gpu-admission:{NOW}", "webhooks": NAMES[NOW]}
    labels = cluster.api.get("Namespace", "gpu-admission").object["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
