import pytest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def names(answer):
    return [item["metadata"]["name"] for item in answer.body["items"]]


async def test_list_says_the_version_that_a_watch_goes_on_from(api, sandbox, config_map):
    sandbox.create(config_map())
    answer = await api.get(CONFIG_MAPS)
    assert {key: answer.body[key] for key in ("kind", "apiVersion", "metadata")} == {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "5"},
    }


async def test_items_of_built_in_kinds_do_not_say_their_kind(api, sandbox, config_map):
    sandbox.create(config_map())
    (item,) = (await api.get(CONFIG_MAPS)).body["items"]
    assert set(item) == {"metadata"}


async def test_list_is_in_order_of_namespace_and_name(api, sandbox, config_map):
    for name, namespace in (("b", "kube-system"), ("c", "default"), ("a", "kube-system"), ("b", "default")):
        sandbox.create(config_map(name, namespace))
    answer = await api.get("/api/v1/configmaps")
    assert names(answer) == ["b", "c", "a", "b"]


async def test_list_of_a_namespace_leaves_out_others(api, sandbox, config_map):
    for name, namespace in (("a", "default"), ("b", "kube-public")):
        sandbox.create(config_map(name, namespace))
    assert names(await api.get(CONFIG_MAPS)) == ["a"]


async def test_pages_come_one_after_the_other(api, sandbox, config_map):
    for name in "abcde":
        sandbox.create(config_map(name))
    first = await api.get(CONFIG_MAPS, limit=2)
    second = await api.get(CONFIG_MAPS, limit=2, **{"continue": first.body["metadata"]["continue"]})
    third = await api.get(CONFIG_MAPS, limit=2, **{"continue": second.body["metadata"]["continue"]})
    assert [names(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert [page.body["metadata"].get("remainingItemCount") for page in (first, second, third)] == [3, 1, None]
    assert "continue" not in third.body["metadata"]


async def test_later_pages_are_as_the_list_was_at_the_first(api, sandbox, config_map):
    for name in "abc":
        sandbox.create(config_map(name))
    first = await api.get(CONFIG_MAPS, limit=1)
    sandbox.remove("ConfigMap", "b", "default")
    sandbox.create(config_map("d"))
    second = await api.get(CONFIG_MAPS, **{"continue": first.body["metadata"]["continue"]})
    assert names(second) == ["b", "c"]
    assert second.body["metadata"]["resourceVersion"] == first.body["metadata"]["resourceVersion"]


async def test_page_of_a_forgotten_list_is_410(api, sandbox, config_map):
    for name in "abc":
        sandbox.create(config_map(name))
    token = (await api.get(CONFIG_MAPS, limit=1)).body["metadata"]["continue"]
    sandbox.forget()
    answer = await api.get(CONFIG_MAPS, **{"continue": token})
    assert (answer.code, answer.body["reason"]) == (410, "Expired")
    assert answer.message.startswith("The provided continue parameter is too old to display a consistent list result.")


async def test_token_without_a_user_is_400(api):
    answer = await api.get(CONFIG_MAPS, **{"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"})
    assert answer.code == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", ["a", "b", "c"]),
        ("app", ["a", "b"]),
        ("!app", ["c"]),
        ("app=x", ["a"]),
        ("app==x", ["a"]),
        ("app!=x", ["b", "c"]),
        ("app in (x,y)", ["a", "b"]),
        ("app notin (x)", ["b", "c"]),
        ("app,n>1", ["b"]),
        ("n<2", ["a"]),
    ],
)
async def test_label_selector_selects(api, sandbox, config_map, selector, expected):
    sandbox.create(config_map("a", labels={"app": "x", "n": "1"}))
    sandbox.create(config_map("b", labels={"app": "y", "n": "2"}))
    sandbox.create(config_map("c"))
    assert names(await api.get(CONFIG_MAPS, labelSelector=selector)) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("metadata.namespace==default", ["a", "b"]),
        ("spec.nodeName=gpu-1", ["a"]),
        ("spec.nodeName=", ["b"]),
        ("status.phase!=Running,spec.nodeName=gpu-1", []),
        ("status.phase=Pending", ["b"]),
    ],
)
async def test_field_selector_selects(api, sandbox, pod, selector, expected):
    sandbox.create({**pod("a", node="gpu-1"), "status": {"phase": "Running"}})
    sandbox.create(pod("b"))
    assert names(await api.get("/api/v1/pods", fieldSelector=selector)) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"fieldSelector": "spec.color=red"}, "field label not supported: spec.color"),
        ({"fieldSelector": "red"}, "invalid selector: 'red'; can't understand 'red'"),
        (
            {"labelSelector": "a=b=c"},
            'unable to parse requirement: "=" follows "a" where a comma or the end is expected',
        ),
        ({"limit": "many"}, 'strconv.ParseInt: parsing "many": invalid syntax'),
        (
            {"resourceVersion": "new"},
            'resourceVersion: Invalid value: "new": strconv.ParseUint: parsing "new": invalid syntax',
        ),
    ],
)
async def test_query_that_cannot_be_read_is_400(api, query, message):
    answer = await api.get("/api/v1/pods", **query)
    assert (answer.code, answer.message) == (400, message)


async def test_version_that_does_not_exist_yet_is_504(api):
    answer = await api.get(CONFIG_MAPS, resourceVersion="99")
    assert (answer.code, answer.message) == (504, "Timeout: Too large resource version: 99, current: 4")
    assert answer.headers["Retry-After"] == "1"


async def test_exactly_an_older_version_is_410(api, sandbox, config_map):
    sandbox.create(config_map())
    answer = await api.get(CONFIG_MAPS, resourceVersion="1", resourceVersionMatch="Exact")
    assert (answer.code, answer.message) == (410, "The resourceVersion for the provided list is too old.")


async def test_list_from_version_0_has_no_pages(api, sandbox, config_map):
    # A real server answers it from its cache: Kubernetes 1.36.2.
    for name in "ab":
        sandbox.create(config_map(name))
    answer = await api.get(CONFIG_MAPS, limit="1", resourceVersion="0")
    assert (names(answer), "continue" in answer.body["metadata"]) == (["a", "b"], False)


async def test_field_that_a_kind_without_fields_is_not_selected_by_is_400(api):
    answer = await api.get(CONFIG_MAPS, fieldSelector="data.a=b")
    # Kubernetes 1.36.2.
    assert (answer.code, answer.message) == (
        400,
        '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
    )
