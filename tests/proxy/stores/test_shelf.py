from deuz_proxy.stores.redis_server import RedisServer
from deuz_proxy.stores.redis_shelf import RedisShelf
from deuz_proxy.stores.shelf import Put, Shelf


async def test_a_server_is_a_shelf() -> None:
    server = RedisServer("redis://127.0.0.1:1", connect_seconds=1.0)

    shelf: Shelf = RedisShelf(server)

    assert callable(shelf.read)
    assert Put(b"k", b"", is_modest=False) == (b"k", b"", False)
    await server.close()
