"""Replicas and webhooks are replaced in the steps of docs/upgrade.md, by its commands, while pods are created without pause."""

import json
import os
from contextlib import contextmanager

import pytest
import yaml

from testbed import deploy
from testbed.commands import run_command
from testbed.waiting import until
from testbed.webhook_configurations import called_at, current_configurations, roll_out
from tests.storm.harness import oracle
from tests.storm.harness.history import History
from tests.storm.harness.oracle import replay
from tests.storm.harness.steady_load import SteadyLoad, unreviewed
from webhook.controllers.replica_config import SECRET

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("STORM") != "full" and not {"KUBECONFIG", "KUBEBUILDER_ASSETS"} & {*os.environ},
        reason="takes up to a minute: part of `make storm`, and of tests on a real control plane",
    ),
    pytest.mark.timeout(300),
]

ROOM, FULL = 1000, 1
"""GPUs of quotas: more than a client needs, and fewer."""
LONGEST_FULL = 15.0
"""Seconds for which a quota may refuse pods although its client holds none."""
ROLLS = 3
"""Of all replicas: how long a quota stays full depends on when the leader ends."""


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


@pytest.fixture
def apply_webhooks(cluster, tmp_path):
    """Run `gpu-admission apply-webhooks`."""
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


def with_timeouts(configurations, seconds):
    return [
        {**each, "webhooks": [{**webhook, "timeoutSeconds": seconds} for webhook in each["webhooks"]]}
        for each in configurations
    ]


def test_no_pod_is_missed_while_replicas_and_webhooks_are_replaced(
    cluster, background, namespaces, history, apply_webhooks
):
    converting = {namespaces["converting"], namespaces["both"]}
    with steady_load(cluster, background, namespaces) as load:
        before = certificate(cluster), templates(cluster, converting)
        assert all(before)
        apply_webhooks(with_timeouts(current_configurations(), 9), "--rollback")
        cluster.replicas.roll(cluster.balancer.route)
        load.goes_on()
        apply_webhooks(current_configurations())
        load.goes_on()
        # The same pods have the same templates, and none was lost or made again.
        assert (certificate(cluster), templates(cluster, converting)) == before
    background.run(history.wait_for_answers())
    background.run(history.end())
    assert load.refusals == []
    assert [*unreviewed(history.events, converting)] == []
    assert [list(map(str, broken)) for broken in replay(history.events, history.gaps)] == [[], []]
    reviewed, unanswered = calls(cluster.replicas.log())
    assert unanswered == []
    assert {"/convert-pods", "/enforce-quota"} <= reviewed
    assert load.over_quota


@pytest.mark.timeout(600)
def test_no_quota_stays_full_while_all_replicas_are_replaced(cluster, background, namespaces, history):
    with steady_load(cluster, background, namespaces) as load:
        for _ in range(ROLLS):
            cluster.replicas.roll(cluster.balancer.route)
            load.goes_on()
    print(f"a quota stayed full for {load.longest_full:.1f} s at most")  # noqa: T201 - the report of `make storm`
    background.run(history.wait_for_answers())
    background.run(history.end())
    assert [list(map(str, broken)) for broken in replay(history.events, history.gaps)] == [[], []]
    assert load.refusals == []
    assert load.over_quota
    assert load.longest_full < LONGEST_FULL
