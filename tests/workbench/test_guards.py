"""Whom the server answers: its own page, under its own names."""

from __future__ import annotations

import pytest

from tests.workbench.asking import SAMPLE, client_of, refusal

FOREIGN = ["http://evil.example", "null", "http://127.0.0.1:1", "file://", ""]


@pytest.fixture(scope="module")
def client(bcmf):
    with client_of(bcmf) as client:
        yield client


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("path", ["/api/sample", "/api/draw"])
def test_other_origins_are_refused(client, path, origin):
    response = client.post(path, json=SAMPLE, headers={"Origin": origin})
    assert "its own page only" in refusal(response, 403)
    assert "access-control-allow-origin" not in response.headers


def test_other_origins_cannot_read_either(client):
    response = client.get("/api/problem", headers={"Origin": "http://evil.example"})
    refusal(response, 403)
    response = client.get("/api/problem")
    assert response.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_are_refused_also_without_an_origin(client, site):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    for path in ("/api/graph", "/api/training", "/static/main.js", "/"):
        assert "its own page only" in refusal(client.get(path, headers=headers), 403)
    headers["Sec-Fetch-Mode"] = "navigate"
    refusal(client.get("/api/graph", headers=headers), 403)
    assert client.get("/", headers=headers).status_code == 200  # a link to the page


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_own_page_and_its_user_are_answered(client, site):
    response = client.get("/api/problem", headers={"Sec-Fetch-Site": site})
    assert response.status_code == 200


def test_the_own_origin_is_answered(client):
    headers = {"Origin": "http://127.0.0.1:8765"}
    response = client.post("/api/draw", json={"seed": 0}, headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "", "[", "a b"])
def test_names_that_were_rebound_to_this_machine_are_refused(client, host):
    response = client.get("/", headers={"Host": host})
    assert "gsdm show" in refusal(response, 403)


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1:1", "[::1]:8765"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 200


def test_addresses_are_answered_only_if_the_server_listens_to_the_network(bcmf, client):
    headers = {"Host": "192.168.1.7:8765"}
    refusal(client.get("/", headers=headers), 403)
    with client_of(bcmf, host="0.0.0.0") as open_client:
        assert open_client.get("/", headers=headers).status_code == 200
        response = open_client.get("/", headers={"Host": "evil.example"})
        refusal(response, 403)


def test_pages_cannot_be_framed(client):
    policy = client.get("/").headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
