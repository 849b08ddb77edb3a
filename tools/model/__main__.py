"""Search all scenarios, or show a planted bug: `python -m tools.model [--full | BUG]`."""

import sys
import time

from tools.model.scenario import FULL, SCENARIOS
from tools.model.search import PLANTED, describe, search


def main() -> int:
    """Run the searches; return 1 as the exit status if a scenario has a counterexample."""
    arguments = sys.argv[1:]
    if arguments and arguments != ["--full"]:
        return _show(" ".join(arguments))
    failed = 0
    for scenario in (FULL,) if arguments else SCENARIOS:
        started = time.perf_counter()
        result = search(scenario)
        seconds = time.perf_counter() - started
        print(
            f"{scenario.name}: {result.worlds:,} worlds, {result.transitions:,} steps, "
            f"{result.torn:,} torn, {seconds:.1f} s"
        )
        if result.counterexample is not None:
            print(f"{describe(scenario.start(), result.counterexample)}")
            failed += 1
    return 1 if failed else 0


def _show(name: str) -> int:
    bug = next((bug for bug in PLANTED if bug.name == name), None)
    if bug is None:
        names = "\n".join(bug.name for bug in PLANTED)
        print(f"unknown bug; known bugs:\n{names}")
        return 1
    counterexample = search(bug.scenario, bug.rules).counterexample
    if counterexample is None:
        print("not found")
        return 1
    print(f"{describe(bug.scenario.start(), counterexample)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
