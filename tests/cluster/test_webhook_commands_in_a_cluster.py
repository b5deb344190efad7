"""`apply-webhooks` and `delete-webhooks`: there and back, without a moment in which calls fail."""

import os

import pytest
import yaml

from testbed import libyaml, manifests
from testbed.commands import run_command
from testbed.webhook_configurations import called_at, current_configurations, deployment, roll_out

VERSIONS = {
    "now": current_configurations(),
    "fewer": [{**each, "webhooks": each["webhooks"][:-1]} for each in current_configurations()],
}
KINDS = [document["kind"] for document in VERSIONS["now"]]


@pytest.fixture
def installed(cluster):
    """The webhook configurations, which are restored."""
    stored = [cluster.get(kind, "gpu-admission").object for kind in KINDS]
    yield stored
    for document in stored:
        now = cluster.get(document["kind"], "gpu-admission").object
        restored = cluster.api.replace({**now, "webhooks": document["webhooks"]})
        assert restored.accepted, restored.message


@pytest.fixture
def service(cluster):
    """The Deployment, which has been rolled out."""
    roll_out(cluster)
    yield
    cluster.delete("Deployment", "gpu-admission", "gpu-admission")


@pytest.fixture
def run(cluster, tmp_path):
    """Runs `gpu-admission` as the administrator."""
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}

    def run(*arguments):
        environment = {**inherited, "KUBECONFIG": str(cluster.kubeconfig)}
        return run_command(*arguments, cwd=tmp_path, environment=environment)

    return run


@pytest.fixture
def manifests_of(cluster, tmp_path):
    """Writes the manifests of a version, whose webhooks are called where the replica is."""

    def write(version, *others):
        file = tmp_path / f"{version}.yaml"
        called = [called_at(cluster.service.url, document) for document in VERSIONS[version]]
        file.write_text(yaml.safe_dump_all([*called, *others]))
        return file

    return write


def clients(cluster):
    """The webhooks that are installed, each with its caBundle."""
    return {
        webhook["name"]: webhook["clientConfig"].get("caBundle")
        for kind in KINDS
        for webhook in cluster.get(kind, "gpu-admission").object["webhooks"]
    }


def names(version):
    return {webhook["name"] for document in VERSIONS[version] for webhook in document["webhooks"]}


def test_webhooks_of_another_version_have_the_ca_bundle_at_once(cluster, installed, service, run, manifests_of):
    (bundle,) = {*clients(cluster).values()}
    team = cluster.namespace(dra="enabled")
    for version, options in (("fewer", ["--rollback"]), ("now", [])):
        done = run("apply-webhooks", *options, manifests_of(version))
        assert (done.returncode, done.stdout) == (0, "".join(f"{kind} gpu-admission configured\n" for kind in KINDS))
        assert clients(cluster) == dict.fromkeys(names(version), bundle)
        assert "resourceClaims" in cluster.create(manifests.pod(team), dry_run=True).object["spec"]


def test_webhooks_wait_for_a_service_of_their_version(cluster, installed, service, run, manifests_of):
    done = run("apply-webhooks", manifests_of("fewer", deployment("gpu-admission:next")))
    assert done.returncode == 1
    assert done.stderr == (
        "Error: Deployment gpu-admission in namespace gpu-admission runs image gpu-admission:tested, but the manifests have "
        "gpu-admission:next: apply the service first, because replicas of another version do not answer these webhooks "
        "(docs/upgrade.md)\n"
    )
    assert clients(cluster).keys() == names("now")


@pytest.mark.parametrize(("before", "after"), [("fewer", "now"), ("now", "fewer")])
def test_kubectl_apply_continues_from_what_the_command_applied(
    cluster, installed, service, run, manifests_of, before, after
):
    """A webhook that `kubectl apply` added and the command removed does not come back, and none is lost."""
    for document in libyaml.load_all(manifests_of(before).read_text()):
        assert cluster.apply(document).accepted
    assert run("apply-webhooks", manifests_of(after)).returncode == 0
    for document in libyaml.load_all(manifests_of(after).read_text()):
        assert cluster.apply(document).accepted
    assert clients(cluster).keys() == names(after)
    assert None not in clients(cluster).values()


def test_saved_webhooks_are_restored(cluster, installed, service, run, tmp_path):
    """As docs/break-glass.md does; the file is what `kubectl get -o yaml` prints."""
    saved = tmp_path / "saved.yaml"
    saved.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": installed}))
    open_webhooks = [{**webhook, "failurePolicy": "Ignore"} for webhook in installed[0]["webhooks"]]
    assert cluster.api.replace({**installed[0], "webhooks": open_webhooks}).accepted
    assert cluster.delete(KINDS[1], "gpu-admission").accepted
    done = run("apply-webhooks", saved)
    assert done.stdout == f"{KINDS[0]} gpu-admission configured\n{KINDS[1]} gpu-admission created\n"
    assert [cluster.get(kind, "gpu-admission").object["webhooks"] for kind in KINDS] == [
        document["webhooks"] for document in installed
    ]


def test_kubectl_applies_after_saved_webhooks_were_restored(cluster, installed, service, run, manifests_of, tmp_path):
    documents = [*libyaml.load_all(manifests_of("now").read_text())]
    for document in documents:
        assert cluster.apply(document).accepted
    items = [cluster.get(kind, "gpu-admission").object for kind in KINDS]
    before = clients(cluster)
    saved = tmp_path / "saved.yaml"
    saved.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    opened = [{**webhook, "failurePolicy": "Ignore"} for webhook in items[0]["webhooks"]]
    assert cluster.api.replace({**items[0], "webhooks": opened}).accepted
    assert run("apply-webhooks", saved).returncode == 0
    for document in documents:
        answer = cluster.apply(document)
        assert answer.accepted, answer.message
    assert clients(cluster) == before


def test_deleted_webhooks_are_created_again(cluster, installed, service, run, manifests_of):
    for outcome in ("deleted", "not found"):
        assert run("delete-webhooks").stdout == "".join(f"{kind} gpu-admission {outcome}\n" for kind in KINDS)
    assert [cluster.get(kind, "gpu-admission").code for kind in KINDS] == [404, 404]
    done = run("apply-webhooks", manifests_of("now"))
    assert done.stdout == "".join(f"{kind} gpu-admission created\n" for kind in KINDS)
