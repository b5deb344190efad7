"""The chart installs what deploy/ installs, object by object."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from policies.rules.settings import parse_settings
from tests.properties import examples

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMES = st.sampled_from(
    ["kube-system", "gpu-admission", "gpu-operator", "nvidia-dra-driver-gpu", "ci", "apps", "mon-*", "t?m"]
)
KINDS = st.fixed_dictionaries(
    {
        "group": st.sampled_from(["example.com", "example.org"]),
        "kind": st.sampled_from(["TrainingRun", "Policy", "Boss"]),
        "templates": st.just(["spec.template"]),
    },
    optional={"resource": st.just("mice")},
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "configuration": st.fixed_dictionaries(
            {},
            optional={
                "operatorNamespaces": st.lists(
                    st.sampled_from(["gpu-operator", "nvidia", "ops"]), min_size=1, max_size=3, unique=True
                )
            },
        ),
        "access": st.fixed_dictionaries({}, optional={"exemptNamespaces": st.lists(NAMES, max_size=4, unique=True)}),
        "quota": st.fixed_dictionaries({}, optional={"exemptNamespaces": st.lists(NAMES, max_size=4, unique=True)}),
        "workloads": st.fixed_dictionaries({"kinds": st.lists(KINDS, max_size=2, unique_by=lambda each: each["kind"])}),
    },
)


def identity(document):
    return document["metadata"]["name"]


@pytest.fixture(scope="module")
def rendered(manifests):
    """The objects that deploy/render.py prints for settings."""
    script = runpy.run_path(str(DEPLOY / "render.py"))
    text = script["render"](DEPLOY / "overlays" / "default")
    head = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    return lambda spec: manifests(script["with_settings"](text, parse_settings({**head, "spec": spec})))


@pytest.fixture(scope="module")
def install(manifests):
    return manifests((DEPLOY / "install.yaml").read_text())


def test_chart_is_up_to_date():
    command = [sys.executable, str(DEPLOY / "render_chart.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_chart_without_values_is_install_yaml(any_helm, installed_by, install):
    assert installed_by(any_helm.template()) == install


def test_first_crds_belong_to_the_release_that_updates_them(helm, install):
    documents = helm.template(None, "--include-crds")
    crds = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
    half = len(crds) // 2
    first, templates = crds[:half], crds[half:]
    ours = {"meta.helm.sh/release-name": "gpu-admission", "meta.helm.sh/release-namespace": "gpu-admission"}
    for document in templates:
        document["metadata"]["annotations"] |= ours
        for name in ("app.kubernetes.io/instance", "app.kubernetes.io/version", "helm.sh/chart"):
            del document["metadata"]["labels"][name]
    assert sorted(first, key=identity) == sorted(templates, key=identity)
    assert len(first) == sum(kind == "CustomResourceDefinition" for kind, *_ in install)


def test_chart_with_cert_manager_is_its_overlay(chart, kustomized):
    assert chart({"certificates": {"mode": "cert-manager"}}) == kustomized(DEPLOY / "overlays" / "cert-manager")


def test_chart_for_openshift_is_its_overlay(chart, kustomized):
    assert chart({"openshift": True}) == kustomized(DEPLOY / "overlays" / "openshift")


@pytest.mark.parametrize(
    ("component", "values"),
    [
        ("monitoring", {"monitoring": {"enabled": True}}),
        ("port-10250", {"port": 10250}),
        ("host-network", {"hostNetwork": True}),
        ("ui", {"ui": {"enabled": True}}),
        ("gpu-operator", {"gpuOperator": {"namespaces": ["gpu-operator"]}}),
        ("explain-on-pods", {"explainOnPods": {"enabled": True}}),
    ],
)
def test_chart_with_a_value_is_the_component(chart, with_component, component, values):
    assert chart(values) == with_component(component)


def test_chart_without_admin_access_is_install_yaml_without_its_component(chart, install):
    chosen = {identity: document for identity, document in install.items() if "admin-access" not in identity[2]}
    assert chart({"adminAccess": {"enabled": False}}) == chosen


@given(spec=SPECS)
@settings(max_examples=examples(5), phases=[Phase.generate])
def test_webhooks_and_rights_follow_from_the_settings_as_in_rendered_manifests(rendered, chart, spec):
    assert chart({"settings": {"create": False, "spec": spec}}) == rendered(spec)


def test_value_that_a_manifest_no_longer_has_is_named(tmp_path):
    script = runpy.run_path(str(DEPLOY / "render_chart.py"))
    with pytest.raises(script["NotFoundInManifestError"]) as refusal:
        script["_replace"]("base/x.yaml", "replicas: 3\n", "replicas: 2\n", "")
    assert str(refusal.value) == (
        "deploy/base/x.yaml has this 0 times instead of once; change it in deploy/chart_values.yaml:\nreplicas: 2\n"
    )
