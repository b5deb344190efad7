"""Fields that older versions of Kubernetes drop."""

import pytest

TAINT = {"key": "gpu.nvidia.com/xid", "operator": "Exists"}
FIELDS = {"tolerations": [TAINT], "capacity": {"requests": {"memory": "10Gi"}}, "adminAccess": True}


def version(text):
    return {"serverVersion": {"gitVersion": text}}


@pytest.mark.parametrize(
    ("field", "running", "expected"),
    [
        (
            "tolerations",
            "1.35",
            (
                "DRADeviceTaints is on: no taint of a device is tolerated, or looked at; remove them, turn the gate on, or "
                "upgrade the cluster to 1.36"
            ),
        ),
        (
            "capacity",
            "1.34",
            (
                "DRAConsumableCapacity is on: the claim takes whole devices; remove it, turn the gate on, or upgrade the cluster "
                "to 1.36"
            ),
        ),
        (
            "adminAccess",
            "1.33",
            (
                "DRAAdminAccess is on: the claim takes the devices for itself alone; remove it, turn the gate on, or upgrade the "
                "cluster to 1.34"
            ),
        ),
    ],
    ids=["tolerations", "capacity", "adminAccess"],
)
def test_dropped_field_is_reported_with_the_consequence(said, asking, field, running, expected):
    claim = asking(**{field: FIELDS[field]})
    assert said("GA225", claim, version(f"v{running}.2")) == [
        f"{field}: is dropped by Kubernetes {running} unless the feature gate {expected}"
    ]


def test_dropped_constraint_is_reported(said, asking):
    claim = asking(constraints=[{"distinctAttribute": "gpu.nvidia.com/uuid"}])
    assert said("GA225", claim, version("v1.35.0"), path="spec.devices.") == [
        (
            "constraints[0].distinctAttribute: is dropped by Kubernetes 1.35 unless the feature gate DRAConsumableCapacity is "
            "on: a constraint without an attribute is refused; remove the constraint, turn the gate on, or upgrade the "
            "cluster to 1.36"
        )
    ]


def test_dropped_list_is_reported(said, asking):
    claim = asking()
    listed = [{"name": "a", "deviceClassName": "gpu.nvidia.com"}]
    claim["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": listed}]
    assert said("GA225", claim, version("v1.33.0"), path="spec.devices.requests[0].") == [
        (
            "firstAvailable: is dropped by Kubernetes 1.33 unless the feature gate DRAPrioritizedList is on: a request without "
            "devices is refused; write exactly, turn the gate on, or upgrade the cluster to 1.34"
        )
    ]


@pytest.mark.parametrize("cluster", [[version("v1.36.0")], []], ids=["new", "unknown"])
def test_field_that_is_kept_is_fine(said, asking, cluster):
    claim = asking(**FIELDS, constraints=[{"distinctAttribute": "gpu.nvidia.com/uuid"}])
    assert said("GA225", claim, *cluster) == []


def test_what_the_api_server_asks_about_it_has_kept(said, asking):
    assert said("GA225", asking(**FIELDS), version("v1.35.0"), entry="claims") == []


@pytest.mark.parametrize("empty", [{"tolerations": []}, {"capacity": {}}, {"adminAccess": False}])
def test_empty_field_is_fine(said, asking, empty):
    assert said("GA225", asking(**empty), version("v1.33.0")) == []
