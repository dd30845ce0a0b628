"""Who may ask: names of this host, and the token where others can reach it."""

import socket

import pytest

from regard.core.errors import SettingsError
from regard.serve.guard import host_name
from regard.serve.server import is_loopback, listen, token_for
from serve.tiny_server import serving

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "10.0.0.1"]
)
def test_other_names_are_refused(client, host):
    reply = client.get("/api/runs", Host=host)
    assert reply.status == 421 and "localhost" in reply.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "localhost."])
def test_names_of_this_machine_are_not(client, host):
    assert client.get("/api/runs", Host=host).status == 200


@pytest.mark.parametrize(
    ("host", "name"), [("a:1", "a"), ("[::1]:2", "::1"), ("[::1]", "::1"), ("A.b.", "a.b"), ("a:b", "a:b")]
)
def test_the_name_in_a_host(host, name):
    assert host_name(host) == name


@pytest.mark.parametrize(
    ("host", "near"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("192.168.1.2", False), ("host.example", False), ("localhost.evil.example", False)],
)  # fmt: skip
def test_loopback(host, near, monkeypatch):
    monkeypatch.delenv("REGARD_TOKEN", raising=False)
    assert is_loopback(host) is near
    assert (token_for(host) is None) is near


def test_the_token_is_drawn_or_given_and_never_weak(monkeypatch):
    monkeypatch.delenv("REGARD_TOKEN", raising=False)
    assert token_for("0.0.0.0") != token_for("0.0.0.0") and len(token_for("0.0.0.0")) >= 32
    monkeypatch.setenv("REGARD_TOKEN", TOKEN)
    assert token_for("0.0.0.0") == TOKEN
    for weak in ("short", "a;b" * 10, "line\r\nX-Header: 1 and more"):
        monkeypatch.setenv("REGARD_TOKEN", weak)
        with pytest.raises(SettingsError, match="REGARD_TOKEN must be"):
            token_for("0.0.0.0")


def test_nothing_is_answered_without_the_token(runs):
    with serving(runs, names=None, token=TOKEN) as client:
        for path in (
            "/",
            "/api/runs",
            "/assets/page.js",
            "/nothing",
            f"/api/runs?token={TOKEN}",
            "/?token=x",
        ):
            reply = client.get(path)
            assert reply.status == 401 and "token" in reply.json()["error"]
        assert client.inspect("du ga").status == 401
        for wrong in (f"{TOKEN}x", "", "Bearer", "é"):
            assert client.get("/", Authorization=f"Bearer {wrong}".encode()).status == 401
        assert client.get("/", Cookie="regard=wrong; =;;").status == 401

        assert client.get("/api/runs", Authorization=f"Bearer {TOKEN}", Host="any.example").status == 200
        arrived = client.get(f"/?token={TOKEN}")
        assert arrived.status == 303 and arrived.headers["location"] == "/"
        cookie = arrived.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert client.get("/", Cookie=cookie.split(";")[0]).status == 200


def test_a_port_that_is_taken_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as there:
        there.listen()
        with pytest.raises(OSError):
            listen("127.0.0.1", there.getsockname()[1])
    with listen("127.0.0.1", 0) as free:
        assert free.getsockname()[1] > 0
