"""Products: every form of the label nvidia.com/gpu.product."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.nvidia.mig import MIGProfile
from policies.nvidia.products import Product

A100 = "NVIDIA-A100-SXM4-40GB"


@pytest.mark.parametrize(
    ("label", "product"),
    [
        (A100, Product(A100)),
        (f"{A100}-SHARED", Product(A100, shared=True)),
        (f"{A100}-MIG-1g.5gb", Product(A100, MIGProfile(1, 5))),
        (f"{A100}-MIG-1g.10gb.me", Product(A100, MIGProfile(1, 10, "+me"))),
        (f"{A100}-MIG-1g.24gb-me", Product(A100, MIGProfile(1, 24, "-me"))),
        (f"{A100}-MIG-1c.2g.10gb", Product(A100, MIGProfile(2, 10, "", 1))),
        (f"{A100}-MIG-1g.5gb-SHARED", Product(A100, MIGProfile(1, 5), shared=True)),
        (f"{A100}-MIG-1g.24gb-me-SHARED", Product(A100, MIGProfile(1, 24, "-me"), shared=True)),
        (f"{A100}-MIG-INVALID", Product(A100, invalid=True)),
        (f"{A100}-MIG-INVALID-SHARED", Product(A100, shared=True, invalid=True)),
        ("A100-SXM4-40GB", Product("A100-SXM4-40GB")),
        ("Tesla-T4", Product("Tesla-T4")),
        ("Tesla-T4-SHARED", Product("Tesla-T4", shared=True)),
        ("NVIDIA-A100-80GB-PCIe", Product("NVIDIA-A100-80GB-PCIe")),
        ("NVIDIA-GB200", Product("NVIDIA-GB200")),
        ("", Product("")),
        ("SHARED", Product("SHARED")),
        (f"{A100}-shared", Product(f"{A100}-shared")),
        (f"{A100}-MIG", Product(f"{A100}-MIG")),
        (f"{A100}-MIG-", Product(f"{A100}-MIG-")),
        (f"{A100}-MIG-small", Product(f"{A100}-MIG-small")),
        (f"{A100}-MIG-1g.5gb-X", Product(f"{A100}-MIG-1g.5gb-X")),
        ("X-MIG-2-MIG-1g.5gb", Product("X-MIG-2", MIGProfile(1, 5))),
    ],
)
def test_label_is_taken_apart(label, product):
    assert Product.parse(label) == product


names = st.from_regex(r"[A-Z][A-Za-z0-9-]{0,20}[a-z0-9]", fullmatch=True).filter(lambda name: "MIG" not in name)
profiles = st.none() | st.sampled_from(["1g.5gb", "3g.71gb", "1g.10gb.me", "1g.24gb.me.all", "1g.24gb-me"])


@given(names, profiles, st.booleans())
def test_label_that_gfd_writes_is_taken_apart(name, profile, shared):
    label = name + (f"-MIG-{profile}" if profile else "") + ("-SHARED" if shared else "")
    product = Product.parse(label)
    assert product == Product(name, MIGProfile.from_label(profile) if profile else None, shared)


@given(st.text(st.sampled_from("AMIGSHRED-10g.5b"), max_size=30))
def test_nothing_of_a_label_is_dropped(label):
    product = Product.parse(label)
    spelt = product.name
    if product.invalid:
        spelt += "-MIG-INVALID"
    if product.profile:
        assert spelt + "-MIG-" in label
    else:
        assert spelt + ("-SHARED" if product.shared else "") == label
