"""A pod that names thousands of claims: bounded reads, and the answer."""

import pytest

from policies.fleet.pod_claims import MOST_CLAIMS
from policies.kubernetes.view import PassingView
from policies.quota.charging import MOST_UNSEEN, charge_decision
from policies.quota.demands import pods as demands
from policies.quota.ledger.ledger import ROOM
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.sandbox.faults import failing
from tests.server.quotas.quota_calls import ENTRIES, later, template, warned
from webhook.cluster.manifests import ManifestsView

MANY = 20_000
MOST_READS = MOST_UNSEEN + 1


def claims(count, name="made-{}".format, template_name="nobody-made-{}".format, field="resourceClaimTemplateName"):
    return [{"name": name(index), field: template_name(index)} for index in range(count)]


CROWDS = {
    "distinct": claims(MANY),
    "one-template": claims(MANY, template_name="nobody-made".format),
    "one-name": claims(MANY, name="gpu".format),
    "claims-by-name": claims(MANY, field="resourceClaimName"),
}


def reads(sandbox):
    return [each for each in sandbox.requests if each.verb in ("get", "list")]


@ENTRIES
@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS)
async def test_namespace_without_a_quota_costs_one_read(serve, sandbox, ask, train, entry, crowd):
    webhook = await serve()
    before = len(reads(sandbox))
    response = await ask(webhook, train(1, resourceClaims=crowd), entry)
    assert response == {"uid": response["uid"], "allowed": True}
    assert [each.resource for each in reads(sandbox)[before:]] == ["gpuquotas"]
    assert webhook.counted == [(entry, "no_quota")]


@ENTRIES
@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS)
async def test_pod_with_thousands_of_claims_costs_at_most_32_reads_and_few_warnings(
    serve, namespace, sandbox, ask, train, entry, crowd
):
    namespace.limit()
    webhook = await serve()
    before = len(reads(sandbox))
    response = await ask(webhook, train(1, resourceClaims=crowd), entry)
    assert len(reads(sandbox)[before:]) <= MOST_READS
    assert len(response.get("warnings", [])) < 10
    # By name means that somebody else was charged.
    assert response["allowed"] is (entry == "check-pods" or "resourceClaimName" in crowd[0])


async def test_claims_beyond_what_is_read_are_refused_with_429(serve, namespace, ask, train):
    namespace.limit()
    response = await ask(await serve(), train(1, resourceClaims=claims(32)))
    assert later(response, 10) == (
        "Try again in 10 s, and create the templates first, or request fewer claims: quota gpu of namespace team-a cannot be "
        "charged: spec.resourceClaims names 32 ResourceClaimTemplates that are not known yet, and at most 31 are read for a … "
        "[GA504]"
    )
    assert namespace.charged == []


async def test_claims_beyond_what_can_be_charged_are_refused_for_good(serve, namespace, shown, ask, train):
    namespace.limit()
    shown.append(template(0))
    webhook = await serve()
    response = await ask(webhook, train(1, resourceClaims=claims(1001, template_name="gpus".format)))
    assert (response["status"]["code"], "details" in response["status"]) == (403, False)
    assert response["status"]["message"] == (
        "Request fewer claims: quota gpu of namespace team-a cannot be charged: spec.resourceClaims has 1,001 claims from "
        "templates, and at most 1,000 can be charged for one pod [GA504]"
    )
    assert webhook.counted == [("enforce-quota", "too_many_claims")]
    assert namespace.charged == []


async def test_claims_beyond_what_can_be_charged_are_a_warning_where_the_quota_is_not_enforced(
    serve, namespace, shown, ask, train
):
    namespace.limit()
    shown.append(template(0))
    response = await ask(
        await serve(), train(3, resourceClaims=claims(1001, template_name="gpus".format)), "check-pods"
    )
    assert response["allowed"]
    assert " ".join(line.strip() for line in response["warnings"]) == (
        "Request fewer claims: resourceClaims has 1,001 claims from templates, and at most 1,000 can be charged for one pod; "
        "spec.resourceClaims [GA505]"
    )
    assert namespace.taken == 3


async def test_claims_beyond_what_is_read_are_a_warning_where_the_quota_is_not_enforced(serve, namespace, ask, train):
    namespace.limit()
    response = await ask(await serve(), train(3, resourceClaims=claims(32)), "check-pods")
    assert response["allowed"]
    assert " ".join(line.strip() for line in response["warnings"]) == (
        "Create the templates first, or request fewer claims: resourceClaims names 32 ResourceClaimTemplates that are not "
        "known yet, and at most 31 are read for a pod; spec.resourceClaims [GA505]"
    )
    assert namespace.taken == 3


async def test_31_templates_that_are_not_known_are_read(serve, namespace, sandbox, ask, train):
    namespace.limit({"name": "h100", "gpus": 40})
    for index in range(31):
        made = template(1)
        sandbox.create({**made, "metadata": {**made["metadata"], "name": f"nobody-made-{index}"}})
    webhook = await serve()
    before = len(reads(sandbox))
    assert (await ask(webhook, train(1, resourceClaims=claims(31))))["allowed"]
    assert len(reads(sandbox)[before:]) == MOST_READS
    assert namespace.taken == 32


async def test_templates_are_not_read_where_the_quota_cannot_be(serve, namespace, sandbox, ask, train):
    namespace.limit()
    webhook = await serve()
    sandbox.faults.add(failing(503), verb="GET", path="*/gpuquotas/gpu")
    before = len(reads(sandbox))
    later(await ask(webhook, train(1, resourceClaims=claims(31))), 5)
    warned(await ask(webhook, train(1, resourceClaims=claims(31)), "check-pods"))
    # What fails at once is not among the requests.
    assert reads(sandbox)[before:] == []


class Counting(PassingView):
    """A view that counts what is looked up."""

    def __init__(self, view):
        super().__init__(view)
        self.looked_up = 0

    def get(self, kind, name, namespace=""):
        self.looked_up += kind == "ResourceClaimTemplate"
        return super().get(kind, name, namespace)


@pytest.fixture
def resolved(monkeypatch):
    """How many templates were resolved, with how much for selectors left after each."""
    found = []
    resolve = demands.demands_of_template

    def counted(*arguments):
        asked = resolve(*arguments)
        found.append(arguments[-1].own.left)
        return asked

    monkeypatch.setattr(demands, "demands_of_template", counted)
    return found


def test_ledger_has_room_for_all_claims_of_a_pod():
    assert ROOM.charges >= MOST_CLAIMS


def test_template_is_resolved_once_however_often_a_pod_names_it(train, resolved):
    view = Counting(ManifestsView([template(1)]))
    pod = train(0, resourceClaims=claims(1000, template_name="gpus".format))
    (asked,) = charge_decision(Request(pod, namespace="team-a"), view, DEFAULTS).charges
    assert (len(asked.pieces), len(resolved), view.looked_up) == (1000, 1, 1)


def test_no_template_is_resolved_for_more_claims_than_can_be_charged(train, resolved):
    view = Counting(ManifestsView([template(1)]))
    pod = train(0, resourceClaims=claims(MANY, template_name="gpus".format))
    (asked,) = charge_decision(Request(pod, namespace="team-a"), view, DEFAULTS).charges
    assert (len(asked.pieces), len(resolved), view.looked_up) == (0, 0, 0)
    assert asked.excess is not None


def costly(name):
    made = template(1)
    request = made["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    expression = f"device.attributes['gpu.nvidia.com'].productName != '{name * 500}'"
    request["selectors"] = [{"cel": {"expression": expression}}]
    return {**made, "metadata": {**made["metadata"], "name": f"nobody-made-{name}"}}


def test_selectors_of_all_templates_of_a_pod_share_one_budget(train, resolved):
    names = [f"{index}" for index in range(40)]
    view = ManifestsView([costly(name) for name in names])
    (asked,) = charge_decision(Request(train(0, resourceClaims=claims(40)), namespace="team-a"), view, DEFAULTS).charges
    assert (len(asked.pieces), len(resolved)) == (40, 40)
    assert resolved == sorted(resolved, reverse=True)
    assert resolved[0] > resolved[-1] == resolved[-2]
    # Beyond it, a claim counts as if it had no selector: the most that it can be.
    assert all(any(ask.is_open for ask in each) for each in asked.pieces.values())
