"""Answers to dry runs, in the words of Kubernetes 1.36.2."""

import pytest

from policies.analyses.installation.dry_runs import Cause, Refusal, refusal_of

ANSWERS = {
    "no right": (
        403,
        'services is forbidden: User "alice" cannot create resource "services" in API group "" in the namespace "gpu-admission"',
        Refusal(Cause.RIGHTS, "", 'create resource "services" in API group "" in the namespace "gpu-admission"'),
    ),
    "escalation": (
        403,
        (
            'clusterroles.rbac.authorization.k8s.io "x" is forbidden: user "alice" (groups=["system:authenticated"]) is attempting to '
            'grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'
        ),
        Refusal(Cause.ESCALATION, "", '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'),
    ),
    "policy": (
        422,
        "deployments.apps \"x\" is forbidden: ValidatingAdmissionPolicy 'registries' with binding 'all' denied request: not yours",
        Refusal(Cause.POLICY, "registries", "not yours"),
    ),
    "webhook": (
        403,
        'admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource Deployment/x was blocked',
        Refusal(Cause.WEBHOOK, "validate.kyverno.svc-fail", "resource Deployment/x was blocked"),
    ),
    "webhook without a reason": (
        400,
        'admission webhook "a.example.com" denied the request without explanation',
        Refusal(Cause.WEBHOOK, "a.example.com", "without explanation"),
    ),
    "webhook without dry run": (
        400,
        'admission webhook "a.example.com" does not support dry run',
        Refusal(Cause.NO_DRY_RUN, "a.example.com", "does not support dry run"),
    ),
    "failed webhook": (
        500,
        'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post "https://a": refused',
        Refusal(Cause.FAILED_WEBHOOK, "a.example.com", 'failed to call webhook: Post "https://a": refused'),
    ),
    "quota": (
        403,
        'pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0',
        Refusal(Cause.QUOTA, "small", "requested: pods=1, used: pods=0, limited: pods=0"),
    ),
    "quota that needs limits": (
        403,
        'pods "x" is forbidden: failed quota: small: must specify limits.cpu for: main',
        Refusal(Cause.QUOTA, "small", "must specify limits.cpu for: main"),
    ),
    "pod security": (
        403,
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true',
        Refusal(Cause.POD_SECURITY, "restricted:latest", "runAsNonRoot != true"),
    ),
    "no namespace": (
        404,
        'namespaces "gpu-admission" not found',
        Refusal(Cause.MISSING, "", 'namespaces "gpu-admission" not found'),
    ),
    "no account": (
        403,
        'pods "x" is forbidden: error looking up service account a/b: serviceaccount "b" not found',
        Refusal(Cause.MISSING, "", 'error looking up service account a/b: serviceaccount "b" not found'),
    ),
    "unknown field": (
        400,
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.x"',
        Refusal(
            Cause.INVALID,
            "",
            'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.x"',
        ),
    ),
    "limit range": (
        403,
        'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
        Refusal(Cause.PLUGIN, "", 'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2'),
    ),
    "exists": (409, 'services "x" already exists', Refusal(Cause.CONFLICT, "", 'services "x" already exists')),
    "overload": (429, "too many requests", Refusal(Cause.SERVER, "", "too many requests")),
    "no answer": (
        0,
        "POST /x: no answer after 40 seconds",
        Refusal(Cause.SERVER, "", "POST /x: no answer after 40 seconds"),
    ),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_cause_name_and_message_are_read(what):
    code, message, expected = ANSWERS[what]
    assert refusal_of(code, message) == expected


@pytest.mark.parametrize("cause", Cause)
def test_what_says_nothing_about_the_object_is_no_refusal(cause):
    open_questions = {Cause.NO_DRY_RUN, Cause.MISSING, Cause.CONFLICT, Cause.SERVER}
    assert cause.is_refusal is (cause not in open_questions)
