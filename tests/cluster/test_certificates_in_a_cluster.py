"""Our own certificates are published, rotated and kept over restarts, while pods are created."""

import base64
import secrets
import threading

import pytest

from certs.secret import parse_secret
from testbed import manifests
from testbed.waiting import until

SECRET = ("Secret", "gpu-admission-certificates", "gpu-admission")
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
ROTATE = "gpu-admission.io/rotate"


class Load:
    """Somebody who creates pods all the time."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._team = cluster.namespace(dra="enabled")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._create_pods)
        self.accepted, self.refusals = 0, []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()

    def _create_pods(self):
        while not self._stopped.is_set():
            answer = self._cluster.create(manifests.pod(self._team), dry_run=True)
            if answer.accepted and "resourceClaims" in answer.object["spec"]:
                self.accepted += 1
            else:
                self.refusals.append(answer)

    def goes_on(self, count=20):
        """Wait for more pods, all of which are converted."""
        until_now = self.accepted
        until(lambda: self.refusals or self.accepted >= until_now + count, "pods are created")
        assert self.refusals == []


def state(cluster):
    data = cluster.get(*SECRET).object["data"]
    return parse_secret({name: base64.b64decode(value) for name, value in data.items()})


def bundles(cluster):
    return {
        base64.b64decode(webhook["clientConfig"]["caBundle"])
        for kind in KINDS
        for webhook in cluster.get(kind, "gpu-admission").object["webhooks"]
    }


def test_every_webhook_has_the_bundle_of_the_secret_and_the_url_of_the_service(cluster):
    assert bundles(cluster) == {state(cluster).bundle}
    urls = {
        webhook["clientConfig"]["url"].rpartition("/")[0]
        for kind in KINDS
        for webhook in cluster.get(kind, "gpu-admission").object["webhooks"]
    }
    assert urls == {cluster.service.url}


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_bundle_is_written_long_before_the_next_look(cluster, kind):
    webhooks = cluster.get(kind, "gpu-admission").object["webhooks"]
    for webhook in webhooks:
        del webhook["clientConfig"]["caBundle"]
    assert cluster.patch(kind, "gpu-admission", body={"webhooks": webhooks}).accepted
    until(
        lambda: all(
            "caBundle" in webhook["clientConfig"] for webhook in cluster.get(kind, "gpu-admission").object["webhooks"]
        ),
        "every webhook has its bundle",
        seconds=5,
    )


def ask_for_rotation(cluster):
    """What is asked for while a rotation is under way has to wait for its end."""
    assert cluster.patch(*SECRET, body={"metadata": {"annotations": {ROTATE: secrets.token_hex(8)}}}).accepted


def published(cluster):
    """Wait for a successor, and for it in every bundle."""
    successor = until(lambda: state(cluster).successor, "the rotation has begun", 60).certificate_pem.strip()
    until(lambda: all(successor in bundle for bundle in bundles(cluster)), "the successor is published")
    return state(cluster)


def test_rotation_that_was_requested_before_the_start_begins(cluster):
    before = state(cluster)
    cluster.service.stop()
    ask_for_rotation(cluster)
    cluster.service.start()
    assert published(cluster).leaf == before.leaf
    assert (
        "resourceClaims" in cluster.create(manifests.pod(cluster.namespace(dra="enabled")), dry_run=True).object["spec"]
    )


def test_no_pod_fails_while_a_rotation_begins(real):
    """Replicas look every half a minute. The leaf follows half an hour later, when every API server knows the successor;
    tests/certificates rotates under load to the end."""
    before = state(real)
    with Load(real) as load:
        load.goes_on()
        ask_for_rotation(real)
        after = published(real)
        load.goes_on()
    assert after.leaf == before.leaf


def test_restarted_service_serves_the_same_certificate(cluster):
    before = state(cluster)
    cluster.service.stop()
    team = cluster.namespace(dra="enabled")
    closed = cluster.create(manifests.pod(team), dry_run=True)
    assert closed.code == 500
    assert closed.message.startswith(
        'Internal error occurred: failed calling webhook "convert-pods.gpu-admission.io": failed to call webhook: '
    )
    assert cluster.create(manifests.pod(cluster.namespace()), dry_run=True).accepted
    cluster.service.start()
    pod = cluster.create(manifests.pod(team), dry_run=True).object
    assert "resourceClaims" in pod["spec"]
    assert state(cluster).leaf == before.leaf
    assert bundles(cluster) == {state(cluster).bundle}
