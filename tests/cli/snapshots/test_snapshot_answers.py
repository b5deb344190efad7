"""Offline commands on a snapshot answer as they do on the cluster, and on a redacted snapshot the same up to names."""

from __future__ import annotations

import json
import re

import pytest

from testbed import libyaml
from tests.cli.conftest import EXAMPLES
from tests.cli.snapshots.conftest import CLUSTER_POLICIES, gpu_pod
from tests.sandbox import faults

MANIFESTS = {
    "train.yaml": gpu_pod("new", node=""),
    "policy.yaml": {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {"devicePlugin": {"config": {"name": "time-slicing-config", "default": "none"}}},
    },
    "quota.yaml": {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "h100", "gpus": 4, "products": ["H1OO-*"]}]},
    },
}
CLAIMS = ("claim/pretrain", "claim/embed", "pod/leftover", "pod/unplaced", "pod/pretrain")


@pytest.fixture
def dumped(sandbox, tmp_path):
    """The objects of the cluster in files, as kubectl prints them; the folder."""
    folder = tmp_path / "dumped"
    folder.mkdir()
    kinds = ("Namespace", "Node", "Pod", "Deployment", "DeviceClass", "ResourceSlice", "ResourceClaim", "ConfigMap")
    version = {"serverVersion": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}}
    (folder / "version.json").write_text(json.dumps(version))
    for kind in kinds:
        (folder / f"{kind}.json").write_text(json.dumps({"kind": "List", "items": sandbox.objects(kind)}))
    return folder


async def test_review_of_a_snapshot_is_that_of_the_cluster(reported, sandbox, taken, write):
    files = [write(name, document) for name, document in MANIFESTS.items()]
    live = await reported("review", "--kubeconfig", sandbox.file, *files)
    assert await reported("review", "--cluster", await taken(), *files) == live
    assert sum(len(each["findings"]) for each in live) >= 4


async def test_audit_of_a_snapshot_is_that_of_the_cluster(reported, sandbox, taken):
    live = await reported("audit", "--kubeconfig", sandbox.file)
    offline = await reported("audit", "--cluster", await taken())
    assert {**offline, "notes": []} == {**live, "notes": []}
    assert {"GA316", "GA321", "GA602"} <= {each["rule"] for each in live["findings"]}


async def test_audit_of_one_namespace_is_that_of_the_cluster(reported, sandbox, taken):
    live = await reported("audit", "--kubeconfig", sandbox.file, "-n", "team-a")
    offline = await reported("audit", "--cluster", await taken("-n", "team-a"), "-n", "team-a")
    assert offline["findings"] == live["findings"]
    assert offline["readiness"] == live["readiness"]


async def test_explanations_of_a_snapshot_are_those_of_whole_objects(reported, dumped, taken):
    whole = await reported("explain", "--cluster", dumped, "-n", "team-a", *CLAIMS)
    assert await reported("explain", "--cluster", await taken(), "-n", "team-a", *CLAIMS) == whole
    assert {each["verdict"] for each in whole} > {"scheduled"}


async def test_explanation_in_one_namespace_says_what_is_unknown(reported, taken):
    (found,) = await reported("explain", "--cluster", await taken("-n", "team-a"), "-n", "team-a", "claim/pretrain")
    assert any("claims" in remark.lower() for remark in found["remarks"]), found["remarks"]


async def test_usage_of_a_snapshot_is_that_of_the_cluster(reported, sandbox, taken):
    live = await reported("usage", "--kubeconfig", sandbox.file)
    assert await reported("usage", "--cluster", await taken()) == live


async def test_quotas_of_a_snapshot_are_those_of_the_cluster(reported, sandbox, taken):
    sandbox.create(MANIFESTS["quota.yaml"])
    live = await reported("quota", "--kubeconfig", sandbox.file)
    offline = await reported("quota", "--cluster", await taken())
    assert without_ages(offline) == without_ages(live)


def without_ages(quotas):
    for quota in quotas["quotas"]:
        for holder in quota["holders"] or ():
            holder["ageSeconds"] = 0
    return quotas


CHOSEN = re.compile(
    r"acme|team-|pretrain|embed|leftover|unplaced|escaped|gpu-(?:h100|a100)|registry\.example|snapshot-", re.IGNORECASE
)
"""What users and their machines are called in this cluster."""


@pytest.mark.parametrize("arguments", [(), ("-n", "team-a")], ids=["whole", "of one namespace"])
async def test_redacted_snapshot_has_no_name_that_users_chose(taken, arguments):
    for file in (await taken("--redact", *arguments)).iterdir():
        assert CHOSEN.findall(file.name + file.read_text()) == [], file.name


RUNS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "acmeruns.acme.example"},
    "spec": {
        "group": "acme.example",
        "scope": "Namespaced",
        "names": {"plural": "acmeruns", "kind": "AcmeRun"},
        "versions": CLUSTER_POLICIES["spec"]["versions"],
    },
}
ADDS_RUNS = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUAdmissionPolicy",
    "metadata": {"name": "default"},
    "spec": {
        "workloads": {"kinds": [{"group": "acme.example", "kind": "AcmeRun", "templates": ["spec.template"]}]},
        "access": {"legacyRuntime": True},
    },
}


@pytest.fixture
def kind_of_users(sandbox):
    """A kind of workloads that the administrator added, and an object that would convert."""
    for each in (RUNS, ADDS_RUNS):
        sandbox.create(each)
    metadata = {"name": "run", "namespace": "team-a"}
    spec = {"template": {"spec": gpu_pod()["spec"]}}
    sandbox.create({"apiVersion": "acme.example/v1", "kind": "AcmeRun", "metadata": metadata, "spec": spec})


@pytest.mark.usefixtures("kind_of_users")
async def test_redacted_snapshot_does_not_name_a_kind_that_an_administrator_added(taken, sandbox):
    for file in (await taken("--redact")).iterdir():
        assert CHOSEN.findall(file.name + file.read_text()) == [], file.name
    sandbox.faults.add(faults.failing(403, "acmeruns"), path="*/acmeruns")
    head = (await taken("--redact", name="without")) / "snapshot.yaml"
    assert "forbidden: list name" in head.read_text()
    assert CHOSEN.findall(head.read_text()) == []


@pytest.mark.usefixtures("kind_of_users")
async def test_redacted_objects_of_an_added_kind_are_reviewed_by_the_same_settings(reported, taken):
    plain = await reported("audit", "--cluster", await taken())
    redacted = await reported("audit", "--cluster", await taken("--redact", name="redacted"))
    assert redacted["notes"] == plain["notes"]
    assert redacted["summary"] == plain["summary"]
    assert [row["workloads"] for row in redacted["readiness"]] == [row["workloads"] for row in plain["readiness"]]


async def test_redacted_snapshot_keeps_the_number_of_the_version_only(taken):
    head = libyaml.load(((await taken("--redact")) / "snapshot.yaml").read_text())
    assert head["serverVersion"] == {"gitVersion": "v1.36.0"}


async def test_redacted_snapshot_of_one_namespace_says_what_is_known(reported, taken):
    plain = await reported("audit", "--cluster", await taken("-n", "team-a"), "-n", "team-a")
    folder = await taken("-n", "team-a", "--redact", name="redacted")
    (namespace,) = {each["metadata"]["namespace"] for each in json.loads((folder / "pods.json").read_text())["items"]}
    redacted = await reported("audit", "--cluster", folder, "-n", namespace)
    assert (redacted["summary"], redacted["notReviewed"]) == (plain["summary"], plain["notReviewed"])


@pytest.mark.usefixtures("operator_elsewhere")
async def test_redacted_snapshot_replaces_the_namespace_of_the_operator(taken):
    folder = await taken("--redact")
    read = {each: (folder / f"{each}.json").read_text() for each in ("clusterpolicies.nvidia.com", "configmaps")}
    assert CHOSEN.findall("".join(read.values())) == []
    (policy,) = json.loads(read["clusterpolicies.nvidia.com"])["items"]
    namespaces = [each["metadata"]["namespace"] for each in json.loads(read["configmaps"])["items"]]
    assert policy["status"]["namespace"] in namespaces


async def test_redacted_snapshot_does_not_name_the_server_and_the_namespace(taken, sandbox):
    text = ((await taken("--redact", "-n", "team-a")) / "snapshot.yaml").read_text()
    assert sandbox.url not in text
    assert "team-a" not in text


@pytest.mark.parametrize(
    ("code", "expected"),
    [(403, "forbidden: list pods"), (500, "the API server fails to list pods")],
    ids=["forbidden", "failing"],
)
async def test_redacted_snapshot_says_which_kind_is_unknown_without_names(taken, sandbox, code, expected):
    sandbox.faults.add(faults.failing(code, "pods in team-a"), path="*/pods")
    head = libyaml.load(((await taken("--redact", "-n", "team-a")) / "snapshot.yaml").read_text())
    assert head["snapshot"]["unknown"] == [expected]


async def test_audit_of_a_redacted_snapshot_is_the_same_up_to_names(reported, taken):
    def verdicts(report):
        findings = sorted(
            (each["rule"], each["severity"], each["count"], each["object"]["kind"]) for each in report["findings"]
        )
        rows = sorted((row["mode"], row["ready"], row["workloads"], row["converts"]) for row in report["readiness"])
        return findings, rows, report["summary"], report["notReviewed"]

    plain = await reported("audit", "--cluster", await taken())
    redacted = await reported("audit", "--cluster", await taken("--redact", name="redacted"))
    assert verdicts(redacted) == verdicts(plain)


async def test_reviews_of_redacted_pods_are_the_same_up_to_names(reported, taken):
    async def reviewed(folder):
        results = await reported("review", "--cluster", folder, folder / "pods.json", folder / "deployments.apps.json")
        return sorted((each["verdict"], sorted(finding["rule"] for finding in each["findings"])) for each in results)

    plain = await reviewed(await taken())
    assert await reviewed(await taken("--redact", name="redacted")) == plain
    assert any(findings for _, findings in plain)


async def test_plan_of_a_redacted_snapshot_is_the_same_up_to_names(reported, taken):
    async def planned(folder):
        found = await reported("plan", "--cluster", folder, EXAMPLES / "plan" / "time-slicing.yaml")
        return re.sub(r'"[^"]*"', '""', json.dumps({key: found[key] for key in sorted(found)}, sort_keys=True))

    assert await planned(await taken("--redact", name="redacted")) == await planned(await taken())


async def test_explanations_of_a_redacted_snapshot_are_the_same_up_to_names(reported, taken):
    async def explained(folder):
        found = []
        for kind, file in (("pod", "pods"), ("claim", "resourceclaims.resource.k8s.io")):
            for each in json.loads((folder / f"{file}.json").read_text())["items"]:
                metadata = each["metadata"]
                found += await reported(
                    "explain", "--cluster", folder, "-n", metadata["namespace"], f"{kind}/{metadata['name']}"
                )
        return found

    def verdicts(explanations):
        fields = ("verdict", "nodes", "fitNow", "fitIfEmpty", "unknownNodes", "replicas", "groupsLeftOut")
        return [
            (
                {field: each[field] for field in fields},
                sorted((group["count"], group["fits"]) for group in each["groups"]),
            )
            for each in explanations
        ]

    assert verdicts(await explained(await taken("--redact", name="redacted"))) == verdicts(
        await explained(await taken())
    )


async def test_references_of_a_redacted_snapshot_lead_to_its_objects(taken):
    folder = await taken("--redact")
    items = {
        file: json.loads((folder / f"{file}.json").read_text())["items"]
        for file in ("pods", "nodes", "namespaces", "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io")
    }
    names = {file: {each["metadata"]["name"] for each in found} for file, found in items.items()}
    for pod in items["pods"]:
        assert pod["metadata"]["namespace"] in names["namespaces"]
        assert pod["spec"].get("nodeName") in {None, *names["nodes"]}
        for claim in pod["spec"].get("resourceClaims", ()):
            assert claim["resourceClaimName"] in names["resourceclaims.resource.k8s.io"]
    for each in items["resourceslices.resource.k8s.io"]:
        assert each["spec"]["pool"]["name"] in names["nodes"]
    for claim in items["resourceclaims.resource.k8s.io"]:
        for user in claim.get("status", {}).get("reservedFor", ()):
            assert user["name"] in names["pods"]
