"""The Deployment and what surrounds it: flags that exist, ports that meet, time to drain."""

import re

import click
import pytest

from release.project import version
from webhook.cli.commands.serve import serve_command
from webhook.controllers.replica_config import EXPLAIN_SERVICE
from webhook.server.config import ServerConfig
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness, create_probes

LABELS = {"app.kubernetes.io/name": "gpu-admission"}


@pytest.fixture(scope="module")
def pod(one):
    return one("Deployment")["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod):
    (container,) = pod["containers"]
    return container


@pytest.fixture(scope="module")
def flags(container):
    """The flags of the container, with its environment put in."""
    values = {each["name"]: each.get("value", "") for each in container["env"]}
    first, *flags = container["args"]
    assert first == "serve"
    for name, value in values.items():
        flags = [flag.replace(f"$({name})", value) for flag in flags]
    return dict(flag.removeprefix("--").partition("=")[::2] for flag in flags)


def test_every_flag_exists_and_takes_its_value(flags):
    options = {option.removeprefix("--"): each for each in serve_command.params for option in each.opts}
    for flag, value in flags.items():
        options[flag].type_cast_value(click.Context(serve_command), value)


def test_every_variable_is_read(container):
    read = {option.envvar for option in serve_command.params} | set(
        re.findall(r"\$\((\w+)\)", " ".join(container["args"]))
    )
    assert {each["name"] for each in container["env"]} <= read


def test_ports_meet(one, container, flags):
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    defaults = {option.name: option.default for option in serve_command.params}
    assert ports == {
        "webhook": int(flags["port"]),
        "probes": int(flags["probe-port"]),
        "peers": defaults["peer_port"],
        "explain": defaults["explain_port"],
    }
    service = one("Service", "gpu-admission")["spec"]
    assert {port["name"]: (port["port"], port["targetPort"]) for port in service["ports"]} == {
        "webhook": (443, "webhook"),
        "probes": (8080, "probes"),
    }
    opened = [port["port"] for rule in one("NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]]
    assert sorted(opened) == sorted(ports.values())
    (peers,) = (rule for rule in one("NetworkPolicy")["spec"]["egress"] if "to" in rule)
    assert peers == {
        "to": [{"podSelector": {"matchLabels": LABELS}}],
        "ports": [{"port": ports["peers"], "protocol": "TCP"}],
    }
    explanations = one("Service", EXPLAIN_SERVICE)["spec"]
    assert [(port["name"], port["port"], port["targetPort"]) for port in explanations["ports"]] == [
        ("https", 443, "explain")
    ]
    assert explanations["selector"] == service["selector"]


def test_webhooks_call_the_service(one, webhooks):
    service = one("Service", "gpu-admission")
    for webhook in webhooks.values():
        called = webhook["clientConfig"]["service"]
        assert (called["name"], called["namespace"]) == (service["metadata"]["name"], service["metadata"]["namespace"])
        assert called["port"] == service["spec"]["ports"][0]["port"]


def test_selectors_meet_the_pods(one):
    deployment = one("Deployment")
    assert deployment["spec"]["selector"]["matchLabels"] == LABELS
    assert deployment["spec"]["template"]["metadata"]["labels"].items() >= LABELS.items()
    assert one("Service", "gpu-admission")["spec"]["selector"] == LABELS
    assert one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == LABELS
    assert one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == LABELS
    spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert [each["labelSelector"]["matchLabels"] for each in spread] == [LABELS] * 2


def test_probes_request_paths_that_are_served(container):
    served = {resource.canonical for resource in create_probes(Readiness([]), Metrics()).router.resources()}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in served
        assert container[probe]["httpGet"]["port"] == "probes"


def test_kubelet_waits_longer_than_draining_takes(pod, flags):
    config = ServerConfig(certificate=None)
    assert float(flags["drain-delay"]) >= config.drain_delay
    assert pod["terminationGracePeriodSeconds"] >= float(flags["drain-delay"]) + config.drain_timeout + 10


def test_rollout_and_drain_leave_one_serving(one):
    assert one("Deployment")["spec"]["replicas"] == 2
    assert one("Deployment")["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_pod_meets_the_restricted_standard(one, pod, container):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert "volumes" not in pod


def test_cpu_is_not_limited(container):
    assert container["resources"]["limits"].keys() == {"memory"}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_priority_is_allowed_by_the_quota_of_the_namespace(one, pod):
    (scope,) = one("ResourceQuota")["spec"]["scopeSelector"]["matchExpressions"]
    assert pod["priorityClassName"] in scope["values"]


def test_token_is_mounted_where_it_is_requested(one, pod):
    assert one("ServiceAccount")["automountServiceAccountToken"] is False
    assert (pod["automountServiceAccountToken"], pod["serviceAccountName"]) == (True, "gpu-admission")


def test_version_is_that_of_the_program(container):
    assert container["image"] == f"gpu-admission:{version()}"


def test_image_runs_as_the_user_of_the_manifest(pod, deploy):
    user = f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    lines = (deploy.parent / "Dockerfile").read_text().splitlines()
    assert f"USER {user}" in lines
    assert [line for line in lines if line.startswith(("ENTRYPOINT", "CMD"))] == [
        'ENTRYPOINT ["/usr/local/bin/gpu-admission"]',
        'CMD ["serve"]',
    ]
