"""A view that knows nothing says so to every question."""

from policies.dra.inventory import inventory
from policies.view import UNKNOWN, UnknownCluster


def test_every_answer_is_unknown():
    view = UnknownCluster()
    assert view.get("Node", "a") is UNKNOWN
    assert view.get("ResourceClaimTemplate", "t", "ns") is UNKNOWN
    assert view.list("Node") is UNKNOWN
    assert view.list("Pod", "ns") is UNKNOWN
    assert view.server_version() is UNKNOWN


def test_what_is_derived_is_derived_from_the_unknown():
    assert UnknownCluster().derive(inventory) is UNKNOWN
    assert UnknownCluster().derive(lambda view: view.list("Node")) is UNKNOWN
