"""The leader, ledgers of quotas, templates, settings, and the other objects."""

import pytest

from policies.analyses.installation import Unread, diagnose
from policies.analyses.installation.diagnosis import access_checks, settings_checks
from policies.analyses.installation.installation_facts import REINSTALL
from policies.analyses.installation.installed_objects import (
    definition_checks,
    object_checks,
    role_checks,
    wanted_objects,
)
from policies.analyses.installation.replicas import leader_checks, quota_checks, template_checks
from policies.conversion.templates import content_name
from policies.kubernetes.names import MANAGED, UNUSED_SINCE
from policies.rules.settings import Access, GPUAdmissionPolicy, parse_settings
from testbed import deploy
from tests.installation.healthy_facts import NAMES, ago, bad, configurations, facts, good, replica

AN_HOUR, MINUTES = ago(hours=1), ago(minutes=5)
IDLE = "nothing counts quotas, creates missing templates or writes the status of settings meanwhile"


@pytest.mark.parametrize(
    ("lease", "status", "why"),
    [
        (None, "failing", f"it does not exist; {IDLE}"),
        ({"spec": {"holderIdentity": ""}}, "failing", f"it has no holder; {IDLE}"),
        ({"spec": {"holderIdentity": "a"}}, "failing", f"it has no renewTime; {IDLE}"),
        (
            {"spec": {"holderIdentity": "a", "renewTime": ago(seconds=31)}},
            "failing",
            f"its holder a renewed it last at 2026-11-27 11:59:29 UTC; {IDLE}",
        ),
        (Unread("get leases"), "unknown", "you may not get leases"),
    ],
)
def test_missing_leader_is_named(lease, status, why):
    assert bad(leader_checks(facts(lease=lease)), "why") == [(status, why)]


def test_leader_is_named_with_the_age_of_its_lease():
    assert good(leader_checks(facts())) == ["gpu-admission-0_ab leads, and renewed its Lease 3 seconds ago"]


def quota(created, *conditions):
    metadata = {"name": "gpu", "namespace": "team-a", "creationTimestamp": created}
    return {"metadata": metadata, "status": {"conditions": [*conditions]}}


READY = {"type": "Ready", "status": "True"}


def condition(kind, status, message, since=AN_HOUR):
    return {"type": kind, "status": status, "message": message, "lastTransitionTime": since}


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ([quota(ago(hours=1))], ["GPUQuota team-a/gpu: no leader has counted it"]),
        ([quota(ago(seconds=5))], []),
        ([quota(ago(hours=1), READY)], []),
        (
            [quota(ago(hours=1), condition("Ready", "False", "The limit is negative."))],
            ["GPUQuota team-a/gpu: not counted: The limit is negative"],
        ),
        (
            [quota(ago(hours=1), READY, condition("Enforced", "Unknown", "Not all replicas have seen it."))],
            ["GPUQuota team-a/gpu: not enforced yet: Not all replicas have seen it"],
        ),
        ([quota(ago(hours=1), READY, condition("Enforced", "Unknown", "x", ago(seconds=9)))], []),
        (Unread("list gpuquotas.gpu-admission.io"), ["it is unknown whether GPUQuotas are counted"]),
    ],
)
def test_quotas_that_are_not_counted_are_named(quotas, expected):
    assert [what for _, what in bad(quota_checks(facts(quotas=quotas)))] == expected


def test_drift_is_named_with_its_replica():
    found = bad(quota_checks(facts(replicas={NAMES[0]: replica(drift=4)})), "what", "where")
    where = "gpu_admission_quota_drift_total of gpu-admission-0, since it started"
    assert found == [("warning", "4 pods or claims passed without a charge, and count now", where)]


SPEC = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}}
NAME = content_name(SPEC)


def template(since=None):
    annotations = {UNUSED_SINCE: since} if since else {}
    metadata = {"name": NAME, "namespace": "team-a", "labels": {MANAGED: "true"}, "annotations": annotations}
    return {"metadata": metadata, "spec": SPEC}


def waiting(created=MINUTES, **metadata):
    claims = [{"name": "gpu", "resourceClaimTemplateName": NAME}]
    return {
        "metadata": {"name": "train", "namespace": "team-a", "creationTimestamp": created, **metadata},
        "spec": {"resourceClaims": claims},
    }


@pytest.mark.parametrize(
    ("pods", "templates", "expected"),
    [
        ([waiting()], [], [("failing", "1 pod waits for a ResourceClaimTemplate that does not exist: team-a/train")]),
        ([waiting()], [template()], []),
        ([waiting(ago(seconds=20))], [], []),
        ([waiting(deletionTimestamp=ago(seconds=1))], [], []),
        ([], [template(ago(minutes=70))], []),
        ([], [template(ago(hours=5))], [("warning", "1 template that no pod needs is not deleted: team-a/" + NAME)]),
        (Unread("list pods"), [], [("unknown", "it is unknown whether pods wait for templates")]),
        ([], Unread("list x"), [("unknown", "it is unknown whether templates are missing or left over")]),
    ],
)
def test_templates_that_are_missing_or_left_over_are_named(pods, templates, expected):
    assert bad(template_checks(facts(waiting_pods=pods, templates=templates))) == expected


def test_templates_are_counted():
    assert good(template_checks(facts(templates=[template(ago(minutes=5))]))) == ["1 template, of which no pod needs 1"]


def policy(status, generation=3, observed=3, name="default"):
    accepted = {
        "type": "Accepted",
        "status": status,
        "observedGeneration": observed,
        "message": "rules[0]: unknown rule.",
    }
    return {"metadata": {"name": name, "generation": generation}, "status": {"conditions": [accepted]}}


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([policy("True")], []),
        (
            [policy("False")],
            [("failing", "the stored settings are invalid, and not in use", "rules[0]: unknown rule.")],
        ),
        (
            [policy("True", observed=2)],
            [
                (
                    "warning",
                    "it is not known yet whether the settings are valid",
                    "the leader has not looked at the newest version of them",
                )
            ],
        ),
        (
            [policy("True"), policy("True", name="other")],
            [("warning", "GPUAdmissionPolicy other has no effect", "only the one with the name default is read")],
        ),
        (
            Unread("list gpuadmissionpolicies.gpu-admission.io"),
            [
                (
                    "unknown",
                    "it is unknown which settings are stored, and whether they are in use",
                    "you may not list gpuadmissionpolicies.gpu-admission.io",
                )
            ],
        ),
    ],
)
def test_settings_that_are_not_in_use_are_named(policies, expected):
    assert bad(settings_checks(facts(policies=policies)), "what", "why") == expected


LEGACY = {"metadata": {"name": "cluster-policy"}, "spec": {"cdi": {"enabled": False}}}
CDI = {"metadata": {"name": "cluster-policy"}, "spec": {"cdi": {"enabled": True}}}


def in_mode(mode, cluster_policies, **access):
    settings = GPUAdmissionPolicy(access=Access(mode=mode, **access))
    return facts(settings=settings, cluster_policies=cluster_policies)


def test_legacy_runtime_is_proposed_where_the_toolkit_lets_images_choose():
    assert bad(access_checks(in_mode("deny", [LEGACY])), "what", "where", "remedy") == [
        (
            "warning",
            "images of NVIDIA and CUDA_VERSION give containers every GPU of the node, and are admitted",
            "ClusterPolicy cluster-policy, spec.toolkit.env and spec.cdi.enabled",
            "set access.legacyRuntime: true in GPUAdmissionPolicy default, or enable CDI; docs/access.md",
        )
    ]


@pytest.mark.parametrize(
    "read",
    [
        in_mode("warn", [LEGACY]),
        in_mode("deny", [LEGACY], legacy_runtime=True),
        in_mode("deny", [CDI]),
        in_mode("deny", []),
        in_mode("warn", Unread("list clusterpolicies.nvidia.com")),
    ],
    ids=["mode warn", "is set", "CDI", "no operator", "unread in mode warn"],
)
def test_legacy_runtime_is_not_proposed_elsewhere(read):
    assert bad(access_checks(read)) == []


def test_unread_cluster_policies_are_unknown_in_mode_deny():
    assert bad(access_checks(in_mode("deny", Unread("list clusterpolicies.nvidia.com"))), "why") == [
        ("unknown", "you may not list clusterpolicies.nvidia.com")
    ]


def test_settings_that_webhooks_do_not_cover_are_named():
    spec = {"workloads": {"kinds": [{"group": "example.com", "kind": "Trainer", "templates": ["spec.template"]}]}}
    metadata = {"name": "default"}
    settings = parse_settings(
        {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": metadata, "spec": spec}
    )
    ((status, what, where, remedy),) = bad(
        settings_checks(facts(policies=[policy("True")], settings=settings)), "what", "where", "remedy"
    )
    assert (status, where) == ("warning", "GPUAdmissionPolicy default, spec.workloads.kinds[0]")
    assert what == (
        "no rule of webhook workloads.gpu-admission.io matches trainers.example.com, so their authors get no warnings"
    )
    assert remedy.startswith(
        "set settings.spec of the Helm chart, or apply manifests that deploy/render.py --settings FILE renders"
    )


def test_note_of_a_replica_about_the_same_is_left_out():
    opened = configurations(lambda _, webhooks: [{**each, "failurePolicy": "Ignore"} for each in webhooks])
    note = (
        "failurePolicy of convert-pods.gpu-admission.io, enforce-converted-pods.gpu-admission.io, enforce-quota.gpu-admission.io is "
        "Ignore, so pods pass unconverted and uncharged while no replica answers; once that is no longer needed, apply the webhook "
        "configurations again, as in docs/break-glass.md"
    )
    found = diagnose(facts(configurations=opened, replicas={NAMES[0]: replica(note)})).checks
    assert {each.name for each in found if each.status == "warning"} == {"webhooks"}


MANIFESTS = wanted_objects(deploy.all_objects(), issues_certificates=True)


def installed(update=lambda stored: stored):
    """The objects of the manifests, of which `update` returns what is stored."""
    return [
        (each, update({**each, "status": {"conditions": [{"type": "Established", "status": "True"}]}}))
        for each in MANIFESTS
    ]


def without(kind, name):
    return installed(lambda stored: None if (stored["kind"], stored["metadata"]["name"]) == (kind, name) else stored)


def test_whole_manifests_are_ok():
    found = facts(installed=installed())
    checks = [*definition_checks(found), *role_checks(found), *object_checks(found, is_outside=False)]
    assert bad(checks) == []
    assert [each.name for each in checks] == ["crds", "rbac", "objects"]


@pytest.mark.parametrize(
    ("kind", "name", "status", "label"),
    [
        ("ClusterRole", "gpu-admission", "failing", "ClusterRole gpu-admission"),
        ("RoleBinding", "gpu-admission", "failing", "RoleBinding gpu-admission/gpu-admission"),
        ("Role", "gpu-admission-explain-service", "warning", "Role gpu-admission/gpu-admission-explain-service"),
        ("Service", "gpu-admission", "failing", "Service gpu-admission/gpu-admission"),
        ("Service", "gpu-admission-explain", "warning", "Service gpu-admission/gpu-admission-explain"),
        ("NetworkPolicy", "gpu-admission", "warning", "NetworkPolicy gpu-admission/gpu-admission"),
        ("FlowSchema", "gpu-admission-answers", "warning", "FlowSchema gpu-admission-answers"),
    ],
)
def test_missing_objects_are_named(kind, name, status, label):
    found = facts(installed=without(kind, name))
    checks = [*role_checks(found), *object_checks(found, is_outside=False)]
    ((found_status, what, remedy),) = bad(checks, "what", "remedy")
    assert (found_status, what) == (status, f"{label} does not exist")
    assert remedy.startswith(REINSTALL)


def test_objects_for_pods_are_not_missed_outside_of_the_cluster():
    assert bad(object_checks(facts(installed=without("Service", "gpu-admission")), is_outside=True)) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"rules": []}, "ClusterRole gpu-admission-certificates lacks rules: patch mutatingwebhookconfigurations"),
        ({"subjects": []}, "ClusterRoleBinding gpu-admission-certificates does not bind ServiceAccount gpu-admission"),
        (
            {"roleRef": {"kind": "ClusterRole", "name": "view"}},
            "ClusterRoleBinding gpu-admission-certificates binds ClusterRole view instead of ClusterRole gpu-admission-c",
        ),
    ],
)
def test_incomplete_roles_and_bindings_are_named(change, what):
    (field,) = change

    def update(stored):
        is_it = stored["metadata"]["name"] == "gpu-admission-certificates" and stored["kind"].startswith("Cluster")
        return {**stored, **change} if is_it and field in stored else stored

    ((status, found),) = bad(role_checks(facts(installed=installed(update))))
    assert status == "failing"
    assert found.startswith(what)


def test_roles_of_own_certificates_are_not_missed_with_cert_manager():
    names = {each["metadata"]["name"] for each in wanted_objects(deploy.all_objects(), issues_certificates=False)}
    assert "gpu-admission" in names
    assert "gpu-admission-certificates" not in names


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, ("failing", "gpuquotas.gpu-admission.io does not exist")),
        ({"spec": {"versions": []}}, ("failing", "gpuquotas.gpu-admission.io does not serve v1alpha1")),
        (
            {"spec": {"versions": [{"name": "v1alpha1", "served": True}]}},
            ("failing", "gpuquotas.gpu-admission.io is not served yet"),
        ),
        (Unread("get x"), ("unknown", "it is unknown which versions of gpuquotas.gpu-admission.io are served")),
    ],
)
def test_trouble_of_definitions_is_named(stored, expected):
    found = installed(lambda each: stored if each["metadata"]["name"] == "gpuquotas.gpu-admission.io" else each)
    assert bad(definition_checks(facts(installed=found))) == [expected]


def test_right_to_read_a_role_is_named():
    found = facts(
        installed=[(each, Unread("get clusterroles")) for each in MANIFESTS if each["kind"] == "ClusterRole"][:1]
    )
    assert bad(role_checks(found), "why") == [("unknown", "you may not get clusterroles")]
