"""The rules on access in CEL, each as a list of the containers that break it.

An admission policy sees one pod, and neither DeviceClasses nor claims. So a list has only what the rule refuses in every
cluster. `visible_devices` and `container_runtime` have the same rules in Python, with their reasons.

In three places the CEL refuses more, because it can follow neither references nor `..`: a value of NVIDIA_VISIBLE_DEVICES that
refers to other variables counts as one that names GPUs; a RuntimeClass counts by its name, unless the view has it; and a
`mountPath` with `nvidia-container-devices` and `..` counts as one that names GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access.container_runtime import DEVICE_LIST, ONE_DEVICE, read_annotations, runtime_class_names
from policies.access.node_places import node_places, paths_expression, paths_of_open_files
from policies.access.visible_devices import CUDA_REQUIREMENT, CUDA_VERSION, NVIDIA_IMAGE
from policies.nvidia.container_toolkit import VISIBLE_DEVICES
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.predicates import cel_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy


_EXTENDED = """[c.?resources.?requests.orValue({}), c.?resources.?limits.orValue({})].exists(amounts, amounts.exists(k,
k.contains("/") && (!isQuantity(string(amounts[k])) || quantity(string(amounts[k])).isGreaterThan(quantity("0")))))"""
"""Container `c` requests an extended resource; a DeviceClass may give GPUs any name."""
_NAME = 'c.?name.orValue("")'
_REQUESTS_EXTENDED, _REQUESTS_CLAIM = f"{_NAME} in variables.extended", f"{_NAME} in variables.claiming"
_NO_REQUEST = f"!({_REQUESTS_EXTENDED}) && !({_REQUESTS_CLAIM})"


def _entries(variable: str) -> str:
    """The entries of a variable in `env` of container `c`."""
    return f'c.?env.orValue([]).filter(e, e.?name.orValue("") == {cel_string(variable)})'


def _last(variable: str, condition: str) -> str:
    """True if container `c` sets a variable, and a condition holds for the last entry `e`, which counts."""
    entries = _entries(variable)
    return f"[{entries}].exists(found, size(found) > 0 && [found[size(found) - 1]].exists(e,\n{condition}))"


_UNKNOWN = '(e.?value.orValue("") == "" ? has(e.valueFrom) : e.value.contains("$("))'
"""The value of entry `e` is known only when the container starts, or refers to other variables."""
_NAMES_DEVICES = """[e.?value.orValue("").split(",").map(name, name.trim()).filter(name, name != "")].exists(names,
size(names) > 0 && !("void" in names) && [names.filter(name, name in ["all", "none"])].exists(first,
size(first) == 0 || first[0] == "all"))"""
"""The value of entry `e` names devices, as `parse_device_list` reads it."""
_NAMED = _last(VISIBLE_DEVICES, f"{_UNKNOWN} || {_NAMES_DEVICES}")
_SEES_NOTHING = _last(VISIBLE_DEVICES, f"!{_UNKNOWN} && !{_NAMES_DEVICES}")

_SUB_PATH = """(m.?subPathExpr.orValue("") == "" ? m.?subPath.orValue("") : m.subPathExpr.contains("$(") ?
[m.subPathExpr.split("$(")[0]].map(known, known.substring(0, known.lastIndexOf("/") + 1) + "$")[0] : m.subPathExpr)"""
"""The sub-path of mount `m`; what follows the first reference to a variable is unknown, and stands for a folder."""
_JOINED = '"/" + steps.filter(step, step != "" && step != ".").join("/")'


def _mounts(condition: str) -> str:
    """True if container `c` mounts a `path` of the node for which a condition holds; `m` is the mount.

    The API server refuses `..` in these paths.
    """
    return (
        'c.?volumeMounts.orValue([]).exists(m, variables.hostVolumes.exists(v, v.name == m.?name.orValue("") &&\n'
        f'[(v.hostPath.path + "/" + {_SUB_PATH}).split("/")].exists(steps, !(".." in steps) &&\n'
        f"[{_JOINED}].exists(path,\n{condition}))))"
    )


def _matches(expression: str) -> str:
    return f"path.matches({cel_string(expression)})"


def _names(containers: str, condition: str) -> str:
    """The names of the containers `c` for which a condition holds."""
    return f"variables.{containers}.filter(c,\n{condition}).map(c, {_NAME})"


VARIABLES: Mapping[str, str] = {
    "all": "object.spec.?containers.orValue([]) + object.spec.?initContainers.orValue([]) +\n"
    "object.spec.?ephemeralContainers.orValue([])",
    "containers": 'request.operation == "CREATE" ? variables.all : request.subResource == "ephemeralcontainers" ?\n'
    "object.spec.?ephemeralContainers.orValue([]).filter(c,\n"
    '!oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.?name.orValue("") == c.?name.orValue(""))) : []',
    "images": 'request.operation == "CREATE" || request.subResource == "ephemeralcontainers" ? variables.containers :\n'
    "variables.all.filter(c,\n"
    "!(oldObject.spec.?containers.orValue([]) + oldObject.spec.?initContainers.orValue([]) +\n"
    "oldObject.spec.?ephemeralContainers.orValue([])).exists(o,\n"
    'o.?name.orValue("") == c.?name.orValue("") && o.?image.orValue("") == c.?image.orValue("")))',
    "extended": f"variables.all.filter(c,\n{_EXTENDED}).map(c, {_NAME})",
    "claiming": f"variables.all.filter(c, size(c.?resources.?claims.orValue([])) > 0).map(c, {_NAME})",
    "hostVolumes": "object.spec.?volumes.orValue([]).filter(v, v.?hostPath.?path.hasValue() && v.?name.hasValue())",
}
"""The variables of the lists: all containers of the pod, those under review, those whose images are under review, the names of
those that request extended resources and of those that have claims, and the hostPath volumes."""


def offenders(settings: GPUAdmissionPolicy, view: ClusterView) -> Mapping[tuple[str, ...], str]:
    """CEL lists of the containers or annotations that break one of some rules, by these rules.

    Rules without an entry are not expressed: they need objects that a policy does not see, or only warn.

    Args:
        settings: The settings; they say whether NVIDIA's container runtime is the default.
        view: The cluster; its ClusterPolicies move places, and say which annotations are read.
    """
    places = view.derive(node_places)
    schedulers = ", ".join(map(cel_string, settings.conversion.schedulers))
    allocates = (
        'object.spec.?nodeName.orValue("") == "" &&\n'
        f'object.spec.?schedulerName.orValue("default-scheduler") in [{schedulers}]'
    )
    gpus = _matches(paths_expression(each for each in places.gpus if not each.common))
    open_files = _matches(paths_of_open_files())
    written = _matches(paths_expression(each for each in places.distribution if not each.common))
    read = _matches(
        paths_expression(each for each in places.distribution if not (each.common or each.harmless_read_only))
    )
    others = f"(!({_REQUESTS_CLAIM}) || {_matches(ONE_DEVICE)})"
    runtimes = ", ".join(map(cel_string, runtime_class_names(view)))
    found = {
        ("GA601",): _names("containers", f"{_NO_REQUEST} &&\n{_NAMED}"),
        # Without a scheduler that makes a claim for it, an extended resource may be lost; a claim can be replaced.
        ("GA601", "GA602"): _names(
            "containers", f"!({_NO_REQUEST}) && !({_REQUESTS_EXTENDED} &&\n{allocates}) &&\n{_NAMED}"
        ),
        ("GA603",): f'object.spec.?runtimeClassName.orValue("") in [{runtimes}] &&\n'
        "size(variables.extended) == 0 && size(variables.claiming) == 0 ?\n"
        + _names("images", f"!{_SEES_NOTHING}")
        + " : []",
        ("GA604",): _names(
            "containers", f"!({_REQUESTS_EXTENDED}) &&\n{_mounts(f'{open_files} || ({gpus} && {others})')}"
        ),
        ("GA605",): _names("containers", _mounts(f"m.?readOnly.orValue(false) == true ?\n{read} :\n{written}")),
        ("GA606",): _names(
            "containers",
            'c.?volumeMounts.orValue([]).exists(m, m.?mountPath.orValue("").contains("nvidia-container-devices") &&\n'
            f'[m.mountPath.split("/")].exists(steps, ".." in steps || [{_JOINED}].exists(path,\n{_matches(DEVICE_LIST)})))',
        ),
    }
    if settings.access.legacy_runtime:
        unset = f"size({_entries(VISIBLE_DEVICES)}) == 0"
        image = f'c.?image.orValue("").matches({cel_string(f"(?i)^(?:{NVIDIA_IMAGE.pattern})")})'
        found["GA608",] = _names("images", f"{_NO_REQUEST} &&\n{image} &&\n{unset}")
        sets = _last(CUDA_VERSION, f'e.?value.orValue("") != "" ? !{_UNKNOWN} : {_UNKNOWN}')
        requires = _last(CUDA_REQUIREMENT, 'e.?value.orValue("") != ""')
        without = f"{unset} && size(c.?envFrom.orValue([])) == 0"
        found["GA610",] = _names("containers", f"{_NO_REQUEST} &&\n{sets} &&\n!{requires} &&\n{without}")
    if read_by := read_annotations(view):
        named = " || ".join(f'k == "{prefix}" || k.startsWith("{prefix}/")' for prefix in read_by)
        found["GA611",] = (
            "object.metadata.?annotations.orValue({}).filter(k,\n"
            f"({named}) && object.metadata.annotations[k].contains({cel_string(VENDOR_PREFIX)}) &&\n"
            '(request.operation == "CREATE" || oldObject.metadata.?annotations[?k] != object.metadata.?annotations[?k]))'
        )
    return found
