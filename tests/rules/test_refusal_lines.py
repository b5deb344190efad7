"""The text of findings: what to change, then why and where, and the lines of a refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission.all_rules import rule_book
from policies.kubernetes.objects import FieldPath
from policies.rules.decision import LONGEST_REFUSAL, Finding, Severity, refusal_lines
from policies.rules.messages import advice, reason, sentence

DEFAULT = FieldPath(("spec", "cdi", "default"))
OBJECT = FieldPath()


def finding(message, remedy, path=DEFAULT, rule="GA110"):
    return Finding(rule_book().get(rule), Severity.DENY, FieldPath(path), message, remedy)


def first_line(message, remedy, path=DEFAULT, **options):
    (line,) = refusal_lines([finding(message, remedy, path)], **options)
    return line


def test_sentence_ends_with_the_path():
    assert sentence(DEFAULT, "CDI is on", "write true") == "Write true: CDI is on; spec.cdi.default"


def test_sentence_about_the_whole_object_has_no_path():
    assert sentence(OBJECT, "needs 2 GPUs", "request fewer") == "Request fewer: needs 2 GPUs"


def test_advice_begins_with_the_remedy_in_a_capital():
    assert advice(DEFAULT, "CDI is on", "write true") == "Write true: CDI is on"


def test_advice_without_a_remedy_is_the_reason():
    assert advice(DEFAULT, "is deprecated", "") == "default is deprecated"


def test_advice_about_the_whole_object_without_a_remedy_is_the_message():
    assert advice(OBJECT, "needs 2 GPUs", "") == "needs 2 GPUs"


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        ("remove it", "Remove default"),
        ("move it to spec.cdi", "Move default to spec.cdi"),
        ("write it in quotes, or remove it", "Write default in quotes, or remove it"),
    ],
)
def test_field_is_named_where_a_remedy_says_it(remedy, said):
    assert advice(DEFAULT, "is deprecated", remedy) == f"{said}: it is deprecated"


def test_reason_with_a_subject_gets_no_other():
    assert advice(DEFAULT, "CDI is on", "remove it") == "Remove default: CDI is on"


@pytest.mark.parametrize("remedy", ["remove items", "set it to void", "see that it fits"])
def test_other_words_are_left_as_they_are(remedy):
    assert advice(DEFAULT, "CDI is on", remedy) == f"{remedy.capitalize()}: CDI is on"


def test_name_at_the_beginning_of_a_remedy_gets_no_capital():
    assert advice(DEFAULT, "is 1", "nvidia.com/gpu belongs here") == "nvidia.com/gpu belongs here: default is 1"


def test_reason_without_a_subject_begins_with_the_field():
    assert reason(DEFAULT, "is deprecated") == "default is deprecated"


def test_reason_in_a_list_begins_with_the_list_and_the_index():
    assert reason(FieldPath(("spec", "args", 2)), "is a number") == "args[2] is a number"


def test_reason_with_a_subject_is_the_message():
    assert reason(DEFAULT, "CDI is on") == "CDI is on"


def test_reason_about_the_whole_object_is_the_message():
    assert reason(OBJECT, "needs 2 GPUs") == "needs 2 GPUs"


def test_no_findings_have_no_lines():
    assert refusal_lines([]) == []


def test_first_finding_stands_in_full():
    assert first_line("is 1", "write 2") == "Write 2: default is 1; spec.cdi.default [GA110]"


def test_other_findings_have_no_reasons():
    _, other = refusal_lines([finding("is 1", "write 2"), finding("is 3", "write 4", ("spec", "mig"))])
    assert other == "Write 4; spec.mig [GA110]"


def test_other_finding_without_a_remedy_has_its_reason():
    _, other = refusal_lines([finding("is 1", "write 2"), finding("is 3", "", rule="GA302")])
    assert other == "default is 3; spec.cdi.default [GA302]"


def test_paths_that_kubectl_prints_are_left_out():
    lines = refusal_lines([finding("is 1", "write 2"), finding("is 3", "write 4")], with_paths=False)
    assert lines == ["Write 2: default is 1 [GA110]", "Write 4 [GA110]"]


def test_line_of_240_characters_is_whole():
    message = "x " * 100 + "y" * (LONGEST_REFUSAL - 200 - len("Write 2: ; spec.cdi.default [GA110]"))
    assert first_line(message, "write 2") == f"Write 2: {message}; spec.cdi.default [GA110]"


def test_long_names_are_shortened_in_the_middle():
    line = first_line(f"no device is called {'a' * 150}{'b' * 150}", "write 2")
    assert line == f"Write 2: no device is called {'a' * 20}…{'b' * 19}; spec.cdi.default [GA110]"


def test_long_path_is_shortened_in_the_middle():
    line = first_line("is 1", "write 2", ("data", "a" * 300, "replicas"))
    assert line.endswith(f"; data.{'a' * 15}…{'a' * 10}.replicas [GA110]")


def test_long_path_of_another_finding_is_shortened_in_the_middle():
    _, other = refusal_lines([finding("is 1", "write 2"), finding("is 1", "write 2", ("data", "a" * 300))])
    assert other == f"Write 2; data.{'a' * 15}…{'a' * 19} [GA110]"


def test_long_reason_is_cut_before_the_path():
    line = first_line("word " * 60, "write 2")
    assert line.startswith("Write 2: word word ")
    assert line.endswith("…; spec.cdi.default [GA110]")
    assert len(line) == LONGEST_REFUSAL


def test_long_remedy_is_cut_before_the_path():
    line = first_line("is 1", "write " * 60)
    assert line.endswith("…; spec.cdi.default [GA110]")
    assert len(line) == LONGEST_REFUSAL


TEXTS = st.text(max_size=30) | st.text(alphabet="aß \n\x00\u2028\ud800,;", max_size=600)
PATHS = st.lists(TEXTS | st.integers(0, 10**6), max_size=5)
FINDINGS = st.builds(finding, TEXTS, TEXTS | TEXTS.map("remove it{}".format), PATHS)


@given(findings=st.lists(FINDINGS, min_size=1, max_size=3), with_paths=st.booleans())
def test_lines_are_printable_and_end_with_the_rule(findings, with_paths):
    lines = refusal_lines(findings, with_paths=with_paths)
    assert len(lines) == len(findings)
    assert all(line.isprintable() and line.endswith(" [GA110]") for line in lines)


@given(found=FINDINGS, with_paths=st.booleans())
def test_first_line_has_at_most_240_characters(found, with_paths):
    (line,) = refusal_lines([found], with_paths=with_paths)
    assert len(line) <= LONGEST_REFUSAL


@given(found=FINDINGS, path=PATHS)
def test_other_lines_hold_the_whole_remedy(found, path):
    other = finding("is 1", "set replicas of " + found.remedy, path)
    line = refusal_lines([found, other])[1]
    assert line.startswith("Set replicas of " + "".join(c if c.isprintable() else " " for c in found.remedy))


def test_other_finding_names_the_field_that_its_remedy_is_about():
    _, other = refusal_lines([finding("is 1", "write 2"), finding("is 3", "remove it")])
    assert other == "Remove default; spec.cdi.default [GA110]"
