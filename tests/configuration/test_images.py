"""Images of components: the three parts, the reference they make, tags, pulling."""

import pytest

DIGEST = "sha256:" + "4f" * 32
POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n"
DRIVER = "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: pool}\nspec:\n"
CLUSTER = "apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}\nspec:\n"


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA110", "driver: {...}")`: path, severity, message and remedy of a rule's findings on a spec."""

    def tell(rule, spec, *cluster, kind=POLICY):
        text = kind + "\n".join(f"  {line}" for line in spec.splitlines())
        found = examined("\n---\n".join([text, *cluster]))
        return [(str(one.path), str(one.severity), one.message, one.remedy) for one in found if one.rule.id == rule]

    return tell


def node(name, os_id, os_version):
    return f"""apiVersion: v1
kind: Node
metadata:
  name: {name}
  labels:
    nvidia.com/gpu.present: "true"
    feature.node.kubernetes.io/system-os_release.ID: {os_id}
    feature.node.kubernetes.io/system-os_release.VERSION_ID: "{os_version}\""""


def test_version_alone_is_refused_with_the_operators_words(findings_of):
    assert findings_of("GA110", "toolkit: {version: v1.20.0}") == [
        (
            "spec.toolkit.version",
            "deny",
            (
                "is set without repository and image; the operator would report: invalid image specification: repository, "
                "image and version must all be set (repository=, image=, version=v1.20.0)"
            ),
            "add repository: nvcr.io/nvidia/k8s and image: container-toolkit, or what your registry has",
        )
    ]


def test_remedy_for_a_component_without_a_usual_image_says_what_to_add(findings_of):
    found = findings_of(
        "GA110", "sandboxWorkloads: {enabled: true}\nvfioManager: {enabled: true, repository: nvcr.io/nvidia}"
    )
    assert [remedy for *_, remedy in found] == ["add image and version"]


@pytest.mark.parametrize(
    "spec",
    [
        "driver: {}",
        "driver: {enabled: false, version: 580.95.05}",
        "driver: {useNvidiaDriverCRD: true, version: 580.95.05}",
        "vgpuManager: {version: 580.95.05}",
        "vgpuManager: {enabled: true, version: 580.95.05}",
        "vfioManager: {enabled: true, repository: nvcr.io/nvidia}",
        "sandboxWorkloads: {enabled: true, mode: kata}\nsandboxDevicePlugin: {enabled: true, version: v1}",
        "driver: {enabled: false}\ngds: {enabled: true, version: 2.29.4}",
        "driver: {image: registry.example.com/driver:580.95.05}",
        f"driver: {{image: registry.example.com/driver@{DIGEST}}}",
        "driver: {repository: '', image: '', version: ''}",
        "toolkit: {repository: nvcr.io/nvidia/k8s, image: container-toolkit, version: v1.20.0}",
        "kataManager: {enabled: true, version: v1}",
    ],
)
def test_complete_or_unused_image_passes(findings_of, spec):
    assert findings_of("GA110", spec) == []


def test_image_alone_is_looked_for_on_docker_hub(findings_of):
    assert findings_of(
        "GA110", "driver: {image: driver}\ndevicePlugin: {image: registry.example.com/k8s-device-plugin}"
    ) == [
        (
            "spec.devicePlugin.image",
            "warn",
            (
                "without version is the whole reference and has no tag, so nodes would pull "
                '"registry.example.com/k8s-device-plugin:latest"'
            ),
            "set repository, image and version, or none of them",
        ),
        (
            "spec.driver.image",
            "deny",
            'without repository and version is the whole reference, so nodes would pull "driver-<os>" from Docker Hub',
            "set repository, image and version, or none of them",
        ),
    ]


def test_precompiled_driver_needs_its_image(findings_of):
    [(path, severity, message, _)] = findings_of("GA110", "driver: {usePrecompiled: true}")
    assert (path, severity) == ("spec.driver.usePrecompiled", "deny")
    assert "unable to resolve driver image path for pre-compiled drivers" in message


def test_default_image_of_an_nvidiadriver_is_left_to_its_own_rule(findings_of):
    assert findings_of("GA110", "{driverType: gpu, default: false, version: 580.95.05}", kind=DRIVER) == []
    spec = "{driverType: gpu, default: false, repository: nvcr.io/nvidia, image: nvcr.io/nvidia/driver, version: '580'}"
    assert findings_of("GA111", spec, kind=DRIVER) == []


def test_nvidiadriver_and_gpucluster_have_components_too(findings_of):
    [(path, *_)] = findings_of("GA110", "{driverType: gpu, repository: nvcr.io/nvidia, image: driver}", kind=DRIVER)
    assert path == "spec.repository"
    [(path, *_)] = findings_of("GA110", "draDriver: {version: v0.5.0}", kind=CLUSTER)
    assert path == "spec.draDriver.version"


@pytest.mark.parametrize(
    ("field", "value", "message", "remedy"),
    [
        (
            "repository",
            "https://nvcr.io/nvidia",
            '"https://nvcr.io/nvidia" begins with https://, which image references cannot have',
            "write repository: nvcr.io/nvidia",
        ),
        (
            "repository",
            "nvcr.io/nvidia/",
            '"nvcr.io/nvidia/" ends in a slash, so the reference would contain two',
            "write repository: nvcr.io/nvidia",
        ),
        (
            "repository",
            "nvcr.io/NVIDIA",
            '"nvcr.io/NVIDIA" has upper-case letters, which image references cannot have',
            "write repository: nvcr.io/nvidia",
        ),
        (
            "repository",
            "nvcr.io/nvidia:1.0",
            '"nvcr.io/nvidia:1.0" has a tag, and the image and the version come after it',
            "write repository: nvcr.io/nvidia and the tag in version",
        ),
        (
            "image",
            "nvcr.io/nvidia/container-toolkit",
            (
                '"nvcr.io/nvidia/container-toolkit" has a registry in it, so with repository nodes '
                'would pull "nvcr.io/nvidia/k8s/nvcr.io/nvidia/container-toolkit"'
            ),
            "write image: container-toolkit",
        ),
        (
            "image",
            "container-toolkit:v1",
            '"container-toolkit:v1" has a tag, and version is appended to it',
            "write image: container-toolkit",
        ),
        (
            "version",
            "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0",
            (
                '"nvcr.io/nvidia/k8s/container-toolkit:v1.20.0" is more than a tag, and it is appended to repository and '
                "image"
            ),
            "write version: v1.20.0",
        ),
        ("version", f"@{DIGEST}", f'"@{DIGEST}" would be appended after a colon', f"write version: {DIGEST}"),
        (
            "version",
            "sha256-abc",
            '"sha256-abc" is the tag of a signature, not a digest',
            "copy the whole digest from the registry",
        ),
        (
            "version",
            "sha256-" + "a" * 64,
            f'"sha256-{"a" * 64}" is the tag of a signature, not a digest',
            "write version: sha256:" + "a" * 64,
        ),
        (
            "version",
            "sha256:abc",
            '"sha256:abc" is not a digest of 64 lower-case hexadecimal digits; it has 3',
            "copy the whole digest from the registry",
        ),
        (
            "version",
            "v1 20",
            '"v1 20" is not a tag: letters, digits, ".", "_" and "-", at most 128',
            "write a tag that the registry has",
        ),
    ],
)
def test_part_that_makes_no_reference_is_refused(findings_of, field, value, message, remedy):
    parts = {"repository": "nvcr.io/nvidia/k8s", "image": "container-toolkit", "version": "v1.20.0", field: value}
    spec = "toolkit:\n" + "\n".join(f'  {name}: "{part}"' for name, part in parts.items())
    assert findings_of("GA111", spec) == [(f"spec.toolkit.{field}", "deny", message, remedy)]


@pytest.mark.parametrize(
    "parts",
    [
        "repository: 'registry.local:5000', image: driver, version: 580.95.05",
        "repository: 'registry.local:5000/gpu', image: nvidia/driver, version: 580.95.05",
        f"repository: nvcr.io/nvidia, image: driver, version: '{DIGEST}'",
        "repository: Registry.example.com/nvidia, image: driver, version: 580.95.05",
        f"repository: nvcr.io/nvidia, image: driver, version: '580.95.05-ubuntu22.04@{DIGEST}'",
        f"repository: nvcr.io/nvidia, image: 'driver:580.95.05-ubuntu22.04', version: '{DIGEST}'",
    ],
)
def test_valid_reference_passes(findings_of, parts):
    assert findings_of("GA111", f"driver: {{{parts}}}") == []


def test_registry_in_the_path_of_a_mirror_is_warned_about(findings_of):
    parts = "repository: mirror.example.com/proxy, image: nvcr.io/nvidia/driver, version: 580.95.05"
    [(path, severity, message, _)] = findings_of("GA111", f"driver: {{{parts}}}")
    assert (path, severity) == ("spec.driver.image", "warn")
    assert message.endswith('nodes would pull "mirror.example.com/proxy/nvcr.io/nvidia/driver"')


def test_operating_system_in_a_driver_tag_is_refused(findings_of):
    parts = "repository: nvcr.io/nvidia, image: driver, version: 560.35.03-ubuntu22.04"
    assert findings_of("GA112", f"driver: {{{parts}}}") == [
        (
            "spec.driver.version",
            "deny",
            (
                '"560.35.03-ubuntu22.04" has the operating system, which the operator appends: the '
                'tag "560.35.03-ubuntu22.04-ubuntu22.04" does not exist'
            ),
            'write version: "560.35.03"',
        )
    ]


def test_kernel_in_a_precompiled_tag_is_refused(findings_of):
    parts = (
        "usePrecompiled: true, repository: nvcr.io/nvidia, image: driver, version: 580-5.15.0-102-generic-ubuntu22.04"
    )
    assert [remedy for *_, remedy in findings_of("GA112", f"driver: {{{parts}}}")] == ['write version: "580"']


def test_operating_system_in_other_tags_passes(findings_of):
    parts = "repository: nvcr.io/nvidia/cloud-native, image: dcgm, version: 4.6.0-1-ubuntu24.04"
    assert findings_of("GA112", f"dcgm: {{{parts}}}") == []


def test_digest_of_a_driver_is_refused_when_nodes_differ(findings_of):
    spec = f"driver: {{repository: nvcr.io/nvidia, image: driver, version: '{DIGEST}'}}"
    found = findings_of("GA112", spec, node("a", "ubuntu", "22.04"), node("b", "ubuntu", "24.04"))
    assert found == [
        (
            "spec.driver.version",
            "deny",
            (
                "is a digest, so every node gets the image of one operating system, and GPU nodes have ubuntu22.04 and "
                "ubuntu24.04"
            ),
            "write a tag; the operator adds the operating system of each node",
        )
    ]
    assert findings_of("GA112", spec, node("a", "ubuntu", "22.04")) == []
    pinned = spec.replace(DIGEST, f"580.95.05-ubuntu22.04@{DIGEST}")
    assert len(findings_of("GA112", pinned, node("a", "ubuntu", "22.04"), node("b", "ubuntu", "24.04"))) == 1


@pytest.mark.parametrize("os", ["rhel", "rocky", "ol"])
def test_minor_versions_of_one_operating_system_have_the_same_image(findings_of, os):
    spec = f"driver: {{repository: nvcr.io/nvidia, image: driver, version: '{DIGEST}'}}"
    assert findings_of("GA112", spec, node("a", os, "9.4"), node("b", os, "9.6")) == []


def test_digest_of_a_driver_is_warned_of_when_nodes_are_unknown(findings_of):
    spec = f"driver: {{repository: nvcr.io/nvidia, image: driver, version: '{DIGEST}'}}"
    [(_, severity, message, _)] = findings_of("GA112", spec)
    assert (severity, "not known here" in message) == ("warn", True)
    assert findings_of("GA112", f"{spec}\noperator: {{use_ocp_driver_toolkit: true}}") == []
    own = f"{{driverType: gpu, repository: nvcr.io/nvidia, image: driver, version: '{DIGEST}'}}"
    assert findings_of("GA112", own, kind=DRIVER) == []


def test_digest_with_precompiled_is_refused(findings_of):
    parts = f"usePrecompiled: true, driverType: gpu, repository: nvcr.io/nvidia, image: driver, version: '{DIGEST}'"
    [(path, severity, message, _)] = findings_of("GA112", f"{{{parts}}}", kind=DRIVER)
    assert (path, severity) == ("spec.version", "deny")
    assert message == (
        "is a digest, and precompiled drivers are found by branch and kernel; the operator would report: specifying "
        "image digest is not supported when precompiled is enabled"
    )


def test_latest_and_missing_suffix_are_warned_of(findings_of):
    spec = """driver: {repository: nvcr.io/nvidia, image: driver, version: latest}
devicePlugin: {repository: nvcr.io/nvidia, image: k8s-device-plugin, version: latest}
dcgm: {repository: nvcr.io/nvidia/cloud-native, image: dcgm, version: 4.6.0-1}
toolkit: {repository: nvcr.io/nvidia/k8s, image: container-toolkit, version: v1.14.3}"""
    assert findings_of("GA113", spec) == [
        (
            "spec.dcgm.version",
            "warn",
            '"4.6.0-1" lacks the suffix of the tags of dcgm, so nodes would not find the image',
            "write version: 4.6.0-1-ubuntu24.04",
        ),
        (
            "spec.devicePlugin.version",
            "warn",
            '"latest" changes from day to day, and the operator sees no change to upgrade to',
            "write a version",
        ),
        (
            "spec.driver.version",
            "warn",
            '"latest" is not a version of a driver, and the operator would look for "latest-<os>"',
            "write a version",
        ),
        (
            "spec.toolkit.version",
            "warn",
            '"v1.14.3" lacks the suffix of the tags of container-toolkit, so nodes would not find the image',
            "write version: v1.14.3-ubuntu20.04",
        ),
    ]


OPERATOR = """apiVersion: apps/v1
kind: Deployment
metadata: {name: gpu-operator, namespace: gpu-operator}
spec:
  template:
    spec:
      containers:
      - env:
        - {name: DRIVER_MANAGER_IMAGE, value: "k8s-driver-manager:v0.12.0"}"""


def test_component_without_any_image_is_warned_of_when_the_operator_is_known(findings_of):
    assert findings_of("GA113", "driver: {enabled: true, manager: {}}", OPERATOR)[-1] == (
        "spec.toolkit",
        "warn",
        (
            "has no image; the operator would report: empty image path provided through both "
            "ClusterPolicy CR and ENV CONTAINER_TOOLKIT_IMAGE"
        ),
        (
            "add repository: nvcr.io/nvidia/k8s and image: container-toolkit and version: "
            "v1.20.0, or what your registry has"
        ),
    )
    paths = [path for path, *_ in findings_of("GA113", "driver: {enabled: true, manager: {}}", OPERATOR)]
    assert "spec.driver" in paths
    assert "spec.driver.manager" not in paths
    assert findings_of("GA113", "driver: {enabled: true}") == []


def test_unknown_pull_policy_is_warned_about(findings_of):
    assert findings_of("GA114", "devicePlugin: {imagePullPolicy: always}\ngfd: {imagePullPolicy: ''}") == [
        (
            "spec.devicePlugin.imagePullPolicy",
            "warn",
            '"always" is not a pull policy, so IfNotPresent is used silently',
            "write imagePullPolicy: Always",
        )
    ]


@pytest.mark.parametrize(
    ("kind", "spec", "severity"),
    [
        (DRIVER, "{driverType: gpu, imagePullPolicy: always}", "deny"),
        (DRIVER, "{driverType: gpu, manager: {imagePullPolicy: always}}", "deny"),
        (DRIVER, "{driverType: gpu, gds: {enabled: true, imagePullPolicy: always}}", "warn"),
        (CLUSTER, "draDriver: {imagePullPolicy: always}", "deny"),
    ],
)
def test_pull_policy_that_the_operator_copies_into_a_daemonset_is_refused(findings_of, kind, spec, severity):
    assert [one[1] for one in findings_of("GA114", spec, kind=kind)] == [severity]


SECRET = """apiVersion: v1
kind: Secret
metadata: {name: token, namespace: gpu-operator}
type: Opaque"""


def test_pull_secrets_are_looked_up(findings_of):
    spec = """driver: {imagePullSecrets: [absent, token, token, "No Name"]}
toolkit: {imagePullSecrets: [absent]}"""
    assert [(path, severity, message) for path, severity, message, _ in findings_of("GA114", spec, SECRET)] == [
        (
            "spec.driver.imagePullSecrets[0]",
            "warn",
            'Secret "absent" not found in gpu-operator',
        ),
        (
            "spec.driver.imagePullSecrets[1]",
            "warn",
            'Secret "token" has type "Opaque", so it does not hold credentials of a registry',
        ),
        ("spec.driver.imagePullSecrets[2]", "warn", 'names "token" a second time'),
        ("spec.driver.imagePullSecrets[3]", "warn", '"No Name" cannot be the name of a Secret'),
    ]
    assert findings_of("GA114", "driver: {imagePullSecrets: [absent]}") == []
