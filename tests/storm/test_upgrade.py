"""Both steps of docs/upgrade.md, and both of the way back, by its commands, while pods are created without pause."""

import json
import os
from contextlib import contextmanager

import pytest
import yaml

from policies.quota.ledger.status import has_compact_charges
from testbed import deploy
from testbed.commands import run_command
from testbed.version_before import quota_definition, webhook_configurations
from testbed.waiting import until
from testbed.webhook_configurations import called_at, current_configurations, roll_out
from tests.storm.harness import oracle
from tests.storm.harness.history import History
from tests.storm.harness.oracle import replay
from tests.storm.harness.steady_load import SteadyLoad, unreviewed
from webhook.cluster.resources import RESOURCES
from webhook.replica.config import SECRET

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("STORM") != "full" and not {"KUBECONFIG", "KUBEBUILDER_ASSETS"} & {*os.environ},
        reason="takes up to a minute: part of `make storm`, and of tests on a real control plane",
    ),
    pytest.mark.timeout(300),
]

BEFORE, NOW = "testbed.version_before", "webhook"
ROOM, FULL = 1000, 1
"""GPUs of quotas: more than a client needs, and fewer."""


@pytest.fixture
def replica_options():
    """As in deploy/, with less time to drain: here, a replica that stops gets no new connection at once."""
    return {"count": 2, "drain_delay": 5}


@pytest.fixture
def namespaces(cluster):
    """The names of namespaces, by what they are for."""
    names = {
        "elsewhere": cluster.namespace(),
        "converting": cluster.namespace(dra="enabled"),
        "enforced": cluster.namespace(quota="enforced"),
        "full": cluster.namespace(quota="enforced"),
        "both": cluster.namespace(dra="enabled", quota="enforced"),
    }
    for kind, gpus in (("enforced", ROOM), ("full", FULL), ("both", ROOM)):
        cluster.create(oracle.quota(names[kind], gpus, gpus, gpus)).object  # noqa: B018 - it is not refused
    for kind in ("enforced", "full", "both"):
        until(lambda name=names[kind]: is_counted(cluster, name), f"the quota of {kind} is counted")
    return names


def is_counted(cluster, namespace):
    limits = cluster.get("GPUQuota", "gpu", namespace).object.get("status", {}).get("limits") or [{}]
    return all("used" in limit for limit in limits)


def compact_ledgers(cluster):
    """The namespaces whose charges are one text."""
    quotas = cluster.api.request("GET", RESOURCES["GPUQuota"].path()).object["items"]
    return [quota["metadata"]["namespace"] for quota in quotas if has_compact_charges(quota.get("status"))]


@pytest.fixture
def history(cluster, background, namespaces):
    history = History(background.run(cluster.client(relayed=False)), namespaces.values())
    background.run(history.begin())
    return history


@contextmanager
def steady_load(cluster, background, namespaces):
    load = SteadyLoad(cluster.api, namespaces.values(), {namespaces["full"]})
    running = background.begin(load.run())
    try:
        load.goes_on()
        yield load
    finally:
        load.stop()
        running.result(60)


def replace_service(cluster, program):
    """As `kubectl apply` of the manifests without webhooks: the CRD, and replicas one after the other."""
    definition = quota_definition() if program == BEFORE else current_definition()
    stored = cluster.get("CustomResourceDefinition", definition["metadata"]["name"]).object
    assert cluster.api.replace({**stored, "spec": definition["spec"]}).accepted
    cluster.replicas.roll(program, cluster.balancer.route)


def current_definition():
    name = quota_definition()["metadata"]["name"]
    return next(each for each in deploy.all_objects() if each["metadata"]["name"] == name)


@pytest.fixture
def apply_webhooks(cluster, tmp_path):
    """Run `gpu-admission apply-webhooks` for the configurations of a version."""
    roll_out(cluster)

    def apply(configurations, *options):
        installed = cluster.get(configurations[0]["kind"], "gpu-admission").object["webhooks"][0]["clientConfig"]
        url = installed["url"].rpartition("/")[0]
        file = tmp_path / "webhooks.yaml"
        file.write_text(yaml.safe_dump_all([called_at(url, each) for each in configurations]))
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        done = run_command("apply-webhooks", *options, file, cwd=tmp_path, environment=environment)
        assert done.returncode == 0, done.stderr

    return apply


def certificate(cluster):
    return cluster.get("Secret", SECRET, deploy.NAMESPACE).object["data"]


def templates(cluster, namespaces):
    """The templates that conversion made, by namespace and name."""
    return {
        (namespace, template["metadata"]["name"]): template["spec"]
        for namespace in namespaces
        for template in cluster.list("ResourceClaimTemplate", namespace)
    }


def calls(log):
    """The paths of the calls that were reviewed; the lines of those that were turned down or failed."""
    lines = [json.loads(line) for line in log.splitlines() if '"gpu_admission.decisions"' in line]
    reviewed = {f"/{line['webhook']}" for line in lines if "verdict" in line}
    return reviewed, [line for line in lines if "status" in line or "failure" in line]


def test_no_pod_is_missed_by_a_rollback_and_an_upgrade(cluster, background, namespaces, history, apply_webhooks):
    converting = {namespaces["converting"], namespaces["both"]}
    with steady_load(cluster, background, namespaces) as load:
        before = certificate(cluster), templates(cluster, converting)
        assert all(before)
        apply_webhooks(webhook_configurations(), "--rollback")
        assert compact_ledgers(cluster) == []
        replace_service(cluster, BEFORE)
        load.goes_on()
        replace_service(cluster, NOW)
        load.goes_on()
        apply_webhooks(current_configurations())
        load.goes_on()
        # The same pods have the same templates in both versions, and none was lost or made again.
        assert (certificate(cluster), templates(cluster, converting)) == before
    background.run(history.wait_for_answers())
    background.run(history.end())
    assert load.refusals == []
    assert [*unreviewed(history.events, converting)] == []
    assert [list(map(str, broken)) for broken in replay(history.events, history.gaps)] == [[], []]
    reviewed, unanswered = calls(cluster.replicas.log())
    assert unanswered == []
    assert {"/conversion", "/quota-enforced", "/convert-pods", "/enforce-quota"} <= reviewed
    assert load.over_quota
