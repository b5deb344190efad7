"""Webhook configurations, caBundles, certificates and calls."""

from datetime import timedelta

import pytest

from policies.analyses.installation import (
    APIServerCalls,
    Bundle,
    StoredCertificates,
    Unread,
    bound_text,
    calls_in,
)
from policies.analyses.installation.diagnosis import call_checks, certificate_checks
from policies.analyses.installation.installed_objects import APPLY, bundle_checks, doubled_checks, webhook_checks
from tests.installation.healthy_facts import NAMES, NOW, bad, configurations, facts, good, replica

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
MISSING = Unread("get mutatingwebhookconfigurations.admissionregistration.k8s.io/gpu-admission")


def without(name):
    return configurations(lambda _, webhooks: [each for each in webhooks if each["name"] != name])


def with_more(kind, *names):
    added = [{"name": name, "failurePolicy": "Ignore"} for name in names]
    return configurations(lambda each, webhooks: [*webhooks, *added] if each == kind else webhooks)


def policy(name, value):
    return configurations(
        lambda _, webhooks: [{**each, "failurePolicy": value} if each["name"] == name else each for each in webhooks]
    )


@pytest.mark.parametrize(
    ("changed", "status", "what"),
    [
        ({**configurations(), MUTATING: None}, "failing", f"{MUTATING} gpu-admission does not exist"),
        (
            {**configurations(), MUTATING: MISSING},
            "unknown",
            f"it is unknown which webhooks {MUTATING} gpu-admission has",
        ),
        (without("enforce-quota.gpu-admission.io"), "failing", "webhooks are missing: enforce-quota.gpu-admission.io"),
        (
            with_more(VALIDATING, "later.gpu-admission.io"),
            "warning",
            "this version does not know later.gpu-admission.io",
        ),
        (
            policy("convert-pods.gpu-admission.io", "Ignore"),
            "warning",
            "failurePolicy of convert-pods.gpu-admission.io is Ignore",
        ),
        (policy("nodes.gpu-admission.io", "Fail"), "warning", "failurePolicy of nodes.gpu-admission.io is Fail"),
    ],
)
def test_trouble_of_webhooks_is_named(changed, status, what):
    ((found_status, found_what, remedy),) = bad(webhook_checks(changed), "what", "remedy")
    assert (found_status, found_what) == (status, what)
    assert remedy == (APPLY if status != "unknown" else "bind the ClusterRole of docs/doctor.md to your user")


def test_webhooks_of_this_version_are_ok():
    assert good(webhook_checks(configurations())) == [
        "all 16 webhooks of this version are installed, with their failurePolicy"
    ]


def bundle(name, *, present=True, refusal=""):
    return Bundle(f"{MUTATING} gpu-admission", name, present, refusal)


def test_bundles_that_are_missing_or_wrong_are_named():
    wrong = "for gpu-admission.gpu-admission.svc: no chain"
    bundles = [bundle("a", present=False), bundle("b", refusal=wrong), bundle("c"), bundle("d", present=False)]
    found = bundle_checks(bundles, is_compared=True)
    assert bad(found, "what", "why") == [
        (
            "failing",
            "a and d have no caBundle",
            "API servers do not trust the certificate of the service, so every call fails",
        ),
        ("failing", "the caBundle of b does not verify the certificate in the Secret", wrong),
    ]


@pytest.mark.parametrize(("compared", "more"), [(False, ""), (True, ", which verifies the certificate in the Secret")])
def test_bundles_of_all_webhooks_are_ok(compared, more):
    found = bundle_checks([bundle("a"), bundle("b")], is_compared=compared)
    assert good(found) == [f"all 2 webhooks have a caBundle{more}"]


def stored(days=20, authority=200):
    return StoredCertificates("", NOW + timedelta(days=days), NOW + timedelta(days=authority))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"certificates": stored(authority=50)},
            [("warning", "the authority of the certificate expires in 50 days, at 2027-01-16 12:00 UTC")],
        ),
        (
            {"certificates": stored(5), "replicas": {NAMES[0]: replica(days=5)}},
            [("warning", "the certificate that gpu-admission-0 serves expires in 5 days, at 2026-12-02 12:00 UTC")],
        ),
        (
            {"certificates": stored(-1), "replicas": {NAMES[0]: replica(days=-1)}},
            [("failing", "the certificate that gpu-admission-0 serves has expired at 2026-11-26 12:00 UTC")],
        ),
        (
            {"certificates": stored(30)},
            [("warning", "gpu-admission-0 and gpu-admission-1 do not serve the stored certificate")],
        ),
        ({"certificates": None}, [("failing", "the stored certificate does not exist")]),
        ({"certificates": StoredCertificates("half")}, [("failing", "the stored certificate cannot be used")]),
        (
            {"certificates": Unread("get secrets/gpu-admission-certificates -n gpu-admission")},
            [("unknown", "the stored certificate and its authority are unknown")],
        ),
        ({"certificates": None, "issues_certificates": False}, []),
        (
            {"certificates": stored(3), "replicas": {}},
            [("warning", "the stored certificate expires in 3 days, at 2026-11-30 12:00 UTC")],
        ),
    ],
)
def test_trouble_of_certificates_is_named(changed, expected):
    assert bad(certificate_checks(facts(**changed))) == expected


LINES = """\
process_start_time_seconds 1.7957952e+09
apiserver_admission_webhook_request_total{code="200",name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit"} 1990
apiserver_admission_webhook_request_total{code="503",name="convert-pods.gpu-admission.io",operation="CREATE",rejected="true",type="admit"} 10
apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="convert-pods.gpu-admission.io",operation="CREATE",rejection_code="503",type="admit"} 3
apiserver_admission_webhook_rejection_count{error_type="no_error",name="convert-pods.gpu-admission.io",operation="CREATE",rejection_code="403",type="admit"} 7
apiserver_admission_webhook_rejection_count{error_type="no_error",name="convert-pods.gpu-admission.io",operation="CREATE",rejection_code="500",type="admit"} 1
apiserver_admission_webhook_fail_open_count{name="place-pods.gpu-admission.io",type="admit"} 1
apiserver_admission_webhook_request_total{code="200",name="place-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit"} 4000
apiserver_admission_webhook_admission_duration_seconds_bucket{name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit",le="0.005"} 1000
apiserver_admission_webhook_admission_duration_seconds_bucket{name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit",le="0.025"} 1900
apiserver_admission_webhook_admission_duration_seconds_bucket{name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit",le="0.5"} 1999
apiserver_admission_webhook_admission_duration_seconds_bucket{name="convert-pods.gpu-admission.io",operation="CREATE",rejected="false",type="admit",le="+Inf"} 2000
apiserver_admission_match_condition_exclusions_total{kind="webhook",name="nodes.gpu-admission.io",operation="UPDATE",type="validate"} 600
apiserver_admission_match_condition_evaluation_errors_total{kind="webhook",name="nodes.gpu-admission.io",operation="UPDATE",type="validate"} 2
apiserver_admission_match_condition_exclusions_total{kind="policy",name="admin-access.gpu-admission.io",operation="UPDATE",type="validate"} 9
apiserver_admission_webhook_request_total{code="200",name="other.example.com",operation="CREATE",rejected="false",type="admit"} 7
"""
CALLS = calls_in(LINES.splitlines())


def test_calls_of_our_webhooks_are_counted():
    found = {
        name: (each.calls, each.refused, each.failed_closed, each.failed_open, each.excluded)
        for name, each in CALLS.webhooks.items()
    }
    assert found == {
        "convert-pods.gpu-admission.io": (2000, 7, 4, 0, 0),
        "place-pods.gpu-admission.io": (4000, 0, 0, 1, 0),
        "nodes.gpu-admission.io": (0, 0, 0, 0, 600),
    }
    assert f"{CALLS.since:%Y-%m-%d %H:%M}" == "2026-11-27 16:00"


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.5, "at most 5 ms"),
        (0.51, "at most 25 ms"),
        (0.99, "at most 500 ms"),
        (1, "longer than the API server measures"),
    ],
)
def test_times_are_bounds_of_buckets(share, expected):
    assert bound_text(CALLS.webhooks["convert-pods.gpu-admission.io"].bound(share)) == expected


def test_webhook_without_calls_has_no_time():
    assert bound_text(CALLS.webhooks["nodes.gpu-admission.io"].bound(0.5)) == "-"


def test_calls_that_miss_the_objectives_are_named():
    assert bad(call_checks(CALLS, 3), "what", "where", "why") == [
        (
            "warning",
            "4 of 2,000 calls of convert-pods.gpu-admission.io had no answer since 2026-11-27 16:00 UTC",
            "/metrics of the API server that answered, 1 of 3; the others count their own calls",
            "4 refused their object",
        ),
        (
            "warning",
            "more than 1 of 100 calls of convert-pods.gpu-admission.io take longer than 0.1 s; 99 of 100 take at most 500 ms",
            "/metrics of the API server that answered, 1 of 3; the others count their own calls",
            "",
        ),
        (
            "warning",
            "matchConditions of nodes.gpu-admission.io failed 2 times since 2026-11-27 16:00 UTC",
            "/metrics of the API server that answered, 1 of 3; the others count their own calls",
            "an object was too expensive to evaluate, so the failurePolicy of the webhook decided",
        ),
    ]


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        (0, "no call was made since 2026-11-27 12:00 UTC"),
        (1, "no call was made since 2026-11-27 12:00 UTC"),
        (2, "no call of 1 of 2 API servers was made since 2026-11-27 12:00 UTC"),
    ],
)
def test_no_call_is_ok(servers, expected):
    assert good(call_checks(APIServerCalls(NOW, {}), servers)) == [expected]


def test_unread_metrics_are_unknown():
    assert bad(call_checks(Unread("get /metrics"), 1), "why") == [("unknown", "you may not get /metrics")]


def test_webhooks_in_files_count_as_installed_where_the_api_has_none():
    in_files = {kind: found for kind, found in configurations().items() if kind == MUTATING}
    found = facts(configurations={**configurations(), MUTATING: None}, static=in_files)
    assert bad(webhook_checks(found.called), "what") == []
    assert bad(doubled_checks(found.static, found.configurations), "what") == []


def test_webhooks_in_files_and_in_the_api_are_failing():
    in_files = {VALIDATING: configurations()[VALIDATING]}
    ((status, what),) = bad(doubled_checks(in_files, configurations()), "what")
    assert status == "failing"
    assert what.startswith("check-pods.gpu-admission.io, ")
    assert what.endswith(" are in files of the API servers and in the API")
