"""The spec of a GPUQuota: valid values, and messages about invalid ones."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.limits.quota import Limit, Quota, QuotaError, parse_quota
from policies.quota.limits.selectors import EVERYTHING, Selector
from tests.findings import plain_text

MANY = 10**6


def document(spec, **fields):
    metadata = {"name": "gpu", "namespace": "team-a"}
    return {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota", "metadata": metadata, "spec": spec} | fields


def problems_of(quota):
    try:
        parse_quota(quota)
    except QuotaError as error:
        return [plain_text(each) for each in error.problems]
    return []


def limited(**limit):
    return document({"limits": [{"name": "h100", **limit}]})


def selected(**selector):
    return limited(gpus=1, selector=selector)


def test_quota_of_the_issue_is_read():
    limits = [
        {"name": "h100", "selector": {"products": ["NVIDIA-H100-*"]}, "gpus": 8},
        {"name": "total-memory", "memory": "1Ti"},
        {"name": "mig", "selector": {"profiles": ["1g.*", "2g.*"]}, "devices": 14},
        {"name": "low-priority", "selector": {"priorityClasses": ["batch"]}, "gpus": "4"},
    ]
    spec = {"limits": limits, "mode": "Enforce", "unknownProducts": "WorstCase"}
    assert parse_quota(document(spec)) == Quota(
        (
            Limit("h100", "gpus", Fraction(8), Selector(products=("h100-*",))),
            Limit("total-memory", "memory", Fraction(2**40), EVERYTHING),
            Limit("mig", "devices", Fraction(14), Selector(profiles=("1g.*", "2g.*"))),
            Limit("low-priority", "gpus", Fraction(4), Selector(priority_classes=("batch",))),
        ),
        "Enforce",
        "WorstCase",
    )


def test_what_is_not_written_enforces_the_worst_case():
    quota = parse_quota(limited(gpus=1))
    assert (quota.mode, quota.unknown_products) == ("Enforce", "WorstCase")


def test_status_does_not_matter():
    assert problems_of({**limited(gpus=1), "status": {"limits": "nonsense"}}) == []


@pytest.mark.parametrize(
    ("unit", "value", "hard"),
    [
        ("gpus", 0, 0),
        ("gpus", 8.0, 8),
        ("gpus", "1/2", Fraction(1, 2)),
        ("gpus", "0.5", Fraction(1, 2)),
        ("gpus", "22/7", Fraction(22, 7)),
        ("gpus", MANY, MANY),
        ("memory", "80Gi", 80 * 2**30),
        ("memory", "80G", 80 * 10**9),
        ("memory", "1.5Ti", 3 * 2**39),
        ("memory", "1.3Gi", 1395864371),
        ("memory", 2**20, 2**20),
        ("memory", "0", 0),
        ("memory", "1E", 10**18),
        ("devices", 14, 14),
        ("devices", 14.0, 14),
    ],
)
def test_amount_is_exact(unit, value, hard):
    (limit,) = parse_quota(limited(**{unit: value})).limits
    assert limit.hard == hard


GPUS = 'write a number of GPUs such as 8, or a part of one such as "1/2"'
PART = 'without quotes; write a part of a GPU as text, such as "1/2" or "0.5"'
QUANTITY = 'write a quantity such as "80Gi"'
WHOLE = "write a whole number such as 14, without quotes"
LOST = 'less memory than any GPU has; write a unit, such as "80Gi"'


@pytest.mark.parametrize(
    ("unit", "value", "said"),
    [
        ("gpus", -1, "is -1; write 0 or more"),
        ("gpus", "-1/2", 'is "-1/2"; write 0 or more'),
        ("gpus", -0.5, "is -0.5; write 0 or more"),
        ("gpus", 0.5, f"is 0.5 {PART}"),
        ("gpus", float("nan"), f"is NaN {PART}"),
        ("gpus", float("inf"), f"is Infinity {PART}"),
        ("gpus", "NaN", f'is "NaN"; {GPUS}'),
        ("gpus", "1/0", f'is "1/0"; {GPUS}'),
        ("gpus", "500m", f'is "500m"; {GPUS}'),
        ("gpus", "8 GPUs", f'is "8 GPUs"; {GPUS}'),
        ("gpus", "", f'is ""; {GPUS}'),
        ("gpus", "٣", f'is "\\u0663"; {GPUS}'),
        ("gpus", True, f"is true; {GPUS}"),
        ("gpus", None, f"is null; {GPUS}"),
        ("gpus", [8], f"is a list; {GPUS}"),
        ("gpus", MANY + 1, "is 1000001; write at most 1000000"),
        ("gpus", 10**60, "is a number of more than 128 bits; write at most 1000000"),
        ("memory", "80GB", f'is "80GB"; {QUANTITY}'),
        ("memory", "1e12", f'is "1e12"; {QUANTITY}'),
        ("memory", "lots", f'is "lots"; {QUANTITY}'),
        ("memory", {}, f"is a mapping; {QUANTITY}"),
        ("memory", "-1Gi", 'is "-1Gi"; write 0 or more'),
        ("memory", 80, f"is 80, {LOST}"),
        ("memory", "80k", f'is "80k", {LOST}'),
        ("memory", "1Ei", 'is "1Ei"; write at most 1E'),
        ("devices", "14", f'is "14"; {WHOLE}'),
        ("devices", 1.5, f"is 1.5; {WHOLE}"),
        ("devices", -1, "is -1; write 0 or more"),
        ("devices", 10**7 + 1, "is 10000001; write at most 10000000"),
    ],
)
def test_invalid_amount_is_refused(unit, value, said):
    assert problems_of(limited(**{unit: value})) == [f"spec.limits[0].{unit}: {said}"]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({}, "spec.limits[0]: has no amount; write one of gpus, memory and devices"),
        ({"gpus": 1, "memory": "1Ti"}, "spec.limits[0]: has gpus and memory; write a limit for each of them"),
        ({"gpu": 1}, "spec.limits[0].gpu: is an unknown field of a limit; write gpus"),
        (
            {"gpus": 1, "x": 1},
            "spec.limits[0].x: is an unknown field of a limit; remove it; there are name, selector, gpus, memory and devices",
        ),
        (
            {"gpus": 1, "name": "H100"},
            'spec.limits[0].name: is "H100"; write at most 63 lower-case letters, digits and dashes, such as "h100"',
        ),
        (
            {"gpus": 1, "name": 8},
            'spec.limits[0].name: is 8; write at most 63 lower-case letters, digits and dashes, such as "h100"',
        ),
    ],
)
def test_limit_has_a_name_and_one_amount(limit, said):
    assert said in problems_of(limited(**limit))


def test_name_is_needed():
    assert problems_of(document({"limits": [{"gpus": 1}]})) == [
        "spec.limits[0].name: is missing; refusals, the status and metrics call the limit by it; write it"
    ]


def test_names_are_unique():
    assert problems_of(document({"limits": [{"name": "a", "gpus": 1}, {"name": "a", "memory": "1Gi"}]})) == [
        'spec.limits[1].name: is "a", as that of limits[0] is; give each limit its own name'
    ]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (None, "spec: is missing; write its fields, such as limits: [{name: all, gpus: 8}]"),
        ([], "spec: is a list; write its fields, such as limits: [{name: all, gpus: 8}]"),
        ({}, "spec.limits: is missing; write a list such as [{name: all, gpus: 8}]"),
        ({"limit": [7]}, "spec.limit: is an unknown field of a GPUQuota's spec; write limits"),
        ({"limits": {}}, "spec.limits: is a mapping; write a list such as [{name: all, gpus: 8}]"),
        (
            {"limits": []},
            "spec.limits: is empty; write a list such as [{name: all, gpus: 8}], or delete the GPUQuota if nothing is limited",
        ),
        ({"limits": [7]}, "spec.limits[0]: is 7; write an entry such as {name: all, gpus: 8}"),
        ({"limits": [{"name": f"l{n}", "gpus": 1} for n in range(33)]}, "spec.limits: has 33 limits; write at most 32"),
        ({"limits": [{"name": "a", "gpus": 1}], "mode": "enforce"}, 'spec.mode: is "enforce"; write Enforce or Warn'),
        (
            {"limits": [{"name": "a", "gpus": 1}], "unknownProducts": None},
            "spec.unknownProducts: is null; write WorstCase or Deny",
        ),
        (
            {"limits": [{"name": "a", "gpus": 1}], "unknownProduct": "Deny"},
            "spec.unknownProduct: is an unknown field of a GPUQuota's spec; write unknownProducts",
        ),
    ],
)
def test_spec_has_limits_and_choices(spec, said):
    assert problems_of(document(spec)) == [said]


NAME = "with * for any text and ? for one character"
BRAND = 'which is the brand without a product; write a product such as "H100*"'
SHARED = "but a product's name does not contain its sharing; write it without -SHARED"
SLICED = 'but a product\'s name does not contain MIG; write the profile under profiles, such as "1g.10gb"'


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("products", "H100/A100", f'is "H100/A100"; write a name such as "NVIDIA-H100-*", {NAME}'),
        ("products", "!H100", f'is "!H100"; write a name such as "NVIDIA-H100-*", {NAME}'),
        ("products", "", f'is ""; write a name such as "NVIDIA-H100-*", {NAME}'),
        ("products", 4090, 'is 4090; write text such as "NVIDIA-H100-*"'),
        ("products", "NVIDIA-", f'is "NVIDIA-", {BRAND}'),
        ("products", "Tesla-T4-SHARED", f'is "Tesla-T4-SHARED", {SHARED}'),
        ("products", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", f'is "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", {SLICED}'),
        ("profiles", "1g 10gb", f'is "1g 10gb"; write a name such as "1g.*", {NAME}'),
        ("profiles", "1g", 'is "1g", which is not a MIG profile; write one such as "1g.10gb" or "1g.*"'),
        (
            "profiles",
            "nvidia.com/mig-1g.10gb",
            'is "nvidia.com/mig-1g.10gb", which is the name of a resource; write "1g.10gb"',
        ),
        ("priorityClasses", "Batch", f'is "Batch"; write a name such as "batch", {NAME}'),
    ],
)
def test_glob_that_matches_nothing_is_refused(field, value, said):
    assert problems_of(selected(**{field: [value]})) == [f"spec.limits[0].selector.{field}[0]: {said}"]


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        (
            None,
            'spec.limits[0].selector: is null; write lists such as products: ["NVIDIA-H100-*"], or remove it to count everything',
        ),
        ({"products": []}, "spec.limits[0].selector.products: is empty; remove it to count them all"),
        ({"products": "H100"}, 'spec.limits[0].selector.products: is "H100"; write a list, such as ["NVIDIA-H100-*"]'),
        ({"profiles": ["1g.*"] * 17}, "spec.limits[0].selector.profiles: has 17 names; write at most 16"),
        ({"product": ["a"]}, "spec.limits[0].selector.product: is an unknown field of a selector; write products"),
    ],
)
def test_selector_has_lists_of_globs(selector, said):
    assert problems_of(limited(gpus=1, selector=selector)) == [said]


def test_globs_are_kept_in_one_form():
    products = ["nvidia h100**", "NVIDIA-NVIDIA-A100*", "H100*"]
    (limit,) = parse_quota(selected(products=products, profiles=["1G.10gb+ME"])).limits
    assert limit.selector == Selector(("a100*", "h100*"), ("1g.10gb+me",))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"apiVersion": "v1"}, 'apiVersion: is "v1"; write "gpu-admission.io/v1alpha1"'),
        ({"kind": None}, 'kind: is missing; write "GPUQuota"'),
        (
            {"metadata": {"name": "mine"}},
            'metadata.name: is "mine", and a namespace has only one GPUQuota; write "gpu"',
        ),
        ({"metadata": None}, 'metadata.name: is missing, and a namespace has only one GPUQuota; write "gpu"'),
        (
            {"limits": []},
            "limits: is an unknown field of a GPUQuota; remove it; there are apiVersion, kind, metadata, spec and status",
        ),
    ],
)
def test_envelope_is_that_of_a_quota(fields, said):
    assert problems_of(limited(gpus=1) | fields) == [said]


def test_document_is_a_mapping():
    assert problems_of([]) == ["a GPUQuota is a mapping with apiVersion, kind, metadata and spec"]


def test_every_problem_is_reported_at_once():
    spec = {"limits": [{"name": "A", "gpus": -1}, {"name": "b", "selector": {"products": [""]}}], "mode": "x"}
    with pytest.raises(QuotaError) as refusal:
        parse_quota(document(spec, kind="Quota"))
    assert [str(each.path) for each in refusal.value.problems] == [
        "kind",
        "spec.limits[0].name",
        "spec.limits[0].gpus",
        "spec.limits[1]",
        "spec.limits[1].selector.products[0]",
        "spec.mode",
    ]
    assert str(refusal.value).startswith(
        'Write "GPUQuota": kind is "Quota"; kind. Write at most 63 lower-case letters, digits and dashes, such as "h100": '
        'name is "A"; spec.limits[0].name. Write 0 or more: gpus is -1; spec.limits[0].gpus. '
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "name": JSON | st.just("a"),
        "gpus": JSON | st.from_regex(r"[0-9./-]{1,8}", fullmatch=True),
        "memory": JSON | st.from_regex(r"[0-9.]{1,4}[kKGi]{0,2}", fullmatch=True),
        "devices": JSON,
        "selector": JSON
        | st.fixed_dictionaries({}, optional=dict.fromkeys(("products", "profiles", "priorityClasses"), JSON)),
    },
)


@given(JSON | st.fixed_dictionaries({"limits": JSON | st.lists(JSON | LIMITS, max_size=4)}, optional={"mode": JSON}))
def test_any_json_is_read_or_refused(spec):
    assert problems_of(document(spec)) or parse_quota(document(spec)).limits


H100 = Limit("h100", "gpus", Fraction(8), Selector(products=("h100*",)))


def test_name_and_hard_do_not_change_the_key():
    assert Limit("other", "gpus", Fraction(1), H100.selector).key == H100.key


@pytest.mark.parametrize(
    "other",
    [
        Limit("h100", "devices", Fraction(8), Selector(products=("h100*",))),
        Limit("h100", "gpus", Fraction(8), EVERYTHING),
        Limit("h100", "gpus", Fraction(8), Selector(profiles=("h100*",))),
        Limit("h100", "gpus", Fraction(8), Selector(priority_classes=("h100*",))),
    ],
    ids=["unit", "no selector", "profiles", "priority classes"],
)
def test_what_is_counted_changes_the_key(other):
    assert other.key != H100.key


def test_spelling_and_order_do_not_change_the_key():
    (first,) = parse_quota(selected(products=["NVIDIA-H100*", "a100*"])).limits
    (second,) = parse_quota(selected(products=["A100**", "h100*"])).limits
    assert first.key == second.key


def test_key_is_the_same_in_every_version():
    """The status of a cluster has it: another one would make every quota be counted anew after an upgrade."""
    assert H100.key == "460aae68bada"
