"""The researchers' pages in a real browser, on a cluster that runs real jobs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser import NEEDS, PATHS, PATIENCE_MS, expect_state, job_named, sign_in, submit
from tests.e2e.demo import Demo

pytestmark = NEEDS


def test_who_is_not_signed_in_comes_back_to_the_page_they_wanted(page: Page, demo: Demo) -> None:
    job = job_named(demo, "ada", "failing")
    page.goto(f"{demo.url}/jobs/{job['id']}")
    sign_in(page, demo, "ada")
    page.wait_for_url(f"{demo.url}/jobs/{job['id']}")
    expect(page.get_by_role("heading", name="failing")).to_be_visible()
    expect(page.get_by_text("IndexError: list index out of range").first).to_be_visible()


def test_a_wrong_password_is_told_and_signs_nobody_in(page: Page, demo: Demo) -> None:
    page.goto(demo.url)
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password", exact=True).fill("not it")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert "/signin" in page.url


def test_a_log_and_a_state_appear_without_a_reload(ada: Page, demo: Demo) -> None:
    flag = demo.home.parent / "go-on"
    job = submit(
        demo, name="live", command=f"echo first line; until [ -e {flag} ]; do sleep 0.1; done; echo second line"
    )
    ada.goto(f"{demo.url}/jobs/{job['id']}")
    expect(ada.get_by_text("first line", exact=True)).to_be_visible()
    expect_state(ada, "Running")
    expect(ada.get_by_text("second line", exact=True)).to_have_count(0)
    flag.touch()
    expect(ada.get_by_text("second line", exact=True)).to_be_visible()
    expect_state(ada, "Succeeded")


def test_a_job_submitted_in_the_page_runs(ada: Page, demo: Demo) -> None:
    ada.goto(demo.url)
    ada.get_by_role("link", name="Submit", exact=True).click()
    ada.get_by_label("Name", exact=True).fill("from-the-page")
    ada.get_by_label("Command", exact=True).fill("echo hello from a form")
    ada.get_by_label("GPUs", exact=True).fill("2")
    expect(ada.get_by_text("The spec is valid: 2 GPUs in total")).to_be_visible()
    ada.get_by_role("main").get_by_role("button", name="Submit job").click()
    ada.wait_for_url(re.compile(r"/jobs/\d+"))
    expect(ada.get_by_role("heading", name="from-the-page")).to_be_visible()
    expect(ada.get_by_text("hello from a form", exact=True)).to_be_visible()
    expect_state(ada, "Succeeded")


def test_a_waiting_job_says_why_and_can_be_cancelled(ada: Page, demo: Demo) -> None:
    first = submit(demo, name="whole-quota", gpus=4, screening="never", command="sleep 600")
    job = submit(demo, name="over-quota", gpus=4, screening="never", command="sleep 600")
    ada.goto(f"{demo.url}/jobs/{job['id']}")
    expect_state(ada, "Queued")
    with demo.client("ada") as client:
        why = client.why(job["id"])
    assert why["detail"]
    expect(ada.get_by_text(why["detail"]).first).to_be_visible()
    ada.get_by_role("button", name="Cancel").click()
    ada.get_by_role("dialog").get_by_role("button", name=re.compile("^Cancel")).click()
    expect_state(ada, "Cancelled")
    with demo.client("ada") as client:
        client.cancel(first["id"])


def test_another_tenants_job_looks_as_if_it_did_not_exist(ada: Page, demo: Demo) -> None:
    theirs = job_named(demo, "grace", "gang")
    ada.goto(f"{demo.url}/jobs/{theirs['id']}")
    expect(ada.get_by_text(re.compile("not found|no such job|does not exist", re.IGNORECASE)).first).to_be_visible()
    expect(ada.get_by_text("gang", exact=True)).to_have_count(0)


def test_what_a_job_writes_is_text_and_nothing_else(ada: Page, demo: Demo) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    job = submit(
        demo,
        name="hostile",
        command=f"printf '%s\\n' '{hostile}'; printf '\\033]8;;http://x\\007link\\033]8;;\\007\\n'",
    )
    ada.goto(f"{demo.url}/jobs/{job['id']}")
    expect(ada.get_by_text(hostile).first).to_be_visible()
    expect_state(ada, "Succeeded")
    expect(ada.locator("img[src=x]")).to_have_count(0)
    expect(ada.locator("a[href='http://x']")).to_have_count(0)


def test_a_file_that_a_job_left_is_offered_and_downloads(ada: Page, demo: Demo) -> None:
    job = submit(
        demo,
        name="leaves",
        command="mkdir out; printf 'epoch,loss\\n1,0.5\\n' > out/loss.csv; ln -s /etc/passwd out/link",
        outputs=["out/**"],
    )
    ada.goto(f"{demo.url}/jobs/{job['id']}?tab=files")
    row = ada.get_by_role("row", name="out/loss.csv")
    expect(row.get_by_text("17 B")).to_be_visible()
    with ada.expect_download() as download:
        row.get_by_role("link", name="out/loss.csv").click()
    assert download.value.suggested_filename == "loss.csv"
    assert download.value.path().read_text() == "epoch,loss\n1,0.5\n"
    expect(ada.get_by_role("row", name="out/link").get_by_text("not a regular file")).to_be_visible()


def test_the_cluster_page_shows_every_node_with_its_gpus(ada: Page, demo: Demo) -> None:
    ada.goto(demo.url)
    ada.get_by_role("link", name="Cluster", exact=True).click()
    for name in ("gpu01", "gpu02", "screen01"):
        expect(ada.get_by_text(name, exact=True).first).to_be_visible()
    expect(ada.get_by_text("10 GPUs on 3 nodes").first).to_be_visible()


def test_a_node_shows_how_its_gpus_are_linked(ada: Page, demo: Demo) -> None:
    ada.goto(f"{demo.url}/cluster?node=gpu01")
    links = ada.get_by_role("region", name="Links between GPUs")
    expect(links.get_by_role("cell", name="NV4", exact=True)).to_have_count(12)
    expect(links.get_by_role("row", name="NV4 4 NVLinks 40")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_screen(ada: Page, demo: Demo, width: int) -> None:
    ada.set_viewport_size({"width": width, "height": 844})
    job = job_named(demo, "ada", "hello")
    for path in (*PATHS, "/cluster?node=gpu01", f"/jobs/{job['id']}"):
        ada.goto(f"{demo.url}{path}")
        expect(ada.get_by_role("heading").first).to_be_visible()
        assert ada.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize("name", ["hello", "failing"])
def test_a_phone_shows_the_log_without_scrolling(ada: Page, demo: Demo, name: str) -> None:
    ada.set_viewport_size({"width": 390, "height": 844})
    ada.goto(f"{demo.url}/jobs/{job_named(demo, 'ada', name)['id']}")
    expect(ada.get_by_test_id("log-view")).to_be_visible()
    expect(ada.get_by_role("term").filter(has_text="Virtual cluster")).to_be_attached()
    log = ada.get_by_test_id("log-view").bounding_box()
    bar = ada.get_by_role("navigation").bounding_box()
    assert log is not None
    assert bar is not None
    # At least six lines of it, above the bar at the bottom.
    assert log["y"] + 120 < bar["y"]


def test_the_operator_reaches_the_admin_and_a_member_does_not(page: Page, demo: Demo) -> None:
    page.goto(demo.url)
    sign_in(page, demo, "otto")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.goto(f"{demo.url}/admin/fleet/node/")
    expect(page.get_by_text("gpu01").first).to_be_visible()
    page.context.clear_cookies()
    page.goto(demo.url)
    sign_in(page, demo, "ada")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.goto(f"{demo.url}/admin/fleet/node/")
    expect(page.get_by_text("gpu01")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_documentation_of_rest_lists_operations_and_loads_from_this_server_alone(
    ada: Page, demo: Demo, width: int
) -> None:
    loaded: list[str] = []
    ada.on("request", lambda request: loaded.append(request.url))
    ada.set_viewport_size({"width": width, "height": 844})
    ada.goto(f"{demo.url}/settings")
    ada.get_by_role("link", name="REST API documentation").click()
    expect(ada.get_by_role("heading", name="Muster").first).to_be_visible()
    expect(ada.get_by_role("heading", name="Cancel a job")).to_be_visible()
    expect(ada.locator("#operations-jobs-submit_job")).to_be_visible()
    assert ada.evaluate("document.documentElement.scrollWidth") <= width
    assert [url for url in loaded if not url.startswith((f"{demo.url}/", "data:"))] == []


def test_signing_out_ends_the_session(page: Page, demo: Demo) -> None:
    page.goto(demo.url)
    sign_in(page, demo, "ada")
    page.get_by_role("button", name=re.compile("ada")).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_label("User name")).to_be_visible()
    page.goto(f"{demo.url}/jobs")
    expect(page.get_by_label("User name")).to_be_visible()


def test_what_a_job_uses_appears_while_it_runs_as_charts_and_as_a_table(ada: Page, demo: Demo) -> None:
    # Now and then at work: its GPUs are as busy as its processor.
    count = "n=0; while [ $n -lt 50000 ]; do n=$((n + 1)); done"
    job = submit(demo, name="busy", gpus=2, command=f"while true; do {count}; sleep 0.4; done")
    ada.goto(f"{demo.url}/jobs/{job['id']}?tab=metrics")
    chart = ada.get_by_role("figure", name="GPU utilisation")
    expect(chart.locator("canvas")).to_be_visible(timeout=2 * PATIENCE_MS)
    # Two readings, ten seconds apart, and the page asks every ten seconds.
    seen = re.compile(r"GPU utilisation: [1-9]\d?% on average over 2 lines")
    expect(chart).to_contain_text(seen, timeout=2 * PATIENCE_MS)
    expect(ada.get_by_role("figure", name="CPU cores").locator("canvas")).to_be_visible()
    height = chart.bounding_box()
    ada.get_by_role("button", name="Table", exact=True).click()
    table = ada.get_by_role("region", name="GPUs as a table")
    expect(table.get_by_role("row").filter(has_text="Power").first).to_contain_text("W")
    ada.get_by_role("button", name="Charts", exact=True).click()
    assert chart.bounding_box() == height
    ada.set_viewport_size({"width": 390, "height": 844})
    expect(chart.locator("canvas")).to_be_visible()
    # A chart follows its frame with the next picture that is drawn.
    expect(ada.locator("html")).to_have_js_property("scrollWidth", 390)
    with demo.client("ada") as client:
        client.cancel(job["id"])
    expect_state(ada, "Cancelled")
    expect(chart.locator("canvas")).to_be_visible()


def test_a_nodes_drawer_shows_what_its_gpus_did(ada: Page, demo: Demo) -> None:
    ada.goto(f"{demo.url}/cluster?node=gpu01")
    drawer = ada.get_by_role("dialog")
    expect(drawer.get_by_role("figure", name="GPU utilisation").locator("canvas")).to_be_visible()
    expect(drawer.get_by_role("figure", name="Load").locator("canvas")).to_be_visible()
    drawer.get_by_text("7 d", exact=True).click()
    expect(drawer.get_by_role("figure", name="Power").locator("canvas")).to_be_visible()
