# SPDX-License-Identifier: Apache-2.0
"""What the network page shows, as pure functions of the agent's answer and of what somebody typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenkeel_api.features.network import Interface, Network

# state of an interface → class of its pill, and what the page calls it
LINKS = {
    "connected": ("ok", "connected"),
    "no-address": ("wait", "no address yet"),
    "no-cable": ("off", "no cable"),
    "off": ("off", "off"),
    "failed": ("bad", "settings cannot be applied"),
    "not-managed": ("off", "no settings apply"),
}
MODES = {
    "dhcp": "Automatic (DHCP)",
    "fixed": "Fixed address",
    "other": "A file on the board",
}
FIELDS = ("mode", "address", "gateway", "dns")
# code of the agent's refusal → field of the form that it is about
_FIELD_OF = {
    "network-prefix": "address",
    "network-address": "address",
    "network-gateway": "gateway",
    "network-dns": "dns",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A change that waits for its confirmation. HOSTS: where the panel can be reached then, best first."""

    changes: list[tuple[str, str]]  # interface, and to what it changes
    left_s: int
    hosts: list[str]


def chosen(network: Network, name: str) -> Interface | None:
    """The interface NAME; without such a one, the first that is connected, or the first of all; None without any."""
    order = sorted(network.interfaces, key=lambda one: (one.name != name, one.link != "connected"))
    return order[0] if order else None


def waiting(network: Network) -> Waiting | None:
    if not network.trial:
        return None
    addresses = [trial.settings.address.partition("/")[0] for trial in network.trial]
    return Waiting(
        [
            (trial.interface, trial.settings.address or texts.phrase("network-to-dhcp"))
            for trial in network.trial
        ],
        network.trial[0].left_s,
        [*(f"[{one}]" if ":" in one else one for one in addresses if one), network.host],
    )


def outcome(network: Network) -> str:
    """A sentence about the last change, if it was undone; empty otherwise."""
    if network.trial or network.last not in ("expired", "reverted", "restarted"):
        return ""
    return texts.text(f"network-last-{network.last}")


def form_of(interface: Interface | None) -> dict[str, str]:
    """The fields of the form for INTERFACE: its settings. With DHCP, the present values are a help for a fixed address."""
    if interface is None:
        return dict.fromkeys(FIELDS, "")
    settings = interface.settings
    if settings.mode == "fixed":
        return {
            "mode": "fixed",
            "address": settings.address,
            "gateway": settings.gateway,
            "dns": " ".join(settings.dns),
        }
    # Only one family fits into the form. An address that is fixed by hand is most often an IPv4 address.
    ipv4 = [
        address
        for address in interface.addresses
        if ":" not in address and not address.startswith("169.254.")
    ]
    gateways = [gateway for gateway in interface.gateways if ":" not in gateway]
    servers = [server for server in interface.dns if ":" not in server][:3]
    return {
        "mode": "dhcp",
        "address": ipv4[0] if ipv4 else "",
        "gateway": gateways[0] if ipv4 and gateways else "",
        "dns": " ".join(servers),
    }


def arguments(name: str, typed: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of SetNetwork. With DHCP, the other fields do not count."""
    if typed["mode"] == "dhcp":
        return {"interface": name, "mode": "dhcp", "address": "", "gateway": "", "dns": []}
    servers = [part for part in re.split(r"[\s,;]+", typed["dns"]) if part]
    return {
        "interface": name,
        "mode": typed["mode"],
        "address": typed["address"],
        "gateway": typed["gateway"],
        "dns": servers,
    }


def field_of(code: str) -> str:
    """The field of the form that the refusal CODE is about; empty if it is about none."""
    return next((field for start, field in _FIELD_OF.items() if code.startswith(start)), "")
