"""The server: what it tells the page, samples as streams, and inputs that are wrong."""

from __future__ import annotations

import time

import pytest
import torch

from gsdm_pyg.workbench.answers import Limits
from gsdm_pyg.workbench.server import STATIC
from gsdm_pyg.workbench.subject import Subject
from problems import BCMF
from tests.helpers import CopyTask, tiny_model
from tests.workbench.asking import SAMPLE, client_of, events, refusal


@pytest.fixture(scope="module")
def client(bcmf):
    with client_of(bcmf) as client:
        yield client


def test_the_page_and_all_that_it_names_come_from_the_package(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "<h1" in page.text
    assert "http" not in page.text  # nothing from the network
    size = len(page.content)
    for path in STATIC.iterdir():
        response = client.get(f"/static/{path.name}")
        assert response.status_code == 200
        assert "//cdn" not in response.text
        size += len(response.content)
    assert size < 300_000
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")
    assert client.get("/static/../server.py").status_code == 404
    assert client.get("/static/%2e%2e/server.py").status_code == 404


def test_the_description_names_variables_panels_and_the_sampler(client, bcmf):
    found = client.get("/api/problem").json()
    assert found["label"] == "BCMF(m=2,n=3,k=2)"
    by_name = {variable["name"]: variable for variable in found["variables"]}
    assert list(by_name) == ["A", "R", "C", "E"]
    assert (by_name["A"]["low"], by_name["A"]["high"]) == (0, 1)
    assert by_name["R"]["classes"] == 2
    assert found["panels"][0]["variables"] == ["A", "R", "E"]
    assert found["others"] == ["C"]
    assert found["model"]["sampler"] == str(bcmf.model.sampler)


def test_the_graph_of_a_small_problem_is_drawn_and_a_large_one_is_a_mask(client):
    small = client.get("/api/graph").json()
    assert small["nodes"] == len(small["drawing"]["at"]) == 28
    problem = BCMF(m=6, n=6, k=6)
    large = Subject("large", problem, tiny_model(BCMF.family(m=6, n=6, k=(2, 6))))
    with client_of(large) as other:
        found = other.get("/api/graph").json()
    assert found["drawing"] is None
    assert found["mask"]["cells"] == 200  # of 324 nodes


def test_an_instance_is_one_of_the_problem_and_the_seed_chooses_it(client, bcmf):
    first, again, other = (
        client.post("/api/draw", json={"seed": seed}).json() for seed in (1, 1, 2)
    )
    assert first == again != other
    A, R, E = (
        torch.tensor(first["values"][name]).view(bcmf.graph.variables[name].shape)
        for name in ("A", "R", "E")
    )
    torch.testing.assert_close(A @ R.float(), E, atol=1e-3, rtol=0)
    assert all(first["given"]["E"]) and not any(first["given"]["A"])


def test_a_sample_streams_estimates_and_ends_with_what_the_model_samples(client, bcmf):
    response = client.post("/api/sample", json={**SAMPLE, "seed": 3, "steps": 10})
    assert response.headers["content-type"].startswith("text/event-stream")
    *estimates, done = events(response.text)
    assert done["event"] == "done"
    assert done["evaluations"] == done["total"] == 10
    given = torch.tensor([[0.1, torch.nan, 0.3], [torch.nan, torch.nan, 1.2]])
    samples = bcmf.model.sample(bcmf.problem, {"E": given}, 2, generator=3, steps=10)
    for name in ("A", "R", "E"):
        shown = torch.tensor(done["values"][name], dtype=torch.double)
        expected = samples[name].flatten(1).double()
        torch.testing.assert_close(shown, expected, atol=1e-3, rtol=0)
    shown = [event for event in estimates if event["event"] == "estimate"]
    for event in shown:
        assert all(0.5 <= c <= 1 for c in event["certainty"]["R"][0])
    counts = [event["evaluations"] for event in shown]
    assert counts == sorted(counts)


def test_solving_goes_on_until_all_rules_hold_and_says_which_are_broken(sudoku):
    question = {"num_samples": 3, "solve": True}
    with client_of(sudoku) as client:
        solved = events(client.post("/api/sample", json=question).text)
        sampled = events(client.post("/api/sample", json={"steps": 1}).text)
    done = solved[-1]
    assert done["broken"] == [[], [], []]
    assert not any(map(any, done["wrong"]["cells"]))
    for cells in done["values"]["cells"]:
        grid = torch.tensor(cells).view(1, 4, 4)
        assert not sudoku.problem.violations({"cells": grid})["a digit twice"].any()
    # A model that has learned nothing breaks the rules, and the cells are marked.
    assert sampled[-1]["broken"] == [["a digit twice"]]
    cells = torch.tensor(sampled[-1]["values"]["cells"]).view(1, 4, 4)
    clashes = sudoku.problem.violations({"cells": cells})["a digit twice"] > 0
    assert sampled[-1]["wrong"]["cells"] == clashes.flatten(1).tolist()


def test_what_cannot_be_solved_ends_and_says_what_is_broken(impossible):
    with client_of(impossible, limits=Limits(evaluations=30)) as client:
        response = client.post("/api/sample", json={"solve": True, "steps": 10})
    done = events(response.text)[-1]
    assert done["event"] == "done" and done["broken"] == [["s"]]
    assert done["wrong"]["s"] == [[True] * 3]
    assert 10 <= done["evaluations"] <= 30


def test_rules_that_fail_or_are_slow_do_not_hold_up_samples(bcmf, monkeypatch):
    asked = []

    def slow(self, samples):
        asked.append(time.sleep(0.05))
        return {"E": torch.zeros(1)}

    def fail(self, samples):
        raise ZeroDivisionError

    with client_of(bcmf) as client:
        monkeypatch.setattr(BCMF, "violations", slow)
        found = events(client.post("/api/sample", json={"steps": 20}).text)
        assert found[-1]["broken"] == [[]]
        assert len(asked) == 2  # of the first estimate, and of the sample
        monkeypatch.setattr(BCMF, "violations", fail)
        found = events(client.post("/api/sample", json={"steps": 2}).text)
        assert found[-1]["event"] == "done" and "broken" not in found[-1]


def test_what_has_no_rules_is_not_solved():
    problem = CopyTask(n=2)
    with client_of(Subject("copy", problem, tiny_model(problem))) as client:
        assert not client.get("/api/problem").json()["has_rules"]
        response = client.post("/api/sample", json={"solve": True})
    assert "does not say what a solution is" in refusal(response, 400)


def test_what_is_given_whole_is_not_sent_back(client):
    given = {"E": [0.5] * 6, "R": [1] * 6}
    response = client.post("/api/sample", json={"given": given, "steps": 2})
    assert list(events(response.text)[-1]["values"]) == ["A"]


def test_a_variable_that_is_too_large_for_frames_is_left_out(bcmf, monkeypatch):
    monkeypatch.setattr("gsdm_pyg.workbench.frames.MOST_ENTRIES", 11)
    with client_of(bcmf) as client:
        response = client.post("/api/sample", json={"num_samples": 2, "steps": 2})
    assert list(events(response.text)[-1]["values"]) == ["A"]  # 8, R and E have 12


WRONG = {
    "no JSON": ("{", "The request is not JSON"),
    "NaN": ('{"given": {"E": [NaN]}}', "NaN is not a number"),
    "infinity": ('{"given": {"E": [1e999, 0, 0, 0, 0, 0]}}', "An entry of E"),
    "deep": ("[" * 4000, "The request is not JSON"),
    "a list": ("[]", "an object of JSON (got list)"),
    "unknown key": ('{"gven": {}}', "did you mean 'given'?"),
    "unknown variable": ('{"given": {"B": [1]}}', "The variables are A, R, C, E"),
    "number of entries": ('{"given": {"E": [1, 2]}}', "a list of its 6 entries"),
    "nested": ('{"given": {"E": [[1], 2, 3, 4, 5, 6]}}', "An entry of E is a number"),
    "text": ('{"given": {"E": ["1", 2, 3, 4, 5, 6]}}', "(got '1')"),
    "truth value": ('{"given": {"E": [true, 2, 3, 4, 5, 6]}}', "(got True)"),
    "long integer": (
        '{"given": {"E": [1%s, 2, 3, 4, 5, 6]}}' % ("0" * 400),
        "An entry",
    ),
    "domain": ('{"given": {"R": [2, 0, 0, 0, 0, 0]}}', "takes classes 0..1"),
    "half a class": ('{"given": {"R": [0.5, 0, 0, 0, 0, 0]}}', "takes classes 0..1"),
    "bounds": ('{"given": {"A": [1.5, 0, 0, 0]}}', "real numbers in [0, 1]"),
    "no samples": ('{"num_samples": 0}', "num_samples: Input should be greater than 0"),
    "many samples": ('{"num_samples": 17}', "at most 16 samples at once"),
    "negative seed": ('{"seed": -1}', "seed: Input should be greater"),
    "large seed": ('{"seed": 4611686018427387904}', "A seed is less than 2**62"),
    "no steps": ('{"steps": 0}', "steps: Input should be greater than 0"),
    "many steps": ('{"steps": 401}', "between 1 and num_timesteps, 400"),
}


@pytest.mark.parametrize("case", WRONG)
def test_malformed_questions_are_refused_with_one_sentence(client, case):
    body, message = WRONG[case]
    headers = {"Content-Type": "application/json"}
    response = client.post("/api/sample", content=body, headers=headers)
    assert message in refusal(response, 400)


LONG = {
    "many keys": ({f"key {i}": 1 for i in range(300)}, "at most 20 keys (got 300)"),
    "a few unknown keys": ({f"key {i}": 1 for i in range(20)}, "Unknown setting"),
    "long key": ({"k" * 4000: 1}, "Unknown setting"),
    "many variables": ({"given": {f"X{i}": 1 for i in range(300)}}, "The variables"),
    "long text": ({"steps": "9" * 4000}, "steps must be between 1 and"),
}


@pytest.mark.parametrize("case", LONG)
def test_refusals_are_short_whatever_is_sent(client, case):
    question, message = LONG[case]
    found = refusal(client.post("/api/sample", json=question), 400)
    assert message in found and len(found) <= 300


def test_errors_while_it_samples_are_short_too(bcmf, monkeypatch):
    def fail(*arguments, **named):
        raise ValueError("the first line\n" + "more lines\n" * 1000)

    monkeypatch.setattr(bcmf.model, "sample", fail)
    with client_of(bcmf) as client:
        response = client.post("/api/sample", json={})
    last = events(response.text)[-1]
    assert last == {"event": "error", "message": "the first line"}


def test_a_full_queue_refuses_before_it_reads_the_question(bcmf):
    with client_of(bcmf, limits=Limits(waiting=0)) as client:
        response = client.post("/api/sample", content="{")
        assert "The workbench is busy" in refusal(response, 503)


def test_contradicting_clues_are_refused_by_the_problem(sudoku):
    cells = [0, 0, *[None] * 14]
    with client_of(sudoku) as client:
        response = client.post("/api/sample", json={"given": {"cells": cells}})
    assert "contradict each other" in refusal(response, 400)


def test_other_content_is_refused(client):
    response = client.post("/api/sample", content="{}")
    assert "application/json" in refusal(response, 415)
    response = client.post("/api/sample", data={"given": "1"})
    assert "application/json" in refusal(response, 415)


@pytest.mark.parametrize(("path", "most"), [("sample", 4096 + 32 * 28), ("draw", 4096)])
def test_requests_longer_than_the_problem_needs_are_refused(client, bcmf, path, most):
    assert bcmf.graph.num_nodes == 28
    headers = {"Content-Type": "application/json"}
    for size, status in ((most, 200), (most + 1, 413)):
        content = '{"seed": 0}'.ljust(size)
        response = client.post(f"/api/{path}", content=content, headers=headers)
        assert response.status_code == status
    assert f"at most {most:,} bytes" in refusal(response, 413)


def test_requests_of_the_largest_problems_are_bounded_too(bcmf, monkeypatch):
    monkeypatch.setattr("gsdm_pyg.workbench.server.MOST_BYTES", 4100)
    with client_of(bcmf) as client:
        content = '{"steps": 2}'.ljust(4101)
        headers = {"Content-Type": "application/json"}
        response = client.post("/api/sample", content=content, headers=headers)
    assert "at most 4,100 bytes" in refusal(response, 413)


def test_a_request_may_give_every_entry_with_all_its_digits(client, bcmf):
    number = -2.2250738585072014e-308  # the longest that JavaScript writes
    longest = {name: [number] * v.num_nodes for name, v in bcmf.graph.variables.items()}
    response = client.post("/api/sample", json={"given": longest})
    assert "takes real numbers" in refusal(response, 400)  # it is read


@pytest.mark.parametrize("path", ["/api/nothing", "/api/training/pictures/..%2fx.png"])
def test_unknown_addresses_are_not_found(client, path):
    refusal(client.get(path), 404)


def test_wrong_methods_are_refused(client):
    refusal(client.get("/api/sample"), 405)


def test_a_large_problem_gets_fewer_samples_at_once(bcmf):
    with client_of(bcmf, limits=Limits(nodes=60)) as client:
        response = client.post("/api/sample", json={"num_samples": 3})
        assert "at most 2 samples" in refusal(response, 400)


def test_without_a_model_the_page_shows_the_problem_and_no_samples(bcmf):
    with client_of(Subject("config", bcmf.problem)) as client:
        assert client.get("/api/problem").json()["model"] is None
        assert client.post("/api/draw", json={"seed": 0}).status_code == 200
        response = client.post("/api/sample", json={})
        assert "no trained model yet" in refusal(response, 400)


def test_a_problem_that_cannot_draw_says_so(bcmf):
    class Silent(BCMF, register=False):
        def sample_batch(self, num, generator=None):
            raise TypeError("Silent cannot draw instances (got neither).")

    with client_of(Subject("silent", Silent(m=2, n=3, k=2))) as client:
        response = client.post("/api/draw", json={"seed": 0})
        assert "cannot draw instances" in refusal(response, 400)


def test_a_failure_inside_the_model_ends_the_stream_with_its_reason(bcmf, monkeypatch):
    def fail(*arguments, **named):
        raise RuntimeError("out of\nluck")

    monkeypatch.setattr(bcmf.model, "sample", fail)
    with client_of(bcmf) as client:
        response = client.post("/api/sample", json={})
    event = events(response.text)[-1]
    assert event["event"] == "error" and "(got out of luck)" in event["message"]


def test_a_problem_without_panels_of_its_own_is_shown_by_shapes_and_domains():
    problem = CopyTask(n=20)
    with client_of(Subject("copy", problem, tiny_model(problem))) as client:
        panels = client.get("/api/problem").json()["panels"]
        assert client.post("/api/draw", json={"seed": 0}).status_code == 200
    kinds = [(panel["kind"], panel["variables"]) for panel in panels]
    assert kinds == [("path", ["x", "y"]), ("grid", ["z"])]
