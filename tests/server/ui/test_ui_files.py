"""The files of the page: the same for everyone, without data, and with headers that bind the browser."""

from html.parser import HTMLParser

import pytest

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types gpu-admission"
)
RULES = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FILES = {
    "/ui": "text/html",
    "/ui/page.css": "text/css",
    "/ui/page.js": "text/javascript",
    "/ui/ui.css": "text/css",
    "/ui/ui.js": "text/javascript",
    "/ui/ui.svg": "image/svg+xml",
}


@pytest.mark.parametrize("path", FILES)
async def test_file_is_served_to_everyone_and_cached_by_its_tag(ui, path):
    answer = await ui.client.get(path)
    assert (answer.status, answer.headers["Content-Type"]) == (200, f"{FILES[path]}; charset=utf-8")
    assert answer.headers["Cache-Control"] == "no-cache"
    again = await ui.client.request("GET", path, headers={"If-None-Match": answer.headers["Etag"]})
    assert (again.status, again.text) == (304, "")
    assert again.headers["Etag"] == answer.headers["Etag"]


@pytest.mark.parametrize("path", [*FILES, "/", "/ui/v1/report", "/nowhere", "/ui/v1/namespaces/team-a/explain"])
async def test_every_answer_binds_the_browser_and_opens_nothing_to_others(ui, path):
    for method in ("GET", "POST", "OPTIONS"):
        headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        answer = await ui.client.request(method, path, headers=headers, allow_redirects=False)
        assert RULES.items() <= answer.headers.items()
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
        assert not {"Server", "Set-Cookie"} & {*answer.headers}


async def test_stream_has_the_same_headers_and_is_not_stored(ui):
    async with ui.stream() as stream:
        headers = stream.response.headers
        assert {**RULES, "Cache-Control": "no-store", "Content-Type": "application/x-ndjson"}.items() <= headers.items()


async def test_root_leads_to_the_page(ui):
    answer = await ui.client.request("GET", "/", allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (302, "ui")


class Inline(HTMLParser):
    """Collects scripts, styles and handlers that are inside a page, which its policy would not run."""

    def __init__(self):
        super().__init__()
        self.found, self.linked = [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.found += [name for name in given if name == "style" or name.startswith("on")]
        self.found += [tag] if tag == "style" or (tag == "script" and "src" not in given) else []
        self.linked += [value for name, value in attributes if name in ("src", "href") and not value.startswith("#")]


async def test_page_has_nothing_inline_and_loads_only_its_own_files(ui):
    page = Inline()
    page.feed((await ui.client.get("/ui")).text)
    assert page.found == []
    assert {f"/{path}" for path in page.linked} == FILES.keys() - {"/ui"}


async def test_parts_have_nothing_inline(ui):
    async with ui.stream() as stream:
        for html in (await stream.parts()).values():
            part = Inline()
            part.feed(html)
            assert part.found == []


async def test_script_uses_no_storage_and_sets_html_in_one_place(ui):
    script = (await ui.client.get("/ui/ui.js")).text
    for word in ("cookie", "localStorage", "sessionStorage", "indexedDB", "EventSource", "history.", "location"):
        assert f"{word}" not in script.replace("in cookies, or in any storage", "")
    assert script.count("innerHTML") == 1
    assert "outerHTML" not in script
    assert "insertAdjacentHTML" not in script


@pytest.mark.parametrize("path", FILES)
async def test_files_answer_get_only(ui, path):
    answer = await ui.client.post(path, b"{}")
    assert (answer.status, answer.text) == (405, "This path answers GET only.\n")
    assert answer.headers["Allow"] == "GET"


@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/v1/explain", "/convert-pods", "/ui/", "/ui/page.html"])
async def test_port_answers_nothing_else(ui, path):
    answer = await ui.client.request("POST", path)
    assert (answer.status, answer.text) == (
        404,
        "This port answers GET /ui, and POST /ui/v1/report and /ui/v1/explain, also below /ui/v1/namespaces/NAMESPACE.\n",
    )


async def test_calls_are_counted(ui):
    await ui.client.get("/ui")
    await ui.refusal(user="mallory")
    async with ui.stream() as stream:
        await stream.parts()
        assert "gpu_admission_ui_streams 1.0" in ui.metrics.exposition().text().decode()
    text = ui.metrics.exposition().text().decode()
    assert 'gpu_admission_ui_calls_total{call="page",outcome="answered"} 1.0' in text
    assert 'gpu_admission_ui_calls_total{call="report",outcome="turned_down"} 1.0' in text
    assert "gpu_admission_ui_report_duration_seconds_count 1.0" in text
