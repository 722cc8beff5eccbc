"""Every check can fail: what it guards is broken, and it says so by name with exit code 1."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor
from verify_runs import BRIEF, save_small_model, verified

from bcrbench.agents.prompt import Template
from bcrbench.engine.attention import KERNELS, tiles
from bcrbench.engine.decode import Generation, greedy
from bcrbench.engine.rope import rotate
from bcrbench.errors import RunFailed
from bcrbench.repair import OPERATORS, view
from bcrbench.repair.budget import Budget
from bcrbench.repair.operators import recompute
from bcrbench.repair.view import RepairView, Start
from bcrbench.reuse.gate import decide
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.policies.opengate import OpenGate
from bcrbench.reuse.policies.placebo import Placebo
from bcrbench.verify.engine import bottom_right

Break = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_small_model("llama", tmp_path_factory.mktemp("models") / "llama")


def bottom_right_kernel(patch: pytest.MonkeyPatch) -> None:
    """Right for a whole prompt, wrong for scattered rows."""
    patch.setitem(KERNELS._entries, "blocks", lambda *args: (tiles if args[3].contiguous else bottom_right)(*args))


def blind_mask_control(patch: pytest.MonkeyPatch) -> None:
    """A negative control that shows nothing leaves the check without a measure."""
    patch.setattr("bcrbench.verify.engine.bottom_right", tiles)


def lossy_rotation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("bcrbench.reuse.block.rotate", lambda keys, delta, freq: rotate(keys, delta, freq).bfloat16().float())


def rotation_by_another_frequency(patch: pytest.MonkeyPatch) -> None:
    """Comes back and composes, but is not the model's."""
    patch.setattr("bcrbench.reuse.block.rotate", lambda keys, delta, freq: rotate(keys, delta, freq * 1.001))


def second_best_token(patch: pytest.MonkeyPatch) -> None:
    def choose(logits: Tensor) -> tuple[Tensor, Tensor]:
        second = torch.topk(logits, 2).indices[1:]
        return second, second

    patch.setattr("bcrbench.engine.decode.choose", choose)


def a_newline_in_one_path(patch: pytest.MonkeyPatch) -> None:
    """The released defect: one mode's prompt has a newline that the other's has not (App. G.3)."""
    text = Template.text
    patch.setattr(Template, "text", lambda self, contents: text(self, contents).replace("quote", "\nquote"))


def a_run_that_wanders(patch: pytest.MonkeyPatch) -> None:
    calls = count()

    def wander(*args: Any) -> Generation:
        made = greedy(*args)
        return replace(made, ids=[next(calls) % 200, *made.ids[1:]])

    patch.setattr("bcrbench.reuse.serve.greedy", wander)


def a_threshold_that_never_arrives(patch: pytest.MonkeyPatch) -> None:
    def ever(name: str, tokens: int, bucket: Any, gamma: float, gaps: Any) -> Any:
        return decide(name, tokens, bucket, 0.3, gaps)

    patch.setattr("bcrbench.reuse.shared.decide", ever)


def a_threshold_that_one_agent_drops(patch: pytest.MonkeyPatch) -> None:
    """The released defect: one class of agents ran at the default."""

    def dropped(name: str, tokens: int, bucket: Any, gamma: float, gaps: Any) -> Any:
        return decide(name, tokens, bucket, 0.3 if name == "agent_1" else gamma, gaps)

    patch.setattr("bcrbench.reuse.shared.decide", dropped)


def a_gate_that_refuses_always(patch: pytest.MonkeyPatch) -> None:
    def refuse(*facts: Any) -> Any:
        gate = decide(*facts)
        if gate.decision == "sharable":
            gate.decision, gate.why = "new", "entropy"
        return gate

    patch.setattr("bcrbench.reuse.shared.decide", refuse)


def an_opengate_that_loses_a_draft_token(patch: pytest.MonkeyPatch) -> None:
    start = OpenGate.start
    patch.setattr(OpenGate, "start", lambda self, view: replace(start(self, view), ids=start(self, view).ids[1:]))


def an_opengate_that_rejects(patch: pytest.MonkeyPatch) -> None:
    start = OpenGate.start
    patch.setattr(OpenGate, "start", lambda self, view: replace(start(self, view), refused="opengate-reject"))


def one_row_where_none_is_due(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("bcrbench.repair.layouts.row_budget", lambda cached, rho: Budget(1))


def a_draft_that_stays(patch: pytest.MonkeyPatch) -> None:
    """The length is put back, the rows are not."""

    def stays(given: RepairView) -> Any:
        length = given.cache.length
        made = view_draft(given)
        given.cache.length = given.rows
        for place, token in enumerate([given.ids[-1], made.ids[0]]):
            given.runtime.run([token], [given.rows + place], given.cache)
        given.cache.length = length
        return made

    view_draft = view.make_draft
    patch.setattr(view, "make_draft", stays)


def a_draft_that_draws(patch: pytest.MonkeyPatch) -> None:
    """It samples: the cache is as it was, the random stream is not."""

    def draws(given: RepairView) -> Any:
        torch.rand(1)
        return view_draft(given)

    view_draft = view.make_draft
    patch.setattr(view, "make_draft", draws)


def chunks_that_never_fit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("bcrbench.repair.layouts.chunk_budget", lambda *args: Budget(0, "never"))


def a_repair_that_skips_a_row(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(OPERATORS._entries, "recompute", lambda view, rows: recompute(view, rows[:-1]))


def a_layout_that_leaves_rows_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("bcrbench.repair.layouts.row_budget", lambda cached, rho: Budget(round(rho * cached * 0.9)))


BREAKS: list[tuple[str, Break]] = [
    ("mask", bottom_right_kernel),
    ("mask", blind_mask_control),
    ("rotation", lossy_rotation),
    ("rotation", rotation_by_another_frequency),
    ("greedy", second_best_token),
    ("tokens", a_newline_in_one_path),
    ("repeat", a_run_that_wanders),
    ("gate", a_threshold_that_never_arrives),
    ("gate", a_threshold_that_one_agent_drops),
    ("gate", a_gate_that_refuses_always),
    ("theta-zero", an_opengate_that_loses_a_draft_token),
    ("theta-zero", an_opengate_that_rejects),
    ("no-repair", one_row_where_none_is_due),
    ("draft", a_draft_that_stays),
    ("draft", a_draft_that_draws),
    ("engaged", chunks_that_never_fit),
    ("full-repair", a_repair_that_skips_a_row),
    ("full-repair", a_layout_that_leaves_rows_out),
]


@pytest.mark.parametrize(("name", "spoil"), BREAKS, ids=[f"{name}-{spoil.__name__}" for name, spoil in BREAKS])
def test_a_check_fails_when_what_it_guards_is_broken(
    name: str, spoil: Break, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    made = verified(capsys, "--model", model, *BRIEF, "--only", name)
    assert made.code == 1, made.findings
    assert made.failed() == [name]
    assert f"1 of 1 checks failed: {name}" in made.err


def test_the_newline_is_found_without_a_model(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_newline_in_one_path(monkeypatch)
    made = verified(capsys, "--model", model, *BRIEF, "--tokens")
    assert made.failed() == ["tokens"]
    assert "texts differ at character" in made.findings["tokens"]["detail"]


def test_a_failing_run_is_a_failed_check_and_the_next_one_is_made(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: KVComm, view: RepairView) -> Start:
        raise RunFailed("no scores")

    monkeypatch.setattr(KVComm, "start", broken)
    made = verified(capsys, "--model", model, *BRIEF, "--only", "repeat,mask")
    assert made.failed() == ["repeat"]
    assert made.findings["repeat"]["number"] is None
    assert "no scores" in made.findings["repeat"]["detail"]
    assert made.findings["mask"]["passed"]


def test_placebo_tells_flips_and_never_fails(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(self: Placebo, runtime: Any, ids: list[int], cache: Any) -> torch.Tensor:
        logits = runtime.run(ids, range(len(ids)), cache)
        return -logits

    monkeypatch.setattr(Placebo, "prefill", noisy)
    made = verified(capsys, "--model", model, *BRIEF, "--only", "placebo")
    assert made.code == 0
    turned = re.search(r"(\d+) tokens? of (\d+) in 4 calls", made.findings["placebo"]["detail"])
    assert turned, made.findings
    assert 4 == int(turned[1]) <= int(turned[2])
