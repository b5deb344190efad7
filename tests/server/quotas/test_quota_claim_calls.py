"""Charges for claims: by their templates with their pods, or by themselves."""

from fractions import Fraction

from tests.server.quotas.quota_calls import CONTROLLER, OF_EXTENDED, OF_TEMPLATE, SCHEDULER, claim, template


async def test_template_that_no_cache_shows_yet_is_read(serve, namespace, sandbox, ask, of_template):
    namespace.limit()
    sandbox.create(template(3))
    response = await ask(await serve(), of_template())
    assert response == {"uid": response["uid"], "allowed": True}
    assert namespace.taken == 3


async def test_template_that_does_not_exist_is_reported(serve, namespace, ask, of_template):
    namespace.limit()
    response = await ask(await serve(), of_template())
    assert response["allowed"]
    assert " ".join(line.strip() for line in response["warnings"]) == (
        'Create the template first; its claim is charged when it is made: no ResourceClaimTemplate "gpus" exists in team-a, '
        "so nothing is charged for it now; spec.resourceClaims[0].resourceClaimTemplateName [GA505]"
    )
    assert namespace.charged == []


async def test_template_that_no_object_can_be_called_does_not_exist(serve, namespace, ask, train):
    namespace.limit()
    claims = [{"name": "gpu", "resourceClaimTemplateName": "../pods"}]
    response = await ask(await serve(), train(0, resourceClaims=claims))
    assert response["allowed"]
    assert response["warnings"][-1].endswith(" [GA505]")


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
    assert (
        ': needs 3 GPUs, 2 of 8 left in limit "h100" (3 reserved); exceeded quota: gpu; '
        in response["status"]["message"]
    )
    assert (await ask(webhook, claim(5, annotations=OF_TEMPLATE), user=CONTROLLER))["allowed"]
    assert namespace.taken == 8


async def test_claim_that_only_says_it_is_made_for_a_pod_is_charged_in_full(serve, namespace, shown, ask, of_template):
    namespace.limit()
    shown.append(template(3))
    webhook = await serve()
    assert (await ask(webhook, of_template()))["allowed"]
    assert (await ask(webhook, claim(3, annotations=OF_TEMPLATE), user="mallory"))["allowed"]
    assert namespace.taken == 6


async def test_claim_of_an_uncharged_pod_is_charged_in_full(serve, namespace, ask):
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
    assert ': needs 1 GPU, 0 of 8 left in limit "h100"; exceeded quota: gpu; ' in response["status"]["message"]
