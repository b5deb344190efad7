"""`review` of claims: the line of an expression that does not compile, with a caret below the place."""

import json

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel:
      expression: |-
        device.driver == "gpu.nvidia.com" &&
        device.attribute["gpu.nvidia.com"].type == "gpu"
"""


def test_place_in_an_expression_is_shown(invoke, write):
    done = invoke("review", write("class.yaml", CLAIM))
    assert done.exit_code == 1
    assert (
        done.stdout
        == """\
class.yaml:1  DeviceClass gpu  refused
The DeviceClass "gpu" is invalid: spec.selectors[0].cel.expression: Write attributes: compilation failed: ERROR: \
<input>:2:7: undefined field 'attribute', at .attribute["gpu.nvidia.com"].type == "gpu" [GA215]
  GA215 deny  class.yaml:9:15  Selectors must compile
            device.attribute["gpu.nvidia.com"].type == "gpu"
                  ^

1 object: 1 refused
"""
    )


def test_place_in_a_long_line_is_shown_with_what_is_around_it(invoke, write):
    long = f"expression: {' || '.join(['device.driver == 1'] * 12)}"
    text = CLAIM[: CLAIM.index("expression")] + long
    done = invoke("review", write("class.yaml", text))
    lines = done.stdout.splitlines()
    carets = [index for index, line in enumerate(lines) if line.strip() == "^"]
    assert len(carets) > 1
    for index in carets:
        assert len(lines[index - 1]) <= 4 + 100
        assert lines[index - 1][lines[index].index("^") :].startswith("== 1")


def test_place_is_that_of_the_file_in_json_as_well(invoke, write):
    text = CLAIM[: CLAIM.index("|-")] + "device.drivers == 'a'\n"
    done = invoke("review", "-o", "json", write("class.yaml", text))
    (finding,) = json.loads(done.stdout)[0]["findings"]
    assert (finding["line"], finding["column"]) == (7, 25)
