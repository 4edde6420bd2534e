"""Caches of tokens: in memory, and in a real Redis."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyromq.idempotent import MemoryCache, RedisCache
from pyromq.testing import TestClock


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not installed (Debian: redis-server)")
    directory = tmp_path_factory.mktemp("redis")
    command = [program, "--port", "0", "--unixsocket", f"{directory}/socket", "--dir", str(directory), "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "eady to accept connections" in line:
            break
    yield Redis(unix_socket_path=f"{directory}/socket")
    process.terminate()
    process.wait()


def test_a_small_cache_forgets_the_token_that_was_not_asked_for_the_longest() -> None:
    cache = MemoryCache(2)
    cache.add("a")
    cache.add("b")
    assert cache.has("a")
    cache.add("c")
    assert [cache.has(token) for token in "abc"] == [True, False, True]


def test_redis_remembers_tokens_for_all_processes_until_they_expire(redis: Redis) -> None:
    RedisCache(redis).add("a")
    assert RedisCache(redis).has("a")
    assert not RedisCache(redis).has("b")
    assert not RedisCache(redis, prefix="other:").has("a")
    assert 0 < redis.ttl("pyromq:token:a") <= 86_400


def test_while_redis_is_away_the_database_decides_and_redis_is_asked_now_and_then(
    redis: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TestClock()
    client = Redis(unix_socket_path=f"{tmp_path}/nobody", retry=Retry(NoBackoff(), 0))
    cache = RedisCache(client, prefix="later:", clock=clock)
    cache.add("a")
    assert not cache.has("a")
    texts = [record.getMessage().split(":")[0] for record in caplog.records]
    assert texts == ["the cache of tokens is away, the database alone is asked for 10 s"]
    client.connection_pool = redis.connection_pool
    cache.add("b")
    assert not cache.has("b")
    clock.advance(seconds=11)
    cache.add("b")
    assert cache.has("b")
