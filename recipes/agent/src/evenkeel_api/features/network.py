# SPDX-License-Identifier: Apache-2.0
"""The network settings of the board. A change is undone unless somebody confirms it within 60 s."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..errors import Conflict, InvalidArgument
from ..messages import Note
from ..method import ANY, Method
from ..roles import ADMIN, VIEWER
from ..schema import Struct
from .board import READ

NETWORK = "org.evenkeel.agent.set-network"
ACTIONS = {NETWORK: "Change the network settings"}

Mode = Literal["dhcp", "fixed", "other"]
Link = Literal["connected", "no-address", "no-cable", "off", "failed", "not-managed"]
Last = Literal["none", "confirmed", "expired", "reverted", "restarted"]
# Texts that the user typed. The limits only keep them short: the agent explains what is wrong with a value.
Typed = Annotated[str, Meta(max_length=64)]
Name = Annotated[str, Meta(max_length=64, description="name of the interface, such as `enp1s0`")]
Address = Annotated[
    Typed,
    Meta(
        description="fixed address with its prefix, such as `192.168.1.20/24` or `fd00::20/64`; empty for DHCP"
    ),
]
Gateway = Annotated[Typed, Meta(description="fixed gateway; empty: none")]
Servers = Annotated[
    list[Annotated[str, Meta(max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]],
    Meta(max_length=16, description="addresses of fixed DNS servers, at most 3; empty for DHCP"),
]


class NetworkSettings(Struct, frozen=True):
    """The settings of an interface."""

    mode: Annotated[
        Mode,
        Meta(
            description="`dhcp`: a DHCP server chooses address, gateway and DNS servers; `fixed`: they are fixed;"
            " `other`: a file that somebody has written by hand decides"
        ),
    ] = "dhcp"
    address: Address = ""
    gateway: Gateway = ""
    dns: Servers = msgspec.field(default_factory=list)


class Interface(Struct, frozen=True):
    """A network interface of the board."""

    name: Name
    link: Annotated[
        Link,
        Meta(
            description="`connected`; `no-address`: it has a cable, but no address except a link-local one;"
            " `no-cable`; `off`; `failed`: the settings cannot be applied; `not-managed`: no settings apply"
        ),
    ]
    mac: Annotated[str, Meta(description="hardware address; empty if unknown")]
    addresses: Annotated[list[str], Meta(description="present addresses, with prefix")]
    gateways: Annotated[list[str], Meta(description="present gateways")]
    dns: Annotated[list[str], Meta(description="present DNS servers")]
    settings: Annotated[NetworkSettings, Meta(description="the [settings](#network-settings) in force")]


class Trial(Struct, frozen=True):
    """A change of the network settings that nobody has confirmed yet."""

    interface: Name
    settings: Annotated[NetworkSettings, Meta(description="the new [settings](#network-settings)")]
    left_s: Annotated[
        int,
        Meta(ge=0, description="time until the board undoes the change", extra={"dbus": "u", "unit": "s"}),
    ]


class Network(Struct, frozen=True):
    """The network of the board."""

    host: Annotated[
        str, Meta(description="name of the board in the local network (mDNS), such as `evenkeel.local`")
    ]
    interfaces: Annotated[
        list[Interface], Meta(description="the [interfaces](#network-interface), sorted by name")
    ]
    trial: Annotated[
        list[Trial],
        Meta(description="the [change](#change-of-the-network) that waits for its confirmation; empty: none"),
    ] = msgspec.field(default_factory=list)
    last: Annotated[
        Last,
        Meta(
            description="what became of the last change: `none`: there was none; `confirmed`; `expired`: nobody"
            " confirmed it in time; `reverted`: a user undid it; `restarted`: the board restarted before it was"
            " confirmed. All but `confirmed` mean that the settings are the old ones"
        ),
    ] = "none"
    problem: Annotated[
        list[Note], Meta(description="why a part of the answer is missing, as [messages](#message)")
    ] = msgspec.field(default_factory=list)


class SetNetwork(Struct, frozen=True):
    interface: Name
    mode: Annotated[Mode, Meta(description="`dhcp` or `fixed`")]
    address: Address
    gateway: Gateway
    dns: Servers


METHODS = (
    Method(
        "GetNetwork",
        READ,
        VIEWER,
        "Returns the [network](#network) of the board.",
        answer=Network,
        answer_name="network",
    ),
    Method(
        "SetNetwork",
        NETWORK,
        ADMIN,
        "Changes the settings of an interface about 2 s after the answer. The board undoes the change after 60 s, unless"
        " `ConfirmNetwork` confirms it. It also undoes the change if the board restarts meanwhile.",
        SetNetwork,
        Network,
        "network",
        (InvalidArgument, Conflict, *ANY),
        changes=True,
    ),
    Method(
        "ConfirmNetwork",
        NETWORK,
        ADMIN,
        "Confirms the change of `SetNetwork`, so that it stays. The caller shows by this call that the board can be"
        " reached with the new settings.",
        answer=Network,
        answer_name="network",
        errors=(Conflict, *ANY),
        changes=True,
    ),
    Method(
        "RevertNetwork",
        NETWORK,
        ADMIN,
        "Undoes the change of `SetNetwork` at once.",
        answer=Network,
        answer_name="network",
        errors=(Conflict, *ANY),
        changes=True,
    ),
)
