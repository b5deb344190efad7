"""Limits of GPUQuotas whose globs match nothing in the cluster."""

from __future__ import annotations

import pytest

from policies.analyses.audit import audit
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS

CLASSES = ("batch", "interactive", "system-node-critical")


def gpu_quota(k8s, *limits, namespace="team-a"):
    return k8s.thing("GPUQuota", "gpu", namespace, "gpu-admission.io/v1alpha1", spec={"limits": list(limits)})


def limit(name="some", **selector):
    return {"name": name, "gpus": 8, "selector": selector}


def classes(k8s, *names):
    return [k8s.thing("PriorityClass", name, None, "scheduling.k8s.io/v1", value=1) for name in names]


def mig_node(k8s):
    """An A100 that is divided into slices of one profile."""
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    }
    return k8s.thing("Node", "sliced", labels=labels, status={"allocatable": {"nvidia.com/mig-1g.5gb": "7"}})


def found(k8s, *limits, base=None, namespace=""):
    objects = [gpu_quota(k8s, *limits), mig_node(k8s), *classes(k8s, *CLASSES)]
    view = k8s.view_of(*objects, base=base or k8s.BASE)
    findings = audit(view, DEFAULTS, k8s.surveyed(view, objects, namespace=namespace)).findings
    return [finding for finding in findings if finding.kind == "GPUQuota"]


@pytest.mark.parametrize(
    "selector",
    [
        {"products": ["H100*"]},
        {"products": ["nvidia h100 80gb hbm3", "A100-*"]},
        {"profiles": ["1g.*"]},
        {"products": ["a100*"], "profiles": ["1g.5gb"]},
        {"priorityClasses": ["batch", "system-*"]},
        {"priorityClasses": ["*"]},
        {},
    ],
    ids=["product", "spelt-otherwise", "profile", "both", "priority-class", "any-priority-class", "everything"],
)
def test_limit_that_something_counts_by_is_not_reported(k8s, selector):
    assert found(k8s, limit(**selector)) == []


@pytest.mark.parametrize(
    ("selector", "path", "message", "remedy"),
    [
        (
            {"products": ["H1O0-*"]},
            "spec.limits[0].selector.products[0]",
            '"H1O0-*" is the product of no GPU that nodes or ResourceSlices show, so limit some counts nothing that runs',
            'write "H100*", or leave it if that comes later',
        ),
        (
            {"profiles": ["1g.10gb"]},
            "spec.limits[0].selector.profiles[0]",
            (
                '"1g.10gb" is the profile of no MIG device that nodes or ResourceSlices show, so limit some counts '
                "nothing that runs"
            ),
            "write an existing one (1g.5gb), or leave it if that comes later",
        ),
        (
            {"priorityClasses": ["bacth"]},
            "spec.limits[0].selector.priorityClasses[0]",
            '"bacth" matches no existing PriorityClass, so limit some counts nothing that runs',
            'write "batch", or leave it if that comes later',
        ),
        (
            {"products": ["H100*"], "profiles": ["1g.*"]},
            "spec.limits[0].selector",
            (
                "no GPU that nodes or ResourceSlices show is of these products and has these profiles, so limit some counts "
                "nothing that runs"
            ),
            "write profiles that these products are divided into, or make two limits of it; leave it if that comes later",
        ),
    ],
    ids=["product", "profile", "priority-class", "never-both"],
)
def test_limit_that_nothing_counts_by_is_a_warning(k8s, selector, path, message, remedy):
    (finding,) = found(k8s, limit(**selector))
    assert (finding.rule.id, finding.severity) == ("GA508", Severity.WARN)
    assert (finding.kind, finding.namespace, finding.name) == ("GPUQuota", "team-a", "gpu")
    assert (str(finding.path), finding.message, finding.remedy) == (path, message, remedy)


def test_glob_beside_others_that_match_is_worth_knowing(k8s):
    (finding,) = found(k8s, limit("h", products=["H100*", "H200*"]))
    assert (finding.severity, str(finding.path)) == (Severity.AUDIT, "spec.limits[0].selector.products[1]")
    assert finding.message == (
        '"H200*" is the product of no GPU that nodes or ResourceSlices show, so it adds nothing to limit h'
    )


def test_each_glob_of_a_list_that_matches_nothing_is_reported(k8s):
    findings = found(k8s, limit("fine", products=["H100*"]), limit("h", products=["H200*", "B200*"]))
    assert [(str(each.path), each.severity) for each in findings] == [
        ("spec.limits[1].selector.products[0]", Severity.WARN),
        ("spec.limits[1].selector.products[1]", Severity.WARN),
    ]


def test_profiles_of_a_cluster_without_mig_have_nothing_to_be_written_instead(k8s, audited):
    (finding,) = audited(gpu_quota(k8s, limit(profiles=["1g.*"]))).findings
    assert finding.remedy == "take it away, or leave it if that comes later"


def test_products_are_not_reported_while_the_cluster_has_no_gpu(k8s, audited):
    base = (k8s.VERSION, k8s.listed("ResourceSlice", "resource.k8s.io/v1"))
    assert audited(gpu_quota(k8s, limit(products=["H1O0-*"], profiles=["1g.*"])), base=base).findings == ()


def test_unknown_facts_are_not_reported(k8s, audited):
    """No file holds a ResourceSlice or a PriorityClass."""
    quota = gpu_quota(k8s, limit(products=["H1O0-*"], priorityClasses=["bacth"]))
    assert audited(quota, mig_node(k8s), base=(k8s.VERSION,)).findings == ()


def test_quota_that_cannot_be_read_is_reported_as_that(k8s):
    (finding,) = found(k8s, limit(products=["H1O0-*"]) | {"gpus": 0.5})
    assert finding.rule.id == "GA501"


def test_only_the_named_namespace_is_audited(k8s):
    assert found(k8s, limit(products=["H1O0-*"]), namespace="team-b") == []
    assert len(found(k8s, limit(products=["H1O0-*"]), namespace="team-a")) == 1


def test_product_near_to_none_is_reported_with_those_that_there_are(k8s):
    (finding,) = found(k8s, limit(products=["Voodoo*"]))
    assert finding.remedy == (
        "write an existing one (NVIDIA-A100-SXM4-40GB and NVIDIA-H100-80GB-HBM3), or leave it if that comes later"
    )
