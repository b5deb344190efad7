"""The leader makes, counts and deletes the GPUQuotaGroups of ClusterGPUQuotas."""

from fractions import Fraction

import pytest
from prometheus_client import CollectorRegistry

from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.status import Count
from policies.quota.limits.quota import Limit, Quota
from policies.rules.charges import OWN, Bill, Charge
from testbed import libyaml
from tests.controllers.quotas.conftest import API
from webhook.cluster.clockwork import Clockwork
from webhook.controllers.group_upkeep import GroupUpkeep
from webhook.controllers.metrics import QuotaMetrics
from webhook.controllers.presence import Presence
from webhook.ledger import LedgerKey

ENFORCED = {"gpu-admission.io/quota": "enforced"}


class Research:
    """A ClusterGPUQuota of eight GPUs for each value of the label `team`, and its namespaces."""

    def __init__(self, team, leader, clockwork):
        self.team, self.leader, self.sandbox = team, leader, team.sandbox
        self.upkeep = GroupUpkeep(leader.client, leader.view, clockwork)

    def quota(self, gpus=8, name="research", created="2026-11-01T00:00:00Z", **spec):
        self.sandbox.create(
            {
                "apiVersion": "gpu-admission.io/v1alpha1",
                "kind": "ClusterGPUQuota",
                "metadata": {"name": name, "creationTimestamp": created},
                "spec": {"namespaceSelector": {}, "groupBy": "team", "limits": [{"name": "all", "gpus": gpus}], **spec},
            }
        )

    def namespace(self, name, team=None, **labels):
        labels = {**ENFORCED, **({"team": team} if team else {}), **labels}
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        stored = self.sandbox.get("Namespace", name)
        if stored is None:
            self.sandbox.create(document)
        else:
            self.sandbox.replace({**stored, "metadata": {**stored["metadata"], "labels": labels}})

    def pod(self, name, namespace, gpus):
        self.sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace, "uid": name},
                "spec": {
                    "containers": [
                        {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
                    ]
                },
                "status": {"phase": "Pending"},
            }
        )

    async def charge(self, namespace, uid, group="research.blue"):
        """Charge a pod of one GPU to a group."""
        one = Bill({"all": Fraction(1)}, {"gpus": Fraction(1), "memory": Fraction(0), "devices": Fraction(1)})
        charge = Charge(uid, "Pod", namespace, f"{namespace}/{uid}", {OWN: one})
        await self.leader.writer.charge(LedgerKey.of_group(group), lambda _quota: charge, enforced=True)

    async def round(self):
        """A round of the upkeep and one of the count, each over what there is now."""
        await self.leader.see()
        await self.upkeep.round()
        await self.leader.count()

    async def settle(self):
        """Rounds until nothing more follows from what there is."""
        for _ in range(4):
            await self.round()

    def group(self, name="research.blue"):
        return self.sandbox.get("GPUQuotaGroup", name)

    def summary(self, name="research.blue"):
        return self.group(name)["status"]["summary"]

    def condition(self, document, kind="Enforced"):
        (found,) = (each for each in document["status"]["conditions"] if each["type"] == kind)
        return found["status"], found["reason"], found["message"]

    @property
    def stored(self):
        return self.sandbox.get("ClusterGPUQuota", "research")


@pytest.fixture
def research(team, leader, midnight):
    for document in libyaml.load_all((API / "team-quota-labels.yaml").read_text()):
        team.sandbox.create(document)
    return Research(team, leader, Clockwork(clock=lambda: team.seconds, now=lambda: midnight))


async def test_each_value_of_the_label_gets_a_group_with_the_limits(research):
    research.quota(mode="Warn")
    for name, team in (("a", "blue"), ("b", "blue"), ("c", "red")):
        research.namespace(name, team)
    await research.settle()
    blue, red = research.group(), research.group("research.red")
    limits = {"limits": [{"name": "all", "gpus": 8}], "mode": "Warn"}
    assert blue["spec"] == {"quota": "research", "group": "blue", **limits}
    assert (blue["status"]["namespaces"], red["status"]["namespaces"]) == (["a", "b"], ["c"])
    (owner,) = blue["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (
        "ClusterGPUQuota",
        "research",
        research.stored["metadata"]["uid"],
    )


async def test_pods_of_all_namespaces_of_a_group_count_together(research):
    research.quota()
    for name, team, gpus in (("a", "blue", 3), ("b", "blue", 2), ("c", "red", 4)):
        research.namespace(name, team)
        research.pod(f"pod-{name}", name, gpus)
    await research.settle()
    assert (research.summary(), research.summary("research.red")) == ("all 5 of 8", "all 4 of 8")


async def test_changed_limits_are_copied_and_the_ledger_stays(research):
    research.quota()
    research.namespace("a", "blue")
    research.pod("pod", "a", 3)
    await research.settle()
    stored = research.stored
    metadata = {**stored["metadata"], "generation": 2}
    spec = {**stored["spec"], "limits": [{"name": "all", "gpus": 4}], "mode": "Warn"}
    research.sandbox.replace({**stored, "metadata": metadata, "spec": spec})
    await research.settle()
    assert (research.group()["spec"]["mode"], research.summary()) == ("Warn", "all 3 of 4")
    del spec["mode"]
    research.sandbox.replace({**research.stored, "metadata": {**metadata, "generation": 3}, "spec": spec})
    await research.settle()
    assert "mode" not in research.group()["spec"]


async def test_group_without_namespaces_is_deleted_once_it_counts_nothing(research):
    research.quota()
    research.namespace("a", "blue")
    research.pod("pod", "a", 3)
    await research.settle()
    research.namespace("a", "red")
    await research.settle()
    assert research.group() is None
    assert research.summary("research.red") == "all 3 of 8"


async def test_charge_keeps_a_group_without_namespaces(research):
    research.quota()
    research.namespace("a", "blue")
    await research.settle()
    await research.charge("a", "on-its-way")
    research.pod("on-its-way", "a", 1)
    stored = research.stored
    research.sandbox.replace({**stored, "spec": {**stored["spec"], "groupBy": "other"}})
    await research.leader.see()
    await research.upkeep.round()
    assert research.summary() == "all 1 of 8"
    await research.settle()
    assert research.group() is None


async def test_conditions_say_that_a_group_holds(research):
    research.quota()
    research.namespace("a", "blue")
    await research.settle()
    said = "In all its namespaces, pods and claims that get GPUs are refused while the quota cannot be charged."
    assert research.condition(research.group()) == ("True", "Enforced", said)
    assert research.condition(research.stored) == ("True", "Enforced", said)
    assert research.condition(research.group(), "Ready")[:2] == ("True", "Counted")


async def test_namespace_without_the_label_that_closes_is_named(research):
    research.quota()
    research.namespace("a", "blue", **{"gpu-admission.io/quota": ""})
    research.namespace("b", "blue")
    await research.settle()
    status, reason, message = research.condition(research.group())
    assert (status, reason) == ("False", "FailsOpen")
    assert message.startswith("Label with gpu-admission.io/quota: enforced: a. ")
    assert research.condition(research.stored) == ("False", "FailsOpen", f"GPUQuotaGroup research.blue: {message}")


async def test_status_counts_groups_and_namespaces_and_those_outside(research):
    research.quota()
    for name, team in (("a", "blue"), ("b", "blue"), ("c", "red")):
        research.namespace(name, team)
    await research.settle()
    status = research.stored["status"]
    # The sandbox has some without the label.
    assert (status["groups"], status["namespaces"], status["outside"]) == (2, 3, 5)


async def test_younger_of_two_that_choose_a_namespace_counts_nothing_there_and_says_so(research):
    research.quota()
    research.quota(name="later", created="2026-11-02T00:00:00Z", groupBy="team")
    research.namespace("a", "blue")
    await research.settle()
    assert research.group("later.blue") is None
    status, reason, message = research.condition(research.sandbox.get("ClusterGPUQuota", "later"))
    assert (status, reason) == ("False", "Overlap")
    assert "a (research)" in message


async def test_limits_of_teams_whose_labels_nothing_guards_do_not_hold(research):
    research.quota()
    research.namespace("a", "blue")
    research.sandbox.remove("ValidatingAdmissionPolicyBinding", "team-quota-labels.gpu-admission.io")
    await research.settle()
    status, reason, message = research.condition(research.stored)
    assert (status, reason) == ("False", "Unguarded")
    assert message == (
        "Install the policy team-quota-labels.gpu-admission.io and its binding as they are shipped: nothing keeps who may edit a "
        "namespace from changing its label team, and with it the limits that count there."
    )


async def test_unreadable_quota_keeps_its_groups_and_says_what_is_wrong(research):
    research.quota()
    research.namespace("a", "blue")
    research.pod("pod", "a", 3)
    await research.settle()
    stored = research.stored
    broken = {**stored["spec"], "limits": [{"name": "all", "gpus": 8, "min": "1Ti"}]}
    research.sandbox.replace({**stored, "metadata": {**stored["metadata"], "generation": 2}, "spec": broken})
    await research.settle()
    assert research.summary() == "all 3 of 8"
    assert research.group()["status"]["namespaces"] == ["a"]
    status, reason, message = research.condition(research.stored)
    assert (status, reason) == ("Unknown", "Unreadable")
    assert message.endswith(" Until this is put right, its groups keep the limits and namespaces that they have.")
    corrected = research.stored
    metadata = {**corrected["metadata"], "generation": 3}
    research.sandbox.replace({**corrected, "metadata": metadata, "spec": stored["spec"]})
    await research.settle()
    assert research.condition(research.stored)[:2] == research.condition(stored)[:2]


async def test_nothing_is_written_when_nothing_changes(research):
    research.quota()
    research.namespace("a", "blue")
    research.pod("pod", "a", 3)
    await research.settle()
    written = [(kind, research.team.requests(verb, kind)) for verb, kind in WRITES]
    await research.settle()
    assert [(kind, research.team.requests(verb, kind)) for verb, kind in WRITES] == written
    assert all(number for _, number in written)


WRITES = [("create", "gpuquotagroups"), ("update", "gpuquotagroups"), ("patch", "clustergpuquotas")]


@pytest.fixture
async def other(research):
    """The presence of another replica, with the leader's caches."""
    research.sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-admission"}})
    leader, team = research.leader, research.team
    presence = Presence(
        leader.client,
        "gpu-admission",
        "replica-b",
        lambda: leader.stores,
        clockwork=Clockwork(clock=lambda: team.seconds),
    )
    await leader.see()
    await presence._turn(team.seconds)
    return presence


async def test_group_holds_once_all_replicas_have_seen_a_namespace_that_joins(research, other):
    research.quota()
    research.namespace("a", "blue")
    await research.settle()
    status, reason, message = research.condition(research.group())
    assert (status, reason) == ("Unknown", "NotSeen")
    assert "replica-b has not seen it" in message
    await other._turn(research.team.seconds)
    await research.settle()
    assert research.condition(research.group())[0] == "True"
    research.namespace("b", "blue")
    await research.settle()
    assert research.condition(research.group())[:2] == ("Unknown", "NotSeen")
    await other._turn(research.team.seconds)
    await research.settle()
    assert research.condition(research.group())[0] == "True"


async def begin_move(research, other):
    """Namespace a, with three GPUs, moves from group blue, which b stays in, to red; the other replica has not seen it."""
    research.quota()
    research.namespace("a", "blue")
    research.namespace("b", "blue")
    research.pod("pod", "a", 3)
    await research.settle()
    await other._turn(research.team.seconds)
    await research.settle()
    research.namespace("a", "red")
    await research.settle()


async def test_namespace_that_moves_counts_in_both_groups_until_all_replicas_have_seen_it(research, other):
    await begin_move(research, other)
    assert (research.summary(), research.summary("research.red")) == ("all 3 of 8", "all 3 of 8")
    assert (research.group()["status"]["namespaces"], research.group("research.red")["status"]["namespaces"]) == (
        ["a", "b"],
        ["a"],
    )
    await other._turn(research.team.seconds)
    await research.settle()
    assert (research.summary(), research.summary("research.red")) == ("all 0 of 8", "all 3 of 8")
    assert research.group()["status"]["namespaces"] == ["b"]


async def test_charge_on_its_way_ends_in_the_group_that_its_namespace_has_left(research):
    research.quota()
    research.namespace("a", "blue")
    research.namespace("b", "blue")
    await research.settle()
    await research.charge("a", "on-its-way")
    research.pod("on-its-way", "a", 1)
    research.namespace("a", "red")
    await research.settle()
    assert (research.summary(), research.summary("research.red")) == ("all 0 of 8", "all 1 of 8")


async def test_next_leader_still_counts_a_namespace_that_was_moving(research, other, replica):
    await begin_move(research, other)
    research.leader = await replica()
    research.upkeep.view = research.leader.view
    await research.settle()
    assert (research.summary(), research.summary("research.red")) == ("all 3 of 8", "all 3 of 8")
    await other._turn(research.team.seconds)
    await research.settle()
    assert (research.summary(), research.summary("research.red")) == ("all 0 of 8", "all 3 of 8")


def test_expected_and_lent_amounts_of_groups_are_exported():
    registry = CollectorRegistry()
    metrics = QuotaMetrics(registry)
    limit = Limit("all", "gpus", Fraction(8), expected=Fraction(4))
    for name, used in {"research.speech": 1, "research.vision": 6, "other.vision": 0}.items():
        ledger = Ledger({"all": Count(limit.key, Fraction(used))})
        metrics.show(LedgerKey.of_group(name), Quota((limit,)), ledger)
    amounts = {
        (group, amount): registry.get_sample_value(
            "gpu_admission_quota_group", {"group": group, "limit": "all", "unit": "gpus", "amount": amount}
        )
        for group in ("research.speech", "research.vision", "other.vision")
        for amount in ("expected", "lent")
    }
    assert amounts == {
        ("research.speech", "expected"): 4,
        ("research.speech", "lent"): 2,
        ("research.vision", "expected"): 4,
        ("research.vision", "lent"): 0,
        ("other.vision", "expected"): 4,
        ("other.vision", "lent"): 0,
    }
