"""The overload of a call that the checker decided, for lists with elements of other types."""

import pytest

from policies.cel import CelDevice, CelRuntimeError, compile_selector

DEVICE = CelDevice.read({"driver": "d", "attributes": {"flags": {"bools": [True, False]}, "ints": {"ints": [1, 2]}}})
A = 'device.attributes["d"]'

OUTCOMES = [
    (f"{A}.flags.isSorted()", False),
    (f"{A}.flags.distinct().isSorted()", "no such overload: isSorted(list)"),
    (f"{A}.ints.distinct().isSorted()", True),
    ("(dyn([]) + dyn([0u])).sum() == 0u", True),
    ("([] + dyn([0u])).sum() == 0", "no such overload: sum(list)"),
    ("([] + dyn([])).sum() == 0", True),
    ('dyn([dyn(1), dyn("a")]).join() == ""', "no such overload: join(list)"),
    ('dyn([dyn("a"), dyn(1)]).join() == ""', "join: invalid input: 1"),
    ('dyn([ip("::1")]).min() == 1', "no such overload: min(list)"),
    ("dyn([1]).unwrapOpt() == []", "no such overload: unwrapOpt(list)"),
    ("dyn([1]).flatten() == [1]", True),
    ("dyn(1).flatten() == [1]", "no such overload: int.flatten()"),
    ("dyn({}).flatten() == []", "no such overload: map(dyn, dyn).flatten()"),
    ('dyn(optional.of("a")).matches("a")', True),
    ('dyn(optional.of(optional.of("a"))).find("a") == "a"', True),
    ('dyn(optional.of("a")).contains("a")', "no such overload"),
    ('dyn(int).matches("int")', True),
    ('dyn(optional.of(1)).matches("1")', "no such overload"),
    ('dyn(optional.none()).matches("")', "no such overload"),
    ('dyn(optional.of("a")).matches(device.driver)', "no such overload: matches"),
    ("{optional.none(): 1, optional.none(): 2}.size() == 1", True),
    ("{optional.of(1): 1, optional.of(1): 2}.size() == 2", True),
    (f"{A}.no in {{dyn(format.uri()): 1}}", "internal error: runtime error: hash of unhashable type cel.Format"),
    ("{dyn(format.uri()): 1} == {}", "internal error: runtime error: hash of unhashable type cel.Format"),
]


@pytest.mark.parametrize(("text", "outcome"), OUTCOMES, ids=[text for text, _ in OUTCOMES])
def test_call_looks_at_the_first_element_as_kubernetes_does(text, outcome):
    selector = compile_selector(text)

    try:
        found = selector.matches(DEVICE)
    except CelRuntimeError as error:
        found = error.message
    assert found == outcome


def test_call_looks_again_at_every_device():
    """The overload is not remembered by the kind of argument alone."""
    selector = compile_selector(f"{A}.list.distinct().isSorted()")
    ints, texts = (
        CelDevice.read({"driver": "d", "attributes": {"list": value}}) for value in ({"ints": [1]}, {"strings": ["a"]})
    )

    assert selector.matches(ints)
    with pytest.raises(CelRuntimeError, match=r"no such overload: isSorted\(list\)"):
        selector.matches(texts)
    assert selector.matches(ints)
