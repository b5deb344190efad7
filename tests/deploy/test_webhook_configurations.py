"""The webhook configurations have one webhook for each entry, without fields left to defaults."""

import re

import pytest

from policies.admission.webhooks import CLAIM_KINDS, ENTRIES
from policies.configuration.config_maps.roles import LABEL
from policies.configuration.node_labels import _WATCHED
from policies.kubernetes.names import DRA_LABEL, MANAGED, QUOTA_LABEL
from policies.kubernetes.webhook_rules import selects
from policies.quota.limits.quota import ENFORCED
from policies.rules.settings import DEFAULTS
from policies.rules.settings.exemptions import excluded_names, exempt_names
from webhook.cluster.resources import RESOURCES, WORKLOAD_RESOURCES
from webhook.server.turns import Deadline

DEFAULTED = {
    *("admissionReviewVersions", "clientConfig", "failurePolicy", "matchPolicy", "name", "namespaceSelector"),
    *("objectSelector", "rules", "sideEffects", "timeoutSeconds"),
}


def kinds_of(webhook):
    """Group and plural of what a webhook is asked about, subresources left out."""
    return {
        (group, resource)
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if "/" not in resource
    }


def plural_of(group, kind):
    assert RESOURCES[kind].group == group
    return group, RESOURCES[kind].plural


def excluded(webhook):
    return {
        name
        for each in webhook["namespaceSelector"].get("matchExpressions", [])
        if (each["key"], each["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        for name in each["values"]
    }


def test_every_entry_has_its_webhook(webhooks):
    expected = {("mutating" if entry.mutating else "validating", entry.name) for entry in ENTRIES.values()}
    assert webhooks.keys() == expected | {("mutating", "configuration")}


def test_webhooks_are_listed_in_the_order_of_the_entries(webhooks):
    listed = [entry for _, entry in webhooks]
    assert [entry for entry in listed if ENTRIES[entry].mutating] == [
        entry.name for entry in ENTRIES.values() if entry.mutating
    ]


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_webhook_fails_and_acts_as_its_entry(webhooks, entry):
    for (_, name), webhook in webhooks.items():
        if name == entry.name:
            assert webhook["name"] == entry.webhook
            assert (webhook["failurePolicy"], webhook["sideEffects"]) == (entry.failure_policy, entry.side_effects)


def test_nothing_is_left_for_defaults(webhooks):
    for (kind, entry), webhook in webhooks.items():
        fields = DEFAULTED | ({"reinvocationPolicy"} if kind == "mutating" else set())
        assert webhook.keys() - {"matchConditions"} == fields, entry
        assert webhook["clientConfig"]["service"].keys() == {"name", "namespace", "path", "port"}
        for rule in webhook["rules"]:
            assert rule.keys() == {"apiGroups", "apiVersions", "operations", "resources", "scope"}


def test_no_authority_is_written(webhooks):
    assert not any("caBundle" in webhook["clientConfig"] for webhook in webhooks.values())


def test_only_entries_that_fail_closed_may_take_ten_seconds(webhooks):
    for webhook in webhooks.values():
        assert webhook["timeoutSeconds"] == (10 if webhook["failurePolicy"] == "Fail" else 5)


def test_webhook_gets_less_time_for_an_answer_than_the_api_server_waits(webhooks):
    for webhook in webhooks.values():
        assert Deadline.start(lambda: 0.0, f"{webhook['timeoutSeconds']}s").seconds < webhook["timeoutSeconds"]


def test_entries_that_change_pods_for_gpus_are_reinvoked(webhooks):
    again = {entry for (_, entry), webhook in webhooks.items() if webhook.get("reinvocationPolicy") == "IfNeeded"}
    assert again == {"convert-pods", "place-pods", "place-unconverted-pods"}


def test_webhooks_leave_out_the_namespaces_that_are_exempt_by_default(webhooks):
    for (_, entry), webhook in webhooks.items():
        if entry != "nodes":  # nodes are in no namespace
            assert excluded(webhook) == excluded_names(ENTRIES[entry].exempt_from, DEFAULTS), entry


def test_other_entries_leave_out_only_what_a_cluster_needs_to_heal_itself():
    assert exempt_names(None, DEFAULTS) == {"kube-system", "gpu-admission"}
    others = {entry.name for entry in ENTRIES.values() if not entry.exempt_from}
    pods = {"place-pods", "place-unconverted-pods", "reapply"}
    assert others == {*pods, "workloads", "claims", "configuration", "nodes"}


LABELS = [{DRA_LABEL: dra, QUOTA_LABEL: quota} for dra in ("", "enabled", "preview") for quota in ("", "enforced", "x")]


def called_in(webhooks, entries, labels):
    return {
        entry
        for (_, entry), webhook in webhooks.items()
        if entry in entries and selects(webhook["namespaceSelector"], {"kubernetes.io/metadata.name": "a", **labels})
    }


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize(
    ("mutating", "validating"),
    [("convert-pods", "enforce-converted-pods"), ("place-unconverted-pods", "check-unconverted-pods")],
    ids=["NVIDIA's devices", "other devices"],
)
def test_pod_with_devices_is_called_about_once_by_each_configuration(webhooks, labels, mutating, validating):
    """`mutating` and `validating` are called where the namespace converts."""
    labels = {key: value for key, value in labels.items() if value}
    converts, enforces = labels.get(DRA_LABEL) == "enabled", labels.get(QUOTA_LABEL) == ENFORCED
    assert called_in(webhooks, {mutating, "place-pods"}, labels) == {mutating if converts else "place-pods"}
    expected = "enforce-quota" if enforces else validating if converts else "check-pods"
    assert called_in(webhooks, {validating, "enforce-quota", "check-pods"}, labels) == {expected}


def test_versions_of_claims_are_the_same_for_all(webhooks):
    versions = {
        tuple(rule["apiVersions"])
        for webhook in webhooks.values()
        for rule in webhook["rules"]
        if "resourceclaims" in rule["resources"]
    }
    assert versions == {("v1", "v1beta2", "v1beta1")}


def test_fail_closed_is_for_what_gets_gpus_being_created_only(webhooks):
    for (_, entry), webhook in webhooks.items():
        if webhook["failurePolicy"] == "Fail":
            asked = [(rule["operations"], rule["resources"]) for rule in webhook["rules"]]
            assert asked == [(["CREATE"], ["pods"])] + [(["CREATE"], ["resourceclaims"])] * (entry == "enforce-quota")


def test_no_rule_takes_everything(webhooks):
    for webhook in webhooks.values():
        for rule in webhook["rules"]:
            assert "*" not in "".join((*rule["apiGroups"], *rule["resources"], *rule["operations"]))


def test_workloads_are_those_that_policies_know(webhooks):
    assert kinds_of(webhooks["validating", "workloads"]) == {
        (each.group, each.plural) for each in WORKLOAD_RESOURCES.values()
    }


def test_claims_are_those_that_policies_know(webhooks):
    webhook = webhooks["validating", "claims"]
    assert {
        ("resource.k8s.io", "ResourceClaim"),
        ("resource.k8s.io", "ResourceClaimTemplate"),
        ("resource.k8s.io", "DeviceClass"),
        ("resource.k8s.io", "DeviceTaintRule"),
        ("resource.nvidia.com", "ComputeDomain"),
    } == CLAIM_KINDS
    assert kinds_of(webhook) == {plural_of(*kind) for kind in CLAIM_KINDS}
    assert {
        resource for rule in webhook["rules"] if "UPDATE" in rule["operations"] for resource in rule["resources"]
    } == {"devicetaintrules"}


def test_scope_is_that_of_the_kind(webhooks):
    namespaced = {each.plural: each.namespaced for each in RESOURCES.values()}
    for webhook in webhooks.values():
        for rule in webhook["rules"]:
            kinds = {resource.partition("/")[0] for resource in rule["resources"]}
            assert {namespaced[kind] for kind in kinds} == {rule["scope"] == "Namespaced"}


def test_labels_of_nodes_are_those_that_are_checked(webhooks):
    (condition,) = webhooks["validating", "nodes"]["matchConditions"]
    assert re.findall(r'"(nvidia\.com/[^"]+)"', condition["expression"]) == list(_WATCHED)


def test_config_maps_are_those_of_the_operator_or_with_our_label(webhooks):
    ours, *_ = webhooks["validating", "configuration"]["matchConditions"]
    named = re.findall(r'"([^"]+)"', ours["expression"])
    assert named == ["ConfigMap", *DEFAULTS.configuration.operator_namespaces, LABEL]


def test_reapply_matches_pods_that_conversion_marked(webhooks):
    webhook = webhooks["mutating", "reapply"]
    assert webhook["objectSelector"] == {"matchLabels": {MANAGED: "true"}}
    assert [(rule["operations"], rule["resources"]) for rule in webhook["rules"]] == [(["UPDATE"], ["pods"])]


@pytest.mark.parametrize("ours", ["ClusterGPUQuota", "GPUAdmissionPolicy", "GPUQuota"])
@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_what_is_ours_is_judged_when_it_is_written_and_can_always_be_deleted(webhooks, kind, ours):
    known = RESOURCES[ours]
    rules = webhooks[kind, "configuration"]["rules"]
    (rule,) = (each for each in rules if known.plural in each["resources"])
    assert rule["apiGroups"] == [known.group]
    assert not any("/" in each for each in rule["resources"])  # not its status
    assert rule["apiVersions"] == [known.version]
    assert rule["operations"] == ["CREATE", "UPDATE"]


def test_null_in_a_label_selector_is_empty_text():
    selector = {"matchLabels": {"team": None}}
    assert selects(selector, {"team": ""})
    assert not selects(selector, {})
