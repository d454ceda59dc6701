"""The admin application as a browser test needs it: restartable at one address."""

from deuz_proxy.edge.admin import AdminParts, make_admin
from deuz_proxy.edge.admin_web import Application
from deuz_proxy.sinks.feed import Feed
from deuz_testing.browser import Tab
from deuz_testing.feed_events import agent_session, started

ROWS = "document.querySelectorAll('#requests > li')"


class Served:
    """The admin application on a port that stays the same when it restarts."""

    def __init__(self, feed: Feed, token: str | None = None) -> None:
        self.feed = feed
        self.port = 0
        self._token = token
        self._app: Application | None = None

    async def start(self) -> None:
        parts = AdminParts(
            self.feed,
            metrics=lambda accept: (b"", "text/plain"),
            readiness=tuple,
            config=lambda: {"listen": "0.0.0.0:5151"},
        )
        self._app = make_admin(parts, token=self._token)
        self.port = await self._app.listen("127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._app is not None:
            await self._app.close(grace_seconds=1.0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


async def open_session(tab: Tab, served: Served) -> None:
    """Open the page on the sample session of eight requests."""
    for event in agent_session():
        served.feed(started(event.request_id))
        served.feed(event)
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 8")


async def text_of(tab: Tab, selector: str) -> str:
    text: str = await tab.run(f"document.querySelector({selector!r}).innerText")
    return text.replace("\u202f", " ")
