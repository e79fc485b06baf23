"""Fetching from the web: what is out of reach stays there, however it is spelled, redirected or renamed; what is fetched is bounded.

Tests of swarm/tools/web/page.py, swarm/tools/web/pages.py, swarm/tools/web/reach.py.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from swarm.core.errors import ToolError
from swarm.tools.web import page as module
from swarm.tools.web.page import fetch
from swarm.tools.web.pages import read_page
from swarm.tools.web.reach import Reach, own_addresses, resolve

_PAGE = (
    b"<html><head><title>A page</title><style>p{}</style></head><body><nav>menu</nav><h2>Part</h2><p>Some <b>bold</b> "
    b"<a href='/x'>link</a></p><script>evil()</script></body></html>"
)


class _Site(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.server.asked.append(self.headers["Host"])  # type: ignore[attr-defined]
        path, _, where = self.path.partition("?to=")
        match path:
            case "/page":
                self._send(_PAGE, "text/html; charset=utf-8")
            case "/moved":
                self.send_response(302)
                self.send_header("Location", where)
                self.send_header("Content-Length", "0")
                self.end_headers()
            case "/round":
                self.send_response(302)
                self.send_header("Location", "/round")
                self.end_headers()
            case "/bomb":
                self._send(gzip.compress(b"0" * 20_000_000), "text/plain", **{"Content-Encoding": "gzip"})
            case "/deep":
                self._send(b"<html><body>" + b"<div>" * 20_000 + b"ground", "text/html")
            case "/picture":
                self._send(b"\x89PNG\0\0", "image/png")
            case "/odd":
                self._send("grün".encode("latin-1"), "text/plain; charset=latin-1")
            case "/slow" | "/slower":
                self._drip(head=path == "/slower")
            case _:
                self._send(b"no", "text/plain", 404)

    def _drip(self, *, head: bool) -> None:
        self.send_response(200)
        if head:
            self.flush_headers()
        else:
            self.end_headers()
        while not self.server.over.wait(0.05):  # type: ignore[attr-defined]
            try:
                self.wfile.write(b"x")
            except OSError:
                return

    def _send(self, body: bytes, kind: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Site)
        self.asked: list[str] = []
        self.over = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.over.set()
        server.shutdown()


def _open(server: _Server, *names: str) -> Reach:
    """Reaches this server under `names`; anything else as from outside."""
    return Reach(
        excepted=[f"{name}:{server.port}" for name in names],
        resolver=lambda host, port: ["127.0.0.1"] if host in names else resolve(host, port),
    )


_OUT_OF_REACH = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "017700000001", "0", "0.0.0.0", "localhost", "localhost.",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::1]",
    "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]", "169.254.169.254", "2852039166",
    "0xa9fea9fe", "[::ffff:169.254.169.254]", "10.0.0.1", "10.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "192.0.0.1", "192.0.2.1", "[2001:db8::1]", "①②⑦.0.0.1",
    "[fec0::1]", "[feff::1]", "168.63.129.16", "0xa83f8110", "[::ffff:168.63.129.16]", "100.100.100.200", "[fd00:ec2::254]",
]  # fmt: skip


@pytest.mark.parametrize("host", _OUT_OF_REACH)
def test_addresses_of_ones_own_are_out_of_reach_in_every_spelling(server: _Server, host: str) -> None:
    with pytest.raises(ToolError):
        fetch(f"http://{host}:{server.port}/page", Reach())
    assert server.asked == []


@pytest.mark.parametrize("address", sorted(own_addresses()))
def test_this_hosts_own_addresses_are_out_of_reach_where_private_networks_are_not(
    server: _Server, address: str
) -> None:
    reach = Reach(private=True, never=own_addresses(), resolver=lambda *_: [address])
    with pytest.raises(ToolError, match="is not fetched from"):
        fetch(f"http://inside.example:{server.port}/page", reach)
    assert server.asked == []


def test_a_private_network_is_reached_where_it_may_be() -> None:
    reach = Reach(private=True, never=["10.0.0.9"], resolver=lambda host, _: [host])
    assert reach.find_address("10.0.0.1", 80) == "10.0.0.1"
    for never in ("10.0.0.9", "169.254.169.254", "127.0.0.1"):
        with pytest.raises(ToolError):
            reach.find_address(never, 80)


@pytest.mark.parametrize(
    "address",
    [
        "168.63.129.16",
        "100.100.100.200",
        "169.254.170.2",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
        "fe80::a9fe:a9fe",
        "::ffff:100.100.100.200",
    ],
)
def test_where_a_cloud_keeps_credentials_is_never_reached(address: str) -> None:
    with pytest.raises(ToolError, match="is never reached"):
        Reach(private=True, resolver=lambda *_: [address]).find_address("inside.example", 80)


@pytest.mark.parametrize("address", ["100.100.100.201", "fd00:ec3::1", "fec0::1"])
def test_private_networks_beside_those_are_reached_where_they_may_be(address: str) -> None:
    reach = Reach(private=True, resolver=lambda *_: [address])
    assert reach.find_address("inside.example", 80) == address


def test_one_address_of_several_that_is_out_of_reach_is_enough() -> None:
    with pytest.raises(ToolError, match=r"10\.0\.0\.1 is in a private network"):
        Reach(resolver=lambda *_: ["93.184.216.34", "10.0.0.1"]).find_address("mixed.example", 443)


def test_a_name_that_means_another_address_a_moment_later_leads_nowhere_else(server: _Server) -> None:
    answers = iter([["127.0.0.1"], ["10.9.9.9"]])
    reach = Reach(excepted=["rebind.example"], resolver=lambda *_: next(answers))
    # Looked up once: the connection goes to the address that was looked at.
    assert fetch(f"http://rebind.example:{server.port}/page", reach).status == 200
    assert list(answers) == [["10.9.9.9"]]
    guarded = Reach(resolver=lambda *_: ["127.0.0.1"])
    with pytest.raises(ToolError, match="this host"):
        fetch(f"http://rebind.example:{server.port}/page", guarded)
    assert server.asked == [f"rebind.example:{server.port}"]


@pytest.mark.parametrize(
    "to", ["http://localhost:{port}/page", "http://2130706433:{port}/page", "//127.0.0.1:{port}/page"]
)
def test_a_redirect_to_another_host_is_told_not_followed(server: _Server, to: str) -> None:
    page = fetch(
        f"http://site.example:{server.port}/moved?to={to.format(port=server.port)}", _open(server, "site.example")
    )
    assert page.moved_to.endswith(to.format(port=server.port).partition("//")[2])
    assert len(server.asked) == 1


def test_each_redirect_within_a_host_is_looked_at_again(server: _Server) -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    reach = Reach(resolver=lambda *_: next(answers), excepted=[])
    first = Reach(resolver=reach.resolver, excepted=["rebind.example"])
    assert fetch(f"http://rebind.example:{server.port}/page", first).status == 200
    with pytest.raises(ToolError, match=r"169\.254\.169\.254"):
        fetch(f"http://rebind.example:{server.port}/page", reach)


def test_a_redirect_within_the_host_is_followed_and_a_circle_ends(server: _Server) -> None:
    reach = _open(server, "site.example", "www.site.example")
    page = fetch(f"http://site.example:{server.port}/moved?to=http://www.site.example:{server.port}/page", reach)
    assert (page.status, page.url) == (200, f"http://www.site.example:{server.port}/page")
    with pytest.raises(ToolError, match="more than 10 times"):
        fetch(f"http://site.example:{server.port}/round", reach)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://x/",
        "gopher://x",
        "http://",
        "nonsense",
        "http://me:pw@site/",
        "http://x" + "y" * 3000,
    ],
)
def test_what_is_not_an_address_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(ToolError):
        fetch(url, Reach())


def test_html_becomes_markdown_without_what_nobody_reads(server: _Server) -> None:
    text = read_page(fetch(f"http://s.example:{server.port}/page", _open(server, "s.example")))
    assert text.startswith("# A page\n\n## Part\n\nSome **bold** [link](/x)")
    assert not any(word in text for word in ("evil", "menu", "p{}"))


def test_a_page_as_deep_as_no_page_is_still_read(server: _Server) -> None:
    assert "ground" in read_page(fetch(f"http://s.example:{server.port}/deep", _open(server, "s.example")))


def test_other_encodings_are_read_and_pictures_are_not(server: _Server) -> None:
    reach = _open(server, "s.example")
    assert read_page(fetch(f"http://s.example:{server.port}/odd", reach)) == "grün"
    with pytest.raises(ToolError, match="image/png"):
        read_page(fetch(f"http://s.example:{server.port}/picture", reach))


def test_a_packed_bomb_is_cut(server: _Server) -> None:
    page = fetch(f"http://s.example:{server.port}/bomb", _open(server, "s.example"))
    assert (len(page.body), page.complete) == (module.MAX_BYTES, False)


@pytest.mark.parametrize("what", ["slow", "slower"])
def test_a_server_that_drips_is_left(server: _Server, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(module, "MAX_SECONDS", 0.3)
    with pytest.raises(ToolError, match="took longer"):
        fetch(f"http://s.example:{server.port}/{what}", _open(server, "s.example"))


def test_a_cancel_ends_a_fetch(server: _Server) -> None:
    class Told(Exception):
        pass

    began = time.monotonic()

    def check() -> None:
        if time.monotonic() - began > 0.2:
            raise Told

    with pytest.raises(Told):
        fetch(f"http://s.example:{server.port}/slow", _open(server, "s.example"), check)
