"""Configs without effect: for prioritized lists, for devices of other types, or overridden by later configs."""

import pytest

CONFIG = "spec.devices.config[0]"
GPU, MIG, VFIO = "{kind: GpuConfig}", "{kind: MigDeviceConfig}", "{kind: VfioDeviceConfig}"
EITHER = {"large": "gpu.nvidia.com", "small": "mig.nvidia.com"}
BROAD = """
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: any.nvidia.com}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.nvidia.com"'}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: other.example.com}
spec:
  selectors:
  - cel: {expression: 'device.driver == "dra.example.com"'}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: small.nvidia.com}
spec:
  selectors:
  - cel: {expression: 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].profile == "1g.5gb"'}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: odd.nvidia.com}
spec: {selectors: {}}
"""


def of(parameters, names=None, driver="gpu.nvidia.com"):
    return (parameters, names, driver)


def test_name_of_a_prioritized_list_is_reported(config_findings, requests_for):
    requests = requests_for(gpu={"two": "gpu.nvidia.com", "one": "gpu.nvidia.com"})
    assert config_findings("GA249", of(GPU, ["gpu"]), requests=requests) == [
        (
            f'{CONFIG}.requests[0]: "gpu" is a prioritized list, whose devices are those of "gpu/two", "gpu/one"; '
            "gpu.nvidia.com compares names exactly and ignores the config; write gpu/two, gpu/one"
        )
    ]


def test_only_alternatives_that_the_config_can_be_for_are_named(config_findings, requests_for):
    requests = requests_for(gpu=EITHER)
    for parameters, meant in ((GPU, "gpu/large"), (MIG, "gpu/small")):
        (text,) = config_findings("GA249", of(parameters, ["gpu"]), requests=requests)
        assert text.endswith(f"; write {meant}")


@pytest.mark.parametrize("names", [["gpu/large"], ["gpu", "gpu/large"], None, [1], "gpu"])
def test_names_of_alternatives_are_not_reported(config_findings, requests_for, names):
    assert config_findings("GA249", of(GPU, names), requests=requests_for(gpu=EITHER)) == []


def test_some_alternatives_beside_the_list_are_reported(config_findings, requests_for):
    requests = requests_for(gpu={"two": "gpu.nvidia.com", "one": "gpu.nvidia.com"})
    (text,) = config_findings("GA249", of(GPU, ["gpu/two", "gpu"]), requests=requests)
    assert text.startswith(f"{CONFIG}.requests[1]: ")
    assert text.endswith("; write gpu/one")


def test_name_of_a_list_is_refused_only_where_the_default_config_fails(config_severities, requests_for):
    gpus = requests_for(gpu={"two": "gpu.nvidia.com", "one": "gpu.nvidia.com"})
    assert config_severities("GA249", of(GPU, ["gpu"]), requests=gpus) == ["warn"]
    channels = requests_for(channel={"one": "compute-domain-default-channel.nvidia.com"})
    config = of("{kind: ComputeDomainChannelConfig, domainID: x}", ["channel"], "compute-domain.nvidia.com")
    assert config_severities("GA249", config, requests=channels) == ["deny"]


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_name_of_a_list_is_reported_in_every_version(config_findings, requests_for, kind, version):
    texts = config_findings("GA249", of(GPU, ["gpu"]), requests=requests_for(gpu=EITHER), kind=kind, version=version)
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("parameters", "device_class", "expected"),
    [
        (
            GPU,
            "mig.nvidia.com",
            'cannot apply GpuConfig to devices of type "mig" (request: gpu); write opaque.parameters.kind: MigDeviceConfig',
        ),
        (
            MIG,
            "gpu.nvidia.com",
            'cannot apply MigDeviceConfig to devices of type "gpu" (request: gpu); write opaque.parameters.kind: GpuConfig',
        ),
        (
            VFIO,
            "gpu.nvidia.com",
            'cannot apply VfioDeviceConfig to devices of type "gpu" (request: gpu); write opaque.parameters.kind: GpuConfig',
        ),
        (
            GPU,
            "small.nvidia.com",
            'cannot apply GpuConfig to devices of type "mig" (request: gpu); write opaque.parameters.kind: MigDeviceConfig',
        ),
    ],
)
def test_config_for_a_device_of_another_type_is_reported(config_findings, parameters, device_class, expected):
    cluster = BROAD if device_class == "small.nvidia.com" else ""
    texts = config_findings("GA250", parameters, device_class=device_class, cluster=cluster)
    assert texts == [f"{CONFIG}.requests[0]: {expected}"]
    assert config_findings("GA251", parameters, device_class=device_class, cluster=cluster) == []


@pytest.mark.parametrize("device_class", ["gpu.nvidia.com", "any.nvidia.com", "odd.nvidia.com", "unseen.nvidia.com"])
def test_config_for_a_device_that_can_be_of_its_type_is_not_reported(config_findings, device_class):
    for rule in ("GA250", "GA251"):
        assert config_findings(rule, GPU, device_class=device_class, cluster=BROAD) == []


def test_selectors_of_a_request_decide_its_type_too(config_findings):
    text = 'device.attributes["gpu.nvidia.com"].type != "gpu"'
    asked = {"deviceClassName": "any.nvidia.com", "selectors": [{"cel": {"expression": text}}, {}, 1]}
    requests = [{"name": "gpu", "exactly": asked}]
    assert config_findings("GA250", GPU, requests=requests, cluster=BROAD) == [
        (
            f'{CONFIG}.requests[0]: cannot apply GpuConfig to devices of type "mig" or "vfio" (request: gpu); write the kind '
            "of config that these devices have"
        )
    ]


def test_class_that_the_cluster_has_otherwise_is_taken_as_it_is(config_findings):
    cluster = BROAD.replace("any.nvidia.com", "mig.nvidia.com")
    assert config_findings("GA250", GPU, device_class="mig.nvidia.com", cluster=cluster) == []


@pytest.mark.parametrize(
    ("selector", "refused", "idle"),
    [
        ("device.attributes['gpu.nvidia.com'].type == 'mig'", True, False),
        ("device.driver == 'dra.example.com'", False, True),
        ("device.driver == 'gpu.nvidia.com'", False, False),
        ("not CEL", False, False),
    ],
)
def test_config_of_a_class_for_devices_of_another_type_is_reported(config_findings, selector, refused, idle):
    shape = {"kind": "DeviceClass", "requests": [{"cel": {"expression": selector}}], "names": None}
    expected = 'cannot apply GpuConfig to devices of type "mig", which the class is for; write opaque.parameters.kind: MigDeviceConfig'
    place = "spec.config[0].opaque.parameters.kind"
    assert config_findings("GA250", GPU, **shape) == ([f"{place}: {expected}"] if refused else [])
    expected = (
        'is for devices of type "gpu" of gpu.nvidia.com, and the class selects none; remove the config, or request '
        "devices of its type"
    )
    assert config_findings("GA251", GPU, **shape) == ([f"{place}: {expected}"] if idle else [])


MIGS_ONLY = {
    "kind": "DeviceClass",
    "requests": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].type == 'mig'"}}],
    "names": None,
}


@pytest.mark.parametrize(("release", "severity"), [("v1.34.2", "warn"), ("v1.35.0", "deny"), ("", "warn")])
def test_config_of_a_class_is_refused_since_kubernetes_names_its_requests(config_severities, release, severity):
    cluster = f"\n---\nserverVersion: {{gitVersion: {release}}}" if release else ""
    assert config_severities("GA250", GPU, **MIGS_ONLY, cluster=cluster) == [severity]


def test_config_of_a_class_behind_a_later_one_is_not_reported(config_findings):
    assert config_findings("GA250", GPU, MIG, **MIGS_ONLY) == []


@pytest.mark.parametrize("later", [of(MIG, ["gpu"]), of(MIG)])
def test_config_of_another_type_behind_a_later_one_is_not_reported(config_findings, later):
    assert config_findings("GA250", of(GPU, ["gpu"]), later, device_class="mig.nvidia.com") == []
    assert len(config_findings("GA250", later, of(GPU, ["gpu"]), device_class="mig.nvidia.com")) == 1


BAD = "{kind: GpuConfig, sharing: {strategy: Exclusive}}"


def test_values_are_checked_only_where_a_device_has_the_config(config_findings):
    assert len(config_findings("GA243", of(BAD), of(GPU, ["other"]))) == 1
    assert config_findings("GA243", of(BAD), of(GPU, ["gpu"])) == []
    assert config_findings("GA243", of(BAD), device_class="mig.nvidia.com") == []
    assert config_findings("GA243", BAD, **MIGS_ONLY) == []
    assert config_findings("GA243", BAD, GPU, **{**MIGS_ONLY, "requests": []}) == []
    assert len(config_findings("GA243", GPU, BAD, **{**MIGS_ONLY, "requests": []})) == 1


def test_config_without_a_device_of_its_type_is_reported(config_findings):
    assert config_findings("GA251", GPU, names=None, device_class="mig.nvidia.com") == [
        (
            f'{CONFIG}.opaque.parameters.kind: is for devices of type "gpu" of gpu.nvidia.com, and no request can get one; '
            "remove the config, or request devices of its type"
        )
    ]


def test_config_for_a_request_of_another_driver_is_reported(config_findings):
    assert config_findings("GA251", GPU, device_class="other.example.com", cluster=BROAD) == [
        (
            f'{CONFIG}.requests[0]: the GpuConfig is for devices of type "gpu" of gpu.nvidia.com, and request "gpu" can get '
            "none; remove the config, or request devices of its type"
        )
    ]


def test_config_of_a_claim_for_nothing_is_not_reported(config_findings):
    assert config_findings("GA251", GPU, names=None, requests=[]) == []


def test_config_behind_a_later_one_is_reported(config_findings):
    assert config_findings("GA252", of(GPU, ["gpu"]), of(GPU, ["gpu"])) == [
        (
            f'{CONFIG}.requests[0]: has no effect on "gpu", for which spec.devices.config[1] comes later; write all settings in '
            "one config, or name each request in one config only"
        )
    ]


def test_config_for_all_behind_later_ones_for_each_is_reported(config_findings, requests_for):
    requests = requests_for(a="gpu.nvidia.com", b="gpu.nvidia.com", c="mig.nvidia.com")
    configs = [of(GPU), of(GPU, ["a"]), of(GPU, ["b"])]
    assert config_findings("GA252", *configs, requests=requests) == [
        (
            f"{CONFIG}: has no effect, since later configs are for all requests that it is for; write all settings in one "
            "config, or name each request in one config only"
        )
    ]
    assert config_findings("GA252", *configs[:2], requests=requests) == []


@pytest.mark.parametrize(
    "configs",
    [
        [of(GPU), of(MIG)],
        [of(GPU, ["gpu"]), of(MIG)],
        [of(GPU), of(GPU, ["other"])],
        [of(GPU, ["gpu"]), of(GPU, ["gpu"], "dra.example.com")],
    ],
)
def test_config_beside_another_is_not_reported(config_findings, configs):
    assert config_findings("GA252", *configs) == []


def test_later_config_for_all_devices_of_a_type_hides_only_what_is_of_it(config_findings):
    configs = [of(GPU, ["gpu"]), of(GPU)]
    assert len(config_findings("GA252", *configs)) == 1
    assert config_findings("GA252", *configs, device_class="any.nvidia.com", cluster=BROAD) == []


def test_configs_that_an_update_leaves_alone_are_not_reported(findings_of):
    text = """
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu, labels: {a: b}}
    spec: {config: [{opaque: {driver: gpu.nvidia.com, parameters: {kind: Nope}}}]}
    """
    assert len(findings_of("GA240", text)) == 2
    assert findings_of("GA240", f"{text}\n--- # before\n{text}") == []
    assert len(findings_of("GA240", f"{text}\n--- # before\n{text.replace('Nope', 'Noper')}")) == 2
