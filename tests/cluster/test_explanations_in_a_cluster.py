"""Explanations for a member of one namespace, through the API server's proxy to the Service."""

import os
import random
import socket
from urllib.parse import urlsplit

import pytest

from testbed import deploy, manifests
from testbed.commands import run_command
from testbed.control_plane import kubeconfig
from testbed.relay import Relay
from testbed.waiting import until
from webhook.cli.explain.live_explanations import PROXY
from webhook.cluster.resources import RESOURCES

RBAC = "rbac.authorization.k8s.io"
NAME = "gpu-admission-explain"


def _address():
    """An address of this machine that an endpoint may have, which a loopback address is not; empty without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        try:
            datagrams.connect(("192.0.2.1", 9))  # a datagram socket sends nothing to connect
        except OSError:
            return ""
        return datagrams.getsockname()[0]


@pytest.fixture
def service(real, background):
    """The Service of deploy/, whose pod is this machine."""
    address = _address()
    if not address or address.startswith("127.") or real.control_plane is None:
        pytest.skip("API servers reach a Service of this machine only at an address that is no loopback address")
    installed = {(each["kind"], each["metadata"]["name"]): each for each in deploy.all_objects()}
    found, template = installed["Service", NAME], installed["Deployment", "gpu-admission"]["spec"]["template"]
    relay = Relay(random.Random(1), ("127.0.0.1", urlsplit(real.service.explain_url).port))
    endpoints = f"/api/v1/namespaces/{deploy.NAMESPACE}/endpoints"
    metadata = {"name": NAME, "namespace": deploy.NAMESPACE}
    try:
        _, port = background.run(relay.listen(address))
        spec = {key: value for key, value in found["spec"].items() if key != "selector"}
        assert real.create({**found, "spec": spec}).accepted
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**template["spec"], "nodeName": "none"},
        }
        assert real.create(pod).accepted
        status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
        assert real.patch("Pod", NAME, deploy.NAMESPACE, body=status, subresource="status").accepted
        target = {"ip": address, "targetRef": {"kind": "Pod", **metadata}}
        subsets = [{"addresses": [target], "ports": [{"name": "https", "port": port}]}]
        body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
        assert real.api.request("POST", endpoints, {}, body).accepted
        yield
    finally:
        real.api.request("DELETE", f"{endpoints}/{NAME}")
        real.delete("Service", NAME, deploy.NAMESPACE)
        real.delete("Pod", NAME, deploy.NAMESPACE, gracePeriodSeconds=0)
        background.run(relay.close())


@pytest.fixture
def team(real):
    """A namespace with a pod that no node can serve."""
    team = real.namespace()
    assert real.create(manifests.pod(team, "train", gpus=16)).accepted
    return team


@pytest.fixture
def explain(real, service, team, tmp_path):
    """Explain the pod as a service account of the namespace, which has the role or has it not."""

    def explain(*, role=""):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "alice", "namespace": team}}
        assert real.create(account).accepted
        if role:
            binding = {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "explain", "namespace": team},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "alice", "namespace": team}],
            }
            assert real.create(binding).accepted
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = RESOURCES["ServiceAccount"].path(team, "alice", "token")
        token = real.api.request("POST", path, {}, request).object["status"]["token"]
        file = tmp_path / "kubeconfig"
        file.write_text(kubeconfig(real.api.access.url, real.api.access.ca, token))
        environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        arguments = ("explain", "--kubeconfig", file, "-n", team, "pod/train")
        return run_command(*arguments, cwd=tmp_path, environment=environment)

    return explain


@pytest.mark.parametrize("role", ["gpu-admission-explain-view", "view"])
def test_member_of_a_namespace_gets_an_explanation_without_names_of_nodes(real, explain, team, role):
    if role == "view" and not real.makes_pods:
        pytest.skip("no kube-controller-manager runs here, which aggregates roles")
    if role == "view":
        until(lambda: _aggregates(real), "view includes explanations")
    done = explain(role=role)
    assert done.stderr.splitlines()[-1] == (
        "Explained by the Service gpu-admission-explain, which got your bearer token, because you may not list nodes, pods, "
        "resourceslices, resourceclaims and deviceclasses."
    )
    assert done.stdout.startswith(f"pod {team}/train  impossible\n")
    assert not any(node in done.stdout for node in real.nodes)


def _aggregates(real):
    rules = real.get("ClusterRole", "view").object["rules"]
    return any("gpuexplanations" in rule.get("resources", ()) for rule in rules)


def test_stranger_is_told_which_right_to_ask_for(explain, team):
    done = explain()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith(
        f'The user "system:serviceaccount:{team}:alice" may not get gpuexplanations.gpu-admission.io in namespace {team}; '
        f"an administrator allows it with kubectl create rolebinding explain -n {team} "
        f"--clusterrole=gpu-admission-explain-view --serviceaccount={team}:alice"
    )


SEGMENT = "https:gpu-admission-explain:https"


@pytest.mark.parametrize(
    ("method", "segment", "code"),
    [
        ("POST", SEGMENT, 401),
        ("GET", SEGMENT, 403),
        ("POST", "https:gpu-admission-explain:443", 403),
        ("POST", "gpu-admission-explain", 403),
        ("POST", "https:gpu-admission:webhook", 403),
        ("POST", "gpu-admission:probes", 403),
    ],
)
def test_users_reach_this_port_of_this_service_and_no_other(real, service, method, segment, code):
    path = f"{PROXY.replace(SEGMENT, segment)}/v1/explain"
    user = real.by("gpu-admission-test-user")
    body = None if method == "GET" else {}
    assert user.request(method, path, {}, body).code == code


def test_user_who_may_list_everything_reads_the_cluster(real, team, tmp_path):
    arguments = ("explain", "--kubeconfig", real.kubeconfig, "-n", team, "pod/train")
    done = run_command(*arguments, cwd=tmp_path, environment=os.environ)
    assert done.stderr.splitlines()[-1] == "Explained with your own permissions."
    assert done.stdout.startswith(f"pod {team}/train  impossible\n")
    assert all(node in done.stdout for node in real.nodes)
