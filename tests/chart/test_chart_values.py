"""Each value has its effect, and any combination of values is rendered."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from testbed import libyaml
from tests.properties import examples

VALUES = libyaml.load((Path(__file__).parents[2] / "deploy" / "chart" / "values.yaml").read_text())
CHOSEN_BY_USERS = {"resources", "nodeSelector", "affinity", "podLabels", "podAnnotations", "settings.spec"}
CHOSEN_BY_USERS |= {"monitoring.labels", "monitoring.dashboardLabels", "commonLabels", "commonAnnotations"}
CHOSEN_BY_USERS |= {"deploymentAnnotations", "serviceAnnotations", "serviceAccountAnnotations"}
"""Values that are objects of the user's own."""
OURS = ("gpu-admission", "gpu-admission")
LABELS = {"app.kubernetes.io/name": "gpu-admission", "app.kubernetes.io/part-of": "gpu-admission"}
PEM = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
SPREAD = [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]


def leaves(values, path=()):
    """The names of all values."""
    for key, value in values.items():
        name = ".".join((*path, key))
        if isinstance(value, dict) and name not in CHOSEN_BY_USERS:
            yield from leaves(value, (*path, key))
        else:
            yield name


def nested(name, value):
    """Values with one of this name."""
    for key in reversed(name.split(".")):
        value = {key: value}
    return value


def alert_of(objects):
    return objects["PrometheusRule", *OURS]["spec"]["groups"][0]["rules"][0]


def dashboard_of(objects):
    return json.loads(objects["ConfigMap", "gpu-admission", "gpu-admission-dashboard"]["data"]["gpu-admission.json"])


def pod(objects):
    return objects["Deployment", *OURS]["spec"]["template"]["spec"]


def annotations(objects, kind):
    return {name: each["metadata"].get("annotations") for (found, _, name), each in objects.items() if found == kind}


def host_ports(objects):
    """The ports of the pods by name, and those that the NetworkPolicy lets in and out of them."""
    policy = objects["NetworkPolicy", *OURS]["spec"]
    let_in = [each["port"] for rule in policy["ingress"] for each in rule["ports"]]
    return (
        {each["name"]: each["containerPort"] for each in container(objects)["ports"]},
        let_in,
        policy["egress"][1]["ports"],
    )


def container(objects):
    return pod(objects)["containers"][0]


def issuers(objects):
    """The names of certificates and issuers, and the issuer of the last certificate."""
    names = [name for kind, _, name in objects if kind in ("Certificate", "Issuer")]
    return names, objects["Certificate", *OURS]["spec"]["issuerRef"]


def webhook_bundles(objects):
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return {each["clientConfig"].get("caBundle") for kind in kinds for each in objects[kind, "", OURS[0]]["webhooks"]}


CASES = {
    "global.imageRegistry": (
        "mirror.example.com/hub",
        lambda o: container(o)["image"],
        f"mirror.example.com/hub/gpu-admission:{version('gpu-admission')}",
    ),
    "global.imagePullSecrets": (
        ["a", {"name": "b"}],
        lambda o: pod(o)["imagePullSecrets"],
        [{"name": "a"}, {"name": "b"}],
    ),
    "commonLabels": (
        {"team": "a"},
        lambda o: {
            each["metadata"]["labels"].get("team") for each in [*o.values(), o["Deployment", *OURS]["spec"]["template"]]
        },
        {"a"},
    ),
    "commonAnnotations": (
        {"a/b": "c"},
        lambda o: {each["metadata"]["annotations"]["a/b"] for each in o.values()},
        {"c"},
    ),
    "deploymentAnnotations": ({"a/b": "c"}, lambda o: annotations(o, "Deployment"), {"gpu-admission": {"a/b": "c"}}),
    "serviceAnnotations": (
        {"a/b": "c"},
        lambda o: annotations(o, "Service"),
        {"gpu-admission": {"a/b": "c"}, "gpu-admission-explain": {"a/b": "c"}},
    ),
    "serviceAccountAnnotations": (
        {"a/b": "c"},
        lambda o: annotations(o, "ServiceAccount"),
        {"gpu-admission": {"a/b": "c"}},
    ),
    "extraEnv": ([{"name": "A", "value": "1"}], lambda o: container(o)["env"][-1], {"name": "A", "value": "1"}),
    "hostNetwork": (
        True,
        lambda o: (
            pod(o)["hostNetwork"],
            pod(o)["dnsPolicy"],
            o["Deployment", *OURS]["spec"]["strategy"]["rollingUpdate"],
        ),
        (True, "ClusterFirstWithHostNet", {"maxSurge": 0, "maxUnavailable": 1}),
    ),
    "dnsPolicy": ("Default", lambda o: pod(o)["dnsPolicy"], "Default"),
    "ports.probes": (
        9080,
        lambda o: (host_ports(o)[0]["probes"], host_ports(o)[1], "--probe-port=9080" in container(o)["args"]),
        (9080, [8443, 8445, 9080, 8444], True),
    ),
    "ports.peers": (
        9444,
        lambda o: (host_ports(o), "--peer-port=9444" in container(o)["args"]),
        (
            (
                {"webhook": 8443, "probes": 8080, "peers": 9444, "explain": 8445},
                [8443, 8445, 8080, 9444],
                [{"port": 9444, "protocol": "TCP"}],
            ),
            True,
        ),
    ),
    "ports.explain": (
        9445,
        lambda o: (host_ports(o)[0]["explain"], host_ports(o)[1], "--explain-port=9445" in container(o)["args"]),
        (9445, [8443, 9445, 8080, 8444], True),
    ),
    "image.repository": (
        "registry.example.com/a",
        lambda o: container(o)["image"],
        f"registry.example.com/a:{version('gpu-admission')}",
    ),
    "image.tag": ("dev", lambda o: container(o)["image"], "gpu-admission:dev"),
    "image.digest": (
        "sha256:" + "0" * 64,
        lambda o: container(o)["image"],
        "gpu-admission@sha256:" + "0" * 64,
    ),
    "image.pullPolicy": ("Always", lambda o: container(o)["imagePullPolicy"], "Always"),
    "imagePullSecrets": ([{"name": "r"}], lambda o: pod(o)["imagePullSecrets"], [{"name": "r"}]),
    "replicas": (3, lambda o: o["Deployment", *OURS]["spec"]["replicas"], 3),
    "resources": (
        {"limits": {"memory": "1Gi"}},
        lambda o: container(o)["resources"],
        {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "384Mi"}},
    ),
    "logLevel": ("debug", lambda o: {"name": "LOG_LEVEL", "value": "debug"} in container(o)["env"], True),
    "port": (10250, lambda o: [each["containerPort"] for each in container(o)["ports"]], [10250, 8080, 8444, 8445]),
    "certificates.mode": (
        "cert-manager",
        lambda o: pod(o)["volumes"],
        [{"name": "certificate", "secret": {"secretName": "gpu-admission-tls", "defaultMode": 288}}],
    ),
    "networkPolicy.enabled": (False, lambda o: ("NetworkPolicy", *OURS) in o, False),
    "networkPolicy.apiServers": (
        ["192.0.2.1/32"],
        lambda o: o["NetworkPolicy", *OURS]["spec"]["ingress"][0]["from"],
        [{"ipBlock": {"cidr": "192.0.2.1/32"}}],
    ),
    "networkPolicy.probes": (
        [{"ipBlock": {"cidr": "192.0.2.0/24"}}, {"namespaceSelector": {"matchLabels": {"a": "b"}}}],
        lambda o: o["NetworkPolicy", *OURS]["spec"]["ingress"][1],
        {
            "from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}, {"namespaceSelector": {"matchLabels": {"a": "b"}}}],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        },
    ),
    "networkPolicy.egress.apiServers": (
        ["192.0.2.1/32"],
        lambda o: o["NetworkPolicy", *OURS]["spec"]["egress"][0].get("to"),
        [{"ipBlock": {"cidr": "192.0.2.1/32"}}],
    ),
    "networkPolicy.egress.ports": (
        [7443],
        lambda o: o["NetworkPolicy", *OURS]["spec"]["egress"][0]["ports"],
        [{"port": 7443, "protocol": "TCP"}],
    ),
    "networkPolicy.egress.more": (
        [{"to": [{"podSelector": {"matchLabels": {"a": "b"}}}]}],
        lambda o: o["NetworkPolicy", *OURS]["spec"]["egress"][1],
        {"to": [{"podSelector": {"matchLabels": {"a": "b"}}}]},
    ),
    "ui.enabled": (True, lambda o: "--ui-port=8446" in container(o)["args"], True),
    "priorityClassName": (
        "",
        lambda o: ("priorityClassName" in pod(o), any(kind == "ResourceQuota" for kind, *_ in o)),
        (False, False),
    ),
    "podDisruptionBudget.enabled": (False, lambda o: ("PodDisruptionBudget", *OURS) in o, False),
    "podDisruptionBudget.maxUnavailable": (
        "25%",
        lambda o: o["PodDisruptionBudget", *OURS]["spec"]["maxUnavailable"],
        "25%",
    ),
    "nodeSelector": (
        {"pool": "system"},
        lambda o: pod(o)["nodeSelector"],
        {"kubernetes.io/os": "linux", "pool": "system"},
    ),
    "tolerations": ([{"operator": "Exists"}], lambda o: pod(o)["tolerations"], [{"operator": "Exists"}]),
    "affinity": ({"nodeAffinity": None}, lambda o: "affinity" in pod(o), False),
    "topologySpreadConstraints": (SPREAD, lambda o: pod(o)["topologySpreadConstraints"], SPREAD),
    "podLabels": (
        {"team": "a"},
        lambda o: o["Deployment", *OURS]["spec"]["template"]["metadata"]["labels"],
        {**LABELS, "app.kubernetes.io/component": "service", "team": "a"},
    ),
    "podAnnotations": (
        {"a/b": "true"},
        lambda o: o["Deployment", *OURS]["spec"]["template"]["metadata"]["annotations"],
        {"kubectl.kubernetes.io/default-container": "gpu-admission", "a/b": "true"},
    ),
    "openshift": (True, lambda o: "runAsUser" in pod(o)["securityContext"], False),
    "monitoring.enabled": (True, lambda o: ("PrometheusRule", *OURS) in o, True),
    "adminAccess.enabled": (False, lambda o: ("ClusterRole", "", "gpu-admission-admin-access") in o, False),
    "explainOnPods.enabled": (True, lambda o: ("ClusterRole", "", "gpu-admission-explain-on-pods") in o, True),
    "gpuOperator.namespaces": (["gpu-operator"], lambda o: ("RoleBinding", "gpu-operator", "gpu-admission") in o, True),
}
"""A value of a name, what to look at, and what it must be then."""

OF_MODES = {
    "ui.clients": (
        ["192.0.2.1/32"],
        lambda o: o["NetworkPolicy", *OURS]["spec"]["ingress"][-1],
        {"from": [{"ipBlock": {"cidr": "192.0.2.1/32"}}], "ports": [{"port": 8446, "protocol": "TCP"}]},
    ),
    "ports.ui": (
        9446,
        lambda o: (host_ports(o)[0]["ui"], host_ports(o)[1][-1], "--ui-port=9446" in container(o)["args"]),
        (9446, 9446, True),
    ),
    "certificates.issuerRef.name": (
        "corp",
        issuers,
        (["gpu-admission"], {"group": "cert-manager.io", "kind": "Issuer", "name": "corp"}),
    ),
    "certificates.issuerRef.kind": (
        "ClusterIssuer",
        issuers,
        (["gpu-admission"], {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "corp"}),
    ),
    "certificates.issuerRef.group": (
        "a.example",
        issuers,
        (["gpu-admission"], {"group": "a.example", "kind": "Issuer", "name": "corp"}),
    ),
    "certificates.secretName": ("own", lambda o: pod(o)["volumes"][0]["secret"]["secretName"], "own"),
    "certificates.caBundle": (
        PEM,
        webhook_bundles,
        {"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tClFRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="},
    ),
    "clientCA.configMap": (
        "clients",
        lambda o: [each for each in container(o)["args"] if each.startswith("--client")],
        ["--client-ca=/etc/gpu-admission/clients/ca.crt", "--client-name=kube-apiserver"],
    ),
    "clientCA.names": (
        ["a", "b"],
        lambda o: [each for each in container(o)["args"] if each.startswith("--client-name")],
        ["--client-name=a", "--client-name=b"],
    ),
    "monitoring.labels": (
        {"release": "p"},
        lambda o: [o[kind, *OURS]["metadata"]["labels"]["release"] for kind in ("ServiceMonitor", "PrometheusRule")],
        ["p", "p"],
    ),
    "monitoring.dashboardLabels": (
        {"grafana_dashboard": None, "folder": "gpu"},
        lambda o: o["ConfigMap", "gpu-admission", "gpu-admission-dashboard"]["metadata"]["labels"],
        {**LABELS, "app.kubernetes.io/component": "monitoring", "folder": "gpu"},
    ),
    "monitoring.docsURL": (
        "https://git.example.com/docs/PAGE.md",
        lambda o: [alert_of(o)["annotations"]["runbook_url"], dashboard_of(o)["links"][0]["url"]],
        ["https://git.example.com/docs/runbook.md#gpuadmissiondown", "https://git.example.com/docs/runbook.md"],
    ),
}
"""The same for values that need another one."""
NEEDED = {
    "certificates.issuerRef": {"certificates": {"mode": "cert-manager", "issuerRef": {"name": "corp"}}},
    "certificates": {"certificates": {"mode": "secret"}},
    "ports": {"ui": {"enabled": True}},
    "clientCA": {"clientCA": {"configMap": "clients"}},
    "ui": {"ui": {"enabled": True}},
    "monitoring": {"monitoring": {"enabled": True}},
}
OF_HOOKS = {"settings.create", "settings.spec", "hooks.timeoutSeconds"}
"""Values of test_chart_hooks.py."""


def needed(name):
    """The values without which one of this name has no effect."""
    return next((more for prefix, more in NEEDED.items() if name.startswith(f"{prefix}.")), {})


def merged(values, more):
    """Values with more of them."""
    result = dict(values)
    for key, value in more.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def test_every_value_is_tried():
    assert {*leaves(VALUES)} == CASES.keys() | OF_MODES.keys() | OF_HOOKS


@pytest.mark.parametrize("name", CASES)
def test_value_has_its_effect(chart, name):
    value, look, expected = CASES[name]
    assert look(chart(nested(name, value))) == expected


@pytest.mark.parametrize("name", OF_MODES)
def test_value_has_its_effect_with_another_one(chart, name):
    value, look, expected = OF_MODES[name]
    assert look(chart(merged(needed(name), nested(name, value)))) == expected


def test_registry_of_all_images_takes_the_place_of_one(chart):
    values = {
        "global": {"imageRegistry": "mirror.example.com"},
        "image": {"repository": "registry.example.com:5000/a/b"},
    }
    assert container(chart(values))["image"] == f"mirror.example.com/a/b:{version('gpu-admission')}"


def test_jobs_have_the_network_and_the_nodes_of_the_replicas(helm):
    values = {"hostNetwork": True, "tolerations": [{"operator": "Exists"}], "global": {"imagePullSecrets": ["r"]}}
    documents = helm.template(values)
    replicas, *others = (
        each["spec"].get("template", each)["spec"] for each in documents if each["kind"] in ("Deployment", "Job", "Pod")
    )
    fields = (
        "hostNetwork",
        "dnsPolicy",
        "tolerations",
        "affinity",
        "nodeSelector",
        "imagePullSecrets",
        "priorityClassName",
    )
    assert len(others) == 4
    assert [{name: each[name] for name in fields} for each in others] == [{name: replicas[name] for name in fields}] * 4


def test_certificate_of_a_secret_needs_no_right_to_write_one(chart):
    objects = chart({"certificates": {"mode": "secret"}})
    assert not any(name == "gpu-admission-certificates" for *_, name in objects)
    assert not any(kind == "Certificate" for kind, *_ in objects)


@given(st.lists(st.sampled_from(sorted(CASES.keys() | OF_MODES.keys())), unique=True))
@settings(max_examples=examples(5), phases=[Phase.generate])
def test_values_combine(chart, names):
    values = {}
    for name in names:
        more = needed(name) if name in OF_MODES else {}
        values = merged(values, merged(nested(name, {**CASES, **OF_MODES}[name][0]), more))
    if values.get("certificates", {}).get("caBundle"):
        values["certificates"] |= {"mode": "secret", "issuerRef": {}}
    elif values.get("certificates", {}).get("issuerRef"):
        values["certificates"]["mode"] = "cert-manager"
    objects = chart(values)
    assert ("Deployment", *OURS) in objects
    mounts = {each["name"] for each in container(objects).get("volumeMounts", ())}
    assert mounts == {each["name"] for each in pod(objects).get("volumes", ())}


@pytest.mark.parametrize("name", ["yes", "1", "null", "0x1f"])
def test_names_that_yaml_reads_as_something_else_stay_texts(chart, name):
    objects = chart(
        {
            "priorityClassName": name,
            "clientCA": {"configMap": name},
            "certificates": {"mode": "secret", "secretName": name},
            "gpuOperator": {"namespaces": [name]},
        }
    )
    assert pod(objects)["priorityClassName"] == name
    volumes = {each["name"]: each for each in pod(objects)["volumes"]}
    assert volumes["certificate"]["secret"]["secretName"] == name
    assert volumes["clients"]["configMap"]["name"] == name
    assert ("RoleBinding", name, "gpu-admission") in objects


def test_namespaces_of_settings_are_escaped_in_expressions(chart):
    objects = chart({"settings": {"spec": {"quota": {"exemptNamespaces": ['a", "b\\']}}}})
    policy = objects["ValidatingAdmissionPolicy", "", "namespace-labels.gpu-admission.io"]
    expressions = [each["expression"] for each in policy["spec"]["validations"]]
    assert any(r'"a\", \"b\\"]' in each for each in expressions)
