"""What the quotas of teams count and refuse before and after a change."""

from policies.outcome import Outcome, compare_limits, compare_refusals, subjects_of
from tests.explain import conftest as k8s
from tests.outcome.clusters import bound, changed, gpu_node, situation

WHOLE = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def quota(gpus=2, name="research", **spec):
    limits = [{"name": "all", "gpus": gpus}]
    chosen = {"namespaceSelector": {"matchLabels": {"unit": "research"}}, "groupBy": "team"}
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "ClusterGPUQuota",
        "metadata": {"name": name},
        "spec": {**chosen, "limits": limits, **spec},
    }


def group(used, gpus=2):
    """The stored GPUQuotaGroup of team a, with its ledger."""
    limits = [{"name": "all", "gpus": gpus, "used": used}]
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuotaGroup",
        "metadata": {"name": "research.a"},
        "spec": {"quota": "research", "group": "a", "limits": [{"name": "all", "gpus": gpus}]},
        "status": {"namespaces": ["team-a"], "limits": limits, "counted": {"pods": "9", "claims": "9"}},
    }


def member(name, team, **labels):
    return k8s.namespace(name, unit="research", team=team, **labels)


def cluster(*objects):
    """Two namespaces of team a and one of team b, with one running pod each."""
    return situation(
        gpu_node(**WHOLE, gpus=8),
        *(member(name, name[5:6]) for name in ("team-a", "team-a2", "team-b")),
        *(bound(name, namespace=f"team-{name}") for name in ("a", "a2", "b")),
        *objects,
    )


def limits(before, after):
    return {each.label: (each.outcome, each.sentence) for each in compare_limits(before, after)}


def refusals(before, after):
    subjects = subjects_of(before.view, before.settings)
    return {each.subject.label: (each.is_new, each.sentence) for each in compare_refusals(subjects, before, after)}


def test_new_team_quota_is_counted_over_the_namespaces_of_each_group():
    before = cluster()
    after = changed(before, quota(1))
    assert limits(before, after) == {
        "GPUQuotaGroup research.a, limit all": (
            Outcome.LOST,
            "a new limit, exceeded at once: 2 of 1 GPU used",
        ),
        "GPUQuotaGroup research.b, limit all": (Outcome.KEPT, "a new limit: 1 of 1 GPU used"),
    }
    found = refusals(before, after)
    assert found.keys() == {"pod team-a/a", "pod team-a2/a2"}
    assert found["pod team-a/a"] == (
        True,
        'needs 1 GPU, 0 of 1 left in limit "all"; exceeded quota: research.a [GA502]',
    )


def test_lower_limit_counts_anew_whatever_the_ledger_says():
    before = cluster(quota(4), group(used="0", gpus=4))
    after = changed(before, quota(1))
    assert limits(before, after)["GPUQuotaGroup research.a, limit all"] == (
        Outcome.LOST,
        "exceeded at once: 2 of 1 GPU used, before 2 of 4 GPUs",
    )
    assert set(refusals(before, after)) == {"pod team-a/a", "pod team-a2/a2"}


def test_namespace_that_moves_is_refused_by_the_limit_of_its_new_group():
    before = cluster(quota(2))
    after = changed(before, member("team-b", "a"))
    assert limits(before, after) == {
        "GPUQuotaGroup research.a, limit all": (
            Outcome.LOST,
            "exceeded at once: 3 of 2 GPUs used, before 2 of 2 GPUs; it counts team-b too",
        ),
        "GPUQuotaGroup research.b, limit all": (Outcome.GAINED, "the limit is gone"),
    }
    assert {label: is_new for label, (is_new, _) in refusals(before, after).items()} == {
        "pod team-a/a": True,
        "pod team-a2/a2": True,
        "pod team-b/b": True,
    }


def test_namespace_that_leaves_a_full_group_is_no_longer_refused():
    before = cluster(quota(1))
    after = changed(before, member("team-a2", "c"))
    assert limits(before, after)["GPUQuotaGroup research.a, limit all"] == (
        Outcome.GAINED,
        "no longer exceeded: 1 of 1 GPU used, before 2 of 1 GPU; it no longer counts team-a2",
    )
    assert {label: is_new for label, (is_new, _) in refusals(before, after).items()} == {
        "pod team-a/a": False,
        "pod team-a2/a2": False,
    }


def test_namespace_that_moves_within_the_limits_breaks_nothing():
    before = cluster(quota(4))
    after = changed(before, member("team-a2", "b"))
    assert limits(before, after) == {
        "GPUQuotaGroup research.a, limit all": (
            Outcome.KEPT,
            "1 of 4 GPUs used, before 2 of 4 GPUs; it no longer counts team-a2",
        ),
        "GPUQuotaGroup research.b, limit all": (
            Outcome.KEPT,
            "2 of 4 GPUs used, before 1 of 4 GPUs; it counts team-a2 too",
        ),
    }
    assert refusals(before, after) == {}


def test_deleted_team_quota_limits_nothing():
    before = cluster(quota(1), group(used="2", gpus=1))
    after = changed(before, deleted=[("ClusterGPUQuota", "", "research")])
    assert {outcome for outcome, _ in limits(before, after).values()} == {Outcome.GAINED}
    assert {is_new for is_new, _ in refusals(before, after).values()} == {False}


def test_unreadable_team_quota_keeps_its_groups():
    broken = quota(1, limits=[])
    before = cluster(broken, group(used="2", gpus=1))
    assert limits(before, before) == {}
    assert refusals(before, before) == {}
