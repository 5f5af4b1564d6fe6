# SPDX-License-Identifier: Apache-2.0
"""The check of network settings that somebody typed, and the file for systemd-networkd."""

from ipaddress import ip_address, ip_interface

import pytest
from evenkeel_agent.network_config import BadConfig, Config, checked, file_name, interface_name, render
from hypothesis import given, settings
from hypothesis import strategies as st


def refusal(address: str, gateway: str = "", dns: tuple[str, ...] = (), mode: str = "fixed") -> str:
    """The code with which the settings are refused."""
    with pytest.raises(BadConfig) as refused:
        checked(mode, address, gateway, dns)
    assert str(refused.value) != refused.value.message.code, "the code has no text"
    assert "{" not in str(refused.value)
    return refused.value.message.code


def test_good_settings_are_kept_in_their_normal_form() -> None:
    assert checked("dhcp", "", "", []) == Config()
    assert checked("fixed", " 192.168.1.20/24 ", "192.168.1.1", ["1.1.1.1", "1.1.1.1", "FD00::1"]) == Config(
        "fixed", "192.168.1.20/24", "192.168.1.1", ("1.1.1.1", "fd00::1")
    )
    assert checked("fixed", "10.0.0.1/255.0.0.0", "", []).address == "10.0.0.1/8"
    assert checked("fixed", "FD00:0::20/64", "fe80::1", []) == Config("fixed", "fd00::20/64", "fe80::1")


@pytest.mark.parametrize(
    ("address", "gateway", "code"),
    [
        ("", "", "network-address-missing"),
        ("board", "", "network-address-bad"),
        ("192.168.1.256/24", "", "network-address-bad"),
        ("192.168.1.20/33", "", "network-address-bad"),
        ("fe80::1%eth0/64", "", "network-address-bad"),
        ("192.168.1.20", "", "network-prefix-missing"),
        ("fd00::20", "", "network-prefix-missing"),
        ("192.168.1.20/0", "", "network-prefix-bad"),
        ("192.168.1.20/31", "", "network-prefix-bad"),
        ("fd00::20/127", "", "network-prefix-bad"),
        ("192.168.1.0/24", "", "network-address-network"),
        ("fd00::/64", "", "network-address-network"),
        ("192.168.1.255/24", "", "network-address-broadcast"),
        ("127.0.0.2/8", "", "network-address-kind"),
        ("224.0.0.5/24", "", "network-address-kind"),
        ("0.0.0.5/8", "", "network-address-kind"),
        ("240.0.0.5/8", "", "network-address-kind"),
        ("169.254.3.4/16", "", "network-address-kind"),
        ("fe80::5/64", "", "network-address-kind"),
        ("192.168.1.20/24", "router", "network-gateway-bad"),
        ("192.168.1.20/24", "192.168.1.1/24", "network-gateway-bad"),
        ("fd00::20/64", "fe80::1%eth0\n[Network]", "network-gateway-bad"),
        ("192.168.1.20/24", "192.168.2.1", "network-gateway-outside"),
        ("192.168.1.20/24", "fe80::1", "network-gateway-outside"),
        ("fd00::20/64", "fd01::1", "network-gateway-outside"),
        ("192.168.1.20/24", "192.168.1.20", "network-gateway-self"),
        ("192.168.1.20/24", "192.168.1.0", "network-gateway-unusable"),
        ("192.168.1.20/24", "192.168.1.255", "network-gateway-unusable"),
    ],
)
def test_bad_settings_get_a_reason(address: str, gateway: str, code: str) -> None:
    assert refusal(address, gateway) == code


def test_bad_servers_modes_and_types_get_a_reason() -> None:
    good = "192.168.1.20/24"
    assert refusal(good, dns=("dns.example.org",)) == "network-dns-bad"
    assert refusal(good, dns=("1.1.1.1%0\nDNS=8.8.8.8",)) == "network-dns-bad"
    assert refusal("fd00::20/64", dns=("fe80::1%0\nDNS=8.8.8.8",)) == "network-dns-bad"
    for server in ("127.0.0.53", "::1", "0.0.0.0", "224.0.0.251"):  # noqa: S104  not bound to
        assert refusal(good, dns=(server,)) == "network-dns-kind"
    assert refusal(good, dns=("1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4")) == "network-dns-many"
    assert refusal("", mode="other") == "network-mode"
    assert refusal(good, mode="dhcp") == "network-dhcp-more"
    for bad in ((None, "", []), (7, "", []), (good, None, []), (good, "", "1.1.1.1"), (good, "", [7])):
        with pytest.raises(BadConfig):
            checked("fixed", *bad)


ADDRESSES = st.one_of(
    st.ip_addresses(v=4),
    st.ip_addresses(v=6),
    st.sampled_from(["192.168.1.20", "fd00::20", "fe80::1", "10.0.0.255"]),
)
TEXTS = st.one_of(ADDRESSES.map(str), st.text(max_size=20), st.just(""))


@given(ADDRESSES, st.integers(0, 130), TEXTS, st.lists(TEXTS, max_size=4))
@settings(deadline=None, max_examples=500)
def test_what_is_accepted_can_work(address: object, prefix: int, gateway: str, dns: list[str]) -> None:
    """An accepted address is a host of its network, the gateway is another one, and each line of the file is one value."""
    try:
        config = checked("fixed", f"{address}/{prefix}", gateway, dns)
    except BadConfig:
        return
    own = ip_interface(config.address)
    assert own.ip != own.network.network_address
    if own.version == 4:
        assert own.ip != own.network.broadcast_address
    if config.gateway:
        there = ip_address(config.gateway)
        assert there != own.ip
        assert there in own.network or (there.is_link_local and there.version == 6)
    assert checked("fixed", config.address, config.gateway, config.dns) == config
    lines = render("enp1s0", config).splitlines()
    assert [line for line in lines if line.startswith("Address=")] == [f"Address={config.address}"]
    assert sum(line.startswith("DNS=") for line in lines) == len(config.dns) <= 3
    assert sum(line.startswith("[") for line in lines) == 3


@given(
    st.one_of(
        st.text(max_size=20), st.integers(), st.sampled_from(["lo", "enp1s0", "eth0.5", "../x", "a b", "a\n"])
    )
)
def test_a_name_is_one_word_of_a_path(name: object) -> None:
    try:
        found = interface_name(name)
    except BadConfig:
        return
    assert "/" not in file_name(found)
    assert found not in ("lo", ".", "..")
    assert render(found, Config()).count(f"\nName={found}\n") == 1
    assert not set(found) & set(" \t\n*?[]!")


def test_the_file_of_a_board() -> None:
    """A fixed configuration takes nothing from the network. With both, the board answers by mDNS and needs no cable."""
    fixed = render("eth0", checked("fixed", "10.0.2.77/24", "10.0.2.2", ["10.0.2.3"])).splitlines()
    for line in (
        "Name=eth0",
        "DHCP=no",
        "LinkLocalAddressing=ipv6",
        "IPv6AcceptRA=no",
        "Address=10.0.2.77/24",
        "Gateway=10.0.2.2",
        "DNS=10.0.2.3",
    ):
        assert line in fixed
    dhcp = render("eth0", Config()).splitlines()
    assert {"DHCP=yes", "LinkLocalAddressing=yes"} <= set(dhcp)
    assert not [line for line in dhcp if line.startswith(("Address=", "Gateway=", "DNS="))]
    for lines in (fixed, dhcp):
        assert {"MulticastDNS=yes", "LLMNR=no", "RequiredForOnline=no"} <= set(lines)


def test_the_file_has_precedence_over_that_of_the_image() -> None:
    assert file_name("zz9") < "60-wired.network"
