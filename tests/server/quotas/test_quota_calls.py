"""Calls of the entries that charge quotas, with an API server that has the ledger."""

from datetime import UTC, datetime, timedelta

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from policies.rules.settings.choices import Exemption, GPUAdmissionPolicy, Quotas, RuleOverride
from tests.server.quotas.quota_calls import ENTRIES, example_cluster, team_a
from webhook.cluster.manifests import ManifestsView


@ENTRIES
async def test_pod_that_fits_is_charged_before_it_is_admitted(serve, namespace, ask, train, entry):
    namespace.limit(used=5)
    webhook = await serve()
    response = await ask(webhook, train(2), entry)
    assert response == {"uid": response["uid"], "allowed": True}
    assert (namespace.charged, namespace.taken) == (["1"], 7)
    assert webhook.counted == [(entry, "charged")]


@ENTRIES
async def test_refusal_over_quota_says_first_what_to_change(serve, namespace, shown, ask, train, entry):
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
        "message": 'Request fewer GPUs, or wait until some pods end: needs 2 GPUs, 1 of 8 left in limit "h100"; exceeded quota: '
        "gpu; 1 pod or claim holds 4; gpu-admission quota -n team-a shows who holds what [GA502]",
    }
    assert response["auditAnnotations"] == {"findings": "GA502=deny"}
    assert namespace.charged == []
    assert webhook.counted == [(entry, "exceeded")]


@pytest.mark.parametrize(
    ("setting", "client", "named"),
    [
        ("Auto", "kube-apiserver", True),
        ("Auto", None, False),
        ("Always", None, True),
        ("Never", "kube-apiserver", False),
    ],
)
async def test_holders_are_named_to_whom_the_settings_say(
    serve, namespace, shown, ask, train, client_of, client_context, setting, client, named
):
    namespace.limit(used=7)
    shown.append({**train(4), "metadata": {"name": "train-7", "namespace": "team-a", "uid": "7"}})
    allowed = None if client is None else [client]
    webhook = await serve(settings=GPUAdmissionPolicy(quota=Quotas(name_holders=setting)), allowed=allowed)
    if client is not None:
        webhook.client = await client_of(webhook.port, client_context(client))
    message = (await ask(webhook, train(2)))["status"]["message"]
    assert ("team-a/train-7 has held 4" in message) is named
    assert ("1 pod or claim holds 4;" in message) is not named


async def test_long_refusal_over_quota_keeps_the_words_and_the_remedy(serve, namespace, shown, ask, train):
    namespace.limit(used=7)
    for number in range(3):
        metadata = {"name": f"train-{number}-{'x' * 200}", "namespace": "team-a", "uid": f"{number}"}
        shown.append({**train(4), "metadata": metadata})
    webhook = await serve(settings=GPUAdmissionPolicy(quota=Quotas(name_holders="Always")))
    message = (await ask(webhook, train(2)))["status"]["message"]
    assert message.startswith(
        'Request fewer GPUs, or wait until some pods end: needs 2 GPUs, 1 of 8 left in limit "h100"; exceeded quota: gpu; '
        "team-a/train-0-xxxxx…"
    )
    assert message.endswith("… [GA502]")
    assert len(message) == 240


async def test_pod_that_is_reviewed_again_is_charged_once(serve, namespace, ask, train):
    namespace.limit()
    webhook = await serve()
    for _ in range(2):
        assert (await ask(webhook, train(5)))["allowed"]
    assert namespace.taken == 5


async def test_quota_in_mode_warn_admits_charges_and_tells(serve, namespace, ask, train):
    namespace.limit(used=7, mode="Warn")
    response = await ask(await serve(), train(2))
    assert response["allowed"]
    assert " ".join(line.strip() for line in response["warnings"]) == (
        'Request fewer GPUs, or wait until some pods end: needs 2 GPUs, 1 of 8 left in limit "h100"; exceeded quota: gpu; '
        "gpu-admission quota -n team-a shows who holds what; it is admitted all the same, because the quota has mode: Warn "
        "[GA502]"
    )
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
    shown.append(team_a(dra="enabled"))
    webhook = await serve()
    request = Request(train(gpus), namespace="team-a", entry="convert-pods")
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


async def test_unknown_product_is_refused_if_the_quota_says_so(serve, namespace, ask, train):
    by_product = {"name": "h100", "selector": {"products": ["H100*"]}, "gpus": 8}
    namespace.limit(by_product, unknownProducts="Deny")
    webhook = await serve()
    response = await ask(webhook, train(1), "check-pods")
    assert (response["status"]["code"], response["status"]["message"].endswith("[GA503]")) == (403, True)
    named = train(1, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    assert (await ask(webhook, named))["allowed"]


async def test_no_user_and_no_setting_lowers_the_rule(serve, namespace, ask, train):
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
    webhook = await start_webhook(ManifestsView([*example_cluster(), *shown]))
    response = await ask(webhook, train())
    assert response["status"]["message"] == (
        'Wait until some pods end: needs 2 GPUs, 0 of 8 left in limit "h100"; exceeded quota: gpu [GA502]'
    )
