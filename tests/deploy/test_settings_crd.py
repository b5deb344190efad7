"""The CRD of GPUAdmissionPolicy has the settings of the program, and refuses what the program refuses."""

import re
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import pytest

from policies.cel import compile_condition, value_of
from policies.kubernetes.nodes import _BY_BEGINNING
from policies.nvidia.wishes import WORDS
from policies.rules.decision import Severity
from policies.rules.settings import GPUAdmissionPolicy, SettingsError, parse_settings
from policies.rules.settings.choices import _camel
from policies.rules.settings.parsing import API_VERSION
from testbed import libyaml
from webhook.cluster.resources import RESOURCES


@pytest.fixture(scope="module")
def crd(one):
    return one("CustomResourceDefinition", "gpuadmissionpolicies.gpu-admission.io")


def test_crd_serves_what_the_program_reads(crd):
    known = RESOURCES["GPUAdmissionPolicy"]
    spec = crd["spec"]
    (version,) = spec["versions"]
    assert f"{spec['group']}/{version['name']}" == known.api_version == API_VERSION
    assert (spec["names"]["plural"], spec["names"]["kind"], spec["scope"]) == (known.plural, known.kind, "Cluster")
    assert crd["metadata"]["name"] == known.name
    assert version["subresources"] == {"status": {}}


def test_columns_show_what_the_status_has(crd, schema):
    (version,) = crd["spec"]["versions"]
    paths = {column["name"]: column["jsonPath"] for column in version["additionalPrinterColumns"]}
    assert paths["Audit"] == ".status.audit.summary"
    assert "summary" in schema["properties"]["status"]["properties"]["audit"]["properties"]
    assert "conditions" in schema["properties"]["status"]["properties"]


def expected(hint):
    """The schema that a type of a setting comes to; bounds, patterns, rules and descriptions left out."""
    if get_origin(hint) is Annotated:
        return expected(get_args(hint)[0])
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        needed = [_camel(each.name) for each in fields(hint) if (each.default, each.default_factory) == (MISSING,) * 2]
        shape = {
            "type": "object",
            "properties": {_camel(each.name): expected(hints[each.name]) for each in fields(hint)},
        }
        return shape | ({"required": needed} if needed else {})
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": set(get_args(hint))}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": {each.value for each in hint}}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": expected(get_args(hint)[0])}
    if get_origin(hint) is dict:
        return {"type": "object", "additionalProperties": expected(get_args(hint)[1])}
    if type(None) in get_args(hint):
        return expected(get_args(hint)[0]) | {"nullable": True}
    return {"type": {str: "string", bool: "boolean"}[hint]}


def shape(schema):
    """What `expected` tells of a schema."""
    kept = {key: schema[key] for key in ("type", "required", "nullable") if key in schema}
    if "enum" in schema:
        kept["enum"] = set(schema["enum"])
    for key in ("items", "additionalProperties"):
        if key in schema:
            kept[key] = shape(schema[key])
    if "properties" in schema:
        kept["properties"] = {name: shape(each) for name, each in schema["properties"].items()}
    return kept


def test_crd_has_the_settings_of_the_program(schema):
    assert shape(schema["properties"]["spec"]) == expected(GPUAdmissionPolicy)


def nodes_of(schema):
    yield schema
    for each in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if each:
            yield from nodes_of(each)


def test_no_default_is_stored(schema):
    """It would stay when a later version has a better one."""
    assert not any("default" in node for node in nodes_of(schema))


def test_lists_and_texts_of_settings_are_bounded(schema):
    """So that the cost of rules is, and a status cannot grow without end."""
    for node in nodes_of(schema["properties"]["spec"]):
        bound = {"array": "maxItems", "string": "maxLength"}.get(node.get("type"))
        assert bound is None or bound in node or {"enum", "pattern"} & node.keys(), node
        assert "additionalProperties" not in node or "maxProperties" in node


def problems_of(schema, value, path=""):
    """What an API server finds wrong with a value: types, bounds, required fields, enums, patterns and CEL rules.

    Fields that are not in the schema are dropped, and an unset field has no null.
    """
    if value is None:
        return [] if schema.get("nullable") else [f"{path}: null"]
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    kind = types[schema["type"]]
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        return [f"{path}: type"]
    found = [f"{path}: {name}" for name, holds in _BOUNDS.items() if name in schema and not holds(schema[name], value)]
    if kind is dict:
        found += [f"{path}.{name}: required" for name in schema.get("required", ()) if name not in value]
        known = schema.get("properties", {})
        for name, each in value.items():
            inner = known.get(name) or schema.get("additionalProperties")
            if inner:
                found += problems_of(inner, each, f"{path}.{name}")
    if kind is list:
        for index, each in enumerate(value):
            found += problems_of(schema["items"], each, f"{path}[{index}]")
    if not found:
        found = [
            f"{path}: {rule['message']}"
            for rule in schema.get("x-kubernetes-validations", ())
            if not _holds(rule, value)
        ]
    return found


_BOUNDS = {
    "enum": lambda allowed, value: value in allowed,
    "pattern": re.search,
    "minLength": lambda least, value: len(value) >= least,
    "maxLength": lambda most, value: len(value) <= most,
    "minItems": lambda least, value: len(value) >= least,
    "maxItems": lambda most, value: len(value) <= most,
    "minProperties": lambda least, value: len(value) >= least,
    "maxProperties": lambda most, value: len(value) <= most,
}


def _holds(rule, value):
    # `self` is what a condition calls object; no text in these rules says so.
    text = re.sub(r"\bself\b", "object", rule["rule"])
    variables = {"object": value, "oldObject": None, "request": None, "namespaceObject": None}
    verdict, _ = compile_condition(text).holds(value_of(variables))
    assert isinstance(verdict, bool), verdict
    return verdict


def document(spec, name="default"):
    return {"apiVersion": API_VERSION, "kind": "GPUAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def is_read(policy):
    try:
        parse_settings(policy)
    except SettingsError:
        return False
    return True


def toleration(**taint):
    return {"placement": {"tolerations": [taint]}}


def wish(**wishes):
    return {"placement": {"wishes": [{"wish": {word.replace("_", "-"): text for word, text in wishes.items()}}]}}


def exemption(**who):
    return {"exemptions": [who]}


def added_kind(**fields):
    kind = {"group": "example.com", "kind": "TrainingRun", "templates": ["spec.workers[*].template"]}
    return {"workloads": {"kinds": [{**kind, **fields}]}}


def weight(**fields):
    return {"quota": {"weights": [fields]}}


SPECS = {
    "nothing": {},
    "every section": {"conversion": {}, "configuration": {}, "draDriver": {}, "placement": {}, "access": {}},
    "severities": {"rules": [{"rule": "GA307", "severity": each.value} for each in Severity]},
    "rule in namespaces": {"rules": [{"rule": "GA307", "severity": "warn", "namespaces": ["a-*"]}]},
    "rule nowhere": {"rules": [{"rule": "GA307", "severity": "warn", "namespaces": []}]},
    "rule without severity": {"rules": [{"rule": "GA307"}]},
    "no rule": {"rules": [{"rule": "ga307", "severity": "warn"}]},
    "four digits": {"rules": [{"rule": "GA3071", "severity": "warn"}]},
    "off without quotes": {"rules": [{"rule": "GA307", "severity": False}]},
    "schedulers": {"conversion": {"schedulers": ["a"]}},
    "no schedulers": {"conversion": {"schedulers": []}},
    "one scheduler": {"conversion": {"schedulers": "a"}},
    "wishes of HAMi": {"conversion": {"readWishesOf": ["HAMi"]}},
    "wishes of a system that is not read": {"conversion": {"readWishesOf": ["KAI"]}},
    "opt-out": {"conversion": {"allowPodOptOut": False}},
    "opt-out as text": {"conversion": {"allowPodOptOut": "no"}},
    "opt-out as number": {"conversion": {"allowPodOptOut": 1}},
    "native quota": {"conversion": {"nativeQuota": "warn"}},
    "other native quota": {"conversion": {"nativeQuota": "audit"}},
    "operator": {"configuration": {"operatorNamespaces": ["nvidia"], "clusterPolicyDeletion": "deny"}},
    "no operator": {"configuration": {"operatorNamespaces": []}},
    "gates": {"draDriver": {"featureGates": {"MPSSupport": True}, "version": "25.8.0"}},
    "gates that are not known": {"draDriver": {"featureGates": None}},
    "gate as text": {"draDriver": {"featureGates": {"MPSSupport": "true"}}},
    "version as number": {"draDriver": {"version": 25.8}},
    "wish": wish(product="H100*", min_memory="80G", sharing="exclusive"),
    "no wish": wish(),
    "unknown word": wish(colour="red"),
    "wish as number": {"placement": {"wishes": [{"wish": {"min-compute-capability": 9}}]}},
    "wish nowhere": {"placement": {"wishes": [{"wish": {"sharing": "any"}, "namespaces": []}]}},
    "entry without wish": {"placement": {"wishes": [{}]}},
    "taint": toleration(key="sku", value="gpu"),
    "taint of a team": toleration(key="example.com/reserved-for", value="team-a", namespaces=["team-a"]),
    "preferred taint": toleration(key="example.com/old", effect="PreferNoSchedule"),
    "taint without key": toleration(value="a"),
    "empty key": toleration(key=""),
    "no key": toleration(key="a b"),
    "key as kubectl writes it": toleration(key="sku=gpu:NoSchedule"),
    "evicting taint": toleration(key="sku", effect="NoExecute"),
    "no value": toleration(key="sku", value="a b"),
    "everybody's taint": toleration(key="nvidia.com/gpu"),
    "everybody's taint everywhere": toleration(key="nvidia.com/gpu", namespaces=["*"]),
    "everybody's taint, preferred": toleration(key="nvidia.com/gpu", value="a", effect="PreferNoSchedule"),
    "everybody's taint with a value": toleration(key="nvidia.com/gpu", value="team-a"),
    "everybody's taint for some": toleration(key="nvidia.com/gpu", effect="NoSchedule", namespaces=["team-a"]),
    **{f"taint {prefix}": toleration(key=f"{prefix}{'x' * prefix.endswith('/')}") for prefix in _BY_BEGINNING},
    "access": {"access": {"mode": "deny", "exemptNamespaces": [], "exemptServiceAccounts": ["ci/gpu-*", "*/*"]}},
    "other mode": {"access": {"mode": "audit"}},
    "account without namespace": {"access": {"exemptServiceAccounts": ["dcgm"]}},
    "account as user": {"access": {"exemptServiceAccounts": ["system:serviceaccount:a:b"]}},
    "weight": weight(products=["H100*"], sharing="time-slicing", gpus="1/4"),
    "decimal weight": weight(products=["*"], sharing="mps", gpus="0.25"),
    "weight of nothing": weight(products=[], sharing="mps", gpus="1/4"),
    "weight without sharing": weight(products=["*"], gpus="1/4"),
    "weight of other sharing": weight(products=["*"], sharing="none", gpus="1/4"),
    "weight as number": weight(products=["*"], sharing="mps", gpus=0.25),
    "weight as percentage": weight(products=["*"], sharing="mps", gpus="25%"),
    "share of unlimited GPUs": {"quota": {"unlimitedShare": "1/8"}},
    "memory of unlimited GPUs": {"quota": {"unlimitedShare": "10Gi"}},
    "empty share of unlimited GPUs": {"quota": {"unlimitedShare": ""}},
    "share of unlimited GPUs as number": {"quota": {"unlimitedShare": 0.125}},
    "memory without unit": {"quota": {"unlimitedShare": "10000"}},
    "admin access": {"quota": {"adminAccess": "free"}},
    "other admin access": {"quota": {"adminAccess": "deny"}},
    "trusted creator": {"quota": {"trustedCreators": ["system:serviceaccount:kube-system:controllers"]}},
    "no trusted creator": {"quota": {"trustedCreators": []}},
    "trusted creator without a name": {"quota": {"trustedCreators": [""]}},
    "kind": added_kind(counts=["spec.workers[*].size"], resource="trainingruns"),
    "kind without templates": added_kind(templates=[]),
    "kind of a core group": added_kind(group="apps"),
    "kind in lower case": added_kind(kind="trainingrun"),
    "resource in capitals": added_kind(resource="TrainingRuns"),
    "path of JSONPath": added_kind(templates=["$.spec.template"]),
    "path with an index": added_kind(templates=["spec.workers[0].template"]),
    "count of another spelling": added_kind(counts=[".spec.replicas"]),
    "exemption": exemption(**{"from": ["conversion", "access", "GA307", "GA6*"], "users": ["alice"]}),
    "exemption of an account": exemption(**{"from": ["GA*"], "serviceAccounts": ["ci/*"], "namespaces": ["a-*"]}),
    "exemption of nobody": exemption(**{"from": ["access"]}),
    "exemption of empty lists": exemption(**{"from": ["access"], "users": [], "groups": []}),
    "exemption from nothing": exemption(**{"from": [], "groups": ["admins"]}),
    "exemption from something else": exemption(**{"from": ["placement"], "groups": ["admins"]}),
    "exemption without from": exemption(groups=["admins"]),
}

LATER = {
    "wish that cannot be read": wish(min_memory="much"),
    "wish that cannot be met": wish(min_memory="80G", max_memory="40G"),
    "weight above 1": weight(products=["*"], sharing="mps", gpus="3/2"),
    "count that multiplies nothing": added_kind(counts=["spec.head.replicas"]),
    "share of unlimited GPUs above 1": {"quota": {"unlimitedShare": "3/2"}},
    "weight of 0": weight(products=["*"], sharing="mps", gpus="0"),
}
"""What takes more than a schema: refused by our webhook, or told in the condition Accepted."""


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_schema_takes_what_the_program_reads(schema, spec):
    policy = document(spec)
    assert (problems_of(schema, policy) == []) is is_read(policy)


@pytest.mark.parametrize("spec", LATER.values(), ids=LATER)
def test_some_mistakes_are_reported_later(schema, spec):
    policy = document(spec)
    assert problems_of(schema, policy) == []
    assert not is_read(policy)


def test_name_is_default(schema):
    assert problems_of(schema, document({}, "mine")) == [': a cluster has one GPUAdmissionPolicy, named "default"']


def test_words_of_wishes_are_those_of_annotations(schema):
    wishes = schema["properties"]["spec"]["properties"]["placement"]["properties"]["wishes"]
    (rule,) = wishes["items"]["properties"]["wish"]["x-kubernetes-validations"]
    assert tuple(re.findall(r"'([^']+)'", rule["rule"])) == WORDS
    assert wishes["items"]["properties"]["wish"]["maxProperties"] == len(WORDS)


def test_example_of_the_documentation_is_taken(schema, deploy):
    text = (deploy.parent / "docs" / "settings.md").read_text()
    example = libyaml.load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    assert problems_of(schema, example) == []


def test_status_takes_conditions_as_kubernetes_writes_them(schema):
    condition = {
        "type": "Accepted",
        "status": "False",
        "observedGeneration": 2,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Invalid",
        "message": "spec.placement.wishes[0].wish: can never be met",
    }
    audit = {"time": "2026-01-01T00:00:00Z", "summary": "3 namespaces ready", "counts": {"escaped": 0}}
    status = {"observedGeneration": 2, "conditions": [condition], "audit": audit}
    assert problems_of(schema, document({}) | {"status": status}) == []
