"""Claims with configs of NVIDIA's drivers, from their parameters."""

import pytest
import yaml

from policies.rules.settings import DEFAULTS, DRADriver, GPUAdmissionPolicy
from testbed import libyaml
from tests.findings import plain_text

PARAMETERS = "spec.devices.config[0].opaque.parameters"
EVERY_GATE = {"TimeSlicingSettings": True, "MPSSupport": True, "PassthroughSupport": True}


def claim_of(configs, requests, kind="ResourceClaim", version="v1"):
    """A claim, template or class with configs, each (parameters, names of requests or None, driver)."""
    entries = []
    for parameters, names, driver in configs:
        read = libyaml.load(parameters) if isinstance(parameters, str) else parameters
        if isinstance(read, dict):
            read = {"apiVersion": "resource.nvidia.com/v1beta1", **read}
        entry = {"opaque": {"driver": driver, "parameters": read}}
        entries.append(entry if names is None else {"requests": names, **entry})
    metadata = {"name": "gpu"}
    if kind == "DeviceClass":
        spec = {"selectors": requests, "config": entries}
    else:
        metadata["namespace"] = "team-a"
        spec = {"devices": {"requests": [flat(item) if version == "v1beta1" else item for item in requests]}}
        spec["devices"]["config"] = entries
    if kind == "ResourceClaimTemplate":
        spec = {"spec": spec}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def flat(request):
    """A request as v1beta1 has it."""
    return {**{name: value for name, value in request.items() if name != "exactly"}, **request.get("exactly", {})}


def driver_with(gates=None, release=""):
    """Settings that tell about the driver."""
    return GPUAdmissionPolicy(dra_driver=DRADriver(gates, release)) if gates is not None or release else DEFAULTS


@pytest.fixture
def config_review(examined):
    """`config_review(rule, parameters)`: the findings of a rule on a claim with a config for one GPU, or with several."""

    def review(rule, *parameters, names=("gpu",), device_class="gpu.nvidia.com", count=1, **options):
        driver = options.pop("driver", "gpu.nvidia.com")
        requests = options.pop("requests", None)
        if requests is None:
            requests = [{"name": "gpu", "exactly": {"deviceClassName": device_class, "count": count}}]
        gates, release = options.pop("gates", EVERY_GATE), options.pop("release", "")
        cluster = options.pop("cluster", "")
        configs = [
            item if isinstance(item, tuple) else (item, None if names is None else list(names), driver)
            for item in parameters
        ]
        text = yaml.safe_dump(claim_of(configs, requests, **options), sort_keys=False) + cluster
        found = examined(text, settings=driver_with(gates, release))
        return [finding for finding in found if finding.rule.id == rule]

    return review


@pytest.fixture
def config_findings(config_review):
    """`config_findings(rule, parameters)`: what a rule says about a claim with a config."""
    return lambda *wanted, **options: [plain_text(finding) for finding in config_review(*wanted, **options)]


@pytest.fixture
def config_severities(config_review):
    """`config_severities(rule, parameters)`: the severities of a rule's findings on a claim with a config."""
    return lambda *wanted, **options: [str(finding.severity) for finding in config_review(*wanted, **options)]


@pytest.fixture
def requests_for():
    """`requests_for(gpu="gpu.nvidia.com")`: a request for each name, of a class or of alternatives."""

    def make(**classes):
        return [
            {"name": name, "firstAvailable": [{"name": sub, "deviceClassName": of} for sub, of in wanted.items()]}
            if isinstance(wanted, dict)
            else {"name": name, "exactly": {"deviceClassName": wanted}}
            for name, wanted in classes.items()
        ]

    return make
