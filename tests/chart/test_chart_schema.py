"""values.schema.json refuses what is wrong, and knows every value."""

import json
from pathlib import Path

import jsonschema
import pytest

from testbed import libyaml

CHART = Path(__file__).parents[2] / "deploy" / "chart"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = libyaml.load((CHART / "values.yaml").read_text())
HEAD = "Error: values don't meet the specifications of the schema(s) in the following chart(s):\ngpu-admission:\n- at '{}': {}\n"
NO_REPOSITORY = (
    "does not match pattern '^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+$|^[a-z0-9][a-z0-9._-]*$'"
)
REFUSED = [
    ({"replica": 3}, "", "additional properties 'replica' not allowed"),
    ({"image": {"name": "x"}}, "/image", "additional properties 'name' not allowed"),
    ({"image": {"digest": "0.1.0"}}, "/image/digest", "'0.1.0' does not match pattern '^(sha256:[0-9a-f]{64})?$'"),
    ({"image": {"repository": "a b"}}, "/image/repository", f"'a b' {NO_REPOSITORY}"),
    ({"image": {"repository": '"a'}}, "/image/repository", f"'\"a' {NO_REPOSITORY}"),
    (
        {"image": {"repository": "registry.example.com/a:1"}},
        "/image/repository",
        f"'registry.example.com/a:1' {NO_REPOSITORY}",
    ),
    ({"image": None}, "", "missing property 'image'"),
    ({"podLabels": None}, "", "missing property 'podLabels'"),
    ({"certificates": {"mode": None}}, "/certificates", "missing property 'mode'"),
    ({"settings": {"spec": None}}, "/settings", "missing property 'spec'"),
    ({"imagePullSecrets": ["r"]}, "/imagePullSecrets/0", "got string, want object"),
    ({"replicas": "3"}, "/replicas", "got string, want integer"),
    ({"replicas": 0}, "/replicas", "minimum: got 0, want 1"),
    ({"logLevel": "trace"}, "/logLevel", "value must be one of 'debug', 'info', 'warning', 'error'"),
    ({"port": 443}, "/port", "minimum: got 443, want 1,024"),
    ({"certificates": {"mode": "own"}}, "/certificates/mode", "value must be one of 'self', 'cert-manager', 'secret'"),
    ({"clientCA": {"names": []}}, "/clientCA/names", "minItems: got 0, want 1"),
    (
        {"networkPolicy": {"probes": [{"cidr": "192.0.2.0/24"}]}},
        "/networkPolicy/probes/0",
        "additional properties 'cidr' not allowed",
    ),
    (
        {"networkPolicy": {"apiServers": ["192.0.2.1"]}},
        "/networkPolicy/apiServers/0",
        "'192.0.2.1' does not match pattern '^[0-9a-fA-F.:]+/[0-9]{1,3}$'",
    ),
    ({"openshift": "yes"}, "/openshift", "got string, want boolean"),
    ({"hooks": {"timeoutSeconds": 5}}, "/hooks/timeoutSeconds", "minimum: got 5, want 30"),
    ({"settings": {"spec": {"acces": {}}}}, "/settings/spec", "additional properties 'acces' not allowed"),
    (
        {"settings": {"spec": {"access": {"mode": "never"}}}},
        "/settings/spec/access/mode",
        "value must be one of 'warn', 'deny'",
    ),
]
CHECKED = [
    (
        {"port": 8444},
        "port: 8444 is ports.peers too; use another one, such as 8443 or 10250",
    ),
    ({"ports": {"ui": 8080}}, "ports.probes: 8080 is ports.ui too; use another one"),
    (
        {"extraEnv": [{"name": "PORT", "value": "1"}]},
        "extraEnv: PORT cannot be set, because the chart sets it; use the values port and logLevel, or remove it",
    ),
    (
        {"certificates": {"issuerRef": {"name": "corp"}}},
        "certificates.issuerRef: only cert-manager uses an issuer; set certificates.mode to cert-manager, or remove the name",
    ),
    (
        {"certificates": {"caBundle": "-----BEGIN CERTIFICATE-----"}},
        (
            "certificates.caBundle: gpu-admission writes it if certificates.mode is self; leave it empty, or set certificates.mode "
            "to secret"
        ),
    ),
    (
        {"settings": {"spec": {"explain": {"onPods": True}}}},
        "settings.spec.explain.onPods: gpu-admission may not write to pods; set explainOnPods.enabled to true as well",
    ),
    (
        {"commonLabels": {"app.kubernetes.io/name": "x"}},
        "commonLabels: app.kubernetes.io/name cannot be set, because the Services and the Deployment select pods by it; remove it",
    ),
    (
        {"podLabels": {"app.kubernetes.io/name": "x"}},
        "podLabels: app.kubernetes.io/name cannot be set, because the Services and the Deployment select pods by it; remove it",
    ),
]


def objects(schema):
    """All schemas of objects with properties, with their paths."""

    def walk(schema, path):
        if isinstance(schema, dict):
            if "properties" in schema and isinstance(schema["properties"], dict) and schema.get("type") == "object":
                yield path, schema
            for key, inner in schema.items():
                yield from walk(inner, f"{path}/{key}")

    return walk(schema, "")


def test_schema_is_valid_and_accepts_the_defaults():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.Draft7Validator(SCHEMA).validate(VALUES)


def test_every_object_refuses_unknown_fields():
    found = list(objects(SCHEMA))
    assert len(found) > 20
    assert [path for path, schema in found if schema.get("additionalProperties") is not False] == ["/properties/global"]


def test_schema_and_values_have_the_same_names():
    def names(schema, values, path):
        assert schema["properties"].keys() == values.keys(), path
        for key, inner in schema["properties"].items():
            assert inner.get("description"), f"{path}/{key}"
            if "properties" in inner:
                names(inner, values[key], f"{path}/{key}")

    names(SCHEMA, VALUES, "")


@pytest.mark.parametrize(("values", "path", "said"), REFUSED, ids=[path or "unknown" for _, path, _ in REFUSED])
def test_wrong_values_are_refused(helm, values, path, said):
    assert helm.refusal(values).startswith(HEAD.format(path, said))


@pytest.mark.parametrize(
    ("values", "said"), CHECKED, ids=lambda given: next(iter(given)) if isinstance(given, dict) else ""
)
def test_values_that_contradict_each_other_are_refused(helm, values, said):
    assert f": {said}\n" in helm.refusal(values)


def test_another_namespace_is_refused(any_helm):
    done = any_helm.run("template", "gpu-admission", CHART, "-n", "other", "--kube-version", "v1.36.2")
    assert done.returncode == 1
    assert (
        'namespace "other": this chart must be installed into the namespace gpu-admission, which the program, its certificate '
        "and its webhooks name; add --namespace gpu-admission --create-namespace\n"
    ) in done.stderr


def test_another_name_of_the_release_is_refused(any_helm):
    done = any_helm.run("template", "gpus", CHART, "-n", "gpu-admission", "--kube-version", "v1.36.2")
    assert done.returncode == 1
    assert (
        'release "gpus": the release must be called gpu-admission, because a cluster has one installation, and its CRDs stay '
        "when the release is removed: the next one takes them over\n"
    ) in done.stderr


def test_older_kubernetes_is_refused(any_helm):
    done = any_helm.run("template", "gpu-admission", CHART, "-n", "gpu-admission", "--kube-version", "v1.33.9")
    assert done.stderr.startswith(
        "Error: chart requires kubeVersion: >=1.34.0-0 which is incompatible with Kubernetes v1.33.9\n"
    )


def test_chart_is_linted_strictly(any_helm):
    lines = any_helm.output("lint", CHART, "-n", "gpu-admission", "--strict", "--kube-version", "v1.36.2").splitlines()
    assert [line for line in lines if line.startswith("[")] == ["[INFO] Chart.yaml: icon is recommended"]
