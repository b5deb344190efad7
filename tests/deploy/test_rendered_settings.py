"""deploy/render.py --settings: additions to webhooks, selectors and RBAC."""

import pytest
import yaml

from policies.admission.installed import entry_of, excluded_namespaces, uncovered_settings
from policies.rules.settings import DEFAULTS, parse_settings
from policies.rules.settings.exemptions import excluded_names
from testbed import libyaml

POLICY = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUAdmissionPolicy",
    "metadata": {"name": "default"},
    "spec": {
        "configuration": {"operatorNamespaces": ["gpu-operator", "nvidia"]},
        "quota": {"exemptNamespaces": ["gpu-admission", "ci", "mon-*"]},
        "workloads": {
            "kinds": [
                {"group": "example.com", "kind": "TrainingRun", "templates": ["spec.template"]},
                {"group": "example.org", "kind": "Mouse", "templates": ["spec.template"], "resource": "mice"},
            ]
        },
    },
}
SETTINGS = parse_settings(POLICY)


@pytest.fixture(scope="module")
def text(script, deploy):
    return script["with_settings"](script["render"](deploy / "overlays" / "default"), SETTINGS)


@pytest.fixture(scope="module")
def rendered(text):
    return list(libyaml.load_all(text))


@pytest.fixture(scope="module")
def configurations(rendered):
    return [each for each in rendered if each["kind"].endswith("WebhookConfiguration")]


def named(documents, kind, name):
    (found,) = (each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def test_default_settings_change_nothing(script, deploy):
    text = script["render"](deploy / "overlays" / "default")
    assert script["with_settings"](text, DEFAULTS) == text


def test_rendered_configurations_cover_the_settings(configurations):
    assert [*uncovered_settings(configurations, SETTINGS)] == []


def test_installed_configurations_do_not_cover_them(installed):
    configurations = [each for each in installed if each["kind"].endswith("WebhookConfiguration")]
    assert {str(each.path) for each in uncovered_settings(configurations, SETTINGS)} == {
        "spec.workloads.kinds[0]",
        "spec.workloads.kinds[1]",
        "spec.configuration.operatorNamespaces",
        "spec.quota.exemptNamespaces",
    }


def test_selectors_leave_out_what_the_settings_exempt(configurations):
    for webhook in (each for configuration in configurations for each in configuration["webhooks"]):
        entry = entry_of(webhook)
        if entry is not None and entry.name != "nodes":  # nodes are in no namespace
            assert excluded_namespaces(webhook) == excluded_names(entry.exempt_from, SETTINGS), webhook["name"]


def test_added_kinds_have_rules_and_may_be_listed(rendered):
    webhooks = named(rendered, "ValidatingWebhookConfiguration", "gpu-admission")["webhooks"]
    (workloads,) = (each for each in webhooks if each["name"] == "workloads.gpu-admission.io")
    assert [(each["apiGroups"], each["resources"]) for each in workloads["rules"][-2:]] == [
        (["example.com"], ["trainingruns"]),
        (["example.org"], ["mice"]),
    ]
    assert named(rendered, "ClusterRole", "gpu-admission")["rules"][-2:] == [
        {"apiGroups": ["example.com"], "resources": ["trainingruns"], "verbs": ["list"]},
        {"apiGroups": ["example.org"], "resources": ["mice"], "verbs": ["list"]},
    ]


def test_operator_namespaces_are_read_and_their_config_maps_reviewed(rendered, configurations):
    bindings = [
        each for each in rendered if each["kind"] == "RoleBinding" and each["metadata"]["namespace"] == "nvidia"
    ]
    assert [each["roleRef"]["name"] for each in bindings] == ["gpu-admission-operator-namespace"]
    (condition,) = (
        condition["expression"]
        for webhook in configurations[1]["webhooks"]
        for condition in webhook.get("matchConditions", ())
        if condition["name"] == "ours"
    )
    assert 'o.metadata.namespace in ["gpu-operator", "nvidia"]' in condition


def test_operator_may_label_its_own_namespace_for_admin_access(rendered):
    policy = named(rendered, "ValidatingAdmissionPolicy", "admin-access.gpu-admission.io")
    names = '["gpu-operator", "nvidia", "nvidia-dra-driver-gpu", "dra-driver-nvidia-gpu"]'
    assert [names in each["expression"] for each in policy["spec"]["matchConditions"]] == [False, True]


def test_labels_that_would_not_hold_are_refused_in_the_same_namespaces(rendered):
    policy = named(rendered, "ValidatingAdmissionPolicy", "namespace-labels.gpu-admission.io")
    quota = [
        each["expression"] for each in policy["spec"]["validations"] if "object.metadata.name in" in each["expression"]
    ]
    assert 'object.metadata.name in ["kube-system", "gpu-admission", "gpu-operator", "ci", "nvidia"]' in quota[1]


def test_webhooks_stay_last_and_documents_that_stay_keep_their_comments(rendered, text, installed):
    assert [each["kind"] for each in rendered][-2:] == [each["kind"] for each in installed][-2:]
    assert text.count("\n#") > 20


def test_settings_are_rendered_to_standard_output(run_script, tmp_path, rendered):
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(POLICY))
    done = run_script("--settings", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(libyaml.load_all(done.stdout)) == rendered


def test_invalid_settings_are_refused_with_their_field(run_script, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump({**POLICY, "spec": {"access": {"mode": "never"}}}))
    done = run_script("--settings", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'{file}:7:11: Write warn or deny: mode is "never"; spec.access.mode\n'


def test_missing_settings_are_named(run_script, tmp_path):
    done = run_script("--settings", tmp_path / "none.yaml")
    assert done.returncode == 1
    assert "no such file or directory" in done.stderr


def test_message_about_unknown_arguments_lists_the_known_ones(run_script):
    done = run_script("--setings", "x")
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python deploy/render.py [--check | --settings FILE | --static DIR ")
