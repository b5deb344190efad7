"""One table and the settings decide which namespaces are exempt, in every command and the webhook."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from policies.admission import entries_called, review
from policies.admission.webhooks import ENTRIES
from policies.analyses.audit.survey import Conversions
from policies.quota.quota_report import quota_report
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, Access, Configuration, GPUAdmissionPolicy, Quotas
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission import Admission
from webhook.server.metrics import Metrics

EXEMPT_BY_DEFAULT = [
    "kube-system",
    "gpu-admission",
    "gpu-operator",
    "nvidia-gpu-operator",
    "nvidia-dra-driver-gpu",
    "dra-driver-nvidia-gpu",
]
OPERATOR = GPUAdmissionPolicy(configuration=Configuration(operator_namespaces=("nvidia",)))
AGENTS = GPUAdmissionPolicy(quota=Quotas(exempt_namespaces=("agents-*",)))
TRUSTED = GPUAdmissionPolicy(access=Access(mode="deny", exempt_namespaces=("agents-*",)))


def pod(gpus=2, **env):
    amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {
        "name": "main",
        "image": "train:1",
        "resources": {"limits": amounts, "requests": amounts},
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": {"containers": [container]}}


def quota(namespace, gpus=1):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "all", "gpus": gpus}]},
    }


def view(namespace, dra="enabled"):
    labels = {"gpu-admission.io/dra": dra, "gpu-admission.io/quota": "enforced"}
    metadata = {"name": namespace, "labels": labels}
    return ManifestsView([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, quota(namespace)])


def asked(document, namespace, entry=""):
    return Request(document, namespace=namespace, entry=entry)


def rules(decision):
    return {finding.rule.id for finding in decision.findings}


def names(request, settings):
    return {entry.name for entry in entries_called(request, view(request.namespace), settings)}


@pytest.mark.parametrize("namespace", EXEMPT_BY_DEFAULT)
def test_offline_review_asks_no_entry_that_the_api_server_does_not_call(namespace):
    assert names(asked(pod(), namespace), DEFAULTS) <= {"place-pods", "place-unconverted-pods"}


@pytest.mark.parametrize("namespace", ["kube-system", "gpu-admission"])
def test_offline_review_asks_no_entry_about_namespaces_that_no_webhook_matches(namespace):
    assert names(asked(pod(), namespace), DEFAULTS) == set()


@pytest.mark.parametrize("namespace", EXEMPT_BY_DEFAULT)
def test_settings_free_no_namespace_that_the_installed_webhooks_leave_out(namespace):
    settings = GPUAdmissionPolicy(
        configuration=Configuration(operator_namespaces=("nvidia",)),
        access=Access(exempt_namespaces=()),
        quota=Quotas(exempt_namespaces=()),
    )
    assert names(asked(pod(), namespace), settings) <= {"place-pods", "place-unconverted-pods"}


@pytest.mark.parametrize(
    ("settings", "namespace"), [(OPERATOR, "nvidia"), (AGENTS, "agents-eu")], ids=["operator", "exempt from quotas"]
)
@pytest.mark.parametrize("entry", ["", "check-pods", "enforce-quota"])
def test_namespaces_of_the_operator_and_those_exempt_from_quotas_are_never_charged(settings, namespace, entry):
    decision = review(asked(pod(), namespace, entry), view(namespace, dra="disabled"), settings)
    assert decision.allowed
    assert not {rule for rule in rules(decision) if rule.startswith("GA5")}


def test_workload_in_a_namespace_exempt_from_quotas_has_no_shortage():
    template = {"spec": pod(gpus=1)["spec"]}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train"}}
    document["spec"] = {"replicas": 9, "template": template}
    request = replace(asked(document, "agents-eu"), group="apps", kind="Deployment")
    assert rules(review(request, view("agents-eu"), DEFAULTS)) == {"GA506"}
    assert rules(review(request, view("agents-eu"), AGENTS)) == set()


@pytest.mark.parametrize("entry", ["", "enforce-quota"])
def test_exemption_from_access_rules_switches_no_quota_off(entry):
    unconverted = view("agents-eu", dra="disabled")
    decision = review(asked(pod(), "agents-eu", entry), unconverted, TRUSTED)
    assert [finding.rule.id for finding in decision.denials] == ["GA502"]


@pytest.mark.parametrize(
    ("settings", "namespace", "expected"),
    [
        (TRUSTED, "agents-eu", set()),
        (AGENTS, "agents-eu", {"GA601"}),
        (OPERATOR, "nvidia", set()),
        (OPERATOR, "gpu-operator", {"GA601"}),
        (DEFAULTS, "kube-system", set()),
        (DEFAULTS, "gpu-admission-2", {"GA601"}),
        (DEFAULTS, "", {"GA601"}),
    ],
)
def test_access_has_its_own_exemptions(settings, namespace, expected):
    taking = pod(0, NVIDIA_VISIBLE_DEVICES="all")
    assert rules(review(asked(taking, namespace, "guard-pods"), ManifestsView(), settings)) == expected


@pytest.mark.parametrize(
    ("settings", "namespace", "placed"),
    [
        (OPERATOR, "nvidia", ["/spec/tolerations"]),
        (DEFAULTS, "nvidia-dra-driver-gpu", ["/spec/tolerations"]),
        (DEFAULTS, "kube-system", []),
    ],
)
def test_pods_of_those_who_hand_out_gpus_are_not_converted(settings, namespace, placed):
    decision = review(asked(pod(), namespace, "convert-pods"), view(namespace), settings)
    assert ([each["path"] for each in decision.patch], decision.templates) == (placed, ())


def test_operator_namespaces_are_names_and_no_patterns():
    settings = GPUAdmissionPolicy(configuration=Configuration(operator_namespaces=("*",)))
    assert "enforce-quota" in names(asked(pod(), "team-a"), settings)


@pytest.mark.parametrize(
    ("settings", "namespace", "why"),
    [
        (DEFAULTS, "kube-system", "no webhook is called for it"),
        (DEFAULTS, "gpu-operator", "configuration.operatorNamespaces names it"),
        (AGENTS, "agents-eu", "quota.exemptNamespaces matches it"),
        (AGENTS, "nvidia-dra-driver-gpu", "the installed webhook configurations leave it out"),
    ],
)
def test_report_on_a_quota_says_that_and_why_it_limits_nothing(settings, namespace, why):
    report = quota_report(quota(namespace), view(namespace), settings, datetime.now(UTC))
    assert (report.enforced, report.exempt) == (False, why)
    assert report.remarks[0] == f"namespace {namespace} is exempt from quotas ({why}), so this GPUQuota limits nothing"


@pytest.mark.parametrize(("settings", "namespace"), [(DEFAULTS, "gpu-operator"), (AGENTS, "agents-eu")])
@pytest.mark.parametrize("entry", ["", "configuration"])
def test_quota_in_an_exempt_namespace_is_warned_about_when_it_is_applied(settings, namespace, entry):
    request = Request(
        quota(namespace), group="gpu-admission.io", kind="GPUQuota", namespace=namespace, name="gpu", entry=entry
    )
    (finding,) = review(request, view(namespace), settings).findings
    assert (finding.rule.id, finding.severity) == ("GA507", Severity.WARN)
    assert str(finding.path) == "metadata.namespace"
    assert finding.message.startswith(f'namespace "{namespace}" is exempt from quotas (')


def test_quota_elsewhere_is_not_warned_about():
    request = Request(quota("team-a"), group="gpu-admission.io", kind="GPUQuota", namespace="team-a", name="gpu")
    assert review(request, view("team-a"), AGENTS).findings == ()


def test_audit_knows_that_exempt_namespaces_never_convert():
    conversions = Conversions(view("nvidia"), OPERATOR)
    assert [conversions.never_converts(name) for name in ("nvidia", "nvidia-dra-driver-gpu", "team-a")] == [
        True,
        True,
        False,
    ]


class Charging:
    """A keeper of quotas that must not be asked."""

    def is_unlimited(self, namespace):
        return False

    async def charge(self, step, settings, deadline):
        raise AssertionError(f"asked about namespace {step.charge.namespace}")


@pytest.mark.parametrize("entry", ["check-pods", "enforce-quota"])
async def test_server_charges_nothing_for_an_exempt_namespace_that_it_is_called_for(entry):
    admission = Admission(ManifestsView(), lambda: AGENTS, Metrics(), quotas=Charging())
    question = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "agents-eu",
        "operation": "CREATE",
        "object": pod(),
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": question})
    answer = await admission.answer(ENTRIES[entry], body.encode(), admission.deadline("5s"))
    assert json.loads(answer)["response"] == {"uid": "1", "allowed": True}
