"""The CRD of GPUQuota accepts and refuses what the program accepts and refuses."""

from fractions import Fraction

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.status import charge_items
from policies.quota.limits.amounts import MOST
from policies.quota.limits.quota import API_VERSION, MOST_GLOBS, MOST_LIMITS, QUOTA_NAME, UNITS, QuotaError, parse_quota
from policies.rules.charges import OWN, Bill, Charge
from webhook.cluster.resources import RESOURCES
from webhook.sandbox.crds import definition_problems, schema_problems
from webhook.sandbox.defaults import prune


@pytest.fixture(scope="module")
def crd(one):
    return one("CustomResourceDefinition", "gpuquotas.gpu-admission.io")


def test_crd_serves_what_the_program_reads(crd):
    known = RESOURCES["GPUQuota"]
    spec = crd["spec"]
    (version,) = spec["versions"]
    assert f"{spec['group']}/{version['name']}" == known.api_version == API_VERSION
    assert (spec["names"]["plural"], spec["names"]["kind"], spec["scope"]) == (known.plural, known.kind, "Namespaced")
    assert crd["metadata"]["name"] == known.name
    assert version["subresources"] == {"status": {}}
    assert definition_problems(crd) == []


def test_columns_show_what_the_status_has(crd, schema):
    (version,) = crd["spec"]["versions"]
    paths = {column["name"]: column["jsonPath"] for column in version["additionalPrinterColumns"]}
    assert paths["Quota"] == ".status.summary"
    assert list(paths) == ["Quota", "Enforced", "Ready", "Age"]
    assert {"summary", "conditions"} <= schema["properties"]["status"]["properties"].keys()


def nodes_of(schema):
    yield schema
    for each in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if each:
            yield from nodes_of(each)


def test_no_default_is_stored(schema):
    """It would stay when a later version has a better one."""
    assert not any("default" in node for node in nodes_of(schema))


def test_lists_and_texts_are_bounded(schema):
    """So that the cost of rules is, and a status cannot grow without end."""
    for name in ("spec", "status"):
        for node in nodes_of(schema["properties"][name]):
            bound = {"array": "maxItems", "string": "maxLength"}.get(node.get("type"))
            assert bound is None or bound in node or {"enum", "pattern", "format"} & node.keys(), node
            assert "additionalProperties" not in node or "maxProperties" in node


def test_bounds_are_those_of_the_program(schema):
    limits = schema["properties"]["spec"]["properties"]["limits"]
    assert limits["maxItems"] == MOST_LIMITS
    fields = limits["items"]["properties"]
    assert {unit: fields[unit]["maximum"] for unit in UNITS} == MOST
    assert {each["maxItems"] for each in fields["selector"]["properties"].values()} == {MOST_GLOBS}


def document(spec, name=QUOTA_NAME):
    metadata = {"name": name, "namespace": "team-a"}
    return {"apiVersion": API_VERSION, "kind": "GPUQuota", "metadata": metadata, "spec": spec}


def is_read(quota):
    try:
        parse_quota(quota)
    except QuotaError:
        return False
    return True


def limited(**limit):
    return {"limits": [{"name": "a", **limit}]}


def selected(**selector):
    return limited(gpus=1, selector=selector)


SPECS = {
    "the issue's": {
        "limits": [
            {"name": "h100", "selector": {"products": ["NVIDIA-H100-*"]}, "gpus": 8},
            {"name": "total-memory", "memory": "1Ti"},
            {"name": "mig", "selector": {"profiles": ["1g.*", "2g.*"]}, "devices": 14},
            {"name": "low-priority", "selector": {"priorityClasses": ["batch"]}, "gpus": "4"},
        ],
        "mode": "Enforce",
        "unknownProducts": "WorstCase",
    },
    "warning": {**limited(gpus=1), "mode": "Warn", "unknownProducts": "Deny"},
    "other mode": {**limited(gpus=1), "mode": "warn"},
    "other unknown products": {**limited(gpus=1), "unknownProducts": "Allow"},
    "null mode": {**limited(gpus=1), "mode": None},
    "nothing": {},
    "no spec": None,
    "no limits": {"limits": []},
    "limits as mapping": {"limits": {}},
    "32 limits": {"limits": [{"name": f"a{index}", "gpus": 1} for index in range(32)]},
    "33 limits": {"limits": [{"name": f"a{index}", "gpus": 1} for index in range(33)]},
    "limit as text": {"limits": ["h100"]},
    "limit without name": {"limits": [{"gpus": 1}]},
    "same name twice": {"limits": [{"name": "a", "gpus": 1}, {"name": "a", "devices": 1}]},
    "name in upper case": limited(name="A", gpus=1),
    "name that begins with a dash": limited(name="-a", gpus=1),
    "empty name": limited(name="", gpus=1),
    "name as number": limited(name=8, gpus=1),
    "long name": limited(name="a" * 63, gpus=1),
    "too long name": limited(name="a" * 64, gpus=1),
    "no amount": limited(),
    "two amounts": limited(gpus=1, devices=1),
    "null amount": limited(gpus=None),
    **{f"gpus: {value!r}": limited(gpus=value) for value in (0, 8, "8", "0.5", "1/2", "3/7", 10**6)},
    **{f"gpus: {value!r}": limited(gpus=value) for value in (-1, 0.5, True, "", "-1", "1/0", "a", "1e3", 10**6 + 1)},
    **{f"gpus: {value!r}": limited(gpus=value) for value in ("NaN", "1/2/3", "12345678", "1/20000", [1], {})},
    **{f"memory: {value!r}": limited(memory=value) for value in (0, 2**30, 2**60, "1Ti", "1.5Gi", "80G", "900M")},
    **{
        f"memory: {value!r}": limited(memory=value)
        for value in (-1, 1.5, "", "80GB", "lots", "1e12", "-1Gi", 2**60 + 1)
    },
    **{f"devices: {value!r}": limited(devices=value) for value in (0, 14, 10**7, "14", -1, 1.5, True, 10**7 + 1)},
    "empty selector": selected(),
    "null selector": limited(gpus=1, selector=None),
    "selector as list": limited(gpus=1, selector=[]),
    "every list": selected(products=["A100*"], profiles=["?g.*"], priorityClasses=["*"]),
    "list as text": selected(products="A100*"),
    "16 products": selected(products=["A100*"] * 16),
    "17 products": selected(products=["A100*"] * 17),
    **{f"no {field}": selected(**{field: []}) for field in ("products", "profiles", "priorityClasses")},
    **{f"empty {field}": selected(**{field: [""]}) for field in ("products", "profiles", "priorityClasses")},
    **{f"number in {field}": selected(**{field: [1]}) for field in ("products", "profiles", "priorityClasses")},
    "product of nvidia-smi": selected(products=["NVIDIA H100 80GB HBM3"]),
    "expression": selected(products=["H100|A100"]),
    "brand": selected(products=["NVIDIA-"]),
    "every brand": selected(products=["NVIDIA-*"]),
    "shared product": selected(products=["*-shared"]),
    "product of a slice": selected(products=["A100-SXM4-40GB-MIG-1g.5gb"]),
    "attribute": selected(profiles=["1g.10gb+me", "1g.10gb.me"]),
    "resource": selected(profiles=["nvidia.com/mig-1g.10gb"]),
    "end of a resource": selected(profiles=["MIG-1g.10gb"]),
    "priority class in upper case": selected(priorityClasses=["Batch"]),
}
LATER = {
    "no profile": selected(profiles=["1g"]),
    "too many GPUs as text": limited(gpus="9999999"),
    "too much memory as text": limited(memory="2Ei"),
    "memory without unit": limited(memory=80),
    "little memory": limited(memory="80k"),
}
"""What takes more than a schema: refused by our webhook."""


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_schema_takes_what_the_program_reads(schema, spec):
    quota = document(spec)
    assert (schema_problems(schema, quota) == []) is is_read(quota)


def test_both_kinds_of_specs_are_tried(schema):
    taken = [is_read(document(spec)) for spec in SPECS.values()]
    assert min(taken.count(True), taken.count(False)) >= 20


@pytest.mark.parametrize("spec", LATER.values(), ids=LATER)
def test_some_mistakes_are_reported_later(schema, spec):
    quota = document(spec)
    assert schema_problems(schema, quota) == []
    assert not is_read(quota)


AMOUNTS = st.integers(-2, 2**61) | st.from_regex(r"[0-9]{1,3}([./][0-9]{1,5})?([kKMGi]{1,2})?", fullmatch=True)
GLOBS = st.lists(
    st.text("aAGg14.*?+-/ ", max_size=6) | st.sampled_from(["NVIDIA-", "H100-SHARED", "mig-*"]), max_size=3
)
LIMITS = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "A"])},
    optional={
        **dict.fromkeys(UNITS, AMOUNTS),
        "selector": st.fixed_dictionaries(
            {}, optional={"products": GLOBS, "profiles": GLOBS, "priorityClasses": GLOBS}
        ),
    },
)


@given(spec=st.fixed_dictionaries({"limits": st.lists(LIMITS, max_size=3)}))
def test_schema_takes_everything_that_the_program_reads(schema, spec):
    quota = document(spec)
    assert not is_read(quota) or schema_problems(schema, quota) == []


def test_name_is_gpu(schema):
    (problem,) = schema_problems(schema, document(limited(gpus=1), "mine"))
    assert problem.detail == 'a namespace has one GPUQuota, named "gpu"'


def test_schema_knows_every_field(schema):
    """Or the API server would drop it."""
    spec = SPECS["every list"] | {"mode": "Warn", "unknownProducts": "Deny"}
    for unit in UNITS:
        quota = document(spec | {"limits": [{**spec["limits"][0], unit: 1}]})
        assert prune(schema, quota) == (quota, [])


def test_status_takes_what_the_ledger_writes(schema):
    quota = document(SPECS["the issue's"])
    parsed = parse_quota(quota)
    most = {"gpus": Fraction(9, 7), "memory": Fraction(2**33), "devices": Fraction(2)}
    own, shared = Bill({"h100": Fraction(1)}, most), Bill({"mig": Fraction(1)}, most)
    charges = (
        Charge("u1", "Pod", "team-a", "train-7", {OWN: own, "gpus": shared}),
        Charge("u2", "ResourceClaim", "team-a", "train-7-gpus", {OWN: shared}, ("u1", "gpus")),
        Charge("u3", "ResourceClaim", "team-a", "other", {OWN: shared}, ("u0", OWN)),
    )
    unprimed = Ledger.read(quota)
    for ledger in (unprimed, counted(unprimed, parsed, quota)):
        after = ledger
        for charge in charges:
            answer = after.charge(
                charge, parsed, time="2026-01-01T00:00:00Z", counted={"mig": Fraction(1)}, call="c" * 16
            )
            after = getattr(answer, "anyway", answer)
        written = {**quota, "status": after.status(parsed, 3)}
        assert len(charge_items(written["status"])) == 3
        assert schema_problems(schema, written) == []
        assert prune(schema, written) == (written, [])


def counted(ledger, parsed, quota):
    """The ledger with every limit counted."""
    condition = {"type": "Ready", "status": "True", "observedGeneration": 3, "reason": "Counted", "message": "counted"}
    status = ledger.status(parsed, 3)
    limits = [
        {**limit, "key": known.key, "used": "1/2"} for limit, known in zip(status["limits"], parsed.limits, strict=True)
    ]
    status |= {
        "limits": limits,
        "counted": {"pods": "12", "claims": "12"},
        "conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    primed = Ledger.read({**quota, "status": status})
    assert all(primed.used_amount(limit) is not None for limit in parsed.limits)
    return primed


def test_examples_of_the_documentation_are_taken(schema, deploy):
    text = (deploy.parent / "docs" / "quota.md").read_text()
    examples = [each.partition("```")[0] for each in text.split("```yaml\n")[1:]]
    quotas = [quota for quota in map(yaml.safe_load, examples) if quota.get("kind") == "GPUQuota"]
    assert quotas
    for quota in quotas:
        assert schema_problems(schema, quota) == []
        assert is_read(quota)
