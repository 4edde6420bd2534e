"""Examples for the help pages: one or more lines for each command, below its options.

Tests run through this table: every command has an example, and every example is a command with options that exist. A
family without its own entry shows the first examples of its verbs.
"""

from __future__ import annotations

from typing import Any, Final

OF_A_FAMILY: Final = 4
"""Examples on the page of a family."""

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "": (
        "pyromq up",
        "pyromq send orders hello --key o-1",
        "pyromq tail orders --from earliest",
        "pyromq doctor",
    ),
    "up": (
        "pyromq up",
        "pyromq up --data /var/lib/pyromq --host 0.0.0.0 --set brokerIP1=10.0.0.7",
        "pyromq up --slaves 1 --set brokerRole=SYNC_MASTER",
    ),
    "namesrv": ("pyromq namesrv --port 9876 --data /var/lib/pyromq-namesrv",),
    "broker": ("pyromq broker -n 10.0.0.1:9876 --data /var/lib/pyromq -c broker.conf --http-port 8081",),
    "console": ("pyromq console -n 10.0.0.1:9876", "pyromq console -n 10.0.0.1:9876 --host 0.0.0.0 --port 8080"),
    "send": (
        "pyromq send orders hello --tag created --key o-1",
        "pyromq send orders later --delay 30m",
        "pyromq send orders - --order-key shop-1",
    ),
    "tail": ("pyromq tail orders", "pyromq tail orders --from earliest --tag 'created || paid' --count 10 --json"),
    "run": ("pyromq run shop:app", "pyromq run shop:app --workers 4", "pyromq run shop:app --reload"),
    "docs": ("pyromq docs shop:app", "pyromq docs shop:app --out build/shop"),
    "acl list": ("pyromq acl list", "pyromq acl list --json"),
    "acl show": ("pyromq acl show shop-app",),
    "acl add": ("pyromq acl add shop-app --topic 'orders=PUB|SUB' --group billing=SUB",),
    "acl set": ("pyromq acl set shop-app --topic 'audit-*=SUB'", "pyromq acl set ops-team --admin"),
    "acl remove": ("pyromq acl remove shop-app --dry-run",),
    "message find": (
        "pyromq message find orders --key o-1",
        "pyromq message find orders --body 'body.amount > 100' --json",
    ),
    "message show": (
        "pyromq message show 7F000001ABCD1234 --topic orders",
        "pyromq message show broker-a:1:42 --topic orders",
    ),
    "message consume": (
        "pyromq message consume 7F000001ABCD1234 --topic orders --group billing --client 10.0.0.9@4711",
    ),
    "message trace": ("pyromq message trace 7F000001ABCD1234", "pyromq message trace --key o-1"),
    "message pending": ("pyromq message pending --topic orders --count 20",),
    "message cancel": ("pyromq message cancel 7F000001ABCD1234 --dry-run",),
    "bench send": ("pyromq bench send --topic bench",),
    "bench consume": ("pyromq bench consume --topic bench",),
    "bench end-to-end": ("pyromq bench end-to-end --topic bench",),
    "store verify": ("pyromq store verify /var/lib/pyromq",),
    "store repair": ("pyromq store repair /var/lib/pyromq --dry-run",),
    "store inspect": ("pyromq store inspect /var/lib/pyromq --json",),
    "store backup": ("pyromq store backup /var/lib/pyromq /backup/pyromq --dry-run",),
    "store serve": ("pyromq store serve /backup/pyromq --namesrv-port 19876 --port 19911",),
    "config check": ("pyromq config check broker.conf",),
    "topic list": ("pyromq topic list", "pyromq topic list --all --json"),
    "topic describe": ("pyromq topic describe orders",),
    "topic create": (
        "pyromq topic create orders --queues 8",
        "pyromq topic create orders --broker broker-a --read 8 --write 8 --order",
    ),
    "topic set": ("pyromq topic set orders --perm r --dry-run",),
    "topic delete": ("pyromq topic delete orders --dry-run",),
    "topic resize": ("pyromq topic resize orders --queues 4 --ignore-group audit",),
    "group list": ("pyromq group list", "pyromq group list --json"),
    "group describe": ("pyromq group describe billing --watch 5s",),
    "group reset": (
        "pyromq group reset billing --to earliest --dry-run",
        "pyromq group reset billing --to 2026-01-31T12:00 --topic orders",
    ),
    "group clone": ("pyromq group clone billing billing-v2 --dry-run",),
    "group set": ("pyromq group set billing retry_max_times=5 consume_enable=true",),
    "group delete": ("pyromq group delete billing --dry-run",),
    "group advise": ("pyromq group advise billing",),
    "cluster clients": ("pyromq cluster clients", "pyromq cluster clients --group shop --json"),
    "cluster status": ("pyromq cluster status", "pyromq cluster status --broker broker-a --json"),
    "cluster promote": ("pyromq cluster promote broker-a --dry-run",),
    "cluster config": (
        "pyromq cluster config get fileReservedTime",
        "pyromq cluster config set fileReservedTime=48 --broker broker-a --dry-run",
    ),
    "cluster pause-writes": ("pyromq cluster pause-writes --broker broker-a",),
    "cluster resume-writes": ("pyromq cluster resume-writes --broker broker-a",),
    "cluster clean": ("pyromq cluster clean --dry-run",),
    "cluster kv list": ("pyromq cluster kv list ORDER_TOPIC_CONFIG",),
    "cluster kv get": ("pyromq cluster kv get ORDER_TOPIC_CONFIG orders",),
    "cluster kv set": ("pyromq cluster kv set settings colour blue",),
    "cluster kv delete": ("pyromq cluster kv delete settings colour --dry-run",),
    "dlq list": ("pyromq dlq list",),
    "dlq show": ("pyromq dlq show billing --cause timeout --count 10",),
    "dlq export": ("pyromq dlq export billing letters.parquet",),
    "dlq resend": ("pyromq dlq resend billing --all --rate 10 --dry-run",),
    "transaction list": ("pyromq transaction list --given-up",),
    "transaction resume": ("pyromq transaction resume --all --dry-run",),
    "pipeline list": ("pyromq pipeline list",),
    "pipeline init": ("pyromq pipeline init my-pipeline",),
    "pipeline dry-run": ("pyromq pipeline dry-run my-pipeline",),
    "pipeline run archive": ("pyromq pipeline run archive --topics orders --to /data/archive",),
    "pipeline run replay": (
        "pyromq pipeline run replay --archive /data/archive --topics orders --where \"tags = 'paid'\" --rate 100",
    ),
    "pipeline run widen": (
        "pyromq pipeline run widen --topic orders --group billing --to orders-wide --checkpoint /data/widen",
    ),
    "pipeline run find": ("pyromq pipeline run find --topics orders --where 'body.cents > 1000' --out found.jsonl",),
    "pipeline run report": ("pyromq pipeline run report --topics orders --out report.html",),
    "pipeline run orders": ("pyromq pipeline run orders --topic orders --out /data/orders",),
    "doctor": ("pyromq doctor", "pyromq doctor --topic orders --no-send --json"),
    "debug bundle": ("pyromq debug bundle --data /var/lib/pyromq --log /var/log/pyromq.log",),
    "top": ("pyromq top", "pyromq top --view topics --sort in/s", "pyromq top --once --json"),
    "check": ("pyromq check --lag 1000:10000 --lag-seconds 300", "pyromq check --group billing --dead-letters 1:"),
    "completion": (
        'eval "$(pyromq completion bash)"',
        "pyromq completion fish > ~/.config/fish/completions/pyromq.fish",
    ),
    "context add": ("pyromq context add prod -n '10.0.0.1:9876;10.0.0.2:9876' --colour red --confirm",),
    "context use": ("pyromq context use prod",),
    "context list": ("pyromq context list",),
    "context show": ("pyromq context show prod",),
    "context remove": ("pyromq context remove prod",),
}


def examples_of(words: str) -> tuple[str, ...]:
    """Return the examples of a page."""
    if words in EXAMPLES:
        return EXAMPLES[words]
    below = [lines[0] for name, lines in EXAMPLES.items() if name.startswith(f"{words} ")]
    return tuple(below[:OF_A_FAMILY])


def examples_text(words: str) -> str | None:
    """Return what stands below the help of a page, None if there are no examples."""
    lines = examples_of(words)
    if not lines:
        return None
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join([title, *(line.replace("[", "\\[") for line in lines)])


def add_examples(command: Any, words: str) -> None:
    """Write the examples below the help of a command, and of those within it."""
    command.epilog = examples_text(words)
    for name, inner in getattr(command, "commands", {}).items():
        add_examples(inner, f"{words} {name}")
