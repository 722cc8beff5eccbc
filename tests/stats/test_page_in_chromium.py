"""The report page in a real browser: it opens, filters, shows items, stays quiet, and obeys no text of a log."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hostile
import pytest
from figurelogs import dense_items, reusing_items, served
from loglines import item_record, write_log
from pages import hostile_logs, make_page
from webdriver import BROWSER, MISSING, Chromium

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{' and '.join(MISSING)} not found (Debian: apt-get install chromium chromium-driver)"
)

TOPS = "return [...document.querySelectorAll('.call .side')].slice(0, 2).map(s => s.getBoundingClientRect().top)"
LISTED = "return [...document.querySelectorAll('#list button[data-item]')].map(b => b.textContent)"
CHOOSE = """
const [id, value] = arguments, node = document.getElementById(id);
node.value = value;
node.dispatchEvent(new Event('change'));
"""
SEARCH = "const s = document.getElementById('search'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with started(1200, 900) as browser:
        yield browser


def started(width: int, height: int) -> Chromium:
    """A browser; without one that starts (versions that do not fit, no sandbox) the test is skipped and says so."""
    try:
        return Chromium(width, height)
    except RuntimeError as error:
        pytest.skip(f"{BROWSER} does not start: {error}")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dense solves all, A three of four, B all but the last; so A and B disagree on 0, 4, 8 and 9."""
    folder = tmp_path_factory.mktemp("plain")
    one, two = [k % 4 > 0 for k in range(10)], [k < 9 for k in range(10)]
    paths = [
        write_log(folder / "d.jsonl", "dense", [True] * 10, made=dense_items([True] * 10)),
        write_log(folder / "a.jsonl", "kvcomm:gamma=0.3", one, made=reusing_items(one)),
        write_log(folder / "b.jsonl", "kvcomm:gamma=1.0", two, made=reusing_items(two, first=5)),
    ]
    make_page(paths, folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    make_page(hostile_logs(folder), folder / "report.html")
    return folder / "report.html"


def opened(browser: Chromium, page: Path) -> Chromium:
    browser.log("performance")
    browser.log("browser")
    browser.open(page.as_uri())
    assert browser.run("return document.documentElement.dataset.ready") == "true"
    return browser


def quiet(browser: Chromium, page: Path) -> None:
    """No console message, no request but for the page itself, no dialog, no script of the log's."""
    assert browser.log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert set(asked) == {page.as_uri()}
    assert browser.run("return window.hit === undefined")


def listed(browser: Chromium, **chosen: Any) -> list[str]:
    for name, value in chosen.items():
        browser.run(CHOOSE, name, str(value))
    return [text.partition("A ")[0] for text in browser.run(LISTED)]


def test_it_opens_on_the_discordant_items_and_shows_the_first(chromium: Chromium, plain: Path) -> None:
    browser = opened(chromium, plain)
    assert listed(browser) == ["q0", "q4", "q8"]
    assert browser.run("return document.getElementById('count').textContent") == "3 of 10 items"
    assert "Item q0" in browser.run("return document.getElementById('item').textContent")
    assert browser.run("return document.querySelectorAll('svg.plot').length") >= 5
    quiet(browser, plain)


def test_filters_and_conditions(chromium: Chromium, plain: Path) -> None:
    browser = opened(chromium, plain)
    assert listed(browser, one=1, two=2) == ["q0", "q4", "q8", "q9"]
    assert listed(browser, filter="b") == ["q9"]
    assert listed(browser, filter="c") == ["q0", "q4", "q8"]
    assert listed(browser, filter="neither") == []
    assert listed(browser, filter="both") == ["q1", "q2", "q3", "q5", "q6", "q7"]
    assert listed(browser, filter="all") == [f"q{k}" for k in range(10)]
    browser.run(SEARCH, "Q7")
    browser.run("return new Promise(done => setTimeout(done, 300))")
    assert listed(browser) == ["q7"]
    quiet(browser, plain)


def test_an_item_s_calls_stand_side_by_side(chromium: Chromium, plain: Path) -> None:
    browser = opened(chromium, plain)
    browser.run("document.querySelector('#list button[data-item=\"4\"]').click()")
    shown = browser.run("return document.getElementById('item').textContent")
    for told in (
        "Item q4",
        "Agent 1",
        "Agent 2",
        "dense",
        "reuse",
        "question",
        "cached 99",
        "first token",
        "no rows repaired",
    ):
        assert told in shown
    assert browser.run("return document.querySelector('#list [aria-current]').dataset.item") == "4"
    sides = browser.run("return [...document.querySelectorAll('.call')].map(c => c.querySelectorAll('.side').length)")
    assert sides == [2, 2]
    marks = browser.run(
        "return [...document.querySelectorAll('.call .text')].slice(0, 2).map(t => t.querySelectorAll('mark').length)"
    )
    assert all(marks)  # different texts, and what differs is marked on both sides
    tops = browser.run(TOPS)
    assert tops[0] == tops[1]
    quiet(browser, plain)


def test_words_that_differ_are_marked_and_no_others(chromium: Chromium, tmp_path: Path) -> None:
    texts = {"dense": "one two three, four\n#### 7", "kvcomm:gamma=1.0": "one 2 three, four five\n#### 8"}
    paths: list[Path] = []
    for name, text in texts.items():
        calls = [served(random.Random(0), "1", False, text=text)]
        made = [item_record(0, "correct" if name == "dense" else "wrong", random.Random(0), text=text, calls=calls)]
        paths.append(write_log(tmp_path / f"{len(paths)}.jsonl", name, [True], made=made))
    make_page(paths, tmp_path / "r.html")
    browser = opened(chromium, tmp_path / "r.html")
    marks = browser.run(
        "return [...document.querySelectorAll('.call .text')]"
        ".map(t => [...t.querySelectorAll('mark')].map(m => m.textContent))"
    )
    assert marks == [["two", "7"], ["2", " five", "8"]]
    shown = browser.run("return [...document.querySelectorAll('.call .text')].map(t => t.textContent)")
    assert shown == list(texts.values())


def test_hostile_texts_are_inert(chromium: Chromium, attacked: Path) -> None:
    browser = opened(chromium, attacked)
    assert len(listed(browser, filter="all")) == 5
    for k, text in enumerate(hostile.ALL):
        browser.run(f"document.querySelector('#list button[data-item=\"{k}\"]').click()")
        shown = browser.run("return document.getElementById('item').textContent")
        assert text.partition("\u2028")[0].partition("\u202e")[0] in shown
    assert "U+202E" in browser.run("return document.getElementById('item').textContent")
    assert (
        browser.run(
            "return document.querySelectorAll('main script, main img, main a[href^=java], [onload], [onerror]').length"
        )
        == 0
    )
    # Nothing of a log, once shown, holds a character that reorders or hides text.
    assert (
        browser.run(
            "return /[\\u202a-\\u202e\\u2066-\\u2069\\u0000\\u001b]/.test(document.querySelector('main').textContent)"
        )
        is False
    )
    quiet(browser, attacked)


def test_repaired_spans_lie_on_the_prompt_s_positions(chromium: Chromium, attacked: Path) -> None:
    browser = opened(chromium, attacked)
    spans = browser.run(
        "return [...document.querySelector('.strip').querySelectorAll('.chosen')]"
        ".map(r => ['x', 'width'].map(n => +r.getAttribute(n)))"
    )
    assert spans == [[8, 8], [40, 8]]
    assert browser.run("return document.querySelector('.strip').getAttribute('viewBox')") == "0 0 100 10"


def test_a_megabyte_of_text_is_cut_and_its_length_told(chromium: Chromium, attacked: Path) -> None:
    browser = opened(chromium, attacked)
    browser.run("document.querySelector('#list button[data-item=\"4\"]').click()")
    assert f"{len(hostile.LONG):,} characters" in browser.run("return document.getElementById('item').textContent")
    assert browser.run("return document.querySelector('#item .text').textContent.length") < 10_000
    browser.run("document.querySelector('#item .cut button').click()")
    whole = browser.run("return document.querySelector('#item .text').textContent")
    assert whole.endswith("THE VERY END")
    assert "characters are not in this page" in whole
    quiet(browser, attacked)


def test_it_fits_a_phone_and_stacks_the_two_sides(plain: Path, attacked: Path) -> None:
    with started(390, 800) as browser:
        for page in (plain, attacked):
            opened(browser, page)
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
            tops = browser.run(TOPS)
            assert tops[0] < tops[1]


@pytest.mark.parametrize("width", [710, 800, 1000])
def test_tables_fit_a_tablet_and_paper(chromium: Chromium, plain: Path, width: int) -> None:
    browser = opened(chromium, plain)
    browser.command("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    for media in ("screen", "print"):
        browser.command("Emulation.setEmulatedMedia", media=media, features=[])
        assert browser.run("return [document.documentElement.scrollWidth, innerWidth]") == [width, width]
    browser.command("Emulation.setEmulatedMedia", media="", features=[])
    browser.command("Emulation.clearDeviceMetricsOverride")


def test_it_prints_without_controls_and_follows_a_dark_theme(chromium: Chromium, plain: Path) -> None:
    browser = opened(chromium, plain)
    shade = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(shade)
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert browser.run(shade) != light
    browser.command("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.run("return getComputedStyle(document.getElementById('controls')).display") == "none"
    assert browser.run(shade) == "rgb(255, 255, 255)"
    browser.command("Emulation.setEmulatedMedia", media="", features=[])
