"""Three replicas that anything may happen to between any two requests, and API servers that are late.

The replicas are the real ones. What stands in is the API server, so that a test decides when each of their requests
is carried out, whether its answer arrives, and when the replica dies; and the server, so that no TLS is needed.
"""

import base64
import types
from datetime import UTC, datetime, timedelta

import jsonpatch
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from prometheus_client import CollectorRegistry

from certs import BadKeyPair
from certs.authority import bundle_holds, refusal
from certs.rotation import RotationPolicy
from certs.secret import parse_secret
from webhook.cluster.answers import APIError, ClusterError, Unreachable
from webhook.cluster.clockwork import Clockwork
from webhook.controllers.ca_bundles import CABundles, LostRace
from webhook.controllers.certificate_upkeep import LOOK_LIMIT, ROTATE_ANNOTATION, Certificates, CertificateSecret
from webhook.controllers.metrics import CertificateMetrics

pytestmark = pytest.mark.timeout(300)  # it takes a dozen seconds where nobody else computes

POLICY = RotationPolicy(
    names=("gpu-admission.gpu-admission.svc",), authority_life=timedelta(days=30), leaf_life=timedelta(days=6)
)
LATE = POLICY.settle - 2 * POLICY.skew - timedelta(seconds=LOOK_LIMIT)
"""How late an API server may be with what it knows of webhook configurations."""

SECRET = "/api/v1/namespaces/ours/secrets/certificates"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
PATHS = [f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/gpu-admission" for kind in KINDS]
REPLICAS = st.integers(0, 2)
CLIENT = {"service": {"namespace": "ours", "name": "gpu-admission"}}


@types.coroutine
def pause():
    yield


class StandIn:
    """Objects with versions; every request waits before it is carried out, and before its answer arrives."""

    def __init__(self):
        self.objects, self.version, self.written = {}, 0, lambda _path: None

    def store(self, path, thing):
        self.version += 1
        metadata = {**thing["metadata"], "resourceVersion": str(self.version)}
        self.objects[path] = {**thing, "metadata": metadata}
        self.written(path)
        return self.objects[path]

    async def answered(self, work, *arguments):
        await pause()
        answer = work(*arguments)
        await pause()
        return answer

    async def get(self, path, *, timeout=10.0):  # noqa: ASYNC109 - as the client has it
        return await self.answered(self._get, path)

    async def post(self, path, body):
        return await self.answered(self._post, f"{path}/{body['metadata']['name']}", body)

    async def put(self, path, body):
        return await self.answered(self._put, path, body)

    async def patch(self, path, body, *, content_type):
        assert content_type == "application/json-patch+json"
        return await self.answered(self._patch, path, body)

    def _get(self, path):
        if path not in self.objects:
            raise APIError(404, "NotFound", "not found")
        return self.objects[path]

    def _post(self, path, body):
        if path in self.objects:
            raise APIError(409, "AlreadyExists", "already exists")
        return self.store(path, body)

    def _put(self, path, body):
        if self._get(path)["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise APIError(409, "Conflict", "changed")
        return self.store(path, body)

    def _patch(self, path, body):
        try:
            patched = jsonpatch.apply_patch(self._get(path), body)
        except jsonpatch.JsonPatchException as error:
            raise APIError(422, "Invalid", str(error)) from error
        return self.store(path, patched)


class Server:
    """What a replica serves."""

    def __init__(self, pair):
        self.pair = pair

    def replace(self, pair):
        self.pair = pair


class Replica:
    """A replica between two requests."""

    def __init__(self, api, now):
        secret = CertificateSecret(api, "ours", "certificates")
        bundles = CABundles(api, [(kind, "gpu-admission") for kind in KINDS])
        metrics = CertificateMetrics(CollectorRegistry())
        self._make = lambda: Certificates(secret, bundles, POLICY, metrics, clockwork=Clockwork(now=now))
        self.look = None
        self.die()

    def die(self):
        """Begin anew with nothing remembered and nothing served."""
        self.end_look()
        self.certificates, self.server = self._make(), None

    @property
    def state(self):
        remembered = self.certificates._remembered
        return remembered[0] if remembered else None

    def begin_look(self, now):
        self.look, self.began = self.certificates._look(), now

    def go_on(self, error=None):
        """Carry the look on to its next stop, or have its request fail."""
        try:
            if error is None:
                self.look.send(None)
            else:
                self.look.throw(error)
        except (StopIteration, LostRace, ClusterError, BadKeyPair):
            self.look = None
        if self.server is None and self.state is not None:
            self.server = Server(self.state.leaf)
            self.certificates.serve(self.server)

    def end_look(self):
        if self.look is not None:
            self.look.close()
        self.look = None

    def whole_look(self, now):
        self.end_look()
        self.begin_look(now)
        while self.look is not None:
            self.go_on()


class Rotation(RuleBasedStateMachine):
    """Whatever happens, no API server refuses what a replica serves."""

    @initialize(skews=st.tuples(*[st.floats(-1, 1)] * 3))
    def install(self, skews):
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.api, self.damaged, self.requests = StandIn(), False, 0
        for kind, path in zip(KINDS, PATHS, strict=True):
            webhooks = [{"name": f"{number}.gpu-admission.io", "clientConfig": CLIENT} for number in range(2)]
            self.api.store(path, {"kind": kind, "metadata": {"name": "gpu-admission"}, "webhooks": webhooks})
        self.replicas = [Replica(self.api, self.clock(skew * POLICY.skew)) for skew in skews]
        for replica in [*self.replicas, *self.replicas]:
            replica.whole_look(self.now)
        self.history = {path: [(self.now, self.bundle(path))] for path in PATHS}
        self.api.written = self.remember

    def clock(self, skew):
        return lambda: self.now + skew

    def bundle(self, path):
        (bundle,) = {webhook["clientConfig"]["caBundle"] for webhook in self.api.objects[path]["webhooks"]}
        return base64.b64decode(bundle)

    def remember(self, path):
        if path in self.history:
            self.history[path].append((self.now, self.bundle(path)))
        else:
            self.damaged = False

    @property
    def stored(self):
        data = self.api.objects[SECRET]["data"]
        return parse_secret({key: base64.b64decode(value) for key, value in data.items()})

    def served(self):
        pairs = [replica.server.pair for replica in self.replicas if replica.server is not None]
        return [pair for pair in pairs if pair.not_after > self.now]

    @rule(which=REPLICAS)
    def begin_look(self, which):
        if self.replicas[which].look is None:
            self.replicas[which].begin_look(self.now)

    @rule(which=REPLICAS, stops=st.integers(1, 9))
    def go_on(self, which, stops):
        for _ in range(stops):
            if self.replicas[which].look is not None:
                self.replicas[which].go_on()

    @rule(which=REPLICAS)
    def whole_look(self, which):
        self.replicas[which].whole_look(self.now)

    @rule(which=REPLICAS)
    def lose_an_answer(self, which):
        if self.replicas[which].look is not None:
            self.replicas[which].go_on()
        if self.replicas[which].look is not None:
            self.replicas[which].go_on(Unreachable("The connection was reset."))

    @precondition(lambda self: not self.damaged)
    @rule(which=REPLICAS)
    def die(self, which):
        self.replicas[which].die()

    @precondition(lambda self: not self.damaged)
    @rule(seconds=st.sampled_from([1, 20, 59, 300, 1139, 1799, 1800, 1801, 3600]))
    def pass_time(self, seconds):
        self.now += timedelta(seconds=seconds)
        for replica in self.replicas:
            if replica.look is not None and self.now - replica.began > timedelta(seconds=LOOK_LIMIT):
                replica.end_look()

    @precondition(lambda self: not self.damaged)
    @rule(hours=st.integers(1, 36), which=REPLICAS)
    def pass_days(self, hours, which):
        """Somebody is always there to look in the time in which certificates are renewed."""
        self.pass_time(hours * 3600)
        for _ in range(3):
            self.replicas[which].whole_look(self.now)

    @precondition(lambda self: not self.damaged)
    @rule()
    def ask(self):
        self.requests += 1
        secret = self.api.objects[SECRET]
        annotations = {ROTATE_ANNOTATION: f"request {self.requests}"}
        self.api.store(SECRET, {**secret, "metadata": {**secret["metadata"], "annotations": annotations}})

    @rule(path=st.sampled_from(PATHS), back=st.integers(1, 4))
    def overwrite_a_bundle(self, path, back):
        """Somebody puts an older bundle back. What breaks handshakes by itself is not tried.

        Nor is somebody who puts the newest one back before we look: nothing says that it was away, and only an API
        server that is later than our next look would still know the older one.
        """
        bundles = [bundle for _, bundle in self.history[path]]
        old = bundles[-back:][0]
        if bundles.index(old) > bundles.index(self.bundle(path)):
            return
        in_use = [*self.served(), self.stored.leaf] if not self.damaged else self.served()
        if all(refusal(old, pair, POLICY.names, self.now) == "" for pair in in_use):
            webhooks = [
                {**webhook, "clientConfig": {**CLIENT, "caBundle": base64.b64encode(old).decode()}}
                for webhook in self.api.objects[path]["webhooks"]
            ]
            self.api.store(path, {**self.api.objects[path], "webhooks": webhooks})

    @precondition(lambda self: not self.damaged)
    @rule(how=st.sampled_from(["deleted", "emptied", "foreign", "cut off"]))
    def damage(self, how):
        """The replicas, who all know the state, put it back; one that knows nothing would have to make a new one."""
        if any(replica.look or not self.knows(replica) for replica in self.replicas):
            return
        secret = self.api.objects[SECRET]
        if how == "deleted":
            del self.api.objects[SECRET]
        else:
            data = {"emptied": {}, "foreign": {"a": "Yg=="}, "cut off": {**secret["data"], "ca.key": ""}}[how]
            self.api.store(SECRET, {**secret, "data": data})
        self.damaged = True

    def knows(self, replica):
        remembered = replica.certificates._remembered
        fresh = remembered is not None and self.now - remembered[1] < POLICY.settle / 2
        return fresh and remembered[0] == self.stored

    @invariant()
    def every_api_server_verifies_every_replica(self):
        for path, history in self.history.items():
            late = [bundle for begun, bundle in history if begun > self.now - LATE]
            before = [bundle for begun, bundle in history if begun <= self.now - LATE][-1:]
            for bundle in {*late, *before}:
                for pair in self.served():
                    assert refusal(bundle, pair, POLICY.names, self.now) == "", path

    def teardown(self):
        if not hasattr(self, "replicas"):
            return
        for _ in range(8):
            if self.round_is_quiet():
                break
            self.now += POLICY.settle + timedelta(minutes=5)
        else:
            raise AssertionError("there is always something left to do")
        state = self.stored
        assert state.successor is None
        for path in PATHS:
            assert self.bundle(path) == state.bundle
            assert bundle_holds(state.bundle, state.authority.certificate_pem)
        for replica in self.replicas:
            assert replica.server.pair == state.leaf
            assert replica.certificates.problem() == ""

    def round_is_quiet(self):
        for replica in [*self.replicas, *self.replicas]:
            replica.whole_look(self.now)
        before = self.api.version
        for replica in self.replicas:
            replica.whole_look(self.now)
        self.every_api_server_verifies_every_replica()
        return self.api.version == before and self.stored.successor is None


Rotation.TestCase.settings = settings(stateful_step_count=50, suppress_health_check=list(HealthCheck))
test_rotation_loses_no_handshake_whatever_happens = Rotation.TestCase
