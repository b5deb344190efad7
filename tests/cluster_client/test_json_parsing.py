"""No garbage collection runs while a large document is parsed."""

import gc

import orjson
import pytest

from webhook.cluster.answers import parse_json


@pytest.fixture
def collections():
    """The garbage collections so far."""
    begun = []

    def note(phase, _info):
        begun.append(phase)

    before = gc.get_threshold()
    gc.set_threshold(700)
    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)
    gc.set_threshold(*before)


def test_document_is_made_without_garbage_collections(collections):
    body = orjson.dumps([{"name": [number]} for number in range(20_000)])
    gc.collect()
    collections.clear()
    orjson.loads(body)
    assert collections
    gc.collect()
    collections.clear()
    parse_json(body)
    assert collections == []
    assert gc.isenabled()


def test_collector_is_enabled_again_after_bad_json():
    with pytest.raises(orjson.JSONDecodeError):
        parse_json(b"[")
    assert gc.isenabled()


def test_collector_that_is_disabled_stays_so():
    gc.disable()
    try:
        assert parse_json(b"[1]") == [1]
        assert not gc.isenabled()
    finally:
        gc.enable()
