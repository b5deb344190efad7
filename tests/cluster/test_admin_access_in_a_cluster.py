"""Users who may allow admin access in a namespace: a ValidatingAdmissionPolicy, which the sandbox does not enforce."""

import pytest

from testbed import manifests
from testbed.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from testbed.waiting import until
from tests.cluster.quotas import ANY_GPU, limited, summary
from webhook.cluster.resources import RESOURCES

POLICY = "admin-access.gpu-admission.io"
LABEL = "resource.kubernetes.io/admin-access"
ALLOW = {"metadata": {"labels": {LABEL: "true"}}}
OPERATOR = "system:serviceaccount:gpu-operator:gpu-operator"
EDIT = {
    "apiGroups": [""],
    "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
    "verbs": ["get", "create", "patch", "update"],
}
RBAC = "rbac.authorization.k8s.io"


def refusal(name):
    return (
        f"namespaces \"{name}\" is forbidden: ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request: "
        f'metadata.labels[resource.kubernetes.io/admin-access]: setting or changing this label on namespace "{name}" requires '
        'the verb "set" on namespaceadminaccess.gpu-admission.io, because it lets everyone who creates claims in the namespace '
        "use devices that other pods hold; ask an administrator to set the label, or to bind the ClusterRole "
        "gpu-admission-admin-access to you"
    )


def binding(name, role, subject, kind="ClusterRoleBinding"):
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": subject}],
    }


@pytest.fixture(scope="module")
def users(request):
    """Users who may edit namespaces, by their names; only `officer` may allow admin access."""
    cluster = request.getfixturevalue("_real")
    role = "gpu-admission-test-namespaces"
    cluster.belongings.add(
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": [EDIT]}
    )
    names = {"editor": "gpu-admission-test-editor", "officer": "gpu-admission-test-officer", "operator": OPERATOR}
    granted = binding("gpu-admission-test-admin-access", "gpu-admission-admin-access", names["officer"])
    cluster.belongings.add(granted)
    for short, user in names.items():
        cluster.belongings.add(binding(f"gpu-admission-test-{short}-namespaces", role, user))
    groups = {"operator": ("system:serviceaccounts", "system:serviceaccounts:gpu-operator")}
    users = {short: cluster.by(user, *groups.get(short, ())) for short, user in names.items()}
    # Bindings arrive in the order of their creation.
    until(lambda: all(user.get("Namespace", "default").accepted for user in users.values()), "RBAC knows the bindings")
    return users


@pytest.fixture
def labelled(real):
    """A namespace with admin access."""
    name = real.namespace()
    assert real.patch("Namespace", name, body=ALLOW).accepted
    return name


WAYS = {
    "merge patch": ("", MERGE_PATCH, ALLOW),
    "strategic merge patch": ("", STRATEGIC_PATCH, ALLOW),
    "JSON patch": (
        "",
        JSON_PATCH,
        [{"op": "add", "path": "/metadata/labels/resource.kubernetes.io~1admin-access", "value": "true"}],
    ),
    "status": ("status", MERGE_PATCH, ALLOW),
    "another value": ("", MERGE_PATCH, {"metadata": {"labels": {LABEL: "false"}}}),
}


@pytest.mark.parametrize(("subresource", "content_type", "body"), WAYS.values(), ids=WAYS)
def test_editor_of_a_namespace_cannot_allow_admin_access(real, users, subresource, content_type, body):
    team = real.namespace()
    answer = users["editor"].patch("Namespace", team, body=body, content_type=content_type, subresource=subresource)
    assert (answer.code, answer.message) == (403, refusal(team))


def applied(api, name, labels):
    path = RESOURCES["Namespace"].path("", name)
    query = {"fieldManager": "gpu-admission-tests", "force": "true"}
    return api.request("PATCH", path, query, manifests.namespace(name, labels), APPLY_PATCH)


def test_server_side_apply_is_refused_as_well(real, users):
    team = real.namespace()
    answer = applied(users["editor"], team, {LABEL: "true"})
    assert (answer.code, answer.message) == (403, refusal(team))


def test_finalize_is_refused_as_well(real, users):
    document = real.get("Namespace", real.namespace()).object
    document["metadata"]["labels"][LABEL] = "true"
    assert users["editor"].replace(document, "finalize").message == refusal(document["metadata"]["name"])


@pytest.mark.parametrize("subresource", ["", "status"])
def test_replacing_a_namespace_is_refused_as_well(real, users, subresource):
    document = real.get("Namespace", real.namespace()).object
    document["metadata"]["labels"][LABEL] = "true"
    assert users["editor"].replace(document, subresource).message == refusal(document["metadata"]["name"])


@pytest.mark.usefixtures("real")
def test_namespace_cannot_be_created_with_admin_access(users):
    name = "gpu-admission-test-new"
    answer = users["editor"].create(manifests.namespace(name, {LABEL: "true"}), dry_run=True)
    assert (answer.code, answer.message) == (403, refusal(name))


@pytest.mark.usefixtures("real")
def test_namespace_with_a_generated_name_cannot_be_created_with_admin_access(users):
    document = manifests.namespace("", {LABEL: "true"})
    document["metadata"] = {"generateName": "gpu-admission-test-", "labels": {LABEL: "true"}}
    answer = users["editor"].create(document, dry_run=True)
    assert answer.code == 403
    assert f"ValidatingAdmissionPolicy '{POLICY}' with binding" in answer.message


def test_right_in_the_namespace_alone_is_not_enough(real, users):
    """A RoleBinding, which an owner of the namespace could write: the right is asked for cluster-wide."""
    team = real.namespace()
    granted = binding("self-made", "gpu-admission-admin-access", "gpu-admission-test-editor", "RoleBinding")
    granted["metadata"]["namespace"] = team
    assert real.create(granted).accepted
    assert users["editor"].patch("Namespace", team, body=ALLOW).message == refusal(team)


def test_admin_access_can_be_taken_away_without_the_right(users, labelled):
    taken = users["editor"].patch("Namespace", labelled, body={"metadata": {"labels": {LABEL: None}}})
    assert LABEL not in taken.object["metadata"]["labels"]


def test_namespace_is_applied_again_without_the_right(users, labelled):
    """As GitOps controllers do, with other labels that change."""
    again = applied(users["editor"], labelled, {LABEL: "true", "team": "a"})
    assert again.object["metadata"]["labels"]["team"] == "a"


def test_label_that_is_there_does_not_block_other_changes(users, labelled):
    assert users["editor"].patch("Namespace", labelled, body={"metadata": {"labels": {"team": "a"}}}).accepted


def test_user_with_the_right_allows_admin_access(real, users):
    assert users["officer"].patch("Namespace", real.namespace(), body=ALLOW).accepted


def test_operator_labels_its_own_namespace(real, users):
    answer = users["operator"].patch("Namespace", "gpu-operator", body=ALLOW)
    assert answer.object["metadata"]["labels"][LABEL] == "true"
    assert real.patch("Namespace", "gpu-operator", body={"metadata": {"labels": {LABEL: None}}}).accepted


def test_operator_cannot_label_another_namespace(real, users):
    team = real.namespace()
    assert users["operator"].patch("Namespace", team, body=ALLOW).message == refusal(team)


def admin_claim(team, name="monitor"):
    document = manifests.claim(team, name, ANY_GPU)
    document["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    return document


def admin_template(team):
    document = manifests.template(team, "monitor")
    document["spec"]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    return document


def test_request_for_admin_access_is_reported_to_its_author(real, labelled):
    for document in (admin_claim(labelled), admin_template(labelled)):
        answer = real.create(document)
        assert answer.accepted
        assert any("[GA231]" in warning for warning in answer.warnings)


def test_kubernetes_refuses_admin_access_without_the_label(real):
    """The label guards claims and templates; the policy guards the label."""
    team = real.namespace()
    for document in (admin_claim(team), admin_template(team)):
        answer = real.create(document)
        assert answer.code == 422
        assert (
            "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label" in answer.message
        )


def test_owner_of_a_namespace_cannot_grant_the_right(real):
    """Kubernetes' role `admin` lets it write RoleBindings, and only for rights that it has."""
    team = real.namespace()
    owner = binding("owner", "admin", "gpu-admission-test-owner", "RoleBinding")
    owner["metadata"]["namespace"] = team
    assert real.create(owner).accepted
    own = binding("self-made", "gpu-admission-admin-access", "gpu-admission-test-owner", "RoleBinding")
    own["metadata"]["namespace"] = team
    refusal = "attempting to grant RBAC permissions not currently held"
    # A new API server takes a moment to know what the role allows.
    until(lambda: refusal in real.by("gpu-admission-test-owner").create(own).message, "the owner may not grant it")


def test_quota_charges_admin_access(real):
    """So a namespace that allows it gets no GPU without being charged."""
    team = real.namespace(quota="enforced")
    assert real.patch("Namespace", team, body=ALLOW).accepted
    limited(real, team, 1)
    assert real.create(admin_claim(team)).accepted
    assert summary(real, team) == "gpus 1 of 1"
    assert real.create(admin_claim(team, "another")).code == 403


def test_claim_that_waits_gets_no_devices_after_the_label_is_removed(real, labelled):
    if not real.schedules:
        pytest.skip("no kube-scheduler runs here")
    assert real.create(admin_claim(labelled)).accepted
    assert real.patch("Namespace", labelled, body={"metadata": {"labels": {LABEL: None}}}).accepted
    pod = manifests.pod(labelled, resourceClaims=[{"name": "gpu", "resourceClaimName": "monitor"}])
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    assert real.create(pod).accepted

    def refused():
        conditions = real.get("Pod", "train", labelled).object["status"].get("conditions", [])
        return any("admin access to devices requires the" in each.get("message", "") for each in conditions)

    until(refused, "the scheduler may not allocate the claim")
