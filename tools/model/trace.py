"""A run, for people: who did what, and what it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.model.world import describe_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.model.search import Counterexample
    from tools.model.world import World


def describe(start: World, counterexample: Counterexample) -> str:
    """One line a step, then what is wrong."""
    lines = []
    before = start
    for number, event in enumerate(counterexample.events, start=1):
        changes = "; ".join(_changes(before, event.world))
        lines.append(f"{number:3} {event.who}: {event.what}{f'  [{changes}]' if changes else ''}")
        before = event.world
    return "\n".join([*lines, counterexample.violation])


def _changes(before: World, after: World) -> Iterator[str]:
    if before.log != after.log:
        yield f"log: {describe_log(after.log)}"
    old = dict(before.transactions)
    for each, status in after.transactions:
        if old.get(each) is not status:
            yield f"{each.name} is {status.value}"
    for rows in after.visible:
        if after.visible.count(rows) != before.visible.count(rows):
            yield f"rows of {rows[0] or 'job'}/{rows[1]}/p{rows[2]} are visible"
            break
