"""The adapter through which :mod:`requests` reaches connections that a cancel ends."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakSet

from requests.adapters import BaseAdapter, HTTPAdapter

from .._forks import in_child
from .._redaction import redact
from ..cancel.once import Once
from ..exceptions import ConfigurationError
from .connections import PlainPool, TlsPool, close_inherited

_POOLS: Final = {"http": PlainPool, "https": TlsPool}

#: How many idle connections to one server are kept. Programs may have hundreds of
#: threads, and a connection that is not kept must be made again.
IDLE_CONNECTIONS: Final = 1000
#: For how many servers connections are kept.
_SERVERS: Final = 100


class CancellableAdapter(HTTPAdapter):
    """An adapter whose connections work for the exchange of the calling thread.

    Subclass it for TLS settings of your own, as you would subclass
    :class:`requests.adapters.HTTPAdapter`. Without an exchange it behaves like that.

    :param pool_connections: for how many servers to keep connections.
    :param pool_maxsize: how many to keep for each.
    :raises ConfigurationError: a setting would cause a wait that no cancel ends.
    """

    def __init__(
        self,
        pool_connections: int = _SERVERS,
        pool_maxsize: int = IDLE_CONNECTIONS,
        max_retries: int = 0,
        pool_block: bool = False,
    ) -> None:
        if max_retries != 0:
            raise ConfigurationError(
                "max_retries must be 0: urllib3 sleeps between retries, and no cancel "
                "ends that sleep. A Transport retries by itself; elsewhere, retry in "
                "your own code and wait with token.sleep()"
            )
        if pool_block:
            raise ConfigurationError(
                "pool_block must be False: a wait for a free connection could not be "
                "cancelled"
            )
        super().__init__(pool_connections, pool_maxsize)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        _adapters.add(self)  # not in __init__: an unpickled adapter passes only here
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        if proxy.lower().startswith("socks"):
            raise ConfigurationError(
                f"the proxy {redact(proxy)} speaks SOCKS, whose connections cannot be "
                "cancelled; use an http:// or https:// proxy. It may come from the "
                "environment (ALL_PROXY, HTTPS_PROXY): set NO_PROXY for this server, "
                "or trust_env=False"
            )
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def close(self) -> None:
        """Close idle connections now, and those in use as soon as they are idle."""
        for manager in (self.poolmanager, *self.proxy_manager.values()):
            for key in manager.pools.keys():  # noqa: SIM118 - a copy, it may change
                pool = manager.pools.get(key)
                if pool is not None:
                    pool.close()
        super().close()

    def start_over(self) -> None:
        """Forget all connections, and all locks that another thread may have held."""
        self.proxy_manager = {}
        self.init_poolmanager(self._pool_connections, self._pool_maxsize)


_adapters: Final[WeakSet[CancellableAdapter]] = WeakSet()
_shared: Final[Once[CancellableAdapter]] = Once()


def shared_adapter() -> CancellableAdapter:
    """Return the adapter of this process: one pool for everything by default."""
    return _shared.value or _shared.claim(CancellableAdapter())


def cancellable(adapter: BaseAdapter, where: str) -> CancellableAdapter:
    """Return *adapter*, or its cancellable equivalent.

    :param where: the address or prefix it is for, for the message.
    :raises ConfigurationError: a cancel could not end its requests.
    """
    if isinstance(adapter, CancellableAdapter):
        return adapter
    if (
        type(adapter) is HTTPAdapter
        and adapter.max_retries.total == 0
        and not adapter._pool_block
    ):
        return shared_adapter()
    raise ConfigurationError(
        f"the session sends requests to {where} with {adapter!r}, and a cancel could "
        "not end them; derive the adapter from syncagent.transport.CancellableAdapter, "
        "without retries: a Transport has its own"
    )


def close_idle() -> None:
    """Close the idle connections of this process.

    Those in use are not touched. Later requests make new ones.
    """
    for adapter in list(_adapters):
        adapter.close()


@in_child
def _start_over_in_child() -> None:
    close_inherited()
    for adapter in list(_adapters):
        adapter.start_over()
