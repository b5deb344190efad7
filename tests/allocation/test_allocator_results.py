"""Results of an allocation: devices, conditions, share ids, configs."""

from __future__ import annotations

import uuid


def config(number, *requests):
    opaque = {"opaque": {"driver": "gpu.example.com", "parameters": {"number": number}}}
    return {**opaque, "requests": list(requests)} if requests else opaque


def configs(cluster, *claims):
    (allocation,) = cluster.ask(*claims)
    return [
        (each["source"], each["opaque"]["parameters"]["number"], each.get("requests"))
        for each in allocation["devices"].get("config", [])
    ]


def test_an_allocation_has_the_form_of_a_claims_status(cluster):
    cluster.add("gpu-0")

    assert cluster.ask(cluster.claim(cluster.request())) == [
        {
            "devices": {
                "results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
                ]
            },
        }
    ]


def test_binding_conditions_are_copied(cluster):
    conditions = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    cluster.add(cluster.device("gpu-0", **conditions))

    (allocation,) = cluster.ask(cluster.claim(cluster.request()))
    assert allocation["devices"]["results"][0].items() >= conditions.items()


def test_devices_with_binding_conditions_are_out_where_the_cluster_does_not_know_them(cluster):
    cluster.add(cluster.device("gpu-0", bindingConditions=["Ready"]))

    assert cluster.picked(cluster.claim(cluster.request()), features=["DRAConsumableCapacity"]) is None


def test_shares_have_ids_that_differ_and_stay_the_same(cluster):
    cluster.add(cluster.device("gpu-0", {"slots": {"value": "4"}}, allowMultipleAllocations=True))
    one = {"capacity": {"requests": {"slots": "1"}}}
    claim = cluster.claim(cluster.request("x", **one), cluster.request("y", **one))

    def ids():
        (allocation,) = cluster.ask(claim)
        return [uuid.UUID(result["shareID"]) for result in allocation["devices"]["results"]]

    assert len(set(ids())) == 2
    assert ids() == ids()


def test_configs_of_a_class_come_once_for_all_its_requests_and_before_the_claims(cluster):
    cluster.classes = [
        {"metadata": {"name": "any"}, "spec": {"config": [config(1), config(2)]}},
        {"metadata": {"name": "other"}, "spec": {"config": [config(3)]}},
    ]
    cluster.add("gpu-0", "gpu-1", "gpu-2")
    claim = cluster.claim(
        cluster.request("a"), cluster.request("b", deviceClassName="other"), cluster.request("c"), config=[config(4)]
    )

    assert configs(cluster, claim) == [
        ("FromClass", 1, ["a", "c"]),
        ("FromClass", 2, ["a", "c"]),
        ("FromClass", 3, ["b"]),
        ("FromClaim", 4, None),
    ]


def test_configs_count_for_the_alternative_that_was_taken(cluster):
    cluster.add("gpu-0")
    either = {
        "name": "gpu",
        "firstAvailable": [{"name": "two", **cluster.wanted(count=2)}, {"name": "one", **cluster.wanted()}],
    }
    claim = cluster.claim(either, config=[config(1, "gpu/two"), config(2, "gpu/one"), config(3, "gpu")])

    assert configs(cluster, claim) == [("FromClaim", 2, ["gpu/one"]), ("FromClaim", 3, ["gpu"])]


def test_a_config_for_two_requests_comes_twice(cluster):
    """As in Kubernetes, which adds it for every request that it names."""
    cluster.add("gpu-0", "gpu-1")
    claim = cluster.claim(cluster.request("a"), cluster.request("b"), config=[config(1, "a", "b")])

    assert configs(cluster, claim) == [("FromClaim", 1, ["a", "b"])] * 2
