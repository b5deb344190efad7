"""Names: label values and DNS labels, as apimachinery's validation accepts them, and the name that was probably meant."""

import pytest

from policies.kubernetes.names import closest, is_dns_label, is_label_value


@pytest.mark.parametrize(
    "text", ["", "a", "A", "0", "NVIDIA-H100-80GB-HBM3", "1g.10gb.me", "a_b-c.d", "580.95.05", "x" * 63, "a..b", "a--b"]
)
def test_label_value(text):
    assert is_label_value(text)


@pytest.mark.parametrize(
    "text",
    [
        *("-a", "a-", ".a", "a.", "_a", "a_", "a b", "a/b", "1g.10gb+me", "a,b", "x" * 64, "ä", "a\n", "\n"),
        *("\u0661", None, 1, True, ["a"]),
    ],
)
def test_no_label_value(text):
    assert not is_label_value(text)


@pytest.mark.parametrize("text", ["a", "0", "a-b", "a--b", "train-0", "x" * 63])
def test_dns_label(text):
    assert is_dns_label(text)


@pytest.mark.parametrize(
    "text", ["", "-a", "a-", "A", "a.b", "a_b", "a b", "x" * 64, "ä", "a\n", "\u0661", "\u212a", None, 1, ["a"]]
)
def test_no_dns_label(text):
    assert not is_dns_label(text)


@pytest.mark.parametrize(
    ("text", "known", "meant"),
    [
        ("all-1g.5g", ["all-1g.10gb", "all-1g.5gb"], "all-1g.5gb"),
        ("all-1g.5gb", ["all-1g.10gb", "all-2g.20gb"], None),
        ("a10", ["a100", "a100-80gb"], None),
        ("a100", ["a10", "a100-80gb"], "a100-80gb"),
        ("time-slicing-10", ["time-slicing-4"], None),
        ("time_slicing_4", ["time-slicing-4"], "time-slicing-4"),
    ],
)
def test_name_with_other_numbers_is_not_meant(text, known, meant):
    assert closest(text, known, likeness=0.6) == meant
