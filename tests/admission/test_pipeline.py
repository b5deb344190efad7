"""The pipeline asks its driver for each step once, in order, and ends a concern with the driver's answers."""

from dataclasses import replace

import pytest

from policies.admission import Charge, Course, Ensure, Failure, Finish, Judge, Read, decide, finish
from policies.admission.all_rules import rule_book
from policies.admission.webhooks import ENTRIES
from policies.kubernetes.objects import FieldPath
from policies.quota.limits.quota import QuotaNames
from policies.quota.outcomes import QuotaOutcome, Unavailable
from policies.rules.charges import OWN, ChargeRequest
from policies.rules.decision import Decision, Severity, Template
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, RuleOverride

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": {"containers": []}}
CONVERTED = {**POD, "spec": {"containers": [], "resourceClaims": []}}
TEMPLATE = Template("team-a", "gpu-1", {"spec": {}})
STORED = {"kind": "ResourceClaimTemplate", "spec": {"other": True}}
CHARGE = ChargeRequest("1", "Pod", "team-a", "train", {OWN: ()}, enforced=True)
UNSEEN = ("ResourceClaimTemplate", "team-a", "mine")


def request(entry, **fields):
    return Request(POD, namespace="team-a", entry=entry, **fields)


def run(entry, answers, settings=DEFAULTS, **fields):
    """The course of a request, and the steps that were asked for.

    `answers` has a function for each type of step; each sets what the step found. Without one, a concern is finished.
    """
    asked = request(entry, **fields)
    course, steps = Course.start(asked), []
    answers = {Finish: lambda step: end(step, settings), **answers}
    for step in decide(ENTRIES[entry], settings, course, ENTRIES[entry].concerns):
        steps.append(step)
        answers[type(step)](step)
    return course, [type(step) for step in steps]


def nothing(step):
    step.decision = Decision(object=step.part.request.object)


def end(step, settings=DEFAULTS):
    step.answer = finish(step.part.concern, step.decision, step.part.request, settings)


def convert(step):
    """Conversion makes a template; all else says nothing."""
    nothing(step)
    if step.part.concern == "conversion":
        patch = ({"op": "add", "path": "/spec/resourceClaims", "value": []},)
        step.decision = Decision(patch=patch, object=CONVERTED, templates=(TEMPLATE,))


def denial():
    return rule_book().get("GA321").finding(FieldPath(["spec"]), "is wrong")


def ignore(step):
    """The step needs no answer."""


def test_next_concern_sees_the_object_and_the_templates_of_those_before():
    seen = {}

    def judge(step):
        seen[step.part.concern] = step.part.request.object, [*step.objects]
        convert(step)

    course, steps = run("convert-pods", {Judge: judge, Ensure: ignore})
    assert steps == [Judge, Ensure, Judge]
    assert seen == {"conversion": (POD, []), "placement": (CONVERTED, [TEMPLATE.key])}
    assert course.decision.templates == (TEMPLATE,)


def test_no_template_is_created_on_a_dry_run():
    _, steps = run("convert-pods", {Judge: convert}, dry_run=True)
    assert steps == [Judge, Judge]


def test_template_with_another_content_is_judged_once_more_and_never_created():
    seen = []

    def judge(step):
        seen.append((step.part.concern, dict(step.objects)))
        convert(step)

    def ensure(step):
        step.foreign = {TEMPLATE.key: STORED}

    course, steps = run("convert-pods", {Judge: judge, Ensure: ensure})
    assert steps == [Judge, Ensure, Judge, Judge]
    assert seen[1] == ("conversion", {TEMPLATE.key: STORED})
    assert not course.is_repeatable


def test_forged_conversion_leaves_the_object_as_it_is():
    def ensure(step):
        step.is_forged = True

    course, _ = run("convert-pods", {Judge: convert, Ensure: ensure})
    assert (course.decision.object, course.decision.templates) == (POD, ())


def test_refusal_ends_the_concerns_before_the_charge():
    def judge(step):
        step.decision = Decision(findings=(denial(),), object=POD)

    course, steps = run("enforce-quota", {Judge: judge})
    assert steps == [Judge, Finish]
    assert not course.decision.allowed


def test_severity_of_the_settings_is_applied_when_the_concern_ends():
    def judge(step):
        nothing(step)
        if step.part.concern == "conversion-check":
            step.decision = Decision(findings=(denial(),), object=POD)

    settings = GPUAdmissionPolicy(rules=(RuleOverride("GA321", Severity.WARN),))
    course, _ = run("enforce-quota", {Judge: judge}, settings)
    assert [finding.severity for finding in course.decision.findings] == [Severity.WARN]


def test_invalid_waiver_that_settings_refuse_leaves_no_template():
    waiving = {**POD, "metadata": {"name": "train", "annotations": {"gpu-admission.io/ignore": "GA321"}}}
    settings = GPUAdmissionPolicy(rules=(RuleOverride("GA708", Severity.DENY),))
    entry = ENTRIES["convert-pods"]
    course, steps = Course.start(Request(waiving, namespace="team-a", entry=entry.name)), []
    for step in decide(entry, settings, course, entry.concerns):
        steps.append(type(step))
        convert(step) if isinstance(step, Judge) else end(step, settings)
    assert steps == [Judge, Finish]
    assert (course.decision.patch, course.decision.object, course.decision.templates) == ((), waiving, ())


@pytest.mark.parametrize("failing", [Judge, Ensure])
def test_concern_that_fails_open_is_skipped_with_its_warning(failing):
    failure = Failure("4711", "was not reviewed")

    def fail(step):
        step.failure = failure

    def judge(step):
        if failing is Judge and step.part.concern == "placement":
            fail(step)
        elif failing is Ensure:
            convert(step)
        else:
            nothing(step)

    course, _ = run("convert-pods", {Judge: judge, Ensure: fail})
    assert course.failures == [failure]
    assert course.decision.remarks == ("was not reviewed",)
    assert course.decision.object is POD


TOO_LATE = [QuotaOutcome(QuotaNames.of_namespace("team-a"), Unavailable("the API server takes too long"))]


class Charging:
    """Charges a pod that names a template which the view does not show."""

    def __init__(self, found=None, read_outcomes=None):
        self.found = {} if found is None else found
        self.read_outcomes = read_outcomes
        self.judged = []

    def judge(self, step):
        nothing(step)
        if step.part.concern == "quota":
            self.judged.append(dict(step.objects))
            unseen = () if UNSEEN in step.objects else (UNSEEN,)
            step.decision = Decision(object=POD, charges=(replace(CHARGE, unseen=unseen),))

    def read(self, step):
        assert step.keys == (UNSEEN,)
        step.found, step.outcomes = self.found, self.read_outcomes

    def charge(self, step):
        step.outcomes = []

    def run(self):
        return run("enforce-quota", {Judge: self.judge, Read: self.read, Charge: self.charge})


def test_charge_is_judged_again_over_what_was_read():
    charging = Charging(found={UNSEEN: STORED})
    _, steps = charging.run()
    assert steps[-4:] == [Judge, Read, Judge, Charge]
    assert charging.judged == [{}, {UNSEEN: STORED}]


def test_charge_is_not_judged_again_if_nothing_can_be_read():
    charging = Charging()
    _, steps = charging.run()
    assert steps[-3:] == [Judge, Read, Charge]


def test_object_that_cannot_be_read_decides_without_a_charge():
    course, steps = Charging(read_outcomes=TOO_LATE).run()
    assert steps[-3:] == [Judge, Read, Finish]
    assert [finding.rule.id for finding in course.decision.denials] == ["GA504"]


@pytest.mark.parametrize("forgotten", [Judge, Charge, Finish])
def test_driver_that_forgets_an_answer_admits_nothing(forgotten):
    charging = Charging(read_outcomes=TOO_LATE)
    if forgotten is Charge:
        charging = Charging(found={UNSEEN: STORED})
    answers = {Judge: charging.judge, Read: charging.read, Charge: charging.charge, forgotten: ignore}
    with pytest.raises(TypeError):
        run("enforce-quota", answers)
