"""Lines of the log."""

import io
import json
import logging

import pytest

from webhook.server.logs import JSONFormatter, configure


async def test_decision_is_one_line(ask, pod, review_of, lines):
    await ask("convert-pods", review_of(pod("0.5"), "uid-1"))
    (line,) = lines(level="info")
    assert line.pop("milliseconds") > 0
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "gpu_admission.decisions",
        "message": "reviewed",
        "uid": "uid-1",
        "webhook": "convert-pods",
        "operation": "CREATE",
        "kind": "Pod",
        "namespace": "team-a",
        "name": "train",
        "user": "alice",
        "verdict": "denied",
        "rules": ["GA302"],
        "dry_run": False,
    }


@pytest.mark.parametrize(
    ("entry", "gpus", "verdict"),
    [("convert-pods", 1, "changed"), ("convert-pods", 0, "allowed"), ("check-pods", 1, "allowed")],
)
async def test_verdict_is_logged(ask, pod, review_of, lines, entry, gpus, verdict):
    await ask(entry, review_of(pod(gpus), dryRun=True))
    (line,) = lines(level="info")
    assert (line["verdict"], line["dry_run"]) == (verdict, True)


async def test_name_that_is_not_made_yet_is_logged_as_it_begins(ask, pod, review_of, lines):
    document = pod()
    document["metadata"] = {"generateName": "train-", "namespace": "team-a"}
    await ask("convert-pods", review_of(document))
    assert lines(level="info")[0]["name"] == "train-"


async def test_group_is_part_of_the_kind(ask, pod, review_of, lines):
    await ask("convert-pods", review_of(pod(), kind={"group": "apps", "version": "v1", "kind": "Deployment"}))
    assert lines(level="info")[0]["kind"] == "Deployment.apps"


@pytest.mark.parametrize(
    "forged", ['x\n{"level": "info", "verdict": "allowed"}', "a\u2028b", "a\u0085b\x0b\x0c\r", "\x1b[2J\x9b2J"]
)
async def test_names_forge_no_lines(ask, pod, review_of, lines, forged):
    await ask("convert-pods", review_of(pod(), uid=forged, name=forged, userInfo={"username": forged}))
    (line,) = lines(level="info")  # the fixture has seen that every record is one line
    assert (line["uid"], line["name"], line["user"]) == (forged, forged, forged)


async def test_long_values_are_cut(ask, pod, review_of, lines):
    await ask("convert-pods", review_of(pod(), uid="u" * 100_000, name="n" * 100_000))
    (line,) = lines(level="info")
    assert line["name"] == "n" * 512 + "…"
    assert len(json.dumps(line)) < 2000


def with_secrets(document):
    for kind in ("containers", "initContainers"):
        document["spec"].setdefault(kind, [{"name": f"of-{kind}"}])[0]["env"] = [{"name": "TOKEN", "value": "hunter2"}]
    return document


async def test_bodies_are_not_logged(ask, pod, review_of, lines, caplog):
    caplog.set_level("INFO", logger="gpu_admission")
    await ask("convert-pods", review_of(with_secrets(pod())))
    assert [line["level"] for line in lines()] == ["info"]


async def test_bodies_at_debug_show_no_environment(ask, pod, review_of, lines):
    await ask("convert-pods", review_of(with_secrets(pod()), oldObject=with_secrets(pod(2))))
    (line,) = lines(level="debug")
    assert line["message"] == "object of the review"
    assert line["object"]["spec"]["containers"][0]["env"] == [{"name": "TOKEN", "value": "[redacted]"}]
    assert line["old_object"]["spec"]["initContainers"][0]["env"] == [{"name": "TOKEN", "value": "[redacted]"}]
    assert "hunter2" not in json.dumps(lines())


def record(message="m", *args, **attributes):
    made = logging.LogRecord("n", logging.INFO, "p", 1, message, args, None)
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize("text", ["\ud800", "\u2028", "ü", "\n", "\x00"])
def test_any_text_is_one_line(text):
    line = JSONFormatter().format(record("%s", text, fields={"x": text}))
    assert len(line.splitlines()) == 1
    assert json.loads(line)["x"] == text


def test_lines_of_other_libraries_are_json_too(monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    stream = io.StringIO()
    configure(logging.WARNING, stream)
    logging.getLogger("asyncio").warning("slow\ncallback")
    logging.getLogger("asyncio").info("unheard")
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert json.loads(written)["message"] == "slow\ncallback"
