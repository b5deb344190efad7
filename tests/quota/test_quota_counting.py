"""Counting: each pod and claim once, by what it got or the most that it can get."""

import pytest

from policies.kubernetes.bounds import bounded_by
from policies.quota.counter import _NEW, Counter, Terms
from policies.quota.counting import counted_ledger
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN
from policies.rules.settings.choices import Quotas
from tests.counted_work import RecordedWork
from tests.quota.counted_objects import ALL, claim, document, pod, status_of
from webhook.cluster.manifests import ManifestsView

BATCH = {"name": "batch", "selector": {"priorityClasses": ["batch"]}, "gpus": 8}
H100, T4 = ("NVIDIA-H100-80GB-HBM3", "81920"), ("Tesla-T4", "15360")


def node(name, product, **labels):
    found = {"nvidia.com/gpu.product": product[0], "nvidia.com/gpu.memory": product[1], **labels}
    amounts = {"nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {key: text for key, text in found.items() if text}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def amounts(pods=(), claims=(), limits=(), nodes=(), settings=None):
    """What each comes to, by name and limit."""
    quota = parse_quota(document(*limits))
    counts = Counter().count(pods, claims, Terms(quota, ManifestsView(nodes), settings or Quotas()))
    return {
        each.name: {name: str(amount) for name, amount in each.amounts.items()}
        for kind in counts
        for each in kind.values()
    }


def test_pod_that_waits_counts_in_every_limit_that_it_could_touch():
    limits = [
        {"name": name, "selector": {"products": [name]}, "gpus": 8} for name in ("h100-80gb-hbm3", "tesla-t4", "a100")
    ]
    nodes = [node("a", H100), node("b", T4)]
    assert amounts([pod("train", 2)], limits=limits, nodes=nodes) == {
        "train": {"h100-80gb-hbm3": "2", "tesla-t4": "2", "a100": "2"}
    }
    assert amounts([pod("train", 2, nodeName="b")], limits=limits, nodes=nodes) == {"train": {"tesla-t4": "2"}}


@pytest.mark.parametrize("mode", ["WorstCase", "Deny"])
def test_what_exists_is_counted_whatever_the_quota_says_of_unknown_products(mode):
    limit = {"name": "a100", "selector": {"products": ["A100*"]}, "gpus": 8}
    quota = parse_quota(document(limit, unknownProducts=mode))
    pods, _ = Counter().count([pod("train", 2)], [], Terms(quota, ManifestsView([node("b", T4)]), Quotas()))
    assert pods["uid-of-train"].amounts == {"a100": 2}


def test_unknown_memory_is_that_of_the_largest_gpu():
    nodes = [node("a", H100), node("b", ("", "")), node("c", T4)]
    found = amounts([pod("train", 2, nodeName="b")], limits=[{"name": "memory", "memory": "1Ti"}], nodes=nodes)
    assert found == {"train": {"memory": str(2 * 81920 * 2**20)}}


def test_memory_counts_as_none_where_nothing_is_known():
    assert amounts([pod("train", 2)], limits=[{"name": "memory", "memory": "1Ti"}, ALL]) == {"train": {"all": "2"}}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_counts_as_nothing_and_is_said_to_have_ended(phase):
    terms = Terms(parse_quota(document()), ManifestsView(), Quotas())
    pods, _ = Counter().count([pod("train", status={"phase": phase})], [], terms)
    found = pods["uid-of-train"]
    assert (found.ended, found.amounts) == (True, {})


def test_pod_that_is_being_deleted_counts():
    train = pod("train", 2)
    train["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z"
    assert amounts([train]) == {"train": {"all": "2"}}


def test_pod_that_no_api_server_would_store_counts_as_nothing():
    assert amounts([{**pod("train"), "spec": {"containers": "none"}}]) == {"train": {}}


@pytest.mark.parametrize(
    ("status", "piece", "owner"),
    [
        (status_of(), "gpu", ("uid-of-train", "gpu")),
        (status_of(gpu="made"), "gpu", ("uid-of-train", "gpu")),
        (status_of(), OWN, ("", OWN)),
        (status_of(gpu="made"), OWN, ("", OWN)),
        (status_of(extended="another"), OWN, ("", OWN)),
        (status_of(extended="made"), OWN, ("uid-of-train", OWN)),
    ],
    ids=["template-unnamed", "template", "extended-unnamed", "named-for-a-template", "another-is-named", "extended"],
)
def test_claim_has_the_owner_that_can_be_believed(status, piece, owner):
    quota = parse_quota(document())
    made = claim("made", 1, of="train", piece=piece)
    _, claims = Counter().count([pod("train", status=status)], [made], Terms(quota, ManifestsView(), Quotas()))
    found = claims["uid-of-made"]
    assert (found.owner, found.piece) == owner


@pytest.mark.parametrize(
    ("status", "counted"),
    [(status_of(gpu="made"), {"all": "3"}), (status_of(), {"all": "3", "batch": "3"})],
    ids=["named", "only-said"],
)
def test_claim_counts_for_the_priority_class_of_its_pod_only_where_that_is_certain(status, counted):
    train = pod("train", 0, status=status, priorityClassName="urgent")
    made = claim("made", 3, of="train", piece="gpu")
    assert amounts([train], [made], [ALL, BATCH])["made"] == counted


def test_claim_keeps_the_priority_class_of_a_pod_that_is_gone():
    terms, counting = Terms(parse_quota(document(ALL, BATCH)), ManifestsView(), Quotas()), Counter()
    train, made = (
        pod("train", 0, status=status_of(gpu="made"), priorityClassName="urgent"),
        claim("made", 3, "train", "gpu"),
    )
    for pods in ([train], []):
        assert counting.count(pods, [made], terms)[1]["uid-of-made"].amounts == {"all": 3}
    assert Counter().count([], [made], terms)[1]["uid-of-made"].amounts == {"all": 3, "batch": 3}


def test_claim_has_the_owner_that_its_charge_names():
    terms, made = Terms(parse_quota(document()), ManifestsView(), Quotas()), claim("made", 1, of="train")
    charged = {("uid-of-made", "made"): ("uid-of-train", OWN)}
    found = Counter().count([pod("train")], [made], terms, charged=charged)[1]["uid-of-made"]
    assert (found.owner, found.piece) == ("uid-of-train", OWN)


def test_claim_whose_charge_has_another_name_has_no_owner():
    """Such a charge may have been written when the claim was stored already: a call can have any name and uid."""
    terms, made = Terms(parse_quota(document()), ManifestsView(), Quotas()), claim("made", 1, of="train")
    charged = {("uid-of-made", "another"): ("uid-of-train", OWN)}
    found = Counter().count([pod("train")], [made], terms, charged=charged)[1]["uid-of-made"]
    assert (found.owner, found.piece) == ("", OWN)


def test_claim_of_the_scheduler_counts_no_device_that_its_pod_cannot_get():
    limits = [{"name": name, "selector": {"products": [name]}, "gpus": 8} for name in ("h100-80gb-hbm3", "tesla-t4")]
    nodes = [node("a", H100), node("b", T4)]
    chosen = {"nodeSelector": {"nvidia.com/gpu.product": T4[0]}}
    train, made = pod("train", 2, status_of(extended="made"), **chosen), claim("made", 2, of="train")
    assert amounts([train], [made], limits, nodes)["made"] == {"tesla-t4": "2"}
    assert amounts([pod("train", 2, **chosen)], [made], limits, nodes)["made"] == {
        "h100-80gb-hbm3": "2",
        "tesla-t4": "2",
    }


def test_only_what_changed_is_counted_anew():
    work = RecordedWork()
    terms, counting = Terms(parse_quota(document()), ManifestsView(), Quotas()), Counter()
    first, second, third = pod("first"), pod("second"), claim("third")
    counting.count([first, second], [third], terms)
    with bounded_by(work):
        pods, _ = counting.count([first, pod("second", 2)], [third], terms)
    assert work.steps.count(_NEW) == 1
    assert pods["uid-of-second"].amounts == {"all": 2}


@pytest.mark.parametrize(
    "terms",
    [
        Terms(parse_quota(document({"name": "all", "devices": 3})), ManifestsView(), Quotas()),
        Terms(parse_quota(document()), ManifestsView([node("a", H100)]), Quotas()),
        Terms(parse_quota(document()), ManifestsView(), Quotas(admin_access="free")),
    ],
    ids=["limits", "nodes", "settings"],
)
def test_everything_is_counted_anew_when_what_it_rests_on_changes(terms):
    work, train, shared, counting = RecordedWork(), pod("train"), claim("shared"), Counter()
    counting.count([train], [shared], Terms(parse_quota(document()), ManifestsView(), Quotas()))
    with bounded_by(work):
        counting.count([train], [shared], terms)
    assert work.steps.count(_NEW) == 2


def test_stored_ledger_is_read_where_it_is_primed():
    quota = document()
    view = ManifestsView([pod("train", 2)])
    counted = counted_ledger(quota, view, Quotas())
    primed = {**quota, "status": counted.status(parse_quota(quota), 1)}
    assert counted_ledger(primed, ManifestsView([pod("train", 2), pod("more", 3)]), Quotas()) == counted


def test_ledger_that_is_not_primed_is_counted_from_the_view():
    other = pod("other", 5)
    other["metadata"]["namespace"] = "team-b"
    view = ManifestsView([pod("train", 2), claim("shared", 3), other])
    ledger = counted_ledger(document(), view, Quotas())
    assert ledger.used_amount(parse_quota(document()).limits[0]) == 5


def test_ledger_of_an_unknown_cluster_is_counted_as_empty():
    assert counted_ledger(document(), ManifestsView(), Quotas()).used_amount(parse_quota(document()).limits[0]) == 0


@pytest.mark.parametrize("uid", [None, ""], ids=["none", "empty"])
def test_objects_of_files_that_have_no_uid_count_each(uid):
    pods = [pod("first", 2), pod("second", 3)]
    for each in pods:
        each["metadata"]["uid"] = uid
    assert counted_ledger(document(), ManifestsView(pods), Quotas()).used_amount(parse_quota(document()).limits[0]) == 5


def test_objects_of_files_with_one_name_in_two_namespaces_count_each():
    pods = [pod("train", 2), pod("train", 3)]
    pods[1]["metadata"]["namespace"] = "team-b"
    for each in pods:
        del each["metadata"]["uid"]
    counted, _ = Counter().count(pods, [], Terms(parse_quota(document()), ManifestsView(pods), Quotas()))
    assert sum(each.amounts["all"] for each in counted.values()) == 5


def test_same_terms_count_nothing_anew_when_the_cluster_changes_meanwhile():
    class Changing(ManifestsView):
        def derive(self, function):
            return function(self)

    work, train, counting = RecordedWork(), pod("train"), Counter()
    deviceclasses = [{"kind": "DeviceClassList", "apiVersion": "resource.k8s.io/v1", "items": []}]
    terms = Terms(parse_quota(document()), Changing(deviceclasses), Quotas())
    with bounded_by(work):
        for _ in range(2):
            counting.count([train], [], terms)
        assert work.steps.count(_NEW) == 1
        counting.count([train], [], Terms(terms.quota, terms.view, terms.settings))
    assert work.steps.count(_NEW) == 2


def test_counted_objects_have_their_kind_and_name():
    counts = Counter().count(
        [pod("train")], [claim("shared")], Terms(parse_quota(document()), ManifestsView(), Quotas())
    )
    named = [(each.uid, each.kind, each.name) for kind in counts for each in kind.values()]
    assert named == [("uid-of-train", "Pod", "train"), ("uid-of-shared", "ResourceClaim", "shared")]
