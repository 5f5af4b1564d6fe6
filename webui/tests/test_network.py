# SPDX-License-Identifier: Apache-2.0
"""The network page and /network.json. recipes/agent/tests tests the agent and ek-network, whose code runs here, too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_agent.network_helper import APPLY_S
from evenkeel_panel.network import model
from evenkeel_panel.testing import BASE

if TYPE_CHECKING:
    from evenkeel_panel.fake_agent import FakeAgent
    from evenkeel_panel.testing import Browser
    from flask import Flask

FIXED = {
    "mode": "fixed",
    "address": "192.168.1.20/24",
    "gateway": "192.168.1.1",
    "dns": "192.168.1.1, 192.168.1.2",
}
PATH = "/network/enp1s0"


def change(admin: Browser, **fields: str) -> Any:
    return admin.post(PATH, "/network", **{**FIXED, **fields})


def network(admin: Browser) -> dict[str, Any]:
    found = admin.get("/network.json").json
    assert found
    return found


def test_the_page_shows_the_interfaces_and_a_form(admin: Browser) -> None:
    page = admin.get("/network").text
    for text in (
        "enp1s0",
        "192.168.1.57/24",
        "52:54:00:12:34:56",
        "no cable",
        "Automatic (DHCP)",
        "Change enp1s0",
    ):
        assert text in page
    assert 'value="192.168.1.57/24"' in page, "the present address is a help for a fixed one"
    assert "Change enp2s0" in admin.get("/network/enp2s0").text
    missing = admin.get("/network/eth9")
    assert missing.status_code == 404
    assert "choose one of the list" in missing.text


def test_a_change_is_confirmed(admin: Browser, agent: FakeAgent) -> None:
    answer = change(admin)
    assert answer.status_code == 200
    assert "https://192.168.1.20/login?to=network" in answer.text
    assert 'data-left="60"' in answer.text
    assert "Keep the change" in answer.text
    assert "This page may lose its connection now" in answer.text
    assert "Change enp1s0" not in answer.text, "one change at a time"
    assert network(admin)["trial"][0]["settings"]["dns"] == ["192.168.1.1", "192.168.1.2"]
    early = admin.post("/network/confirm", "/network")
    assert early.status_code == 409
    assert "not in force yet" in early.text
    agent.network.now_s += APPLY_S + 10
    page = admin.get("/network").text
    assert "You can reach this page" in page
    assert re.search(r'data-left="4[0-9]"', page)
    answer = admin.post("/network/confirm", "/network")
    assert "confirmed and stays" in answer.text
    found = network(admin)
    assert (found["trial"], found["last"]) == ([], "confirmed")
    assert found["interfaces"][0]["settings"]["address"] == "192.168.1.20/24"
    assert "SetNetwork" in admin.get("/audit.json").text


@pytest.mark.parametrize(
    ("how", "sentence"), [("expired", "nobody confirmed it in time"), ("reverted", "by an administrator")]
)
def test_a_change_is_undone(admin: Browser, agent: FakeAgent, how: str, sentence: str) -> None:
    change(admin)
    agent.network.now_s += APPLY_S
    network(admin)
    if how == "expired":
        agent.network.now_s += 60
        late = admin.post("/network/confirm", "/network")
        assert late.status_code == 409
    else:
        assert "undone" in admin.post("/network/revert", "/network").text
    found = network(admin)
    assert (found["trial"], found["last"]) == ([], how)
    assert sentence in admin.get("/network").text
    agent.network.now_s += APPLY_S
    network(admin)
    assert network(admin)["interfaces"][0]["settings"]["mode"] == "dhcp"


@pytest.mark.parametrize(
    ("field", "value", "status", "text"),
    [
        ("address", "", 422, "fixed address is missing"),
        ("address", "192.168.1.20", 422, "has no prefix"),
        ("address", "192.168.1.255/24", 422, "broadcast address"),
        ("address", "x" * 65, 422, "enter at most 64 characters"),
        ("gateway", "192.168.2.1", 422, "not in the network"),
        ("dns", "dns.example.org", 422, "not the address of a DNS server"),
        ("dns", "1.1.1.1 1.1.1.2 1.1.1.3 1.1.1.4", 422, "too many; enter at most 3"),
        ("mode", "static", 422, "choose Automatic or Fixed"),
    ],
)
def test_a_bad_value_changes_nothing_and_stays_in_the_form(
    admin: Browser, field: str, value: str, status: int, text: str
) -> None:
    answer = change(admin, **{field: value})
    assert answer.status_code == status
    assert text.lower() in answer.text.lower()
    assert network(admin)["trial"] == []
    for name in ("address", "gateway", "dns"):
        typed = value if name == field else FIXED[name]
        assert f'value="{typed}"' in answer.text, name
    if text not in ("choose Automatic or Fixed", "enter at most 64 characters"):
        assert re.search(rf'id="{field}"[^>]*aria-invalid="true"', answer.text)


def test_with_dhcp_the_other_fields_do_not_count(admin: Browser) -> None:
    answer = change(admin, mode="dhcp", address="nonsense")
    assert answer.status_code == 409
    assert "has these settings already" in answer.text


def test_only_an_administrator_may_change(admin: Browser, app: Flask) -> None:
    page = admin.post("/account/tokens", "/account", name="x", role="operator", days="30").text
    found = re.search(r"is (ek_[\w-]+)\.", page)
    assert found
    headers = {"Authorization": f"Bearer {found[1]}"}
    client = app.test_client()
    seen = client.get("/network", base_url=BASE, headers=headers)
    assert seen.status_code == 200
    assert "192.168.1.57/24" in seen.text
    assert '<form class="panel"' not in seen.text
    assert client.get("/network.json", base_url=BASE, headers=headers).status_code == 200
    for path in (PATH, "/network/confirm", "/network/revert"):
        assert client.post(path, base_url=BASE, headers=headers, data=FIXED).status_code in (400, 403)
    assert network(admin)["trial"] == []


def test_each_missing_part_has_a_sentence(admin: Browser, agent: FakeAgent) -> None:
    agent.network.silent = "it is not running"
    page = admin.get("/network").text
    assert "state of the network is unknown" in page
    assert "The interfaces are not known" in page
    agent.network.silent, agent.network.gone = "", True
    page = admin.get("/network").text
    assert "ek-network cannot be reached" in page
    assert "192.168.1.57/24" in page
    refused = change(admin)
    assert refused.status_code == 503
    assert 'value="192.168.1.20/24"' in refused.text
    agent.network.gone, agent.network.described = False, {"Interfaces": []}
    assert "has no network interface" in admin.get("/network").text
    agent.dead = "The agent does not answer: it is not running."
    assert admin.get("/network.json").status_code == 503
    assert "agent does not answer" in admin.get("/network").text


def test_an_ipv6_address_has_brackets_in_its_url(admin: Browser) -> None:
    answer = change(admin, address="fd00::20/64", gateway="", dns="")
    assert "https://[fd00::20]/login?to=network" in answer.text


def test_a_restored_change_of_several_interfaces_is_confirmed_as_a_whole(
    admin: Browser, agent: FakeAgent
) -> None:
    fixed = {"mode": "fixed", "gateway": "", "dns": []}
    changes = {"enp1s0": {**fixed, "address": "10.0.0.5/8"}, "enp2s0": {**fixed, "address": "fd00::20/64"}}
    agent._run(agent.network._order({"order": "restore", "changes": changes}))
    page = admin.get("/network").text
    assert "Confirm the change of enp1s0, enp2s0" in page
    assert "enp1s0 changes to 10.0.0.5/8. enp2s0 changes to fd00::20/64. The board undoes this" in page
    assert re.findall(r"https://([^/]+)/login", page)[:2] == ["10.0.0.5", "[fd00::20]"]


def test_every_state_and_field_has_words() -> None:
    from typing import get_args

    from evenkeel_api.features.network import Link, Mode

    assert set(get_args(Link)) == model.LINKS.keys()
    assert set(get_args(Mode)) == model.MODES.keys()
    assert model.field_of("network-prefix-missing") == "address"
    assert model.field_of("agent-bug") == ""


def test_the_link_leads_to_this_page_after_the_log_in(admin: Browser) -> None:
    """At a new address, the browser has no session yet, and the user has only seconds."""
    assert admin.get("/login?to=network").location == "/network"
    admin.post("/logout", "/network")
    page = admin.get("/login?to=network").text
    assert '<input type="hidden" name="to" value="network">' in page
    refused = admin.log_in("wrong", to="network")
    assert 'name="to" value="network"' in refused.text
    opened = admin.log_in(to="network")
    assert opened.location == "/network"


@pytest.mark.parametrize("to", ["", "users", "//evil.example", "https://evil.example/network"])
def test_the_log_in_leads_nowhere_else(admin: Browser, to: str) -> None:
    assert admin.get(f"/login?to={to}").location == "/"
    admin.post("/logout", "/network")
    assert 'name="to"' not in admin.get(f"/login?to={to}").text
    assert admin.log_in(to=to).location == "/"
