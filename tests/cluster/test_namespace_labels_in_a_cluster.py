"""Users who may opt a namespace in: a ValidatingAdmissionPolicy, which the sandbox does not enforce."""

import pytest

from testbed import manifests
from testbed.waiting import until

DENIED = "ValidatingAdmissionPolicy 'namespace-labels.gpu-admission.io' with binding 'namespace-labels.gpu-admission.io' denied request: "
LABEL = "gpu-admission.io/dra"
QUOTA = "gpu-admission.io/quota"


def role_for(user, name, rules):
    """A ClusterRole, and its binding to a user."""
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "apiGroup": group, "name": user}],
        },
    ]


@pytest.fixture(scope="module")
def users(request):
    """Two who may edit namespaces; one of them may opt them in. Neither hands out GPUs."""
    cluster = request.getfixturevalue("_real")
    edit = {"apiGroups": [""], "resources": ["namespaces", "namespaces/status"], "verbs": ["create", "patch"]}
    opt_in = {"apiGroups": ["gpu-admission.io"], "resources": ["namespaceoptins"], "verbs": ["set"]}
    for user, rules in (("gpu-admission-test-editor", [edit]), ("gpu-admission-test-lead", [edit, opt_in])):
        for document in role_for(user, user, rules):
            cluster.belongings.add(document)
    return cluster.by("gpu-admission-test-editor"), cluster.by("gpu-admission-test-lead")


@pytest.fixture(scope="module")
def officer(request):
    """Somebody who hands out GPUs, and may edit namespaces."""
    cluster = request.getfixturevalue("_real")
    edit = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["patch"]}
    for document in role_for("gpu-admission-test-officer", "gpu-admission-test-officer", [edit]):
        cluster.belongings.add(document)
    _, binding = role_for("gpu-admission-test-officer", "gpu-admission-test-quotas", [])
    binding["roleRef"]["name"] = "gpu-admission-quota-edit"
    cluster.belongings.add(binding)
    return cluster.by("gpu-admission-test-officer")


def opting_in(api, team, value="enabled", subresource=""):
    return api.patch("Namespace", team, body={"metadata": {"labels": {LABEL: value}}}, subresource=subresource)


@pytest.mark.parametrize("subresource", ["", "status"])
def test_editor_without_the_right_is_refused(real, users, subresource):
    editor, _ = users
    team = real.namespace()
    answer = opting_in(editor, team, subresource=subresource)
    assert answer.code == 403
    assert answer.message == (
        f'namespaces "{team}" is forbidden: {DENIED}the labels gpu-admission.io/dra and dra-strategy of namespace '
        f"{team} are set by who may set namespaceoptins.gpu-admission.io; ask an administrator to set them, or to bind "
        "the ClusterRole gpu-admission-namespace-opt-in to you"
    )


def test_who_has_the_right_may_opt_in(real, users):
    _, lead = users
    assert opting_in(lead, real.namespace()).object["metadata"]["labels"][LABEL] == "enabled"


def test_who_may_opt_in_cannot_free_a_namespace_from_its_quota(real, users):
    _, lead = users
    team = real.namespace(quota="enforced")
    answer = lead.patch("Namespace", team, body={"metadata": {"labels": {QUOTA: None, LABEL: "enabled"}}})
    assert answer.code == 403
    assert answer.message == (
        f'namespaces "{team}" is forbidden: {DENIED}the label gpu-admission.io/quota of namespace {team} is set by who may '
        "set namespacequotas.gpu-admission.io; ask an administrator to set it, or to bind the ClusterRole "
        "gpu-admission-quota-edit to you"
    )


def test_who_hands_out_gpus_may_have_a_quota_enforced(real, officer):
    enforced = {"metadata": {"labels": {QUOTA: "enforced"}}}
    assert officer.patch("Namespace", real.namespace(), body=enforced).accepted


def test_other_labels_are_allowed(real, users):
    editor, _ = users
    assert editor.patch("Namespace", real.namespace(), body={"metadata": {"labels": {"team": "a"}}}).accepted


def test_unknown_value_is_refused(real):
    answer = opting_in(real.api, real.namespace(), "on")
    assert answer.code == 422
    assert answer.message.endswith("the label gpu-admission.io/dra must be enabled, preview or disabled")


def test_namespace_cannot_be_created_opted_in_without_the_right(real, users):
    editor, _ = users
    assert editor.create(manifests.namespace("gpu-admission-test-new", {LABEL: "enabled"}), dry_run=True).code == 403


@pytest.mark.parametrize("name", ["kube-system", "gpu-admission", "gpu-operator"])
def test_exempt_namespace_is_not_opted_in(real, name):
    answer = opting_in(real.api, name)
    assert answer.code == 422
    assert answer.message == (
        f'namespaces "{name}" is forbidden: {DENIED}metadata.labels[gpu-admission.io/dra]: namespace "{name}" is exempt: its '
        "pods are never converted; remove the label"
    )


@pytest.mark.parametrize("name", ["nvidia-dra-driver-gpu", "dra-driver-nvidia-gpu", "nvidia-gpu-operator"])
def test_exempt_namespace_is_not_created_with_an_enforced_quota(real, name):
    answer = real.create(manifests.namespace(name, {QUOTA: "enforced"}), dry_run=True)
    assert answer.message.endswith(
        f'{DENIED}metadata.labels[gpu-admission.io/quota]: namespace "{name}" is exempt: a GPUQuota is never enforced '
        "there; remove the label"
    )


TEAM = "example.com/guarded-team"
GUARD = "team-quota-labels.gpu-admission.io"


@pytest.fixture
def guarded_key(real):
    """A ClusterGPUQuota that groups namespaces by the label `TEAM`, once the API server knows it."""
    spec = {"namespaceSelector": {}, "groupBy": TEAM, "limits": [{"name": "gpus", "gpus": 8}]}
    metadata = {"name": "gpu-admission-test-guarded"}
    document = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "ClusterGPUQuota",
        "metadata": metadata,
        "spec": spec,
    }
    real.create(document).object  # noqa: B018 - it is not refused
    yield TEAM
    real.delete("ClusterGPUQuota", metadata["name"])


def test_label_that_groups_namespaces_is_set_by_who_has_the_right(real, users, officer, guarded_key):
    editor, _ = users
    team = real.namespace()
    change = {"metadata": {"labels": {guarded_key: "blue"}}}
    until(lambda: editor.patch("Namespace", team, body=change).code == 403, "the policy knows the ClusterGPUQuota")
    assert editor.patch("Namespace", team, body=change).message == (
        f"namespaces \"{team}\" is forbidden: ValidatingAdmissionPolicy '{GUARD}' with binding '{GUARD}' denied request: the "
        f"label {guarded_key} of namespace {team} says which limits of ClusterGPUQuota gpu-admission-test-guarded count it, and "
        "is set by who may set gpuquotagroups.gpu-admission.io; ask an administrator to set it, or to bind the ClusterRole "
        "gpu-admission-quota-edit to you"
    )
    assert editor.patch("Namespace", team, body={"metadata": {"labels": {"example.com/other": "a"}}}).accepted
    created = manifests.namespace("gpu-admission-test-guarded", {guarded_key: "blue"})
    assert editor.create(created).code == 403
    assert officer.patch("Namespace", team, body=change).accepted
    gone = {"metadata": {"labels": {guarded_key: None}}}
    assert editor.patch("Namespace", team, body=gone).code == 403
    assert officer.patch("Namespace", team, body=gone).accepted
