"""`gpu-admission review` of a GPUAdmissionPolicy, before it is applied."""

POLICY = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec:
  rules:
  - rule: GA307
    severity: off
  acces: {}
"""


def test_problems_have_their_lines(invoke, write):
    done = invoke("review", write("policy.yaml", POLICY))
    assert done.exit_code == 1
    assert (
        done.stdout
        == """\
policy.yaml:1  GPUAdmissionPolicy default  refused
The GPUAdmissionPolicy "default" is invalid: 
* spec.rules[0].severity: Write "off" in quotes: severity is false, which is how YAML reads off [GA701]
* spec.acces: Write "access" [GA701]
  GA701 deny  policy.yaml:7:15  Settings must be readable and consistent
        severity: off
                  ^
  GA701 deny  policy.yaml:8:10  Settings must be readable and consistent
      acces: {}
             ^
    Reason: acces is unknown

1 object: 1 refused
"""  # noqa: W291 - as kubectl prints it
    )


def test_rule_that_does_not_exist_is_a_warning_in_both_ways(invoke, write):
    text = POLICY.replace("severity: off", "severity: warn").replace("GA307", "GA999").replace("  acces: {}\n", "")
    file = write("policy.yaml", text)
    said = "rule GA999 does not exist in this version, so its severity has no effect"
    done = invoke("review", "-o", "json", file)
    assert (done.exit_code, said in done.stdout, '"line": 6' in done.stdout) == (0, True, True)
    assert (
        f"Warning: policy.yaml:6:11: Remove the entry, or name a rule that gpu-admission rules lists: {said}; "
        in invoke("review", "--settings", file, file).stderr
    )
