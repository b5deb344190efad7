"""The webhook configurations have one webhook for each entry, without fields left to defaults."""

import re

import pytest

from policies.configuration.config_maps.roles import LABEL
from policies.configuration.nodes.labels import _WATCHED
from policies.entries import ENTRIES
from policies.metadata_keys import MANAGED, QUOTA_LABEL
from policies.quota.opt_in import ENFORCED
from policies.settings import DEFAULTS
from policies.settings.exempt_namespaces import exempt_names
from policies.webhooks import CLAIM_KINDS
from webhook.cluster.resources import RESOURCES, WORKLOAD_RESOURCES
from webhook.server.deadlines import Deadline

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


def opted_in(webhook):
    return [
        each["values"]
        for each in webhook["namespaceSelector"].get("matchExpressions", [])
        if (each["key"], each["operator"]) == ("gpu-admission.io/dra", "In")
    ]


def test_every_entry_has_its_webhook(webhooks):
    expected = {("mutating" if entry.mutating else "validating", name) for name, entry in ENTRIES.items()}
    assert webhooks.keys() == expected | {("mutating", "configuration")}


def test_webhooks_are_listed_in_the_order_of_the_entries(webhooks):
    listed = [entry for _, entry in webhooks]
    assert [entry for entry in listed if ENTRIES[entry].mutating] == [
        name for name, entry in ENTRIES.items() if entry.mutating
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


def test_only_entries_that_write_before_they_answer_may_take_ten_seconds(webhooks):
    slow = {entry: webhook["timeoutSeconds"] for (_, entry), webhook in webhooks.items()}
    assert (slow.pop("conversion"), slow.pop("quota-enforced")) == (10, 10)
    assert set(slow.values()) == {5}


def test_webhook_gets_less_time_for_an_answer_than_the_api_server_waits(webhooks):
    for webhook in webhooks.values():
        assert Deadline.start(lambda: 0.0, f"{webhook['timeoutSeconds']}s").seconds < webhook["timeoutSeconds"]


def test_entries_that_change_pods_for_gpus_are_reinvoked(webhooks):
    again = {entry for (_, entry), webhook in webhooks.items() if webhook.get("reinvocationPolicy") == "IfNeeded"}
    assert again == {"conversion", "placement"}


def test_webhooks_leave_out_the_namespaces_that_are_exempt_by_default(webhooks):
    for (_, entry), webhook in webhooks.items():
        if entry != "nodes":  # nodes are in no namespace
            assert excluded(webhook) == exempt_names(ENTRIES[entry].concern, DEFAULTS), entry


def test_entries_without_a_concern_leave_out_only_what_a_cluster_needs_to_heal_itself():
    assert exempt_names(None, DEFAULTS) == {"kube-system", "gpu-admission"}
    closed = {name for name, entry in ENTRIES.items() if entry.concern is not None}
    assert closed == {"conversion", "preview", "conversion-check", "access", "quota-enforced", "quota"}


def test_namespaces_opt_in(webhooks):
    chosen = {entry: opted_in(webhook) for (_, entry), webhook in webhooks.items() if opted_in(webhook)}
    assert chosen == {"conversion": [["enabled"]], "conversion-check": [["enabled"]], "preview": [["preview"]]}


def test_namespaces_enforce_their_quota(webhooks):
    """Each is asked about by one of the two, whatever the label says."""
    terms = {
        entry: [
            (each["operator"], each["values"])
            for each in webhooks["validating", entry]["namespaceSelector"]["matchExpressions"]
            if each["key"] == QUOTA_LABEL
        ]
        for entry in ("quota-enforced", "quota")
    }
    assert terms == {"quota-enforced": [("In", [ENFORCED])], "quota": [("NotIn", [ENFORCED])]}


def test_entries_for_quotas_match_the_same_objects(webhooks):
    enforced, other = (webhooks["validating", entry] for entry in ("quota-enforced", "quota"))
    assert kinds_of(enforced) == {("", "pods"), ("resource.k8s.io", "resourceclaims")}
    for field in ("rules", "matchConditions", "matchPolicy", "objectSelector"):
        assert enforced[field] == other[field]


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
            assert asked == [(["CREATE"], ["pods"])] + [(["CREATE"], ["resourceclaims"])] * (entry == "quota-enforced")


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
        ("resource.nvidia.com", "ComputeDomain"),
    } == CLAIM_KINDS
    assert kinds_of(webhook) == {plural_of(*kind) for kind in CLAIM_KINDS}
    assert {operation for rule in webhook["rules"] for operation in rule["operations"]} == {"CREATE"}


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
    ours, _ = webhooks["validating", "configuration"]["matchConditions"]
    named = re.findall(r'"([^"]+)"', ours["expression"])
    assert named == ["ConfigMap", *DEFAULTS.configuration.operator_namespaces, LABEL]


def test_reapply_matches_pods_that_conversion_marked(webhooks):
    webhook = webhooks["mutating", "reapply"]
    assert webhook["objectSelector"] == {"matchLabels": {MANAGED: "true"}}
    assert [(rule["operations"], rule["resources"]) for rule in webhook["rules"]] == [(["UPDATE"], ["pods"])]


@pytest.mark.parametrize("ours", ["GPUAdmissionPolicy", "GPUQuota"])
@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_what_is_ours_is_judged_when_it_is_written_and_can_always_be_deleted(webhooks, kind, ours):
    known = RESOURCES[ours]
    rules = webhooks[kind, "configuration"]["rules"]
    (rule,) = (each for each in rules if known.plural in each["resources"])
    assert rule["apiGroups"] == [known.group]
    assert rule["resources"] == [known.plural]  # not its status
    assert rule["apiVersions"] == [known.version]
    assert rule["operations"] == ["CREATE", "UPDATE"]
