"""Names and numbers in explanations."""

from __future__ import annotations

import pytest

from policies.kubernetes.names import format_count, format_list, format_ranges, inflect
from policies.kubernetes.quantities import ONE, billionths, exact_amount, pod_amounts, resource_amount


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gpu-0"], "gpu-0"),
        (["gpu-0", "gpu-1"], "gpu-0 and gpu-1"),
        ([f"gpu-{number}" for number in range(12)], "gpu-0..gpu-11"),
        (["gpu-10", "gpu-9", "gpu-8", "gpu-2"], "gpu-2 and gpu-8..gpu-10"),
        (["gpu-00", "gpu-01", "gpu-02"], "gpu-00..gpu-02"),
        ([f"gpu-{2 * number}" for number in range(40)], "gpu-0, gpu-2, gpu-4, gpu-6 and 36 more"),
        ([*(f"a-{number}" for number in range(9)), "b", "c", "d", "e", "f"], "a-0..a-8, b, c, d and 2 more"),
        (["one\nline"], "one line"),
        ([], "none"),
    ],
)
def test_compressed_names_are_ranges(names, text):
    assert format_ranges(names) == text


def test_listed_items_beyond_the_most_are_counted():
    assert format_list(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_many_counts_and_agrees():
    assert [format_count(1, "node"), format_count(5_000, "node")] == ["1 node", "5,000 nodes"]


def test_predicate_agrees_with_its_subjects():
    assert inflect("is not of class a: has type mig", 2) == "are not of class a: have type mig"


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [("cpu", ONE // 2, "0.5"), ("memory", 1536 * 1024**2 * ONE, "1.5 GiB"), ("nvidia.com/gpu", 8 * ONE, "8")],
)
def test_amounts_are_spoken_in_units_that_people_use(resource, amount, text):
    assert resource_amount(resource, amount) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 4 * ONE, "4"),
        ("cpu", 7_814 * ONE // 1000, "7814m"),
        ("cpu", 1, "1n"),
        ("memory", 15 * 1024**3 * ONE, "15Gi"),
        ("memory", 1536 * 1024**2 * ONE, "1536Mi"),
        ("memory", 1000 * ONE, "1000"),
        ("memory", 0, "0"),
    ],
)
def test_amounts_of_json_are_exact_quantities(resource, amount, text):
    assert exact_amount(resource, amount) == text
    assert billionths(text) == amount


def container(cpu, **rest):
    return {"resources": {"requests": {"cpu": cpu}}, **rest}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [container("1"), container("500m")]}, 1.5, id="containers add up"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3")]}, 3, id="init that requests more"
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("3")],
            },
            4,
            id="init beside a sidecar",
        ),
        pytest.param(
            {"containers": [container("3")], "initContainers": [container("1", restartPolicy="Always")]},
            4,
            id="sidecar",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1.25, id="overhead"),
        pytest.param({"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}, 2, id="of the pod"),
        pytest.param({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2, id="limits stand for requests"),
    ],
)
def test_pod_amounts_count_as_kubernetes_does(spec, cpu):
    assert pod_amounts(spec)["cpu"] == cpu * ONE


def test_pod_amounts_of_nonsense_are_one_pod():
    assert pod_amounts([1]) == {"pods": ONE}
