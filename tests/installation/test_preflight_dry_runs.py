"""What dry runs say about the objects of the manifests, and the conclusion."""

import pytest

from policies.analyses.installation import Coverage, DryRun, Facts, preflight
from policies.analyses.installation.dry_runs import definitions, kind_checks, object_checks
from policies.kubernetes.view import UNKNOWN
from tests.installation.planned_objects import planned, refused, texts
from webhook.cli.installation.preflight_reads import conditions_hold

OURS = "gpu-admission"
ACCEPTED = DryRun(OURS)
POLICY = "deployments.apps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: not yours"
UNREADABLE = 'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal number'
STAND_IN = "tried in namespace default, because its own does not exist yet"


def deployment(dry_run=ACCEPTED, **more):
    return planned("Deployment", OURS, OURS, api_version="apps/v1", dry_run=dry_run, **more)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([deployment()], [("ok", "the dry run accepts 1 object: 1 would be created", "")]),
        (
            [deployment(stored={"kind": "Deployment"}), planned("Service", OURS, OURS, dry_run=ACCEPTED)],
            [("ok", "the dry run accepts 2 objects: 1 would be created, 1 exist and would be applied again", "")],
        ),
        (
            [deployment(refused(422, POLICY, OURS))],
            [("failing", "Deployment gpu-admission/gpu-admission would be refused by ValidatingAdmissionPolicy p", "")],
        ),
        (
            [planned("Namespace", OURS), deployment(refused(422, POLICY, "default"))],
            [
                (
                    "unknown",
                    "Deployment gpu-admission/gpu-admission may be refused by ValidatingAdmissionPolicy p",
                    STAND_IN,
                )
            ],
        ),
        (
            [planned("Namespace", OURS), deployment(refused(400, UNREADABLE, "default"))],
            [("failing", "Deployment gpu-admission/gpu-admission would be refused by the API server", "")],
        ),
        (
            [deployment(DryRun("default"))],
            [
                ("warning", "namespace gpu-admission does not exist, and the manifests do not create it", ""),
                (
                    "ok",
                    "the dry run accepts 1 object: 1 would be created",
                    "1 of them tried in namespace default, because gpu-admission does not exist yet",
                ),
            ],
        ),
        (
            [
                deployment(
                    refused(
                        422,
                        'Deployment.apps "gpu-admission" is invalid: spec.selector: Invalid value: {}: field is immutable',
                        OURS,
                    )
                )
            ],
            [("failing", "Deployment gpu-admission/gpu-admission would be refused by the API server", "spec.selector")],
        ),
        (
            [deployment(refused(400, 'admission webhook "a" does not support dry run', OURS))],
            [("unknown", "it is unknown whether Deployment gpu-admission/gpu-admission would be accepted", "")],
        ),
        (
            [deployment(refused(403, 'x is forbidden: User "a" cannot create resource "deployments"', OURS))],
            [],  # a check of rights says so
        ),
        (
            [
                planned(
                    "Pod",
                    OURS,
                    OURS,
                    runtime=True,
                    dry_run=refused(403, 'User "a" cannot create resource "pods"', OURS),
                )
            ],
            [("unknown", "it is unknown whether Pod gpu-admission/gpu-admission would be accepted", "")],
        ),
        (
            [deployment(DryRun(OURS, None, ("would violate PodSecurity",)))],
            [
                ("warning", "the cluster warns about Deployment gpu-admission/gpu-admission", ""),
                ("ok", "the dry run accepts 1 object: 1 would be created", ""),
            ],
        ),
    ],
)
def test_answers_to_dry_runs_become_checks(objects, expected):
    assert texts(object_checks(objects), "what", "where") == expected


def test_objects_with_one_reason_are_one_check():
    objects = [
        planned("Service", name, OURS, dry_run=refused(403, "exceeded quota: q, requested: x", OURS)) for name in "ab"
    ]
    assert texts(object_checks(objects), "what") == [
        ("failing", "Service gpu-admission/a and Service gpu-admission/b would be refused by ResourceQuota q")
    ]


MONITOR = {"api_version": "monitoring.coreos.com/v1", "resource": ""}


def test_kinds_that_are_not_served_are_named():
    crd = planned("CustomResourceDefinition", "x", spec={"group": "gpu-admission.io", "names": {"kind": "GPUQuota"}})
    objects = [
        planned("ServiceMonitor", OURS, OURS, **MONITOR),
        planned("GPUQuota", "gpu", "team-a", api_version="gpu-admission.io/v1alpha1", resource=""),
        crd,
    ]
    assert texts(kind_checks(objects, definitions(objects)), "what", "remedy") == [
        (
            "failing",
            'no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"',
            "install the Prometheus operator first, or leave out the component monitoring",
        )
    ]


def facts(*objects, **changes):
    """A cluster in which everything is known and good, except for changes."""
    known = dict.fromkeys(
        (
            "nodes",
            "leases",
            "slices",
            "daemon_sets",
            "endpoint_slices",
            "api_services",
            "mutating",
            "validating",
            "policies",
        ),
        (),
    )
    return Facts(
        **{
            "planned": objects,
            "user": "alice",
            "granted": {},
            "own_rules": {},
            "server_version": (1, 36),
            "claim_versions": ["v1"],
            **known,
            "unread_policies": (),
            "coverage": Coverage((), (), conditions_hold),
            "images": {},
            "broken_conversions": (),
            "features": None,
            "clock": None,
            **changes,
        }
    )


def conclusion(*objects, **changes):
    return preflight(facts(*objects, **changes)).conclusion


def test_conclusion_names_the_first_failure():
    said = conclusion(deployment(refused(422, POLICY, OURS)))
    assert said.startswith(
        "installing gpu-admission would fail: Deployment gpu-admission/gpu-admission would be refused by "
        "ValidatingAdmissionPolicy p; "
    )


def test_conclusion_promises_nothing_about_an_object_that_may_be_refused():
    said = conclusion(planned("Namespace", OURS), deployment(refused(422, POLICY, "default")))
    assert said.startswith("no check says that installing gpu-admission would fail, and ")


def test_conclusion_counts_unknown_checks():
    said = conclusion(nodes=UNKNOWN)
    assert said.startswith(
        "no check says that installing gpu-admission would fail, and 2 checks could not be answered; "
    )


def test_conclusion_without_namespaces_says_so():
    assert conclusion(coverage=None).endswith("; which namespaces would be covered is unknown")


def test_conclusion_counts_namespaces():
    assert conclusion().endswith(
        "; new pods of 0 namespaces would be reviewed; `gpu-admission audit` shows which existing objects would be refused"
    )


def test_webhooks_that_may_not_be_listed_are_unknown():
    found = [each for each in preflight(facts(mutating=UNKNOWN, validating=UNKNOWN)).checks if each.name == "webhooks"]
    assert texts(found, "why") == [
        ("unknown", "you may not list mutatingwebhookconfigurations and validatingwebhookconfigurations")
    ]


def test_order_of_webhooks_is_left_out_without_namespaces():
    assert "order" in {each.name for each in preflight(facts()).checks}
    assert "order" not in {each.name for each in preflight(facts(coverage=None)).checks}


def test_labels_of_our_namespace_select_webhooks():
    labels = {"metadata": {"name": OURS, "labels": {"inject": "yes"}}}
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods"]}]
    selector = {"matchLabels": {"inject": "yes"}}
    hook = {"name": "a.example.com", "rules": rules, "namespaceSelector": selector}
    configuration = {"metadata": {"name": "a"}, "webhooks": [hook]}
    coverage = Coverage((), [labels], conditions_hold)
    found = [
        each for each in preflight(facts(coverage=coverage, mutating=[configuration])).checks if each.name == "webhooks"
    ]
    assert texts(found, "what") == [
        ("warning", "mutating webhook a.example.com (a) is called for pods of namespace gpu-admission")
    ]
