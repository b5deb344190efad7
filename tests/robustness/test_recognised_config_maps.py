"""A ConfigMap with a mistake is still recognised as GPU configuration, offline and in a cluster."""

import json

import pytest
from click.testing import CliRunner

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cli import main
from webhook.cluster.manifests import ManifestsView

SHARING = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
MIG = "version: v1\nmig-configs:\n  all-disabled:\n  - devices: all\n    mig-enabled: false\n"

both = pytest.mark.parametrize("entry", ["", "configuration"], ids=["offline", "in a cluster"])


def config_map(data, name="ours", namespace="gpu-operator"):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def findings(document, entry=""):
    metadata = document["metadata"]
    request = Request(
        document, kind="ConfigMap", namespace=metadata.get("namespace", ""), name=metadata["name"], entry=entry
    )
    return review(request, ManifestsView((), [document]), DEFAULTS).findings


def findings_of(document, entry=""):
    return [(each.rule.id, each.severity.value, str(each.path)) for each in findings(document, entry)]


@both
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"any": SHARING.replace("sharing", "shraing")}, ("GA135", "warn", "data.any.shraing")),
        ({"any": SHARING.replace("sharing", "sharings")}, ("GA135", "warn", "data.any.sharings")),
        ({"any": SHARING.replace("timeSlicing", "timeslices")}, ("GA135", "warn", "data.any.sharing.timeslices")),
        (
            {"any": "version: v1\nflags:\n  migStrateg: mixed\n  gdsEnabled: true"},
            ("GA135", "warn", "data.any.flags.migStrateg"),
        ),
        ({"any": "version: v1\nflags:\n  migStrategy: mixd"}, ("GA134", "deny", "data.any.flags.migStrategy")),
        ({"config.yaml": MIG.replace("mig-configs", "migconfigs")}, ("GA150", "deny", "data[config.yaml].migconfigs")),
        (
            {"config.yaml": MIG.replace("mig-configs", "mig_configs")},
            ("GA150", "deny", "data[config.yaml].mig_configs"),
        ),
        ({"dcgm-metrics.csv": "DCGM_FI_DEV_GPU_UTIL gauge"}, ("GA163", "deny", "data[dcgm-metrics.csv]")),
        ({"dcgm_metrics.csv": "DCGM_FI_DEV_GPU_UTIL, guage, text"}, ("GA162", "warn", "data[dcgm_metrics.csv]")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_misspelt_names_are_found_in_the_namespace_of_the_operator(data, expected, entry):
    assert expected in findings_of(config_map(data), entry)


@both
@pytest.mark.parametrize(
    ("key", "text", "rule", "place"),
    [
        ("any", SHARING.replace("    -", "   -"), "GA133", (5, 4)),
        ("any", SHARING.replace("sharing:", "shraing:").replace("    -", "   -"), "GA133", (5, 4)),
        ("any", SHARING.replace("  timeSlicing", "\ttimeSlicing"), "GA133", (3, 1)),
        ("config.yaml", MIG.replace("    mig-enabled", "   mig-enabled"), "GA149", (5, 4)),
        ("config.yaml", MIG.replace("mig-configs", "mig-config").replace("    mig-e", "   mig-e"), "GA149", (5, 4)),
    ],
)
def test_document_that_is_not_yaml_is_refused_with_its_line_and_column(key, text, rule, place, entry):
    (finding,) = (each for each in findings(config_map({key: text}), entry) if each.rule.id == rule)
    assert (finding.severity, finding.place.path) == ("deny", ("data", key))
    assert (finding.place.line, finding.place.column) == place


@both
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("time-slicing-config", "GA133"),
        ("time-slicing-config-all", "GA133"),
        ("time-slicing-config-fine-h6gtk2m8d9", "GA133"),
        ("device-plugin-config", "GA133"),
        ("nvidia-plugin-configs", "GA133"),
        ("custom-mig-config", "GA149"),
    ],
)
def test_names_of_nvidias_guides_are_known(name, rule, entry):
    assert rule in [each.rule.id for each in findings(config_map({"any": "nothing of use"}, name), entry)]


OTHERS = {
    "certificates": {"ca.crt": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"},
    "GPU clients": {"clients.yaml": "version: v1\nsystemd-services:\n- nvidia-dcgm.service\n"},
    "vGPU devices": {
        "config.yaml": "version: v1\nvgpu-configs:\n  default:\n  - devices: all\n    vgpu-devices: {A10-4C: 6}\n"
    },
    "node feature discovery": {
        "nfd-worker.conf": "core:\n  sleepInterval: 60s\nsources:\n  pci:\n    deviceLabelFields: [vendor]\n"
    },
    "Helm values": {
        "values.yaml": "mig: {strategy: mixed}\ndevicePlugin:\n  config:\n    name: time-slicing\n  mps: {root: /run}\n"
    },
    "dashboard": {"dcgm.json": '{"version": 1, "panels": [{"targets": [{"expr": "avg(DCGM_FI_DEV_GPU_UTIL)"}]}]}'},
    "script": {"entrypoint.sh": "#!/bin/sh\nexport MIG_STRATEGY: mixed\nexec nvidia-device-plugin\n"},
    "Prometheus": {
        "prometheus.yml": "global: {scrape_interval: 15s}\nscrape_configs:\n- job_name: gpu\n  sharding: 1\n"
    },
    "another version 1": {"config.yaml": "version: v1\nconfigs: {a: [{devices: all}]}\nflag: true\n"},
}


@both
@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_config_maps_of_others_are_left_alone_beside_the_operator(data, entry):
    assert findings_of(config_map(data), entry) == []


@both
@pytest.mark.parametrize(
    "data",
    [
        *OTHERS.values(),
        {"any": SHARING.replace("sharing", "shraing").replace("timeSlicing", "tenants")},
        {"config.yaml": MIG.replace("mig-configs", "my-configs")},
        {"config.yaml": "version: v1\nsharing: everything\nflags: {migStrategy: none}\n"},
        {"config.yaml": "version: v1\nsharing: [\n"},
        {"policy.yaml": "version: v1\nflags: {plugin: on}\nresources: {}\n"},
    ],
)
def test_config_maps_of_other_namespaces_are_left_alone(data, entry):
    found = findings_of(config_map(data, "time-slicing-config", "team-a"), entry)
    assert [each for each in found if each[0] != "GA705"] == []


@pytest.mark.parametrize("namespace", ["kube-system", "nvidia-device-plugin"])
def test_config_map_of_the_helm_chart_of_the_device_plugin_is_judged_offline(namespace):
    """github.com/NVIDIA/k8s-device-plugin/issues/1433: renameByDefault among the flags does nothing."""
    text = SHARING.replace("sharing", "flags:\n  migStrategy: none\n  renameByDefault: true\nsharing")
    document = config_map({"any": text}, "time-slicing-config", namespace)
    assert ("GA135", "warn", "data.any.flags.renameByDefault") in findings_of(document)


@pytest.fixture
def reviewed(tmp_path):
    """`reviewed(document, ...)`: the results of `gpu-admission review` of one file a document, in this order."""

    def run(*documents, options=()):
        files = []
        for number, document in enumerate(documents):
            file = tmp_path / f"{number}.json"
            file.write_text(json.dumps(document))
            files.append(str(file))
        done = CliRunner().invoke(main, ["review", "-o", "json", *options, *files])
        assert done.exit_code in (0, 1, 4), done.output
        return {result["object"]["kind"]: result for result in json.loads(done.stdout)}

    return run


def policy(**spec):
    required = (
        "operator",
        "daemonsets",
        "toolkit",
        "devicePlugin",
        "dcgm",
        "dcgmExporter",
        "gfd",
        "nodeStatusExporter",
    )
    driver = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.95.05"}
    whole = {**{name: {} for name in required}, "driver": driver, **spec}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": whole,
    }


NAMING = policy(devicePlugin={"config": {"name": "ours", "default": "any"}})
IN_EFFECT = (
    'ConfigMap "ours" is in effect: spec.devicePlugin.config.name of the ClusterPolicy "cluster-policy" names it'
)


@pytest.mark.parametrize("is_first", [True, False], ids=["config map first", "cluster policy first"])
@pytest.mark.parametrize("namespace", ["gpu-operator", ""], ids=["namespace", "no namespace"])
def test_documents_of_one_review_see_each_other_in_any_order(reviewed, is_first, namespace):
    # Only the ClusterPolicy tells that the device plugin is to read this.
    document = config_map({"any": "replicas of nvidia.com/gpu"}, namespace=namespace)
    results = reviewed(*([document, NAMING] if is_first else [NAMING, document]))
    assert [each["rule"] for each in results["ConfigMap"]["findings"]] == ["GA133"]
    assert " ".join(" ".join(results["ConfigMap"]["warnings"]).split()) == IN_EFFECT
    assert results["ClusterPolicy"]["findings"] == []


def test_namespace_of_the_command_line_counts_for_config_maps(reviewed):
    document = config_map({"any": SHARING.replace("sharing", "shraing")}, namespace="")
    assert reviewed(document, options=["-n", "team-a"])["ConfigMap"]["verdict"] == "not reviewed"
    assert reviewed(document, options=["-n", "gpu-operator"])["ConfigMap"]["verdict"] == "admitted"
