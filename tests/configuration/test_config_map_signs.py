"""The role of a ConfigMap by its content: no errors for any content, and bounded work."""

from hypothesis import given
from hypothesis import strategies as st

from policies.configuration.config_maps import roles
from policies.configuration.config_maps.roles import Role, content_roles

LINES = st.lists(
    st.sampled_from(
        [
            "version: v1",
            "sharing:",
            "  timeSlicing:",
            "   - name: nvidia.com/gpu",
            "mig-configs: {",
            "migconfigs:",
            "\t- mig-enabled: false",
            "DCGM_FI_DEV_GPU_UTIL, gauge",
            "flags: [",
            "- a",
            "'",
            "&a *a",
        ]
    )
)


@given(st.dictionaries(st.text(max_size=20), st.one_of(LINES.map("\n".join), st.text(), st.none(), st.integers())))
def test_any_content_is_read_and_mistakes_only_add_roles(data):
    exact = content_roles({"data": data}, with_mistakes=False)
    assert exact <= content_roles({"data": data}, with_mistakes=True) <= set(Role)


def test_texts_without_a_sign_are_not_parsed(monkeypatch):
    parsed = []
    monkeypatch.setattr(roles, "first_document", lambda text, **_: parsed.append(text))
    data = {"ca.crt": "MIIB\n" * 1000, "values.json": '{"panels": [{"expr": "sum(x)"}]}', "run.sh": "exec sleep 1"}
    assert content_roles({"data": data}, with_mistakes=True) == set()
    assert parsed == []


def test_no_more_than_the_first_documents_are_read():
    data = {f"key-{number:04}": "a: b" for number in range(200)} | {"last": "mig-configs: {}"}
    assert content_roles({"data": data}, with_mistakes=True) == set()
    assert content_roles({"data": {"last": "mig-configs: {}"}}, with_mistakes=True) == {Role.MIG_PARTED}
