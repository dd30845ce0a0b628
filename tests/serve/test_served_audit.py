"""The audit of a run on the server: linked where there is one, made anew from data; nothing in it runs."""

import json
import os
import shutil

import pytest

import regard
from inspection.tiny_runs import folder_of
from serve.tiny_server import opened, serving

DEEP = 100_000
EVIL = "<script>alert(1)</script>"


def lengths(texts):
    long = [float(len(text) > 3) for text in texts]
    return [[0.9 - 0.8 * one, 0.1 + 0.8 * one] for one in long]


def report(name):
    texts = [["a"] * (2 + i % 4) for i in range(20)]
    even = lambda texts: [[1 / len(text)] * len(text) for text in texts]  # noqa: E731
    return regard.audit(predict=lengths, attention=even, inputs=texts, name=name)


def test_a_run_without_an_audit_says_so_and_has_no_link(client, runs):
    assert all(run["audit"] == "" for run in client.get("/api/runs").json())
    answer = client.get("/audit/heads")
    assert answer.status == 422
    assert "regard audit" in answer.json()["error"]
    assert client.get("/audit/nobody").status == 422
    assert client.get("/audit/..%2F..%2Fetc%2Fpasswd").status == 422


def test_an_audit_is_served_from_what_it_says_not_from_the_file_that_lies_there():
    folder = folder_of("bilstm")
    there = folder / "audit"
    report(f"the {EVIL}").save(there / "quick.json")
    (there / "quick.html").write_text(f"<body>{EVIL}</body>", encoding="utf-8")
    try:
        with serving(opened("bilstm")) as client:
            (facts,) = client.get("/api/runs").json()
            assert facts["audit"] == f"/audit/{folder.name}"
            answer = client.get(facts["audit"])
            assert answer.status == 200
            assert EVIL not in answer.body.decode() and "&lt;script&gt;" in answer.body.decode()
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy and "sha256-" in policy and "frame-ancestors 'none'" in policy
            (there / "quick.json").write_text(json.dumps({"grade": "none of these"}), encoding="utf-8")
            assert client.get(facts["audit"]).status == 422
    finally:
        for file in there.iterdir():
            file.unlink()
        there.rmdir()


def changed(path, value):
    """A report in which one thing is another."""
    what = report("a").as_dict()
    *first, last = path
    inside = what
    for part in first:
        inside = inside[part]
    inside[last] = value
    return json.dumps(what).encode()


def without(key):
    what = report("a").as_dict()
    del what[key]
    return json.dumps(what).encode()


TEST = "leave_one_out_correlation"  # one that each of these reports has
HOSTILE = {
    "empty": lambda: b"",
    "bytes": lambda: bytes(range(256)),
    "not an object": lambda: b"[1, 2]",
    "null": lambda: b"null",
    "lists in lists": lambda: DEEP * b"[",
    "objects in objects": lambda: DEEP * b'{"a":' + b"1" + DEEP * b"}",
    "closed lists in lists": lambda: DEEP * b"[" + DEEP * b"]",
    "no tests": lambda: without("tests"),
    "no grade": lambda: without("grade"),
    "something more": lambda: changed(["more"], 1),
    "grade in words": lambda: changed(["grade"], "high"),
    "grade of lists": lambda: changed(["grade"], [[[]]]),
    "grade not a number": lambda: changed(["grade"], float("nan")),
    "grade of many digits": lambda: changed(["grade"], 0).replace(b'"grade": 0', b'"grade": ' + 9999 * b"9"),
    "inputs in words": lambda: changed(["inputs"], "twenty"),
    "tests a list": lambda: changed(["tests"], [1, 2]),
    "conditions a word": lambda: changed(["conditions"], "held"),
    "unknown test": lambda: changed(["tests", "nobody"], report("a").as_dict()["tests"][TEST]),
    "unknown condition": lambda: changed(["conditions", "x"], {"state": "held", "score": 1, "tests": {}}),
    "unknown state": lambda: changed(["conditions", "necessary", "state"], "perhaps"),
    "value in words": lambda: changed(["tests", TEST, "value"], "1"),
    "details of words": lambda: changed(["tests", TEST, "details"], {"tau": ["a", "b"]}),
    "details of lists": lambda: changed(["tests", TEST, "details"], {"tau": [[1], [1, 2]]}),
    "example without words": lambda: changed(["agree"], [{"words": 3}]),
    "words and weights": lambda: changed(
        ["agree"], [{"words": ["a"], "weights": [1, 2], "evidence": [1], "tau": 1, "says": "a"}]
    ),
    "advice a number": lambda: changed(["advice"], 7),
}


@pytest.fixture(scope="module")
def audited():
    """A client, and where the report of its run is."""
    there = folder_of("bilstm") / "audit"
    there.mkdir()
    with serving(opened("bilstm")) as client:
        yield client, there / "full.json"
    shutil.rmtree(there)


def refused(client):
    answer = client.get("/audit/bilstm")
    said = answer.json()["error"]
    assert answer.status == 422 and said.endswith(".") and "\n" not in said and len(said) < 300, said
    return said


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_a_report_holds_the_answer_is_a_sentence(audited, kind):
    client, file = audited
    file.write_bytes(HOSTILE[kind]())
    assert "is not a report that regard has saved" in refused(client)


@pytest.mark.parametrize(
    ("path", "value"),
    [(["tests", TEST, "value"], 1e308), (["tests", TEST, "value"], 10**400), (["grade"], -1e308),
     (["name"], {"a": EVIL}), (["answer"], [EVIL]), (["advice"], EVIL),
     (["tests", TEST, "interval"], ["a", 2, 3])],
)  # fmt: skip
def test_what_is_odd_is_shown_as_text_or_refused(audited, path, value):
    client, file = audited
    file.write_bytes(changed(path, value))
    answer = client.get("/audit/bilstm")
    assert answer.status in (200, 422) and EVIL not in answer.body.decode()


def test_what_is_no_file_of_a_usual_size_is_not_read(audited):
    client, file = audited
    file.unlink()
    os.mkfifo(file)
    assert "not a regular file" in refused(client)
    assert client.get("/api/runs").json()[0]["audit"]
    file.unlink()
    file.symlink_to("/dev/zero")
    assert "not a regular file" in refused(client)
    file.unlink()
    file.symlink_to(file)
    refused(client)
    file.unlink()
    file.mkdir()
    refused(client)
    file.rmdir()
    with file.open("wb") as large:
        large.truncate(100_000_000)
    assert "more than 16,777,216" in refused(client)
    file.unlink()
