"""What is asked for beside the main table: each number through the method that defines it, and families declared."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from loglines import item_record, write_log

from bcrbench.cli.stats import stats
from bcrbench.errors import UserError
from bcrbench.stats.clustered import item_level, item_nets
from bcrbench.stats.omnibus import cochran_q
from bcrbench.stats.paired import mcnemar, mcnemar_midp
from bcrbench.stats.power import power
from bcrbench.stats.sequential import follow

N = 40
FLAGS = {
    (agents, name): [random.Random(f"{agents}{name}{k}").random() < share for k in range(N)]
    for agents in (2, 3, 4)
    for name, share in (("dense", 0.9), ("kvcomm:gamma=0.3", 0.6), ("kvcomm:gamma=1.0", 0.5))
}
LOW, HIGH = "kvcomm:gamma=0.3", "kvcomm:gamma=1.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for (agents, name), flags in FLAGS.items():
        write_log(tmp_path / f"{agents}{name[-3:]}.jsonl", name, flags, cell={"agents": agents}, agents=1)
    return tmp_path


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(stats, [str(argument) for argument in arguments], catch_exceptions=False)


def rows(*arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "--format", "json").stdout)
    return found


def splits(agents: int, name: str) -> tuple[int, int]:
    pairs = list(zip(FLAGS[agents, "dense"], FLAGS[agents, name], strict=True))
    return pairs.count((True, False)), pairs.count((False, True))


def test_mid_p_is_labelled_and_less_than_p(folder: Path) -> None:
    for row in rows(folder, "--paired"):
        if row["condition"] == "dense":
            assert row["mid_p"] is row["paired_se"] is row["difference"] is None
            continue
        assert row["mid_p"] == mcnemar_midp(row["b"], row["c"]) < row["p"]
        d = [int(one) - int(two) for one, two in zip(FLAGS[row["agents"], row["condition"]],
                                                     FLAGS[row["agents"], "dense"], strict=True)]  # fmt: skip
        mean = sum(d) / N
        assert row["difference"] == pytest.approx(mean)
        assert row["paired_se"] == pytest.approx((sum((x - mean) ** 2 for x in d) / (N - 1) / N) ** 0.5)
    assert "mid_p: McNemar's mid-p" in run(folder, "--paired").stderr
    assert "mid_p" not in run(folder).stdout


@pytest.mark.parametrize("correction", ["holm", "bonferroni"])
def test_the_family_is_every_test_of_the_report(folder: Path, correction: str) -> None:
    found = [row for row in rows(folder, "--family", correction) if row["p"] is not None]
    ps = sorted(row["p"] for row in found)
    assert len(ps) == 6
    expected, highest = {}, 0.0
    for rank, p in enumerate(ps):
        factor = 6 - rank if correction == "holm" else 6
        highest = max(highest, min(1.0, factor * p)) if correction == "holm" else min(1.0, factor * p)
        expected[p] = highest
    for row in found:
        assert row[f"p_{correction}"] == pytest.approx(expected[row["p"]])
    made = run(folder, "--family", correction)
    assert "over the family of all 6 tests in this report (0.30 false ones expected" in made.stderr
    assert f"p_{correction}" in made.stdout


def test_items_in_several_cells_are_tested_by_item(folder: Path) -> None:
    found = {row["condition"]: row for row in rows(folder, "--items-across-cells") if row.get("analysis")}
    assert found.keys() == {LOW, HIGH}
    for name, row in found.items():
        nets = item_nets([(FLAGS[agents, name], FLAGS[agents, "dense"]) for agents in (2, 3, 4)])
        tested = item_level(nets)
        assert (row["cells"], row["n"], row["net"], row["p"]) == (3, N, sum(nets), tested.p)
        assert (row["z"], row["wilcoxon_p"]) == (tested.durkalski.statistic, tested.wilcoxon.p)
        pooled = [sum(splits(agents, name)[side] for agents in (2, 3, 4)) for side in (0, 1)]
        assert [row["pooled_b"], row["pooled_c"]] == pooled and row["net"] == pooled[1] - pooled[0]
    out = run(folder, "--items-across-cells")
    assert "items across cells" in out.stdout and "sign-flip" in out.stderr


def test_orders_are_cells_of_their_own_and_their_items_are_tested_by_item(tmp_path: Path) -> None:
    for seed, agents in enumerate((2, 3, 4)):
        order = random.Random(seed).sample(range(N), N)
        for name in ("dense", LOW):
            rng, outcomes = random.Random(name), ["correct" if flag else "wrong" for flag in FLAGS[agents, name]]
            made = [item_record(at, outcomes[k], rng, 1, id=f"q{k}", item_hash=f"h{k}") for at, k in enumerate(order)]
            items = {"hash": f"set{seed}", "order": f"shuffle:{seed}" if seed else "task"}
            write_log(tmp_path / f"{seed}{name[:2]}.jsonl", name, outcomes, made=made, items=items,
                      cell={"items": f"set{seed}"})  # fmt: skip
    nets = item_nets([(FLAGS[agents, LOW], FLAGS[agents, "dense"]) for agents in (2, 3, 4)])
    [row] = [row for row in rows(tmp_path, "--items-across-cells") if row.get("analysis")]
    assert (row["cells"], row["n"], row["net"], row["p"]) == (3, N, sum(nets), item_level(nets).p)
    titles = [line for line in run(tmp_path).stdout.splitlines() if " items (" in line]
    assert [f"order shuffle:{seed}" in title for seed, title in zip((0, 1, 2), titles, strict=True)] == [
        False,
        True,
        True,
    ]
    assert "order" not in titles[0]


def test_one_cell_has_no_items_across_cells(tmp_path: Path) -> None:
    for name in ("dense", LOW):
        write_log(tmp_path / f"{name[:2]}.jsonl", name, FLAGS[2, name])
    with pytest.raises(UserError, match="--items-across-cells: no condition ran the same items in two cells"):
        run(tmp_path, "--items-across-cells")


def test_cochran_power_and_stopping_early(folder: Path) -> None:
    found = rows(folder, "--cochran", "--power", "300", "--sequential")
    cochran = [row for row in found if row.get("analysis", "").startswith("Cochran")]
    assert len(cochran) == 3
    q = cochran_q([FLAGS[2, name] for name in ("dense", LOW, HIGH)])
    assert (cochran[0]["q"], cochran[0]["df"], cochran[0]["p"]) == tuple(q)
    powers = [row for row in found if row.get("analysis") == "power at 300 items"]
    b, c = splits(2, LOW)
    assert powers[0]["power"] == power(300, b / N, c / N)
    early = [row for row in found if row.get("analysis") == "stopping early"]
    path = follow(FLAGS[2, "dense"], FLAGS[2, LOW])
    assert (early[0]["e"], early[0]["anytime_p"], early[0]["stopped_at"]) == (path.e, path.p, path.stopped_at)
    made = run(folder, "--cochran", "--power", "300", "--sequential")
    for title in ("Cochran's Q over", "power at 300 items", "stopping early"):
        assert title in made.stdout
    assert run(folder, "--power", "0").exit_code == 2


def test_no_test_at_all_has_no_family(tmp_path: Path) -> None:
    write_log(tmp_path / "dense.jsonl", "dense", FLAGS[2, "dense"])
    made = run(tmp_path, "--family", "holm", "--cochran", "--sequential", "--power", "10")
    assert made.exit_code == 0 and "family" not in made.stderr
    for fmt in ("md", "latex", "csv"):
        assert run(tmp_path, "--family", "holm", "--paired", "--format", fmt).exit_code == 0


def test_ps_print_alike(folder: Path) -> None:
    header, _, *lines = run(
        folder / "2nse.jsonl", folder / "20.3.jsonl", "--paired", "--family", "holm"
    ).stdout.splitlines()
    row = dict(zip(header.split(), lines[1].split(), strict=True))
    b, c = splits(2, LOW)
    assert row["p"] == ("<0.001" if mcnemar(b, c) < 0.001 else f"{mcnemar(b, c):.3f}")
    assert row["p_holm"] == row["p"]


def test_the_papers_figures_are_checked_without_logs() -> None:
    made = run("--paper-check")
    assert made.exit_code == 0 and "624 of 637" in made.stdout
    assert len(made.stdout.splitlines()) == 1 + 13
    assert len(json.loads(run("--paper-check", "--format", "json").stdout)) == 637
    missing = run()
    assert missing.exit_code == 2 and "Missing argument 'LOGS...'" in missing.stderr
