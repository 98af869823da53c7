"""The admin in a real browser: what operators do with few clicks, its theme and clock, and its accessibility."""

from __future__ import annotations

import re
from collections.abc import Iterator
from secrets import token_hex

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.e2e.accessible import NEEDS_AXE, WIDTHS, expect_no_wider, serious_faults
from tests.e2e.browser import NEEDS, PATIENCE_MS, sign_in
from tests.e2e.demo import Demo

pytestmark = NEEDS

PASSWORD = "correct horse battery staple"
PAGES = (
    *("/admin/", "/admin/tenants/tenant/add/", "/admin/tenants/virtualcluster/", "/admin/fleet/node/"),
    *("/admin/tenants/tenant/1/change/", "/admin/tenants/organisation/add/"),
    *("/admin/tenants/virtualcluster/1/change/", "/admin/fleet/pool/1/change/"),
    *("/admin/fleet/pool/add/", "/admin/events/auditentry/", "/admin/accounts/user/"),
)
COUNT_CLICKS = """
addEventListener("click", event => {
  if (event.isTrusted) localStorage.setItem("clicks", 1 + Number(localStorage.getItem("clicks")));
}, { capture: true });
"""


@pytest.fixture(scope="module")
def ottos_session(browser: Browser, demo: Demo) -> StorageState:
    """The browser's storage of the operator who has signed in."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(demo.url)
        sign_in(page, demo, "otto")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        return context.storage_state()


@pytest.fixture
def otto(browser: Browser, ottos_session: StorageState) -> Iterator[Page]:
    """The start page of the admin."""
    with browser.new_context(
        storage_state=ottos_session, timezone_id="Asia/Tokyo", viewport={"width": 1280, "height": 900}
    ) as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        yield page
        assert problems == []


def start(page: Page, demo: Demo) -> None:
    """Open the start page, and count clicks from here on."""
    page.goto(f"{demo.url}/admin/")
    page.evaluate("localStorage.removeItem('clicks')")
    page.add_init_script(COUNT_CLICKS)
    page.evaluate(COUNT_CLICKS)


def clicks(page: Page) -> int:
    return int(page.evaluate("Number(localStorage.getItem('clicks'))"))


def test_a_quota_is_changed_and_tells_what_it_allows_in_four_clicks(otto: Page, demo: Demo) -> None:
    start(otto, demo)
    otto.get_by_role("link", name="Change a quota").click()
    otto.get_by_role("link", name="vision", exact=True).first.click()
    quota = otto.locator("#id_quotas-0-gpus")
    quota.click()
    quota.fill("5")
    expect(otto.get_by_text("others are promised 4. 5 is 1 too many: at most 4.")).to_be_visible()
    quota.fill("3")
    expect(otto.get_by_text("Pool main has 8 A100; others are promised 4.")).to_contain_text(
        "With 3 here, 1 stay free."
    )
    otto.get_by_role("button", name="Save", exact=True).click()
    expect(otto.get_by_text("3 A100", exact=True)).to_be_visible()
    assert clicks(otto) <= 4
    # Other tests use this virtual cluster, too.
    otto.get_by_role("link", name="vision", exact=True).first.click()
    quota.fill("4")
    otto.get_by_role("button", name="Save", exact=True).click()
    expect(otto.get_by_text("3 A100", exact=True)).to_have_count(0)


def test_a_common_quota_that_is_too_large_is_refused_while_typing(otto: Page, demo: Demo) -> None:
    otto.goto(f"{demo.url}/admin/tenants/organisation/add/")
    otto.get_by_label("Pool of row 1", exact=True).select_option(label="main")
    otto.get_by_label("GPU type of row 1", exact=True).select_option(label="A100")
    gpus = otto.get_by_label("GPUs of row 1", exact=True)
    gpus.fill("9")
    expect(otto.get_by_text(re.compile(r"Pool main has 8 A100; .* too many"))).to_be_visible()
    assert not gpus.evaluate("field => field.checkValidity()")
    gpus.fill("0")
    assert gpus.evaluate("field => field.checkValidity()")


def test_a_new_tenant_with_a_user_who_can_submit_takes_one_form(otto: Page, demo: Demo, page: Page) -> None:
    tenant, user = (f"{word}-{token_hex(3)}" for word in ("robotics", "nina"))  # new when the test runs again
    start(otto, demo)
    otto.get_by_role("link", name="Add a tenant").click()
    forms: list[str] = []
    otto.on("request", lambda request: forms.append(request.url) if request.method == "POST" else None)
    otto.wait_for_url("**/admin/tenants/tenant/add/")
    otto.locator("#id_name").fill(tenant)
    otto.locator("#id_pool").select_option(label="main")
    otto.locator("[name=quota__A100]").fill("0")
    otto.locator("#id_memberships-0-username").fill(user)
    otto.locator("#id_memberships-0-password").fill(PASSWORD)
    otto.get_by_role("button", name="Save", exact=True).click()
    otto.wait_for_url("**/admin/tenants/tenant/")
    assert len(forms) == 1
    page.goto(f"{demo.url}/submit")
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Command", exact=True).fill("echo from a new tenant")
    page.get_by_label("GPUs", exact=True).fill("0")
    page.get_by_role("main").get_by_role("button", name="Submit job").click()
    page.wait_for_url(re.compile(r"/jobs/\d+"))
    expect(page.get_by_role("region", name="Output").get_by_text("from a new tenant", exact=True)).to_be_visible()


def test_a_preset_is_previewed_by_one_click_and_is_not_saved_without_a_reason(otto: Page, demo: Demo) -> None:
    otto.goto(f"{demo.url}/admin/fleet/pool/1/change/")
    form = otto.locator("#pool_form").bounding_box()
    assert form is not None
    assert form["height"] <= 1100
    expect(otto.get_by_label("Reason")).to_be_hidden()
    otto.get_by_text("Guaranteed cells", exact=True).click()
    changes = otto.locator(".switch")
    expect(changes).to_contain_text("quota→ hived")
    expect(changes).to_contain_text("Jobs that run go on for now")
    expect(otto.locator("#id_admission")).to_have_value("hived")
    otto.get_by_role("button", name="Save", exact=True).click()
    expect(otto.get_by_text("Write why the pool shall decide otherwise.")).to_be_visible()
    expect(otto.get_by_label("Reason")).to_be_visible()
    # An edit by hand leaves the preset.
    otto.locator("#id_policy").select_option("las")
    expect(otto.get_by_label("Settings of its own")).to_be_checked()
    otto.goto(f"{demo.url}/admin/fleet/pool/1/change/")
    expect(otto.locator("#id_admission")).to_have_value("quota")


def test_times_are_on_the_readers_clock_with_utc_beside(otto: Page, demo: Demo) -> None:
    otto.goto(f"{demo.url}/admin/events/auditentry/")
    time = otto.locator("time").first
    expect(time).to_contain_text(re.compile(r"\d\d:\d\d:\d\d GMT\+9"))
    expect(time).to_have_attribute("title", re.compile(r"\d\d:\d\d:\d\d UTC"))


def test_the_theme_of_the_pages_is_that_of_the_admin(otto: Page, demo: Demo) -> None:
    otto.goto(f"{demo.url}/settings")
    otto.get_by_role("radiogroup", name="Theme").get_by_text("Dark", exact=True).click()
    otto.goto(f"{demo.url}/admin/")
    expect(otto.locator("html")).to_have_class("dark")
    colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).fontFamily]"
    background, font = otto.evaluate(colours)
    assert background == "rgb(22, 22, 21)"
    assert font.startswith('"Geist Variable"')


def test_delete_comes_last(otto: Page, demo: Demo) -> None:
    for width in WIDTHS:
        otto.set_viewport_size({"width": width, "height": 844})
        otto.goto(f"{demo.url}/admin/tenants/virtualcluster/1/change/")
        delete = otto.locator("#submit-row").get_by_role("link", name=re.compile("Delete")).bounding_box()
        save = otto.get_by_role("button", name="Save", exact=True).bounding_box()
        assert delete is not None
        assert save is not None
        assert (save["y"], save["x"]) < (delete["y"], delete["x"])


@NEEDS_AXE
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_serious_in_the_admin(otto: Page, demo: Demo, path: str) -> None:
    otto.goto(f"{demo.url}{path}")
    assert serious_faults(otto, lambda width: expect_no_wider(otto, width)) == []
