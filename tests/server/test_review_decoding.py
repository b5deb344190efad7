"""Decoding of an AdmissionReview, and refusals."""

import json
import math

import pytest

from policies.rules.request import UserInfo
from webhook.server.admission_review import BadReview, decode, name_in, read_head


def refused(body):
    with pytest.raises(BadReview) as caught:
        decode(body if isinstance(body, bytes) else json.dumps(body).encode())
    return str(caught.value)


@pytest.fixture
def review(review_of, pod):
    return review_of(pod())


def test_everything_is_read(review_of, pod):
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}}
    review = review_of(
        document,
        "u",
        kind={"group": "apps", "version": "v1", "kind": "Deployment"},
        operation="UPDATE",
        oldObject={"metadata": {"name": "before"}},
        subResource="scale",
        dryRun=True,
    )
    request = decode(json.dumps(review).encode(), "convert-pods")
    assert request.object == document
    assert request.old_object == {"metadata": {"name": "before"}}
    assert (request.operation, request.group, request.kind, request.subresource) == (
        "UPDATE",
        "apps",
        "Deployment",
        "scale",
    )
    assert (request.namespace, request.name, request.uid, request.entry) == ("n", "d", "u", "convert-pods")
    assert request.user == UserInfo("alice", ("system:authenticated",))
    assert request.dry_run is True


def test_what_go_leaves_out_is_empty():
    request = decode(
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
        b'"request":{"uid":"u","kind":{"kind":"Pod"},"operation":"DELETE"}}'
    )
    assert (request.object, request.old_object, request.dry_run) == (None, None, False)
    assert (request.namespace, request.name, request.subresource, request.user) == ("", "", "", UserInfo())


def test_nulls_are_empty(review):
    review["request"] |= dict.fromkeys(("name", "namespace", "subResource", "dryRun", "userInfo", "object"))
    request = decode(json.dumps(review).encode())
    assert (request.object, request.name, request.namespace) == (None, "", "")


def test_a_review_from_yaml_is_read_like_one_from_the_wire(review):
    assert decode(review) == decode(json.dumps(review).encode())


LOOP: list = []
LOOP.append(LOOP)


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800", {1, 2}, LOOP], ids=str)
def test_a_review_from_yaml_that_json_cannot_express_is_refused(review, value):
    review["request"]["object"]["x"] = value
    with pytest.raises(
        BadReview, match=r"^The (AdmissionReview holds values that JSON cannot express|body is not valid JSON: )"
    ):
        decode(review)


def test_unknown_fields_stay_in_the_object_and_are_ignored_outside(review):
    review["request"]["newField"] = 1
    review["request"]["object"]["spec"]["newField"] = {"a": [1, None]}
    assert decode(json.dumps(review).encode()).object["spec"]["newField"] == {"a": [1, None]}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "The body is not valid JSON: Input is a zero-length, empty document at line 1 column 1."),
        (b"{", "The body is not valid JSON: unexpected end of data at line 1 column 2."),
        (b'{"a": NaN}', "The body is not valid JSON: unexpected character, expected a JSON value at line 1 column 7."),
        (b'"\\ud800"', "The body is not valid JSON: no low surrogate in string at line 1 column 2."),
        (b'"\xff"', "The body is not valid JSON: str is not valid UTF-8: surrogates not allowed at line 1 column 1."),
        (b"[" * 100_000, "The body is not valid JSON: depth limit exceeded at line 1 column 1026."),
        (b"[" * 300 + b"]" * 300, "The body is nested too deeply; no Kubernetes object has 254 levels."),
        (b"[]", 'The body is not a JSON object with kind "AdmissionReview".'),
        (b"null", 'The body is not a JSON object with kind "AdmissionReview".'),
        (b"{}", 'The body is not an AdmissionReview: kind is missing, not "AdmissionReview".'),
        (b'{"kind":"Pod"}', 'The body is not an AdmissionReview: kind is "Pod", not "AdmissionReview".'),
        (b'{"kind":7}', 'The body is not an AdmissionReview: kind is not a string, not "AdmissionReview".'),
    ],
)
def test_what_is_no_review_is_refused(body, sentence):
    assert refused(body) == sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"apiVersion": "admission.k8s.io/v1beta1"},
            (
                'The AdmissionReview has another version: apiVersion is "admission.k8s.io/v1beta1", not '
                '"admission.k8s.io/v1"; set admissionReviewVersions to [v1].'
            ),
        ),
        ({"request": None}, "The AdmissionReview has no request."),
        ({"request": []}, "The AdmissionReview cannot be read: request must be a mapping."),
    ],
)
def test_a_review_of_another_kind_is_refused(review, change, sentence):
    assert refused(review | change) == sentence


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"uid": ""}, "request.uid is empty"),
        ({"uid": None}, "request.uid must be a string"),
        ({"uid": 1}, "request.uid must be a string"),
        ({"kind": None}, "request.kind must be a mapping"),
        ({"kind": "Pod"}, "request.kind must be a mapping"),
        ({"kind": {}}, "request.kind.kind is missing"),
        ({"operation": "READ"}, "request.operation must be CREATE, UPDATE, DELETE or CONNECT"),
        ({"operation": None}, "request.operation must be CREATE, UPDATE, DELETE or CONNECT"),
        ({"object": []}, "request.object must be a mapping"),
        ({"object": "pod"}, "request.object must be a mapping"),
        ({"oldObject": 7}, "request.oldObject must be a mapping"),
        ({"userInfo": []}, "request.userInfo must be a mapping"),
        ({"userInfo": {"groups": "admins"}}, "request.userInfo.groups must be a list"),
        ({"userInfo": {"groups": ["a", 1]}}, "request.userInfo.groups[1] must be a string"),
        ({"dryRun": "yes"}, "request.dryRun must be true or false"),
        ({"dryRun": 1}, "request.dryRun must be true or false"),
        ({"namespace": 5}, "request.namespace must be a string"),
    ],
)
def test_a_question_of_wrong_types_is_refused(review, change, problem):
    review["request"] |= change
    assert refused(review) == f"The AdmissionReview cannot be read: {problem}."


@pytest.mark.parametrize("missing", ["uid", "kind", "operation"])
def test_a_question_without_what_it_must_have_is_refused(review, missing):
    del review["request"][missing]
    assert refused(review) == f"The AdmissionReview cannot be read: request.{missing} is missing."


def test_a_long_kind_is_not_repeated_in_full():
    assert len(refused({"kind": "x" * 10_000})) < 200


def test_a_name_that_is_not_made_yet_is_shown_as_it_begins(review_of):
    document = {"kind": "Pod", "metadata": {"generateName": "train-"}}
    assert name_in(decode(review_of(document))) == "train-"


def test_unparsed_request_has_the_uid_only():
    body = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"0a1b-2c3d","kind":{"group":'
    request = read_head(body, "check-pods")
    assert (request.uid, request.entry, request.object, request.kind) == ("0a1b-2c3d", "check-pods", None, "")


POD = '"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"}'


@pytest.mark.parametrize(
    ("fields", "namespace"),
    [
        (f'{POD},"namespace":"team-a"', "team-a"),
        (f'{POD},"subResource":"resize","name":"a b<","namespace":"team-a"', "team-a"),
        (f'{POD},"requestKind":{{"group":""}},"requestResource":{{}},"name":"a","namespace":"team-a"', "team-a"),
        (f'{POD},"name":"a\\",\\"namespace\\":\\"team-b","namespace":"team-a"', ""),
        (f'{POD},"operation":"CREATE"', ""),
    ],
)
def test_namespace_is_known_before_a_review_is_parsed(fields, namespace):
    body = f'{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"0a1b",{fields}'
    assert read_head(body.encode(), "check-pods").namespace == namespace


def test_body_that_begins_in_another_way_cannot_be_answered_unparsed():
    assert read_head(b'{"request":{"uid":"0a1b-2c3d"}}', "check-pods") is None
