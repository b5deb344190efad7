"""The work of an access review grows linearly with the pod; steps are counted, not timed."""

import pytest

from tests.counted_steps import steps


def mounts(count, name="v"):
    return [{"name": name, "mountPath": f"/{number}"} for number in range(count)]


def pod(volume, count, **fields):
    container = {"name": "a", "volumeMounts": mounts(count), **fields}
    return {"containers": [container], "volumes": [{"name": "v", "hostPath": {"path": volume}}]}


MADE = {
    "mounts of a long path": lambda count: pod("/a" * 10 * count, count),
    "mounts of a path that is too long": lambda count: pod("/a" * 100 * count, count),
    "mounts beside resources": lambda count: pod(
        "/data", count, resources={"limits": {f"example.com/{number}": 1 for number in range(count)}}
    ),
    "mounts beside claims": lambda count: {
        **pod("/data", count, resources={"claims": [{"name": f"c{number}"} for number in range(count)]}),
        "resourceClaims": [{"name": f"d{number}"} for number in range(count)],
    },
    "containers beside claims": lambda count: {
        "containers": [{"name": "a", "resources": {"claims": [{"name": "c0"}]}} for _ in range(count)],
        "resourceClaims": [{"name": f"c{number}", "resourceClaimTemplateName": "t"} for number in range(count)],
    },
    "mounts of a GPU": lambda count: pod("/dev/nvidia0", count),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_steps_grow_with_the_pod(found, made):
    found(made(4))
    few, many = (steps(lambda count=count: found(made(count))) for count in (60, 120))
    assert many <= 2.1 * few


def test_path_that_no_node_opens_is_nothing(rules):
    assert rules(pod("/dev/nvidia" + "0" * 5000, 1)) == []


def test_long_spelling_of_a_short_path_counts(rules):
    assert rules(pod("/" * 5000 + "dev/nvidia0", 1)) == ["GA604"]
