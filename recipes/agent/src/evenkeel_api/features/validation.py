# SPDX-License-Identifier: Apache-2.0
"""Validations: measurements of the flash and its scheduler on the board itself, by ek-validate."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..errors import Conflict, InvalidArgument
from ..method import ANY, Method
from ..roles import ADMIN, VIEWER
from ..schema import FD, U64, Struct
from .board import READ

VALIDATE = "org.evenkeel.agent.validate"
ACTIONS = {VALIDATE: "Measure the flash of the board, and cancel such a validation"}
ID = r"^[0-9]{8}-[0-9]{6}(-[0-9]{1,3})?$(?!\n)"

Profile = Literal["quick", "full", "soak"]
Topic = Literal["", "device", "latency", "fair", "promise", "stall", "rec", "regulate", "channel", "pool"]
RunState = Literal["idle", "starting", "running", "ending"]
ReportState = Literal["running", "complete", "partial"]
Verdict = Literal["held", "broken", "open"]
Id = Annotated[
    str,
    Meta(
        pattern=ID, description="id of a validation, such as `20260131-120000`", examples=["20260131-120000"]
    ),
]
State = Annotated[ReportState, Meta(description="`running`; `complete`; `partial`: it ended early")]
Reason = Annotated[str, Meta(description="why it is partial; else empty")]
Where = Annotated[str, Meta(description="where it wrote, in words")]
Started = Annotated[str, Meta(description="when it began, in UTC, as `2026-01-31T12:00:00Z`")]
Ended = Annotated[str, Meta(description="when it ended; empty if it has not")]
Subject = Annotated[str, Meta(description="scheduler of the device at the start")]
Model = Annotated[str, Meta(description="model of the device; empty if it is not known")]


OneProfile = Annotated[
    Profile, Meta(description="`quick`: 2 min at most; `full`: 45 min; `soak`: 8 h and much wear")
]
OneTopic = Annotated[
    Topic,
    Meta(
        description="only the cases of this topic, as the first part of the ids of its figures, and those on which their"
        " bounds rest; empty: all cases"
    ),
]
COMPARE = Meta(
    description="whether it also measures the kernel's other schedulers, if the profile does. While another one is"
    " active, weights of apps are not enforced"
)
EXCLUSIVE = Meta(
    description="whether all apps are paused meanwhile, so that the figures are those of the device alone"
)


class ValidationOrder(Struct, frozen=True):
    profile: OneProfile
    topic: OneTopic
    compare: Annotated[bool, COMPARE]
    exclusive: Annotated[bool, EXCLUSIVE]


class LeftOut(Struct, frozen=True):
    """A case that was left out."""

    case: Annotated[str, Meta(description="name of the case")]
    reason: Annotated[str, Meta(description="why it was left out")]


class ValidationPlan(Struct, frozen=True):
    """What a validation would do."""

    where: Where
    cases: Annotated[int, Meta(ge=0, description="number of measurements", extra={"dbus": "u"})]
    written_bytes: Annotated[U64, Meta(description="bytes that it writes", extra={"unit": "bytes"})]
    endurance_percent: Annotated[
        float,
        Meta(
            description="part of the endurance of the device that it uses, if each block endures 3,000 erase cycles; negative:"
            " not known",
            extra={"unit": "%"},
        ),
    ]
    takes_s: Annotated[U64, Meta(description="time that it takes", extra={"unit": "s"})]
    most_s: Annotated[U64, Meta(description="time after which it ends in any case", extra={"unit": "s"})]
    schedulers: Annotated[list[str], Meta(description="schedulers that it measures, the active one first")]
    groups: Annotated[
        bool, Meta(description="whether it competes with the apps, as one group with the weight 100")
    ]
    discards: Annotated[bool, Meta(description="whether it discards free space; no file loses data")]
    left_out: Annotated[list[LeftOut], Meta(description="[cases](#left-out-case) that cannot run")]
    evicts: Annotated[
        bool,
        Meta(
            description="whether it reads a file that is larger than the page cache, so other files must leave it"
        ),
    ] = False
    exclusive: Annotated[bool, Meta(description="whether all apps are paused until it ends")] = False
    proven: Annotated[
        bool,
        Meta(
            description="whether earlier runs measured this device. Otherwise a slow one may write less than `written_bytes`"
        ),
    ] = True


class Validation(Struct, frozen=True):
    """The validation that runs."""

    state: Annotated[
        RunState,
        Meta(
            description="`idle`: none runs; `starting`; `running`; `ending`: it measures no longer, and restores what it"
            " changed"
        ),
    ]
    id: Annotated[
        str,
        Meta(
            description="id of the validation that runs; empty if it is not known, or if another command of ek-validate runs"
        ),
    ] = ""
    index: Annotated[
        int, Meta(ge=0, description="number of measurements that are done", extra={"dbus": "u"})
    ] = 0
    count: Annotated[int, Meta(ge=0, description="number of all measurements", extra={"dbus": "u"})] = 0
    about: Annotated[
        str, Meta(description="what is measured at present, or the other command; may be empty")
    ] = ""
    scheduler: Annotated[str, Meta(description="scheduler that is measured at present")] = ""
    ran_s: Annotated[U64, Meta(description="time since it began", extra={"unit": "s"})] = 0
    left_s: Annotated[U64, Meta(description="estimated time until it ends", extra={"unit": "s"})] = 0
    written_bytes: Annotated[
        U64, Meta(description="bytes that it has written so far", extra={"unit": "bytes"})
    ] = 0
    exclusive: Annotated[bool, Meta(description="whether all apps are paused until it ends")] = False
    groups: Annotated[
        bool, Meta(description="whether it competes with the apps, as one group with the weight 100")
    ] = False


class ValidationRow(Struct, frozen=True):
    """A validation in the list."""

    id: Id
    profile: Annotated[str, Meta(description="its profile")]
    state: State
    reason: Reason
    subject: Subject
    started: Started
    ended: Ended
    where: Where
    model: Model
    held: Annotated[int, Meta(ge=0, description="number of promises that were held", extra={"dbus": "u"})]
    broken: Annotated[int, Meta(ge=0, description="number of promises that were broken", extra={"dbus": "u"})]


class Promise(Struct, frozen=True):
    """A promise in a report."""

    title: Annotated[str, Meta(description="the promise")]
    verdict: Annotated[Verdict, Meta(description="`held`; `broken`; `open`: it was not judged")]
    words: Annotated[str, Meta(description="the verdict in words")]
    evidence: Annotated[str, Meta(description="figures on which the verdict rests; may be empty")]


class Measured(Struct, frozen=True):
    """A figure in a report."""

    id: Annotated[str, Meta(description="id of the figure, such as `fair.read.1m.ratio`")]
    value: Annotated[str, Meta(description="the value with its unit, as text")]
    wanted: Annotated[str, Meta(description="its bound, as text; empty if it has none")]
    verdict: Annotated[
        Verdict,
        Meta(description="`held`; `broken`; `open`: it has no bound, or the scheduler promises nothing"),
    ]


class CaseNote(Struct, frozen=True):
    """What a reader of a report must know about a case."""

    case: Annotated[str, Meta(description="name of the case, such as `promise.three`")]
    text: Annotated[
        str, Meta(description="the note, in plain sentences; for example, why the case was not judged")
    ]


class ValidationReport(Struct, frozen=True):
    """The report of a validation, in short. `OpenValidation` has all of it."""

    row: Annotated[ValidationRow, Meta(description="its [entry in the list](#validation-in-the-list)")]
    kernel: Annotated[str, Meta(description="version of the kernel")]
    written_bytes: Annotated[U64, Meta(description="bytes that it wrote", extra={"unit": "bytes"})]
    announced_bytes: Annotated[U64, Meta(description="bytes that it had announced", extra={"unit": "bytes"})]
    sentences: Annotated[list[str], Meta(description="what it found, in plain sentences")]
    promises: Annotated[list[Promise], Meta(description="the [promises](#promise)")]
    figures: Annotated[list[Measured], Meta(description="the [figures](#measured-figure)")]
    left_out: Annotated[list[LeftOut], Meta(description="[cases](#left-out-case) that were not measured")]
    not_restored: Annotated[
        list[str], Meta(description="what could not be restored; empty, unless something went wrong")
    ] = msgspec.field(default_factory=list)
    notes: Annotated[list[CaseNote], Meta(description="[notes](#note-on-a-case) on cases")] = msgspec.field(
        default_factory=list
    )


class Changed(Struct, frozen=True):
    """A figure that differs between two reports."""

    id: Annotated[str, Meta(description="id of the figure")]
    before: Annotated[str, Meta(description="value in the first report")]
    after: Annotated[str, Meta(description="value in the second report")]
    change: Annotated[str, Meta(description="the change in percent, as text; empty if it is not meaningful")]
    verdict: Annotated[str, Meta(description="`better`, `worse`, `changed`, or why; in words")]


class ValidationComparison(Struct, frozen=True):
    """The comparison of two reports."""

    changed: Annotated[
        list[Changed], Meta(description="[figures](#changed-figure) that differ by more than their noise")
    ]
    only_before: Annotated[list[str], Meta(description="ids of figures that only the first report has")]
    only_after: Annotated[list[str], Meta(description="ids of figures that only the second report has")]
    same: Annotated[
        int,
        Meta(
            ge=0, description="number of figures that differ by no more than their noise", extra={"dbus": "u"}
        ),
    ]
    worse: Annotated[
        int,
        Meta(
            ge=0,
            description="number of figures that are worse in the second report, or missing there",
            extra={"dbus": "u"},
        ),
    ]
    notes: Annotated[
        list[str],
        Meta(
            description="how the conditions differ, in words: kernel, scheduler, profile, test file, paused apps"
        ),
    ] = msgspec.field(default_factory=list)


class OneValidation(Struct, frozen=True):
    id: Id


class TwoValidations(Struct, frozen=True):
    first: Id
    second: Id


class ValidationFile(Struct, frozen=True):
    id: Id
    format: Annotated[
        Literal["json", "html"], Meta(description="`json`: all data; `html`: a page in one file")
    ]


METHODS = (
    Method(
        "PlanValidation",
        READ,
        VIEWER,
        "Returns what a validation [would do](#plan-of-a-validation). Nothing is written.",
        ValidationOrder,
        ValidationPlan,
        "plan",
        (InvalidArgument, Conflict, *ANY),
    ),
    Method(
        "StartValidation",
        VALIDATE,
        ADMIN,
        "Starts a validation, which writes a test file on the data partition. It goes on if the agent ends. Everything that"
        " it changes is restored at its end.",
        ValidationOrder,
        Validation,
        "validation",
        (InvalidArgument, Conflict, *ANY),
        changes=True,
    ),
    Method(
        "GetValidation",
        READ,
        VIEWER,
        "Returns the [validation that runs](#validation), with its progress.",
        answer=Validation,
        answer_name="validation",
    ),
    Method(
        "CancelValidation",
        VALIDATE,
        ADMIN,
        "Ends the validation that runs. Its report stays, and is marked partial.",
        answer=Validation,
        answer_name="validation",
        errors=(Conflict, *ANY),
        changes=True,
    ),
    Method(
        "ListValidations",
        READ,
        VIEWER,
        "Returns the latest [validations](#validation-in-the-list) of the board, at most 50, the newest first.",
        answer=list[ValidationRow],
        answer_name="validations",
    ),
    Method(
        "ShowValidation",
        READ,
        VIEWER,
        "Returns the [report](#report-of-a-validation) of a validation.",
        OneValidation,
        ValidationReport,
        "report",
        (InvalidArgument, *ANY),
    ),
    Method(
        "CompareValidations",
        READ,
        VIEWER,
        "Returns the [differences](#comparison-of-validations) between the reports of two validations.",
        TwoValidations,
        ValidationComparison,
        "comparison",
        (InvalidArgument, *ANY),
    ),
    Method(
        "OpenValidation",
        READ,
        VIEWER,
        "Opens the report of a validation. Returns a socket with [packets of the file](#download-of-a-recording).",
        ValidationFile,
        FD,
        "socket",
        (InvalidArgument, *ANY),
    ),
)
