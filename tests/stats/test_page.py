"""The report page without a browser: what it says, that it asks for nothing, and that no text of a log is markup."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import hostile
import pytest
from figurelogs import cell_of, dense_items, reusing_items, served, write_probe
from hypothesis import given, settings
from hypothesis import strategies as st
from loglines import item_record, write_log
from pages import Parsed, hostile_logs, make_page

from bcrbench.errors import UserError
from bcrbench.runs.log import read_log
from bcrbench.runs.schema import GradeRecord
from bcrbench.stats.page.drawn import drawn, scale
from bcrbench.stats.page.embed import policy_hash, to_json
from bcrbench.stats.page.items import HEAD, TAIL, Strings, browser, cut
from bcrbench.stats.page.lines import find_items, read_item
from bcrbench.stats.page.show import check_targets
from bcrbench.stats.page.svg import clean
from bcrbench.whole_file import write_whole

FETCHING = {"src", "href", "xlink:href", "srcset", "action", "formaction", "data", "poster", "background", "ping"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("logs")
    dense, reused = [True] * 20, [k % 3 > 0 for k in range(20)]
    return [
        write_log(folder / "d.jsonl", "dense", dense, made=dense_items(dense)),
        write_log(folder / "k.jsonl", "kvcomm:gamma=1.0", reused, made=reusing_items(reused, first=5),
                  status="cancelled",
                  items={"limit": 20, "total": 300}, code={"commit": "c0ffee", "dirty": True}),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def page(logs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    return make_page([*logs, write_probe(folder / "p.jsonl")], folder / "report.html")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hostile")
    return make_page(hostile_logs(folder), folder / "report.html")


def test_the_page_asks_for_nothing(page: str, attacked: str) -> None:
    for text in (page, attacked):
        parsed = Parsed(text)
        for tag, facts in parsed.tags:
            assert tag not in {
                "link",
                "iframe",
                "object",
                "embed",
                "img",
                "base",
                "audio",
                "video",
                "image",
                "foreignobject",
            }
            assert all(facts[name][:1] == "#" for name in FETCHING & facts.keys()), (tag, facts)
            assert not any(name.startswith("on") or name == "style" for name in facts), (tag, facts)
        css = "".join(body for tag, _, body in parsed.bodies if tag == "style")
        assert not re.search(r"@import|url\(", css)


def test_the_policy_lets_exactly_the_page_s_own_style_and_script_run(page: str, attacked: str) -> None:
    for text in (page, attacked):
        parsed = Parsed(text)
        (policy,) = [
            facts["content"] for tag, facts in parsed.tags if facts.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        bodies = {tag: body for tag, facts, body in parsed.bodies if facts.get("type") != "application/json"}
        assert f"script-src {policy_hash(bodies['script'])}" in policy
        assert f"style-src {policy_hash(bodies['style'])}" in policy
        assert [tag for tag, _, _ in parsed.bodies].count("script") == 2


def test_hostile_text_stays_text(page: str, attacked: str) -> None:
    mine, theirs = Parsed(page), Parsed(attacked)
    assert {tag for tag, _ in theirs.tags} <= {tag for tag, _ in mine.tags}
    assert "window.hit=1" in theirs.text
    assert not set("\u202e\u2067\u0000\u001b\u2028") & set(attacked)
    strings = theirs.data()["strings"]
    for text in hostile.ALL:
        assert text in strings
    assert [hostile.LONG[:HEAD], len(hostile.LONG) - HEAD - TAIL, hostile.LONG[-TAIL:]] in strings


def test_numbers_and_notes_are_those_of_the_statistics(page: str) -> None:
    text = " ".join(Parsed(page).text.split())
    assert "kvcomm:gamma=1.0" in text
    assert "13/20" in text  # solved
    assert "7/0" in text  # b/c
    assert "0.016" in text  # 2 / 2 ** 7
    assert "-35.0" in text
    assert text.count("cancelled 20 of 300 items") == 2  # beside the condition in both tables
    assert "only 7 discordant pairs" in text
    assert "c0ffee" in text
    assert "Unit of choice, n = 3 prompts" in text
    assert "figure budget is not drawn" in text


def test_paired_columns_give_the_split_first_then_p_then_the_difference(page: str) -> None:
    heads = [name for name in re.findall(r'<th scope="col">([^<]*)', page) if name]
    start = heads.index("b/c")
    assert heads[start : start + 3] == ["b/c", "p", "difference, points"]


def test_every_call_is_in_the_page_as_it_is_in_the_log(page: str, logs: list[Path]) -> None:
    data = Parsed(page).data()
    (cell,) = data["cells"]
    strings, fields = data["strings"], data["fields"]
    for arm, path in enumerate(logs):
        for item in read_log(path).items:
            shown = dict(zip(fields["item"], cell["details"][str(cell["ids"].index(item.id))][arm], strict=True))
            assert strings[shown["text"]] == item.text
            assert strings[shown["gold"]] == item.gold
            for call, values in zip(item.calls, shown["calls"], strict=True):
                seen = dict(zip(fields["call"], values, strict=True))
                assert strings[seen["agent"]] == call.agent
                assert strings[seen["text"]] == call.text
                assert seen["prompt_tokens"] == call.prompt_tokens
                assert [gate[3] for gate in seen["gate"]] == [gate.available for gate in call.gate]


def test_the_page_is_the_same_every_time(page: str, logs: list[Path], tmp_path: Path) -> None:
    again = make_page([*logs, write_probe(tmp_path / "p.jsonl")], tmp_path / "other.html")
    assert re.sub(r"\S*p\.jsonl", "", again) == re.sub(r"\S*p\.jsonl", "", page)


def test_cells_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [
        write_log(tmp_path / f"{k}.jsonl", "dense", [True] * 3, cell={"items": f"set{k}"}, items={"hash": f"set{k}"})
        for k in range(2)
    ]
    page = make_page(paths, tmp_path / "r.html")
    names = [cell["name"] for cell in Parsed(page).data()["cells"]]
    assert names == [f"quotes, bundled, 3 agents, items set{k}" for k in range(2)]


def test_later_grades_are_shown_beside_the_runs_own(tmp_path: Path) -> None:
    grade = GradeRecord(id="q1", grader="strict", grader_version=2, prediction="7", outcome="wrong")
    path = write_log(tmp_path / "d.jsonl", "dense", [True, True], grades=[grade])
    found = browser([cell_of([path])]).data
    strings, (cell,) = found["strings"], found["cells"]
    (name, version, prediction, outcome) = cell["details"]["1"][0][-1][0]
    assert (strings[name], version, strings[prediction], strings[outcome]) == ("strict", 2, "7", "wrong")
    assert cell["details"]["0"][0][-1] == []


def test_what_has_no_room_is_said_and_discordant_items_come_first(tmp_path: Path) -> None:
    reused = [k % 4 > 0 for k in range(20)]  # five discordant
    cell = cell_of([
        write_log(tmp_path / "d.jsonl", "dense", [True] * 20, made=dense_items([True] * 20)),
        write_log(tmp_path / "k.jsonl", "kvcomm:gamma=1.0", reused, made=reusing_items(reused)),
    ])  # fmt: skip
    whole = browser([cell])
    assert whole.told == ""
    size = len(to_json(whole.data))
    half = browser([cell], budget=size // 2)
    kept = {int(key) for key in half.data["cells"][0]["details"]}
    assert {0, 4, 8, 12, 16} < kept < set(range(20))
    assert f"{len(kept)} of 20 items" in half.told
    assert "(5 of 5)" in half.told
    assert len(to_json(half.data)) < 0.6 * size
    assert half.data["cells"][0]["outcomes"] == whole.data["cells"][0]["outcomes"]
    none = browser([cell], budget=0)
    assert none.data["cells"][0]["details"] == {}
    assert "(0 of 5)" in none.told


def test_a_text_that_many_items_share_is_kept_once(tmp_path: Path) -> None:
    rng = random.Random(0)
    same = "the same answer " * 400
    made = [item_record(k, "correct", rng, text=same, calls=[served(rng, "1", False, text=same)]) for k in range(30)]
    page = make_page([write_log(tmp_path / "d.jsonl", "dense", [True] * 30, made=made)], tmp_path / "r.html")
    assert page.count(same) == 1


@given(st.text(max_size=200))
def test_a_short_string_comes_back_whole(text: str) -> None:
    assert cut(text) == text
    data = to_json([text])
    assert json.loads(data) == [text]
    assert not set(b"<>&") & set(data)
    assert not {"\u2028", "\u2029"} & set(data.decode())


@given(st.lists(st.text(max_size=30), max_size=20), st.lists(st.text(max_size=30), max_size=20))
def test_forgotten_strings_leave_no_trace(first: list[str], second: list[str]) -> None:
    strings, plain = Strings(), Strings()
    for text in first:
        strings.put(text)
        plain.put(text)
    count = len(strings.kept)
    for text in second:
        strings.put(text)
    strings.forget(count)
    assert (strings.kept, strings.bytes) == (plain.kept, plain.bytes)
    assert [strings.put(text) for text in first + second] == [plain.put(text) for text in first + second]
    assert (strings.kept, strings.bytes) == (plain.kept, plain.bytes)
    assert strings.put(None) == -1


def test_a_line_is_found_again_and_a_changed_file_is_told(tmp_path: Path) -> None:
    path = write_log(tmp_path / "k.jsonl", "kvcomm:gamma=1.0", [True, False, True])
    spots = find_items(path)
    assert {name: read_item(path, spot) for name, spot in spots.items()} == {
        item.id: item for item in read_log(path).items
    }
    path.write_bytes(b"x" + path.read_bytes())
    with pytest.raises(UserError, match="k.jsonl: at byte"):
        read_item(path, spots["q1"])


def test_a_torn_log_has_a_page_that_says_so(tmp_path: Path) -> None:
    path = write_log(tmp_path / "k.jsonl", "kvcomm:gamma=1.0", [True, False, True], status=None)
    path.write_bytes(path.read_bytes()[:-9])
    parsed = Parsed(make_page([path], tmp_path / "r.html"))
    assert parsed.data()["cells"][0]["ids"] == ["q0", "q1"]
    assert "a torn last line was left out" in parsed.text
    assert "killed" in parsed.text


HOSTILE_SVG = b"""<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9.123456 9"
 onload="x()">
<script>x()</script><style>@import url(http://x.invalid/)</style><image href="http://x.invalid/a.png"/>
<foreignObject><p>x</p></foreignObject><a href="javascript:x()"><text>inside</text></a>
<defs><path id="m" d="M0 0"/><path id="unused" d="M1 1"/></defs>
<use xlink:href="#m" x="1" style="fill: #202428; background: url(http://x.invalid/); position: fixed"/><use href="http://x.invalid/#m"/>
<text style="font: 9px 'DejaVu Sans'; text-anchor: middle" onclick="x()">a &lt;b&gt;</text></svg>"""


def test_only_shapes_and_text_of_a_drawing_are_kept() -> None:
    made = clean(HOSTILE_SVG, "f1-", 'a "label" <b>')
    assert not re.search(r"script|style|image|foreign|javascript|invalid|onload|onclick|unused|position", made)
    assert 'id="f1-m"' in made
    assert 'href="#f1-m"' in made
    assert 'fill="currentColor"' in made
    assert 'font-size="9px"' in made
    assert "a &lt;b&gt;" in made
    assert 'viewBox="0 0 9.12 9"' in made
    assert "&lt;b&gt;" in made.partition(">")[0]


finite = st.floats(-100, 100)


@settings(max_examples=200)
@given(st.lists(finite, min_size=1, max_size=8), finite, finite)
def test_every_value_lies_on_its_scale(values: list[float], low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    on = scale([*values, low, high])
    found = drawn(on, low, high, (low + high) / 2, values[0])
    assert 0 <= found.low <= found.at <= found.high <= 100
    assert found.line is not None
    assert 0 <= found.line <= 100


def test_places_that_a_page_may_not_take(tmp_path: Path, logs: list[Path]) -> None:
    for html, plot, told in (
        (tmp_path, None, "is a folder"),
        (logs[0], None, "is one of the logs"),
        (None, logs[0], "is a file"),
    ):
        with pytest.raises(UserError, match=told):
            check_targets(logs, html, plot)
    check_targets(logs, tmp_path / "new" / "report.html", tmp_path / "figures")


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "deep" / "report.html"
    write_whole(target, b"one", "--html")
    assert target.read_bytes() == b"one"
    assert target.stat().st_mode & 0o777 == 0o666 & ~_mask()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match="No space left"):
        write_whole(target, b"two", "--html")
    assert [path.read_bytes() for path in target.parent.iterdir()] == [b"one"]


def _mask() -> int:
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_page_of_a_probe_alone_and_of_an_empty_run(tmp_path: Path) -> None:
    alone = Parsed(make_page([write_probe(tmp_path / "p.jsonl")], tmp_path / "a.html"))
    assert "Unit of choice" in alone.text
    assert not [facts for _, facts in alone.tags if facts.get("id") == "data"]
    empty = make_page([write_log(tmp_path / "e.jsonl", "dense", [], status=None)], tmp_path / "b.html")
    assert "killed" in Parsed(empty).text


@settings(max_examples=40, deadline=None)
@given(ids=st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=4, unique=True))
def test_items_are_found_whatever_their_ids_and_the_order_of_their_keys(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str]
) -> None:
    rng = random.Random(0)
    made = [item_record(k, "wrong", rng, 1, id=name) for k, name in enumerate(ids)]
    path = write_log(tmp_path_factory.mktemp("log") / "x.jsonl", "dense", [], made=made)
    turned = path.with_name("turned.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    turned.write_text("".join(json.dumps(dict(reversed(line.items()))) + "\n" for line in lines), encoding="utf-8")
    for log in (path, turned):
        spots = find_items(log)
        assert list(spots) == ids
        assert [read_item(log, spots[name]) for name in ids] == made
