"""The files of an API server that deploy/render.py writes."""

import base64
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from policies.admission import STATIC_SUFFIX, WEBHOOKS, compile_policies
from policies.kubernetes.versions import Feature
from policies.rules.settings import Access, GPUAdmissionPolicy
from testbed import libyaml
from webhook.cli import main
from webhook.cli.manifest_reader import UnreadableInputError
from webhook.cli.reports.audit_reports import settings_notes
from webhook.cli.settings import read_static
from webhook.cluster.manifests import ManifestsView

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"
URL = "https://gpu.example.com:8443/a/"


@pytest.fixture
def render(run_script, tmp_path):
    """`render(...)` runs `render.py --static`; returns the folder and the ended process."""

    def render(*options):
        folder = tmp_path / "static"
        return folder, run_script("--static", folder, *options)

    return render


@pytest.fixture
def denying(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text(
        "apiVersion: gpu-admission.io/v1alpha1\nkind: GPUAdmissionPolicy\nmetadata: {name: default}\n"
        "spec: {access: {mode: deny}, workloads: {kinds: [{group: a.example.com, kind: Run, templates: [spec.template]}]}}\n"
    )
    return file


def documents(file):
    return list(libyaml.load_all(file.read_text()))


def test_policies_are_as_an_api_server_takes_them_from_files(render, denying):
    folder, done = render("--settings", denying)
    assert (done.returncode, done.stderr) == (0, "")
    found = documents(folder / "policies" / "gpu-admission.yaml")
    names = {(each["kind"], each["metadata"]["name"]) for each in found}
    policies = [f"{name}.gpu-admission{STATIC_SUFFIX}" for name in ("namespace-labels", "access", "claims")]
    assert names == {(f"ValidatingAdmissionPolicy{end}", name) for end in ("", "Binding") for name in policies}
    assert all("paramKind" not in each["spec"] and "paramRef" not in each["spec"] for each in found)
    assert {each["spec"]["policyName"] for each in found if each["kind"].endswith("Binding")} == {*policies}
    assert {each["spec"].get("failurePolicy", "Fail") for each in found} == {"Fail"}


def test_access_has_no_policy_if_it_only_warns(render):
    folder, _ = render()
    assert "access.gpu-admission" not in (folder / "policies" / "gpu-admission.yaml").read_text()


def test_webhooks_are_written_with_a_url_only(render):
    folder, _ = render()
    assert [each.name for each in folder.iterdir() if each.is_dir()] == ["policies"]


def test_webhooks_are_called_at_the_url(render, denying, tmp_path):
    authority = tmp_path / "ca.crt"
    authority.write_text("-----BEGIN CERTIFICATE-----\n")
    folder, _ = render("--settings", denying, "--url", URL, "--ca", authority)
    (mutating,) = documents(folder / "mutating" / "gpu-admission.yaml")
    (validating,) = documents(folder / "validating" / "gpu-admission.yaml")
    assert {mutating["metadata"]["name"], validating["metadata"]["name"]} == {f"gpu-admission{STATIC_SUFFIX}"}
    webhooks = [*mutating["webhooks"], *validating["webhooks"]]
    assert [each["name"] for each in webhooks] == [
        each.entry.webhook for each in sorted(WEBHOOKS, key=lambda it: not it.mutating)
    ]
    bundle = base64.b64encode(authority.read_bytes()).decode()
    for each in webhooks:
        url = f"https://gpu.example.com:8443/a/{each['name'].partition('.')[0]}"
        assert each["clientConfig"] == {"url": url, "caBundle": bundle}
    (workloads,) = (each for each in webhooks if each["name"].startswith("workloads."))
    assert ["runs"] in [rule["resources"] for rule in workloads["rules"]]


def test_snippet_names_the_folders_that_were_written(render):
    folder, done = render("--url", URL)
    snippet = yaml.safe_load((folder / "admission-configuration.yaml").read_text())
    folders = [each["configuration"]["staticManifestsDir"] for each in snippet["plugins"]]
    assert folders == [str(folder / name) for name in ("policies", "mutating", "validating")]
    assert done.stdout.split() == [
        *(f"{each}/gpu-admission.yaml" for each in folders),
        f"{folder}/admission-configuration.yaml",
    ]


@pytest.mark.parametrize("url", ["http://a", "https://", "https://u@a", "https://a?b", "https://a#b", "a"])
def test_address_that_no_api_server_calls_is_refused(render, url):
    folder, done = render("--url", url)
    assert (done.returncode, folder.exists()) == (1, False)
    assert "must be https://HOST" in done.stderr


def test_webhooks_of_an_earlier_rendering_are_not_left_behind(render):
    folder, _ = render("--url", URL)
    _, done = render()
    assert done.returncode == 1
    assert (
        done.stderr
        == f"{folder}/mutating/gpu-admission.yaml is of an earlier rendering with --url: remove it, or give --url\n"
    )


def test_cluster_says_which_annotations_are_read(render, denying, tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {cdi: {nriPluginEnabled: true}}\n"
    )
    folder, done = render("--settings", denying, "--cluster", cluster)
    assert done.returncode == 0, done.stderr
    assert "variables.ga611" in (folder / "policies" / "gpu-admission.yaml").read_text()


def test_audit_finds_the_files_up_to_date_until_the_settings_change(render, denying):
    folder, _ = render("--settings", denying, "--url", URL)

    def notes(*settings):
        arguments = ["audit", "--static", folder, "--cluster", CLUSTER, "-o", "json", *settings]
        done = CliRunner().invoke(main, [*map(str, arguments)])
        assert done.exit_code in (0, 1), done.stderr
        return [each for each in json.loads(done.stdout)["notes"] if "render" in each]

    assert notes("--settings", denying) == []
    (policies, *webhooks) = reversed(notes())
    assert policies.endswith("(access.gpu-admission.static.k8s.io is not needed)")
    assert webhooks == []


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("policies/more.yaml", "a: [", "policies/more.yaml:1:5: expected a value here"),
        ("mutating/more.json", "7", "mutating/more.json:1:1: is not an object"),
    ],
)
def test_file_that_no_api_server_can_read_is_a_problem(render, name, text, problem):
    folder, _ = render("--url", URL)
    (folder / name).write_text(text)
    with pytest.raises(UnreadableInputError) as caught:
        read_static([str(folder)])
    (found,) = caught.value.problems
    assert str(found).startswith(f"{folder}/{problem}")


def test_folder_without_files_is_a_problem(tmp_path):
    with pytest.raises(UnreadableInputError) as caught:
        read_static([str(tmp_path)])
    (found,) = caught.value.problems
    assert str(found).endswith("holds no file that an API server reads: *.yaml, *.yml, *.json")


@pytest.mark.parametrize(("version", "is_named"), [("v1.35.6", True), ("v1.36.2", True), ("v1.37.0", False)])
def test_audit_says_where_no_api_server_reads_the_files(version, is_named):
    policy = GPUAdmissionPolicy(access=Access(mode="deny"))
    view = ManifestsView([{"serverVersion": {"gitVersion": version}}])
    files = [each for compiled in compile_policies(policy, view) for each in compiled.documents(static=True)]
    gate = Feature.ManifestBasedAdmissionControlConfig.name
    assert any(gate in note for note in settings_notes([], view, policy, files)) is is_named
