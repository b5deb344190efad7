"""ComputeDomains: their configs in claims, their template, and their number of nodes."""

import pytest

from policies.rules.settings import DRADriver, GPUAdmissionPolicy

CONFIG = "spec.devices.config[0].opaque.parameters"
UID = "4f6a8c1e-2b3d-4e5f-8a9b-0c1d2e3f4a5b"
CLASS = "compute-domain-default-channel.nvidia.com"
USE = "write metadata.uid of the ComputeDomain, or use the ResourceClaimTemplate that it makes"
DOMAIN = """
---
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {{name: imex, namespace: {namespace}, uid: {uid}}}
spec: {{channel: {{resourceClaimTemplate: {{name: channel}}}}}}
"""
HEAD = "apiVersion: resource.nvidia.com/v1beta1\nkind: ComputeDomain\nmetadata: {{name: imex, namespace: team-a}}\nspec: {}"
TEMPLATE = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: channel, namespace: team-a, labels: {{{labels}}}}}
spec: {{spec: {{}}}}
"""


@pytest.fixture
def channel_findings(config_findings):
    """`channel_findings(rule, fields)`: what a rule says about a claim for a channel."""

    def tell(rule, fields, kind="ComputeDomainChannelConfig", **options):
        options = {"driver": "compute-domain.nvidia.com", "device_class": CLASS, **options}
        return config_findings(rule, f"{{kind: {kind}, {fields}}}", **options)

    return tell


@pytest.mark.parametrize("fields", ["", "domainID: ''", "domainID: null"])
@pytest.mark.parametrize("kind", ["ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"])
def test_missing_domain_is_reported(channel_findings, kind, fields):
    assert channel_findings("GA253", fields, kind) == [f"{CONFIG}.domainID: domainID cannot be empty; {USE}"]


def test_domain_that_is_no_uid_is_reported(channel_findings):
    expected = f"{CONFIG}.domainID: ComputeDomain not found: imex is no UID"
    assert channel_findings("GA253", "domainID: imex") == [f"{expected}; {USE}"]
    cluster = DOMAIN.format(namespace="team-a", uid=UID)
    assert channel_findings("GA253", "domainID: imex", cluster=cluster) == [f"{expected}; write {UID}"]


def test_domain_of_another_namespace_is_reported(channel_findings):
    cluster = DOMAIN.format(namespace="team-b", uid=UID)
    assert channel_findings("GA253", f"domainID: {UID}", cluster=cluster) == [
        (
            f"{CONFIG}.domainID: the ResourceClaim's namespace is different than the ComputeDomain's namespace: \"imex\" is in "
            '"team-b"; create a ComputeDomain in the namespace of the claim'
        )
    ]
    assert channel_findings("GA253", f"domainID: {UID}", "ComputeDomainDaemonConfig", cluster=cluster) == []


def test_domain_that_does_not_exist_is_reported(channel_findings):
    cluster = DOMAIN.format(namespace="team-a", uid=UID.replace("4", "5"))
    texts = channel_findings("GA253", f"domainID: {UID}", cluster=cluster)
    assert texts == [f"{CONFIG}.domainID: ComputeDomain not found: {UID}; {USE}"]


@pytest.mark.parametrize("cluster", ["", DOMAIN.format(namespace="team-a", uid=UID)])
@pytest.mark.parametrize("mode", ["''", "Single", "All"])
def test_domain_of_the_namespace_is_not_reported(channel_findings, mode, cluster):
    assert channel_findings("GA253", f"domainID: {UID}, allocationMode: {mode}", cluster=cluster) == []


@pytest.mark.parametrize(("mode", "remedy"), [("all", 'write "All"'), ("Both", "write All or Single")])
def test_mode_of_allocation_that_does_not_exist_is_reported(channel_findings, mode, remedy):
    assert channel_findings("GA253", f"domainID: {UID}, allocationMode: {mode}") == [
        f'{CONFIG}.allocationMode: "{mode}" is not one of All, Single, so the driver uses Single; {remedy}'
    ]


def test_config_that_is_written_by_hand_is_reported(channel_findings):
    assert channel_findings("GA254", f"domainID: {UID}") == [
        (
            f"{CONFIG}.kind: ComputeDomainChannelConfig is written by hand, and is for one ComputeDomain only; create a "
            "ComputeDomain, and have pods name the ResourceClaimTemplate that it makes"
        )
    ]


@pytest.mark.parametrize(
    "metadata",
    [
        f"labels: {{resource.nvidia.com/computeDomain: {UID}}}",
        "annotations: {resource.kubernetes.io/pod-claim-name: channel}",
    ],
)
def test_config_of_a_controller_is_not_reported(findings_of, metadata):
    text = (
        f"{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: a, namespace: b, {metadata}}}, "
        "spec: {devices: {config: [{opaque: {driver: compute-domain.nvidia.com, parameters: {apiVersion: "
        "resource.nvidia.com/v1beta1, kind: ComputeDomainDaemonConfig}}}]}}}"
    )
    assert findings_of("GA254", text) == []


def test_channel_without_a_domain_is_reported(config_findings):
    assert config_findings("GA255", device_class=CLASS) == [
        (
            'spec.devices.requests[0].exactly: "gpu" has no ComputeDomainChannelConfig, so the driver says "domainID cannot be '
            'empty"; create a ComputeDomain, and have pods name the ResourceClaimTemplate that it makes'
        )
    ]


def test_daemon_with_the_config_of_a_channel_is_reported(channel_findings):
    texts = channel_findings("GA255", f"domainID: {UID}", names=None, device_class="compute-domain-daemon.nvidia.com")
    assert len(texts) == 1


@pytest.mark.parametrize("names", [None, ["gpu"]])
def test_channel_with_a_domain_is_not_reported(channel_findings, names):
    assert channel_findings("GA255", f"domainID: {UID}", names=names) == []


def test_channel_of_a_config_that_cannot_be_read_is_not_reported_twice(channel_findings):
    assert channel_findings("GA255", "", kind="Nope") == []


def test_channel_of_a_class_with_a_config_is_not_reported(config_findings):
    cluster = f"""
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {CLASS}}}
spec:
  selectors: [{{cel: {{expression: "device.attributes['compute-domain.nvidia.com'].type == 'channel'"}}}}]
  config: [{{opaque: {{driver: compute-domain.nvidia.com, parameters: {{}}}}}}]
"""
    assert config_findings("GA255", device_class=CLASS, cluster=cluster) == []
    assert len(config_findings("GA255", device_class=CLASS, cluster=cluster.partition("  config")[0])) == 1


def test_gpus_need_no_domain(config_findings):
    for device_class in ("gpu.nvidia.com", "unseen.nvidia.com"):
        assert config_findings("GA255", device_class=device_class) == []


NAME = "spec.channel.resourceClaimTemplate.name"
FREE = "write a name that no other ResourceClaimTemplate of the namespace has"


def domain(fields="", name="channel"):
    return HEAD.format(f"{{channel: {{resourceClaimTemplate: {{name: '{name}'}}}}, {fields}}}")


def test_template_whose_name_is_taken_is_reported(findings_of):
    expected = (
        f'{NAME}: "channel" is a ResourceClaimTemplate that exists, so the controller cannot create its own; {FREE}'
    )
    assert findings_of("GA256", domain() + TEMPLATE.format(labels="")) == [expected]
    labels = f"resource.nvidia.com/computeDomain: {UID}"
    assert findings_of("GA256", domain() + TEMPLATE.format(labels=labels)) == [expected]
    own = domain().replace("{name: imex,", f"{{name: imex, uid: {UID},")
    assert findings_of("GA256", own + TEMPLATE.format(labels=labels)) == []


def test_template_of_two_domains_is_reported(findings_of):
    other = DOMAIN.format(namespace="team-a", uid=UID).replace("imex", "other")
    assert findings_of("GA256", domain() + other) == [
        f'{NAME}: "channel" is the template of ComputeDomain "other" too, and only one of them can create it; {FREE}'
    ]
    assert findings_of("GA256", domain() + other.replace("team-a", "team-b")) == []


def test_template_of_a_name_that_no_object_has_is_reported(findings_of):
    assert findings_of("GA256", domain(name="Imex_Channel")) == [
        (
            f'{NAME}: Invalid value: "Imex_Channel": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character; write \"imex-channel\""
        )
    ]
    assert findings_of("GA256", domain(name="")) == [
        f"{NAME}: Required value; write a name for the template, such as imex-channel"
    ]
    assert findings_of("GA256", domain(name="?")) == [
        (
            f'{NAME}: Invalid value: "?": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            f"characters, '-' or '.', and must start and end with an alphanumeric character; {FREE}"
        )
    ]


@pytest.mark.parametrize(
    "text", [domain(), HEAD.format("null"), HEAD.format("{channel: {resourceClaimTemplate: [1]}}")]
)
def test_template_with_a_free_name_is_not_reported(findings_of, text):
    assert findings_of("GA256", text) == []


def test_domain_that_counts_its_nodes_is_reported(findings_of):
    assert findings_of("GA257", domain("numNodes: 4")) == [
        (
            "spec.numNodes: is deprecated and holds no pod back until so many nodes are there; it decides only when status is "
            "Ready; write 0, which drivers before 0.4 require, and have the workload itself wait for its workers"
        )
    ]


@pytest.mark.parametrize("fields", ["", "numNodes: 0", "numNodes: null", "numNodes: '4'", "numNodes: -1"])
def test_domain_that_does_not_count_its_nodes_is_not_reported(findings_of, fields):
    assert findings_of("GA257", domain(fields)) == []


def test_number_of_nodes_counts_without_dns_names(findings_of):
    cluster = (
        "\n---\n{apiVersion: nvidia.com/v1alpha1, kind: GPUCluster, metadata: {name: a}, spec: {draDriver: {featureGates: "
        "{IMEXDaemonsWithDNSNames: false}}}}"
    )
    expected = (
        'spec.numNodes: must be the number of nodes: without the feature gate "IMEXDaemonsWithDNSNames" the driver waits for '
        "them; write how many nodes the workload runs on"
    )
    assert findings_of("GA257", domain() + cluster) == [expected]
    assert findings_of("GA257", domain("numNodes: 4") + cluster) == []


def test_number_of_nodes_has_no_effect_where_hosts_run_the_daemons(findings_of):
    cluster = (
        "\n---\n{apiVersion: nvidia.com/v1alpha1, kind: GPUCluster, metadata: {name: a}, spec: {draDriver: {featureGates: "
        "{IMEXDaemonsWithDNSNames: false}, computeDomains: {controller: {env: [{name: IMEX_MODE, value: hostManaged}]}}}}}"
    )
    assert findings_of("GA257", domain("numNodes: 4") + cluster) == [
        (
            "spec.numNodes: has no effect: hosts run the IMEX daemons (IMEX_MODE=hostManaged), and the ComputeDomain is Ready at "
            "once; write 0"
        )
    ]
    assert findings_of("GA257", domain() + cluster) == []


@pytest.mark.parametrize(("release", "waits"), [("25.3.2", True), ("25.8.0", False), ("0.4.1", False)])
def test_number_of_nodes_counts_for_drivers_before_the_gate(findings_of, release, waits):
    settings = GPUAdmissionPolicy(dra_driver=DRADriver(version=release))
    assert bool(findings_of("GA257", domain(), settings=settings)) is waits
    assert bool(findings_of("GA257", domain("numNodes: 4"), settings=settings)) is not waits


def test_domain_that_is_there_is_left_alone(findings_of):
    text = domain("numNodes: 4", name="Nope_")
    for rule in ("GA256", "GA257"):
        assert findings_of(rule, f"{text}\n--- # before\n{text}") == []
