"""Images of components: repository, image and version, pull policy and pull secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.configuration.change import OPERATOR, WITH_DRIVER
from policies.configuration.components import Component, components_with
from policies.configuration.drivers import Driver, os_of
from policies.kubernetes.names import closest
from policies.kubernetes.view import UNKNOWN
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change


IMAGE = ("repository", "image", "version")

_USUAL = {
    "driver": ("nvcr.io/nvidia", "driver", "595.91.07"),
    "driver.manager": ("nvcr.io/nvidia/cloud-native", "k8s-driver-manager", "v0.12.0"),
    "toolkit": ("nvcr.io/nvidia/k8s", "container-toolkit", "v1.20.0"),
    "devicePlugin": ("nvcr.io/nvidia", "k8s-device-plugin", "v0.20.0"),
    "gfd": ("nvcr.io/nvidia", "k8s-device-plugin", "v0.20.0"),
    "dcgm": ("nvcr.io/nvidia/cloud-native", "dcgm", "4.6.0-1-ubuntu24.04"),
    "dcgmExporter": ("nvcr.io/nvidia/k8s", "dcgm-exporter", "4.6.0-4.8.3-distroless"),
    "migManager": ("nvcr.io/nvidia/cloud-native", "k8s-mig-manager", "v0.15.0"),
    "gds": ("nvcr.io/nvidia/cloud-native", "nvidia-fs", "2.29.4"),
    "gdrcopy": ("nvcr.io/nvidia/cloud-native", "gdrdrv", "v2.6"),
    "draDriver": ("nvcr.io/nvidia", "dra-driver-nvidia-gpu", "v0.5.0"),
}
"""The images that the Helm chart of GPU Operator 26.7 sets."""

_NEVER = "which image references cannot have"
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PINNED = re.compile(r"\w[\w.-]{0,127}@sha256:[0-9a-f]{64}", re.ASCII)
"""A tag with a digest, as tools write it that pin tags: a valid reference, of which the digest counts."""
_PORT = re.compile(r"[^:/]+:[0-9]+")


def is_default_image(component: Component) -> bool:
    """True if an NVIDIADriver's image is the CRD's default, a whole path that has its own rule."""
    return not component.steps and component.text("image") in ("", "nvcr.io/nvidia/driver")


def usual_image(component: Component) -> str:
    """A remedy that completes a component's image, with the values of the Helm chart if it has them."""
    missing = [field for field in IMAGE if not component.text(field)]
    usual = _USUAL.get(component.name)
    if usual is None:
        return f"add {' and '.join(missing)}"
    chosen = dict(zip(IMAGE, usual, strict=True))
    return f"add {' and '.join(f'{field}: {chosen[field]}' for field in missing)}, or what your registry has"


@OPERATOR.rule(
    "GA110",
    "Repository, image and version must be set together",
    remedy="set repository, image and version, or none of them",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go imagePath",
    rows=("B-01", "B-03", "S-16", "S-36"),
)
def complete_image(change: Change) -> Iterator[Problem]:
    """The operator joins the three itself; if one is missing, the component's DaemonSet is never created.

    With none of them it uses its default image. An image alone counts as the whole reference, as image rewriting tools
    write it; if it is only a name, nodes pull it from Docker Hub.
    """
    for component in components_with(change, *IMAGE):
        repository, image, version = (component.text(field) for field in IMAGE)
        if is_default_image(component) or (repository and image and version):
            continue
        if repository or version:
            given = [field for field in IMAGE if component.text(field)]
            missing = " and ".join(field for field in IMAGE if field not in given)
            shown = f"repository={repository}, image={image}, version={version}"
            error = f"invalid image specification: repository, image and version must all be set ({shown})"
            text = f"is set without {missing}; the operator would report: {error}"
            yield Problem(component.at(given[0]), text, usual_image(component))
        elif image and not (component.steps == ("vgpuManager",) and image == "vgpu-manager"):
            # Charts write the image of the vGPU Manager alone, which is not public; another rule checks it.
            if "@" in image or ":" in image.rpartition("/")[2]:
                continue
            name, severity = f"{image}-<os>" if component.gets_os else image, None
            text = (
                f'without repository and version is the whole reference, so nodes would pull "{name}" from Docker Hub'
            )
            if "/" in image:
                text = f'without version is the whole reference and has no tag, so nodes would pull "{name}:latest"'
                severity = Severity.WARN
            yield Problem(component.at("image"), text, severity=severity)
        elif component.steps == ("driver",) and component.flag("usePrecompiled"):
            error = "unable to resolve driver image path for pre-compiled drivers, driver.repository, driver.image and"
            text = f"needs the driver's image, as the kernel completes its tag; the operator would report: {error}"
            text += " driver.version have to be specified in the ClusterPolicy"
            remedy = 'write repository: nvcr.io/nvidia, image: driver and a branch such as version: "580"'
            yield Problem(component.at("usePrecompiled"), text, remedy)


@OPERATOR.rule(
    "GA111",
    "Repository, image and version must form a valid reference",
    remedy="write the registry and path in repository, the name in image, the tag in version",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go imagePath, internal/image/image.go "
    "ImagePath; github.com/distribution/reference",
    rows=("B-04", "B-09", "B-14"),
)
def valid_reference(change: Change) -> Iterator[Problem]:
    """The operator joins them as `repository/image:version`, or with `@` before a digest.

    It does not check the result: the kubelet does, on every node, and the pod stays in InvalidImageName or
    ImagePullBackOff.
    """
    for component in components_with(change, *IMAGE):
        if not (component.text("repository") or component.text("version")):
            continue
        checks = {"repository": _repository_problem, "image": _image_problem, "version": _version_problem}
        for field, check in checks.items():
            if component.text(field) and (found := check(component)):
                severity = Severity.WARN if field == "image" and _is_mirrored_path(component) else None
                yield Problem(component.at(field), *found, severity=severity)


def _repository_problem(component: Component) -> tuple[str, str] | None:
    text = component.text("repository")
    scheme, separator, rest = text.partition("://")
    host, slash, path = text.partition("/")
    last = text.rpartition("/")[2]
    if separator:
        return f'"{text}" begins with {scheme}://, {_NEVER}', f"write repository: {rest.rstrip('/')}"
    if text.endswith("/"):
        return f'"{text}" ends in a slash, so the reference would contain two', f"write repository: {text.rstrip('/')}"
    if "@" in text or (":" in last and (slash or not _PORT.fullmatch(last))):
        bare = text.partition("@")[0].removesuffix(f":{last.rpartition(':')[2]}")
        message = f'"{text}" has a tag, and the image and the version come after it'
        return message, f"write repository: {bare} and the tag in version"
    if path != path.lower():
        return f'"{text}" has upper-case letters, {_NEVER}', f"write repository: {host}/{path.lower()}"
    if any(character.isspace() for character in text):
        return f'"{text}" has a space in it, {_NEVER}', "remove the space"
    return None


def _is_mirrored_path(component: Component) -> bool:
    """True if an image names a registry as a path in another one: `mirror.example.com/nvcr.io/nvidia`."""
    repository, image = component.text("repository"), component.text("image")
    host = image.partition("/")[0] if "/" in image else ""
    is_doubled = image.startswith(f"{repository}/") or repository.partition("/")[0] in (host, "nvcr.io")
    return "." in host and ":" not in image and image == image.lower() and not is_doubled


def _image_problem(component: Component) -> tuple[str, str] | None:
    repository, image = component.text("repository"), component.text("image")
    name = image.rpartition("/")[2]
    host = image.partition("/")[0] if "/" in image else ""
    if is_default_image(component):
        return None
    if repository and (image.startswith(f"{repository}/") or "." in host or ":" in host):
        text = f'"{image}" has a registry in it, so with repository nodes would pull "{repository}/{image}"'
        return text, f"write image: {name.partition(':')[0].partition('@')[0]}"
    version = component.text("version")
    if version and ("@" in name or (":" in name and not _DIGEST.fullmatch(version))):
        short = image.partition("@")[0] if "@" in image else image.rpartition(":")[0]
        return f'"{image}" has a tag, and version is appended to it', f"write image: {short}"
    if image != image.lower():
        return f'"{image}" has upper-case letters, {_NEVER}', f"write image: {image.lower()}"
    return None


def _version_problem(component: Component) -> tuple[str, str] | None:
    text = component.text("version")
    tag = text.rpartition("/")[2].partition("@")[0].rpartition(":")[2]
    if text.startswith("sha256:"):
        if _DIGEST.fullmatch(text):
            return None
        count = len(text.removeprefix("sha256:"))
        message = f'"{text}" is not a digest of 64 lower-case hexadecimal digits; it has {count}'
        return message, "copy the whole digest from the registry"
    if _PINNED.fullmatch(text):
        return None
    if "@sha256:" in text:
        return f'"{text}" would be appended after a colon', f"write version: {text[text.index('sha256:') :]}"
    if text.startswith("sha256-"):
        is_digest = _DIGEST.fullmatch(f"sha256:{text[7:]}")
        remedy = f"write version: sha256:{text[7:]}" if is_digest else "copy the whole digest from the registry"
        return f'"{text}" is the tag of a signature, not a digest', remedy
    if "/" in text or ":" in text:
        remedy = f"write version: {tag}" if _TAG.fullmatch(tag) and ":" in text else "write the tag alone"
        return f'"{text}" is more than a tag, and it is appended to repository and image', remedy
    if not _TAG.fullmatch(text):
        message = f'"{text}" is not a tag: letters, digits, ".", "_" and "-", at most 128'
        return message, "write a tag that the registry has"
    return None


_POLICIES = ("Always", "IfNotPresent", "Never")
_SECRET_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@OPERATOR.rule(
    "GA114",
    "Images must have a valid pull policy and pull secrets that exist",
    remedy='write "Always", "IfNotPresent" or "Never"',
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go ImagePullPolicy; "
    "controllers/object_controls.go addPullSecrets; manifests/state-driver/0500_daemonset.yaml, "
    "manifests/state-dra-driver/0500_daemonset.yaml",
    rows=("B-12", "B-13"),
)
def pull_settings(change: Change) -> Iterator[Problem]:
    """In a ClusterPolicy, a pull policy that Kubernetes does not know silently counts as IfNotPresent.

    In an NVIDIADriver and a GPUCluster the operator copies it into the DaemonSet, which the API server then refuses.

    Pull secrets are read in the operator's namespace. If one is missing there, or does not hold a registry's
    credentials, every pod of the component stays in ImagePullBackOff.
    """
    checked: set[str] = set()
    for component in components_with(change, *IMAGE):
        policy = component.text("imagePullPolicy")
        if policy and policy not in _POLICIES:
            # The operator fixes the policy of the container for GPUDirect Storage.
            is_copied = change.kind != "ClusterPolicy" and component.steps != ("gds",)
            text = f'"{policy}" is not a pull policy, so IfNotPresent is used silently'
            if is_copied:
                text = f'"{policy}" is not a pull policy; the API server would refuse the DaemonSet: Unsupported value'
            guess = closest(policy, _POLICIES)
            remedy = f"write imagePullPolicy: {guess}" if guess else None
            severity = None if is_copied else Severity.WARN
            yield Problem(component.at("imagePullPolicy"), text, remedy, severity=severity)
        names: list[str] = []
        for index, name in enumerate(component.items("imagePullSecrets")):
            if not isinstance(name, str):
                continue
            path, found = component.at("imagePullSecrets", index), None
            if name in names:
                found = f'names "{name}" a second time', "remove it"
            elif not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
                found = f'"{name}" cannot be the name of a Secret', "write the name of a Secret"
            elif name not in checked:
                found = _secret_problem(change, name)
            if found is not None:
                yield Problem(path, *found, severity=Severity.WARN)
            names.append(name)
            checked.add(name)


def _secret_problem(change: Change, name: str) -> tuple[str, str] | None:
    secret, namespaces = change.facts.operator_object("Secret", name), change.facts.operator_namespaces
    if secret is None:
        text = f'Secret "{name}" not found in {" or ".join(namespaces)}'
        return text, f"create it: kubectl create secret docker-registry {name} --namespace {namespaces[0]}"
    kind = secret.get("type", "Opaque") if isinstance(secret, dict) else _SECRET_TYPES[0]
    if kind not in _SECRET_TYPES:
        text = f'Secret "{name}" has type "{kind}", so it does not hold credentials of a registry'
        return text, f"create it again as type {_SECRET_TYPES[0]}"
    return None


_OS_SUFFIX = re.compile(
    r"-(ubuntu|debian|rhel|rhcos|centos|rocky|ol|sles|sl-micro|amzn|fedora|flatcar|ubi)[0-9][0-9.]*(-.*)?"
)

_SUFFIXED = {
    "dcgm": (re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+"), "-ubuntu24.04"),
    "dcgm-exporter": (re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+\.[0-9]+\.[0-9]+"), "-distroless"),
    "container-toolkit": (re.compile(r"v1\.(?:[0-9]|1[0-6])\.[0-9]+"), "-ubuntu20.04"),
}
"""Tags of NVIDIA's registry that exist only with a suffix, by image: their pattern without it, and a suffix."""

_FALLBACKS = {
    "driver": "DRIVER_IMAGE",
    "driver.manager": "DRIVER_MANAGER_IMAGE",
    "toolkit": "CONTAINER_TOOLKIT_IMAGE",
    "devicePlugin": "DEVICE_PLUGIN_IMAGE",
    "dcgm": "DCGM_IMAGE",
    "dcgmExporter": "DCGM_EXPORTER_IMAGE",
    "gfd": "GFD_IMAGE",
    "migManager": "MIG_MANAGER_IMAGE",
}
"""The variable of the operator that holds the image to use where a component names none.

Not of what contains other kernel modules: GPUDirect Storage, GDRCopy and vGPU have rules of their own.
"""


@WITH_DRIVER.rule(
    "GA112",
    "A driver version must not contain the operating system, which the operator adds",
    remedy="write the version alone",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go resolveDriverTag",
    rows=("B-05", "B-06", "B-10", "B-11"),
)
def operating_system_added(change: Change) -> Iterator[Problem]:
    """Images with kernel modules are built for an operating system, which the operator appends.

    If the tag has it already, it is appended twice and the tag does not exist. Nothing is appended to a digest, so every
    node gets the image of one operating system. Precompiled drivers need the kernel in the tag, which a digest cannot
    have.
    """
    for component in components_with(change, *IMAGE):
        version = component.text("version") if component.gets_os else ""
        if "sha256:" in version:
            yield from _digest(component)
        elif match := _OS_SUFFIX.search(version):
            os, bare = match.group().lstrip("-"), version[: match.start()]
            # Precompiled tags have the kernel before the operating system: 580-5.15.0-102-generic-ubuntu22.04.
            bare = bare.partition("-")[0] if component.is_driver else bare
            text = f'"{version}" has the operating system, which the operator appends: the tag "{version}-{os}" does not exist'
            yield Problem(component.at("version"), text, f'write version: "{bare}"')


def _digest(component: Component) -> Iterator[Problem]:
    change, path = component.change, component.at("version")
    if component.is_driver and component.flag("usePrecompiled"):
        text = "is a digest, and precompiled drivers are found by branch and kernel"
        if change.kind == "NVIDIADriver":
            text += "; the operator would report: specifying image digest is not supported when precompiled is enabled"
        yield Problem(path, text, 'write a driver branch such as version: "580", or set usePrecompiled: false')
        return
    nodes = Driver(change, component.steps).nodes() if component.is_driver else change.facts.gpu_nodes()
    every_node = "is a digest, so every node gets the image of one operating system"
    if nodes is UNKNOWN:
        # On OpenShift, and if each pool has an NVIDIADriver, all nodes have one operating system by design.
        if change.kind != "NVIDIADriver" and not change.flag("operator", "use_ocp_driver_toolkit"):
            text = f"{every_node}; the operating systems of the GPU nodes are not known here"
            remedy = "write a tag where GPU nodes differ in their operating system"
            yield Problem(path, text, remedy, severity=Severity.WARN)
        return
    systems = sorted({os for node in nodes if (os := os_of(node))})
    if len(systems) > 1:
        text = f"{every_node}, and GPU nodes have {' and '.join(systems)}"
        yield Problem(path, text, "write a tag; the operator adds the operating system of each node")


@OPERATOR.rule(
    "GA113",
    "Images must be named by tags that exist",
    default=Severity.WARN,
    remedy="write a tag that the registry has",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go imagePath, controllers/object_controls.go "
    "resolveDriverTag, deployments/gpu-operator/values.yaml; tags on nvcr.io",
    rows=("B-02", "B-07", "B-08"),
)
def existing_tag(change: Change) -> Iterator[Problem]:
    """A tag that the registry does not have leaves the component's pods in ImagePullBackOff on every node.

    `latest` does not exist for drivers. For other images it changes from day to day without a change that the operator
    sees, so nothing is upgraded. A component without an image gets the operator's default, which the Helm chart sets for
    few components only.
    """
    variables = change.facts.operator_variables()
    for component in components_with(change, *IMAGE):
        version, image = component.text("version"), component.text("image").rpartition("/")[2]
        suffixed, suffix = _SUFFIXED.get(image, (None, ""))
        variable = _FALLBACKS.get(component.name)
        if version == "latest":
            text = '"latest" changes from day to day, and the operator sees no change to upgrade to'
            if component.gets_os:
                text = '"latest" is not a version of a driver, and the operator would look for "latest-<os>"'
            yield Problem(component.at("version"), text, "write a version")
        elif suffixed and component.text("repository").startswith("nvcr.io/nvidia") and suffixed.fullmatch(version):
            text = f'"{version}" lacks the suffix of the tags of {image}, so nodes would not find the image'
            yield Problem(component.at("version"), text, f"write version: {version}{suffix}")
        elif any(component.text(field) for field in IMAGE) or variables is UNKNOWN:
            continue
        elif variable is not None and variable not in variables:
            text = f"has no image; the operator would report: empty image path provided through both ClusterPolicy CR and ENV {variable}"
            yield Problem(component.at(), text, usual_image(component))
