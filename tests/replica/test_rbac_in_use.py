"""The service does all its work with exactly the RBAC rules of `deploy/`."""

import asyncio
import base64
import copy
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from certs.rotation import RotationPolicy
from policies.admission import Course, decide
from policies.admission.webhooks import ENTRIES
from policies.conversion.templates import content_name, mark, without_nulls
from policies.kubernetes.names import UNUSED_SINCE
from policies.quota.ledger.open_charges import OpenCharge
from policies.rules.charges import OWN
from policies.rules.decision import Template
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.deploy.grants import USER, grants_of
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES, WORKLOAD_RESOURCES
from webhook.controllers.certificate_upkeep import ROTATE_ANNOTATION
from webhook.controllers.quota_count import Expiry
from webhook.ledger import LedgerKey
from webhook.ledger.writer import LedgerWriter
from webhook.sandbox.kinds import Request as RequestRecord
from webhook.sandbox.kinds import parse_path, record_of
from webhook.sandbox.users import user_of
from webhook.server.driver import Driver, ReviewRunner
from webhook.server.quota_keeper import HoldersSeen, QuotaKeeper
from webhook.server.template_keeper import TemplateKeeper
from webhook.server.turns import Deadline

DEPLOY = Path(__file__).parents[2] / "deploy"
OPERATOR, *OTHERS = DEFAULTS.configuration.operator_namespaces
POD, SECRET, POLICY, QUOTA = (RESOURCES[kind] for kind in ("Pod", "Secret", "GPUAdmissionPolicy", "GPUQuota"))
QUICK = RotationPolicy(
    names=("localhost",), settle=timedelta(seconds=0.5), look_every=timedelta(seconds=0.1), skew=timedelta(0)
)

REFUSED = {
    (verb, resource, namespace): "bound only in the namespace that the GPU Operator runs in"
    for verb, resource in (("list", "configmaps"), ("watch", "deployments"))
    for namespace in OTHERS
}
"""What is asked for although it is not allowed, and why; rules that would read it say that it is unknown."""

METRICS = "/metrics"
"""The only path besides those of objects that RBAC grants to us; every authenticated client may read the others."""

NO_GROUPS = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroupList", "items": []}


class Authorizer:
    """Refuses what RBAC does not grant, and remembers what our account asked for."""

    def __init__(self, sandbox, grants):
        self.grants, self.granted, self.refused = grants, set(), set()
        self._kinds = sandbox._cluster.kinds
        sandbox.faults.add(_forbidden, when=self._refuses)

    def unused(self):
        return [grant for grant in self.grants if not any(grant.covers(request) for request in self.granted)]

    def _refuses(self, request):
        user, target = user_of(request.headers.get("Authorization")), parse_path(self._kinds, request.path)
        if user.name != USER or (target is None and request.path != METRICS):
            return False
        if target is None:
            record = RequestRecord(user.name, "get", "", METRICS, "", "", "")
        else:
            record = record_of(user, request.method, target, request.query)
        is_granted = any(grant.covers(record) for grant in self.grants)
        (self.granted if is_granted else self.refused).add(record)
        return not is_granted


async def _forbidden(request, handler):
    status = {"kind": "Status", "apiVersion": "v1", "code": 403, "reason": "Forbidden", "message": "RBAC says no"}
    return web.json_response(status, status=403)


def definition(resource):
    """A CustomResourceDefinition that takes anything."""
    version = {"name": resource.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [version],
        },
    }


def another(template, driver, **annotations):
    """A template of ours with another content, and the name that goes with it."""
    spec = copy.deepcopy(template["spec"])
    spec["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": f"'{driver}' != ''"}}]
    metadata = {"namespace": template["metadata"]["namespace"], "labels": template["metadata"]["labels"]}
    metadata |= {"name": content_name(without_nulls(spec)), "annotations": annotations}
    return {"apiVersion": template["apiVersion"], "kind": template["kind"], "metadata": metadata, "spec": spec}


@pytest.fixture
async def authorizer(sandbox, installation):
    """A cluster in which everything is installed that we know of, and RBAC holds."""
    for resource in {*RESOURCES.values(), *WORKLOAD_RESOURCES.values()}:
        if sandbox._cluster.kinds.find(resource.kind, resource.api_version) is None:
            sandbox.create(definition(resource))
    binding = libyaml.load((DEPLOY / "components" / "gpu-operator" / "role-binding.yaml").read_text())
    assert binding["metadata"]["namespace"] == OPERATOR
    return Authorizer(sandbox, grants_of([*installation, binding]))


def quota(namespace, **amount):
    """A GPUQuota of one limit."""
    metadata = {"name": "gpu", "namespace": namespace}
    spec = {"limits": [{"name": "all", **amount}]}
    return {"apiVersion": QUOTA.api_version, "kind": QUOTA.kind, "metadata": metadata, "spec": spec}


def origin_of(pod):
    """A claim that the scheduler makes for the extended resources of a pod."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team-a", "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [request]}},
    }


def member():
    """A pod that shares a claim with its PodGroup."""
    spec = {
        "schedulingGroup": {"podGroupName": "ring"},
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
        "containers": [{"name": "main", "image": "train", "resources": {"claims": [{"name": "gpus"}]}}],
    }
    metadata = {"name": "member", "namespace": "team-a", "uid": "m"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Story:
    """What the service does, one thing after the other."""

    def __init__(self, sandbox, authorizer, until, admin, alice):
        self.sandbox, self.authorizer, self.until, self.admin, self.alice = sandbox, authorizer, until, admin, alice

    def template(self, name):
        return self.sandbox.get("ResourceClaimTemplate", name, "team-a")

    async def choose_settings(self):
        document = {"apiVersion": POLICY.api_version, "kind": POLICY.kind, "metadata": {"name": "default"}}
        await self.admin.post(POLICY.path(), document)

    async def convert(self, pod):
        stored = await self.alice.post(POD.path("team-a"), pod)
        (claim,) = stored["spec"]["resourceClaims"]
        return self.template(claim["resourceClaimTemplateName"])

    def hand_over(self, needed):
        """Leave a successor something to repair, to mark and to sweep, and the lease."""
        long_ago = mark(datetime(2020, 1, 1, tzinfo=UTC))
        unneeded, forgotten = another(needed, "a"), another(needed, "b", **long_ago)
        self.sandbox.remove("ResourceClaimTemplate", needed["metadata"]["name"], "team-a")
        self.sandbox.create(unneeded)
        self.sandbox.create(forgotten)
        lease = self.sandbox.get("Lease", "gpu-admission", "gpu-admission")
        self.sandbox.replace({**lease, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
        return unneeded["metadata"]["name"], forgotten["metadata"]["name"]

    async def upkeep(self, needed, unneeded, forgotten):
        def is_done():
            repaired = self.template(needed["metadata"]["name"]) is not None
            marked = UNUSED_SINCE in (self.template(unneeded)["metadata"].get("annotations") or {})
            swept = self.template(forgotten) is None
            judged = "status" in self.sandbox.get(POLICY.kind, "default")
            audited = any(request.resource == "nodepools" for request in self.authorizer.granted)
            return repaired and marked and swept and judged and audited

        await self.until(is_done, bool)

    async def find_and_unmark(self, client, *names):
        """As a replica whose view is behind, of which one is needed again."""
        keeper = TemplateKeeper(client, ManifestsView())
        templates = [Template("team-a", name, self.template(name)["spec"]) for name in names]
        deadline = Deadline.start(lambda: 0.0, "10s")
        assert await keeper.converts("team-a", deadline)
        await keeper.ensure(templates, deadline)
        assert not any(UNUSED_SINCE in self.template(name)["metadata"].get("annotations", {}) for name in names)

    async def limit(self, *pods):
        """Have pods charged, and also tell of a quota that nobody can read and that was stored past us."""
        await self.admin.post(QUOTA.path("team-a"), quota("team-a", gpus=8))
        self.sandbox.create(quota("team-legacy", memory="80"))

        def is_counted():
            stored = [self.sandbox.get("GPUQuota", "gpu", team) for team in ("team-a", "team-legacy")]
            return all("conditions" in each.get("status", {}) for each in stored)

        await self.until(is_counted, bool)
        for pod in pods:
            await self.alice.post(POD.path("team-a"), pod)
        assert "all 2 of 8" in self.sandbox.get("GPUQuota", "gpu", "team-a")["status"]["summary"]

    async def limit_a_team(self):
        """Have a group of namespaces made, and another limit copied to it."""
        selector = {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}
        document = {
            "apiVersion": QUOTA.api_version,
            "kind": "ClusterGPUQuota",
            "metadata": {"name": "teams"},
            "spec": {"namespaceSelector": selector, "limits": [{"name": "all", "gpus": 8}]},
        }
        await self.admin.post(RESOURCES["ClusterGPUQuota"].path(), document)
        await self.until(lambda: self.team_summary("all 2 of 8"), bool)
        stored = self.sandbox.get("ClusterGPUQuota", "teams")
        self.sandbox.replace({**stored, "spec": {**stored["spec"], "limits": [{"name": "all", "gpus": 4}]}})
        await self.until(lambda: self.team_summary("all 2 of 4"), bool)
        assert "conditions" in self.sandbox.get("ClusterGPUQuota", "teams")["status"]

    def team_summary(self, summary):
        found = self.sandbox.get("GPUQuotaGroup", "teams")
        return found is not None and found.get("status", {}).get("summary") == summary

    async def free_the_team(self):
        """Have the group deleted, because it has no namespaces any more."""
        stored = self.sandbox.get("ClusterGPUQuota", "teams")
        nothing = {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}
        self.sandbox.replace({**stored, "spec": {**stored["spec"], "namespaceSelector": nothing}})
        await self.until(lambda: self.sandbox.get("GPUQuotaGroup", "teams") is None, bool)

    async def look_up(self, client, view, owner):
        """As a replica whose view shows no pod yet, and as a leader that has waited for what was charged."""
        keeper = QuotaKeeper(client, view, LedgerWriter(client), HoldersSeen(view))
        asked = {"kind": "ResourceClaim", "group": "resource.k8s.io", "namespace": "team-a", "entry": "check-pods"}
        request = Request(origin_of(owner), user=UserInfo("system:kube-scheduler"), uid="1", dry_run=True, **asked)
        deadline = Deadline.start(lambda: 0.0, "10s")
        run = ReviewRunner().for_call(b"", deadline)
        await self.charge(keeper, request, view, run)
        request = Request(
            member(), user=UserInfo("alice"), uid="2", dry_run=True, **{**asked, "kind": "Pod", "group": ""}
        )
        await self.charge(keeper, request, view, run)
        moments = iter([0.0, 1000.0])
        expiry = Expiry(client, view, lambda: next(moments))
        charges = [OpenCharge(kind, kind, "gone", "", {OWN: None}, None, {}) for kind in ("Pod", "ResourceClaim")]
        key = LedgerKey.of_namespace("team-a")
        assert await expiry.gone(key, ["team-a"], charges) == []
        assert await expiry.gone(key, ["team-a"], charges) == charges

    async def charge(self, keeper, request, view, run):
        steps = decide(ENTRIES["check-pods"], DEFAULTS, Course.start(request), {"quota"})
        await Driver(view, None, keeper).drive(steps, view, DEFAULTS, run)

    async def rotate(self):
        def authority():
            return self.sandbox.get("Secret", "gpu-admission-certificates", "gpu-admission")["data"]["ca.crt"]

        before = authority()
        annotations = {"metadata": {"annotations": {ROTATE_ANNOTATION: "now"}}}
        await self.admin.patch(SECRET.path("gpu-admission", "gpu-admission-certificates"), annotations)
        await self.until(lambda: authority() != before, bool)

    async def explain(self, port, pod):
        (webhook, *_) = self.sandbox.get("MutatingWebhookConfiguration", "gpu-admission")["webhooks"]
        bundle = base64.b64decode(webhook["clientConfig"]["caBundle"]).decode()
        asked = {"object": pod, "namespace": "team-a"}
        headers, context = {"Authorization": "Bearer alice"}, ssl.create_default_context(cadata=bundle)
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"https://localhost:{port}/v1/explain", json=asked, ssl=context) as answer,
        ):
            assert answer.status == 200, await answer.text()


@pytest.fixture
async def used_authorizer(authorizer, sandbox, make, client_of, gpu_pod, until, installation):
    """The authorizer after the whole story was played under these rules."""
    story = Story(sandbox, authorizer, until, await client_of("admin"), await client_of("alice"))
    await story.choose_settings()
    first = await make(rotation=QUICK)
    await first.start()
    needed = await story.convert(gpu_pod())
    await first.drain(asyncio.Event())
    leftovers = story.hand_over(needed)
    second = await make(rotation=QUICK, peer_host="127.0.0.1", peer_port=0)
    ready = await second.start()
    await story.upkeep(needed, *leftovers)
    await story.find_and_unmark(await client_of(), needed["metadata"]["name"], leftovers[0])
    await story.limit(gpu_pod("charged"))
    await story.limit_a_team()
    view = ManifestsView([*installation, NO_GROUPS])
    await story.look_up(await client_of(), view, sandbox.get("Pod", "charged", "team-a"))
    await story.free_the_team()
    await story.explain(ready.explain_port, gpu_pod())
    await story.rotate()
    return authorizer


async def test_nothing_is_refused_but_what_is_not_needed(used_authorizer):
    refused = {(request.verb, request.resource, request.namespace) for request in used_authorizer.refused}
    assert refused == REFUSED.keys()


async def test_nothing_is_granted_that_is_not_used(used_authorizer):
    assert [str(grant) for grant in used_authorizer.unused()] == []
