"""`gpu-admission doctor`: an installation that works, then with one part broken after the other, and repaired as it says."""

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from testbed import deploy, libyaml, manifests
from testbed.commands import run_command
from testbed.control_plane import kubeconfig
from testbed.replica_pods import ReplicaPods
from testbed.waiting import until
from testbed.webhook_configurations import called_at, current_configurations

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
NAMES = {"caBundle", "calls", "certificate", "crds", "leader", "objects", "quotas", "rbac", "readiness", "replicas"} | {
    "settings",
    "templates",
    "webhooks",
}
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "KUBECONFIG")}
PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"


@pytest.fixture(scope="module")
def _pods(_real, background):
    if not (_real.makes_pods and _real.schedules):
        pytest.skip("no controllers run here, which create and bind pods")
    _real.service.start()
    pods = ReplicaPods(_real, background)
    try:
        pods.create()
        yield pods
    finally:
        pods.delete()


@pytest.fixture
def pods(real, _pods):
    """The pods of the replicas, which API servers reach; the service runs."""
    assert real.service
    return _pods


@pytest.fixture
def run(tmp_path):
    """Runs gpu-admission as the administrator of a cluster, or with another kubeconfig."""

    def run(cluster, *arguments, file=None):
        options = ("--kubeconfig", file or cluster.kubeconfig)
        return run_command(*arguments, *options, cwd=tmp_path, environment=ENVIRONMENT)

    return run


@pytest.fixture
def doctor(run):
    """Runs doctor; returns its checks and exit code."""

    def doctor(cluster, file=None):
        done = run(cluster, "doctor", "-o", "json", file=file)
        assert done.returncode in (0, 1, 4, 5), done.stderr
        return json.loads(done.stdout)["checks"], done.returncode

    return doctor


def found(checks, status, name):
    return [each for each in checks if (each["status"], each["name"]) == (status, name)]


@pytest.fixture
def changed(cluster):
    """Changes the webhooks of a configuration, which are restored at the end."""
    yield from changes_of(cluster)


@pytest.fixture
def changed_real(real):
    """The same on the real control plane."""
    yield from changes_of(real)


def changes_of(cluster):
    stored = {kind: cluster.get(kind, "gpu-admission").object["webhooks"] for kind in KINDS}

    def change(kind, update):
        document = cluster.get(kind, "gpu-admission").object
        answer = cluster.api.replace({**document, "webhooks": update(document["webhooks"])})
        assert answer.accepted, answer.message

    yield change
    for kind, webhooks in stored.items():
        if cluster.get(kind, "gpu-admission").object["webhooks"] != webhooks:
            change(kind, lambda _, kept=webhooks: kept)


@pytest.fixture
def manifests_file(real, tmp_path):
    """The manifests that are installed, whose webhooks are called where the replica is."""
    file = tmp_path / "installed.yaml"
    called = [called_at(real.service.url, document) for document in current_configurations()]
    deployment = [each for each in deploy.all_objects() if each["kind"] == "Deployment"]
    file.write_text(yaml.safe_dump_all([*called, *deployment]))
    return file


def test_installation_that_works_has_only_known_warnings(real, pods, doctor):
    until(lambda: found(doctor(real)[0], "ok", "leader"), "a replica leads")
    checks, code = doctor(real)
    assert [each for each in checks if each["status"] in ("failing", "unknown")] == []
    warned = [each for each in checks if each["status"] == "warning"]
    # The API server counts the calls of all tests before, and how long they took on this machine.
    assert {each["name"] for each in warned} <= {"readiness", "calls", "latency"}, warned
    assert {each["name"] for each in checks if each["status"] == "ok"} >= NAMES - {"calls", "latency"}
    assert code == 5
    assert {each["what"] for each in found(checks, "ok", "readiness")} >= {
        f"ready: {' and '.join(sorted(pods.relays))}"
    }


def test_calls_are_those_that_the_api_server_counted(real, run):
    team = real.namespace(dra="enabled")
    assert real.create(manifests.pod(team)).accepted
    report = json.loads(run(real, "doctor", "-o", "json").stdout)
    calls = report["calls"]["webhooks"]["convert-pods.gpu-admission.io"]
    assert calls["calls"] >= 1
    assert calls["secondsOfHalf"] <= calls["secondsOf99Percent"]


def test_failed_calls_are_named_with_their_webhook(real, doctor):
    team, other = real.namespace(dra="enabled"), real.namespace()
    real.service.stop()
    try:
        # More than one in a hundred, whatever the tests before have asked.
        for number in range(20):
            assert real.create(manifests.pod(team, f"train-{number}")).code == 500
            assert real.create(manifests.pod(other, f"train-{number}")).accepted
    finally:
        real.service.start()
    named = {
        each["what"].partition(" had no")[0].rpartition(" ")[2]: each
        for each in found(doctor(real)[0], "warning", "calls")
    }
    assert "refused their object" in named["convert-pods.gpu-admission.io"]["why"]
    assert "let it pass unreviewed" in named["check-pods.gpu-admission.io"]["why"]


def opened(webhooks):
    return [{**each, "failurePolicy": "Ignore"} for each in webhooks]


def test_opened_webhooks_are_named_and_closed_by_the_remedy(real, pods, doctor, run, changed_real, manifests_file):
    changed_real("MutatingWebhookConfiguration", opened)
    (warned,) = found(doctor(real)[0], "warning", "webhooks")
    assert warned["what"] == "failurePolicy of convert-pods.gpu-admission.io is Ignore"
    remedy(warned, run, real, manifests_file)
    assert not found(doctor(real)[0], "warning", "webhooks")
    assert pods.relays


def remedy(check, run, cluster, file):
    """Run the command of a remedy, with the manifests that were installed."""
    (command,) = re.findall(r"^gpu-admission ([\w-]+) FILE,", check["remedy"])
    done = run(cluster, command, file)
    assert done.returncode == 0, done.stderr


def test_removed_webhook_is_named_and_restored_by_the_remedy(real, pods, doctor, run, changed_real, manifests_file):
    changed_real(
        "ValidatingWebhookConfiguration", lambda webhooks: [each for each in webhooks if "quota" not in each["name"]]
    )
    (failing,) = found(doctor(real)[0], "failing", "webhooks")
    assert failing["what"] == "webhooks are missing: enforce-quota.gpu-admission.io"
    remedy(failing, run, real, manifests_file)
    assert found(doctor(real)[0], "ok", "webhooks")
    assert pods.relays


def test_deleted_configuration_is_named(cluster, doctor, changed):
    document = cluster.get("ValidatingWebhookConfiguration", "gpu-admission").object
    cluster.delete("ValidatingWebhookConfiguration", "gpu-admission")
    try:
        (failing,) = found(doctor(cluster)[0], "failing", "webhooks")
        assert failing["what"] == "ValidatingWebhookConfiguration gpu-admission does not exist"
    finally:
        cluster.belongings.add(
            {**document, "metadata": {"name": "gpu-admission", "labels": document["metadata"]["labels"]}}
        )
    assert changed


def test_empty_ca_bundle_is_named_with_the_missing_role(real, doctor, changed_real):
    binding = real.get("ClusterRoleBinding", "gpu-admission-certificates").object
    real.delete("ClusterRoleBinding", "gpu-admission-certificates")
    try:
        until(lambda: found(doctor(real)[0], "failing", "rbac"), "the binding is gone")
        changed_real("MutatingWebhookConfiguration", without_bundle)
        checks, code = doctor(real)
        assert code == 1
        (empty,) = found(checks, "failing", "caBundle")
        assert empty["what"].startswith("convert-pods.gpu-admission.io, place-pods.gpu-admission.io, ")
        (unbound,) = found(checks, "failing", "rbac")
        assert unbound["what"] == "ClusterRoleBinding gpu-admission-certificates does not exist"
    finally:
        metadata = {"name": binding["metadata"]["name"], "labels": binding["metadata"]["labels"]}
        real.belongings.add({**binding, "metadata": metadata})
    until(lambda: not found(doctor(real)[0], "failing", "caBundle"), "a replica writes the caBundle")


def without_bundle(webhooks):
    """The webhooks without a caBundle; a replica that may do it writes it within seconds."""
    return [
        {**each, "clientConfig": {key: value for key, value in each["clientConfig"].items() if key != "caBundle"}}
        for each in webhooks
    ]


def test_replica_that_does_not_answer_is_named(real, pods, doctor):
    name = min(pods.relays)
    pods.refuse(is_down=True)
    try:
        pods.set_ready(name, ready=False)
        until(lambda: found(doctor(real)[0], "warning", "replicas"), "the Deployment counts it")
        checks, _ = doctor(real)
    finally:
        pods.refuse(is_down=False)
        pods.set_ready(name)
    (stopped,) = found(checks, "failing", "readiness")
    assert stopped["what"] == f"replica {name} does not answer"
    assert "error trying to reach service" in stopped["why"]
    (available,) = found(checks, "warning", "replicas")
    assert available["what"] == "1 of 2 replicas are available"


def test_lease_that_is_not_renewed_is_named(cluster, doctor):
    cluster.service.stop()
    old = f"{datetime.now(UTC) - timedelta(minutes=5):%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": "gpu-admission-0_1", "renewTime": old}
    assert cluster.patch("Lease", "gpu-admission", deploy.NAMESPACE, body={"spec": spec}).accepted
    (failing,) = found(doctor(cluster)[0], "failing", "leader")
    assert failing["what"] == "no replica leads"
    assert failing["why"].startswith("its holder gpu-admission-0_1 renewed it last at ")
    cluster.service.start()
    until(lambda: found(doctor(cluster)[0], "ok", "leader"), "the replica leads", 60)


def test_invalid_settings_are_named(cluster, doctor):
    cluster.service.stop()
    assert cluster.configure(placement={"wishes": [{"wish": {"product": "Tesla-T4,"}}]}).accepted
    cluster.service.start()
    try:
        failing = until(lambda: found(doctor(cluster)[0], "failing", "settings"), "the leader has looked", 60)
        assert failing[0]["what"] == "the stored settings are invalid, and not in use"
        assert failing[0]["why"].startswith(
            "Write a name there, or remove the comma: product has a comma without a name beside it; "
            "spec.placement.wishes[0].wish.product"
        )
    finally:
        cluster.delete("GPUAdmissionPolicy", "default")
    until(lambda: found(doctor(cluster)[0], "ok", "settings"), "the settings are gone")


def test_removed_rule_of_the_role_is_named(cluster, doctor):
    role = cluster.get("ClusterRole", "gpu-admission").object
    less = [rule for rule in role["rules"] if rule.get("apiGroups") != ["node.k8s.io"]]
    assert cluster.api.replace({**role, "rules": less}).accepted
    try:
        (failing,) = found(doctor(cluster)[0], "failing", "rbac")
    finally:
        now = cluster.get("ClusterRole", "gpu-admission").object
        assert cluster.api.replace({**now, "rules": role["rules"]}).accepted
    assert failing["what"] == "ClusterRole gpu-admission lacks rules: list and watch runtimeclasses.node.k8s.io"


@pytest.fixture
def account(real, tmp_path):
    """The kubeconfig of a ServiceAccount without rights."""
    namespace = real.namespace()
    answer = real.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "doctor", "namespace": namespace}}
    )
    assert answer.accepted, answer.message
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/doctor/token"
    token = real.api.request("POST", path, {}, review).object["status"]["token"]
    file = tmp_path / "doctor.kubeconfig"
    file.write_text(kubeconfig(real.api.access.url, real.api.access.ca, token))
    return namespace, file


def test_user_without_rights_gets_unknown_checks(real, pods, doctor, account):
    checks, code = doctor(real, account[1])
    assert code == 4
    assert {each["status"] for each in checks} == {"unknown"}
    assert {each["name"] for each in checks} >= NAMES - {"readiness", "caBundle"}
    (unread,) = (each for each in checks if each["name"] == "calls")
    assert unread["why"] == "you may not get /metrics"
    assert pods.relays


def test_role_of_the_page_suffices(real, pods, doctor, account):
    namespace, file = account
    role = next(each for each in blocks() if each["kind"] == "ClusterRole")
    real.belongings.add(role)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "gpu-admission-doctor-test"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": "doctor", "namespace": namespace}],
    }
    real.belongings.add(binding)
    try:
        until(lambda: doctor(real, file)[1] != 4, "RBAC knows the binding")
        checks, _ = doctor(real, file)
    finally:
        real.delete("ClusterRoleBinding", "gpu-admission-doctor-test")
        real.delete("ClusterRole", role["metadata"]["name"])
    assert [each for each in checks if each["status"] == "unknown"] == []
    assert pods.relays


def blocks():
    """The objects in the page."""
    for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL):
        yield from libyaml.load_all(text)
