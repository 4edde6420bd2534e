"""A single-node Kafka broker on this machine, from jars fetched by Maven."""

from __future__ import annotations

import subprocess
from pathlib import Path

from interop.servers import HOST, Server, free_port

# The JVM options of Kafka's own start script, and its default heap.
JVM = [
    "-Xmx1g",
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
]
_LOGGING = "-Dorg.slf4j.simpleLogger."
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
"""


class Kafka(Server):
    """A broker that is its own controller; topics are created by their first message. `more` are settings."""

    def __init__(self, java: Path, jars: Path, directory: Path, partitions: int, more: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        port, controller, logs = free_port(), free_port(), directory / "logs"
        self.address = f"{HOST}:{port}"
        config = directory / "server.properties"
        config.write_text(
            _SETTINGS.format(host=HOST, port=port, controller=controller, logs=logs, partitions=partitions) + more
        )
        levels = [f"{_LOGGING}defaultLogLevel=warn", f"{_LOGGING}log.kafka.server.KafkaRaftServer=info"]
        command = [str(java), *JVM, *levels, "-cp", f"{jars}/*"]
        if not logs.exists():
            _format(command, config)
        run = [*command, "kafka.Kafka", str(config)]
        super().__init__(run, directory / "kafka.log", "Kafka Server started", own_session=True)


def _format(command: list[str], config: Path) -> None:
    cluster = "pyromq-bench-peers-000"  # an identifier is 16 bytes in base64: any 22 of its characters
    tool = [*command, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
    done = subprocess.run(tool, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"Kafka's log directory was not made: {done.stdout}{done.stderr}")
