"""The live page in Chromium: two users of different rights, and what is left of them in the browser."""

import re
import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, expect

from tests.pages.shown_cluster import shown_objects
from tests.pages.test_report_page import HOSTILE, plain
from tests.pages.test_widths import WIDTHS, long_objects
from tests.pages.ui_thread import UIThread
from tests.usage.usage_objects import NOTHING, node, pod
from webhook.cluster.manifests import ManifestsView

ADMIN, ALICE = "admin", "alice"
REFUSED = "Failed to load resource: the server responded with a status of"


@pytest.fixture(scope="module")
def thread(tmp_path_factory):
    thread = UIThread(tmp_path_factory.mktemp("ui"))
    yield thread
    thread.close()


@pytest.fixture
def server(thread):
    """The page's port; the administrator sees everything, Alice `team-a` without nodes."""
    thread.rights.names, thread.rights.members, thread.rights.asked = {ADMIN}, {(ALICE, "team-a")}, []
    thread.clock.seconds += 100  # what the gate knew is forgotten
    yield thread
    thread.stop_serving()


@pytest.fixture
def shown(server):
    """The address of the page about a cluster that has everything."""
    return server.serve(ManifestsView(shown_objects()))


@pytest.fixture
def open_page(new_page):
    """Open the page of an address, and sign in if there is a token."""

    def open_page(address, token=None, namespace="", **options):
        page = new_page(ignore_https_errors=True, **options)
        page.goto(address)
        if token is not None:
            sign_in(page, token, namespace)
            expect(page.locator("#summary h2")).to_be_visible()
        return page

    return open_page


@pytest.fixture
def refused_page(browser, server):
    """A page of a user who is refused: the browser reports that as an error, which is all that it may report."""
    context = browser.new_context(ignore_https_errors=True)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert [each for each in complaints if not each.startswith(REFUSED)] == []


@pytest.fixture
def any_page(browser):
    """A page that may complain."""
    context = browser.new_context(ignore_https_errors=True)
    yield context.new_page()
    context.close()


def sign_in(page, token, namespace=""):
    page.get_by_label("Bearer token").fill(token)
    page.locator("#ui-sign-in").get_by_label("Namespace").fill(namespace)
    page.get_by_role("button", name="Show the report").click()


LEFT = """async () => ({
  cookies: document.cookie, local: {...localStorage}, session: {...sessionStorage},
  databases: await indexedDB.databases(), caches: await caches.keys(), history: history.length, state: history.state,
  name: window.name, address: location.href, html: document.documentElement.outerHTML,
  fields: [...document.querySelectorAll("input[name=token]")].map((each) => each.value),
})"""


def check_nothing_is_left(page, address, *secrets):
    """Nothing in the browser but the page itself, and no secret in it."""
    left = page.evaluate(LEFT)
    html = left.pop("html")
    assert left == {
        "cookies": "",
        "local": {},
        "session": {},
        "databases": [],
        "caches": [],
        "history": left["history"],
        "state": None,
        "name": "",
        "address": address,
        "fields": [""],
    }
    assert page.context.cookies() == []
    assert page.context.storage_state() == {"cookies": [], "origins": []}
    assert [secret for secret in secrets if secret in plain(html)] == []


def test_user_with_the_wider_right_sees_everything(shown, open_page):
    page = open_page(shown, ADMIN)
    expect(page.get_by_role("status")).to_have_text(re.compile("^Signed in as admin; you see everything. Live, as of "))
    for name in ("waiting", "summary", "nodes", "quotas", "migration", "findings"):
        expect(page.locator(f"#{name} h2")).to_be_visible()
    expect(page.locator(".nodes > li")).to_have_count(5)
    expect(page.locator("#nodes")).to_contain_text("team-b/chat")


@pytest.mark.parametrize(("token", "namespace"), [(ADMIN, ""), (ALICE, "team-a")])
def test_button_beside_a_pod_that_waits_explains_it(shown, open_page, token, namespace):
    page = open_page(shown, token, namespace)
    button = page.get_by_role("button", name="Why does team-a/escaped wait?")
    button.press("Enter")
    answer = page.get_by_role("group", name="Explanation")
    expect(answer).to_contain_text("pod team-a/escaped")
    expect(answer).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "true")
    answer.press("Escape")
    expect(answer).to_be_hidden()
    expect(button).to_be_focused()


def test_explanation_stays_below_its_row_when_the_list_changes(server, shown, open_page):
    page = open_page(shown, ADMIN)
    page.get_by_role("button", name="Why does team-a/escaped wait?").click()
    answer = page.get_by_role("group", name="Explanation")
    expect(answer).to_contain_text("pod team-a/escaped")
    urgent = pod("urgent", 9, node_name="", namespace="team-b")
    urgent["spec"]["priority"] = 1000
    server.call(server.ui.view.become, ManifestsView([*shown_objects(), urgent]))
    server.clock.seconds += 6
    expect(page.locator("#waiting tbody tr").first).to_contain_text("team-b/urgent")
    expect(page.locator("#waiting tr:has(+ .answer)")).to_contain_text("team-a/escaped")
    expect(answer).to_be_focused()


def test_workload_whose_pods_are_missing_is_explained(server, open_page):
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": {"replicas": 2, "template": template},
        "status": {"replicas": 0},
    }
    address = server.serve(ManifestsView([*shown_objects(), deployment]))
    page = open_page(address, ADMIN)
    page.get_by_role("button", name="Why does Deployment team-a/chat (x2) wait?").click()
    expect(page.get_by_role("group", name="Explanation")).to_contain_text("Deployment team-a/chat unknown")


def test_user_of_a_namespace_sees_it_and_counts(shown, open_page):
    page = open_page(shown, ALICE, "team-a")
    expect(page.get_by_role("status")).to_contain_text(
        "Signed in as alice; you see the objects of namespace team-a by name, and everything else as numbers."
    )
    text = page.locator("body").inner_text() + plain(page.content())
    assert "5 nodes have GPUs. You may not list nodes" in text
    assert "train-0" in text
    assert [name for name in ("team-b", "team-c", "chat", "web-1", "h100-01", "t4-shared") if name in text] == []


def test_two_users_in_one_browser_see_what_each_may(shown, open_page):
    page = open_page(shown, ADMIN)
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, ALICE, "team-a")
    expect(page.locator("#nodes")).to_contain_text("You may not list nodes")
    assert "h100-01" not in plain(page.content())


@pytest.mark.parametrize(("token", "namespace"), [("admin,secret-group", ""), ("alice,secret-group", "team-a")])
def test_nothing_is_stored_in_the_browser(shown, open_page, token, namespace):
    page = open_page(shown, token, namespace)
    check_nothing_is_left(page, shown, "secret-group")
    page.reload()
    expect(page.get_by_label("Bearer token")).to_be_visible()
    check_nothing_is_left(page, shown, "secret-group", "train-0", "h100-01")


def test_token_travels_in_one_header_and_nowhere_else(shown, open_page):
    page = open_page(shown)
    with page.expect_request("**/ui/v1/**") as sent:
        sign_in(page, "admin,secret-group")
    request = sent.value
    assert "secret-group" not in request.url + (request.post_data or "")
    headers = request.all_headers()
    assert [name for name, value in headers.items() if "secret-group" in value] == ["authorization"]
    assert headers["sec-fetch-site"] == "same-origin"
    assert "referer" not in headers


def test_sign_out_clears_the_page_and_ends_the_stream(server, shown, open_page):
    page = open_page(shown, ADMIN)
    ask(page, "escaped")
    expect(page.locator("#ui-explanation")).not_to_be_empty()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Bearer token")).to_be_visible()
    check_nothing_is_left(page, shown, "admin,", "escaped", "train-0", "h100-01", "team-b")
    assert until(lambda: server.call(len, server.ui.calls.streams) == 0)


def until(holds):
    for _ in range(3000):
        if holds():
            return True
        time.sleep(0.02)
    return False


def ask(page, name, namespace="team-a"):
    form = page.locator("#ui-question")
    if form.get_by_label("Namespace").is_editable():
        form.get_by_label("Namespace").fill(namespace)
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_role("button", name="Explain").click()


def line_of(page, name):
    return page.locator(f'.nodes > li[data-name="{name}"]')


def test_change_is_shown_and_what_the_user_chose_stays(server, shown, open_page):
    page = open_page(shown, ADMIN)
    page.get_by_label("Search").fill("h100-0")
    page.get_by_role("combobox", name="Product").select_option(index=2)
    page.get_by_text("Who holds them").click()
    line_of(page, "h100-03").locator("summary").click()
    product = page.get_by_role("combobox", name="Product").input_value()
    changed = [
        *shown_objects(),
        node("h100-04", gpus=1),
        node("l4-01", gpus=1, labels={"nvidia.com/gpu.product": "L4"}),
    ]
    server.call(server.ui.view.become, ManifestsView(changed))
    server.clock.seconds += 6
    expect(line_of(page, "h100-04")).to_be_visible()
    assert page.locator(".nodes > li").count() == 4
    expect(line_of(page, "h100-03").locator(".gpu")).to_have_count(2)
    expect(line_of(page, "h100-03").locator("summary")).to_be_focused()
    assert page.get_by_label("Search").input_value() == "h100-0"
    assert page.get_by_role("combobox", name="Product").input_value() == product
    assert page.locator("details", has_text="Who holds them").get_attribute("open") is not None


def test_field_that_is_typed_in_keeps_the_focus(server, shown, open_page):
    page = open_page(shown, ADMIN)
    page.get_by_label("Search").fill("1")
    page.get_by_label("Search").focus()
    objects = [*shown_objects(), node("l40s-01", gpus=1, labels={"nvidia.com/gpu.product": "NVIDIA-L40S"})]
    server.call(server.ui.view.become, ManifestsView(objects))
    server.clock.seconds += 6
    expect(line_of(page, "l40s-01")).to_be_visible()
    page.keyboard.type("00-03")
    assert page.get_by_label("Search").input_value() == "100-03"


def test_filters_of_a_link_are_kept_through_sign_in_and_leave_the_address_at_its_end(shown, open_page):
    page = open_page(f"{shown}#nodes?text=h100-0&node=cordoned")
    sign_in(page, ADMIN)
    expect(page.get_by_label("Search")).to_have_value("h100-0")
    expect(page.locator(".nodes > li")).to_have_count(1)
    page.get_by_role("button", name="Sign out").click()
    check_nothing_is_left(page, shown, "h100-02")


def test_nodes_of_a_large_cluster_come_in_parts(server, open_page):
    nodes = [node(f"node-{number:03}", gpus=1) for number in range(600)]
    page = open_page(server.serve(ManifestsView([*NOTHING, *nodes])), ADMIN)
    page.keyboard.press("/")
    page.keyboard.type("node-5")
    expect(page.locator("#nodes [data-count]")).to_have_text("100 of 600 shown")
    line_of(page, "node-599").locator("summary").click()
    changed = [*nodes[:599], node("node-599", gpus=2)]
    server.call(server.ui.view.become, ManifestsView([*NOTHING, *changed]))
    server.clock.seconds += 6
    expect(line_of(page, "node-599")).to_contain_text("0 of 2 GPUs held, 2 free")
    expect(line_of(page, "node-599").locator("summary")).to_be_focused()
    expect(line_of(page, "node-599").locator(".gpu")).to_be_in_viewport()


def test_pending_pod_is_explained(shown, open_page):
    page = open_page(shown, ALICE, "team-a")
    ask(page, "escaped")
    expect(page.locator("#ui-explanation h2")).to_be_visible()
    assert "h100-01" not in plain(page.locator("#ui-explanation").inner_html())


def test_refused_question_is_a_sentence(shown, refused_page):
    refused_page.goto(shown)
    sign_in(refused_page, ALICE, "team-a")
    expect(refused_page.locator("#summary h2")).to_be_visible()
    ask(refused_page, HOSTILE)
    expect(refused_page.locator("#ui-explanation")).to_have_text(
        re.compile("^Pod <img src=x .* in namespace team-a not found")
    )
    assert refused_page.locator("img").count() == 0


@pytest.mark.parametrize(
    ("token", "namespace", "sentence"),
    [
        ("", "", "Explanations are for users of the cluster only; call with a token"),
        (
            "mallory",
            "",
            'The user "mallory" may not see who holds which devices; an administrator allows it with kubectl',
        ),
        (ALICE, "team-b", 'The user "alice" may not get gpuexplanations.gpu-admission.io in namespace team-b;'),
    ],
)
def test_user_without_the_right_reads_why(shown, refused_page, token, namespace, sentence):
    refused_page.goto(shown)
    sign_in(refused_page, token, namespace)
    expect(refused_page.get_by_role("alert")).to_contain_text(sentence)
    expect(refused_page.get_by_label("Bearer token")).to_be_visible()
    expect(refused_page.locator("#ui-page")).to_be_hidden()


def test_page_is_emptied_when_the_right_is_gone(server, shown, open_page):
    page = open_page(shown, ALICE, "team-a")
    server.rights.members = set()
    server.clock.seconds += 11
    expect(page.get_by_role("alert")).to_contain_text('The user "alice" may not get gpuexplanations.gpu-admission.io')
    check_nothing_is_left(page, shown, "train-0")


def test_page_says_that_it_is_old_until_the_server_is_back(server, shown, any_page):
    page = any_page
    page.goto(shown)
    sign_in(page, ADMIN)
    expect(page.locator("#summary h2")).to_be_visible()
    port = server.ui.port
    server.stop_serving()
    expect(page.get_by_role("status")).to_contain_text("Not live: the report below is outdated.")
    expect(page.locator("#summary h2")).to_be_visible()
    server.serve(ManifestsView(shown_objects()), port=port)
    expect(page.get_by_role("status")).to_contain_text("Live, as of", timeout=15_000)
    expect(page.get_by_role("alert")).to_be_empty()


def test_hostile_names_run_nothing(server, open_page):
    machine = node(HOSTILE, gpus=1, labels={"nvidia.com/gpu.product": HOSTILE})
    running = pod(HOSTILE, 1, node_name=HOSTILE, namespace="team-a")
    address = server.serve(ManifestsView([*NOTHING, machine, running]))
    page = open_page(address, ADMIN)
    expect(page.locator(".nodes > li")).to_contain_text(HOSTILE)
    assert page.locator("img").count() == 0
    ask(page, HOSTILE)
    expect(page.locator("#ui-explanation h2")).to_be_visible()
    assert page.locator("img").count() == 0


def test_script_that_escaped_a_template_would_not_run(server, any_page):
    """The policy of the page is a second wall behind the templates."""
    evil = '<p id="there">there</p><script>window.ran = 1</script><img src=x onerror="window.ran = 2"><style>p{display:none}</style>'
    address = server.serve(ManifestsView([]), parts=lambda *_: {"summary": evil})
    page, complaints = any_page, []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(address)
    sign_in(page, ADMIN)
    expect(page.locator("#there")).to_be_visible()
    assert page.evaluate("window.ran") is None
    # Chromium words them as "violates the following Content Security Policy directive".
    assert sum("Content Security Policy directive" in each for each in complaints) >= 2


def test_other_functions_may_not_write_html(shown, any_page):
    any_page.goto(shown)
    with pytest.raises(Error, match="TrustedHTML"):
        any_page.evaluate("document.body.innerHTML = '<b>x</b>'")


@pytest.fixture
def elsewhere(any_page, shown):
    """A page of another origin, which tries to use this one."""
    other = shown.replace("localhost", "127.0.0.1").removesuffix("ui")
    any_page.route(f"{other}evil", lambda route: route.fulfill(body="<h1>evil</h1>", content_type="text/html"))
    any_page.goto(f"{other}evil")
    return any_page


def test_page_cannot_be_framed(elsewhere, shown):
    frame = elsewhere.evaluate_handle(
        """(address) => new Promise((resolve) => {
          const frame = document.createElement("iframe");
          frame.onload = () => resolve(frame);
          frame.src = address;
          document.body.append(frame);
        })""",
        shown,
    )
    content = frame.as_element().content_frame()
    assert content.url != shown or content.locator("#ui-sign-in").count() == 0


FETCH = """async ([address, options]) => {
  try {
    const answer = await fetch(address, options);
    return [answer.type, answer.status];
  } catch (error) {
    return [error.name];
  }
}"""


@pytest.mark.parametrize(
    "options",
    [
        {
            "method": "POST",
            "body": "{}",
            "headers": {"Content-Type": "application/json", "Authorization": "Bearer admin"},
        },
        {"method": "POST", "body": "{}", "credentials": "include"},
        {"method": "GET"},
    ],
    ids=["with a token", "simple", "get"],
)
def test_page_of_another_origin_reads_nothing(elsewhere, shown, options):
    assert elsewhere.evaluate(FETCH, [f"{shown}/v1/report", options]) == ["TypeError"]


def test_page_of_another_origin_gets_no_answer_blindly_either(elsewhere, server, shown):
    options = {"method": "POST", "body": "{}", "mode": "no-cors"}
    elsewhere.evaluate(FETCH, [f"{shown}/v1/report", options])
    assert server.rights.asked == []
    assert server.call(len, server.ui.calls.streams) == 0


def test_page_of_another_origin_has_no_hold_of_this_window(elsewhere, shown):
    assert elsewhere.evaluate(
        """(address) => new Promise((resolve) => {
          const opened = window.open(address);
          setTimeout(() => resolve(opened === null || opened.closed), 1000);
        })""",
        shown,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(shown, open_page, scheme):
    """By the rules of axe-core: contrast, names, roles, order."""
    page = open_page(shown, color_scheme=scheme)
    assert violations(page) == []
    sign_in(page, ADMIN)
    expect(page.locator("#summary h2")).to_be_visible()
    ask(page, "escaped")
    expect(page.locator("#ui-explanation h2")).to_be_visible()
    assert violations(page) == []


def violations(page):
    found = Axe().run(page).response
    assert len(found["passes"]) > 10
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]


def test_filters_stay_at_the_top_of_the_window(shown, open_page):
    page = open_page(shown, ADMIN)
    page.locator("#findings").scroll_into_view_if_needed()
    expect(page.get_by_label("Search")).to_be_in_viewport()


def test_nothing_is_wider_than_the_screen(server, open_page):
    page = open_page(server.serve(ManifestsView(long_objects(30))), viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    sign_in(page, ADMIN)
    page.get_by_role("button", name="Why does team-a/escaped wait?").click()
    expect(page.get_by_role("group", name="Explanation")).to_contain_text("pod team-a/escaped")
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        found[width] = page.evaluate("document.documentElement.scrollWidth")
    assert found == {width: width for width in WIDTHS}


def test_page_works_with_the_keyboard_alone(shown, open_page):
    page = open_page(shown)
    page.get_by_label("Bearer token").focus()
    page.keyboard.type(ALICE)
    page.keyboard.press("Tab")
    page.keyboard.type("team-a")
    page.keyboard.press("Enter")
    expect(page.locator("#summary h2")).to_be_visible()
