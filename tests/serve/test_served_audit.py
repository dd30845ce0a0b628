"""The audit of a run on the server: linked where there is one, made anew from data; nothing in it runs."""

import json

import regard
from inspection.tiny_runs import folder_of
from serve.tiny import opened, serving

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
