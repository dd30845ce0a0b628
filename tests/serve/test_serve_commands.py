"""view and serve as one types them, and every wrong way to."""

import json
import os
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import pytest
import torch

from commands import complaint, run
from inspection.tiny_runs import COPIED as TEXT
from inspection.tiny_runs import folder_of, system_of
from regard.inspection import inspect

RUN = [sys.executable, "-c", "from regard.cli import main; main()"]
STARTS = {"html": b"<!DOCTYPE html>", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("ending", STARTS)
def test_view_writes_a_picture_and_says_what_was_said(tmp_path, ending):
    file = tmp_path / f"weights.{ending}"
    done = run("view", folder_of("heads"), "--text", TEXT, "--out", file)
    assert done.exit_code == 0, done.output
    answer, path = done.stdout.splitlines()
    assert path == str(file) and answer.split()
    assert file.read_bytes().startswith(STARTS[ending])


@pytest.mark.parametrize("kind", ["heat_map", "lines", "words", "steps", "heads", "layers"])
def test_view_draws_every_kind(tmp_path, kind):
    file = tmp_path / "weights.html"
    done = run("view", folder_of("heads"), "--text", TEXT, "--kind", kind, "--out", file)
    assert done.exit_code == 0, done.output
    page = file.read_text(encoding="utf-8")
    assert f'"kind":"{kind}"' in page and "scaled_dot" in page and len(page) < 150_000


def test_view_draws_the_layer_and_head_asked_for(tmp_path):
    file = tmp_path / "weights.html"
    done = run("view", folder_of("heads"), "--text", TEXT, "--layer", 1, "--head", 2, "--out", file)
    assert done.exit_code == 0
    page = file.read_text(encoding="utf-8")
    assert "layer 1 of 2, head 2 of 2 (decoder.0.cross)" in page
    data = json.loads(re.search('<script type="application/json"[^>]*>(.*?)</script>', page)[1])
    wanted = inspect(system_of("heads"), TEXT).weights[0][1]
    torch.testing.assert_close(torch.tensor(data["matrices"][0]["weights"]), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--layer", 3], "--layer must be from 1 to 2; got 3"),
        (["--head", 9], "--head must be from 1 to 2; got 9"),
        (["--layer", 0], "Invalid value for '--layer'"),
        (["--kind", "pie"], 'no kind "pie". Known: heat_map'),
        (["--kind", "heads", "--head", 1], "kind heads shows all layers"),
        (["--out", "weights.doc"], "weights.doc"),
        (["--out", "/proc/weights.html"], "cannot be written"),
        (["--text", "  "], "there are no words"),
    ],
)
def test_wrong_views_are_named(tmp_path, more, says):
    given = {"--text": TEXT, "--out": tmp_path / "weights.html"}
    given |= dict(zip(more[::2], more[1::2], strict=True))
    assert says in complaint("view", folder_of("heads"), *(part for pair in given.items() for part in pair))
    assert list(tmp_path.iterdir()) == []


def test_runs_that_are_none_are_named(tmp_path):
    assert "has no attention" in complaint(
        "view", folder_of("rnn"), "--text", TEXT, "--out", tmp_path / "a.html"
    )
    assert "there is no folder" in complaint(
        "view", tmp_path / "no", "--text", "a", "--out", tmp_path / "a.html"
    )
    assert "holds no run" in complaint("serve", tmp_path)
    assert "the same folder twice" in complaint("serve", folder_of("heads"), folder_of("heads"))
    assert "cannot listen at 203.0.113.1" in complaint(
        "serve", folder_of("heads"), "--host", "203.0.113.1", "--port", 1
    )


@pytest.mark.parametrize(
    ("host", "number"),
    [("127.0.0.1", signal.SIGINT), ("0.0.0.0", signal.SIGTERM), ("127.0.0.1", signal.SIGKILL)],
)
def test_serve_prints_its_address_and_leaves_nothing_behind(host, number):
    folders = [str(folder_of(name)) for name in ("heads", "sparse", "rnn")]
    process = subprocess.Popen(
        [*RUN, "serve", *folders, "--host", host, "--port", "0", "--seconds", "600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "REGARD_TOKEN": ""},
    )
    try:
        address = urlsplit(process.stdout.readline().strip())
        assert address.hostname == host and ("token=" in address.query) == (host == "0.0.0.0")
        connection = HTTPConnection("127.0.0.1", address.port, timeout=30)
        connection.request("GET", f"/?{address.query}")
        reply = connection.getresponse()
        assert reply.status == (303 if address.query else 200) and reply.read() is not None
        headers = {"Content-Type": "application/json", "Cookie": reply.headers.get("Set-Cookie", "")}
        asked = ("POST", "/api/inspect", json.dumps({"run": "heads", "text": TEXT}), headers)
        connection.request(*asked)
        reply = connection.getresponse()
        assert reply.status == 200 and reply.read()
        (worker,) = workers_of(process.pid)
        os.kill(worker, signal.SIGSTOP)  # it answers no more, and hears of nothing but SIGKILL
        connection.request(*asked)
        started = monotonic()
    finally:
        process.send_signal(number)
        _, said = process.communicate(timeout=120)  # whoever holds its output has ended, too
    assert "Traceback" not in said and monotonic() - started < 300  # the deadline of the request is 600 s
    assert "serving heads, sparse, rnn" in said
    assert process.returncode in (0, 130, -number)
    while Path(f"/proc/{worker}").exists() and monotonic() < started + 30:
        sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()


def workers_of(pid):
    """The processes that this one has started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
