"""Claims that the pods of a PodGroup share are charged once, to the group."""

from dataclasses import replace
from fractions import Fraction

import pytest

from policies.devices.pod_groups import POD_GROUP_VERSIONS
from policies.kubernetes.view import UNKNOWN, PassingView
from policies.quota.charging import charge_decision
from policies.quota.counter import Counter, Terms
from policies.quota.demands.bills import charge_under
from policies.quota.ledger.ledger import Exceeded, Ledger
from policies.quota.ledger.recount import Snapshot, recount
from policies.rules.charges import OWN
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.quota.charge_requests import CONTROLLER, charge_request, owned, quota
from tests.quota.pod_group_objects import ENTRY, group, group_claim, member


@pytest.fixture
def view(example, template, request_for):
    """The cluster of the examples with a template of two GPUs, and other objects."""

    def view(*more):
        return example(template(request_for(count=2)), *more)

    return view


@pytest.fixture
def primed():
    """A ledger of which nothing is used."""
    return recount(Ledger(), quota(), Snapshot({}, {}, "10", "10"))


def charged(ledger, found):
    return ledger.charge(charge_under(found, quota()), quota())


def total(ledger):
    return ledger.reservations.total.get("all", 0)


def counted(ledger, view, pods=(), claims=(), gone=()):
    """The ledger after a count of these pods and claims."""
    counter = Counter()
    seen = counter.count(pods, claims, Terms(quota(), view, DEFAULTS.quota))
    shares = counter.shares((charge.uid for charge in ledger.reservations), view)
    return recount(ledger, quota(), Snapshot(*seen, "20", "20", gone, shares))


def taken(ledger):
    """Used and reserved."""
    return ledger.used_amount(quota().limits[0]), total(ledger)


def test_shared_claim_is_charged_to_the_group(pod, view):
    found = charge_request(member(pod), view(group()))
    assert found.pieces == {}
    assert (found.shared.kind, found.shared.uid, found.shared.name) == ("PodGroup", "g", "ring")
    charge = charge_under(found, quota())
    assert {piece: bill.amounts for piece, bill in charge.shared.pieces.items()} == {"gpus": {"all": 2}}


def test_second_pod_of_a_group_is_charged_nothing_more(pod, view, primed):
    cluster = view(group())
    first = charged(primed, charge_request(member(pod), cluster))
    second = charged(first, charge_request(member(pod, "other", "2"), cluster))
    assert (total(first), total(second)) == (2, 2)


def test_what_a_pod_requests_besides_its_group_is_its_own(pod, view, primed):
    entries = (ENTRY, {"name": "own", "resourceClaimTemplateName": "gpus"})
    after = primed
    for uid in ("1", "2"):
        after = charged(after, charge_request(member(pod, uid, uid, entries=entries), view(group())))
    assert total(after) == 2 + 2 + 2


@pytest.mark.parametrize(
    "entries",
    [
        ({"name": "other", "resourceClaimTemplateName": "gpus"},),
        ({"name": "gpus", "resourceClaimTemplateName": "others"},),
        ({"name": "gpus", "resourceClaimName": "gpus"},),
        (),
    ],
    ids=["another-name", "another-template", "a-claim", "no-claims"],
)
def test_entry_that_is_not_the_groups_is_the_pods_own(pod, view, entries):
    found = charge_request(member(pod), view(group(entries=entries)))
    assert (found.pieces.keys(), found.shared) == ({"gpus"}, None)


def test_claim_of_a_group_that_does_not_exist_is_the_pods_own(pod, view):
    assert charge_request(member(pod), view(group(name="other"))).pieces.keys() == {"gpus"}


@pytest.mark.parametrize(
    "documents", [(), ({**group(), "apiVersion": "scheduling.volcano.sh/v1beta1"},)], ids=["unknown", "volcano"]
)
def test_claim_that_an_unknown_group_may_share_is_charged_when_it_is_made(pod, view, claim, request_for, documents):
    """Once for all pods of the group; each pod would be charged for it otherwise."""
    cluster = view(*documents)
    found = charge_request(member(pod), cluster)
    assert (found.pieces, found.shared) == ({}, None)
    made = charge_request(group_claim(claim(request_for(count=2))), cluster, CONTROLLER)
    assert made.pieces.keys() == {OWN}


def test_warning_says_that_an_unknown_group_may_share_the_claim(pod, view):
    request = Request(member(pod), namespace="team-a")
    (finding,) = charge_decision(request, view(), DEFAULTS).findings
    assert (finding.rule.id, str(finding.path)) == ("GA505", "spec.resourceClaims[0].resourceClaimTemplateName")
    assert finding.message == (
        'PodGroup "ring" is unknown, and its pods may share the claim, so it is charged when it is made'
    )


@pytest.mark.parametrize("version", POD_GROUP_VERSIONS)
def test_claim_is_charged_once_whatever_the_version_of_its_group(pod, view, primed, version):
    cluster = view({**group(), "apiVersion": f"scheduling.k8s.io/{version}"})
    first = charged(primed, charge_request(member(pod), cluster))
    assert total(charged(first, charge_request(member(pod, "other", "2"), cluster))) == 2


def test_group_that_does_not_fit_refuses_its_first_pod(pod, view, primed):
    full = replace(quota(), limits=(replace(quota().limits[0], hard=Fraction(1)),))
    found = charge_request(member(pod), view(group()))
    verdict = primed.charge(charge_under(found, full), full)
    assert isinstance(verdict, Exceeded)
    assert verdict.limits[0].requested == 2


def test_claim_for_a_group_that_was_charged_is_never_refused(pod, view, primed, claim, request_for):
    only = replace(quota(), limits=(replace(quota().limits[0], hard=Fraction(2)),))
    cluster = view(group())
    first = primed.charge(charge_under(charge_request(member(pod), cluster), only), only)
    made = charge_request(group_claim(claim(request_for(count=2))), cluster, CONTROLLER)
    assert made.of == ("g", "gpus")
    after = first.charge(charge_under(made, only), only)
    assert isinstance(after, Ledger)
    assert total(after) == 2


def test_pod_after_the_claim_of_its_group_is_charged_nothing_more(pod, view, primed, claim, request_for):
    """The controller makes the claim as soon as there is a group."""
    made = charge_request(group_claim(claim(request_for(count=2))), view(), CONTROLLER)
    after = charged(charged(primed, made), charge_request(member(pod), view(group())))
    assert total(after) == 2


def test_pod_of_a_group_whose_claim_exists_is_charged_nothing(pod, view, claim, request_for):
    made = group_claim(claim(request_for(count=2)))
    assert charge_request(member(pod), view(group(claim="ring-gpus-x"), made)) is None


def test_template_that_is_gone_is_not_missed_where_the_claim_exists(pod, example, claim, request_for):
    made = group_claim(claim(request_for(count=2)))
    assert charge_request(member(pod), example(group(claim="ring-gpus-x"), made)) is None


@pytest.mark.parametrize(
    "owner",
    [{"uid": "other"}, {"kind": "Pod", "apiVersion": "v1"}, {"controller": False}],
    ids=str,
)
def test_claim_that_the_group_does_not_control_is_not_its_own(pod, view, claim, request_for, owner):
    made = group_claim(claim(request_for(count=2)), owner=owner)
    found = charge_request(member(pod), view(group(claim="ring-gpus-x"), made))
    assert found.shared.pieces.keys() == {"gpus"}


def test_users_claim_for_a_group_is_charged_by_itself(view, claim, request_for):
    found = charge_request(group_claim(claim(request_for(count=2))), view(group()), "alice")
    assert found.of is None


def test_group_is_read_where_it_may_be_new(pod, view, example):
    key = ("PodGroup", "team-a", "ring")
    assert charge_request(member(pod), view(group("other"))).unseen == (key,)
    assert charge_request(member(pod), view(group())).unseen == (key,)
    assert charge_request(member(pod), view()).unseen == ()


def test_claim_that_a_group_tells_of_is_read(pod, view):
    found = charge_request(member(pod), view(group(claim="ring-gpus-x")))
    assert found.unseen == (("PodGroup", "team-a", "ring"), ("ResourceClaim", "team-a", "ring-gpus-x"))


def test_shared_claim_counts_in_limits_by_priority_class(pod, view):
    """Pods of one group may have different ones."""
    batch = quota({"name": "batch", "selector": {"priorityClasses": ["batch"]}, "gpus": 8})
    charge = charge_under(charge_request(member(pod), view(group())), batch)
    assert charge.shared.pieces["gpus"].amounts == {"all": 2, "batch": 2}


def test_used_has_the_claim_of_a_group_once(pod, view, primed, claim, request_for):
    made = group_claim(claim(request_for(count=2)))
    cluster = view(group(claim="ring-gpus-x"), made)
    ledger = charged(primed, charge_request(member(pod), view(group())))
    pods = [member(pod), member(pod, "other", "2")]
    assert taken(counted(ledger, cluster, pods, [made])) == (2, 0)


def test_charge_of_a_group_stays_until_its_claim_is_seen(pod, view, primed):
    ledger = charged(primed, charge_request(member(pod), view(group())))
    assert taken(counted(ledger, view(group()), [member(pod)])) == (0, 2)
    assert taken(counted(ledger, view(group()), gone={"1"})) == (0, 2)


def test_charge_of_a_group_ends_with_the_group(pod, view, primed):
    ledger = charged(primed, charge_request(member(pod), view(group())))
    assert taken(counted(ledger, view(), [member(pod)], gone={"g"})) == (0, 0)


def test_group_that_is_made_again_under_its_name_is_charged_again(pod, view, primed):
    ledger = charged(primed, charge_request(member(pod), view(group())))
    ledger = charged(ledger, charge_request(member(pod, "other", "2"), view(group(uid="g2"))))
    assert total(ledger) == 4
    assert taken(counted(ledger, view(group(uid="g2")), gone={"g"})) == (0, 2)


def test_pods_that_came_before_their_group_are_charged_once_when_it_is_seen(pod, view, primed, claim, request_for):
    before = primed
    for uid in ("1", "2"):
        before = charged(before, charge_request(member(pod, uid, uid), view(group("other"))))
    assert total(before) == 4
    pods = [member(pod, uid, uid) for uid in ("1", "2")]
    after = counted(before, view(group()), pods)
    assert taken(after) == (0, 2)
    made = charge_request(group_claim(claim(request_for(count=2))), view(group()), CONTROLLER)
    assert total(charged(after, made)) == 2


def test_claim_of_a_pod_whose_controller_knows_no_groups_is_charged(pod, view, primed, claim, request_for):
    """As where the feature gate is off in kube-controller-manager only."""
    cluster = view(group())
    ledger = charged(primed, charge_request(member(pod), cluster))
    own = owned(claim(request_for(count=2)), {"resource.kubernetes.io/pod-claim-name": "gpus"})
    assert total(charged(ledger, charge_request(own, cluster, CONTROLLER))) == 4


def test_forged_claim_of_a_group_is_counted_and_covers_nothing(pod, view, primed, claim, request_for):
    """A forged claim only closes the charge of its group; the claim that is made then is charged itself."""
    small = group_claim(claim(request_for(count=1)), name="forged", uid="f")
    ledger = counted(charged(primed, charge_request(member(pod), view(group()))), view(group()), [member(pod)], [small])
    assert taken(ledger) == (1, 0)
    made = charge_request(group_claim(claim(request_for(count=2))), view(group()), CONTROLLER)
    assert taken(charged(ledger, made)) == (1, 2)


def test_claim_of_a_group_counts_as_the_most_it_can_get(view, claim, request_for):
    """The scheduler frees it again where no pod of the group could be scheduled."""
    choice = {
        "name": "gpu",
        "firstAvailable": [
            {"name": n, "deviceClassName": "gpu.nvidia.com", "count": c} for n, c in (("a", 1), ("b", 4))
        ],
    }
    result = {"request": "gpu/a", "driver": "gpu.nvidia.com", "pool": "none", "device": "none"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring", "uid": "g"}],
    }
    made = group_claim(claim(choice, status=status))
    seen = Counter().count([], [made], Terms(quota(), view(group()), DEFAULTS.quota))[1]
    assert seen["c"].amounts == {"all": 4}


def test_unknown_groups_are_not_read(pod, view):
    class Forbidden(PassingView):
        def get(self, kind, name, namespace=""):
            return UNKNOWN if kind == "PodGroup" else super().get(kind, name, namespace)

    found = charge_request(member(pod), Forbidden(view(group())))
    assert (found.pieces, found.unseen) == ({}, ())
