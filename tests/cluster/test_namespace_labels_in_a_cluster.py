"""Who may opt a namespace in: a ValidatingAdmissionPolicy, which the sandbox stores and does not enforce."""

import pytest

from tests.cluster.harness import manifests

DENIED = "ValidatingAdmissionPolicy 'namespace-labels.gpu-admission.io' with binding 'namespace-labels.gpu-admission.io' denied request: "
LABEL = "gpu-admission.io/dra"


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
    """Two who may edit namespaces; one of them may opt them in."""
    cluster = request.getfixturevalue("_real")
    edit = {"apiGroups": [""], "resources": ["namespaces", "namespaces/status"], "verbs": ["create", "patch"]}
    opt_in = {"apiGroups": ["gpu-admission.io"], "resources": ["namespaceoptins"], "verbs": ["set"]}
    for user, rules in (("gpu-admission-test-editor", [edit]), ("gpu-admission-test-lead", [edit, opt_in])):
        for document in role_for(user, user, rules):
            cluster.belongings.add(document)
    return cluster.by("gpu-admission-test-editor"), cluster.by("gpu-admission-test-lead")


def opting_in(api, team, value="enabled", subresource=""):
    return api.patch("Namespace", team, body={"metadata": {"labels": {LABEL: value}}}, subresource=subresource)


@pytest.mark.parametrize("subresource", ["", "status"])
def test_editor_without_the_right_is_refused(real, users, subresource):
    editor, _ = users
    team = real.namespace()
    answer = opting_in(editor, team, subresource=subresource)
    assert answer.code == 403
    assert answer.message == (
        f'namespaces "{team}" is forbidden: {DENIED}the labels gpu-admission.io/dra, dra-strategy and quota of namespace '
        f"{team} are set by who may set namespaceoptins.gpu-admission.io; ask an administrator to set them, or to bind "
        "the ClusterRole gpu-admission-namespace-opt-in to you"
    )


def test_who_has_the_right_may_opt_in(real, users):
    _, lead = users
    assert opting_in(lead, real.namespace()).object["metadata"]["labels"][LABEL] == "enabled"


def test_other_labels_are_nobodys_business(real, users):
    editor, _ = users
    assert editor.patch("Namespace", real.namespace(), body={"metadata": {"labels": {"team": "a"}}}).accepted


def test_value_that_there_is_none_of_is_refused(real):
    answer = opting_in(real.api, real.namespace(), "on")
    assert answer.code == 422
    assert answer.message.endswith("the label gpu-admission.io/dra is enabled, preview or disabled")


def test_namespace_cannot_be_created_opted_in_without_the_right(real, users):
    editor, _ = users
    assert editor.create(manifests.namespace("gpu-admission-test-new", {LABEL: "enabled"}), dry_run=True).code == 403
