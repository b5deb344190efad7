"""The one reader of kinds: objects, or why they are unknown."""

import pytest

from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.kind_reads import ABOUT_THE_KIND, Unreadable, Why, read_list, read_object
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched

POD, CLAIM = RESOURCES["Pod"], RESOURCES["ResourceClaim"]
NOT_FOUND = APIError(404, "NotFound", "the server could not find the requested resource")
FORBIDDEN = APIError(403, "Forbidden", 'User "kim" cannot list resource "pods"')
FAILING = APIError(500, "InternalError", "conversion webhook failed")
BUSY = APIError(429, "TooManyRequests", "try again")


class Server:
    """A client whose requests have one error, or pods; it has a version."""

    def __init__(self, error=None, minor="36"):
        self._error = error
        self._minor = minor

    async def get(self, path, *_, **__):
        if path == "/version":
            return {"major": "1", "minor": self._minor}
        if self._error is not None:
            raise self._error
        items = [{"metadata": {"name": name}} for name in ("a", "b")]
        return {"metadata": {"resourceVersion": "1"}, "items": items}


async def test_kept_objects_have_kind_and_version():
    found = await read_list(Server(), Watched(POD), lambda pod: pod if pod["metadata"]["name"] == "b" else None)
    assert found == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FORBIDDEN, "forbidden: list pods in team-a"),
        (FAILING, "the API server fails to list pods in team-a: conversion webhook failed"),
    ],
)
async def test_reason_names_the_objects(error, said):
    found = await read_list(Server(error), Watched(POD, "team-a"), expected=ABOUT_THE_KIND)
    assert str(found) == said


async def test_redacted_reason_has_no_names_of_users():
    found = await read_list(Server(FORBIDDEN), Watched(POD, "team-a"))
    assert found.redacted_text(RESOURCES["Pod"]) == "forbidden: list pods"


async def test_kind_that_is_not_installed_has_no_objects():
    assert await read_list(Server(NOT_FOUND), Watched(RESOURCES["ClusterPolicy"])) == []


@pytest.mark.parametrize(("minor", "is_known"), [("33", False), ("34", True), ("36+", True)])
async def test_claims_are_unknown_before_the_version_that_serves_them_as_v1(minor, is_known):
    found = await read_list(Server(NOT_FOUND, minor), Watched(CLAIM))
    assert (found == []) is is_known
    assert is_known or found.why is Why.NOT_SERVED


@pytest.mark.parametrize("error", [FAILING, BUSY, Unreachable("no answer")])
async def test_reasons_that_are_not_expected_are_raised(error):
    with pytest.raises(type(error)) as raised:
        await read_list(Server(error), Watched(POD))
    assert raised.value is error


@pytest.mark.parametrize(
    ("error", "found"),
    [(NOT_FOUND, None), (FORBIDDEN, Unreadable(Why.FORBIDDEN, "get", Watched(POD, "team-a", "x"), FORBIDDEN))],
)
async def test_object_that_is_missing_is_not_one_that_may_not_be_read(error, found):
    assert await read_object(Server(error), POD, "x", "team-a") == found
