"""What a user may apply and grant."""

import pytest

from policies.analyses.installation.rights import (
    OwnRules,
    Right,
    grant_checks,
    missing_rules,
    needed_rights,
    rights_checks,
    rights_text,
)
from tests.installation.planned_objects import RBAC, planned, refused, texts

ROLE = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]}
EVERYTHING = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]


def rule(groups="", resources="pods", verbs="list", **more):
    return {"apiGroups": groups.split(","), "resources": resources.split(","), "verbs": verbs.split(","), **more}


@pytest.mark.parametrize(
    ("wanted", "own", "missing"),
    [
        ([rule()], [rule()], 0),
        ([rule()], [rule(verbs="*")], 0),
        ([rule()], [rule(groups="apps")], 1),
        ([rule(verbs="list,watch")], [rule()], 1),
        ([rule(verbs="list,watch")], [rule(), rule(verbs="watch")], 0),
        ([rule(resources="pods,nodes", verbs="list,watch")], [], 4),
        ([rule()], [rule(resourceNames=["a"])], 1),
        ([rule(resourceNames=["a"])], [rule()], 0),
        ([rule(resourceNames=["a", "b"])], [rule(resourceNames=["a"])], 1),
        ([rule(resources="pods/status")], [rule(resources="*/status")], 0),
        ([rule(resources="pods/status")], [rule()], 1),
        ([rule(verbs="*")], [rule()], 1),
        (
            [{"nonResourceURLs": ["/v1/explain"], "verbs": ["post"]}],
            [{"nonResourceURLs": ["/v1/*"], "verbs": ["post"]}],
            0,
        ),
        ([{"nonResourceURLs": ["/v1/explain"], "verbs": ["post"]}], [rule(verbs="*")], 1),
        ([rule(), {"nonResourceURLs": ["/x"], "verbs": ["get"]}], EVERYTHING, 0),
    ],
)
def test_rules_that_no_rule_of_the_user_covers_are_missing(wanted, own, missing):
    assert len(missing_rules(wanted, own)) == missing


def test_objects_that_exist_are_patched_and_others_created():
    objects = [planned("Service", "a", "ns", stored={"kind": "Service"}), planned("Service", "b", "ns")]
    assert [right.text for right in needed_rights(objects)] == [
        "get services/a -n ns",
        "patch services/a -n ns",
        "get services/b -n ns",
        "create services -n ns",
    ]


def test_missing_rights_are_named_by_resource():
    objects = [planned("Service", "a", "ns"), planned("Service", "b", "ns")]
    found = rights_checks(objects, dict.fromkeys(needed_rights(objects), False), "user alice")
    assert texts(found, "what", "why") == [
        (
            "failing",
            "user alice may not apply Service ns/a and Service ns/b",
            "RBAC does not allow: create and get services -n ns",
        )
    ]


def test_rights_without_an_answer_are_unknown():
    found = rights_checks([planned("Node", "a")], {}, "your user")
    assert texts(found, "what", "remedy") == [
        (
            "unknown",
            "it is unknown whether your user may apply every object",
            "allow the user to create selfsubjectaccessreviews.authorization.k8s.io, as system:basic-user does",
        )
    ]


def binding(**more):
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    missing = refused(404, 'clusterroles.rbac.authorization.k8s.io "reader" not found')
    return planned("ClusterRoleBinding", "reader", api_version=RBAC, dry_run=missing, roleRef=reference, **more)


READER = planned("ClusterRole", "reader", api_version=RBAC, **ROLE)
BIND = Right("bind", "rbac.authorization.k8s.io", "clusterroles", "", "reader")
ESCALATE = Right("escalate", "rbac.authorization.k8s.io", "clusterroles")


@pytest.mark.parametrize(
    ("bind", "own", "expected"),
    [
        (True, None, []),
        (False, OwnRules(EVERYTHING, is_complete=True), []),
        (False, OwnRules([rule(verbs="list,watch")], is_complete=False), []),
        (
            False,
            OwnRules([rule()], is_complete=True),
            [("failing", "roles and bindings grant rights that the user does not have: watch pods")],
        ),
        (
            False,
            OwnRules([rule()], is_complete=False),
            [
                (
                    "unknown",
                    (
                        "RBAC does not allow to escalate or bind, and your rules cannot be listed completely; those listed "
                        "lack: watch pods"
                    ),
                )
            ],
        ),
    ],
)
def test_binding_needs_bind_or_the_rights_of_its_role(bind, own, expected):
    objects = [READER, binding()]
    granted = {**dict.fromkeys(needed_rights(objects), True), ESCALATE: True, BIND: bind}
    found = grant_checks(objects, granted, {"": own} if own else {}, "user alice")
    assert texts(found, "why") == expected


def test_escalation_without_known_rules_quotes_the_api_server():
    message = (
        'user "alice" is attempting to grant RBAC permissions not currently held:\n{APIGroups:[""], Verbs:["list"]}'
    )
    role = planned("ClusterRole", "reader", api_version=RBAC, dry_run=refused(403, message), **ROLE)
    assert texts(grant_checks([role], {}, {}, "user alice"), "what", "why") == [
        (
            "failing",
            "user alice may not apply ClusterRole reader",
            'roles and bindings grant rights that the user does not have: {APIGroups:[""], Verbs:["list"]}',
        )
    ]


def test_many_rights_are_counted():
    assert rights_text((Right("get", "", f"r{number}") for number in range(5)), 3) == "get r0; get r1; get r2; 2 more"
