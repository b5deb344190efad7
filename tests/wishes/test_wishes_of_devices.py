"""A wish has the same value for a device in Python and in its CEL, which Kubernetes accepts."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.cel import MOST_COST, compile_selector
from policies.kubernetes.resourceslices import devices_in
from policies.nvidia.labels import Subject, device_predicate
from policies.nvidia.mig import MIGProfile
from policies.nvidia.predicates import TRUE
from policies.nvidia.wishes import ProductPatterns, Wish

DRIVER = "gpu.nvidia.com"
LONGEST_EXPRESSION = 10 * 1024
SUBJECTS = [Subject("gpu"), Subject("mig", MIGProfile(1, 5)), Subject("mig"), Subject("mig-single")]

strings = {
    "productName": st.sampled_from(
        [
            "NVIDIA A100-SXM4-40GB",
            "NVIDIA H100 80GB HBM3",
            "Tesla T4",
            "nvidia a100",
            "A100",
            "A100\n",
            "NVIDIA-",
            "",
            "K\u212aH100",
            "H100\u0130",
            "\u017f\u00dfA100",
            "NVIDIA NVIDIA A100",
        ]
    ),
    "architecture": st.sampled_from(["Ampere", "Ada Lovelace", "Hopper", "Unknown", "hopper", "HOPPER\u212a"]),
    "profile": st.sampled_from(["1g.5gb", "1g.10gb+me", "3G.20GB", "", "1g 5gb", "+"]),
}
versions = {
    "cudaComputeCapability": st.sampled_from(["8.6.0", "9.0.0", "8.0.0", "12.0.0", "8.6.0-rc.1", "8.6.1+x"]),
    "driverVersion": st.sampled_from(["580.95.5", "580.95.0", "580.0.0", "550.54.15", "580.95.5-1", "600.0.0-1"]),
    "cudaDriverVersion": st.sampled_from(["12.4.0", "13.0.0", "12.3.9"]),
}
memory = st.sampled_from(["40960Mi", "42949672959", "42949672961", "81559Mi", "81560Mi", "85520809985", "0", "4864Mi"])
attributes = st.tuples(
    st.fixed_dictionaries({}, optional={name: values.map(lambda v: {"string": v}) for name, values in strings.items()}),
    st.fixed_dictionaries(
        {}, optional={name: values.map(lambda v: {"version": v}) for name, values in versions.items()}
    ),
).map(lambda parts: parts[0] | parts[1])
devices = st.fixed_dictionaries(
    {
        "attributes": attributes,
        "capacity": st.fixed_dictionaries({}, optional={"memory": memory.map(lambda value: {"value": value})}),
    }
)
names = st.text("Aa100H.-*?", min_size=1, max_size=8) | st.sampled_from(
    ["A100*", "*MIG*", "H100*", "*1g.5gb", "?100*", "*.*", "*", "A100-SXM4-40GB", "Tesla-T4", "*1g?10gb.me", "NVIDIA*"]
)
wishes = st.builds(
    Wish,
    products=st.none()
    | st.lists(st.tuples(st.sampled_from(["", "!"]), names).map("".join), min_size=1, max_size=4).map(
        lambda entries: ProductPatterns.read(",".join(entries))
    ),
    min_memory=st.sampled_from([None, 0, 40960, 40961, 81559]),
    max_memory=st.sampled_from([None, 4864, 40959, 40960, 81559]),
    min_compute_capability=st.sampled_from([None, (8, 6), (9, 0)]),
    families=st.sampled_from([(), ("hopper",), ("hopper", "ada-lovelace")]),
    min_driver=st.sampled_from([None, (580, 95, 5), (580, 95, 0), (580, 0, 0)]),
    min_cuda=st.sampled_from([None, (12, 4), (13, 0)]),
    sharing=st.sampled_from([None, "exclusive"]),
)


def read(device):
    """The device as the project reads it from a ResourceSlice."""
    spec = {"driver": DRIVER, "pool": {"name": "a"}, "nodeName": "a", "devices": [{"name": "gpu-0", **device}]}
    (found,) = devices_in({"metadata": {"name": "a"}, "spec": spec})
    return found


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(wishes, st.sampled_from(SUBJECTS), st.lists(devices, min_size=1, max_size=5))
def test_wish_says_of_a_device_what_its_cel_says(wish, subject, found):
    predicate = device_predicate(wish, subject)
    selector = compile_selector(predicate.cel())
    for device in found:
        assert predicate.matches(read(device)) is selector.matches({"driver": DRIVER, **device}), device


@given(
    st.lists(st.tuples(st.sampled_from(["", "!"]), names).map("".join), min_size=1, max_size=4),
    strings["productName"] | st.text("aA10hH.- ", max_size=12),
    st.sampled_from([MIGProfile(1, 5), MIGProfile(1, 10, "+me")]),
)
def test_patterns_say_of_labels_what_the_predicate_says_of_devices(entries, name, profile):
    patterns = ProductPatterns.read(",".join(entries))
    wish = Wish(products=patterns)
    gpu = read({"attributes": {"productName": {"string": name}}})
    mig = read({"attributes": {"productName": {"string": name}, "profile": {"string": str(profile)}}})
    assert device_predicate(wish, Subject("gpu")).matches(gpu) is patterns.admits(name)
    assert device_predicate(wish, Subject("mig-single")).matches(mig) is patterns.admits(name, profile)
    assert device_predicate(wish, Subject("mig")).matches(mig) is patterns.admits(name, profile, by_profile=True)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: f"{subject.kind} {subject.profile}")
@pytest.mark.parametrize(
    "words",
    [
        {"product": "H100*"},
        {"product": "!*MIG*"},
        {"min-memory": "1Mi"},
        {"max-memory": "900Gi"},
        {"min-compute-capability": "0"},
        {"family": "hopper"},
        {"min-driver": "300"},
        {"min-cuda": "0"},
    ],
    ids=str,
)
def test_device_that_says_nothing_meets_no_wish_and_fails_no_selector(words, subject):
    predicate = device_predicate(Wish.of(words), subject)
    nothing = {"attributes": {}, "capacity": {}}
    assert not predicate.matches(read(nothing))
    assert not compile_selector(predicate.cel()).matches({"driver": DRIVER, **nothing})


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: f"{subject.kind} {subject.profile}")
@pytest.mark.parametrize("pattern", ["." * 62, "*." * 31, "A" * 62], ids=["dots", "stars", "letters"])
def test_longest_wish_is_within_the_limits_of_selectors(pattern, subject):
    names = ",".join(f"{'!' * (number % 2)}{pattern}{chr(ord('a') + number)}" for number in range(20))
    wish = Wish.of(
        {
            "product": names,
            "min-memory": "900Ti",
            "max-memory": "901Ti",
            "min-compute-capability": "29.99",
            "family": "kepler,maxwell,pascal,volta,turing,ampere,ada-lovelace,hopper,blackwell,rubin",
            "min-driver": "9999.9999.9999",
            "min-cuda": "99.99",
        }
    )
    expression = device_predicate(wish, subject).cel()
    assert len(expression.encode()) <= LONGEST_EXPRESSION
    assert compile_selector(expression).max_cost < MOST_COST


@pytest.mark.parametrize("sharing", ["exclusive", "shared", "any"])
def test_sharing_says_nothing_of_a_device(sharing):
    assert device_predicate(Wish.of({"sharing": sharing}), Subject("gpu")) == TRUE


def test_order_and_case_of_patterns_make_no_other_cel():
    one, other = Wish.of({"product": "H100*,a100*,!*MIG*"}), Wish.of({"product": "!*mig*,A100*,NVIDIA-H100*"})
    assert device_predicate(one, Subject("mig")).cel() == device_predicate(other, Subject("mig")).cel()


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ({"product": "H100*,A100-80GB*,!*MIG*"}, "product H100* or A100-80GB*, not *MIG*"),
        ({"product": "!*MIG*,!T4"}, "product not *MIG*, not T4"),
        ({"min-memory": "40Gi"}, "memory at least 40960Mi"),
        ({"max-memory": "40Gi"}, "memory at most 40960Mi"),
        ({"min-memory": "40Gi", "max-memory": "80Gi"}, "memory at least 40960Mi and at most 81920Mi"),
        ({"min-compute-capability": "8.6"}, "compute capability 8.6 or newer"),
        ({"min-driver": "580.95"}, "driver 580.95 or newer"),
        ({"min-driver": "580.95.05"}, "driver 580.95.05 or newer"),
        ({"min-cuda": "12.4"}, "CUDA 12.4 or newer"),
        ({"family": "hopper,ada-lovelace"}, "family ada-lovelace or hopper"),
    ],
    ids=str,
)
def test_wish_is_written_for_people(words, reported):
    assert device_predicate(Wish.of(words), Subject("gpu")).words() == reported
