"""DCGM and its exporter: the list of metrics, the host engine, scraping, labels of metrics."""

import pytest

POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n"
CLUSTER = "apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}\nspec:\n  draDriver: {}\n"
OTHER_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: gpu-operator}"
WRONG_KEY = OTHER_MAP.replace("other", "metrics-config") + "\ndata: {default-counters.csv: x, notes: y}"
RIGHT_KEY = OTHER_MAP.replace("other", "metrics-config") + "\ndata: {dcgm-metrics.csv: x}"
BINARY = OTHER_MAP.replace("other", "metrics-config") + "\nbinaryData: {dcgm-metrics.csv: eA==}"
NAMED = "dcgmExporter: {config: {name: metrics-config}}"


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA158", "dcgmExporter: {...}")`: path, severity, message and remedy of a rule's findings on a spec."""

    def tell(rule, spec, *cluster, kind=POLICY):
        text = kind + "\n".join(f"  {line}" for line in spec.splitlines())
        found = examined("\n---\n".join([text, *cluster]))
        return [(str(one.path), str(one.severity), one.message, one.remedy) for one in found if one.rule.id == rule]

    return tell


@pytest.mark.parametrize("kind", [POLICY, CLUSTER])
def test_missing_list_of_metrics_is_refused(findings_of, kind):
    assert findings_of("GA158", NAMED, OTHER_MAP, kind=kind) == [
        (
            "spec.dcgmExporter.config.name",
            "deny",
            ('ConfigMap "metrics-config" not found in gpu-operator; the exporter\'s pods would not start'),
            'create ConfigMap "metrics-config" in gpu-operator first, with the key dcgm-metrics.csv',
        )
    ]


def test_list_of_metrics_at_another_key_is_refused(findings_of):
    assert findings_of("GA158", NAMED, WRONG_KEY) == [
        (
            "spec.dcgmExporter.config.name",
            "deny",
            (
                'ConfigMap "metrics-config" has "default-counters.csv", "notes" and not '
                "dcgm-metrics.csv; the exporter's pods would not start"
            ),
            "add the key dcgm-metrics.csv to it",
        )
    ]


@pytest.mark.parametrize("cluster", [[], [RIGHT_KEY], [BINARY]])
def test_list_of_metrics_that_is_there_or_unknown_is_fine(findings_of, cluster):
    assert findings_of("GA158", NAMED, *cluster) == []


def test_exporter_that_is_not_deployed_is_not_examined(findings_of):
    spec = (
        "dcgmExporter: {enabled: false, config: {name: metrics-config}, hpcJobMapping: {enabled: true, directory: x}}"
    )
    assert findings_of("GA158", spec, OTHER_MAP) == []
    assert findings_of("GA161", spec) == []


def engine(value, dcgm="", more=""):
    variable = f'{{name: DCGM_REMOTE_HOSTENGINE_INFO, value: "{value}"}}'
    return f"dcgm: {{{dcgm}}}\ndcgmExporter:\n  env: [{variable}]\n  {more}"


def test_other_host_engine_beside_the_operators_own_is_warned_about(findings_of):
    assert findings_of("GA159", engine("10.0.0.1:5555", "enabled: true")) == [
        (
            "spec.dcgmExporter.env[0].value",
            "warn",
            '"10.0.0.1:5555" is not the host engine that the operator deploys, because dcgm.enabled is true',
            "write dcgm.enabled: false, or remove the variable",
        )
    ]


def test_omitted_dcgm_means_true_in_a_cluster_policy(findings_of):
    assert "because dcgm.enabled is true " in findings_of("GA159", engine("10.0.0.1:5555"))[0][2]


def test_omitted_dcgm_means_false_in_a_gpu_cluster(findings_of):
    assert findings_of("GA159", engine("10.0.0.1:5555"), kind=CLUSTER) == []


def test_localhost_without_the_nodes_network_is_refused(findings_of):
    assert findings_of("GA159", engine("localhost:5555", "enabled: false")) == [
        (
            "spec.dcgmExporter.env[0].value",
            "deny",
            '"localhost:5555" is the pod itself without hostNetwork; the exporter could not connect to localhost',
            "write hostNetwork: true in dcgmExporter",
        )
    ]


@pytest.mark.parametrize(
    "spec",
    [
        engine("localhost:5555", "enabled: false", "hostNetwork: true"),
        engine("10.0.0.1:5555", "enabled: false"),
        engine("nvidia-dcgm:5555", "enabled: true"),
        engine("nvidia-dcgm.gpu-operator.svc:5555"),
        engine(""),
    ],
)
def test_host_engine_that_runs_is_fine(findings_of, spec):
    assert findings_of("GA159", spec) == []


def monitor(*fields):
    return f"dcgmExporter: {{serviceMonitor: {{{', '.join(fields)}}}}}"


def test_timeout_longer_than_the_interval_is_refused(findings_of):
    assert findings_of("GA160", monitor("enabled: true", "interval: 1m", "scrapeTimeout: 90s")) == [
        (
            "spec.dcgmExporter.serviceMonitor.scrapeTimeout",
            "deny",
            (
                "90s is longer than the interval; the Prometheus operator would drop the ServiceMonitor: scrapeTimeout "
                '"90s" greater than scrapeInterval "1m"'
            ),
            "write interval: 90s or more, or scrapeTimeout: 1m or less",
        )
    ]


PROMETHEUS = """apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: k8s, namespace: monitoring}
spec: {scrapeInterval: 1m, serviceMonitorSelector: {matchLabels: {release: kps}}}"""
SELECTED = "additionalLabels: {release: kps}"


def test_timeout_without_interval_is_compared_with_the_usual_one(findings_of):
    found = findings_of("GA160", monitor("enabled: true", "scrapeTimeout: 45s"))
    assert [one[1:3] for one in found] == [
        (
            "warn",
            "45s is longer than 30s, the usual interval of Prometheus, and no interval is set",
        )
    ]


def test_timeout_without_interval_is_compared_with_that_of_prometheus(findings_of):
    assert findings_of("GA160", monitor("enabled: true", "scrapeTimeout: 45s", SELECTED), PROMETHEUS) == []
    slow = findings_of("GA160", monitor("enabled: true", "scrapeTimeout: 2m", SELECTED), PROMETHEUS)
    assert slow[0][2] == "2m is longer than the interval of Prometheus, and no interval is set"


@pytest.mark.parametrize(
    "fields", [["interval: 15s", "scrapeTimeout: 15s"], ["scrapeTimeout: 10s"], ["interval: 1m30s"], []]
)
def test_timeout_that_fits_is_fine(findings_of, fields):
    assert findings_of("GA160", monitor("enabled: true", *fields)) == []


def test_duration_without_unit_is_refused(findings_of):
    assert findings_of("GA160", monitor("enabled: true", 'interval: "30"'))[0][1:] == (
        "deny",
        '"30" is not a duration of Prometheus; the API server refuses it',
        "write 30s",
    )


def test_empty_duration_is_warned_about(findings_of):
    found = findings_of("GA160", monitor('interval: ""'))
    assert [one[1:3] for one in found] == [("warn", "is empty, which counts as not set; Prometheus would use its own")]


def test_service_of_a_type_that_does_not_exist_is_refused(findings_of):
    found = findings_of("GA160", "dcgmExporter: {service: {type: NodeIP, internalTrafficPolicy: local}}")
    assert found == [
        (
            "spec.dcgmExporter.service.type",
            "deny",
            (
                '"NodeIP" is not one of ClusterIP, NodePort, LoadBalancer, ExternalName; the API '
                "server would refuse the exporter's Service"
            ),
            'write "NodePort"',
        ),
        (
            "spec.dcgmExporter.service.internalTrafficPolicy",
            "deny",
            '"local" is not one of Cluster, Local; the API server would refuse the exporter\'s Service',
            'write "Local"',
        ),
    ]


CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}"


def test_service_monitor_without_its_crd_is_warned_about(findings_of):
    assert findings_of("GA160", monitor("enabled: true"), CRD % "clusterpolicies.nvidia.com")[0][1] == "warn"
    assert findings_of("GA160", monitor("enabled: true"), CRD % "servicemonitors.monitoring.coreos.com") == []


def test_label_that_prometheus_wants_is_reported(findings_of):
    found = findings_of("GA160", monitor("enabled: true", "additionalLabels: {team: gpu}"), PROMETHEUS)
    assert found == [
        (
            "spec.dcgmExporter.serviceMonitor",
            "warn",
            "the ServiceMonitor lacks the label release: kps, by which Prometheus here selects ServiceMonitors",
            "write additionalLabels: {release: kps}",
        )
    ]


def test_prometheus_that_selects_everything_wants_no_label(findings_of):
    everything = PROMETHEUS.replace("{matchLabels: {release: kps}}", "{}")
    assert findings_of("GA160", monitor("enabled: true"), PROMETHEUS, everything.replace("k8s", "all")) == []


SECOND = """apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: dcgm, namespace: monitoring}
spec:
  selector: {matchLabels: {app: nvidia-dcgm-exporter}}
  namespaceSelector: {matchNames: [gpu-operator]}"""


def test_second_service_monitor_is_warned_about(findings_of):
    assert findings_of("GA160", monitor("enabled: true"), SECOND) == [
        (
            "spec.dcgmExporter.serviceMonitor.enabled",
            "warn",
            'the ServiceMonitor "monitoring/dcgm" scrapes the exporter already, so every series would exist twice',
            "delete that ServiceMonitor, or write enabled: false",
        )
    ]


@pytest.mark.parametrize(
    "other",
    [
        SECOND.replace("[gpu-operator]", "[elsewhere]"),
        SECOND.replace("app: nvidia-dcgm-exporter", "app: other"),
        SECOND.replace("name: dcgm,", "name: nvidia-dcgm-exporter,"),
    ],
)
def test_service_monitor_of_something_else_is_fine(findings_of, other):
    assert findings_of("GA160", monitor("enabled: true"), other) == []


def test_relative_directory_of_jobs_is_refused(findings_of):
    assert findings_of("GA161", "dcgmExporter: {hpcJobMapping: {enabled: true, directory: jobs}}") == [
        (
            "spec.dcgmExporter.hpcJobMapping.directory",
            "deny",
            '"jobs" is not absolute, so the exporter\'s pods could not mount it',
            "write an absolute path such as /var/lib/dcgm-exporter/job-mapping",
        )
    ]


def test_directory_that_goes_up_is_refused(findings_of):
    found = findings_of("GA161", "dcgmExporter: {hpcJobMapping: {enabled: true, directory: /var/../jobs}}")
    assert [one[3] for one in found] == ["write the path without .."]


def test_directory_of_a_mapping_that_is_off_is_warned_about(findings_of):
    found = findings_of("GA161", "dcgmExporter: {hpcJobMapping: {directory: /jobs}}")
    assert [one[1:3] for one in found] == [("warn", "has no effect, because hpcJobMapping.enabled is not true")]


def patterns(*texts, labels="enablePodLabels: true"):
    listed = "\n".join(f"  - '{text}'" for text in texts)
    return f"dcgmExporter:\n  {labels}\n  podLabelAllowlistRegex:\n{listed}"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("^(app", "has a ( that is not closed; "),
        ("app)", "has an unmatched ); "),
        ("[a-z", "has a [ that is not closed; "),
        ("app\\", "ends in a \\; "),
        ("*app", "repeats nothing; "),
        ("app(?!-x)", "has a lookahead, which Go's regular expressions do not have; "),
        ("a{1,2}", "has a comma, at which the exporter splits it into two patterns"),
    ],
)
def test_pattern_that_does_not_work_is_warned_about(findings_of, pattern, said):
    path, severity, message, _ = findings_of("GA161", patterns("^app$", pattern))[0]
    assert (path, severity) == ("spec.dcgmExporter.podLabelAllowlistRegex[1]", "warn")
    assert message.startswith(f'"{pattern}" {said}')


@pytest.mark.parametrize(
    "pattern",
    ["^app$", "app\\.kubernetes\\.io/.*", "[]a]+", "[^]]", "[[:alpha:]]+", "(?i)app", "a{2}", "\\(", "a{", "", "a,b"],
)
def test_pattern_that_works_is_fine(findings_of, pattern):
    assert findings_of("GA161", patterns(pattern)) == []


def test_patterns_without_pod_labels_are_warned_about(findings_of):
    found = findings_of("GA161", patterns("^app$", labels="enablePodUID: true"))
    assert [one[1:3] for one in found] == [("warn", "has no effect, because enablePodLabels is not true")]


def test_pod_labels_by_variable_count(findings_of):
    variable = "env: [{name: DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS, value: 'true'}]"
    assert findings_of("GA161", patterns("^app$", labels=variable)) == []
