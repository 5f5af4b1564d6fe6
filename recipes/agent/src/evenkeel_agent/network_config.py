# SPDX-License-Identifier: Apache-2.0
"""Network settings of an interface as values: the check of what somebody typed, and the file for systemd-networkd.

The module has no state and reads no file. The agent checks each request with it, and ek-network checks it again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Any

from evenkeel_api.messages import Message

MAX_DNS = 3  # glibc asks no more servers
# longest prefixes that leave room for the board and a gateway
MAX_PREFIX = {4: 30, 6: 126}
# Names that the kernel allows, without characters that have a meaning in [Match] or in a path. lo is not an interface
# that anybody sets up.
_NAME = re.compile(r"(?!lo$)[A-Za-z0-9][A-Za-z0-9._-]{0,14}")


class BadConfig(Exception):
    """The settings are not valid. str() is a sentence without its full stop: what is wrong, and what to do."""

    def __init__(self, code: str, /, **parameters: Any) -> None:
        self.message = Message(code, **parameters)
        super().__init__(str(self.message))


@dataclass(frozen=True, slots=True)
class Config:
    """Valid settings. MODE: dhcp or fixed. ADDRESS has a prefix. Addresses are in their normal form."""

    mode: str = "dhcp"
    address: str = ""
    gateway: str = ""
    dns: tuple[str, ...] = ()


def interface_name(name: Any) -> str:
    """NAME, if it can be the name of a network interface. Raises BadConfig."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadConfig("network-interface-name", name=str(name)[:40])
    return name


def checked(mode: Any, address: Any, gateway: Any, dns: Any) -> Config:
    """The settings that somebody typed. Raises BadConfig."""
    if mode not in ("dhcp", "fixed"):
        raise BadConfig("network-mode", value=str(mode)[:40])
    if not isinstance(address, str) or not isinstance(gateway, str):
        raise BadConfig("network-address-bad", value=str(address)[:64])
    if not isinstance(dns, Sequence) or isinstance(dns, str):
        raise BadConfig("network-dns-bad", value=str(dns)[:64])
    if mode == "dhcp":
        if address or gateway or dns:
            raise BadConfig("network-dhcp-more")
        return Config()
    own = _address(address.strip())
    return Config("fixed", str(own), _gateway(gateway.strip(), own), _servers(dns))


def _address(text: str) -> IPv4Interface | IPv6Interface:
    if not text:
        raise BadConfig("network-address-missing")
    try:
        # A scope (after %) may contain any character.
        own = ip_interface("" if "%" in text else text)
    except ValueError:
        raise BadConfig("network-address-bad", value=text[:64]) from None
    if "/" not in text:
        example = 24 if own.version == 4 else 64
        raise BadConfig("network-prefix-missing", address=str(own.ip), example=example)
    network, longest = own.network, MAX_PREFIX[own.version]
    if not 1 <= network.prefixlen <= longest:
        raise BadConfig("network-prefix-bad", prefix=network.prefixlen, most=longest)
    if kind := _unusable(own.ip):
        raise BadConfig("network-address-kind", address=str(own.ip), kind=kind)
    if own.ip == network.network_address:
        raise BadConfig("network-address-network", address=str(own.ip), network=str(network))
    if own.version == 4 and own.ip == network.broadcast_address:
        raise BadConfig("network-address-broadcast", address=str(own.ip), network=str(network))
    return own


def _unusable(address: IPv4Address | IPv6Address) -> str:
    """Why no interface can have ADDRESS; empty if one can."""
    kinds = {
        "an unspecified": address.is_unspecified or (address.version == 4 and int(address) < 1 << 24),
        "a loopback": address.is_loopback,
        "a multicast": address.is_multicast,
        "a link-local": address.is_link_local,
        "a reserved": address.is_reserved,
    }
    return next((name for name, found in kinds.items() if found), "")


def _gateway(text: str, own: IPv4Interface | IPv6Interface) -> str:
    if not text:
        return ""
    try:
        gateway = ip_address("" if "%" in text else text)
    except ValueError:
        raise BadConfig("network-gateway-bad", value=text[:64]) from None
    if gateway == own.ip:
        raise BadConfig("network-gateway-self", gateway=str(gateway))
    if gateway.version == 6 == own.version and gateway.is_link_local:
        return str(gateway)
    network = own.network
    if gateway not in network:
        raise BadConfig("network-gateway-outside", gateway=str(gateway), network=str(network))
    if gateway == network.network_address or (gateway.version == 4 and gateway == network.broadcast_address):
        raise BadConfig("network-gateway-unusable", gateway=str(gateway), network=str(network))
    return str(gateway)


def _servers(dns: Sequence[Any]) -> tuple[str, ...]:
    if len(dns) > MAX_DNS:
        raise BadConfig("network-dns-many", count=len(dns), most=MAX_DNS)
    found = []
    for text in dns:
        try:
            server = ip_address("" if "%" in text else text.strip())
        except (ValueError, TypeError, AttributeError):
            raise BadConfig("network-dns-bad", value=str(text)[:64]) from None
        if server.is_loopback or server.is_multicast or server.is_unspecified:
            raise BadConfig("network-dns-kind", server=str(server))
        if str(server) not in found:
            found.append(str(server))
    return tuple(found)


def file_name(interface: str) -> str:
    """The name of the interface's file. It sorts before 60-wired.network, so it has precedence."""
    return f"50-evenkeel-{interface}.network"


def render(interface: str, config: Config) -> str:
    """The file for systemd-networkd. A fixed configuration takes nothing from the network (IPv6AcceptRA=no)."""
    if config.mode == "dhcp":
        lines = ["DHCP=yes", "IPv6AcceptRA=yes", "LinkLocalAddressing=yes"]
    else:
        # no link-local IPv4 address: the board would announce it by mDNS, and other networks cannot reach it
        lines = ["DHCP=no", "IPv6AcceptRA=no", "LinkLocalAddressing=ipv6", f"Address={config.address}"]
        lines += [f"Gateway={config.gateway}"] if config.gateway else []
        lines += [f"DNS={server}" for server in config.dns]
    common = ["MulticastDNS=yes", "LLMNR=no"]
    head = [
        "# Written by ek-network. Change it on the panel's page Network, or with 'ekctl set-network'.",
        "[Match]",
    ]
    link = ["[Link]", "RequiredForOnline=no"]
    return "\n".join([*head, f"Name={interface}", "", "[Network]", *lines, *common, "", *link, ""])
