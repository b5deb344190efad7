"""Calls of the entries that charge quotas, with an API server that keeps the ledger."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import Counted, Snapshot, recount
from policies.quota.limits.quota import parse_quota
from policies.request import Request
from policies.review import review
from policies.settings import DEFAULTS
from policies.settings.choices import Exemption, GPUAdmissionPolicy, RuleOverride
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.manifests import ManifestsView
from webhook.ledger.writer import LedgerWriter
from webhook.sandbox.faults import conflict, failing, half_open
from webhook.sandbox.server import Sandbox
from webhook.server.holders import HoldersSeen
from webhook.server.quotas import QuotaKeeper

DEPLOY = Path(__file__).parents[2] / "deploy" / "base" / "api"
EXAMPLE_CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"
QUOTA = "/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas/gpu"
CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"
SCHEDULER = "system:kube-scheduler"
ENTRIES = pytest.mark.parametrize("entry", ["quota-enforced", "quota"])


class Hurried:
    """Time that passes while somebody pauses, and takes none."""

    seconds = 0.0

    async def sleep(self, seconds):
        self.seconds += seconds
        await asyncio.sleep(0)


class Namespace:
    """`team-a` with a GPUQuota of eight GPUs, as the API server has it and as the webhook's view shows it."""

    def __init__(self, sandbox, shown):
        self.sandbox = sandbox
        self.shown = shown

    def limit(self, *limits, used=0, primed=True, **spec):
        """Make the quota; `used` of all of its limits is held by pods that were counted."""
        limits = limits or ({"name": "h100", "gpus": 8},)
        stored = self.sandbox.create(
            {
                "apiVersion": "gpu-admission.io/v1alpha1",
                "kind": "GPUQuota",
                "metadata": {"name": "gpu", "namespace": "team-a"},
                "spec": {"limits": list(limits), **spec},
            }
        )
        self.shown.append(stored)
        if primed:
            self.count(used)

    def count(self, used=0, pods=(), claims=()):
        """What the leader does: write what is used, with pods and claims by their uids."""
        stored = self.stored
        quota = parse_quota(stored)
        held = {limit.name: Fraction(used) for limit in quota.limits}
        seen = {"before": Counted("before", "Pod", "before", amounts=held)}
        seen |= {uid: Counted(uid, "Pod", uid, amounts=amounts) for uid, amounts in pods}
        ledger = recount(Ledger.read(stored), quota, Snapshot(seen, dict(claims), "1", "1"))
        self.sandbox.replace({**stored, "status": ledger.status(quota, 1)})

    @property
    def stored(self):
        return self.sandbox.get("GPUQuota", "gpu", "team-a")

    @property
    def taken(self):
        """What is used and reserved of the first limit."""
        limit = self.stored["status"]["limits"][0]
        return Fraction(limit["used"]) + Fraction(limit["reserved"])

    @property
    def charged(self):
        return [charge["uid"] for charge in self.stored["status"].get("charges", [])]


def example_cluster():
    files = sorted(EXAMPLE_CLUSTER.glob("*.yaml"))
    return [each for file in files for each in yaml.load_all(file.read_text(), yaml.CSafeLoader) if each]


@pytest.fixture
async def sandbox():
    sandbox = Sandbox(seed=1)
    await sandbox.start()
    sandbox.create(yaml.safe_load((DEPLOY / "gpuquotas.yaml").read_text()))
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    yield sandbox
    sandbox.faults.clear()
    await sandbox.stop()


@pytest.fixture
def shown():
    """What the webhook's view shows beside the cluster of the examples."""
    return []


@pytest.fixture
def namespace(sandbox, shown):
    return Namespace(sandbox, shown)


@pytest.fixture
async def api(sandbox, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig())
    client = await APIClient.connect(str(kubeconfig), environ={})
    yield client
    await client.close()


@pytest.fixture
async def writer(api):
    hurried = Hurried()
    writer = LedgerWriter(api, clockwork=Clockwork(clock=lambda: hurried.seconds, sleep=hurried.sleep))
    yield writer
    await writer.close()


@pytest.fixture
def serve(start_webhook, api, writer, shown):
    """Start a webhook that charges; what its view shows is what was shown by then."""

    async def serve(view=None, **parts):
        if view is None:
            view = ManifestsView([*example_cluster(), *shown])
        counted = []
        keeper = QuotaKeeper(
            api, view, writer, HoldersSeen(view), count=lambda entry, outcome: counted.append((entry, outcome))
        )
        webhook = await start_webhook(view, quotas=keeper, **parts)
        webhook.counted = counted
        return webhook

    return serve


@pytest.fixture
def train(pod):
    """A pod as validating webhooks see it, with its uid."""

    def make(gpus=2, uid="1", **spec):
        document = pod(gpus, **spec)
        return {**document, "metadata": {**document["metadata"], "uid": uid}}

    return make


@pytest.fixture
def of_template(train):
    """A pod whose GPUs come from the ResourceClaimTemplate `gpus`."""

    def make(uid="1"):
        claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
        return train(0, uid, resourceClaims=claims)

    return make


def template(count):
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus", "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def claim(count, uid="c", annotations=None, **owner):
    """A claim, made for a pod where `annotations` are given."""
    metadata = {"name": "gpus", "namespace": "team-a", "uid": uid}
    if annotations is not None:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "1", "controller": True, **owner}
        metadata |= {"annotations": annotations, "ownerReferences": [reference]}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": requests}},
    }


OF_TEMPLATE = {"resource.kubernetes.io/pod-claim-name": "gpu"}
OF_EXTENDED = {"resource.kubernetes.io/extended-resource-claim": "true"}


@pytest.fixture
def ask(review_of):
    """Ask about the creation of an object."""

    async def ask(webhook, document, entry="quota-enforced", *, user="alice", query="?timeout=10s", **request):
        group = "" if document["kind"] == "Pod" else "resource.k8s.io"
        kind = {"group": group, "version": "v1", "kind": document["kind"]}
        review = review_of(document, kind=kind, userInfo={"username": user}, **request)
        return await webhook.client.ask(entry, review, query)

    return ask


@ENTRIES
async def test_pod_that_fits_is_charged_before_it_is_admitted(serve, namespace, ask, train, entry):
    namespace.limit(used=5)
    webhook = await serve()
    response = await ask(webhook, train(2), entry)
    assert response == {"uid": response["uid"], "allowed": True}
    assert (namespace.charged, namespace.taken) == (["1"], 7)
    assert webhook.counted == [(entry, "charged")]


@ENTRIES
async def test_pod_over_quota_is_refused_in_the_words_of_kubernetes(serve, namespace, shown, ask, train, entry):
    namespace.limit(used=7)
    created = datetime.now(UTC) - timedelta(days=3, hours=1)
    metadata = {"name": "train-7", "namespace": "team-a", "uid": "7", "creationTimestamp": created.isoformat()}
    shown.append({**train(4), "metadata": metadata})
    webhook = await serve()
    response = await ask(webhook, train(2), entry)
    assert response["allowed"] is False
    assert response["status"] == {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": "exceeded quota: gpu, requested: h100=2, used: h100=7, limited: h100=8; 2 more GPUs are asked, 1 is left "
        "of 8 for h100; team-a/train-7 holds 4 since 3 days; ask for less (GPUs), or ask whoever writes GPUQuota gpu for "
        "more [GA502]",
    }
    assert response["auditAnnotations"] == {"findings": "GA502=deny"}
    assert namespace.charged == []
    assert webhook.counted == [(entry, "exceeded")]


async def test_pod_that_is_asked_about_again_is_charged_once(serve, namespace, ask, train):
    namespace.limit()
    webhook = await serve()
    for _ in range(2):
        assert (await ask(webhook, train(5)))["allowed"]
    assert namespace.taken == 5


async def test_quota_in_mode_warn_admits_charges_and_tells(serve, namespace, ask, train):
    namespace.limit(used=7, mode="Warn")
    response = await ask(await serve(), train(2))
    assert response["allowed"]
    assert "GA502 exceeded quota: gpu, requested: h100=2, used: h100=7, limited: h100=8;" in response["warnings"][0]
    assert "mode: Warn" in " ".join(response["warnings"])
    assert namespace.taken == 9


@pytest.mark.parametrize(("gpus", "allowed"), [(1, True), (2, False)])
async def test_dry_run_is_judged_and_not_charged(serve, namespace, ask, train, gpus, allowed):
    namespace.limit(used=7)
    webhook = await serve()
    assert (await ask(webhook, train(gpus), dryRun=True))["allowed"] is allowed
    assert namespace.charged == []
    assert webhook.counted == []


@pytest.mark.parametrize(("gpus", "allowed"), [(1, True), (2, False)])
async def test_dry_run_of_a_converted_pod_is_judged_by_the_template_that_it_would_have(
    serve, namespace, shown, ask, train, gpus, allowed
):
    namespace.limit(used=7)
    labels = {"gpu-admission.io/dra": "enabled"}
    shown.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}})
    webhook = await serve()
    request = Request(train(gpus), namespace="team-a", entry="conversion")
    converted = review(request, ManifestsView([*example_cluster(), *shown]), DEFAULTS)
    assert len(converted.templates) == 1
    response = await ask(webhook, converted.object, dryRun=True)
    assert (response["allowed"], "warnings" in response) == (allowed, False)
    assert namespace.charged == []


@ENTRIES
async def test_namespace_without_quota_is_not_limited(serve, namespace, ask, train, entry):
    webhook = await serve()
    response = await ask(webhook, train(200), entry)
    assert response == {"uid": response["uid"], "allowed": True}
    assert webhook.counted == [(entry, "no_quota")]


async def test_quota_that_no_cache_shows_yet_holds(serve, namespace, shown, ask, train):
    namespace.limit(used=8)
    shown.clear()
    assert (await ask(await serve(), train(1)))["allowed"] is False


async def test_pod_without_gpus_is_no_question_to_the_api_server(serve, namespace, sandbox, ask, train):
    namespace.limit()
    webhook = await serve()
    sandbox.forget()
    assert (await ask(webhook, train(0)))["allowed"]
    assert list(sandbox.requests) == []
    assert webhook.counted == []


async def test_template_that_no_cache_shows_yet_is_read(serve, namespace, sandbox, ask, of_template):
    namespace.limit()
    sandbox.create(template(3))
    response = await ask(await serve(), of_template())
    assert response == {"uid": response["uid"], "allowed": True}
    assert namespace.taken == 3


async def test_template_that_does_not_exist_is_told(serve, namespace, ask, of_template):
    namespace.limit()
    response = await ask(await serve(), of_template())
    assert response["allowed"]
    assert " ".join(line.strip() for line in response["warnings"]) == (
        'GA505 spec.resourceClaims[0].resourceClaimTemplateName: no ResourceClaimTemplate "gpus" exists in team-a, so '
        "nothing is charged for it now; create the template first; its claim is charged when it is made"
    )
    assert namespace.charged == []


async def test_template_that_no_object_can_be_called_does_not_exist(serve, namespace, ask, train):
    namespace.limit()
    claims = [{"name": "gpu", "resourceClaimTemplateName": "../pods"}]
    response = await ask(await serve(), train(0, resourceClaims=claims))
    assert response["allowed"]
    assert response["warnings"][0].startswith("GA505 ")


async def test_claim_that_its_pod_paid_for_is_charged_once(serve, namespace, shown, ask, of_template):
    namespace.limit()
    shown.append(template(3))
    webhook = await serve()
    assert (await ask(webhook, of_template()))["allowed"]
    assert (await ask(webhook, claim(3, annotations=OF_TEMPLATE), user=CONTROLLER))["allowed"]
    assert namespace.taken == 3


async def test_claim_that_is_larger_than_its_template_was_is_charged_the_difference(
    serve, namespace, shown, ask, of_template
):
    namespace.limit(used=3)
    shown.append(template(3))
    webhook = await serve()
    assert (await ask(webhook, of_template()))["allowed"]
    response = await ask(webhook, claim(6, annotations=OF_TEMPLATE), user=CONTROLLER)
    assert "requested: h100=3, used: h100=6, limited: h100=8" in response["status"]["message"]
    assert (await ask(webhook, claim(5, annotations=OF_TEMPLATE), user=CONTROLLER))["allowed"]
    assert namespace.taken == 8


async def test_claim_that_only_says_it_is_made_for_a_pod_is_charged_in_full(serve, namespace, shown, ask, of_template):
    namespace.limit()
    shown.append(template(3))
    webhook = await serve()
    assert (await ask(webhook, of_template()))["allowed"]
    assert (await ask(webhook, claim(3, annotations=OF_TEMPLATE), user="mallory"))["allowed"]
    assert namespace.taken == 6


async def test_claim_of_a_pod_that_nobody_charged_is_charged_in_full(serve, namespace, ask):
    namespace.limit()
    assert (await ask(await serve(), claim(3, annotations=OF_TEMPLATE), user=CONTROLLER))["allowed"]
    assert namespace.taken == 3


async def test_claim_takes_the_priority_class_of_a_pod_that_no_cache_shows_yet(serve, namespace, sandbox, ask, train):
    low = {"name": "low", "selector": {"priorityClasses": ["batch"]}, "gpus": 1}
    namespace.limit({"name": "all", "gpus": 8}, low)
    pod = sandbox.create(train(0, priorityClassName=""))
    webhook = await serve()
    made = claim(3, annotations=OF_TEMPLATE, uid=pod["metadata"]["uid"], name=pod["metadata"]["name"])
    assert (await ask(webhook, {**made, "metadata": {**made["metadata"], "uid": "c"}}, user=CONTROLLER))["allowed"]


async def test_claim_for_extended_resources_of_a_pod_on_its_way_is_charged_once(serve, namespace, ask, train):
    namespace.limit()
    webhook = await serve()
    assert (await ask(webhook, train(3)))["allowed"]
    assert (await ask(webhook, claim(3, annotations=OF_EXTENDED), user=SCHEDULER))["allowed"]
    assert namespace.taken == 3


async def test_claim_for_extended_resources_of_a_pod_that_was_counted_is_charged_once(
    serve, namespace, sandbox, ask, train
):
    pod = sandbox.create(train(8))
    uid = pod["metadata"]["uid"]
    namespace.limit()
    namespace.count(pods=[(uid, {"h100": Fraction(8)})])
    webhook = await serve()
    made = claim(8, annotations=OF_EXTENDED)
    made["metadata"]["ownerReferences"][0]["uid"] = uid
    assert (await ask(webhook, made, user=SCHEDULER))["allowed"]
    assert namespace.taken == 8


async def test_claim_for_extended_resources_of_a_pod_that_is_gone_is_charged_in_full(serve, namespace, ask):
    namespace.limit(used=8)
    response = await ask(await serve(), claim(1, annotations=OF_EXTENDED), user=SCHEDULER)
    assert "requested: h100=1, used: h100=8, limited: h100=8" in response["status"]["message"]


async def test_product_that_nobody_knows_is_refused_where_the_quota_says_so(serve, namespace, ask, train):
    by_product = {"name": "h100", "selector": {"products": ["H100*"]}, "gpus": 8}
    namespace.limit(by_product, unknownProducts="Deny")
    webhook = await serve()
    response = await ask(webhook, train(1), "quota")
    assert (response["status"]["code"], response["status"]["message"].endswith("[GA503]")) == (403, True)
    named = train(1, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    assert (await ask(webhook, named))["allowed"]


def later(response, seconds):
    status = response["status"]
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"] == {"retryAfterSeconds": seconds}
    assert status["message"].endswith("[GA504]")
    return status["message"]


def warned(response):
    assert response["allowed"]
    assert response["warnings"][0].startswith("GA504 ")
    assert response["auditAnnotations"]["findings"].startswith("GA504=warn")
    return " ".join(line.strip() for line in response["warnings"])


async def test_quota_that_was_not_counted_yet_holds_up_where_it_is_enforced(serve, namespace, ask, train):
    namespace.limit(primed=False)
    webhook = await serve()
    assert later(await ask(webhook, train()), 1).startswith("status unknown for quota: gpu, limits: h100; ")
    assert "charged all the same" in warned(await ask(webhook, train(), "quota"))
    assert namespace.charged == ["1"]


async def test_quota_that_cannot_be_read_holds_up_where_it_is_enforced(serve, namespace, sandbox, ask, train):
    namespace.limit()
    sandbox.replace({**namespace.stored, "spec": {"limits": [{"name": "h100", "gpus": "x"}]}})
    webhook = await serve()
    message = later(await ask(webhook, train()), 30)
    assert message.startswith('GPUQuota gpu of namespace team-a cannot be read: spec.limits[0].gpus: is "x"; ')
    assert "counted when it is seen" in warned(await ask(webhook, train(), "quota"))
    assert webhook.counted == [("quota-enforced", "unreadable"), ("quota", "unreadable")]


@pytest.mark.parametrize("verb", ["GET", "PUT"])
async def test_api_server_that_fails_holds_up_where_quotas_are_enforced(serve, namespace, sandbox, ask, train, verb):
    namespace.limit()
    sandbox.faults.add(failing(), verb=verb, path=f"{QUOTA}*")
    webhook = await serve()
    assert later(await ask(webhook, train()), 5) == (
        "quota gpu of namespace team-a cannot be charged: etcdserver: leader changed; the namespace enforces its quota, so "
        "nothing that gets GPUs is admitted without; try again in 5 s, and if that does not help, show this to your "
        "administrator [GA504]"
    )
    assert "counted when it is seen" in warned(await ask(webhook, train(), "quota"))
    assert webhook.counted == [("quota-enforced", "unavailable"), ("quota", "unavailable")]


async def test_reason_why_nothing_was_charged_is_logged(serve, namespace, sandbox, ask, train, caplog):
    namespace.limit()
    sandbox.faults.add(failing(), path=f"{QUOTA}*")
    with caplog.at_level(logging.WARNING, "gpu_admission.decisions"):
        await ask(await serve(), train(), "quota")
    (record,) = [record for record in caplog.records if record.message.startswith("not charged: ")]
    assert record.message == "not charged: etcdserver: leader changed"
    assert (record.fields["webhook"], record.fields["namespace"], record.fields["name"]) == ("quota", "team-a", "train")


async def test_template_that_cannot_be_read_holds_up_where_quotas_are_enforced(
    serve, namespace, sandbox, ask, of_template
):
    namespace.limit()
    sandbox.faults.add(failing(503, "no"), path="*/resourceclaimtemplates/gpus")
    webhook = await serve()
    assert "cannot be charged: no;" in later(await ask(webhook, of_template()), 5)
    assert "cannot be charged: no;" in warned(await ask(webhook, of_template(), "quota"))


@ENTRIES
async def test_storm_of_conflicts_holds_up_where_quotas_are_enforced(serve, namespace, sandbox, ask, train, entry):
    namespace.limit()
    sandbox.faults.add(conflict(), verb="PUT", path=f"{QUOTA}/status")
    response = await ask(await serve(), train(), entry)
    said = later(response, 1) if entry == "quota-enforced" else warned(response)
    assert "too many requests at once" in said


async def test_answer_comes_before_the_api_server_gives_up_and_nothing_stays_charged(
    serve, namespace, sandbox, ask, train, until, writer
):
    namespace.limit()
    stuck = sandbox.faults.add(half_open(), verb="PUT", path=f"{QUOTA}/status")
    webhook = await serve()
    response = await ask(webhook, train(), query="?timeout=600ms")
    assert "cannot be charged: the API server takes too long;" in later(response, 5)
    sandbox.faults.remove(stuck)
    sandbox.faults.clear()
    await writer.close()
    assert namespace.charged == []


@pytest.mark.parametrize(("entry", "allowed"), [("quota-enforced", False), ("quota", True)])
async def test_mistake_of_ours_is_answered_by_the_failure_policy(serve, namespace, ask, train, entry, allowed):
    class Broken(ManifestsView):
        def derive(self, function):
            raise RuntimeError("a mistake of ours")

    namespace.limit()
    response = await ask(await serve(Broken()), train(), entry)
    assert response["allowed"] is allowed
    assert (response.get("status") or {"code": 500})["code"] == 500


async def test_who_holds_what_is_no_condition_of_a_refusal(serve, namespace, shown, ask, train, monkeypatch):
    namespace.limit(used=8)
    monkeypatch.setattr("webhook.server.holders.holders", lambda *_, **__: 1 / 0)
    response = await ask(await serve(), train(), "quota")
    assert (response["allowed"], response["status"]["code"]) == (False, 403)


async def test_nobody_is_exempt_and_no_setting_makes_less_of_it(serve, namespace, ask, train):
    namespace.limit(used=8)
    everybody = Exemption(from_=("GA5*", "conversion", "access"), users=("*",))
    settings = GPUAdmissionPolicy(rules=(RuleOverride("GA502", "off"),), exemptions=(everybody,))
    assert (await ask(await serve(settings=settings), train()))["allowed"] is False


async def test_no_setting_makes_a_refusal_of_what_is_missing(serve, namespace, ask, of_template):
    namespace.limit()
    settings = GPUAdmissionPolicy(rules=(RuleOverride("GA505", "deny"),))
    assert (await ask(await serve(settings=settings), of_template()))["allowed"]


@ENTRIES
@pytest.mark.parametrize("spec", [{}, {"containers": 5}, {"containers": [{"name": "a", "resources": 5}]}])
async def test_malformed_pods_are_answered(serve, namespace, ask, entry, spec):
    namespace.limit()
    document = {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a", "uid": "1"}, "spec": spec}
    assert (await ask(await serve(), document, entry))["allowed"]


async def test_without_a_ledger_the_view_is_judged_by(start_webhook, namespace, shown, ask, train):
    namespace.limit(used=8)
    namespace.shown[:] = [namespace.stored]
    files = sorted(EXAMPLE_CLUSTER.glob("*.yaml"))
    known = [each for file in files for each in yaml.load_all(file.read_text(), yaml.CSafeLoader) if each]
    webhook = await start_webhook(ManifestsView([*known, *shown]))
    response = await ask(webhook, train())
    assert "requested: h100=2, used: h100=8, limited: h100=8" in response["status"]["message"]
