"""Keys of labels, as k8s.io/apimachinery/pkg/api/validate/content accepts them."""

import pytest

from policies.kubernetes.names import is_label_key


@pytest.mark.parametrize(
    "text",
    ["a", "A_b.c-d", "0.1.2.domain/99", "nvidia.com/gpu", "x" * 63, f"{'a' * 63}.{'b' * 63}.{'c' * 63}/{'x' * 63}"],
)
def test_label_key(text):
    assert is_label_key(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "a/", "/a", "a/b/c", "a b", "-a", "a-", "A.com/a", "a..b/c", "a_b/c", "x" * 64),
        *("a\n", "ä", f"{'a.' * 127}/a", f"{'a.' * 127}aa/b", None, 1),
    ],
)
def test_no_label_key(text):
    assert not is_label_key(text)
