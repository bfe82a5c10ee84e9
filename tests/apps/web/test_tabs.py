"""The tabs in a browser: with the mouse, by keyboard alone, in light and dark, and never a request to elsewhere.

Screenshots go to the folder PUFFERDP_SCREENSHOTS.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pufferdp
from pufferdp.basics.words import up_to
from tests.apps.web.conftest import DEMO, Served

TABS = ("plan", "tables", "redact", "flips", "flows", "leakage", "streams", "audit", "ledger")
FIRST = {"plan": "tr.best", "ledger": ".account", "tables": ".shown table", "audit": "button.main"}
EVIL = '<img src=x onerror="window.pwned=1">'


@pytest.fixture(scope="module")
def context(browser: Any, served: Served) -> Iterator[Any]:
    """A window whose every request is written down. Nothing may go elsewhere, and nothing may break a rule."""
    opened = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    seen: list[str] = []
    broken: list[str] = []
    opened.on("request", lambda request: seen.append(request.url))
    opened.on("console", lambda message: broken.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("weberror", lambda error: broken.append(str(error.error)))
    yield opened
    opened.close()
    assert len(seen) > 20
    assert [url for url in seen if not url.startswith(served.url)] == []
    refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
    assert [words for words in broken if words != refused] == []


@pytest.fixture
def page(context: Any, served: Served) -> Iterator[Any]:
    """The page, with the first answer on it."""
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    opened.goto(served.url)
    opened.wait_for_selector("#plan tr.best")
    yield opened
    opened.close()


def enter(page: Any, tab: str) -> None:
    """Go into a tab and wait for what it shows first."""
    page.click(f"#tab-{tab}")
    page.wait_for_selector(f"#{tab} {FIRST.get(tab, '.chart svg')}")


def said(page: Any, tab: str) -> str:
    """The headline of a tab."""
    return str(page.inner_text(f"#{tab} .headline"))


def week(names: dict[str, str] | None = None, column: str = "activity") -> bytes:
    """The bundled week as somebody's own file, states and column renamed."""
    text = (DEMO / "week.csv").read_text().replace("time,activity", f'time,"{column.replace(chr(34), chr(34) * 2)}"')
    for old, new in (names or {}).items():
        text = text.replace(f",{old}\n", f',"{new.replace(chr(34), chr(34) * 2)}"\n')
    return text.encode()


def give(page: Any, tab: str, name: str, content: bytes, n: int = 0) -> None:
    """Choose a file, as the dialog of the system would."""
    page.locator(f"#{tab} input[type=file]").nth(n).set_input_files({"name": name, "mimeType": "", "buffer": content})


def test_a_newcomer_is_answered_at_once(page: Any, pictures: Path) -> None:
    """May I publish this week's histogram, and with what error? The page says so before anything is asked of it."""
    assert said(page, "plan").startswith("Accurate enough to be useful: with 95 % probability every count is within 16")
    assert "curve-tight" in page.inner_text("#plan tr.best")
    page.wait_for_selector("#plan .chart svg")
    page.screenshot(path=pictures / "plan.png")


def test_a_file_is_planned_released_charged_and_verified(page: Any, served: Served, pictures: Path) -> None:
    give(page, "plan", "ward.csv", week())
    page.wait_for_selector("#plan .warning")  # a model fitted on the data weakens the guarantee
    assert page.locator("#plan option", has_text="ward.csv").count() >= 1
    page.get_by_label("Model", exact=True).locator("visible=true").select_option("wearer")
    slider = page.locator("#plan input[type=range]")
    slider.fill("0.3")  # the exponent: an epsilon of 2
    page.wait_for_selector("#plan .answer[data-epsilon='2']")
    assert "e^2 = 7.389" in said(page, "plan")
    page.get_by_label("Charge it to").select_option("ward")
    page.click("#plan button.main")
    page.wait_for_selector("#plan .downloads")
    assert page.inner_text("#plan .charged") == "Charged to ward, row 1 of the ledger."
    kept = served.ledger.with_name("books.db-ward-row-1.json")
    assert page.inner_text("#plan .kept") == f"Kept on disk: {kept}"
    assert json.loads(kept.read_text())["certificate"]["guarantee"]["epsilon"] == 2.0
    with pufferdp.Ledger(served.ledger) as books:
        assert books.dataset("ward").releases == 1
        assert books.dataset("ward").leakage == pytest.approx(2.0, rel=4e-3)
    page.screenshot(path=pictures / "released.png", full_page=True)
    with page.expect_download() as held:
        page.click("#plan .downloads a:has-text('Report')")
    report = Path(held.value.path()).read_text(encoding="utf-8")
    assert held.value.suggested_filename == "report.html"

    enter(page, "ledger")
    drop(page, "#ledger .drop", "report.html", report)
    page.wait_for_selector("#ledger .verdict.good")
    assert "Its row is in this ledger" in page.inner_text("#ledger")
    assert "leaked at most 1.99" in page.inner_text("#ledger .account:has(h3:text-is('ward'))")
    page.wait_for_selector("#ledger .account:has(h3:text-is('ward, how it moves')) .chart svg")
    assert "total variation spent 0.2 of 0.5" in page.inner_text(
        "#ledger .account:has(h3:text-is('ward, how it moves'))"
    )
    page.screenshot(path=pictures / "ledger.png")
    assert '"epsilon": 2.0' in report
    drop(page, "#ledger .drop", "report.html", report.replace('"epsilon": 2.0', '"epsilon": 1.0'))
    page.wait_for_selector("#ledger .verdict.bad")
    page.get_by_text("Verify the ledger").click()
    page.wait_for_selector("#ledger .verdict.good")


def test_a_tab_that_is_closed_loses_nothing_that_was_charged(context: Any, served: Served) -> None:
    """At whichever step the tab is closed, there is an answer beside the ledger for each charge, and no other."""
    waits = (0, 50, 100, 200, 400)
    with pufferdp.Ledger(served.ledger) as books:
        before = books.dataset("ward").releases
    for wait in waits:
        opened = context.new_page()
        opened.set_default_timeout(60_000)
        opened.goto(served.url)
        opened.wait_for_selector("#plan tr.best")
        opened.wait_for_selector("#plan option[value=ward]", state="attached")
        opened.get_by_label("Charge it to").select_option("ward")
        opened.locator("#plan input[type=range]").fill("-1")
        with opened.expect_request("**/api/do/release"):
            opened.click("#plan button.main")
        opened.wait_for_timeout(wait)
        opened.close()
    # What was asked goes on without its tab, on a worker of its own; a charge comes before its answer. A tab that was
    # closed at once may have asked for nothing: then nothing more comes.
    ends, last, since = time.monotonic() + 30, (-1, -1), time.monotonic()
    while True:
        with pufferdp.Ledger(served.ledger) as books:
            charged = books.dataset("ward").releases
        kept = len(list(served.ledger.parent.glob("books.db-ward-row-*.json")))
        if last != (kept, charged):
            last, since = (kept, charged), time.monotonic()
        settled = charged - before == len(waits) or time.monotonic() - since > 8
        if (kept == charged and settled) or time.monotonic() > ends:
            break
        time.sleep(0.2)
    assert 0 <= charged - before <= len(waits)
    assert kept == charged


def drop(page: Any, where: str, name: str, text: str) -> None:
    """Drag a file onto a zone."""
    make = "([name, text]) => { const d = new DataTransfer(); d.items.add(new File([text], name)); return d; }"
    page.dispatch_event(where, "drop", {"dataTransfer": page.evaluate_handle(make, [name, text])})


def test_only_the_latest_question_is_answered(page: Any) -> None:
    slider = page.locator("#plan input[type=range]")
    for exponent in range(-19, 10):
        slider.fill(str(exponent / 10))
    page.wait_for_selector("#plan .answer[data-epsilon='7.9']")
    page.wait_for_timeout(300)
    assert "e^7.9" in said(page, "plan")
    assert page.get_attribute("#plan .answer", "aria-busy") == "false"


def test_leakage_follows_the_point(page: Any, pictures: Path) -> None:
    enter(page, "leakage")
    before = said(page, "leakage")
    assert "DP says 0.1" in before
    box = page.locator("#leakage .pad").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.45, steps=4)
    page.mouse.up()
    page.wait_for_function("before => document.querySelector('#leakage .headline').innerText !== before", arg=before)
    page.wait_for_selector("#leakage .answer[aria-busy=false]")
    stay = [float(page.locator("#leakage input[type=range]").nth(n).input_value()) for n in (0, 1)]
    model = pufferdp.MarkovChain(transition=[[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    ours = pufferdp.leakage_of(model, dp_epsilon=0.1, length=288, query="count:1")
    shown = "n => document.querySelector('#leakage tbody tr:last-child').innerText.includes(n)"
    page.wait_for_function(shown, arg=up_to(ours.exact))
    page.screenshot(path=pictures / "leakage.png")


def test_a_record_is_hidden_by_a_click(page: Any, pictures: Path) -> None:
    enter(page, "redact")
    page.click("#record-40")
    page.wait_for_selector("#record-41.always, #record-41.some")
    assert page.get_attribute("#record-40", "aria-selected") == "true"
    assert "row 40, 100" in page.inner_text("#redact")
    page.click("#record-100")  # not this one
    page.wait_for_selector("#record-101.free")
    page.wait_for_selector("#redact .answer[aria-busy=false]")
    assert said(page, "redact").startswith("99.74 % of 2,016 records are released")
    page.locator("#redact input[type=range]").fill("-0.5")
    page.wait_for_function("() => document.querySelector('#redact .headline').innerText.includes('e^0.32')")
    page.select_option("#redact select:has(option[value=series])", "series")
    page.check("#redact input[type=checkbox][value=time]")
    page.click("#redact button.main")
    page.wait_for_selector("#redact .downloads")
    assert "Charged to series" in page.inner_text("#redact")
    # Marks that depend on values close the data set.
    page.wait_for_selector("#redact option:has-text('series (used up)')", state="attached")
    enter(page, "ledger")
    used_up = "of 2; it is used up, because no DP loss bounds what was published"
    assert used_up in page.inner_text("#ledger .account:has(h3:text-is('series'))")
    enter(page, "redact")
    page.screenshot(path=pictures / "redact.png", full_page=True)
    with page.expect_download() as held:
        page.click("#redact .downloads a:has-text('Redacted file')")
    lines = Path(held.value.path()).read_text().splitlines()
    assert lines[40].endswith(",*")
    assert page.inner_text("#record-40") == "*"


def test_nothing_of_ones_own_file_is_hidden_unasked(page: Any) -> None:
    enter(page, "redact")
    give(page, "redact", "mine.csv", week())
    page.wait_for_function("() => document.querySelector('#redact').innerText.includes('Nothing is hidden yet')")
    assert page.is_disabled("#redact button.main")
    assert page.locator("#redact .private[role=option]").count() == 0


def test_a_model_says_which_data_it_was_fitted_on(page: Any) -> None:
    same, unknown = "Fitted on the data that is released", "This model was fitted on data"
    for name in ("one.csv", "other.csv"):
        give(page, "plan", name, week())
        page.wait_for_function(f"() => document.querySelector('#plan').innerText.includes('Fitted on {name}')")
        page.wait_for_selector("#plan .warning")
        assert same in page.inner_text("#plan .warning")
    models = page.locator("#plan").get_by_label("Model", exact=True)
    models.select_option(label="Fitted on one.csv")
    page.wait_for_function(
        "() => document.querySelector('#plan').innerText.includes('Fitted on one.csv, and not on the data')"
    )
    assert same not in page.inner_text("#plan")
    models.select_option(label="Fitted on other.csv")
    page.wait_for_selector("#plan .warning")
    assert same in page.inner_text("#plan .warning")
    model = json.loads((DEMO / "wearer.json").read_text()) | {
        "fitted": pufferdp.fit(DEMO / "week.csv", column="activity", order="time").model.fitted
    }
    page.click("#plan summary:has-text('Use a model file')")
    give(page, "plan", "fitted.json", json.dumps(model).encode(), 1)
    page.wait_for_function(f"() => document.querySelector('#plan').innerText.includes('{unknown}')")
    assert same not in page.inner_text("#plan")


@pytest.mark.parametrize("tab", ["plan", "tables", "flips", "redact"])
def test_a_failed_upload_leaves_no_result_of_the_file_before(page: Any, tab: str) -> None:
    enter(page, tab)
    page.wait_for_selector(f"#{tab} button.main:enabled")
    page.click(f"#{tab} button.main:visible")
    page.wait_for_selector(f"#{tab} .downloads")
    give(page, tab, "empty.csv", b"")
    page.wait_for_selector(f"#{tab} .answer .error")
    for left in (".downloads", ".chart svg", "table", ".code:visible", ".record[role=option]"):
        assert page.locator(f"#{tab} {left}").count() == 0, left


def test_everything_by_keyboard(page: Any) -> None:
    """From the top of the page: the tabs, a slider, a release, a record. No mouse."""
    focus = "document.activeElement"

    def tab_to(test: str, most: int = 60) -> None:
        for _ in range(most):
            if page.evaluate(f"(() => {{ const it = {focus}; return {test}; }})()"):
                outline = page.evaluate(f"getComputedStyle({focus}).outlineStyle")
                assert outline != "none", "the focus must be seen"
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"no way to {test} by keyboard")

    tab_to("it.id === 'tab-plan'")
    tab_to("it.type === 'range'")
    page.keyboard.press("Home")
    page.wait_for_selector("#plan .answer[data-epsilon='0.01']")
    assert said(page, "plan").startswith("Not useful at this ε:")
    tab_to("it.textContent === 'Release the answer'")
    page.keyboard.press("Enter")
    page.wait_for_selector("#plan .downloads")
    page.focus("#tab-plan")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#tables .shown table")
    tab_to("it.id === 'question-mean'")
    page.keyboard.press("Space")
    page.wait_for_function("() => document.querySelector('#tables .shown').innerText.includes('mean')")
    tab_to("it.textContent === 'Release the table'")
    page.keyboard.press("Enter")
    page.wait_for_selector("#tables .downloads")
    for tab, ready in (
        ("tables", "#redact .chart svg"),
        ("redact", "#flips .chart svg"),
        ("flips", "#flows .chart svg"),
    ):
        page.focus(f"#tab-{tab}")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(ready)
    page.focus("#tab-flows")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#leakage .chart svg")
    before = said(page, "leakage")
    tab_to("it.type === 'range'")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("before => document.querySelector('#leakage .headline').innerText !== before", arg=before)
    page.click("#tab-redact")
    page.wait_for_selector("#redact .chart svg")
    page.focus("#tab-redact")
    tab_to("it.role === 'listbox'")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_function("() => document.querySelector('#redact').innerText.includes('row 100, 104')")
    page.focus("#tab-redact")
    page.keyboard.press("End")
    page.wait_for_selector("#ledger .account")


def test_names_with_html_stay_names(page: Any) -> None:
    column = "<b onclick=alert(1)>activity</b>"
    states = {"active": EVIL, "light": "</script><script>window.pwned=1</script>"}
    give(page, "plan", "<i>x.csv", week(states, column))
    page.wait_for_selector("#plan .warning")
    page.wait_for_selector("#plan .answer[aria-busy=false]")
    page.get_by_label("What is published?").select_option("count")
    page.get_by_label("State", exact=True).select_option(EVIL)
    page.wait_for_function("() => document.querySelector('#plan .code').textContent.includes('count:<img')")
    page.click("#plan button.main")
    page.wait_for_selector("#plan .downloads")
    assert EVIL in page.inner_text("#plan")
    page.click("#tab-redact")
    page.wait_for_selector("#redact .chart svg")
    page.locator("#redact select").first.select_option(label="<i>x.csv")
    page.wait_for_function("() => document.querySelector('#redact').innerText.includes('onerror')")
    found = page.evaluate("[window.pwned, document.querySelectorAll('main img, main b, main i, main script').length]")
    assert found == [None, 0]


def test_errors_are_words_where_one_looks(page: Any) -> None:
    give(page, "plan", "empty.csv", b"")
    page.wait_for_selector("#plan fieldset:first-of-type .drop + div .error")  # below the file that was chosen
    assert "is empty" in page.inner_text("#plan fieldset .error")
    assert page.is_disabled("#plan button.main")  # nothing of the file before is released by mistake
    page.get_by_text("Go on with week.csv").click()
    page.wait_for_selector("#plan button.main:enabled")
    assert page.locator("#plan .error").count() == 0
    page.locator("#plan .bar input[type=number]").fill("-1")
    page.wait_for_selector("#plan .field .error")
    assert page.get_attribute("#plan .bar input[type=number]", "aria-invalid") == "true"
    assert page.is_disabled("#plan button.main")
    page.locator("#plan .bar input[type=number]").fill("1")
    page.wait_for_selector("#plan button.main:enabled")
    assert page.locator("#plan .field .error").count() == 0
    give(page, "plan", "numbers.csv", b"v\n" + b"\n".join(b"%d" % (n * 7 % 50) for n in range(50)))
    told = "() => document.querySelector('#plan').innerText.includes('50 different numbers from 0 to 49')"
    page.wait_for_function(told)
    page.get_by_label("Bins, where the column holds numbers").locator("visible=true").fill("0,20,40")
    page.keyboard.press("Tab")
    page.wait_for_selector("#plan .headline .error")
    assert "is not a number from 0 to 40" in page.inner_text("#plan .headline .error")
    page.get_by_label("Bins, where the column holds numbers").locator("visible=true").fill("0,25,50")
    page.keyboard.press("Tab")
    page.wait_for_selector("#plan tr.best")


def test_every_room_marks_the_field_that_is_wrong(page: Any) -> None:
    """Beside the field, in the words of the page, and never by an option of the command line."""
    wrong = {
        "leakage": ("How many records", "-5", "length is -5; it must be a whole number"),
        "streams": ("DP ε of each step", "0.1,x", "losses are “0.1,x”; they must be numbers above 0"),
        "audit": ("How many records", "0", "length is 0; it must be a whole number"),
    }
    for tab, (label, value, words) in wrong.items():
        enter(page, tab)
        page.locator(f"#{tab}").get_by_label(label, exact=True).fill(value)
        page.keyboard.press("Tab")
        if tab == "audit":
            page.click("#audit button.main")
        page.wait_for_selector(f"#{tab} .field .error")
        assert words in page.inner_text(f"#{tab} .field .error")
    page.click("#tab-plan")
    page.get_by_label("Charge it to").locator("visible=true").select_option("tiny")
    page.click("#plan button.main")
    page.wait_for_selector("#plan .error")
    refused = page.inner_text("#plan .error")
    assert "would fit, as with ε = 0.0" in refused and "--" not in refused


def test_long_work_can_be_cancelled(page: Any) -> None:
    page.get_by_label("What is published?").select_option("sum")  # the best noise for it takes seconds to find
    page.wait_for_function("() => document.querySelector('#plan .code').textContent.includes('--query sum')")
    page.click("#plan button.main")
    page.get_by_text("Cancel", exact=True).locator("visible=true").click()
    page.wait_for_function("() => document.querySelector('#plan').innerText.includes('Cancelled.')")
    page.get_by_label("What is published?").select_option("histogram")
    page.click("#plan button.main")
    page.wait_for_selector("#plan .downloads")


SIZES = [(1280, 800, "light"), (390, 844, "dark"), (640, 450, "light")]


@pytest.mark.parametrize(("width", "height", "scheme"), SIZES)
def test_every_room_fits_and_axe_finds_nothing(page: Any, width: int, height: int, scheme: str, pictures: Path) -> None:
    """On a desk and on a telephone, in light and dark; half a window is what a zoom of 200 % leaves."""
    sync_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")
    axe = sync_playwright.Axe()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    rows = page.evaluate("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.offsetTop)")
    assert len(set(rows)) == 1  # the room buttons stand in one row
    for tab in TABS:
        enter(page, tab)
        for closed in page.locator(f"#{tab} details").all():
            closed.evaluate("it => it.open = true")
        page.wait_for_timeout(100)
        wide, inner = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= inner, tab
        assert page.evaluate(CUT_OFF, tab) == [], tab
        assert page.evaluate(CUT_WORDS, tab) == [], tab
        where = None if tab == "plan" else {"include": [f"#{tab}"]}  # the frame of the page once
        options = {"resultTypes": ["violations"]}
        found = axe.run(page, context=where, options=options).response["violations"]
        assert [(one["id"], [n["target"] for n in one["nodes"]][:3]) for one in found] == [], tab
        page.screenshot(path=pictures / f"{tab}-{width}-{scheme}.png", full_page=True)


CUT_OFF = """(tab) => {
  const over = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
  const scrolls = (node) => node && (over(node) || scrolls(node.parentElement));
  return [...document.querySelectorAll(`#${tab} *`)]
    .filter((node) => node.checkVisibility() && !node.closest(".unseen") && !scrolls(node.parentElement))
    .filter((node) => node.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map((node) => node.outerHTML.slice(0, 80));
}"""
"""What sticks out of the window on the right and cannot be scrolled to."""
CUT_WORDS = """(tab) => [...document.querySelectorAll(`#${tab} .chart svg`)].flatMap((svg) => {
  const room = svg.getBoundingClientRect();
  const out = (at) => at.width && (at.right > room.right + 2 || at.left < room.left - 2 || at.top < room.top - 2);
  const words = [...svg.querySelectorAll("text")];
  return words.filter((text) => out(text.getBoundingClientRect())).map((text) => text.textContent);
})"""
"""Words of charts that stick out of them."""


def test_a_table_is_released_and_charged(page: Any, served: Served, pictures: Path) -> None:
    enter(page, "tables")
    page.check("#question-transitions")
    page.get_by_label("share of: How often each state occurs").fill("3")
    page.keyboard.press("Tab")
    page.wait_for_function("() => document.querySelector('#tables .shown').innerText.includes('75 %')")
    page.locator("#tables").get_by_label("Charge it to").select_option("ward")
    page.click("#tables button.main")
    page.wait_for_selector("#tables .downloads")
    assert "Charged to ward" in page.inner_text("#tables .charged")
    assert str(served.ledger.parent) in page.inner_text("#tables .kept")
    page.wait_for_selector("#tables figure svg")
    page.screenshot(path=pictures / "tables-released.png")
    with page.expect_download() as held:
        page.click("#tables .downloads a:has-text('Table (CSV)')")
    assert len(Path(held.value.path()).read_text().splitlines()) == 8


def test_a_series_is_flipped_and_estimated(page: Any, pictures: Path) -> None:
    enter(page, "flips")
    page.click("#flips button.main")
    page.get_by_text("Estimate the true shares from it").click()
    page.wait_for_selector("#flips .tells > section:last-child .downloads")
    assert "2,016 records" in page.inner_text("#flips .tells > section:last-child")
    give(page, "flips", "c.json", b"{}", 3)
    page.wait_for_selector("#flips .tells > section:last-child .error")
    page.screenshot(path=pictures / "flips-estimated.png", full_page=True)


def test_a_room_begins_with_its_verdict(page: Any) -> None:
    """May one publish it, and with what error? Every plan says so first, as the command line does."""
    enter(page, "tables")
    assert "of a group" in page.inner_text("#tables .answer .verdict")
    enter(page, "flows")
    assert page.inner_text("#flows .answer .verdict").startswith(("Accurate enough", "Not useful"))


def test_charts_are_drawn_anew_for_a_narrower_window(page: Any) -> None:
    """Letters that shrink with the window cannot be read."""
    page.wait_for_selector("#plan .chart svg")
    page.set_viewport_size({"width": 390, "height": 844})
    letters = "document.querySelector('#plan .chart svg text').getBoundingClientRect().height"
    page.wait_for_function(f"() => {letters} >= 11")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function("() => document.querySelector('#plan .chart svg').getBoundingClientRect().width > 700")


def test_a_mechanism_is_attacked(page: Any, pictures: Path) -> None:
    enter(page, "audit")
    assert page.locator("#audit .code").is_hidden()  # there is nothing to copy yet
    page.locator("#audit").get_by_label("DP ε that it claims").fill("-1")
    page.click("#audit button.main")
    page.wait_for_selector("#audit .field .error")
    page.locator("#audit").get_by_label("DP ε that it claims").fill("1")
    page.click("#audit button.main")
    page.wait_for_selector("#audit .downloads")
    assert "at least" in page.inner_text("#audit .shown")
    page.screenshot(path=pictures / "audit-done.png", full_page=True)


def test_times_can_be_hidden(page: Any) -> None:
    enter(page, "redact")
    page.get_by_label("Hide these times, too").fill("2024-01-01 00:10..2024-01-01 00:20")
    page.keyboard.press("Tab")
    page.wait_for_selector("#record-4.private")
    assert "row 3, 4, 5, 100" in page.inner_text("#redact")
    page.get_by_label("Hide these times, too").fill("1999-01-01")
    page.keyboard.press("Tab")
    page.wait_for_selector("#redact .field .error")
    assert page.is_disabled("#redact button.main")


def test_a_model_of_ones_own_is_in_every_room(page: Any) -> None:
    model = b'{"type": "markov_chain", "transition": [[0.6, 0.4], [0.3, 0.7]], "states": ["low", "high"]}'
    page.click("#plan summary:has-text('Use a model file')")
    give(page, "plan", "mine.json", model, 1)
    page.wait_for_selector("#plan option:has-text('mine.json')", state="attached")
    for tab in [tab for tab in TABS if tab != "ledger"]:
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f"#{tab} option:has-text('mine.json')", state="attached")
    page.click("#tab-leakage")
    page.locator("#leakage").get_by_label("Model", exact=True).select_option(label="mine.json")
    page.wait_for_function("() => document.querySelector('#leakage .code').textContent.includes('mine.json')")


def test_the_certificate_is_the_one_that_verifies(page: Any) -> None:
    page.click("#plan button.main")
    page.wait_for_selector("#plan .downloads")
    assert "Not charged to any ledger" in page.inner_text("#plan .charged")
    shown = json.loads(page.text_content("#plan details pre:not([aria-label])"))
    assert pufferdp.verify(shown).valid
