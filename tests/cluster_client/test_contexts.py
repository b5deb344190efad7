"""Names and namespaces of the contexts of kubeconfigs."""

import pytest

from webhook.cluster.credentials import context_names, context_namespace, kubeconfig_files

TEAM_A = """\
current-context: a
contexts:
- {name: a, context: {cluster: one, user: me, namespace: team-a}}
- {name: plain, context: {cluster: one, user: me}}
"""
TEAM_B = """\
current-context: b
contexts:
- {name: a, context: {cluster: two, user: me, namespace: other}}
- {name: b, context: {cluster: two, user: me, namespace: team-b}}
"""


@pytest.fixture
def files(tmp_path):
    """Two kubeconfigs in one value of KUBECONFIG."""
    for name, text in (("a", TEAM_A), ("b", TEAM_B)):
        (tmp_path / name).write_text(text)
    return f"{tmp_path / 'a'}:{tmp_path / 'b'}"


def test_namespace_is_that_of_the_current_context_of_the_first_file(files):
    assert context_namespace(files, None, {}) == "team-a"


def test_first_of_two_contexts_with_one_name_counts(files):
    assert context_namespace(files, "a", {}) == "team-a"


def test_namespace_is_that_of_a_named_context(files):
    assert context_namespace(files, "b", {}) == "team-b"


def test_context_without_a_namespace_uses_default(files):
    assert context_namespace(files, "plain", {}) == "default"


def test_variable_names_the_files(files):
    assert context_namespace(None, None, {"KUBECONFIG": files}) == "team-a"


def test_file_of_the_home_folder_is_the_last_resort(tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(TEAM_B)
    assert context_namespace(None, None, {"HOME": str(tmp_path)}) == "team-b"


def test_pod_without_a_kubeconfig_has_its_own_namespace(tmp_path):
    (tmp_path / "namespace").write_text("team-c\n")
    assert context_namespace(None, None, {"KUBERNETES_SERVICE_HOST": "::1"}, tmp_path) == "team-c"


def test_pod_that_hides_its_service_account_has_no_namespace(tmp_path):
    assert context_namespace(None, None, {"KUBERNETES_SERVICE_HOST": "::1"}, tmp_path) == ""


def test_all_names_are_listed(files):
    assert context_names(files, {}) == ("a", "plain", "b")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "contexts: 1", "contexts: [1, {name: 2}, {name: x, context: 3}]", "current-context: x"]
)
def test_broken_file_has_no_namespace(tmp_path, text):
    (tmp_path / "config").write_text(text)
    assert context_namespace(str(tmp_path / "config"), None, {}) == ""


def test_missing_file_has_no_contexts(tmp_path):
    assert context_names(str(tmp_path / "none"), {}) == ()


def test_empty_parts_of_the_path_are_skipped():
    assert kubeconfig_files("a::b", {}) == ["a", "b"]
