"""Images of components: repository, image and version, pull policy and pull secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS
from policies.configuration.components.component import Component, components_with
from policies.decision import Severity
from policies.kubernetes.misspellings import closest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["IMAGE", "is_default_image", "usual_image"]

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
"""What the Helm chart of GPU Operator 26.7 sets."""

_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PORT = re.compile(r"[^:/]+:[0-9]+")


def is_default_image(component: Component) -> bool:
    """Whether an NVIDIADriver's image is the CRD's default, which is a whole path and has a rule of its own."""
    return not component.steps and component.text("image") in ("", "nvcr.io/nvidia/driver")


def usual_image(component: Component) -> str:
    """What to write so that a component has a whole image: what the Helm chart sets, where it does."""
    missing = [field for field in IMAGE if not component.text(field)]
    usual = _USUAL.get(component.name)
    if usual is None:
        return f"add {_listed(missing)}"
    chosen = dict(zip(IMAGE, usual, strict=True))
    return f"add {_listed([f'{field}: {chosen[field]}' for field in missing])}, or what your registry has"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


@COMPONENTS.rule(
    "GA110",
    "Repository, image and version must be set together",
    default=Severity.DENY,
    remedy="set repository, image and version, or none of them",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go imagePath",
    rows=("B-01", "B-03", "S-16", "S-36"),
)
def complete_image(change: Change) -> Iterator[Problem]:
    """The operator joins the three itself; where one is missing, the component's DaemonSet is never made.

    With none of them it takes the image that it was installed with. An image alone is taken as the whole reference, as
    image rewriting tools write it, and is looked for on Docker Hub when it is only a name.
    """
    for component in components_with(change, *IMAGE):
        if is_default_image(component):
            continue
        values = {field: component.text(field) for field in IMAGE}
        missing = [field for field, value in values.items() if not value]
        if not missing:
            continue
        if values["repository"] or values["version"]:
            yield _incomplete(component, values, missing)
        elif component.steps == ("vgpuManager",) and values["image"] == "vgpu-manager":
            continue  # what charts leave of an image that is not public; it has a rule of its own
        elif values["image"]:
            yield from _image_alone(component, values["image"])
        elif component.steps == ("driver",) and change.flag("driver", "usePrecompiled"):
            yield problem(
                component.at("usePrecompiled"),
                "needs the driver's image, as only its kernel completes the tag; the operator would report: unable to "
                "resolve driver image path for pre-compiled drivers, driver.repository, driver.image and "
                "driver.version have to be specified in the ClusterPolicy",
                'write repository: nvcr.io/nvidia, image: driver and a branch such as version: "580"',
            )


def _incomplete(component: Component, values: dict[str, str], missing: list[str]) -> Problem:
    given = [field for field in IMAGE if field not in missing]
    lacking = _listed(missing)
    shown = ", ".join(f"{field}={values[field]}" for field in IMAGE)
    return problem(
        component.at(given[0]),
        f"is set without {lacking}; the operator would report: invalid image specification: repository, image and "
        f"version must all be set ({shown})",
        usual_image(component),
    )


def _image_alone(component: Component, image: str) -> Iterator[Problem]:
    if "@" in image or ":" in image.rpartition("/")[2]:
        return
    name = f"{image}-<os>" if component.gets_os else image
    if "/" not in image:
        yield problem(
            component.at("image"),
            f'without repository and version is the whole reference, so nodes would pull "{name}" from Docker Hub',
        )
    else:
        yield problem(
            component.at("image"),
            f'without version is the whole reference and has no tag, so nodes would pull "{name}:latest"',
            severity=Severity.WARN,
        )


@COMPONENTS.rule(
    "GA111",
    "Repository, image and version must form a valid reference",
    default=Severity.DENY,
    remedy="write the registry and path in repository, the name in image, the tag in version",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go imagePath; github.com/distribution/reference",
    rows=("B-04", "B-09", "B-14"),
)
def valid_reference(change: Change) -> Iterator[Problem]:
    """The operator joins them as `repository/image:version`, or with `@` where the version begins with `sha256:`.

    It does not look at the result: the kubelet does, on every node, and the pod stays in InvalidImageName or
    ImagePullBackOff.
    """
    for component in components_with(change, *IMAGE):
        if not (component.text("repository") or component.text("version")):
            continue
        for field, look in (("repository", _wrong_repository), ("image", _wrong_image), ("version", _wrong_version)):
            if component.text(field) and (wrong := look(component)):
                yield problem(component.at(field), *wrong)


def _wrong_repository(component: Component) -> tuple[str, str] | None:
    text = component.text("repository")
    scheme, separator, rest = text.partition("://")
    if separator:
        return (
            f'"{text}" begins with {scheme}://, which no image reference has',
            f"write repository: {rest.rstrip('/')}",
        )
    if text.endswith("/"):
        fixed = text.rstrip("/")
        return f'"{text}" ends in a slash, so the reference would contain two', f"write repository: {fixed}"
    host, slash, path = text.partition("/")
    last = text.rpartition("/")[2]
    if "@" in text or (":" in last and (slash or not _PORT.fullmatch(last))):
        return f'"{text}" has a tag of its own, and the image and the version come after it', (
            f"write repository: {text.partition('@')[0].removesuffix(':' + last.rpartition(':')[2])} and the tag in version"
        )
    if path != path.lower():
        return f'"{text}" has upper-case letters, which no image reference has', (
            f"write repository: {host}/{path.lower()}"
        )
    if any(character.isspace() for character in text):
        return f'"{text}" has a space in it, which no image reference has', "remove the space"
    return None


def _wrong_image(component: Component) -> tuple[str, str] | None:
    repository, image = component.text("repository"), component.text("image")
    name = image.rpartition("/")[2]
    host = image.partition("/")[0] if "/" in image else ""
    if is_default_image(component):
        return None
    if repository and (image.startswith(f"{repository}/") or "." in host or ":" in host):
        return (
            f'"{image}" has a registry in it, and repository comes before it, so nodes would pull "{repository}/{image}"',
            f"write image: {name.partition(':')[0].partition('@')[0]}",
        )
    if component.text("version") and (":" in name or "@" in name):
        short = image.partition("@")[0] if "@" in image else image.rpartition(":")[0]
        return f'"{image}" has a tag of its own, and version is appended to it', f"write image: {short}"
    if image != image.lower():
        return f'"{image}" has upper-case letters, which no image reference has', f"write image: {image.lower()}"
    return None


def _wrong_version(component: Component) -> tuple[str, str] | None:
    text = component.text("version")
    if text.startswith("sha256:"):
        if _DIGEST.fullmatch(text):
            return None
        digits = len(text.removeprefix("sha256:"))
        return f'"{text}" is no digest, which has 64 hexadecimal digits in lower case; here are {digits}', (
            "copy the whole digest from the registry"
        )
    tag = text.rpartition("/")[2].partition("@")[0].rpartition(":")[2]
    if text.startswith("@sha256:") or "@sha256:" in text:
        return f'"{text}" would be appended after a colon', f"write version: {text[text.index('sha256:') :]}"
    if text.startswith("sha256-"):
        remedy = f"write version: sha256:{text[7:]}" if _DIGEST.fullmatch(f"sha256:{text[7:]}") else None
        return f'"{text}" is the tag of a signature, not a digest', remedy or "copy the whole digest from the registry"
    if "/" in text or ":" in text:
        remedy = f"write version: {tag}" if _TAG.fullmatch(tag) and ":" in text else "write the tag alone"
        return f'"{text}" is more than a tag, and it is appended to repository and image', remedy
    if not _TAG.fullmatch(text):
        return (
            f'"{text}" is no tag: letters, digits, ".", "_" and "-", at most 128',
            "write a tag that the registry has",
        )
    return None


_POLICIES = ("Always", "IfNotPresent", "Never")
_SECRET_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@COMPONENTS.rule(
    "GA114",
    "Images must have a valid pull policy and pull secrets that exist",
    default=Severity.DENY,
    remedy='write "Always", "IfNotPresent" or "Never"',
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go ImagePullPolicy; "
    "controllers/object_controls.go addPullSecrets",
    rows=("B-12", "B-13"),
)
def pull_settings(change: Change) -> Iterator[Problem]:
    """A pull policy that Kubernetes does not know is silently taken as IfNotPresent.

    Pull secrets are looked for in the operator's namespace. One that is not there, or that is not a registry's
    credentials, leaves every pod of the component in ImagePullBackOff.
    """
    looked_up: set[str] = set()
    for component in components_with(change, *IMAGE):
        policy = component.text("imagePullPolicy")
        if policy and policy not in _POLICIES:
            guess = closest(policy, _POLICIES)
            yield problem(
                component.at("imagePullPolicy"),
                f'"{policy}" is not a pull policy, so IfNotPresent is used silently',
                f"write imagePullPolicy: {guess}" if guess else None,
            )
        names: list[str] = []
        for index, name in enumerate(component.items("imagePullSecrets")):
            if not isinstance(name, str):
                continue
            path = component.at("imagePullSecrets", index)
            if name in names:
                yield problem(path, f'names "{name}" a second time', "remove it", severity=Severity.WARN)
            elif not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
                text = f'"{name}" cannot be the name of a Secret'
                yield problem(path, text, "write the name of a Secret", severity=Severity.WARN)
            elif name not in looked_up and (wrong := _wrong_secret(change, name)):
                yield problem(path, *wrong, severity=Severity.WARN)
            names.append(name)
            looked_up.add(name)


def _wrong_secret(change: Change, name: str) -> tuple[str, str] | None:
    secret = change.facts.operator_object("Secret", name)
    namespaces = " or ".join(change.facts.operator_namespaces)
    if secret is None:
        return f'names Secret "{name}", which is not in the operator\'s namespace ({namespaces})', (
            f"create it there: kubectl create secret docker-registry {name} "
            f"--namespace {change.facts.operator_namespaces[0]}"
            if change.facts.operator_namespaces
            else "create it there"
        )
    kind = secret.get("type", "Opaque") if isinstance(secret, dict) else _SECRET_TYPES[0]
    if kind not in _SECRET_TYPES:
        return f'names Secret "{name}" of type "{kind}", which holds no credentials of a registry', (
            f"create it again as type {_SECRET_TYPES[0]}"
        )
    return None
