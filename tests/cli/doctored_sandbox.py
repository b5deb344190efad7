"""A sandbox with gpu-admission in it, whose pods answer probes through the API server.

No pod runs at the addresses of the pods. So the path of the pod proxy is answered by the probes of the service, with its real
readiness and metrics, and `/metrics` by what an API server counted.
"""

import base64
from datetime import UTC, datetime, timedelta

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from certs import issue_serving, make_authority
from testbed import deploy
from tests.sandbox.faults import FaultySandbox
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness, create_probes

PODS = ("gpu-admission-6d5f8c9b7d-4x2lq", "gpu-admission-6d5f8c9b7d-9kfzt")
PROXY = "/api/v1/namespaces/gpu-admission/pods/{}:8080/proxy/*"
DAYS, YEAR = 25, 365
COUNTED = """\
process_start_time_seconds 1.7957952e+09
apiserver_admission_webhook_request_total{code="200",name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit"} 1240
apiserver_admission_webhook_request_total{code="503",name="convert-pods.gpu-admission.io",operation="CREATE",rejected="true",type="admit"} 6
apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="convert-pods.gpu-admission.io",operation="CREATE",rejection_code="503",type="admit"} 6
apiserver_admission_webhook_request_total{code="200",name="enforce-quota.gpu-admission.io",operation="CREATE",rejected="false",type="validating"} 310
apiserver_admission_webhook_request_total{code="200",name="enforce-quota.gpu-admission.io",operation="CREATE",rejected="true",type="validating"} 12
apiserver_admission_webhook_rejection_count{error_type="no_error",name="enforce-quota.gpu-admission.io",operation="CREATE",rejection_code="403",type="validating"} 12
apiserver_admission_webhook_admission_duration_seconds_bucket{name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit",le="0.005"} 1100
apiserver_admission_webhook_admission_duration_seconds_bucket{name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit",le="0.025"} 1240
apiserver_admission_webhook_admission_duration_seconds_bucket{name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit",le="+Inf"} 1246
apiserver_admission_webhook_admission_duration_seconds_bucket{name="enforce-quota.gpu-admission.io",operation="CREATE",rejected="false",type="validating",le="0.005"} 40
apiserver_admission_webhook_admission_duration_seconds_bucket{name="enforce-quota.gpu-admission.io",operation="CREATE",rejected="false",type="validating",le="0.025"} 322
apiserver_admission_webhook_admission_duration_seconds_bucket{name="enforce-quota.gpu-admission.io",operation="CREATE",rejected="false",type="validating",le="+Inf"} 322
apiserver_admission_match_condition_exclusions_total{kind="webhook",name="nodes.gpu-admission.io",operation="UPDATE",type="validate"} 51200
"""


class DoctoredSandbox(FaultySandbox):
    """The sandbox with the objects of deploy/install.yaml, two nodes and two replicas."""

    def __init__(self, **options):
        super().__init__(seed=1, **options)
        self.notes = []
        self.counted = COUNTED
        self.readiness = Readiness([], [lambda: self.notes])
        self.readiness.phase = "serving"
        self._probes = None

    async def begin(self):
        """Install, and start to listen."""
        now = datetime.now(UTC)
        authority = make_authority("gpu-admission", now=now, lifetime=timedelta(days=YEAR, hours=1))
        leaf = issue_serving(
            authority, ["gpu-admission.gpu-admission.svc"], now=now, lifetime=timedelta(days=DAYS, hours=1)
        )
        documents = sorted(
            deploy.all_objects(), key=lambda each: each["kind"] not in ("Namespace", "CustomResourceDefinition")
        )
        for document in documents:
            self.create(_stored(document, authority))
        for number, name in enumerate(PODS):
            self.create(_node(f"node-{number}"))
            self.create(_pod(name, f"node-{number}"))
        data = {"tls.crt": leaf.certificate_pem, "ca.crt": authority.certificate_pem}
        self.create(_secret({key: base64.b64encode(value).decode() for key, value in data.items()}))
        self.create(_lease(now))
        metrics = Metrics()
        metrics.watch_certificate(leaf.not_after.timestamp)
        self._probes = TestClient(TestServer(create_probes(self.readiness, metrics)))
        await self._probes.start_server()
        self._answer_more()
        await self.start()

    def answer_first(self, effect, path):
        """Answer requests for a path by an effect, before anything else."""
        self.faults.clear()
        self.faults.add(effect, path=path)
        self._answer_more()

    def _answer_more(self):
        """Answer what the sandbox cannot: the counts of a busy API server, and pods at addresses of a pod network."""
        self.faults.add(self._answer_metrics, path="/metrics")
        for name in PODS:
            self.faults.add(self._answer_of_pod, path=PROXY.format(name))

    async def stop(self):
        """Stop everything."""
        if self._probes is not None:
            await self._probes.close()
        await super().stop()

    async def _answer_metrics(self, _request, _handler):
        return web.Response(text=self.counted)

    async def _answer_of_pod(self, request, _handler):
        answer = await self._probes.get(request.path.partition("/proxy")[2])
        return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)


def _stored(document, authority):
    """An object as it is stored: a replica wrote the caBundle, and controllers the status."""
    if "webhooks" in document:
        bundle = {"caBundle": base64.b64encode(authority.certificate_pem).decode()}
        webhooks = [{**each, "clientConfig": {**each["clientConfig"], **bundle}} for each in document["webhooks"]]
        return {**document, "webhooks": webhooks}
    if document["kind"] == "Deployment":
        return {**document, "status": {"availableReplicas": 2, "updatedReplicas": 2, "replicas": 2}}
    return document


def _node(name):
    ready = {"type": "Ready", "status": "True"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": [ready]}}


def _pod(name, node):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": deploy.NAMESPACE,
            "labels": {"app.kubernetes.io/name": "gpu-admission"},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "gpu-admission", "image": "registry.example/gpu-admission:0.1.0"}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _secret(data):
    metadata = {"name": "gpu-admission-certificates", "namespace": deploy.NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def _lease(now):
    """A Lease that is renewed for as long as the test takes."""
    renewed = f"{now + timedelta(hours=1):%Y-%m-%dT%H:%M:%S.%fZ}"
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "gpu-admission", "namespace": deploy.NAMESPACE},
        "spec": {"holderIdentity": f"{PODS[0]}_3f0c1e22", "leaseDurationSeconds": 15, "renewTime": renewed},
    }
