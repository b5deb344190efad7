"""Unknown fields, defaults, rules and keys of custom resources, as in Kubernetes 1.36.2."""

import pytest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the"
    " existing errors to complete validation"
)
SPEC = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max", "message": "min above max"}
    ],
    "properties": {
        "mode": {"type": "string", "enum": ["a", "b"]},
        "min": {"type": "integer"},
        "max": {"type": "integer"},
        "count": {"type": "integer", "default": 2},
        "nested": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "dx"}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
        },
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is fixed"}],
        },
        "even": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]},
    },
}
SCHEMA = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('t')", "message": "begin with t"}],
    "properties": {"spec": SPEC},
}


@pytest.fixture
async def things(api):
    """Posts a thing; with the fields of its spec, and of the query."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}}
    definition = {"metadata": {"name": "things.example.com"}, "spec": {**spec, "versions": [version]}}
    assert (await api.post(CRDS, definition)).code == 201

    async def post(spec, name="t", **query):
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}
        return await api.post(THINGS, thing, **query)

    return post


async def test_defaults_are_filled_in(things):
    assert (await things({})).body["spec"] == {"count": 2, "nested": {"x": "dx"}}


async def test_null_where_there_is_a_default_is_the_default(things):
    assert (await things({"count": None})).body["spec"]["count"] == 2


async def test_unknown_fields_go_with_a_warning(things):
    answer = await things({"foo": 1, "nested": {"y": 1}})
    assert answer.body["spec"] == {"count": 2, "nested": {"x": "dx"}}
    warnings = ['299 - "unknown field \\"spec.foo\\""', '299 - "unknown field \\"spec.nested.y\\""']
    assert answer.headers.getall("Warning") == warnings


async def test_unknown_fields_go_in_silence_if_wanted(things):
    answer = await things({"foo": 1}, fieldValidation="Ignore")
    assert ("foo" in answer.body["spec"], "Warning" in answer.headers) == (False, False)


async def test_unknown_fields_are_refused_if_wanted(things):
    answer = await things({"foo": 1, "nested": {"y": 1}}, fieldValidation="Strict")
    assert (answer.code, answer.message) == (
        400,
        (
            'Thing in version "v1" cannot be handled as a Thing: strict decoding error: unknown field "spec.foo", unknown'
            ' field "spec.nested.y"'
        ),
    )


async def test_patch_with_unknown_fields_is_422_if_wanted(api, things):
    await things({})
    answer = await api.merge(f"{THINGS}/t", {"spec": {"foo": 1}}, fieldValidation="Strict")
    assert answer.code == 422
    assert answer.message.startswith(' "" is invalid: patch: Invalid value: "{')
    assert answer.message.endswith('}": strict decoding error: unknown field "spec.foo"')


@pytest.mark.parametrize("spec", [{"any": {"x": {"y": 1}}}, {"map": {"x": 1}}], ids=["preserved", "map"])
async def test_fields_that_may_have_any_name_stay(things, spec):
    assert (await things(spec)).body["spec"].items() >= spec.items()


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"min": 3, "max": 2}, "spec: Invalid value: min above max"),
        ({"even": 3}, "spec.even: Invalid value: 3: failed rule: self % 2 == 0"),
        ({"set": ["a", "a"]}, 'spec.set[1]: Duplicate value: "a"'),
        ({"keyed": [{"k": "a"}, {"k": "a"}]}, 'spec.keyed[1]: Duplicate value: {"k":"a"}'),
        ({"mode": "c"}, f'[spec.mode: Unsupported value: "c": supported values: "a", "b", {NOT_CHECKED}]'),
    ],
)
async def test_rules_and_keys_are_checked(things, spec, cause):
    answer = await things(spec)
    assert (answer.code, answer.message) == (422, f'Thing.example.com "t" is invalid: {cause}')


async def test_rule_of_the_whole_object_has_no_field(things):
    answer = await things({}, name="x")
    assert answer.message == 'Thing.example.com "x" is invalid: <nil>: Invalid value: begin with t'


async def test_rule_about_changes_is_checked_at_changes(api, things):
    await things({"fixed": "1"})
    answer = await api.merge(f"{THINGS}/t", {"spec": {"fixed": "2"}})
    assert answer.message == 'Thing.example.com "t" is invalid: spec.fixed: Invalid value: "2": fixed is fixed'


async def test_rule_that_does_not_compile_is_refused_with_its_definition(api):
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "foo =="}]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}}
    answer = await api.post(CRDS, {"metadata": {"name": "things.example.com"}, "spec": {**spec, "versions": [version]}})
    assert answer.code == 422
    assert 'x-kubernetes-validations[0].rule: Invalid value: "foo ==": compilation failed: ERROR' in answer.message
