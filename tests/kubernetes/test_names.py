"""Names: label values and DNS labels, as k8s.io/apimachinery/pkg/util/validation accepts them."""

import pytest

from policies.kubernetes.names import is_dns_label, is_label_value


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
