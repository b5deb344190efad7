"""`gpu-admission explain` on a running cluster: which method it uses, and what it says if none is possible."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web

from policies.kubernetes.view import ChangedView
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.cli.quota_files import AWAY, EXAMPLES
from tests.sandbox import faults
from tests.sandbox.faults import FaultySandbox
from webhook.cluster.caller_reviews import SubjectAccess, TokenAuthenticator
from webhook.cluster.client import APIClient
from webhook.cluster.manifests import ManifestsView
from webhook.server.app import Traffic
from webhook.server.explain_gate import DelegatedGate
from webhook.server.metrics import Metrics
from webhook.server.questions import ExplainCalls, Explainer, Questions

PROXY = "/api/v1/namespaces/gpu-admission/services/https:gpu-admission-explain:https/proxy"
ALICE = "system:serviceaccount:team-a:alice"
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "pretrain", "namespace": "team-a"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 16}}]}},
}
BY_OBJECTS = "Explained with your own permissions."
BY_SERVICE = (
    "Explained by the Service gpu-admission-explain, which got your bearer token, because you may not list nodes, pods, "
    "resourceslices, resourceclaims and deviceclasses."
)


class Rights:
    """What the authorizer grants: `all`, `member` (explanations in team-a), a list of plurals, or nothing."""

    def __init__(self):
        self.of = {}

    def __call__(self, spec):
        granted = self.of.get(spec["user"], "all")
        attributes = spec.get("resourceAttributes", {})
        if isinstance(granted, list):
            return attributes.get("resource") in granted
        is_explanation = (attributes.get("resource"), attributes.get("namespace")) == ("gpuexplanations", "team-a")
        return granted == "all" or (granted == "member" and is_explanation)


@pytest.fixture
def rights():
    return Rights()


@pytest.fixture
async def sandbox(tmp_path, rights):
    """A sandbox with the cluster of the examples and a claim that no node can serve."""
    sandbox = FaultySandbox(seed=1, allows=rights)
    files = [file for file in sorted((EXAMPLES / "cluster").glob("*.yaml")) if file.name != "version.yaml"]
    documents = [each for file in files for each in libyaml.load_all(file.read_text())]
    objects = [each for one in documents for each in one.get("items", [one])]
    there = {each["metadata"]["name"] for each in sandbox.objects("Namespace")}
    for each in sorted([*objects, CLAIM], key=lambda each: each["kind"] != "Namespace"):
        if each["kind"] != "Namespace" or each["metadata"]["name"] not in there:
            sandbox.create(each)
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


@pytest.fixture
async def service(sandbox, tmp_path):
    """The port of explanations, which the sandbox reaches as API servers reach a Service."""
    file = tmp_path / "of-the-service"
    file.write_text(sandbox.kubeconfig("system:serviceaccount:gpu-admission:gpu-admission"))
    client = await APIClient.connect(str(file))
    view = ManifestsView(
        each for file in sorted((EXAMPLES / "cluster").glob("*.yaml")) for each in libyaml.load_all(file.read_text())
    )
    explainer = Explainer(ChangedView(view, {("ResourceClaim", "team-a", "pretrain"): CLAIM}), lambda: DEFAULTS)
    gate = DelegatedGate(TokenAuthenticator(client), SubjectAccess(client))
    calls = ExplainCalls(Questions(explainer, gate, Metrics()), Traffic())
    runner = web.ServerRunner(web.Server(calls.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def forward(request, handler):
        headers = {key: value for key, value in request.headers.items() if key not in ("Authorization", "Host")}
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                base + request.path_qs.removeprefix(PROXY), data=await request.read(), headers=headers
            ) as answer,
        ):
            content_type = {"Content-Type": answer.headers["Content-Type"]}
            return web.Response(status=answer.status, body=await answer.read(), headers=content_type)

    sandbox.faults.add(forward, verb="POST", path=f"{PROXY}/*")
    yield calls
    await runner.cleanup()
    await client.close()


@pytest.fixture
def run_as(sandbox, run, tmp_path):
    """Run a command as a user of the sandbox, in a separate process."""

    async def run_as(*arguments, user="", namespace=""):
        kubeconfig = libyaml.load(sandbox.kubeconfig(user))
        kubeconfig["contexts"][0]["context"]["namespace"] = namespace
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(kubeconfig))
        return await asyncio.to_thread(run, *arguments, **{**AWAY, "KUBECONFIG": str(file)})

    return run_as


@pytest.fixture
def explain(run_as):
    return partial(run_as, "explain")


@pytest.fixture
def ask_fit(run_as):
    return partial(run_as, "quota", "--fit")


async def test_user_who_may_list_everything_reads_the_cluster(explain, sandbox):
    done = await explain("claim/pretrain", "-n", "team-a")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, BY_OBJECTS)
    assert done.stdout.startswith("ResourceClaim team-a/pretrain  impossible\n")
    assert "NAMES" in done.stdout


async def test_namespace_is_that_of_the_context(explain):
    done = await explain("claim/pretrain", namespace="team-a")
    assert done.stdout.startswith("ResourceClaim team-a/pretrain  impossible\n")


async def test_nothing_is_written(explain, sandbox):
    await explain("claim/pretrain", "-n", "team-a")
    assert {each.verb for each in sandbox.requests if each.resource != "selfsubjectaccessreviews"} == {
        "get",
        "list",
        "watch",
    }


async def test_file_is_explained_against_the_running_cluster(explain, write):
    file = write("claim.yaml", {**CLAIM, "metadata": {"name": "new"}})
    done = await explain("--live", file, "-n", "team-a")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, BY_OBJECTS)
    assert done.stdout.startswith("ResourceClaim team-a/new  impossible\n")


async def test_object_that_is_missing_is_reported(explain):
    done = await explain("claim/other", "-n", "team-a")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == (
        "claim/other: ResourceClaim other in namespace team-a not found; -n names another namespace"
    )


async def test_name_without_its_kind_is_found(explain):
    done = await explain("pretrain", "-n", "team-a")
    assert done.stdout.startswith("ResourceClaim team-a/pretrain  impossible\n")


async def test_name_of_several_objects_needs_its_kind(explain, sandbox):
    meta = {"name": "pretrain", "namespace": "team-a"}
    spec = {"containers": [{"name": "a", "image": "a"}]}
    sandbox.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    done = await explain("pretrain", "-n", "team-a")
    assert (
        done.stderr.splitlines()[0]
        == "pretrain: name the kind too: namespace team-a has pod/pretrain and claim/pretrain"
    )


@pytest.mark.parametrize(
    ("asked", "namespace", "problem"),
    [
        (
            ("claim", "pretrian"),
            "team-a",
            "ResourceClaim pretrian in namespace team-a not found; did you mean claim/pretrain?",
        ),
        (
            ("claim", "pretrain"),
            "team-b",
            "ResourceClaim pretrain in namespace team-b not found; one is in namespace team-a: -n team-a",
        ),
        (
            ("claim", "pretrian"),
            "team-b",
            (
                "ResourceClaim pretrian in namespace team-b not found; did you mean claim/pretrain? It is in namespace team-a: "
                "-n team-a"
            ),
        ),
        (
            ("pretrian",),
            "team-a",
            "neither a file nor an object of namespace team-a that can be explained; did you mean claim/pretrain?",
        ),
    ],
)
async def test_name_that_is_not_found_is_answered_with_what_is_near(explain, asked, namespace, problem):
    done = await explain(*asked, "-n", namespace)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0].partition(": ")[2] == problem


async def test_member_learns_of_no_names_that_they_may_not_read(explain, service, sandbox, rights):
    rights.of[ALICE] = "member"
    sandbox.faults.add(faults.failing(403, "Forbidden"), verb="GET", path="*/namespaces/team-a/*")
    done = await explain("pretrian", "-n", "team-a", user=ALICE)
    assert done.stderr.splitlines()[0] == (
        "pretrian: name the kind too, such as pod/pretrian: you may not read the pods of namespace team-a"
    )


async def test_member_of_a_namespace_asks_the_service(explain, service, rights):
    rights.of[ALICE] = "member"
    done = await explain("claim/pretrain", "-n", "team-a", user=ALICE)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, BY_SERVICE)
    assert done.stdout.startswith("ResourceClaim team-a/pretrain  impossible\n")
    assert "NAMES" not in done.stdout
    assert "node-" not in done.stdout


async def test_object_that_the_user_may_not_read_is_asked_by_name(explain, service, sandbox, rights):
    rights.of[ALICE] = "member"
    sandbox.faults.add(faults.failing(403, "Forbidden"), verb="GET", path="*/resourceclaims/pretrain")
    done = await explain("claim/pretrain", "-n", "team-a", user=ALICE)
    assert done.stdout.startswith("ResourceClaim team-a/pretrain  impossible\n")


async def test_answer_of_the_service_is_json_too(explain, service, rights):
    rights.of[ALICE] = "member"
    done = await explain("claim/pretrain", "-n", "team-a", "-o", "json", user=ALICE)
    (explanation,) = json.loads(done.stdout)
    assert explanation["verdict"] == "impossible"
    assert [group["nodes"] for group in explanation["groups"]] == [[]] * len(explanation["groups"])


STUCK = Path(__file__).with_name("stuck_pod.yaml")
NO_RUNTIME = 'no runtime for "nvidia" is configured'


@pytest.fixture
def stuck(sandbox):
    """A bound pod that does not start, and the event that says why."""
    for each in libyaml.load_all(STUCK.read_text()):
        sandbox.create({**each, "involvedObject": _about(sandbox)} if each["kind"] == "Event" else each)


def _about(sandbox):
    (pod,) = [each for each in sandbox.objects("Pod") if each["metadata"]["name"] == "stuck"]
    return {"kind": "Pod", "namespace": "team-a", "name": "stuck", "uid": pod["metadata"]["uid"]}


@pytest.mark.usefixtures("stuck")
async def test_bound_pod_that_does_not_start_is_explained_by_its_event(explain):
    done = await explain("pod/stuck", "-n", "team-a")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, BY_OBJECTS)
    assert done.stdout.startswith("pod team-a/stuck  stuck\n")
    assert NO_RUNTIME in " ".join(done.stdout.split())


@pytest.mark.usefixtures("stuck")
async def test_user_who_may_not_list_events_is_told_so(explain, sandbox):
    sandbox.faults.add(faults.failing(403, "Forbidden"), path="*/events")
    done = await explain("pod/stuck", "-n", "team-a")
    assert (
        "Note: you may not list Events in namespace team-a, so it is unknown why a node does not prepare the claims of a pod."
        in done.stderr
    )
    assert done.stdout.startswith("pod team-a/stuck  scheduled\n")
    assert "kubectl describe pod stuck -n team-a" in " ".join(done.stdout.split())


@pytest.mark.usefixtures("stuck")
async def test_events_of_the_user_complete_the_answer_of_the_service(explain, service, sandbox, rights):
    rights.of[ALICE] = "member"
    done = await explain("pod/stuck", "-n", "team-a", user=ALICE)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, BY_SERVICE)
    assert NO_RUNTIME in " ".join(done.stdout.split())


async def test_access_review_that_fails_sends_no_token_to_the_service(explain, sandbox):
    questions = sandbox.faults.add(faults.failing(500), verb="POST", path=f"{PROXY}/*")
    sandbox.faults.add(faults.failing(500), verb="POST", path="*/selfsubjectaccessreviews")
    done = await explain("claim/pretrain", "-n", "team-a", user=ALICE)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {sandbox.url}: etcdserver: leader changed\n")
    assert questions.hits == 0


UNKNOWN = (
    "Error: {}: it is unknown where this fits, because you may not list nodes, pods, resourceslices, resourceclaims and "
    "deviceclasses, and "
)


async def refusal(explain, sandbox, **user):
    done = await explain("claim/pretrain", "-n", "team-a", **user)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()[-1].removeprefix(UNKNOWN.format(sandbox.url))


async def test_user_without_the_right_is_told_which_one_to_ask_for(explain, service, sandbox, rights):
    rights.of[ALICE] = "nothing"
    assert await refusal(explain, sandbox, user=ALICE) == (
        f'The user "{ALICE}" may not get gpuexplanations.gpu-admission.io in namespace team-a; an administrator allows it '
        "with kubectl create rolebinding explain -n team-a --clusterrole=gpu-admission-explain-view "
        "--serviceaccount=team-a:alice"
    )


async def test_user_who_may_not_reach_the_service_is_told_what_to_ask_for(explain, sandbox, rights):
    rights.of[ALICE] = "member"
    sandbox.faults.add(faults.failing(403, "Forbidden"), verb="POST", path=f"{PROXY}/*")
    assert (await refusal(explain, sandbox, user=ALICE)).endswith(
        "ask an administrator for kubectl create rolebinding explain -n gpu-admission --role=gpu-admission-explain-service "
        "--group=system:authenticated"
    )


async def test_cluster_without_the_service_is_reported(explain, sandbox, rights):
    rights.of[ALICE] = "member"
    sandbox.faults.add(faults.failing(404, "NotFound"), verb="POST", path=f"{PROXY}/*")
    assert await refusal(explain, sandbox, user=ALICE) == (
        "the Service gpu-admission-explain in namespace gpu-admission does not exist; ask an administrator to install "
        "gpu-admission with deploy/install.yaml of this version"
    )


async def test_service_that_cannot_be_reached_is_reported(explain, sandbox, rights):
    rights.of[ALICE] = "member"
    sandbox.faults.add(faults.failing(503, "ServiceUnavailable"), verb="POST", path=f"{PROXY}/*")
    said = await refusal(explain, sandbox, user=ALICE)
    assert said.startswith("the API server cannot reach the Service gpu-admission-explain in namespace gpu-admission (")
    assert said.endswith(
        "; ask an administrator whether its pods are ready, and whether a firewall or NetworkPolicy lets API servers reach "
        "port 8445 of them"
    )


PARTIAL = ["nodes", "resourceslices", "deviceclasses"]
"""What a user may list who sees the hardware, and not what others run on it."""


async def test_user_who_may_list_the_hardware_needs_no_service(explain, sandbox, rights):
    rights.of[ALICE] = PARTIAL
    sandbox.faults.add(faults.failing(404, "NotFound"), verb="POST", path=f"{PROXY}/*")
    for plural in ("pods", "resourceclaims"):
        sandbox.faults.add(faults.failing(403, "Forbidden"), verb="GET", path=f"*/{plural}")
    done = await explain("claim/pretrain", "-n", "team-a", user=ALICE)
    assert done.stdout.startswith("ResourceClaim team-a/pretrain  impossible\n")
    *warnings, method = done.stderr.splitlines()
    assert (done.returncode, sorted(warnings)) == (
        1,
        [
            "Warning: forbidden: list pods; it counts as unknown",
            "Warning: forbidden: list resourceclaims.resource.k8s.io; it counts as unknown",
        ],
    )
    assert method == (
        "Explained with what you may list: you may not list pods and resourceclaims, and the Service gpu-admission-explain "
        "in namespace gpu-admission does not exist; ask an administrator to install gpu-admission with deploy/install.yaml "
        "of this version."
    )


async def test_user_without_a_token_is_told_how_to_get_one(explain, service, sandbox, rights):
    rights.of["system:admin"] = "member"
    assert await refusal(explain, sandbox) == (
        "the Service gpu-admission-explain in namespace gpu-admission identifies users by bearer tokens, and these "
        "credentials are a client certificate or none; use a context with a token, for example of a service account: "
        "kubectl config set-credentials explain --token=$(kubectl create token NAME -n NAMESPACE)"
    )


@pytest.mark.parametrize("option", [["--live"], ["--kubeconfig", "x"], ["--context", "x"]], ids=lambda each: each[0])
def test_options_of_a_running_cluster_exclude_files(invoke, cluster, option):
    done = invoke("explain", "--cluster", cluster, *option, "claim/pretrain")
    assert done.exit_code == 2
    assert "--cluster is for files, and " in done.stderr


FITS = "none fits: fits none of 9 nodes, even if nothing were in use."


async def test_how_many_more_fit_is_counted_with_own_permissions(ask_fit):
    done = await ask_fit("claim/pretrain", "-n", "team-a")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "Counted with your own permissions.")
    assert done.stdout.splitlines()[:2] == [FITS, "Each is ResourceClaim team-a/pretrain."]


async def test_member_asks_the_service_how_many_more_fit(ask_fit, rights, service):
    rights.of[ALICE] = "member"
    done = await ask_fit("claim/pretrain", user=ALICE, namespace="team-a")
    assert done.stderr.splitlines()[-1] == BY_SERVICE.replace("Explained", "Counted")
    assert done.stdout.splitlines()[0] == FITS
