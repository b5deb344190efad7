"""Records of converted pods keep the wish, and forged wishes are not believed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.conversion.constraints import NodeConstraints
from policies.conversion.convert import check_conversion, convert
from policies.conversion.device_layout import ContainerRequest
from policies.conversion.record import ConversionRecord
from policies.kubernetes.pods import Pod
from policies.nvidia.mig import MIGProfile
from policies.nvidia.wishes import Wish
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"


def recorded(wish):
    ask = {"name": "train", "kind": "container", "resources": {GPU: 1}}
    return json.dumps({"containers": [ask], "wish": wish})


@pytest.mark.parametrize(
    "wish",
    [
        {},
        None,
        [],
        "product",
        ["product"],
        {"colour": "green"},
        {"product": ""},
        {"product": None},
        {"product": ["H100*"]},
        {"product": "H100-SHARED"},
        {"min-memory": 40960},
        {"min-memory": "40Gi"},
        {"min-memory": "80GB"},
        {"family": "hoper"},
        {"sharing": "perhaps"},
        {"sharing": "Exclusive"},
        {"gpu-admission.io/sharing": "exclusive"},
    ],
    ids=repr,
)
def test_record_with_a_foreign_wish_is_invalid(wish):
    assert ConversionRecord.parse(recorded(wish)) is None


@pytest.mark.parametrize("count", [0, -1, True, "1", 1.0, None], ids=repr)
def test_record_with_a_foreign_number_of_shares_is_invalid(count):
    containers = [{"name": "train", "kind": "container", "resources": {GPU: 1}}]
    assert ConversionRecord.parse(json.dumps({"containers": containers, "shares": {GPU: count}})) is None


def test_record_without_a_wish_wishes_nothing():
    asked = ConversionRecord.parse(
        '{"containers":[{"name":"train","kind":"container","resources":{"nvidia.com/gpu":1}}]}'
    )
    assert asked.wish == Wish()
    assert asked.template("team-a").name == "gpu-c6e64bdbb49dc79c"


wishes = st.fixed_dictionaries(
    {},
    optional={
        "product": st.sampled_from(["H100*", "*MIG*", "!*MIG*", "A100-80GB*,h?00, NVIDIA L40S,!*NVL*"]),
        "min-memory": st.sampled_from(["40Gi", "80G", "1Mi", "40960.5Mi"]),
        "max-memory": st.sampled_from(["141Gi", "200G"]),
        "gpu-memory": st.sampled_from(["20Gi", "20G"]),
        "min-compute-capability": st.sampled_from(["8.6", "9", "10.0"]),
        "family": st.sampled_from(["hopper", "ampere, hopper", "ada-lovelace"]),
        "min-driver": st.sampled_from(["580", "580.95", "580.95.05"]),
        "min-cuda": st.sampled_from(["12.4", "13"]),
        "sharing": st.sampled_from(["exclusive", "shared", "any"]),
    },
).map(Wish.of)


@given(wishes, st.sampled_from(["gpu", "mig"]), st.sampled_from([{}, {GPU: 1}, {GPU: 4}]))
def test_record_keeps_the_wish(wish, kind, shares):
    containers = (ContainerRequest("train", "container", {GPU: 1, MIG: 2}),)
    profile = MIGProfile.parse("1g.5gb") if kind == "mig" else None
    asked = ConversionRecord(
        containers, NodeConstraints({"nvidia.com/gpu.family": "hopper"}), kind, profile, shares, wish
    )
    again = ConversionRecord.parse(asked.annotation)
    assert again == asked
    assert again.template("team-a") == asked.template("team-a")


@given(wishes, wishes)
def test_wish_after_conversion_changes_nothing(wish, later):
    view = ManifestsView([])
    wanted = {"limits": {GPU: 1}, "requests": {GPU: 1}}
    pod = Pod.read({"spec": {"containers": [{"name": "train", "resources": wanted}]}})
    first = convert(pod, "team-a", view, DEFAULTS, wish, pod)
    document = Pod.read(first.edits.document)
    again = convert(document, "team-a", view, DEFAULTS, later, document)
    assert (again.obstacles, again.edits.operations, again.template) == ((), [], first.template)
    assert list(check_conversion(document, DEFAULTS, lambda: again)) == []
