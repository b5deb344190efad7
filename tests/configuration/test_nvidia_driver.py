"""NVIDIADrivers: selectors, nodes, images, kinds, probes, references."""

import pytest

HEAD = "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: %s}\nspec:\n"
IMAGE = "repository: nvcr.io/nvidia, image: driver, version: 580.95.05"
POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec: {driver: {%s}}"


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA192", "nodeSelector: {...}")`: path, severity, message and remedy of a rule's findings on a spec."""

    def tell(rule, spec, *cluster, name="mine", image=IMAGE):
        fields = ["default: false", "driverType: gpu", *image.split(", ")]
        fields = [field for field in fields if field and field.partition(":")[0] not in spec]
        text = HEAD % name + "\n".join(f"  {line}" for line in [*fields, *spec.splitlines()])
        found = examined("\n---\n".join([text, *cluster]))
        return [(str(one.path), str(one.severity), one.message, one.remedy) for one in found if one.rule.id == rule]

    return tell


def driver(name, *fields):
    return HEAD % name + "\n".join(f"  {field}" for field in ["driverType: gpu", *IMAGE.split(", "), *fields])


def node(name, **labels):
    listed = ", ".join(f'"{key}": "{value}"' for key, value in {"nvidia.com/gpu.present": "true", **labels}.items())
    return f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{{listed}}}}}"


def test_drivers_that_share_a_node_are_refused(findings_of):
    other = driver("other", "nodeSelector: {zone: a}")
    assert findings_of("GA192", "nodeSelector: {pool: x}", other, node("gpu-1", pool="x", zone="a"), node("gpu-2")) == [
        (
            "spec.nodeSelector",
            "deny",
            (
                'selects the node "gpu-1", and so does "other"; the operator would report: multiple NVIDIADrivers match the '
                "same node gpu-1: [mine other]"
            ),
            "give each NVIDIADriver a nodeSelector of its own, and default: true to the one for the rest",
        )
    ]


@pytest.mark.parametrize("nodes", [[], [node("gpu-1", pool="x"), node("gpu-2", zone="a")]])
def test_drivers_that_share_no_known_node_are_fine(findings_of, nodes):
    assert findings_of("GA192", "nodeSelector: {pool: x}", driver("other", "nodeSelector: {zone: a}"), *nodes) == []


def test_selector_within_another_is_warned_about_while_there_is_no_node(findings_of):
    assert [
        one[1:3]
        for one in findings_of("GA192", "nodeSelector: {pool: x, zone: a}", driver("other", "nodeSelector: {pool: x}"))
    ] == [("warn", '"other" selects every node that "mine" selects; which nodes these are is not known here')]


def test_empty_selector_beside_another_driver_is_refused(findings_of):
    found = findings_of("GA192", "priorityClassName: system-node-critical", driver("other", "nodeSelector: {pool: x}"))
    assert found == [
        (
            "spec.nodeSelector",
            "deny",
            'is empty, which selects every GPU node, and "other" is for some of them',
            "add a nodeSelector, or default: true if it is for the nodes that are left",
        )
    ]


@pytest.mark.parametrize(
    ("mine", "other"), [("{}", "nodeSelector: {pool: x}"), ("{pool: x}", "priorityClassName: system-node-critical")]
)
def test_selectors_that_share_no_gpu_node_are_only_warned_about(findings_of, mine, other):
    found = findings_of("GA192", f"nodeSelector: {mine}", driver("other", other), node("gpu-1", pool="y"))
    assert [one[1] for one in found] == ["warn"]


def test_driver_that_the_operator_ignores_is_not_refused(findings_of):
    cluster = (driver("other", "nodeSelector: {zone: a}"), node("gpu-1", pool="x", zone="a"))
    assert findings_of("GA192", "nodeSelector: {pool: x}", *cluster, POLICY % "enabled: true")[0][1] == "warn"
    assert findings_of("GA114", "imagePullPolicy: always", POLICY % "enabled: true")[0][1] == "warn"
    delegating = POLICY % "useNvidiaDriverCRD: true"
    assert findings_of("GA192", "nodeSelector: {pool: x}", *cluster, delegating)[0][1] == "deny"


def test_selector_beside_an_empty_one_is_refused(findings_of):
    found = findings_of("GA192", "nodeSelector: {pool: x}", driver("other"))
    assert found[0][1:3] == (
        "deny",
        'selects nodes that "other" has already, as it has no nodeSelector and takes every GPU node',
    )


def test_default_driver_conflicts_with_none(findings_of):
    other = driver("other", "nodeSelector: {pool: x}")
    assert findings_of("GA192", "default: true", other, node("gpu-1", pool="x")) == []
    assert (
        findings_of("GA192", "nodeSelector: {pool: x}", driver("other", "default: true"), node("gpu-1", pool="x")) == []
    )


def test_driver_does_not_conflict_with_itself_or_one_that_goes_away(findings_of):
    going = driver("other").replace("{name: other}", '{name: other, deletionTimestamp: "2026-01-05T09:00:00Z"}')
    assert findings_of("GA192", "nodeSelector: {pool: x}", driver("mine"), going) == []


def test_second_default_is_refused(findings_of):
    assert findings_of("GA192", "default: true", driver("default", "default: true"))[0][:3] == (
        "spec.default",
        "deny",
        'is true for "default" too; the operator would report: multiple default NVIDIADrivers found: [default mine]',
    )


def test_operators_own_label_is_refused_as_selector(findings_of):
    assert findings_of("GA192", "nodeSelector: {nvidia.com/gpu-operator.driver.owner: mine}") == [
        (
            "spec.nodeSelector[nvidia.com/gpu-operator.driver.owner]",
            "deny",
            (
                'is the operator\'s own mark of the nodes that a driver has; it would report: NVIDIADriver "mine" '
                'nodeSelector cannot use reserved label "nvidia.com/gpu-operator.driver.owner"'
            ),
            "select nodes by a label of your own",
        )
    ]


@pytest.mark.parametrize("image", ["", ", image: nvcr.io/nvidia/driver"])
def test_default_image_after_a_repository_is_refused(findings_of, image):
    found = findings_of("GA193", "default: true", image=f"repository: nvcr.io/nvidia, version: 580.95.05{image}")
    default = "" if image else " by default"
    assert found == [
        (
            "spec.image",
            "deny",
            f'is "nvcr.io/nvidia/driver"{default}, so nodes would pull "nvcr.io/nvidia/nvcr.io/nvidia/driver:580.95.05"',
            "write image: driver",
        )
    ]


def test_default_image_in_a_mirror_is_warned_about(findings_of):
    found = findings_of("GA193", "default: true", image="repository: harbor.example.com, version: 580.95.05")
    assert [one[1:3] for one in found] == [
        (
            "warn",
            'is "nvcr.io/nvidia/driver" by default, so nodes would pull "harbor.example.com/nvcr.io/nvidia/driver:580.95.05"',
        )
    ]


@pytest.mark.parametrize(
    ("rule", "spec", "image"),
    [
        ("GA192", "nodeSelector: {nvidia.com/gpu-operator.driver.owner: mine}", IMAGE),
        ("GA193", "default: true", ""),
        ("GA194", "usePrecompiled: true\ngds: {enabled: true}", IMAGE),
        ("GA196", "startupProbe: {timeoutSeconds: 30}", IMAGE),
        ("GA197", "repoConfig: {name: same}\nkernelModuleConfig: {name: same}", IMAGE),
        ("GA117", "version: '580'", "repository: nvcr.io/nvidia, image: driver"),
        ("GA110", "version: ''", "image: driver, repository: nvcr.io/nvidia"),
        ("GA112", "version: 580.95.05-ubuntu22.04", "repository: nvcr.io/nvidia, image: driver"),
        ("GA116", "resources: {limits: {cpu: 1}, requests: {cpu: 2}}", IMAGE),
    ],
)
def test_mistake_is_refused_only_if_the_operator_reads_the_driver(findings_of, rule, spec, image):
    delegated = findings_of(rule, spec, POLICY % "useNvidiaDriverCRD: true", image=image)
    assert [one[1] for one in delegated] == ["deny"]
    assert [one[1] for one in findings_of(rule, spec, POLICY % "", image=image)] == ["warn"]


def test_version_alone_is_refused(findings_of):
    assert findings_of("GA193", "default: true", image="version: 580.95.05")[0][2] == (
        "is set without repository; the operator would report: invalid image specification: repository, image and version "
        "must all be set (repository=, image=nvcr.io/nvidia/driver, version=580.95.05)"
    )


def test_nothing_of_an_image_is_refused(findings_of):
    assert findings_of("GA193", "default: true", image="")[0][2] == (
        'is "nvcr.io/nvidia/driver" by default and the whole reference, so nodes would pull "nvcr.io/nvidia/driver-<os>"'
    )


def test_whole_image_is_fine(findings_of):
    assert findings_of("GA193", "default: true") == []
    assert findings_of("GA193", "default: true", image="image: nvcr.io/nvidia/driver:580.95.05") == []


@pytest.mark.parametrize("component", ["gds", "gdrcopy"])
def test_precompiled_driver_with_another_module_is_refused(findings_of, component):
    found = findings_of("GA194", f"usePrecompiled: true\n{component}: {{enabled: true}}")
    assert found == [
        (
            f"spec.{component}.enabled",
            "deny",
            (
                "does not work with usePrecompiled: true; the operator would report: GPUDirect Storage driver (nvidia-fs) and/or "
                "GDRCopy driver is not supported along with pre-compiled NVIDIA drivers"
            ),
            "set usePrecompiled: false, or disable gds and gdrcopy",
        )
    ]


def test_precompiled_driver_alone_is_fine(findings_of):
    assert findings_of("GA194", "usePrecompiled: true\ngds: {enabled: false}") == []


def test_parts_that_vgpu_drivers_do_not_have_are_warned_about(findings_of):
    found = findings_of("GA194", "driverType: vgpu-host-manager\nrdma: {enabled: true}\nusePrecompiled: true")
    assert [(one[0], one[1]) for one in found] == [("spec.rdma.enabled", "warn"), ("spec.usePrecompiled", "warn")]
    assert found[0][2:] == (
        "is not supported with driverType: vgpu-host-manager",
        "remove rdma, or write driverType: gpu",
    )


def test_vgpu_without_licence_is_warned_about(findings_of):
    assert findings_of("GA194", "driverType: vgpu")[0][1:3] == (
        "warn",
        "is missing, so the vGPUs stay unlicensed and slow down after some minutes",
    )
    assert findings_of("GA194", "driverType: vgpu\nlicensingConfig: {secretName: licence}") == []


def changed(examined, before, after):
    text = driver("mine", after) + "\n--- # before\n" + driver("mine", before)
    return [(str(one.path), str(one.severity), one.message) for one in examined(text) if one.rule.id == "GA194"]


def test_driver_that_becomes_precompiled_is_warned_about(examined):
    assert changed(examined, "default: true", "usePrecompiled: true") == [
        (
            "spec.usePrecompiled",
            "warn",
            "was not set before, so the API server lets it pass, and the driver is replaced on every selected node",
        )
    ]


def test_other_changes_of_kind_are_refused(examined):
    assert changed(examined, "usePrecompiled: false", "usePrecompiled: true")[0][1] == "deny"
    text = driver("mine").replace("driverType: gpu", "driverType: vgpu\n  licensingConfig: {secretName: licence}")
    found = [one for one in examined(text + "\n--- # before\n" + driver("mine")) if one.rule.id == "GA194"]
    assert [one.message for one in found] == ['was "gpu" and cannot change to "vgpu"; the API server refuses it']


@pytest.mark.parametrize("precompiled", ["usePrecompiled: true", "usePrecompiled: false", "default: true"])
def test_driver_that_stays_the_same_kind_is_fine(examined, precompiled):
    assert changed(examined, precompiled, precompiled) == []


def test_driver_that_the_policy_disables_is_warned_about(findings_of):
    assert findings_of("GA195", "nodeSelector: {pool: x}", POLICY % "") == [
        (
            "metadata.name",
            "warn",
            '"mine" would be disabled; the operator would report: useNvidiaDriverCRD is not enabled in ClusterPolicy',
            'write driver.useNvidiaDriverCRD: true in the ClusterPolicy "cluster-policy"',
        )
    ]
    assert findings_of("GA195", "nodeSelector: {pool: x}", POLICY % "useNvidiaDriverCRD: true") == []


@pytest.mark.parametrize(
    "key", ["nvidia.com/gpu.product", "nvidia.com/cuda.driver-version.major", "nvidia.com/mig-1g.5gb.count"]
)
def test_label_that_needs_a_driver_is_warned_about(findings_of, key):
    assert findings_of("GA195", f"nodeSelector: {{{key}: x}}")[0][1:3] == (
        "warn",
        "is a label that needs a running driver, so a new node would never get the driver that it waits for",
    )


@pytest.mark.parametrize(
    "key",
    ["nvidia.com/gpu.present", "nvidia.com/gpu.deploy.driver", "nvidia.com/mig.config", "feature.node.kubernetes.io/x"],
)
def test_label_that_needs_no_driver_is_fine(findings_of, key):
    assert findings_of("GA195", f'nodeSelector: {{{key}: "true"}}') == []


def test_selector_of_no_node_is_warned_about(findings_of):
    assert findings_of("GA195", "nodeSelector: {pool: x}", node("gpu-1", pool="y"), node("gpu-2"))[0][1:3] == (
        "warn",
        "none of the 2 GPU nodes here has pool=x, so nothing would be deployed",
    )
    assert findings_of("GA195", "nodeSelector: {pool: x}", node("gpu-1", pool="x"), node("gpu-2")) == []


def affinity(operator, values=""):
    terms = f"nodeSelectorTerms: [{{matchExpressions: [{{key: pool, operator: {operator}{values}}}]}}]"
    return f"nodeSelector: {{pool: x}}\nnodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{{terms}}}}}"


@pytest.mark.parametrize(
    "spec", [affinity("In", ", values: [y]"), affinity("NotIn", ", values: [x]"), affinity("DoesNotExist")]
)
def test_affinity_against_the_selector_is_warned_about(findings_of, spec):
    assert findings_of("GA195", spec)[0][:3] == (
        "spec.nodeAffinity",
        "warn",
        "excludes every node that nodeSelector selects; the driver's pods follow nodeSelector",
    )


@pytest.mark.parametrize(
    "spec", [affinity("In", ", values: [x, y]"), affinity("Exists"), affinity("NotIn", ", values: [y]")]
)
def test_affinity_with_the_selector_is_fine(findings_of, spec):
    assert findings_of("GA195", spec) == []


def test_startup_probe_without_failures_is_refused(findings_of):
    assert findings_of("GA196", "startupProbe: {initialDelaySeconds: 30, timeoutSeconds: 30}") == [
        (
            "spec.startupProbe",
            "deny",
            (
                "leaves out failureThreshold and periodSeconds, which become Kubernetes' defaults and not the operator's; the "
                "driver would be killed after 60 seconds, while it compiles its modules"
            ),
            "write startupProbe: {initialDelaySeconds: 30, periodSeconds: 10, timeoutSeconds: 30, failureThreshold: 120}",
        )
    ]


def test_startup_probe_in_which_a_fast_node_compiles_is_warned_about(findings_of):
    found = findings_of("GA196", "startupProbe: {initialDelaySeconds: 60, timeoutSeconds: 30}")
    assert [one[1] for one in found] == ["warn"]
    assert "would be killed after 90 seconds" in found[0][2]


@pytest.mark.parametrize(
    "spec",
    [
        "startupProbe: {periodSeconds: 10, failureThreshold: 120}",
        "startupProbe: {failureThreshold: 120}",
        "usePrecompiled: true\nstartupProbe: {initialDelaySeconds: 5}",
    ],
)
def test_startup_probe_of_a_second_is_warned_about(findings_of, spec):
    found = findings_of("GA196", spec)
    assert [one[1] for one in found] == ["warn"]
    assert "leaves out timeoutSeconds, which becomes 1 and not the operator's 60" in found[0][2]


@pytest.mark.parametrize(
    "spec",
    [
        "startupProbe: {failureThreshold: 120, timeoutSeconds: 60}",
        "driverType: vgpu-host-manager\nstartupProbe: {initialDelaySeconds: 5}",
        "startupProbe: {}",
    ],
)
def test_startup_probe_that_lasts_is_fine(findings_of, spec):
    assert findings_of("GA196", spec) == []


def test_probes_and_labels_that_are_dropped_are_warned_about(findings_of):
    found = findings_of(
        "GA196", "livenessProbe: {periodSeconds: 5}\nlabels: {app: x, app.kubernetes.io/name: y, team: z}"
    )
    assert [one[0] for one in found] == [
        "spec.livenessProbe",
        "spec.labels.app",
        "spec.labels[app.kubernetes.io/name]",
    ]
    assert {one[1] for one in found} == {"warn"}


def config_map(name, namespace="gpu-operator", data="{}"):
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {data}"


def test_config_map_that_is_missing_is_warned_about(findings_of):
    assert findings_of("GA197", "repoConfig: {name: repos}", config_map("repos", "default")) == [
        (
            "spec.repoConfig.name",
            "warn",
            (
                'ConfigMap "repos" not found in gpu-operator, only in '
                "default, where the operator does not look; the operator would only log: ERROR: could "
                "not get ConfigMap repos from client; the driver would run without its ConfigMaps and licence"
            ),
            'create ConfigMap "repos" in gpu-operator first',
        )
    ]


def test_config_map_that_is_there_or_unknown_is_fine(findings_of):
    assert findings_of("GA197", "repoConfig: {name: repos}", config_map("repos")) == []
    assert findings_of("GA197", "repoConfig: {name: repos}\nsecretEnv: env\npriorityClassName: gpu") == []
    assert findings_of("GA197", "usePrecompiled: true\nrepoConfig: {name: repos}", config_map("other")) == []


@pytest.mark.parametrize(
    ("name", "reason"), [("my.repos", "has characters"), ("r" * 64, "is longer than 63 characters")]
)
def test_config_map_that_cannot_name_a_volume_is_refused(findings_of, name, reason):
    assert f'"{name}" {reason}' in findings_of("GA197", f"repoConfig: {{name: {name}}}")[0][2]


def test_config_map_of_two_fields_is_refused(findings_of):
    found = findings_of("GA197", "repoConfig: {name: same}\nkernelModuleConfig: {name: same}")
    assert found[0][:3] == (
        "spec.kernelModuleConfig.name",
        "deny",
        '"same" is also the ConfigMap of repoConfig, so Kubernetes refuses the DaemonSet: Duplicate value',
    )


def test_topology_without_its_key_is_refused(findings_of):
    found = findings_of("GA197", "virtualTopologyConfig: {name: topology}", config_map("topology", data="{x: y}"))
    assert found[0][2] == (
        'ConfigMap "topology" has "x" and not nvidia-topologyd.conf; the driver pods would stay in ContainerCreating'
    )


def test_secret_and_priority_class_that_are_missing_are_reported(findings_of):
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: other, namespace: gpu-operator}"
    priority = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: other}"
    found = findings_of("GA197", "secretEnv: env\npriorityClassName: gpu", secret, priority)
    assert [one[:2] for one in found] == [("spec.secretEnv", "deny"), ("spec.priorityClassName", "warn")]
    assert findings_of("GA197", "priorityClassName: system-node-critical", priority) == []


def test_deletion_is_not_examined(examined):
    assert examined("# operation: DELETE\n" + driver("mine").replace("  image: driver\n", "")) == ()
