"""GPUQuotas in a cluster: creating and reading them."""

from policies.quota.ledger.status import charge_items
from testbed import manifests
from testbed.waiting import until

ANY_GPU = "device.driver == 'gpu.nvidia.com'"


def status(cluster, team):
    return cluster.get("GPUQuota", "gpu", team).object.get("status", {})


def summary(cluster, team):
    return status(cluster, team).get("summary", "")


def limited(cluster, team, gpus, **spec):
    """Give a namespace a quota, and wait until what it has is counted."""
    cluster.create(manifests.quota(team, gpus, **spec)).object  # noqa: B018 - it is not refused

    def ready():
        conditions = {each["type"]: each["status"] for each in status(cluster, team).get("conditions", [])}
        return conditions.get("Ready") == "True"

    until(ready, "the quota is counted")
    return team


def amounts(cluster, team):
    """Used and reserved of the one limit."""
    (limit,) = status(cluster, team)["limits"]
    return limit.get("used"), limit["reserved"]


def counted(cluster, team, used):
    """Wait until what is used is this much, and nothing is on its way any more."""

    def look():
        now = status(cluster, team)
        limits = [(each.get("used"), each["reserved"]) for each in now.get("limits", ())]
        assert (limits, charge_items(now)) == ([(used, "0")], []), now
        return True

    until(look, f"{used} is counted")
