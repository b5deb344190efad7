"""Device-plugin documents: whether the plugin reads them, and how they share devices."""

import pytest

from policies.nvidia.plugin_configs import PluginConfig, Sharing

GPU = "nvidia.com/gpu"


def document(*resources, kind="timeSlicing", **options):
    return PluginConfig({"version": "v1", "sharing": {kind: {"resources": list(resources), **options}}})


def shared(replicas=4, name=GPU, **more):
    return {"name": name, "replicas": replicas, **more}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (document(shared(1)), "number of replicas must be >= 2"),
        (document(shared(-2)), "number of replicas must be >= 2"),
        (document(shared(None)), "number of replicas must be >= 2"),
        (document(shared("4")), "unable to parse config file"),
        (document(shared(devices=0)), "devices set as '0' but a count of devices must be > 0"),
        (document(shared(name="example.com/gpu")), "incorrect format for resource name 'nvidia.com/example.com/gpu'"),
        (document({"name": GPU}), "no replicas specified"),
        (document({"replicas": 4}), "no resource name specified"),
        (document(), "no resources specified"),
        (PluginConfig({"sharing": {"timeSlicing": None}}), "no resources specified"),
        (PluginConfig({"version": "v2"}), "unknown version: v2"),
        (PluginConfig({"flags": {"migStrategy": "Mixed"}}), "unknown MIG strategy: Mixed"),
        (PluginConfig(["version"]), "unable to parse config file"),
    ],
)
def test_document_that_the_plugin_cannot_read_has_its_words(config, words):
    assert (config.error, config.label_error) == (words, words)


@pytest.mark.parametrize(
    "config",
    [
        PluginConfig(None),
        PluginConfig({}),
        PluginConfig({"sharing": {"mps": None}}),
        document(shared(devices="all")),
        document(shared(devices=2)),
        document(shared(foo=1)),
        PluginConfig({"resources": {"gpus": [{"pattern": "*", "name": "nvidia.com/h100"}]}}),
        PluginConfig({"flags": {"plugin": {"deviceIDStrategy": "index"}}}),
    ],
)
def test_document_that_the_plugin_reads_has_no_error(config):
    assert (config.error, config.label_error) == ("", "")


def test_field_that_only_the_plugin_validates_does_not_stop_labels():
    config = PluginConfig({"flags": {"plugin": {"deviceListStrategy": "none"}}})
    assert config.error == "invalid --device-list-strategy option: invalid strategy: none"
    assert config.label_error == ""


@pytest.mark.parametrize(
    ("config", "sharing"),
    [
        (PluginConfig({"version": "v1"}), None),
        (document(shared()), Sharing("time-slicing", ((GPU, 4),))),
        (document(shared(), kind="mps"), Sharing("mps", ((GPU, 4),), fails_above_one=True)),
        (document(shared(), kind="mps", failRequestsGreaterThanOne=False), Sharing("mps", ((GPU, 4),))),
        (
            document(shared(name="gpu"), renameByDefault=True, failRequestsGreaterThanOne=True),
            Sharing("time-slicing", ((GPU, 4),), is_renamed=True, fails_above_one=True),
        ),
        (PluginConfig({"Sharing": {"timeslicing": {"resources": [shared(2)]}}}), Sharing("time-slicing", ((GPU, 2),))),
        (
            PluginConfig({"sharing": {"timeSlicing": {"resources": [shared(2)]}, "mps": {"resources": [shared(3)]}}}),
            Sharing("mps", ((GPU, 3),), fails_above_one=True),
        ),
    ],
    ids=["none", "slices", "mps", "mps of several", "renamed", "other case", "both"],
)
def test_sharing_is_the_one_that_the_plugin_takes(config, sharing):
    assert config.sharing == sharing


def test_resource_that_is_listed_twice_is_shared_by_the_larger_number_and_labelled_by_the_first():
    sharing = document(shared(2), shared(4)).sharing
    assert (sharing.replicas(GPU), sharing.labelled_replicas(GPU)) == (4, 2)
    assert sharing.replicas("nvidia.com/mig-1g.5gb") == 1


def test_only_shared_resources_are_renamed():
    sharing = document(shared(), renameByDefault=True).sharing
    assert sharing.offered_name(GPU) == "nvidia.com/gpu.shared"
    assert sharing.offered_name("nvidia.com/mig-1g.5gb") == "nvidia.com/mig-1g.5gb"
