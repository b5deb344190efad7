"""The service runs as the ServiceAccount that deploy/ makes for it, and may do what it does."""

import re

ON_PURPOSE = re.compile(r"nvidia-gpu-operator|cannot patch resource .{0,2}mutatingwebhookconfigurations")
"""Another name of the operator's namespace, where it has no RoleBinding; and the right that a test of `doctor` takes away
for a moment, which tests of certificates need."""


def test_service_may_do_all_it_tries_to_do(real):
    reported = [*real.service.log().splitlines(), *real.service.probe()["notes"]]
    refused = [line for line in reported if "forbidden" in line and "denied the request" not in line]
    assert [line for line in refused if not ON_PURPOSE.search(line)] == []
