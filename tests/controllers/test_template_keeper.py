"""Templates exist before an answer refers to them."""

import asyncio
from collections import Counter

import pytest

from policies.conversion.templates import ExactRequest, claim_template
from policies.rules.decision import Template
from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.manifests import ManifestsView
from webhook.server import template_keeper
from webhook.server.template_keeper import RefusedTemplate, TemplateKeeper
from webhook.server.turns import Deadline

TEMPLATE = claim_template("team-a", [ExactRequest("main", "gpu.nvidia.com", 1)])
COLLECTION = "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaimtemplates"
PATH = f"{COLLECTION}/{TEMPLATE.name}"
KEY = ("team-a", TEMPLATE.name)


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counts():
    return Counter()


@pytest.fixture
def keeper_of(api, clock, counts):
    """Make a keeper that sees the cluster through a view."""

    def make(view=None):
        return TemplateKeeper(
            api.client, view or ManifestsView(), clock=clock, count=lambda what: counts.update([what])
        )

    return make


@pytest.fixture
def keeper(keeper_of):
    return keeper_of()


@pytest.fixture
def deadline(clock):
    return Deadline.start(clock, "10s")


async def test_missing_template_is_created(api, keeper, deadline, counts):
    assert await keeper.ensure([TEMPLATE], deadline) == {}
    stored = api.objects[PATH]
    assert (stored["metadata"]["labels"], stored["spec"]) == ({"gpu-admission.io/managed": "true"}, TEMPLATE.spec)
    assert counts == {"created": 1}


async def test_template_that_exists_is_found(api, keeper, deadline, counts):
    api.put(PATH, TEMPLATE.manifest())
    assert await keeper.ensure([TEMPLATE], deadline) == {}
    assert counts == {"found": 1}


async def test_nulls_of_other_clients_are_no_difference(api, keeper, deadline):
    api.put(PATH, {**TEMPLATE.manifest(), "spec": {**TEMPLATE.spec, "constraints": None}})
    assert await keeper.ensure([TEMPLATE], deadline) == {}


async def test_template_with_another_spec_is_given_back(api, keeper, deadline, counts):
    foreign = api.put(PATH, {**TEMPLATE.manifest(), "spec": {"spec": {}}})
    assert await keeper.ensure([TEMPLATE], deadline) == {KEY: foreign}
    assert counts == {"foreign": 1}


async def test_template_that_the_view_shows_is_not_requested(api, keeper_of, deadline):
    keeper = keeper_of(ManifestsView([TEMPLATE.manifest()]))
    assert await keeper.ensure([TEMPLATE], deadline) == {}
    assert api.requests == []


async def test_template_that_was_created_is_remembered_for_a_while(api, keeper, deadline, clock):
    for seconds in (0, 59, 2):
        clock.now += seconds
        await keeper.ensure([TEMPLATE], Deadline.start(clock, "10s"))
    assert api.sent("POST") == [COLLECTION, COLLECTION]


async def test_template_that_a_cache_does_not_show_in_time_is_requested(api, keeper_of, view_of, clock):
    keeper = keeper_of(view_of())
    for seconds in (0, 1, 2):
        clock.now += seconds
        await keeper.ensure([TEMPLATE], Deadline.start(clock, "10s"))
    assert api.sent("POST") == [COLLECTION, COLLECTION]


async def test_memory_is_bounded(api, keeper, deadline, monkeypatch):
    monkeypatch.setattr(template_keeper, "_MOST_REMEMBERED", 2)
    templates = [claim_template("team-a", [ExactRequest("main", "gpu.nvidia.com", count)]) for count in (1, 2, 3)]
    await keeper.ensure(templates, deadline)
    assert list(keeper._remembered) == [("team-a", template.name) for template in templates[1:]]


async def test_mark_of_the_sweep_is_taken_off(api, keeper_of, deadline, counts):
    marked = TEMPLATE.manifest()
    marked["metadata"]["annotations"] = {"gpu-admission.io/unused-since": "2027-01-01T00:00:00Z"}
    before = api.put(PATH, marked)["metadata"]["resourceVersion"]
    assert await keeper_of(ManifestsView([marked])).ensure([TEMPLATE], deadline) == {}
    assert api.objects[PATH]["metadata"]["annotations"] == {}
    assert api.objects[PATH]["metadata"]["resourceVersion"] != before
    assert counts == {"unmarked": 1}


async def test_mark_stays_on_a_template_that_lost_our_label(api, keeper, deadline, counts):
    """The sweep does not delete it, and the API server lets us write to none without the label."""
    marked = TEMPLATE.manifest()
    marked["metadata"] |= {"labels": {}, "annotations": {"gpu-admission.io/unused-since": "2027-01-01T00:00:00Z"}}
    api.put(PATH, marked)
    assert await keeper.ensure([TEMPLATE], deadline) == {}
    assert (api.sent("PATCH"), counts) == ([], {"found": 1})


async def test_template_that_vanishes_between_two_calls_is_created(api, keeper, deadline, counts):
    api.fail("POST", 409, "AlreadyExists", "exists")
    assert await keeper.ensure([TEMPLATE], deadline) == {}
    assert PATH in api.objects
    assert counts == {"created": 1}


async def test_creation_that_meets_a_conflict_is_tried_again(api, keeper, deadline, counts):
    """Quota counts templates, and writes the count into its status."""
    api.fail("POST", 409, "Conflict", "Operation cannot be fulfilled on resourcequotas")
    assert await keeper.ensure([TEMPLATE], deadline) == {}
    assert counts == {"created": 1}


async def test_many_that_wait_for_one_template_create_it_once(api, keeper, deadline):
    assert await asyncio.gather(*(keeper.ensure([TEMPLATE], deadline) for _ in range(50))) == [{}] * 50
    assert api.sent("POST") == [COLLECTION]


async def test_caller_that_gives_up_does_not_decide_for_others(api, keeper, clock):
    api.gate = asyncio.Event()
    hasty = asyncio.create_task(keeper.ensure([TEMPLATE], Deadline.start(clock, "0s")))
    patient = asyncio.create_task(keeper.ensure([TEMPLATE], Deadline.start(clock, "10s")))
    with pytest.raises(TimeoutError):
        await hasty
    api.gate.set()
    assert await patient == {}
    assert api.sent("POST") == [COLLECTION]


async def test_failure_without_a_waiting_call_is_only_counted(api, keeper, clock, counts):
    api.gate = asyncio.Event()
    api.fail("POST", 500, "InternalError", "etcdserver: no leader")
    with pytest.raises(TimeoutError):
        await keeper.ensure([TEMPLATE], Deadline.start(clock, "0s"))
    (begun,) = keeper._under_way.values()
    api.gate.set()
    await asyncio.wait({begun})
    await asyncio.sleep(0)
    assert (keeper._under_way, counts) == ({}, {"failed": 1})


@pytest.mark.parametrize("code", [403, 404, 422, 429])
async def test_refusal_is_reported_with_the_template(api, keeper, deadline, code):
    api.fail("POST", code, "Reason", "said so")
    with pytest.raises(RefusedTemplate) as raised:
        await keeper.ensure([TEMPLATE], deadline)
    assert (raised.value.template, raised.value.error.code) == (TEMPLATE, code)


async def test_failure_is_raised_and_not_remembered(api, keeper, deadline):
    api.fail("POST", 500, "InternalError", "etcdserver: no leader")
    with pytest.raises(APIError, match="etcdserver: no leader"):
        await keeper.ensure([TEMPLATE], deadline)
    assert await keeper.ensure([TEMPLATE], deadline) == {}


async def test_connection_that_breaks_is_tried_again(api, keeper, deadline):
    api.fail("POST", 0, times=2)
    assert await keeper.ensure([TEMPLATE], deadline) == {}


async def test_server_that_stays_away_is_unreachable(api, keeper, deadline):
    api.fail("POST", 0, times=3)
    with pytest.raises(Unreachable):
        await keeper.ensure([TEMPLATE], deadline)


async def test_one_name_in_two_namespaces_is_two_templates(api, keeper, deadline):
    other = Template("team-b", TEMPLATE.name, TEMPLATE.spec)
    await keeper.ensure([TEMPLATE, other], deadline)
    assert len(api.objects) == 2
