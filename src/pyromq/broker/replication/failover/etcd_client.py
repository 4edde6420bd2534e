"""A client of etcd through its JSON gateway: the few requests that failover needs, each asked of one endpoint after the
other.

    EtcdClient    reads and transactions, for the event loop
    LeaseClient   leases, for a thread of its own: a busy loop must not let one run out

A transaction whose answer does not come may have been done, or may be done later. Whoever sends one has to live with
that: EtcdAway says only that nothing is known.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyromq.broker.config.etcd_address import EtcdAddress
from pyromq.broker.replication.failover.etcd_state import EtcdAway, Granted, KeyValue, Transaction

if TYPE_CHECKING:
    import httpx

_RANGE: Final = "/v3/kv/range"
_TXN: Final = "/v3/kv/txn"
_GRANT: Final = "/v3/lease/grant"
_KEEP_ALIVE: Final = "/v3/lease/keepalive"
_REVOKE: Final = "/v3/lease/revoke"
_AUTHENTICATE: Final = "/v3/auth/authenticate"
_OK: Final = 200
_UNAUTHENTICATED: Final = 401


class _Endpoints:
    """Which endpoint is asked first: the one that answered last."""

    def __init__(self, address: EtcdAddress) -> None:
        self.address = address
        self._first = 0

    def in_turn(self) -> list[int]:
        count = len(self.address.endpoints)
        return [(self._first + number) % count for number in range(count)]

    def url(self, number: int, path: str) -> str:
        return f"{self.address.scheme}://{self.address.endpoints[number]}{path}"

    def answered(self, number: int) -> None:
        self._first = number

    def away(self, problems: Sequence[str]) -> EtcdAway:
        return EtcdAway(f"etcd does not answer: {'; '.join(problems)}")


class EtcdClient:
    """Reads and transactions; raise EtcdAway."""

    def __init__(self, address: EtcdAddress, timeout: float) -> None:
        """`timeout` is that of one endpoint, in seconds."""
        import httpx  # it takes a fifth of a second: only where failover is asked for

        self._failures = (httpx.HTTPError, ValueError)
        self._endpoints = _Endpoints(address)
        self._http = httpx.AsyncClient(verify=_tls(address), timeout=timeout, trust_env=False)
        self._token = ""

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def read(self, prefix: str) -> list[KeyValue]:
        """Return all keys that begin with a prefix, as a majority of etcd has them."""
        answer = await self._ask(_RANGE, {"key": _encode(prefix), "range_end": _encode(_behind(prefix))})
        return [_key_value(found) for found in answer.get("kvs", ())]

    async def commit(self, transaction: Transaction) -> bool:
        """Do what a transaction says if what it compares is so; return whether it was."""
        answer = await self._ask(_TXN, _transaction(transaction))
        return bool(answer.get("succeeded", False))

    async def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        problems = []
        for number in self._endpoints.in_turn():
            try:
                answer = await self._ask_one(number, path, body)
            except self._failures as error:
                problems.append(_problem(self._endpoints, number, error))
            else:
                self._endpoints.answered(number)
                return answer
        raise self._endpoints.away(problems)

    async def _ask_one(self, number: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
        url = self._endpoints.url(number, path)
        account = self._endpoints.address.account
        if account and not self._token:
            login = await self._http.post(self._endpoints.url(number, _AUTHENTICATE), json=account)
            self._token = _answer(login)["token"]
        response = await self._http.post(url, json=body, headers=_headers(self._token))
        if response.status_code == _UNAUTHENTICATED and account:
            self._token = ""  # it has run out; the next request asks for another
        return _answer(response)


class LeaseClient:
    """Leases; raise EtcdAway."""

    def __init__(self, address: EtcdAddress, timeout: float) -> None:
        import httpx

        self._failures = (httpx.HTTPError, ValueError)
        self._endpoints = _Endpoints(address)
        self._http = httpx.Client(verify=_tls(address), timeout=timeout, trust_env=False)
        self._token = ""

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def grant(self, seconds: int) -> Granted:
        """Ask for a lease."""
        return _granted(self._ask(_GRANT, {"TTL": str(seconds)}))

    def keep_alive(self, lease: int) -> Granted:
        """Renew a lease; it has no seconds left if etcd does not know it any more."""
        answer = self._ask(_KEEP_ALIVE, {"ID": str(lease)})
        return _granted(answer.get("result", {}))

    def revoke(self, lease: int) -> None:
        """Give a lease back: the keys on it are gone at once."""
        self._ask(_REVOKE, {"ID": str(lease)})

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        problems = []
        for number in self._endpoints.in_turn():
            try:
                answer = self._ask_one(number, path, body)
            except self._failures as error:
                problems.append(_problem(self._endpoints, number, error))
            else:
                self._endpoints.answered(number)
                return answer
        raise self._endpoints.away(problems)

    def _ask_one(self, number: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
        account = self._endpoints.address.account
        if account and not self._token:
            login = self._http.post(self._endpoints.url(number, _AUTHENTICATE), json=account)
            self._token = _answer(login)["token"]
        response = self._http.post(self._endpoints.url(number, path), json=body, headers=_headers(self._token))
        if response.status_code == _UNAUTHENTICATED and account:
            self._token = ""
        return _answer(response)


# --- the gateway's JSON


def _transaction(transaction: Transaction) -> dict[str, Any]:
    compare: list[dict[str, str]] = [
        {"target": "MOD", "result": "EQUAL", "key": _encode(key), "mod_revision": str(revision)}
        for key, revision in transaction.revisions.items()
    ]
    compare += [
        {"target": "VALUE", "result": "EQUAL", "key": _encode(key), "value": _encode(value)}
        for key, value in transaction.values.items()
    ]
    success: list[dict[str, Any]] = [
        {"requestPut": {"key": _encode(put.key), "value": _encode(put.value), "lease": str(put.lease)}}
        for put in transaction.puts
    ]
    success += [{"requestDeleteRange": {"key": _encode(key)}} for key in transaction.deletes]
    return {"compare": compare, "success": success}


def _key_value(found: dict[str, Any]) -> KeyValue:
    return KeyValue(
        base64.b64decode(found["key"]).decode(),
        base64.b64decode(found.get("value", "")),
        int(found["mod_revision"]),
        int(found.get("lease", 0)),
    )


def _granted(answer: dict[str, Any]) -> Granted:
    return Granted(int(answer.get("ID", 0)), int(answer.get("TTL", 0)))


def _answer(response: httpx.Response) -> dict[str, Any]:
    """Return the answer of the gateway; raise ValueError for anything but one."""
    if response.status_code != _OK:
        raise ValueError(f"{response.status_code} {response.text[:200].strip()}")
    answer = json.loads(response.content)
    if not isinstance(answer, dict):
        raise ValueError("its answer is no object")
    return answer


def _encode(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _behind(prefix: str) -> bytes:
    """Return the first key behind all that begin with a prefix, which ends with `/`."""
    data = prefix.encode()
    return data[:-1] + bytes([data[-1] + 1])


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": token} if token else {}


def _problem(endpoints: _Endpoints, number: int, error: Exception) -> str:
    return f"{endpoints.address.endpoints[number]}: {str(error) or type(error).__name__}"


def _tls(address: EtcdAddress) -> ssl.SSLContext:
    if address.scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used; making a whole one takes a while
    context = ssl.create_default_context(cafile=address.ca_file or None)
    if address.cert_file:
        context.load_cert_chain(address.cert_file, address.key_file or None)
    return context
