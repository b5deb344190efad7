"""Settings for the DaemonSets of all operands: GA174, GA177, GA178."""

import pytest

from policies.rules.decision import Severity
from tests.findings import plain_text

HEADS = {
    "ClusterPolicy": "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n",
    "GPUCluster": "apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}\nspec:\n",
    "NVIDIADriver": "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: default}\nspec:\n",
}


def daemonsets(text, *cluster, kind="ClusterPolicy", rest=""):
    return "\n---\n".join([f"{HEADS[kind]}  daemonsets: {{{text}}}\n{rest}", *cluster])


def findings_of(found, rule):
    return [(finding.severity, plain_text(finding)) for finding in found if finding.rule.id == rule]


def rolling(unavailable, strategy="RollingUpdate"):
    return f"updateStrategy: {strategy}, rollingUpdate: {{maxUnavailable: {unavailable}}}"


UPGRADES = "  driver: {upgradePolicy: {autoUpgrade: true}}\n"


@pytest.mark.parametrize("text", ["'1'", "'25%'", "'100%'", "'3'", "''", "null"])
def test_roll_out_that_kubernetes_takes_is_left_alone(examined, text):
    assert findings_of(examined(daemonsets(rolling(text), rest=UPGRADES)), "GA174") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("half", "is not a number; the operator would report: failed to apply rolling update config"),
        ("1.5", "is not a number; the operator would report: failed to apply rolling update config"),
        (
            "1.5%",
            "is not a percentage; the API server would refuse the DaemonSets: a valid percent string must be numeric",
        ),
        ("-1", "is negative; the API server would refuse the DaemonSets: must be greater than or equal to 0"),
        ("0", "lets no pod be replaced; the API server would refuse the DaemonSets: cannot be 0 when maxSurge is 0"),
        ("0%", "lets no pod be replaced; the API server would refuse the DaemonSets: cannot be 0 when maxSurge is 0"),
        ("101%", "is more than all nodes; the API server would refuse the DaemonSets: must not be greater than 100%"),
    ],
)
def test_roll_out_that_kubernetes_refuses_is_refused(examined, text, reason):
    assert findings_of(examined(daemonsets(rolling(f"'{text}'"))), "GA174") == [
        (
            Severity.DENY,
            (
                f'spec.daemonsets.rollingUpdate.maxUnavailable: "{text}" {reason}; write a number or a percentage in quotes, '
                'such as "1" or "25%"'
            ),
        )
    ]


def test_roll_out_that_is_not_read_is_warned_of(examined):
    assert findings_of(examined(daemonsets(rolling("half", "OnDelete"))), "GA174") == [
        (
            Severity.WARN,
            (
                'spec.daemonsets.rollingUpdate.maxUnavailable: "half" has no effect, because updateStrategy is OnDelete; '
                "write updateStrategy: RollingUpdate, or remove rollingUpdate"
            ),
        )
    ]
    assert findings_of(examined(daemonsets(rolling("'1'", "OnDelete"))), "GA174") == []


def test_roll_out_that_does_not_reach_the_driver_is_noted(examined):
    assert findings_of(examined(daemonsets(rolling("'25%'"))), "GA174") == [
        (
            Severity.AUDIT,
            (
                "spec.daemonsets.rollingUpdate.maxUnavailable: does not apply to the driver, whose "
                "pods are replaced only by hand or by driver.upgradePolicy; write "
                "driver.upgradePolicy too, with autoUpgrade: true and maxUnavailable"
            ),
        )
    ]
    assert findings_of(examined(daemonsets(rolling("'25%'"), rest="  driver: {enabled: false}\n")), "GA174") == []


NAME = "write a name of at most 63 letters, digits, -, _ and ., with a DNS name and a slash before it if need be"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "labels: {cost centre: x}",
            (Severity.DENY, f'spec.daemonsets.labels[cost centre]: "cost centre" cannot be the key of a label; {NAME}'),
        ),
        (
            "labels: {owner: me@example.com}",
            (
                Severity.DENY,
                (
                    'spec.daemonsets.labels.owner: "me@example.com" cannot be the value of a label; write at most 63 letters, '
                    "digits, -, _ and ., or make it an annotation"
                ),
            ),
        ),
        (
            "annotations: {a/b/c: x}",
            (Severity.DENY, f'spec.daemonsets.annotations[a/b/c]: "a/b/c" cannot be the key of an annotation; {NAME}'),
        ),
        (
            "labels: {app.kubernetes.io/part-of: x}",
            (
                Severity.WARN,
                (
                    "spec.daemonsets.labels[app.kubernetes.io/part-of]: is dropped by the operator, "
                    "which finds its pods by this label; remove it, or use a key of your own"
                ),
            ),
        ),
    ],
)
@pytest.mark.parametrize("kind", ["ClusterPolicy", "GPUCluster"])
def test_labels_that_do_not_arrive_are_found(examined, kind, text, expected):
    assert findings_of(examined(daemonsets(text, kind=kind)), "GA177") == [expected]


@pytest.mark.parametrize(
    "spec",
    [
        "dcgmExporter: {serviceMonitor: {additionalLabels: {a b: c}}}",
        "dcgmExporter: {annotations: {a b: c}}",
        "operator: {labels: {a b: c}}",
        "operator: {annotations: {a b: c}}",
        "operator: {metrics: {serviceMonitor: {additionalLabels: {a: b c}}}}",
    ],
)
def test_labels_of_components_are_read_as_well(examined, spec):
    assert len(findings_of(examined(f"{HEADS['ClusterPolicy']}  {spec}\n"), "GA177")) == 1


def test_labels_of_a_driver_are_read_as_well(examined):
    assert (
        len(findings_of(examined(f"{HEADS['NVIDIADriver']}  labels: {{a b: c}}\n  annotations: {{a b: c}}\n"), "GA177"))
        == 2
    )


def test_labels_that_arrive_are_left_alone(examined):
    text = "labels: {team: a, example.com/Cost_Centre: ''}, annotations: {Example.com/note: 'any text, at all'}"
    assert findings_of(examined(daemonsets(text)), "GA177") == []


PRIORITY = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gpu}"


def test_priority_class_that_does_not_exist_is_warned_of(examined):
    assert findings_of(examined(daemonsets("priorityClassName: gpus", PRIORITY)), "GA178") == [
        (
            Severity.WARN,
            (
                'spec.daemonsets.priorityClassName: "gpus" does not exist; the pods would be '
                'forbidden: no PriorityClass with name gpus was found; write "system-node-critical", '
                'or create the PriorityClass "gpus" first'
            ),
        )
    ]


def test_priority_class_that_may_exist_is_left_alone(examined):
    assert findings_of(examined(daemonsets("priorityClassName: gpu", PRIORITY)), "GA178") == []
    assert findings_of(examined(daemonsets("priorityClassName: system-node-critical", PRIORITY)), "GA178") == []
    assert findings_of(examined(daemonsets("priorityClassName: gpus")), "GA178") == []


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("NVIDIA", 'write "nvidia"'), ("nvidia_gpu", 'write "nvidia", or remove it'), ("example.com", "or remove it")],
)
def test_runtime_class_that_kubernetes_cannot_name_is_refused(examined, name, remedy):
    policy = f"{HEADS['ClusterPolicy']}  operator: {{runtimeClass: {name}}}\n"
    ((severity, text),) = findings_of(examined(policy), "GA178")
    assert severity is Severity.DENY
    assert text.startswith(f'spec.operator.runtimeClass: "{name}" cannot name a RuntimeClass and its handler; ')
    assert text.endswith(remedy)


@pytest.mark.parametrize(
    "spec", ["operator: {runtimeClass: gpu-1}", "operator: {runtimeClass: GPU}\n  cdi: {nriPluginEnabled: true}"]
)
def test_runtime_class_that_is_valid_or_never_made_is_left_alone(examined, spec):
    assert findings_of(examined(f"{HEADS['ClusterPolicy']}  {spec}\n"), "GA178") == []


def test_operands_that_may_not_be_root_are_refused(examined):
    assert findings_of(examined(daemonsets("podSecurityContext: {runAsNonRoot: true, runAsUser: 1000}")), "GA178") == [
        (
            Severity.DENY,
            (
                "spec.daemonsets.podSecurityContext.runAsNonRoot: is true; the kubelet would report: "
                "container has runAsNonRoot and image will run as root; remove runAsNonRoot"
            ),
        ),
        (
            Severity.WARN,
            (
                "spec.daemonsets.podSecurityContext.runAsUser: is 1000; as this user the driver and the toolkit cannot change "
                "anything on the host; remove runAsUser"
            ),
        ),
    ]
    assert (
        len(findings_of(examined(f"{HEADS['NVIDIADriver']}  podSecurityContext: {{runAsNonRoot: true}}\n"), "GA178"))
        == 1
    )


def test_operands_that_are_root_are_left_alone(examined):
    text = "podSecurityContext: {runAsNonRoot: false, runAsUser: 0, seLinuxOptions: {type: spc_t}}"
    assert findings_of(examined(daemonsets(text)), "GA178") == []


def test_settings_that_a_gpu_cluster_does_not_read_are_warned_about(examined):
    text = f"{rolling('half')}, podSecurityContext: {{runAsNonRoot: true, runAsUser: 1000}}"
    found = findings_of(examined(daemonsets(text, kind="GPUCluster")), "GA174")
    found += findings_of(examined(daemonsets(text, kind="GPUCluster")), "GA178")
    assert found == [
        (
            Severity.WARN,
            (
                'spec.daemonsets.rollingUpdate.maxUnavailable: "half" has no effect, because the operator does not read it '
                "in a GPUCluster; remove rollingUpdate"
            ),
        ),
        (
            Severity.WARN,
            (
                "spec.daemonsets.podSecurityContext.runAsNonRoot: has no effect, because the operator does not read "
                "podSecurityContext in a GPUCluster; remove runAsNonRoot"
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("spec", "severity"),
    [
        ("operator: {labels: {a b: c}}", Severity.WARN),
        ("operator: {annotations: {a b: c}}", Severity.WARN),
        ("dcgmExporter: {enabled: false, annotations: {a b: c}}", Severity.WARN),
        ("dcgmExporter: {serviceMonitor: {enabled: false, additionalLabels: {a: b c}}}", Severity.WARN),
        ("dcgmExporter: {serviceMonitor: {enabled: true, additionalLabels: {a: b c}}}", Severity.DENY),
        ("dcgmExporter: {annotations: {a b: c}}", Severity.DENY),
        ("operator: {metrics: {serviceMonitor: {additionalLabels: {a: b c}}}}", Severity.DENY),
    ],
)
def test_invalid_labels_are_refused_only_where_something_gets_them(examined, spec, severity):
    found = findings_of(examined(f"{HEADS['ClusterPolicy']}  {spec}\n"), "GA177")
    assert [one[0] for one in found] == [severity]
