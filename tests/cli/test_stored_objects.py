"""Stored objects in the form of their manifests."""

from __future__ import annotations

import pytest

from webhook.cli.kubectl import as_written

WRITTEN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "containers": [
            {"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 2}}},
            {"name": "b", "image": "y"},
        ],
        "tolerations": [{"key": "own"}],
    },
}
PLAIN = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "uid": "1", "resourceVersion": "0", "creationTimestamp": "then"},
    "spec": {
        "restartPolicy": "Always",
        "containers": [
            {
                "pull": "Always",
                "name": "a",
                "image": "x",
                "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}, "requests": {"cpu": "2"}},
            },
            {"pull": "Always", "name": "b", "image": "y"},
        ],
        "tolerations": [{"key": "own"}, {"key": "not-ready"}],
    },
    "status": {"phase": "Pending"},
}


def stored(**spec):
    metadata = {**PLAIN["metadata"], "uid": "2", "resourceVersion": "7"}
    return {**PLAIN, "metadata": metadata, "spec": {**PLAIN["spec"], **spec}}


def test_object_that_nothing_changed_is_its_manifest():
    shown = as_written(stored(), WRITTEN, PLAIN)
    assert shown == WRITTEN
    assert list(shown) == list(WRITTEN)


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        pytest.param({"nodeName": "n"}, {**WRITTEN["spec"], "nodeName": "n"}, id="a-new-field"),
        pytest.param(
            {"tolerations": [*PLAIN["spec"]["tolerations"], {"key": "gpu"}]},
            {**WRITTEN["spec"], "tolerations": [{"key": "own"}, {"key": "gpu"}]},
            id="a-new-item",
        ),
        pytest.param({"restartPolicy": "Never"}, {**WRITTEN["spec"], "restartPolicy": "Never"}, id="a-default-changed"),
        pytest.param(
            {"containers": PLAIN["spec"]["containers"][1:]},
            {**WRITTEN["spec"], "containers": WRITTEN["spec"]["containers"][1:]},
            id="an-item-gone",
        ),
        pytest.param(
            {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "2"}}}]},
            {**WRITTEN["spec"], "containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": 2}}}]},
            id="a-field-gone",
        ),
        pytest.param({"tolerations": "none"}, {**WRITTEN["spec"], "tolerations": "none"}, id="another-type"),
    ],
)
def test_only_what_was_changed_differs_from_the_manifest(spec, shown):
    assert as_written(stored(**spec), WRITTEN, PLAIN)["spec"] == shown
