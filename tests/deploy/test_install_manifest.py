"""install.yaml and the overlays are up to date."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml

from testbed import libyaml

NO_KUSTOMIZE = shutil.which("kubectl") is None
OVERLAYS = ("default", "cert-manager", "openshift", "dev-by-url")
UI_SERVICE = "gpu-admission-ui"
needs_kubectl = pytest.mark.skipif(NO_KUSTOMIZE, reason="needs kubectl, for kubectl kustomize")


def identity(document):
    metadata = document["metadata"]
    return document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"]


@pytest.fixture(scope="module")
def build(deploy):
    """What kubectl makes of an overlay, by identity."""

    def build(folder):
        done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return {identity(document): document for document in libyaml.load_all(done.stdout)}

    return build


@pytest.fixture
def with_component(tmp_path, deploy, build):
    """The default with a component."""

    def with_component(name):
        (tmp_path / "deploy").symlink_to(deploy)
        here = {
            "resources": ["deploy/overlays/default"],
            "components": [f"deploy/components/{name}"],
        }
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(here))
        return build(tmp_path)

    return with_component


def container(objects):
    (deployment,) = (each for each in objects.values() if each["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]["containers"][0]


def test_install_manifest_is_up_to_date(deploy):
    done = subprocess.run(
        [sys.executable, str(deploy / "render.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_overlay_that_patches_is_not_rendered_here(deploy, script):
    with pytest.raises(script["CannotRender"]) as refusal:
        script["render"](deploy / "overlays" / "openshift")
    folder = deploy / "overlays" / "openshift"
    assert (
        str(refusal.value) == f"{folder}/kustomization.yaml has patches; render it with `kubectl kustomize {folder}`."
    )


@needs_kubectl
def test_kubectl_renders_the_same(installed, build, deploy):
    assert {identity(document): document for document in installed} == build(deploy / "overlays" / "default")


def test_every_object_is_there_once(installed):
    identities = [identity(document) for document in installed]
    assert len(set(identities)) == len(identities)


def test_webhooks_come_last_and_the_namespace_before_what_is_in_it(installed):
    kinds = [document["kind"] for document in installed]
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    first = next(index for index, document in enumerate(installed) if document["metadata"].get("namespace"))
    assert kinds.index("Namespace") < first


def test_everything_is_labelled_and_lives_in_our_namespace(installed):
    assert {document["metadata"]["labels"]["app.kubernetes.io/name"] for document in installed} == {"gpu-admission"}
    assert {document["metadata"].get("namespace", "gpu-admission") for document in installed} == {"gpu-admission"}


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlay_builds(build, deploy, overlay):
    assert len(build(deploy / "overlays" / overlay)) > 3


@needs_kubectl
def test_cert_manager_serves_from_files_and_fills_the_bundle_in(build, deploy):
    objects = build(deploy / "overlays" / "cert-manager")
    args = container(objects)["args"]
    assert args[-2:] == ["--tls-cert=/etc/gpu-admission/tls/tls.crt", "--tls-key=/etc/gpu-admission/tls/tls.key"]
    annotated = [
        each["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        for each in objects.values()
        if each["kind"].endswith("WebhookConfiguration")
    ]
    assert annotated == ["gpu-admission/gpu-admission"] * 2
    assert not any(name == "gpu-admission-certificates" for _, _, _, name in objects)


@needs_kubectl
def test_openshift_chooses_the_user_itself(build, deploy):
    (deployment,) = (each for each in build(deploy / "overlays" / "openshift").values() if each["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@needs_kubectl
def test_webhooks_by_url_are_the_same_elsewhere(build, deploy, one):
    objects = build(deploy / "overlays" / "dev-by-url")
    kinds = {kind for _, kind, _, _ in objects}
    assert not {"Deployment", "Service", "ResourceQuota"} & kinds
    assert "Namespace" in kinds  # of the Lease and the Secret
    for (_, kind, _, _), document in objects.items():
        if kind.endswith("WebhookConfiguration"):
            expected = [
                {
                    **webhook,
                    "clientConfig": {"url": "https://localhost:8443" + webhook["clientConfig"]["service"]["path"]},
                }
                for webhook in one(kind)["webhooks"]
            ]
            assert document["webhooks"] == expected


@needs_kubectl
def test_port_can_be_another_one(with_component):
    objects = with_component("port-10250")
    (policy,) = (each for each in objects.values() if each["kind"] == "NetworkPolicy")
    assert [each["port"] for each in policy["spec"]["ingress"][0]["ports"]] == [10250, 8445]
    assert {port["name"]: port["containerPort"] for port in container(objects)["ports"]} == {
        "webhook": 10250,
        "probes": 8080,
        "peers": 8444,
        "explain": 8445,
    }
    assert {"name": "PORT", "value": "10250"} in container(objects)["env"]


@needs_kubectl
def test_page_has_a_port_that_meets_its_service(with_component, installed):
    objects = with_component("ui")
    assert container(objects)["args"][-1] == "--ui-port=8446"
    assert container(objects)["ports"][-1] == {"name": "ui", "containerPort": 8446, "protocol": "TCP"}
    (policy,) = (each for each in objects.values() if each["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"][-1]["ports"] == [{"port": 8446, "protocol": "TCP"}]
    (service,) = (each for each in objects.values() if each["metadata"]["name"] == UI_SERVICE)
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(443, "ui")]
    (of_webhook,) = (
        each for each in installed if (each["kind"], each["metadata"]["name"]) == ("Service", "gpu-admission")
    )
    assert service["spec"]["selector"] == of_webhook["spec"]["selector"]
    assert len(objects) == len(installed) + 1


@needs_kubectl
def test_page_and_another_port_go_together(tmp_path, deploy, build):
    (tmp_path / "deploy").symlink_to(deploy)
    components = [f"deploy/components/{name}" for name in ("ui", "port-10250")]
    here = {"resources": ["deploy/overlays/default"], "components": components}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(here))
    ports = {port["name"]: port["containerPort"] for port in container(build(tmp_path))["ports"]}
    assert (ports["webhook"], ports["ui"]) == (10250, 8446)


def test_page_is_off_by_default(installed):
    assert "8446" not in yaml.safe_dump_all(installed)
    assert UI_SERVICE not in [each["metadata"]["name"] for each in installed]


@needs_kubectl
@pytest.mark.parametrize("component", ["gpu-operator", "monitoring"])
def test_component_adds_and_changes_nothing_else(with_component, installed, component):
    objects = with_component(component)
    assert {identity(document): document for document in installed}.items() <= objects.items()
    assert len(objects) > len(installed)


@needs_kubectl
def test_guard_of_admin_access_can_be_left_out(tmp_path, deploy, build, installed):
    """By the patch that docs/install.md shows."""
    (tmp_path / "deploy").symlink_to(deploy)
    text = (deploy.parent / "docs" / "install.md").read_text()
    (patch,) = re.findall(r"```yaml\n(patches:\n- target: [^\n]*admin-access.*?)```", text, re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(
        f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [deploy/overlays/default]\n{patch}"
    )
    everything = {identity(document): document for document in installed}
    left = build(tmp_path)
    assert left.items() <= everything.items()
    assert {(kind, name) for _, kind, _, name in everything.keys() - left.keys()} == {
        ("ValidatingAdmissionPolicy", "admin-access.gpu-admission.io"),
        ("ValidatingAdmissionPolicyBinding", "admin-access.gpu-admission.io"),
        ("ClusterRole", "gpu-admission-admin-access"),
    }
