"""Conditions that are matched to another run of their cell by its condition, and sweeps that are begun again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planned import plans_of, records

from bcrbench.cli.main import main
from bcrbench.conditions import parse
from bcrbench.errors import UserError
from bcrbench.runs.log import read_outcomes
from bcrbench.runs.matching import Finished, condition_in
from bcrbench.sweep.executors.order import needs
from bcrbench.sweep.grid import expand


@pytest.mark.parametrize(
    ("match", "named"),
    [
        ("reuse:kvcomm", "kvcomm"),
        ("reuse:bcr-chunk:gamma=1.0+B=8", "bcr-chunk:gamma=1.0,B=8"),
        ("reuse:0.5", None),
        ("cost", None),
        ("reuse:", None),
        ("", None),
    ],
)
def test_a_match_may_name_a_condition_with_plus_for_its_commas(match: str, named: str | None) -> None:
    assert condition_in(match) == named


@pytest.mark.parametrize("kind", ["cacheblend:gamma=1.0,", "random:gamma=0.3,"])
def test_the_condition_stays_as_it_was_typed_until_it_is_resolved(kind: str) -> None:
    text = parse(f"{kind}match=reuse:bcr-chunk:gamma=0.3+B=8").text
    assert text.endswith("match=reuse:bcr-chunk:gamma=0.3+B=8") and parse(text).text == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cacheblend:match=reuse:bcr-chonk", "unknown condition 'bcr-chonk' (did you mean 'bcr-chunk'?)"),
        ("cacheblend:match=reuse:kvcomm:gamma=7", "gamma=7: expected 0.0 to 1.0"),
        ("cacheblend:match=reuse:missing.jsonl", "reuse:LOG with a file"),
        ("cacheblend:match=reuse:cacheblend:match=reuse:0.5", "itself matched to another"),
        ("random:match=reuse:kvcom", "unknown condition 'kvcom' (did you mean 'kvcomm'?)"),
        ("random:match=cost", "expected a reuse rate from 0 to 1, or reuse:CONDITION"),
    ],
)
def test_a_wrong_match_is_told(text: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert told in str(caught.value)


class Logs(Finished):
    """Finished runs that say what they were asked."""

    def of_condition(self, text: str) -> Any:
        from bcrbench.runs.matching import Reuse

        return {"bcr-chunk:gamma=0.3,B=8": Reuse(1, 4)}[text]

    def of_policy(self, name: str, gamma: float, alike: Any = None) -> Any:
        from bcrbench.runs.matching import Reuse

        return Reuse(4, 8)


def test_cacheblend_spends_what_the_named_run_did_not_reuse() -> None:
    policy: Any = parse("cacheblend:gamma=1.0,match=reuse:bcr-chunk:B=8").policy.resolve(Logs(Path(), {}))
    assert (policy.budget(), policy.match) == (0.75, "reuse:0.25")
    coin: Any = parse("random:match=reuse:bcr-chunk:B=8").policy.resolve(Logs(Path(), {}))
    plain: Any = parse("random:match=0.25").policy.resolve(Logs(Path(), {}))
    assert coin == plain


def test_a_run_waits_for_the_one_that_it_names_and_for_no_other(tmp_path: Path) -> None:
    named = "bcr-chunk:gamma=0.3,B=8"
    conditions = ["cacheblend:match=reuse:bcr-chunk:gamma=0.3+B=8", named, "bcr-chunk:gamma=0.3", "dense"]
    assert needs(plans_of(tmp_path, *conditions)) == [{1}, set(), set(), set()]


RECIPE = """
settings: {model: random:tiny, limit: 3, max_new_tokens: 4, twins: false}
cells:
  - {task: quotes, agents: [1, 2]}
  - {task: copymachine, data: symbols=8, agents: 1}
conditions:
  - random:gamma=1.0,match=reuse:protect-root:gamma=1.0
  - protect-root:gamma=1.0
  - kvcomm:gamma=1.0
  - dense
"""


def sweep(recipe: Path, out: Path) -> dict[str, list[Any]]:
    """The logs that a sweep leaves, without times."""
    with pytest.raises(SystemExit) as stop:
        main(["sweep", str(recipe), "--out", str(out)])
    assert stop.value.code == 0
    return {path.name: records(path) for path in sorted(out.glob("*.jsonl"))}


def test_a_recipe_of_several_cells_and_tasks_goes_on_after_a_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE)
    whole = sweep(recipe, tmp_path / "whole")
    assert len(whole) == 12
    order = [plan.spec.text.partition(":")[0] for plan in expand(str(recipe), [], {})]
    assert order[:3] + order[9:] == ["dense"] * 3 + ["random"] * 3, "over all cells"
    assert set(order[3:9]) == {"kvcomm", "protect-root"}, "which others are matched to"
    capsys.readouterr()
    assert sweep(recipe, tmp_path / "whole") == whole
    assert capsys.readouterr().err.count("nothing to do") == 12, "complete runs are skipped"

    for number, path in enumerate(sorted((tmp_path / "whole").glob("*.jsonl"))):
        lines = path.read_text().splitlines(keepends=True)
        if number % 3 == 0:
            path.unlink()
        elif number % 3 == 1:
            path.write_text("".join(lines[:2]) + lines[2][:40])  # killed while it wrote its second item
    assert sweep(recipe, tmp_path / "whole") == whole


def test_the_named_run_must_be_complete_and_of_this_cell(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE.replace("agents: [1, 2]", "agents: 2").replace("  - {task: copymachine", "  # - {"))
    sweep(recipe, tmp_path / "out")
    [path] = (tmp_path / "out").glob("quotes.kvcomm*.jsonl")
    cell = read_outcomes(path).run.cell
    text = "kvcomm:gamma=1.0"
    assert Finished(tmp_path / "out", cell).of_condition(text).calls == 9
    for folder, facts, other in ((tmp_path, cell, text), (tmp_path / "out", {}, text), (tmp_path / "out", cell, "kv")):
        with pytest.raises(UserError, match="run that condition first"):
            Finished(folder, facts).of_condition(other)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(UserError, match="run that condition first"):
        Finished(tmp_path / "out", cell).of_condition(text)
