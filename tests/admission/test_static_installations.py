"""Files of an API server, compared with the settings and with the API."""

import copy

import pytest

from policies.admission import compile_policies, doubled_webhooks, is_static_configuration, outdated_policies
from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy
from webhook.cluster.manifests import ManifestsView

DENY = GPUAdmissionPolicy(access=Access(mode="deny"))
NOTHING = ManifestsView([])
READS = ManifestsView(
    [
        {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": "p"},
            "spec": {"cdi": {"nriPluginEnabled": True}},
        }
    ]
)
ACCESS = "access.gpu-admission.static.k8s.io"


def files(settings, view=NOTHING):
    return [
        copy.deepcopy(each) for policy in compile_policies(settings, view) for each in policy.documents(static=True)
    ]


@pytest.mark.parametrize("view", [NOTHING, READS], ids=["nothing known", "the cluster"])
def test_files_for_the_settings_in_use_are_up_to_date(view):
    assert list(outdated_policies(files(DENY, view), DENY, (NOTHING, READS))) == []


def changed():
    found = files(DENY)
    (policy,) = (
        each for each in found if (each["kind"], each["metadata"]["name"]) == ("ValidatingAdmissionPolicy", ACCESS)
    )
    policy["spec"]["failurePolicy"] = "Ignore"
    return found


@pytest.mark.parametrize(
    ("found", "settings", "what"),
    [
        (files(DENY), DEFAULTS, f"{ACCESS} is not needed"),
        (files(DEFAULTS), DENY, f"{ACCESS} is missing"),
        (files(DENY), GPUAdmissionPolicy(access=Access(mode="deny", legacy_runtime=True)), f"{ACCESS} differs"),
        (files(DENY, READS), DENY, f"{ACCESS} differs"),
        (changed(), DENY, f"{ACCESS} differs"),
    ],
    ids=["other settings", "settings of before", "a setting", "another cluster", "by hand"],
)
def test_files_that_differ_are_named(found, settings, what):
    (sentence,) = outdated_policies(found, settings, (NOTHING,))
    assert sentence.endswith(f"they are not what this version makes of the settings in use ({what})")


def test_webhook_in_files_and_in_the_api_is_found():
    def configuration(kind, name, *webhooks):
        return {"kind": kind, "metadata": {"name": name}, "webhooks": [{"name": each} for each in webhooks]}

    static = [configuration("ValidatingWebhookConfiguration", "gpu-admission.static.k8s.io", "a", "b")]
    stored = [
        configuration("ValidatingWebhookConfiguration", "gpu-admission", "b", "c"),
        configuration("MutatingWebhookConfiguration", "gpu-admission", "a"),
    ]
    assert doubled_webhooks(static, stored) == ["b"]
    assert [is_static_configuration(each) for each in (*static, *stored)] == [True, False, False]
