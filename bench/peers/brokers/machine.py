"""What a result must say about the machine."""

from __future__ import annotations

import os
import platform
import sysconfig
from datetime import UTC, datetime
from pathlib import Path


def machine_facts() -> dict[str, str]:
    """Return the facts that change figures."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    memory = int(Path("/proc/meminfo").read_text().split()[1])
    optimized = "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS"))
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": str(len(os.sched_getaffinity(0))),
        "cpu": cpu.partition(":")[2].strip() or platform.machine(),
        "memory": f"{memory / (1 << 20):.0f} GiB",
        "kernel": platform.release(),
        "python": f"CPython {platform.python_version()}, {'with' if optimized else 'without'} PGO",
        "load before": f"{os.getloadavg()[0]:.1f}",
    }
