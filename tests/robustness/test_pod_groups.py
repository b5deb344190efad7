"""PodGroups do not bypass the quota or the access rules."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from policies.access import validate
from policies.kubernetes.pods import Pod
from policies.quota.counter import Counter, Terms
from policies.quota.demands.bills import charge_under
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import Snapshot, recount
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy
from testbed import libyaml
from tests.fleet.fleet_objects import template
from tests.fleet.pod_group_objects import CLASSES, WITH_GPU, WITHOUT, group, made, member
from tests.quota import pod_group_objects
from tests.quota.charge_requests import CONTROLLER, charge_request, owned, quota
from webhook.cluster.manifests import ManifestsView

DENY = GPUAdmissionPolicy(access=Access(mode="deny"))
EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"
CLUSTER = [
    each
    for name in ("nodes", "deviceclasses", "resourceslices")
    for each in libyaml.load_all((EXAMPLES / f"{name}.yaml").read_text())
    if each
]
FOUR = replace(quota(), limits=(replace(quota().limits[0], hard=Fraction(4)),))
TWO_GPUS = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
TEMPLATE = template(TWO_GPUS, name="gpus")
STEPS = st.sampled_from(
    ["pod", "pod-late-view", "pod-alone", "claim", "own-claim", "forged", "lose-claim", "count", "count-late", "anew"]
)


def findings(*objects):
    pod = member()
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    request = Request({"apiVersion": "v1", "kind": "Pod", **pod}, namespace="team-a")
    return {each.rule.id for each in validate(request, ManifestsView([*CLASSES, *objects]), DENY)}


def test_template_with_a_gpu_does_not_excuse_a_claim_of_the_group_without_one():
    """Its author replaces the template once the claim of the group is made."""
    found = findings(group(), made(WITHOUT), template(WITH_GPU))
    assert found == findings(template(WITHOUT)) != findings(template(WITH_GPU))


def test_claim_of_the_group_with_a_gpu_excuses():
    assert findings(group(), made(WITH_GPU), template(WITHOUT)) == findings(template(WITH_GPU))


class World:
    """A namespace with four GPUs, a PodGroup whose pods share a claim of two, and claims as they are stored."""

    def __init__(self):
        self.base = ManifestsView(CLUSTER)
        self.ledger = recount(Ledger(), FOUR, Snapshot({}, {}, "1", "1"))
        self.pods, self.claims, self.gone = {}, {}, set()
        self.number = self.time = 0
        self.uid = "g0"
        self.is_loss_counted = True
        """False while a claim that is gone still takes up what its group paid, which ends with the next count."""

    def view(self, *, shows_group=True, shows_claims=True):
        claims = list(self.claims.values()) if shows_claims else []
        name = next(
            (name for name, each in self.claims.items() if each["metadata"]["ownerReferences"][0]["uid"] == self.uid),
            "",
        )
        groups = [pod_group_objects.group(uid=self.uid, claim=name)] if shows_group else []
        return ManifestsView([*CLUSTER, TEMPLATE, *groups, *claims])

    def admit(self, document, view, user="alice"):
        found = charge_request(document, view, user)
        if found is None:
            return True
        self.time += 1
        after = self.ledger.charge(charge_under(found, FOUR), FOUR, time=str(self.time), call=str(self.time))
        if not isinstance(after, Ledger):
            return False
        self.ledger = after
        return True

    def create_pod(self, **seen):
        self.number += 1
        uid = f"p{self.number}"
        document = pod_group_objects.member(_pod, uid, uid)
        if self.admit(document, self.view(**seen)):
            self.pods[uid] = document

    def create_claim(self, document, user=CONTROLLER):
        self.number += 1
        name = f"c{self.number}"
        document = {**document, "metadata": {**document["metadata"], "name": name, "uid": name}}
        is_admitted = self.admit(document, self.view(), user)
        if is_admitted:
            self.claims[name] = document
        return is_admitted

    def step(self, step):
        match step:
            case "pod":
                self.create_pod()
            case "pod-late-view":
                self.create_pod(shows_claims=False)
            case "pod-alone":
                self.create_pod(shows_group=False)
            case "claim":
                is_paid = self.is_loss_counted and self.ledger.reservations.is_open(self.uid, "gpus")
                is_made = any(_owner(each) == self.uid for each in self.claims.values())
                if not is_made:
                    assert self.create_claim(pod_group_objects.group_claim(_claim(), group_uid=self.uid)) or not is_paid
            case "own-claim" if self.pods:
                pod = min(self.pods)
                self.create_claim(owned(_claim(), {"resource.kubernetes.io/pod-claim-name": "gpus"}, name=pod, uid=pod))
            case "forged":
                self.create_claim(pod_group_objects.group_claim(_claim(), group_uid=self.uid), "mallory")
            case "lose-claim" if self.claims:
                self.gone.add(min(self.claims))
                self.is_loss_counted = False
                del self.claims[min(self.claims)]
            case "count":
                self.count(self.view())
            case "count-late":
                self.count(self.view(shows_group=False))
            case "anew":
                self.claims = {name: each for name, each in self.claims.items() if _owner(each) != self.uid}
                self.gone.add(self.uid)
                self.number += 1
                self.uid = f"g{self.number}"

    def count(self, view):
        self.is_loss_counted = True
        counter = Counter()
        seen = counter.count(self.pods.values(), self.claims.values(), Terms(FOUR, view, DEFAULTS.quota))
        shares = counter.shares([charge.uid for charge in self.ledger.reservations], view)
        self.time += 1
        self.ledger = recount(self.ledger, FOUR, Snapshot(*seen, f"{self.time}0", f"{self.time}0", self.gone, shares))


def _pod(**spec):
    container = {"name": "main", "image": "train"}
    metadata = {"name": "train", "namespace": "team-a", "uid": "1"}
    return Pod.read(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
    )


def _claim():
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": "team-a"},
        "spec": {"devices": {"requests": [TWO_GPUS]}},
    }


def _owner(claim):
    return claim["metadata"]["ownerReferences"][0]["uid"]


@given(st.lists(STEPS, min_size=4, max_size=16))
def test_groups_never_hold_more_than_the_quota_and_a_paid_claim_is_made(steps):
    """Whatever replicas, controller and leader see of the group, and whoever forges its claims."""
    world = World()
    for step in steps:
        world.step(step)
        held = 2 * len(world.claims)
        used, reserved = world.ledger.used_amount(FOUR.limits[0]), world.ledger.reservations.total.get("all", 0)
        assert held <= used + reserved
        assert held <= 4, step
