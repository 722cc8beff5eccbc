"""`bcrbench repair`: BCR's layouts with any selector and operator, or the unit-of-choice probe."""

from __future__ import annotations

from typing import Any

import click

from bcrbench.cli.options import run_options

_OF_LAYOUT = {"chunk": ("B",), "grow": ("tau", "cap"), "single": ()}

_PARAMETERS = (
    "select", "op", "rho", "shrink", "over", "B", "tau", "cap", "k", "m", "variant", "gamma", "frame", "base",
    "capacity", "window", "warm", "pool_gb", "pool",
)  # fmt: skip


@click.command(epilog="Example: bcrbench repair --layout chunk --B 8 --gamma 1.0 --select coin --coin-seed 3")
@click.option("--layout", type=click.Choice(["chunk", "grow", "single"]), default="chunk", show_default=True,
              help="What the budget buys.")  # fmt: skip
@click.option("--select", metavar="NAME",
              help="draft, coin, cacheblend, query, epic, frontier or oracle.  [default: draft]")  # fmt: skip
@click.option("--op", metavar="NAME", help="recompute, or transplant from an exact cache.  [default: recompute]")
@click.option("--rho", metavar="R", help="Share of the served cache's rows, 0 to 1.  [default: 0.2]")
@click.option("--shrink", metavar="S", help="Part of rho that a full anchor pool takes away, 0 to 1.  [default: 0]")
@click.option("--over", metavar="WHICH", help="Rows that may be chosen: all, predicted.  [default: all]")
@click.option("--B", "B", metavar="N", help="chunk: rows a chunk; 8 for the short prompts of quotes.  [default: 64]")
@click.option("--tau", metavar="T", help="grow: share of the seed's score a neighbour needs.  [default: 0.25]")
@click.option("--cap", metavar="N", help="grow: longest span.  [default: 64]")
@click.option("--k", metavar="N", help="Draft tokens.  [default: 2]")
@click.option("--m", metavar="N", help="query: last prompt rows that score.  [default: 16]")
@click.option("--variant", metavar="NAME", help="cacheblend: paper, released or lmcache-v1.  [default: paper]")
@click.option("--coin-seed", "coin_seed", metavar="N", help="Seed of the coin's stream.  [default: 0]")
@click.option("--gamma", metavar="G", help="Gate threshold of the reuse underneath, 0 to 1.  [default: 0.3]")
@click.option("--frame", metavar="NAME", help="released or canonical.  [default: released]")
@click.option("--base", metavar="NAME", help="header or empty.  [default: header]")
@click.option("--capacity", metavar="N", help="Anchors a segment (as released, one more).  [default: 20]")
@click.option("--window", metavar="N", help="Oldest anchors among which one is evicted.  [default: 5]")
@click.option("--warm", metavar="N", help="Other items that fill the pool first.  [default: 0]")
@click.option("--pool-gb", metavar="GB", help="Most bytes of anchors, in 1e9; 0: any.  [default: 0]")
@click.option("--pool", metavar="WHERE", help="Where anchors lie: device, or host.  [default: device]")
@click.option("--probe", type=click.Choice(["units"]),
              help="Measure the unit of choice (Table 8) instead, with --segment and what follows it.")  # fmt: skip
@click.option("--segment", type=int, metavar="TOKENS",
              help="--probe: length of the segment (bundled: 490 at most).  [default: 2048]")  # fmt: skip
@run_options
def repair(layout: str, probe: str | None, segment: int | None, coin_seed: str | None, **flags: Any) -> None:
    """Run items with reused caches repaired before generation."""
    given = {name: flags.pop(name) for name in _PARAMETERS}
    given["seed"] = coin_seed
    if probe is not None:
        _probe(given, segment, flags)
        return
    from bcrbench.cli.running import one_cell
    from bcrbench.errors import UserError

    if segment is not None:
        raise UserError(f"--segment {segment}: has no meaning without --probe units")
    typed = {name: value for name, value in given.items() if value is not None}
    for other in ("B", "tau", "cap"):
        if other in typed and other not in _OF_LAYOUT[layout]:
            raise UserError(f"--{other} {typed[other]}: has no meaning for --layout {layout}")
    one_cell(flags, [f"bcr-{layout}:" + ",".join(f"{name}={value}" for name, value in typed.items())])


def _probe(given: dict[str, Any], segment: int | None, flags: dict[str, Any]) -> None:
    from bcrbench.cli.running import say, stoppable
    from bcrbench.engine.quiet import quiet_libraries
    from bcrbench.errors import UserError
    from bcrbench.probe.options import UnitOptions
    from bcrbench.probe.units import check_units, run_units, variants
    from bcrbench.settings import FILE, from_flags, from_folder, resolve

    typed = [name for name in given if given[name] is not None]
    if typed:
        raise UserError(f"--{typed[0]} {given[typed[0]]}: has no meaning with --probe units")
    settings, _ = resolve([(FILE, from_folder()), ("flags", from_flags(flags))])
    options = UnitOptions() if segment is None else UnitOptions(segment_tokens=segment)
    quiet_libraries()
    if flags["dry_run"]:
        check_units(settings, options)
        click.echo(f"{options.condition}: {options.prompts} prompts x {len(variants(options))} measurements on "
                   f"{settings.model}; nothing was run")  # fmt: skip
        return
    with stoppable():
        click.echo(run_units(settings, options, say))
