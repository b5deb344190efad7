"""Upgrades of drivers: GA169 to GA173."""

import pytest

from policies.rules.decision import Severity
from tests.findings import plain_text

CHART = {
    "autoUpgrade": "true",
    "maxParallelUpgrades": "1",
    "maxUnavailable": "25%",
    "waitForCompletion": "{timeoutSeconds: 0, podSelector: ''}",
    "podDeletion": "{force: false, timeoutSeconds: 300, deleteEmptyDir: false}",
    "drain": "{enable: false, force: false, podSelector: '', timeoutSeconds: 300, deleteEmptyDir: false}",
}
SANDBOX = "  sandboxWorkloads: {enabled: true}\n  vfioManager: {enabled: true}\n"


def policy(fields=(), *, rest="", driver="", labels=""):
    fields = dict(fields)
    written = "".join(f"      {field}: {value}\n" for field, value in {"autoUpgrade": "true", **fields}.items())
    return (
        f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: cluster-policy, labels: {{{labels}}}}}\n"
        f"spec:\n{rest}  driver:\n{driver}    upgradePolicy:\n{written}"
    )


def nvidia_driver(**fields):
    written = "".join(f"    {field}: {value}\n" for field, value in fields.items())
    return (
        "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: default}\n"
        f"spec:\n  driverType: gpu\n  upgradePolicy:\n{written}"
    )


def pod(owner="", volumes=""):
    return (
        f"\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: notebook, namespace: team-a{owner}}}\n"
        f"spec: {{nodeName: gpu-1, {volumes}containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}\n"
        "status: {phase: Running}\n"
    )


def findings_of(found, *rules):
    rules = rules or ("GA169", "GA170", "GA171", "GA172", "GA173")
    return [(finding.severity, plain_text(finding)) for finding in found if finding.rule.id in rules]


def test_what_the_chart_writes_is_left_alone(examined):
    assert findings_of(examined(policy(CHART))) == []
    assert findings_of(examined(policy(CHART, rest=SANDBOX))) == []


@pytest.mark.parametrize("value", ["1", "25%", "'100%'", "null"])
def test_unavailable_nodes_that_can_be_computed_are_left_alone(examined, value):
    assert findings_of(examined(policy({"maxUnavailable": value})), "GA169") == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "'25'",
            (
                'is "25"; the operator would report: invalid value for IntOrString: invalid type: string is not a percentage; '
                'write 25, without quotes, or "25%"'
            ),
        ),
        (
            "half",
            (
                'is "half"; the operator would report: invalid value for IntOrString: invalid type: string is not a '
                'percentage; write a number such as 1, without quotes, or a percentage such as "25%"'
            ),
        ),
        (
            "1.5%",
            (
                'is "1.5%"; the operator would report: invalid value for IntOrString: invalid value "1.5%"; write a number '
                'such as 1, without quotes, or a percentage such as "25%"'
            ),
        ),
        (
            "-1",
            'is -1; no upgrade would ever start; write a number such as 1, without quotes, or a percentage such as "25%"',
        ),
        (
            "0%",
            (
                'is 0%, so no node may be upgraded, and no upgrade would ever start; write 1 or more, or "25%"; to stop '
                "upgrades, write autoUpgrade: false"
            ),
        ),
    ],
)
def test_unavailable_nodes_that_stop_upgrades_are_refused(examined, value, text):
    found = findings_of(examined(policy({"maxUnavailable": value})), "GA169")
    assert found == [(Severity.DENY, f"spec.driver.upgradePolicy.maxUnavailable: {text}")]


def test_more_than_all_nodes_is_warned_of(examined):
    assert findings_of(examined(policy({"maxUnavailable": "150%"})), "GA169") == [
        (
            Severity.WARN,
            (
                "spec.driver.upgradePolicy.maxUnavailable: is 150%, which allows all nodes to be unavailable at once; "
                'write "100%", or a smaller share'
            ),
        )
    ]


def test_policy_that_is_not_in_force_is_only_warned_of(examined):
    found = findings_of(examined(policy({"autoUpgrade": "false", "maxUnavailable": "half"})), "GA169")
    assert [severity for severity, _ in found] == [Severity.WARN]
    assert "it is not read while autoUpgrade is false" in found[0][1]
    assert (
        findings_of(examined(policy({"autoUpgrade": "false", "maxUnavailable": "0", "maxParallelUpgrades": "0"}))) == []
    )


@pytest.mark.parametrize("driver", ["    enabled: false\n", "    useNvidiaDriverCRD: true\n"])
def test_policy_of_a_driver_that_is_not_deployed_here_is_left_alone(examined, driver):
    assert findings_of(examined(policy({"maxUnavailable": "half"}, driver=driver)), "GA169") == []


def test_nvidia_driver_upgrades_by_default(examined):
    assert findings_of(examined(nvidia_driver(maxUnavailable="0")), "GA169") == [
        (
            Severity.DENY,
            (
                "spec.upgradePolicy.maxUnavailable: is 0, so no node may be upgraded, and no upgrade would ever start; write "
                '1 or more, or "25%"; to stop upgrades, write autoUpgrade: false'
            ),
        )
    ]


def test_no_limit_of_parallel_upgrades_is_warned_of(examined):
    assert findings_of(examined(policy({"maxParallelUpgrades": "0"})), "GA170") == [
        (
            Severity.WARN,
            (
                "spec.driver.upgradePolicy.maxParallelUpgrades: is 0, which means without limit; as many nodes as "
                "maxUnavailable allows are upgraded at once; write how many nodes may be upgraded at once; to stop them, "
                "autoUpgrade: false"
            ),
        )
    ]


def test_capped_parallel_upgrades_are_warned_of(examined):
    assert findings_of(examined(policy({"maxParallelUpgrades": "8", "maxUnavailable": "2"})), "GA170") == [
        (
            Severity.WARN,
            (
                "spec.driver.upgradePolicy.maxParallelUpgrades: is 8, but maxUnavailable: 2 allows no more than 2; write 2, "
                "or raise maxUnavailable"
            ),
        )
    ]
    assert findings_of(examined(policy({"maxParallelUpgrades": "8", "maxUnavailable": "25%"})), "GA170") == []


def test_selector_that_cannot_be_read_is_refused(examined):
    assert findings_of(examined(policy({"waitForCompletion": "{podSelector: 'app: a'}"})), "GA171") == [
        (
            Severity.DENY,
            (
                'spec.driver.upgradePolicy.waitForCompletion.podSelector: "app: a" is not a label '
                'selector: "app:" cannot be the key of a label; write a label selector such as '
                '"app=training" or "team in (a,b)"'
            ),
        )
    ]


def test_selector_of_a_drain_that_is_off_is_only_warned_of(examined):
    found = findings_of(examined(policy({"drain": "{enable: false, podSelector: 'a=b,'}"})), "GA171")
    assert [severity for severity, _ in found] == [Severity.WARN]
    assert "it is not read while drain.enable is false" in found[0][1]
    assert (
        findings_of(examined(policy({"drain": "{enable: true, podSelector: 'a=b,'}"})), "GA171")[0][0] is Severity.DENY
    )


def test_timeout_without_selector_is_warned_of(examined):
    assert findings_of(examined(policy({"waitForCompletion": "{timeoutSeconds: 60}"})), "GA171") == [
        (
            Severity.WARN,
            (
                "spec.driver.upgradePolicy.waitForCompletion.timeoutSeconds: is 60, but has no "
                "effect without a podSelector; write waitForCompletion.podSelector too, or remove "
                "the timeout"
            ),
        )
    ]
    assert findings_of(examined(policy({"waitForCompletion": "{timeoutSeconds: 60, podSelector: a=b}"})), "GA171") == []


def test_waiting_without_end_is_warned_of(examined):
    found = findings_of(
        examined(policy({"drain": "{enable: true, timeoutSeconds: 0}", "podDeletion": "{timeoutSeconds: 0}"}))
    )
    text = "is 0, which means to wait without end; one pod that does not end keeps its node cordoned"
    assert found == [
        (
            Severity.WARN,
            f"spec.driver.upgradePolicy.{step}.timeoutSeconds: {text}; write a timeout in seconds, such as 300",
        )
        for step in ("podDeletion", "drain")
    ]
    assert findings_of(examined(policy({"drain": "{enable: false, timeoutSeconds: 0}"})), "GA172") == []


def using_pod(fields="", owner="", env="", namespace="team-a"):
    return (
        f"\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: tool, namespace: {namespace}{owner}}}\n"
        f"spec: {{nodeName: gpu-1, {fields}containers: [{{name: main, {env}}}]}}\nstatus: {{phase: Running}}\n"
    )


EVERY = "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"
VOID = "env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]"
RUNTIME = "runtimeClassName: nvidia, "
REQUEST = "resources: {limits: {nvidia.com/gpu: 1}}"
DAEMON_SET = ", ownerReferences: [{kind: DaemonSet, name: tool, controller: true}]"
DRAINED = {"drain": "{enable: true, force: true}", "podDeletion": "{force: true}"}
DRAIN = ", or write upgradePolicy.drain: {enable: true, force: true}"
FORCED = {"podDeletion": "{force: true}"}


def replaced(fields, users, *, before="580.95.05"):
    new, old = (policy(fields, driver=f"    version: {each}\n") for each in ("595.91.07", before))
    return f"{new}\n--- # before\n{old}{users}"


@pytest.mark.parametrize(
    ("fields", "users", "drain"),
    [
        (FORCED, using_pod(env=EVERY), DRAIN),
        (FORCED, using_pod(RUNTIME), DRAIN),
        (FORCED, using_pod("volumes: [{name: gpu, hostPath: {path: /dev/nvidia0}}], "), DRAIN),
        ({"autoUpgrade": "false"}, using_pod(env=EVERY), ""),
        (FORCED, using_pod(owner=DAEMON_SET, env=REQUEST), ""),
        (DRAINED, using_pod(owner=DAEMON_SET, env=EVERY), ""),
    ],
)
def test_pods_that_keep_a_replaced_driver_in_use_are_warned_about(examined, fields, users, drain):
    text = (
        'spec.driver.version: replaces the driver, and upgrades do not end the pod "team-a/tool", which may use GPUs '
        "without a request or as part of a DaemonSet; a driver in use is not unloaded; end these pods before"
    )
    assert findings_of(examined(replaced(fields, users)), "GA172") == [(Severity.WARN, text + drain)]


@pytest.mark.parametrize(
    ("fields", "users"),
    [
        (FORCED, using_pod(env=VOID)),
        (FORCED, using_pod(RUNTIME, env=VOID)),
        (FORCED, using_pod(env=REQUEST)),
        (FORCED, using_pod(env="image: web")),
        (FORCED, using_pod(RUNTIME, namespace="gpu-operator")),
        (DRAINED, using_pod(env=EVERY)),
    ],
)
def test_pods_that_upgrades_end_or_that_use_no_gpu_are_left_alone(examined, fields, users):
    assert findings_of(examined(replaced(fields, users)), "GA172") == []


def test_driver_that_stays_disturbs_no_pod(examined):
    assert findings_of(examined(replaced(FORCED, using_pod(env=EVERY), before="595.91.07")), "GA172") == []


def test_pods_without_a_controller_are_warned_about(examined):
    assert findings_of(examined(policy(CHART) + pod()), "GA172") == [
        (
            Severity.WARN,
            (
                "spec.driver.upgradePolicy.podDeletion.force: upgrades stop in upgrade-failed at "
                'pods with no controller: the pod "team-a/notebook"; write podDeletion.force: true '
                "to let upgrades delete them, or end them before an upgrade"
            ),
        )
    ]


OWNED = ", ownerReferences: [{kind: StatefulSet, name: notebook, controller: true}]"
SCRATCH = "volumes: [{name: scratch, emptyDir: {}}], "


def test_pods_with_local_storage_are_warned_of(examined):
    assert findings_of(examined(policy(CHART) + pod(OWNED, SCRATCH)), "GA172") == [
        (
            Severity.WARN,
            (
                "spec.driver.upgradePolicy.podDeletion.deleteEmptyDir: upgrades stop in "
                'upgrade-failed at pods with emptyDir volumes: the pod "team-a/notebook"; write '
                "podDeletion.deleteEmptyDir: true to let upgrades delete what is in them, or end the "
                "pods before"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("fields", "volumes"),
    [
        ({"podDeletion": "{deleteEmptyDir: true}"}, SCRATCH),
        ({"drain": "{enable: true, deleteEmptyDir: true}"}, SCRATCH),
        ({}, "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], "),
    ],
)
def test_local_storage_that_may_be_deleted_is_left_alone(examined, fields, volumes):
    assert findings_of(examined(policy({**CHART, **fields}) + pod(OWNED, volumes)), "GA172") == []


def test_pods_that_may_be_deleted_are_left_alone(examined):
    owned = ", ownerReferences: [{kind: StatefulSet, name: notebook, controller: true}]"
    assert findings_of(examined(policy(CHART) + pod(owned)), "GA172") == []
    assert findings_of(examined(policy({**CHART, "podDeletion": "{force: true}"}) + pod()), "GA172") == []
    assert findings_of(examined(policy({**CHART, "drain": "{enable: true, force: true}"}) + pod()), "GA172") == []


def test_upgrades_that_sandboxes_prevent_are_warned_of(examined):
    assert findings_of(examined(policy({"drain": "{enable: true}"}, rest=SANDBOX)), "GA173") == [
        (
            Severity.WARN,
            (
                "spec.driver.upgradePolicy.autoUpgrade: has no effect while sandboxWorkloads.enabled is true; the operator "
                "skips all upgrades; write autoUpgrade: false, and upgrade drivers node by node"
            ),
        )
    ]


def test_operator_that_panics_is_warned_of(examined):
    text = (
        "spec.driver.upgradePolicy.autoUpgrade: is true without drain, and operator 26.3 "
        "would crash with a nil pointer dereference; write drain: {enable: false} beside it"
    )
    assert findings_of(examined(policy(labels="helm.sh/chart: gpu-operator-v26.3.1")), "GA173") == [
        (Severity.WARN, text)
    ]
    assert findings_of(examined(policy(labels="helm.sh/chart: gpu-operator-v26.7.0")), "GA173") == []
    assert findings_of(examined(policy()), "GA173") == []
    assert findings_of(examined(policy(CHART, labels="helm.sh/chart: gpu-operator-v26.3.1")), "GA173") == []


def test_version_of_the_running_operator_is_known(examined):
    operator = (
        "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: gpu-operator, labels: {app: gpu-operator}}\n"
        "spec: {containers: [{name: a, image: 'nvcr.io/nvidia/gpu-operator:v25.10.1'}]}\n"
    )
    found = findings_of(examined(policy(labels="helm.sh/chart: gpu-operator-v26.7.0") + operator), "GA173")
    assert len(found) == 1
    assert "operator 25.10" in found[0][1]


@pytest.mark.parametrize(
    "fields",
    [{"maxUnavailable": "half"}, {"drain": "{enable: true, podSelector: 'a in (b'}"}, {"maxUnavailable": "-1"}],
)
def test_upgrade_policy_beside_sandbox_workloads_is_not_read(examined, fields):
    found = findings_of(examined(policy(fields, rest=SANDBOX)), "GA169", "GA171")
    assert [severity for severity, _ in found] == [Severity.WARN]
    assert "it is not read while sandboxWorkloads.enabled is true" in found[0][1]
    assert findings_of(examined(policy(fields)), "GA169", "GA171")[0][0] is Severity.DENY
