"""The driver's container: probes, mounted objects, licences, the driver manager, the host's network."""

import pytest

POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n"
NAMESPACES = "gpu-operator"


@pytest.fixture
def findings_of(examined):
    def tell(rule, spec, *cluster, before=None):
        text = POLICY + "\n".join(f"  {line}" for line in spec.splitlines())
        if before:
            text += "\n--- # before\n" + POLICY + "\n".join(f"  {line}" for line in before.splitlines())
        found = examined("\n---\n".join([text, *cluster]))
        return [(str(one.path), str(one.severity), one.message) for one in found if one.rule.id == rule]

    return tell


def config_map(name, data="{}", namespace="gpu-operator", kind="ConfigMap"):
    return f"{{apiVersion: v1, kind: {kind}, metadata: {{name: {name}, namespace: {namespace}}}, data: {data}}}"


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe"])
def test_probe_that_the_container_does_not_have_is_refused(findings_of, probe):
    assert findings_of("GA124", f"driver: {{{probe}: {{timeoutSeconds: 5}}}}") == [
        (
            f"spec.driver.{probe}",
            "deny",
            "makes the operator crash on every reconciliation: the driver's container has no such probe to set",
        )
    ]
    assert findings_of("GA124", f"driver: {{{probe}: {{initialDelaySeconds: 0}}}}") == []
    assert findings_of("GA124", f"driver: {{{probe}: {{}}}}") == []


def test_startup_probe_that_kubernetes_refuses(findings_of):
    spec = "driver: {startupProbe: {initialDelaySeconds: -5, successThreshold: 3}}"
    assert findings_of("GA124", spec) == [
        (
            "spec.driver.startupProbe.initialDelaySeconds",
            "deny",
            "is -5; Kubernetes would report: must be greater than or equal to 0",
        ),
        ("spec.driver.startupProbe.successThreshold", "deny", "is 3; Kubernetes would report: must be 1"),
    ]


def test_startup_probe_shorter_than_a_build_is_warned_of(findings_of):
    short = "driver: {startupProbe: {periodSeconds: 5, failureThreshold: 30}%s}"
    assert findings_of("GA124", short % "") == [
        (
            "spec.driver.startupProbe",
            "warn",
            "gives the driver 210 s (60 + 30 x 5), and then kills it; a build takes ten minutes on some nodes",
        )
    ]
    assert findings_of("GA124", short % ", usePrecompiled: true") == []
    assert findings_of("GA124", "driver: {startupProbe: {timeoutSeconds: 60}}") == []


def test_missing_config_map_is_refused_where_config_maps_are_known(findings_of):
    spec = "driver: {repoConfig: {configMapName: repo-config}}"
    elsewhere = config_map("repo-config", namespace="default")
    assert findings_of("GA125", spec, elsewhere) == [
        (
            "spec.driver.repoConfig.configMapName",
            "deny",
            (
                f'ConfigMap "repo-config" not found in {NAMESPACES}, only in default, where the operator does not look; '
                "the operator would report: ERROR: could not get ConfigMap repo-config from client"
            ),
        )
    ]
    assert findings_of("GA125", spec, elsewhere, config_map("repo-config")) == []
    assert findings_of("GA125", spec) == []
    assert (
        findings_of("GA125", "driver: {usePrecompiled: true, repoConfig: {configMapName: repo-config}}", elsewhere)
        == []
    )


@pytest.mark.parametrize("name", ["kernel.params", "a" * 64])
def test_name_that_no_volume_can_have_is_refused(findings_of, name):
    [(path, severity, message)] = findings_of("GA125", f"driver: {{kernelModuleConfig: {{name: {name}}}}}")
    assert (path, severity) == ("spec.driver.kernelModuleConfig.name", "deny")
    assert message.endswith("the operator names the volume after it, so Kubernetes refuses the DaemonSet")


def test_one_config_map_twice_is_refused(findings_of):
    spec = "driver: {kernelModuleConfig: {name: all}, certConfig: {name: all}}"
    assert findings_of("GA125", spec) == [
        (
            "spec.driver.certConfig.name",
            "deny",
            '"all" is also the ConfigMap of kernelModuleConfig, so Kubernetes refuses the DaemonSet: Duplicate value',
        )
    ]


def test_missing_secret_is_refused(findings_of):
    [(path, severity, _)] = findings_of("GA125", "driver: {secretEnv: proxy}", config_map("other", kind="Secret"))
    assert (path, severity) == ("spec.driver.secretEnv", "deny")
    assert findings_of("GA125", "driver: {secretEnv: proxy}", config_map("proxy", kind="Secret")) == []
    assert findings_of("GA125", "driver: {secretEnv: proxy}") == []


def test_unread_module_parameters_are_warned_of(findings_of):
    spec = "driver: {kernelModuleConfig: {name: params}}"
    assert findings_of("GA125", spec, config_map("params", "{nvidia.conf: a, options.conf: b}")) == [
        (
            "spec.driver.kernelModuleConfig.name",
            "warn",
            'names ConfigMap "params" with "options.conf", which the driver\'s container does not read',
        )
    ]
    assert findings_of("GA125", spec, config_map("params", "{nvidia.conf: a, nvidia-uvm.conf: b}")) == []


def test_topology_needs_its_key(findings_of):
    spec = "driver: {virtualTopology: {config: topology}}"
    assert [message for *_, message in findings_of("GA125", spec, config_map("topology", "{a: b}"))] == [
        'ConfigMap "topology" has "a" and not nvidia-topologyd.conf; the driver pods would stay in ContainerCreating'
    ]
    assert len(findings_of("GA125", spec, config_map("other"))) == 1
    assert findings_of("GA125", spec, config_map("topology", "{nvidia-topologyd.conf: b}")) == []


def test_licence_without_nls_is_warned_of(findings_of):
    spec = "driver: {licensingConfig: {secretName: licence%s}}"
    told_of = "is not complete without nlsEnabled: true: the token is not mounted, and the vGPU stays unlicensed"
    assert findings_of("GA126", spec % "") == [("spec.driver.licensingConfig.secretName", "warn", told_of)]
    assert findings_of("GA126", spec % ", nlsEnabled: true") == []


def test_second_licence_is_warned_of(findings_of):
    assert findings_of("GA126", "driver: {licensingConfig: {secretName: a, configMapName: b, nlsEnabled: true}}") == [
        (
            "spec.driver.licensingConfig.configMapName",
            "warn",
            'has no effect beside secretName, and leaves the credential in ConfigMap "b"',
        )
    ]


def test_licence_needs_its_files(findings_of):
    spec = "driver: {licensingConfig: {secretName: licence, nlsEnabled: true}}"
    assert findings_of("GA126", spec, config_map("licence", "{gridd.conf: YQ==}", kind="Secret")) == [
        (
            "spec.driver.licensingConfig.secretName",
            "deny",
            (
                'Secret "licence" has "gridd.conf" and not client_configuration_token.tok; the '
                "driver pods would stay in ContainerCreating"
            ),
        )
    ]
    assert findings_of("GA126", spec, config_map("licence", kind="Secret")) == []
    whole = config_map("licence", "{gridd.conf: YQ==, client_configuration_token.tok: YQ==}", kind="Secret")
    assert findings_of("GA126", spec, whole) == []
    assert [severity for _, severity, _ in findings_of("GA126", spec, config_map("other", kind="Secret"))] == ["warn"]


def test_nls_without_a_licence_is_warned_of_unless_left_empty(findings_of):
    path = "spec.driver.licensingConfig.nlsEnabled"
    assert findings_of("GA126", "driver: {licensingConfig: {nlsEnabled: true}}") == [
        (path, "warn", "has no effect without secretName")
    ]
    empty = 'driver: {licensingConfig: {secretName: "", nlsEnabled: true}}'
    assert findings_of("GA126", empty) == []
    assert len(findings_of("GA126", empty, before="driver: {licensingConfig: {secretName: a, nlsEnabled: true}}")) == 1


MANAGER = """driver:
  upgradePolicy: {autoUpgrade: %s, drain: {enable: %s, timeoutSeconds: 300}}
  manager: {env: [{name: %s, value: "%s"}]}"""


def test_variable_that_the_upgrade_controller_ignores_is_warned_of(findings_of):
    assert findings_of("GA127", MANAGER % ("true", "false", "ENABLE_AUTO_DRAIN", "true")) == [
        (
            "spec.driver.manager.env[0]",
            "warn",
            'sets ENABLE_AUTO_DRAIN to "true", which has no effect with upgradePolicy.autoUpgrade: true',
        )
    ]
    assert len(findings_of("GA127", MANAGER % ("true", "false", "ENABLE_GPU_POD_EVICTION", "false"))) == 1


@pytest.mark.parametrize(
    ("auto", "drain", "name", "value"),
    [
        ("false", "false", "ENABLE_AUTO_DRAIN", "true"),
        ("true", "true", "ENABLE_AUTO_DRAIN", "true"),
        ("true", "false", "ENABLE_AUTO_DRAIN", "false"),
        ("true", "false", "DRAIN_TIMEOUT_SECONDS", "0s"),
        ("true", "false", "DRAIN_TIMEOUT_SECONDS", "300s"),
        ("true", "false", "ENABLE_GPU_POD_EVICTION", "true"),
        ("true", "false", "HTTPS_PROXY", "http://proxy"),
    ],
)
def test_variable_that_says_nothing_else_passes(findings_of, auto, drain, name, value):
    assert findings_of("GA127", MANAGER % (auto, drain, name, value)) == []


def test_old_driver_manager_is_warned_of(findings_of):
    manager = "driver: {manager: {repository: nvcr.io/nvidia/cloud-native, image: k8s-driver-manager, version: %s}}"
    assert findings_of("GA127", manager % "v0.6.3") == [
        (
            "spec.driver.manager.version",
            "warn",
            '"v0.6.3" is older than v0.6.4, the oldest that works with operators from 24.3',
        )
    ]
    assert findings_of("GA127", manager % "v0.6.4") == []
    assert findings_of("GA127", manager % "v0.12.0") == []


@pytest.mark.parametrize(("operator", "severities"), [("v22.9.1", []), ("v24.3.0", ["warn"])])
def test_driver_manager_of_the_operators_own_release_passes(findings_of, operator, severities):
    manager = "driver: {manager: {repository: nvcr.io/nvidia/cloud-native, image: k8s-driver-manager, version: v0.5.1}}"
    deployment = f"""apiVersion: apps/v1
kind: Deployment
metadata: {{name: gpu-operator, namespace: gpu-operator}}
spec: {{template: {{spec: {{containers: [{{name: gpu-operator, image: "nvcr.io/nvidia/gpu-operator:{operator}"}}]}}}}}}"""
    assert [each[1] for each in findings_of("GA127", manager, deployment)] == severities


def namespace(level):
    return f"""apiVersion: v1
kind: Namespace
metadata: {{name: gpu-operator, labels: {{pod-security.kubernetes.io/enforce: {level}}}}}"""


def test_host_network_in_a_guarded_namespace_is_warned_of(findings_of):
    assert findings_of("GA128", "driver: {hostNetwork: true}", namespace("baseline")) == [
        (
            "spec.driver.hostNetwork",
            "warn",
            (
                'is refused in namespace "gpu-operator", which enforces pod security "baseline"; Kubernetes would report: '
                "violates PodSecurity: host namespaces (hostNetwork=true)"
            ),
        )
    ]
    assert findings_of("GA128", "driver: {hostNetwork: true}", namespace("privileged")) == []
    assert findings_of("GA128", "driver: {hostNetwork: true}\npsa: {enabled: true}", namespace("baseline")) == []
    assert findings_of("GA128", "driver: {hostNetwork: true}") == []


def test_taken_port_is_warned_of(findings_of):
    pod = """apiVersion: v1
kind: Pod
metadata: {name: exporter, namespace: monitoring}
spec: {containers: [{ports: [{containerPort: 80, hostPort: %s}]}]}"""
    spec = "dcgm: {hostNetwork: true}"
    assert findings_of("GA128", spec, pod % 5555) == [
        (
            "spec.dcgm.hostNetwork",
            "warn",
            'needs port 5555 of each GPU node, which pod "monitoring/exporter" uses already',
        )
    ]
    assert findings_of("GA128", spec, pod % 9400) == []
    assert findings_of("GA128", spec, (pod % 5555).replace("monitoring", "gpu-operator")) == []
