"""The pages of virtual clusters and tenants in a real browser: what is seen, and what is changed by whom."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.browser import NEEDS, sign_in
from tests.e2e.demo import Demo

pytestmark = NEEDS


def test_a_member_sees_the_own_virtual_cluster_with_its_delays(ada: Page, demo: Demo) -> None:
    ada.goto(demo.url)
    ada.get_by_role("link", name="Virtual clusters").click()
    tenant = ada.get_by_role("region", name="Tenant vision")
    expect(tenant.get_by_role("img", name=re.compile(r"^vision, .*: \d of 4 used"))).to_be_visible()
    expect(ada.get_by_role("region", name="Tenant nlp")).to_have_count(0)
    tenant.get_by_role("listitem").get_by_role("link", name="vision").click()
    expect(ada.get_by_role("heading", name="vision", exact=True)).to_be_visible()
    # The examples of the demonstration have started.
    delays = ada.get_by_role("region", name="Delays")
    expect(
        delays.get_by_text(re.compile(r"^Mean over \d+ starts?( and \d+ waiting jobs?)?: (no wait|[a-z -]+ \d)")).first
    ).to_be_visible()
    expect(ada.get_by_role("region", name="Limits")).to_be_visible()
    expect(ada.get_by_role("button", name="Save")).to_have_count(0)
    ada.goto(f"{demo.url}/vcs/nlp")
    expect(ada.get_by_text("There is no virtual cluster nlp")).to_be_visible()


def test_an_operator_sees_what_does_not_fit_and_who_saved_meanwhile(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.url}/vcs/vision")
    sign_in(page, demo, "otto")
    form = page.get_by_role("region", name="Change quotas")
    gpus = form.get_by_label("A100: GPUs")
    gpus.fill("5")
    expect(form.get_by_text("4 promised to others + 5 = 9 of 8: 1 too many")).to_be_visible()
    expect(form.get_by_role("alert")).to_be_visible()
    expect(form.get_by_role("button", name="Save")).to_be_disabled()
    gpus.fill("3")
    expect(form.get_by_text("This fits.")).to_be_visible()
    vc = rest(demo, "GET", "vcs")["results"]
    vision = next(one for one in vc if one["name"] == "vision")
    rest(demo, "PATCH", f"vcs/{vision['id']}", {"version": vision["version"], "weight": 2.5})
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("otto")
    form.get_by_role("button", name="Reload").click()
    expect(form.get_by_label("Weight")).to_have_value("2.5")
    form.get_by_label("Weight").fill("1")
    expect(form.get_by_text("This fits.")).to_be_visible()
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("vision is changed")).to_be_visible()


def test_a_manager_caps_members_and_cannot_raise_the_quota(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.url}/tenants/nlp")
    sign_in(page, demo, "grace")
    caps = page.get_by_role("region", name="Caps")
    caps.get_by_role("button", name="Add a cap").click()
    caps.get_by_label("For").select_option("role:member")
    caps.get_by_label("Jobs at once").fill("3")
    expect(caps.get_by_text("This fits.")).to_be_visible()
    caps.get_by_role("button", name="Save").click()
    expect(page.get_by_text("nlp is changed")).to_be_visible()
    page.reload()
    expect(caps.get_by_label("Jobs at once")).to_have_value("3")
    caps.get_by_role("button", name="Remove the cap of Members").click()
    expect(caps.get_by_text("This fits.")).to_be_visible()
    caps.get_by_role("button", name="Save").click()
    expect(caps.get_by_text("No caps")).to_be_visible()
    page.get_by_role("region", name="Virtual clusters").get_by_role("link", name="nlp").click()
    form = page.get_by_role("region", name="Change quotas")
    form.get_by_label("A100: GPUs").fill("6")
    expect(form.get_by_role("alert")).to_be_visible()
    expect(form.get_by_role("button", name="Save")).to_be_disabled()


def test_cells_are_drawn_and_what_does_not_fit_is_told_before_it_is_saved(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.url}/vcs/vision")
    sign_in(page, demo, "otto")
    expect(page.get_by_role("heading", name="vision", exact=True)).to_be_visible()
    policy = rest(demo, "GET", "pools/main/policy")
    rest(demo, "PUT", "pools/main/policy", {"policy": "fifo", "admission": "hived"})
    try:
        page.reload()
        form = page.get_by_role("region", name="Change cells")
        whole_node = form.get_by_label(re.compile(r"^Cells of type .*\.[^.]*NODE$"))
        whole_node.fill("9")
        expect(form.get_by_role("alert")).to_be_visible()
        expect(form.get_by_role("button", name="Save")).to_be_disabled()
        whole_node.fill("1")
        expect(form.get_by_text("This fits.")).to_be_visible()
        form.get_by_role("button", name="Save").click()
        expect(page.get_by_text("The cells of vision are changed")).to_be_visible()
        cells = page.get_by_role("region", name="Cells", exact=True)
        expect(cells.get_by_text("4 GPUs guaranteed")).to_be_visible()
        cells.get_by_role("button", name="Table").click()
        expect(cells.get_by_role("row", name=re.compile("NODE .* 4 free 0 0"))).to_be_visible()
        page.goto(f"{demo.url}/vcs")
        expect(page.get_by_role("region", name="Cells of pool main")).to_contain_text("Cut from the measured topology")
        page.goto(f"{demo.url}/vcs/vision")
        whole_node.fill("0")
        form.get_by_role("button", name="Save").click()
        expect(page.get_by_text("The cells of vision are changed")).to_be_visible()
    finally:
        # Other modules use the same demonstration.
        rest(demo, "PUT", "pools/main/policy", {"policy": policy["policy"], "admission": policy["admission"]})


def rest(demo: Demo, method: str, path: str, body: Any = None) -> Any:
    """Call the server as the operator."""
    request = urllib.request.Request(
        f"{demo.url}/api/v1/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {demo.token('otto')}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
