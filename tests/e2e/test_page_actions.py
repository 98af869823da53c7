"""Actions in the pages beyond looking: edit a spec, send code, search a log, cancel in bulk, make tokens."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Locator, Page, Route, expect

from tests.e2e.accessible import NEEDS_AXE, serious_faults
from tests.e2e.browser import NEEDS, PATHS, expect_state, job_named, sign_in, submit
from tests.e2e.demo import Demo

FIRST_LOAD_KIB = 200  # 172 for the jobs page, 187 for the settings
pytestmark = NEEDS


def open_submit(page: Page, demo: Demo, query: str = "") -> Locator:
    """The YAML editor of the submit page, once it is there."""
    page.goto(f"{demo.url}/submit{query}")
    editor = page.get_by_role("textbox", name="Job spec in YAML")
    expect(editor).to_be_visible()
    return editor


def archive(name: str, text: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(text.encode())
        tar.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()


def code_folder(folder: Path) -> Path:
    """A training of two files, with what does not belong into a job."""
    train = folder / "train"
    (train / "lib").mkdir(parents=True)
    (train / ".git").mkdir()
    (train / "train.py").write_text("from lib.words import WORDS\nprint('from', *WORDS, flush=True)\n")
    (train / "lib/words.py").write_text("WORDS = ('the', 'folder')\n")
    (train / ".git/config").write_text("")
    (train / "leak").symlink_to("/etc/passwd")
    return train


def drop(page: Page, path: Path) -> None:
    """Drop a file or folder of this machine where the code goes, as a file manager does."""
    box = page.get_by_test_id("code-drop").bounding_box()
    assert box is not None
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for event in ("dragEnter", "dragOver", "drop"):
        at = {"x": box["x"] + 20, "y": box["y"] + 10}
        session.send("Input.dispatchDragEvent", {"type": event, "data": data, **at})


def test_the_form_and_the_yaml_show_one_spec(ada: Page, demo: Demo) -> None:
    editor = open_submit(ada, demo)
    ada.get_by_label("Name", exact=True).fill("both-ways")
    expect(editor).to_contain_text("name: both-ways")
    editor.click()
    ada.keyboard.press("Control+Home")
    ada.keyboard.type("# kept\nnodes: 2\n")
    expect(ada.get_by_label("Nodes", exact=True)).to_have_value("2")
    ada.get_by_label("Memory", exact=True).fill("4GiB")
    expect(editor).to_contain_text("# kept")
    expect(editor).to_contain_text("memory: 4GiB")


def test_the_editor_completes_keys(ada: Page, demo: Demo) -> None:
    editor = open_submit(ada, demo)
    editor.click()
    ada.keyboard.press("Control+Home")
    ada.keyboard.type("on_dis")
    ada.get_by_role("option", name="on_disconnect").click()
    expect(editor).to_contain_text("on_disconnect:")


def test_a_wrong_field_is_told_where_it_stands_and_cannot_be_sent(ada: Page, demo: Demo) -> None:
    open_submit(ada, demo)
    memory = ada.get_by_label("Memory", exact=True)
    memory.fill("lots")
    expect(memory).to_have_attribute("aria-invalid", "true")
    expect(ada.get_by_role("button", name="Submit job")).to_be_disabled()
    memory.fill("4GiB")
    expect(memory).not_to_have_attribute("aria-invalid", "true")
    expect(ada.get_by_role("button", name="Submit job")).to_be_enabled()


def test_a_pasted_sbatch_script_is_reported_on_and_fills_the_form(ada: Page, demo: Demo) -> None:
    editor = open_submit(ada, demo)
    ada.get_by_role("button", name="From an sbatch script").click()
    dialog = ada.get_by_role("dialog")
    script = "#!/bin/bash\n#SBATCH -J pasted --gres=gpu:1\n#SBATCH --output=%x.out\n{}\necho from $SLURM_JOB_NAME\n"
    dialog.get_by_label("Script").fill(script.format("#SBATCH --gress=1"))
    dialog.get_by_role("button", name="Translate").click()
    expect(dialog.get_by_role("alert")).to_have_text("line 4: there is no option --gress")
    dialog.get_by_label("Script").fill(script.format("#SBATCH -t 5"))
    dialog.get_by_role("button", name="Translate").click()
    for cells in (["line 2", "-J pasted", "name: pasted"], ["line 3", "--output=%x.out", "batch.output: %x.out"]):
        expect(dialog.get_by_role("row").filter(has_text=cells[1])).to_contain_text(cells[2])
    dialog.get_by_role("button", name="Use this spec").click()
    expect(editor).to_contain_text("name: pasted")
    ada.get_by_role("button", name="Submit job").click()
    expect(ada.get_by_role("region", name="Output").get_by_text("from pasted", exact=True)).to_be_visible()


def test_a_dry_run_says_why_a_job_would_wait_or_is_refused(ada: Page, demo: Demo) -> None:
    ada.goto(demo.url)
    whole_quota = submit(demo, name="whole-quota", gpus=4, screening="never", command="sleep 600")
    open_submit(ada, demo)
    ada.get_by_label("GPUs", exact=True).fill("4")
    dry_run = ada.get_by_role("region", name="Dry run")
    expect(dry_run.get_by_text("4 GPUs in total")).to_be_visible()
    expect(dry_run.get_by_text(re.compile("It would wait.*: quota in use"))).to_be_visible()
    ada.get_by_label("Nodes", exact=True).fill("2")
    expect(dry_run.get_by_text("the quota of vision is 4 A100; this job needs 8")).to_be_visible()
    with demo.client("ada") as client:
        client.cancel(whole_quota["id"])


def test_an_archive_is_unpacked_where_the_job_runs(ada: Page, demo: Demo) -> None:
    open_submit(ada, demo)
    code = archive("main.py", "print('from', 'the archive')\n")
    files = FilePayload(name="code.tar.gz", mimeType="application/gzip", buffer=code)
    ada.get_by_label("Code file").set_input_files(files)
    expect(ada.get_by_text("code.tar.gz")).to_be_visible()
    ada.get_by_label("Name", exact=True).fill("archive")
    ada.get_by_label("Command", exact=True).fill("python3 main.py")
    ada.get_by_label("GPUs", exact=True).fill("0")
    expect(ada.get_by_text("The spec is valid: no GPU in total")).to_be_visible()
    ada.get_by_role("button", name="Submit job").click()
    ada.wait_for_url(re.compile(r"/jobs/\d+"))
    expect(ada.get_by_text("from the archive", exact=True)).to_be_visible()


def test_a_folder_runs_on_two_gpus_after_three_clicks(ada: Page, demo: Demo, tmp_path: Path) -> None:
    open_submit(ada, demo)
    ada.evaluate("addEventListener('click', e => { window.clicks = (window.clicks ?? 0) + e.isTrusted }, true)")
    with ada.expect_file_chooser() as chooser:
        ada.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(code_folder(tmp_path))
    gpus = ada.get_by_label("GPUs", exact=True)
    gpus.click()
    ada.keyboard.press("Control+A")
    ada.keyboard.type("2")
    # The script at the top of the folder is proposed as the command.
    expect(ada.get_by_text("The spec is valid: 2 GPUs in total")).to_be_visible()
    ada.get_by_role("button", name="Submit job").click()
    expect(ada.get_by_text("from the folder", exact=True)).to_be_visible()
    assert ada.evaluate("window.clicks") <= 3


def test_a_dropped_folder_is_packed_by_its_contents(ada: Page, demo: Demo, tmp_path: Path) -> None:
    editor = open_submit(ada, demo)
    drop(ada, code_folder(tmp_path))
    files = ada.get_by_role("list", name="Files of the code").get_by_role("listitem")
    expect(files).to_have_text([re.compile("^lib/words.py"), re.compile("^train.py")])
    expect(editor).to_contain_text("command: python3 train.py")
    # A browser does not show links to a page, so that no file outside of the folder can come along.
    expect(ada.get_by_text("Links and empty folders are left out")).to_be_visible()


def test_what_is_no_code_is_refused_before_it_is_sent(ada: Page, demo: Demo) -> None:
    open_submit(ada, demo)
    for name, content, reason in (
        ("notes.txt", b"hello", "tar czf code.tar.gz -C FOLDER ."),
        ("code.zip", b"PK\x03\x04", "It is no zip that can be read"),
    ):
        ada.get_by_label("Code file").set_input_files(FilePayload(name=name, mimeType="", buffer=content))
        expect(ada.get_by_role("alert").get_by_text(reason)).to_be_visible()


def test_a_clone_starts_from_what_somebody_wrote(ada: Page, demo: Demo) -> None:
    job = submit(demo, name="parent", command="echo once", env={"EPOCHS": "3"})
    ada.goto(f"{demo.url}/jobs/{job['id']}")
    ada.get_by_role("link", name="Clone").click()
    editor = ada.get_by_role("textbox", name="Job spec in YAML")
    expect(editor).to_contain_text("command: echo once")
    expect(editor).to_contain_text("EPOCHS")
    expect(editor).not_to_contain_text("retry")


def test_a_log_can_be_searched_and_downloaded(ada: Page, demo: Demo) -> None:
    job = submit(demo, name="rows", command="for i in $(seq 1 500); do echo row $i; done")
    ada.goto(f"{demo.url}/jobs/{job['id']}")
    expect(ada.get_by_text("row 500", exact=True)).to_be_visible()
    search = ada.get_by_label("Search in the log")
    search.fill("ROW 12")
    expect(ada.get_by_text("11 matches")).to_be_visible()
    search.press("Enter")
    expect(ada.get_by_text("1 of 11")).to_be_visible()
    expect(ada.get_by_test_id("log-view").locator("mark").first).to_be_visible()
    expect(ada.get_by_label("Follow the end")).to_have_attribute("aria-pressed", "false")
    ada.get_by_role("button", name="To the end").click()
    expect(ada.get_by_text("row 500", exact=True)).to_be_visible()
    with ada.expect_download() as download:
        ada.get_by_label("Download the log").click()
    assert download.value.path().read_text().splitlines()[-1] == "row 500"


def test_who_scrolls_up_in_a_growing_log_is_left_there(ada: Page, demo: Demo) -> None:
    job = submit(
        demo, name="grows", command="for i in $(seq 1 200); do echo row $i; done; while sleep 0.1; do date; done"
    )
    ada.goto(f"{demo.url}/jobs/{job['id']}")
    log = ada.get_by_test_id("log-view")
    expect(log.get_by_text("row 200", exact=True)).to_be_visible()
    log.hover()
    ada.mouse.wheel(0, -2000)
    expect(ada.get_by_label("Follow the end")).to_have_attribute("aria-pressed", "false")
    place = log.evaluate("log => log.scrollTop")
    height = log.evaluate("log => log.scrollHeight")
    ada.wait_for_function("([log, height]) => log.scrollHeight > height + 100", arg=[log.element_handle(), height])
    assert log.evaluate("log => log.scrollTop") == place
    with demo.client("ada") as client:
        client.cancel(job["id"])


def test_a_log_of_several_ranks_can_be_read_by_rank(ada: Page, demo: Demo) -> None:
    job = submit(demo, name="ranks", nodes=2, command="echo I am rank $RANK")
    ada.goto(f"{demo.url}/jobs/{job['id']}")
    for rank in ("0", "1"):
        expect(ada.get_by_text(f"I am rank {rank}", exact=True)).to_be_visible()
    ada.get_by_label("Rank", exact=True).select_option("1")
    expect(ada.get_by_text("I am rank 0", exact=True)).to_have_count(0)
    expect(ada.get_by_text("I am rank 1", exact=True)).to_be_visible()
    assert "rank=1" in ada.url


def test_jobs_are_cancelled_in_bulk(ada: Page, demo: Demo) -> None:
    for number in range(3):
        submit(demo, name=f"bulk-{number}", command="sleep 600")
    ada.goto(f"{demo.url}/jobs?search=bulk-")
    expect(ada.get_by_role("link", name="bulk-2")).to_be_visible()
    ada.get_by_label("Select all jobs that can be cancelled").check()
    ada.get_by_role("button", name="Cancel jobs").click()
    ada.get_by_role("dialog").get_by_role("button", name="Cancel 3 jobs").click()
    expect(ada.get_by_role("table").get_by_text("Cancelled", exact=True)).to_have_count(3)


def test_filters_live_in_the_address(ada: Page, demo: Demo) -> None:
    ada.goto(f"{demo.url}/jobs")
    ada.get_by_role("navigation", name="State").get_by_role("link", name="Failed").click()
    expect(ada.get_by_role("link", name="failing", exact=True)).to_be_visible()
    expect(ada.get_by_role("link", name="hello", exact=True)).to_have_count(0)
    ada.get_by_label("Search jobs").fill("nothing has this name")
    expect(ada.get_by_text("No job matches")).to_be_visible()
    assert "state=failed" in ada.url
    ada.reload()
    expect(ada.get_by_text("No job matches")).to_be_visible()
    ada.get_by_role("link", name="Clear the filters").click()
    expect(ada.get_by_role("link", name="hello", exact=True).first).to_be_visible()


def test_a_token_is_shown_once_works_and_can_be_revoked(ada: Page, demo: Demo) -> None:
    ada.goto(f"{demo.url}/settings")
    ada.get_by_role("button", name="New token").click()
    ada.get_by_label("Name", exact=True).fill("laptop")
    ada.get_by_role("button", name="Create token").click()
    secret = ada.get_by_label("Token", exact=True).inner_text()
    headers = {"Authorization": f"Bearer {secret}", "Cookie": ""}
    assert ada.request.get(f"{demo.url}/api/v1/me", headers=headers).json()["username"] == "ada"
    ada.get_by_role("button", name="Done").click()
    expect(ada.get_by_text(secret)).to_have_count(0)
    ada.get_by_role("button", name="Revoke laptop").click()
    ada.get_by_role("button", name="Revoke token").click()
    expect(ada.get_by_text("Token laptop is revoked")).to_be_visible()
    assert ada.request.get(f"{demo.url}/api/v1/me", headers=headers).status == 401


def test_a_user_signs_out_of_other_browsers(page: Page, browser: Browser, demo: Demo) -> None:
    page.goto(f"{demo.url}/settings")
    sign_in(page, demo, "otto")
    sessions = page.get_by_role("region", name="Sessions")
    with browser.new_context(user_agent="Mozilla/5.0 (Windows NT 10.0) Firefox/140.0") as context:
        elsewhere = context.new_page()
        elsewhere.goto(f"{demo.url}/jobs")
        for act in ("Sign out Firefox on Windows at", "Sign out everywhere else"):
            sign_in(elsewhere, demo, "otto")
            expect(elsewhere.get_by_role("heading", name="Jobs")).to_be_visible()
            page.reload()
            page.set_viewport_size({"width": 390, "height": 844})
            sessions.get_by_role("button", name=act).click()
            expect(sessions.get_by_text("Firefox on Windows")).to_have_count(0)
            expect(elsewhere.get_by_label("User name")).to_be_visible()
    expect(sessions.get_by_role("listitem")).to_have_count(1)
    sessions.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("User name")).to_be_visible()


def test_gpus_are_reached_with_the_keyboard_and_tell_whose_they_are(ada: Page, demo: Demo) -> None:
    job = submit(demo, name="holds-one", gpus=1, command="sleep 600")
    ada.goto(f"{demo.url}/jobs/{job['id']}")
    expect_state(ada, "Running")
    ada.get_by_role("link", name="Cluster", exact=True).click()
    mine = ada.locator("[data-testid=gpu][data-state=mine]")
    expect(mine).to_have_count(1)
    mine.click()
    ada.get_by_role("dialog").get_by_role("link", name="holds-one").click()
    ada.wait_for_url(f"{demo.url}/jobs/{job['id']}")
    with demo.client("ada") as client:
        client.cancel(job["id"])
    ada.goto(f"{demo.url}/cluster")
    first = ada.get_by_role("button", name=re.compile("^GPU 0 of gpu01"))
    first.focus()
    ada.keyboard.press("ArrowRight")
    expect(ada.get_by_role("button", name=re.compile("^GPU 1 of gpu01"))).to_be_focused()


def test_an_operator_drains_a_node_and_takes_it_back(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.url}/cluster?node=gpu02")
    sign_in(page, demo, "otto")
    drawer = page.get_by_role("dialog", name="gpu02", exact=True)
    drawer.get_by_role("button", name="Drain…").click()
    question = page.get_by_role("dialog", name="Drain gpu02?")
    question.get_by_label("Reason").fill("new fan")
    question.get_by_role("button", name="Drain").click()
    expect(drawer.get_by_text("new fan", exact=True)).to_be_visible()
    drawer.get_by_role("button", name="Resume").click()
    expect(drawer.get_by_text("Ready", exact=True)).to_be_visible()
    expect(drawer.get_by_text("new fan", exact=True)).to_have_count(0)


def test_the_theme_is_kept(ada: Page, demo: Demo) -> None:
    ada.goto(f"{demo.url}/settings")
    ada.get_by_role("radiogroup", name="Theme").get_by_text("Dark", exact=True).click()
    expect(ada.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    ada.reload()
    expect(ada.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")


def test_a_server_that_is_away_is_told_and_found_again(ada: Page, demo: Demo) -> None:
    def abort(route: Route) -> None:
        route.abort()

    ada.goto(demo.url)
    expect(ada.get_by_role("heading", name="Overview")).to_be_visible()
    ada.context.route("**/api/**", abort)
    ada.get_by_role("link", name="Cluster", exact=True).click()
    expect(ada.get_by_role("alert").get_by_text("Muster does not answer").first).to_be_visible()
    ada.context.unroute("**/api/**", abort)
    ada.get_by_role("button", name="Retry").click()
    expect(ada.get_by_text("gpu01", exact=True).first).to_be_visible()
    expect(ada.get_by_role("alert")).to_have_count(0)


def test_a_page_whose_code_is_lost_on_the_way_is_asked_for_again(ada: Page, demo: Demo) -> None:
    ada.goto(demo.url)
    expect(ada.get_by_role("heading", name="Overview")).to_be_visible()
    lost: set[str] = set()

    def lose_once(route: Route) -> None:
        if route.request.url in lost:
            route.fallback()
        else:
            lost.add(route.request.url)
            route.abort("internetdisconnected")

    # The page's own code, and what it shares with others: a network that changes stops all of it at once.
    ada.context.route("**/assets/*.js", lose_once)
    ada.get_by_role("link", name="Settings").click()
    expect(ada.get_by_role("radiogroup", name="Theme")).to_be_visible()
    assert len(lost) > 2


def test_a_page_whose_code_never_came_is_loaded_anew_on_demand(ada: Page, demo: Demo) -> None:
    def abort(route: Route) -> None:
        route.abort()

    ada.goto(f"{demo.url}/cluster")
    card = ada.get_by_role("button", name="Details of gpu01")
    expect(card).to_be_visible()
    ada.context.route("**/assets/NodeDrawer-*.js", abort)
    card.click()
    expect(ada.get_by_text("This could not be loaded")).to_be_visible()
    ada.context.unroute("**/assets/NodeDrawer-*.js", abort)
    ada.get_by_role("button", name="Try again").click()
    expect(ada.get_by_role("dialog")).to_be_visible()


@NEEDS_AXE
def test_axe_finds_nothing_serious(ada: Page, demo: Demo) -> None:
    job = job_named(demo, "ada", "failing")["id"]
    tabs = [f"/jobs/{job}?tab={tab}" for tab in ("logs", "metrics", "attempts", "events", "files", "spec")]
    with demo.client("ada") as client:
        grid = {"method": "grid", "metric": "loss", "params": {"lr": [0.5, 0.25], "batch": [32, 64]}}
        sweep = client.submit_sweep({"name": "axe", "gpus": 0, "cpus": 1, "command": "sleep 300", "sweep": grid})["id"]

    def drawn(_width: int) -> None:
        expect(ada.get_by_role("heading").first).to_be_visible()
        expect(ada.locator("[aria-busy=true]")).to_have_count(0)

    found = []
    for path in (*PATHS, *tabs, f"/sweeps/{sweep}", "/submit?sweep=new", "/fairness", "/cluster?node=gpu01"):
        ada.goto(f"{demo.url}{path}")
        found += serious_faults(ada, drawn)
    assert found == []


@pytest.mark.parametrize("path", ["/", "/jobs", "/cluster", "/settings"])
def test_the_first_load_is_small(ada: Page, demo: Demo, path: str) -> None:
    sizes: list[int] = []
    with ada.context.browser.new_context(storage_state=ada.context.storage_state()) as context:  # type: ignore[union-attr]
        page = context.new_page()
        page.on(
            "response",
            lambda answer: (
                sizes.append(int(answer.headers.get("content-length", 0))) if answer.url.endswith(".js") else None
            ),
        )
        page.goto(f"{demo.url}{path}")
        expect(page.get_by_role("heading").first).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert 50 < sum(sizes) / 1024 <= FIRST_LOAD_KIB
