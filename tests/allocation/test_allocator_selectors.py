"""Selectors: class before request, errors in Kubernetes' words, one evaluation per kind of device."""

from __future__ import annotations

import pytest

from policies.cel import Selector
from policies.devices.allocation.reading import AllocationError

BROKEN = 'device.attributes["gpu.example.com"].missing == "x"'


def refused(cluster, *claims, **known):
    with pytest.raises(AllocationError) as failed:
        cluster.ask(*claims, **known)
    return str(failed.value)


def add_class(cluster, name, *expressions):
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    cluster.classes.append({"metadata": {"name": name}, "spec": {"selectors": selectors}})


def test_a_class_that_does_not_match_spares_the_request_selectors(cluster):
    cluster.add("gpu-0")
    add_class(cluster, "none", "false")

    assert cluster.picked(cluster.claim(cluster.request("gpu", BROKEN, deviceClassName="none"))) is None


def test_a_selector_that_does_not_match_spares_those_after_it(cluster):
    cluster.add("gpu-0")

    assert cluster.picked(cluster.claim(cluster.request("gpu", "false", BROKEN))) is None


def test_a_failing_selector_of_a_request_stops_everything(cluster):
    cluster.add("gpu-0")
    claim = cluster.claim(cluster.request("gpu", "true", BROKEN))
    claim["metadata"]["namespace"] = "team"

    assert refused(cluster, claim) == "claim team/claim: selector #1: CEL runtime error: no such key: missing"


def test_a_failing_selector_of_a_class_names_the_class(cluster):
    cluster.add("gpu-0")
    add_class(cluster, "broken", BROKEN)

    assert refused(cluster, cluster.claim(cluster.request(deviceClassName="broken"))) == (
        "class broken: selector #0: CEL runtime error: no such key: missing"
    )


def test_a_selector_that_does_not_compile_is_reported_with_its_place(cluster):
    cluster.add("gpu-0")

    assert refused(cluster, cluster.claim(cluster.request("gpu", "nothing"))) == (
        "claim claim: selector #0: CEL compile error: compilation failed: "
        "ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing\n | ^"
    )


def test_a_selector_that_is_never_asked_may_be_broken(cluster):
    assert cluster.picked(cluster.claim(cluster.request("gpu", "nothing"))) is None


def test_sharing_is_shown_to_selectors(cluster):
    cluster.add("gpu-0", cluster.device("gpu-1", allowMultipleAllocations=True))

    assert cluster.picked(cluster.claim(cluster.request("gpu", "device.allowMultipleAllocations"))) == ["gpu=gpu-1"]


@pytest.mark.parametrize(
    ("expression", "evaluations"),
    [
        ('device.attributes["gpu.example.com"].model == "none"', 2),
        ('device.attributes["gpu.example.com"].uuid == "none"', 8),
        ('device.attributes["gpu.example.com"].exists(name, name == "none")', 8),
    ],
    ids=["a model", "a name", "any attribute"],
)
def test_selector_is_evaluated_once_for_equal_devices(cluster, monkeypatch, expression, evaluations):
    asked = []
    matches = Selector.matches
    monkeypatch.setattr(Selector, "matches", lambda self, device: asked.append(device) or matches(self, device))
    for number in range(8):
        attributes = {"uuid": {"string": f"GPU-{number}"}, "model": {"string": f"model-{number % 2}"}}
        cluster.add(cluster.device(f"gpu-{number}", attributes=attributes), pool=f"pool-{number}")

    assert cluster.picked(cluster.claim(cluster.request("gpu", expression))) is None
    assert len(asked) == evaluations


def test_unread_attribute_still_fails_if_no_selector_could_read_it(cluster):
    cluster.add(cluster.device("gpu-0", attributes={"links": {"ints": [1, 2]}}))

    assert refused(cluster, cluster.claim(cluster.request("gpu", "true"))) == (
        "claim claim: selector #0: CEL runtime error: attribute links: unsupported attribute value"
    )
