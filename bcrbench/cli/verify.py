"""`bcrbench verify`: the controls that make a run believable."""

from __future__ import annotations

from typing import Any

import click

from bcrbench.cli.options import cell_options


@click.command("verify", short_help="Make the controls that make a run believable.")
@click.option("--tokens", is_flag=True, help="Only compare the two paths' prompts, on all items; loads no weights.")
@click.option("--repeat", metavar="COND", help="Only run this condition twice and compare item by item.")
@click.option("--only", metavar="NAME,NAME", help="Only these checks; a wrong name lists them all.")
@click.option(
    "--format", "fmt", type=click.Choice(["table", "json"]), default="table", show_default=True, help="How to print."
)
@cell_options
def verify(tokens: bool, repeat: str | None, only: str | None, fmt: str, **flags: Any) -> None:
    """Check engine, prompts, reuse and repair on a model and task; exits with 1 when a check fails.

    Each line has a check's number, what was expected, and the paper's section. `differs` marks a difference that is to
    be read, and no failure. Six items unless --limit or --ids say otherwise, longest question first, and 24 new tokens
    (a task of short answers: its own) unless --max-new-tokens does.

    \b
    bcrbench verify
    bcrbench verify --model ./Llama --task gsm8k --data gsm8k_test.jsonl --only mask,full-repair
    bcrbench verify --model ./Llama --task gsm8k --data gsm8k_test.jsonl --tokens
    """
    from bcrbench.verify import wanted

    named = [name.strip() for name in only.split(",")] if only is not None else []
    names = wanted([*named, *(["tokens"] if tokens else []), *(["repeat"] if repeat else [])])
    _verify(names, repeat or "kvcomm:gamma=1.0", names == ["tokens"] and tokens, fmt, flags)


def _verify(names: list[str], repeat: str, light: bool, fmt: str, flags: dict[str, Any]) -> None:
    import json

    from bcrbench.cli.running import say
    from bcrbench.engine.quiet import quiet_libraries
    from bcrbench.settings import FILE, from_flags, from_folder, resolve
    from bcrbench.verify.bench import Bench
    from bcrbench.verify.finding import Finding
    from bcrbench.verify.report import make, refuse

    quiet_libraries()
    settings, _ = resolve([(FILE, from_folder()), ("flags", from_flags(flags))])
    bench = Bench(settings, repeat, light, say)
    if flags["dry_run"]:
        _show(bench, names)
        return

    def tell(finding: Finding) -> None:
        if fmt == "table":
            click.echo("\n".join(finding.lines()))

    findings = make(names, bench, tell)
    if fmt == "json":
        click.echo(json.dumps([finding.facts() for finding in findings], indent=2, ensure_ascii=False))
    refuse(findings)


def _show(bench: Any, names: list[str]) -> None:
    from bcrbench.conditions import parse
    from bcrbench.sweep.dry import show
    from bcrbench.sweep.plan import Plan

    show([Plan(bench.cell, parse("dense"))])
    click.echo(f"checks: {', '.join(names)}")
