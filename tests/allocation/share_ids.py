"""Allocations without their share ids, which Kubernetes draws at random."""

import copy


def without_share_ids(allocations):
    """The allocations with one same share id everywhere: that there is one counts."""
    compared = copy.deepcopy(allocations)
    for allocation in compared or []:
        for result in allocation["devices"].get("results", []):
            if "shareID" in result:
                result["shareID"] = "some"
    return compared
