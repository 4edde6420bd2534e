"""What every thread and every task is doing now, as text: what a thread dump is to a JVM."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback

_MOST_TASKS = 500
_DEEPEST = 50


def python_stacks() -> str:
    """Return the stacks of all threads of the process and of all tasks of the running loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f'"{names.get(ident, "?")}" thread {ident}\n{"".join(traceback.format_stack(frame, _DEEPEST))}'
        for ident, frame in sys._current_frames().items()
    ]
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    parts += [_task_stack(task) for task in tasks[:_MOST_TASKS]]
    if len(tasks) > _MOST_TASKS:
        parts.append(f"and {len(tasks) - _MOST_TASKS} more tasks\n")
    return "\n".join(parts)


def _task_stack(task: asyncio.Task[object]) -> str:
    lines = [f'"{task.get_name()}" task\n']
    waiting: object = task.get_coro()
    for _ in range(_DEEPEST):  # asyncio's own way shows the outermost coroutine only
        frame = getattr(waiting, "cr_frame", None)
        if frame is None:
            break
        lines += traceback.format_stack(frame, limit=1)
        waiting = getattr(waiting, "cr_await", None)
    return "".join(lines)
