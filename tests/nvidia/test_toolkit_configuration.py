"""The treatment of images that choose GPUs by the toolkit of a ClusterPolicy."""

import pytest

from policies.nvidia.container_toolkit import images_choose_gpus

OBEYS = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"


def policy(*, env=None, **spec):
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    return {"spec": {**spec, **({"toolkit": {"env": variables}} if variables else {})}}


NO_CDI = {"cdi": {"enabled": False}}
LET = {
    "no CDI": policy(**NO_CDI),
    "no CDI, obeys the variable": policy(env={OBEYS: "true"}, **NO_CDI),
    "CDI, overridden": policy(env={"NVIDIA_RUNTIME_SET_AS_DEFAULT": "true"}),
    "CDI, overridden for containerd": policy(env={"CONTAINERD_SET_AS_DEFAULT": "1"}, cdi={"enabled": True}),
}
KEPT = {
    "CDI by default": policy(),
    "CDI": policy(cdi={"enabled": True}),
    "the NRI plugin": policy(
        env={"NVIDIA_RUNTIME_SET_AS_DEFAULT": "true"}, cdi={"enabled": True, "nriPluginEnabled": True}
    ),
    "no CDI, not the default": policy(env={"CONTAINERD_SET_AS_DEFAULT": "false"}, **NO_CDI),
    "no CDI, ignores the variable": policy(env={OBEYS: "false"}, **NO_CDI),
}


@pytest.mark.parametrize("configured", LET.values(), ids=LET)
def test_images_choose_where_the_runtime_is_the_default(configured):
    assert images_choose_gpus(configured) is True


@pytest.mark.parametrize("configured", KEPT.values(), ids=KEPT)
def test_images_do_not_choose_elsewhere(configured):
    assert images_choose_gpus(configured) is False


def test_toolkit_of_the_nodes_is_unknown():
    assert images_choose_gpus({"spec": {"toolkit": {"enabled": False}, **NO_CDI}}) is None
