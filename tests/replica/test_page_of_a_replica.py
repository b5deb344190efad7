"""The page beside a running cluster: its port, and the audits that it shows."""

import contextlib
import json

import aiohttp
import pytest

from tests.sandbox.faults import failing


@pytest.fixture
async def shown():
    """Show the report of a replica; gives what is in its parts."""
    async with contextlib.AsyncExitStack() as stack:

        async def show(running, user="alice"):
            session = await stack.enter_async_context(aiohttp.ClientSession())
            url = f"https://localhost:{running.ready.ui_port}/ui/v1/report"
            headers = {"Authorization": f"Bearer {user}"}
            answer = await stack.enter_async_context(session.post(url, json={}, headers=headers, ssl=False))
            parts = {}
            while "shown" not in (line := json.loads(await answer.content.readline())):
                parts[line.get("part")] = line.get("html")
            return parts

        yield show


async def test_replica_has_no_page_unless_it_has_a_port(start):
    running = await start()
    assert running.ready.ui_port is None


async def test_page_shows_the_running_cluster(start, shown):
    parts = await shown(await start(ui_port=0))
    assert "gpu-a100-01" in parts["nodes"]


async def test_user_without_a_token_is_shown_nothing(start):
    running = await start(ui_port=0)
    url = f"https://localhost:{running.ready.ui_port}/ui/v1/report"
    async with aiohttp.ClientSession() as session, session.post(url, json={}, ssl=False) as answer:
        assert answer.status == 401


async def test_replica_that_leads_shows_the_audit_of_the_leader(start, shown):
    page = (running := await start(ui_port=0)).replica._page
    await page._leader.round()
    await shown(running)
    await page._audit_if_due()
    assert page._last_audit() is page._leader.report is not None
    assert page._own.report is None


async def test_other_replica_audits_while_a_report_is_shown(start, shown):
    page = (running := await start(ui_port=0)).replica._page
    await page._audit_if_due()
    assert page._last_audit() is None
    parts = await shown(running)
    assert "The cluster was not audited." in parts["findings"]
    await page._audit_if_due()
    assert (first := page._last_audit()) is page._own.report is not None
    await page._audit_if_due()
    assert page._last_audit() is first


async def test_audit_without_readers_is_forgotten(start, shown):
    page = (running := await start(ui_port=0)).replica._page
    await shown(running)
    await page._audit_if_due()
    page._next_audit = 0.0
    page.calls.streams._limits._open.clear()
    await page._audit_if_due()
    assert page._own.report is None


async def test_audit_that_fails_is_logged_and_tried_later(start, shown, sandbox, caplog):
    page = (running := await start(ui_port=0)).replica._page
    await shown(running)
    sandbox.faults.add(failing(), path="/api/v1/pods")
    await page._audit_if_due()
    assert page._last_audit() is None
    assert [each for each in caplog.messages if each.startswith("the audit for the page failed: ")]
    sandbox.faults.clear()
    await page._audit_if_due()
    assert page._last_audit() is None
    page._next_audit -= 60
    await page._audit_if_due()
    assert page._last_audit() is not None


async def test_defect_does_not_end_the_audits(start, shown, monkeypatch, caplog):
    page = (running := await start(ui_port=0)).replica._page
    await shown(running)

    async def defective():
        raise TypeError("an unexpected object")

    with monkeypatch.context() as patched:
        patched.setattr(type(page._own), "round", lambda _: defective())
        await page._audit_if_due()
    assert "an unexpected object" in caplog.text
    page._next_audit = 0.0
    await page._audit_if_due()
    assert page._last_audit() is not None
