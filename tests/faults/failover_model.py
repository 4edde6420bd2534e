"""The model of election, in-sync set and fencing, for many more steps than a test takes.

python -m tests.faults.failover_model --steps 1000000
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.broker.replication.failover.test_model import Failover, walk

STEPS_OF_A_WALK = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first walk; the next has the next")
    options = parser.parse_args()
    walks = -(-options.steps // STEPS_OF_A_WALK)
    for seed in range(options.seed, options.seed + walks):
        try:
            walk(Failover, seed, STEPS_OF_A_WALK)
        except AssertionError as error:
            print(f"walk {seed} of {STEPS_OF_A_WALK} steps: {error}")
            return 1
    print(f"{walks * STEPS_OF_A_WALK} steps in {walks} walks from seed {options.seed}: no promise is broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
