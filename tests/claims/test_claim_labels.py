"""Labels and annotations of objects, and of the claims of a template."""

import pytest

ENDS = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character"
)


def claim(metadata):
    return f"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: gpu, {metadata}}}\nspec: {{}}"


@pytest.mark.parametrize(
    "metadata",
    [
        "labels: {team: a, example.com/Team: A_b.c, empty: '', none: null}",
        "annotations: {Example.com/Any: 'any value: at all'}",
        "labels: null, annotations: null",
        f"annotations: {{a: {'x' * (256 * 1024 - 1)}}}",
    ],
    ids=["labels", "annotations", "null", "annotations-as-long-as-can-be"],
)
def test_labels_that_an_object_can_have_are_fine(examined, metadata):
    assert examined(claim(metadata)) == ()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a b", f'name part {ENDS}; write "a-b"'),
        ("Example_com/team", "prefix part a lowercase RFC 1123 subdomain must consist of"),
        ("/team", "prefix part must be non-empty; shorten its name, or correct it"),
        ("example.com/", "name part must be non-empty; shorten its name, or correct it"),
        ("a/b/c", f"a qualified name {ENDS} with an optional DNS subdomain prefix and '/'; write \"a-b/c\""),
        ("a" * 64, "name part must be no more than 63 bytes; shorten its name, or correct it"),
    ],
)
def test_key_that_no_label_can_have_is_reported(findings_of, key, expected):
    (text,) = findings_of("GA203", claim(f"labels: {{'{key}': a}}"))
    assert text.split(f'Invalid value: "{key}": ')[1].startswith(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("c d", f'metadata.labels.team: Invalid value: "c d": {VALUE}; write "c-d"'),
        ("***", f'metadata.labels.team: Invalid value: "***": {VALUE}; make it an annotation, or remove it'),
        (
            "a" * 64,
            (
                f'metadata.labels.team: Invalid value: "{"a" * 64}": must be no more than 63 bytes; make it an annotation, '
                "or remove it"
            ),
        ),
    ],
)
def test_value_that_no_label_can_have_is_reported(findings_of, value, expected):
    assert findings_of("GA203", claim(f"labels: {{team: '{value}'}}")) == [expected]


def test_key_that_no_annotation_can_have_is_reported(findings_of):
    assert findings_of("GA203", claim("annotations: {'a b': anything at all}")) == [
        f'metadata.annotations[a b]: Invalid value: "a b": name part {ENDS}; write "a-b"'
    ]


def test_annotations_that_are_too_long_together_are_reported(findings_of):
    assert findings_of("GA203", claim(f"annotations: {{a: {'x' * 262143}, b: ''}}")) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes, and have 262145; shorten the annotations"
    ]


def test_labels_of_the_claims_of_a_template_are_reported(findings_of):
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: gpu}\n"
        "spec: {metadata: {labels: {team: c d}, annotations: {'a b': a}}, spec: {}}"
    )
    assert findings_of("GA203", text) == [
        f'spec.metadata.labels.team: Invalid value: "c d": {VALUE}; write "c-d"',
        f'spec.metadata.annotations[a b]: Invalid value: "a b": name part {ENDS}; write "a-b"',
    ]


@pytest.mark.parametrize(
    ("kind", "version"), [("DeviceClass", "resource.k8s.io/v1"), ("ComputeDomain", "resource.nvidia.com/v1beta1")]
)
def test_labels_of_every_kind_are_reported(findings_of, kind, version):
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a, labels: {{team: c d}}}}\nspec: {{}}"
    assert findings_of("GA203", text) == [f'metadata.labels.team: Invalid value: "c d": {VALUE}; write "c-d"']


def test_value_that_is_no_text_is_reported_as_a_type(findings_of):
    assert findings_of("GA202", claim("labels: {version: 1}")) == [
        "metadata.labels.version: is 1; it must be text; put it in quotes"
    ]
