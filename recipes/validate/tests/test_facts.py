# SPDX-License-Identifier: Apache-2.0
"""What a device says about itself, and why a fact is missing."""

import json
from pathlib import Path

import fake_board as board
import pytest
from evenkeel_validate import extcsd, facts
from hypothesis import given
from hypothesis import strategies as st


def register(**values: int) -> bytes:
    """An EXT_CSD with these registers, by name."""
    content = bytearray(extcsd.SIZE)
    by_name = {r.name: r for r in extcsd.REGISTERS}
    for name, value in values.items():
        r = by_name[name]
        content[r.byte : r.byte + r.size] = value.to_bytes(r.size, "little")
    return bytes(content)


def decoded(**values: int) -> dict[str, str]:
    return {r.name: text for r, text in extcsd.decode(register(**values))}


def test_the_registers_have_the_bytes_of_the_standard() -> None:
    """JESD84-B51, clause 7.4. A wrong byte would show nonsense on each device."""
    assert {r.name: r.source.partition(" ")[2] for r in extcsd.REGISTERS} == {
        "EXT_CSD_REV": "[192]", "FIRMWARE_VERSION": "[261:254]", "SEC_COUNT": "[215:212]",
        "DEVICE_LIFE_TIME_EST_TYP_A": "[268]", "DEVICE_LIFE_TIME_EST_TYP_B": "[269]", "PRE_EOL_INFO": "[267]",
        "CACHE_SIZE": "[252:249]", "CACHE_CTRL": "[33]", "CMDQ_SUPPORT": "[308]", "CMDQ_DEPTH": "[307]", "CMDQ_MODE_EN": "[15]",
        "HS_TIMING": "[185]", "BKOPS_SUPPORT": "[502]", "BKOPS_EN": "[163]", "BKOPS_STATUS": "[246]",
        "HC_ERASE_GRP_SIZE": "[224]", "OPTIMAL_READ_SIZE": "[266]", "OPTIMAL_WRITE_SIZE": "[265]",
        "OPTIMAL_TRIM_UNIT_SIZE": "[264]", "WR_REL_SET": "[167]",
    }  # fmt: skip


def test_values_are_decoded() -> None:
    found = decoded(
        EXT_CSD_REV=8, SEC_COUNT=122142720, DEVICE_LIFE_TIME_EST_TYP_A=2, DEVICE_LIFE_TIME_EST_TYP_B=11, PRE_EOL_INFO=3,
        CACHE_SIZE=1024, CACHE_CTRL=1, CMDQ_SUPPORT=1, CMDQ_DEPTH=31, HS_TIMING=0x13, HC_ERASE_GRP_SIZE=1,
        OPTIMAL_TRIM_UNIT_SIZE=1, BKOPS_STATUS=2, BKOPS_EN=2,
    )  # fmt: skip
    assert found["EXT_CSD_REV"] == "5.1"
    assert found["SEC_COUNT"] == "62.5 GB"
    assert found["DEVICE_LIFE_TIME_EST_TYP_A"] == "10 to 20 % used"
    assert found["DEVICE_LIFE_TIME_EST_TYP_B"] == "more than 100 % used"
    assert found["PRE_EOL_INFO"] == "urgent: 90 % used"
    assert found["CACHE_SIZE"] == "1024 KiB"
    assert (found["CACHE_CTRL"], found["CMDQ_SUPPORT"], found["CMDQ_DEPTH"]) == ("yes", "supported", "32")
    assert found["HS_TIMING"] == "HS400"
    assert (found["HC_ERASE_GRP_SIZE"], found["OPTIMAL_TRIM_UNIT_SIZE"]) == ("512 KiB", "4 KiB")
    assert (found["BKOPS_STATUS"], found["BKOPS_EN"]) == ("performance is impacted", "yes")


def test_undefined_values_have_no_text() -> None:
    found = decoded()
    assert [found[n] for n in ("DEVICE_LIFE_TIME_EST_TYP_A", "PRE_EOL_INFO", "EXT_CSD_REV")] == ["", "", ""]
    assert found["CACHE_SIZE"] == "none"


@given(st.binary(min_size=extcsd.SIZE, max_size=extcsd.SIZE))
def test_no_content_is_an_error(content: bytes) -> None:
    assert len(extcsd.decode(content)) == len(extcsd.REGISTERS)
    assert extcsd.parse(content.hex() + "\n") == content


@pytest.mark.parametrize("text", ["", "00", "zz" * 512, "00" * 511, "00" * 513])
def test_a_damaged_register_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        extcsd.parse(text)


def by_title(found: list[facts.Fact]) -> dict[str, facts.Fact]:
    return {f.title: f for f in found}


def test_an_emmc(tmp_path: Path) -> None:
    sys_ = board.make_tree(tmp_path)
    content = register(DEVICE_LIFE_TIME_EST_TYP_A=1, EXT_CSD_REV=8)
    (sys_ / "kernel/debug/mmc0/mmc0:0001/ext_csd").write_text(content.hex() + "\n")
    found = by_title(facts.gather(sys_, board.DISK))
    assert (found["model"].value, found["scheduler"].value) == ("BJTD4R", "evenkeel")
    assert found["life time, type A"].value == "0 to 10 % used"
    assert found["life time, type A"].source == "DEVICE_LIFE_TIME_EST_TYP_A [268]"
    assert (found["manufacturer"].value, found["manufacturer"].reason) == (
        "",
        "the kernel does not report it",
    )
    assert found["spare blocks"].reason == "the device leaves the register undefined"
    assert facts.identity(sys_, board.DISK) == "150100424a54443452"


def test_without_debugfs_the_kernel_shows_the_life_time(tmp_path: Path) -> None:
    sys_ = board.make_tree(tmp_path)
    (sys_ / "devices/mmc0:0001/life_time").write_text("0x02 0x0b\n")
    (sys_ / "devices/mmc0:0001/pre_eol_info").write_text("0x01\n")
    (sys_ / "devices/mmc0:0001/rev").write_text("0x8\n")
    (sys_ / "devices/mmc0:0001/cmdq_en").write_text("1\n")
    found = by_title(facts.gather(sys_, board.DISK))
    assert found["life time, type A"].value == "10 to 20 % used"
    assert found["life time, type B"].value == "more than 100 % used"
    assert found["spare blocks"].value == "normal"
    assert (found["eMMC version"].value, found["command queue is on"].value) == ("5.1", "yes")
    assert "mount debugfs" in found["volatile cache"].reason


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "mount debugfs"), ("00", "the register has 1 bytes, not 512")]
)
def test_an_emmc_whose_register_cannot_be_read(tmp_path: Path, content: str | None, reason: str) -> None:
    sys_ = board.make_tree(tmp_path)
    if content is not None:
        (sys_ / "kernel/debug/mmc0/mmc0:0001/ext_csd").write_text(content)
    found = by_title(facts.gather(sys_, board.DISK))
    assert all(reason in found[r.title].reason and not found[r.title].value for r in extcsd.REGISTERS)


def ssd(tmp_path: Path, name: str) -> Path:
    (tmp_path / "sys/block" / name / "queue").mkdir(parents=True)
    return tmp_path / "sys"


def test_an_ssd(tmp_path: Path) -> None:
    content = {"smart_status": {"passed": False}, "nvme_smart_health_information_log": {"percentage_used": 3}}
    asked: list[list[str]] = []

    def run(arguments: list[str]) -> tuple[int, str]:
        asked.append(arguments)
        return 64, json.dumps(content)  # smartctl returns bits for warnings

    found = by_title(facts.gather(ssd(tmp_path, "nvme0n1"), "nvme0n1", run))
    assert asked == [["smartctl", "--json", "--all", "/dev/nvme0n1"]]
    assert found["health"].value == "FAILED"
    assert found["life time used, %"].value == "3"
    assert found["media errors"].reason == "the device does not report it"


def absent(arguments: list[str]) -> tuple[int, str]:
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (absent, "install smartmontools"),
        (lambda a: (2, "x"), "printed no JSON"),
        (lambda a: (0, "[]"), "does not report"),
    ],
)
def test_an_ssd_without_smart(tmp_path: Path, run: facts.Run, reason: str) -> None:
    found = by_title(facts.gather(ssd(tmp_path, "sda"), "sda", run))
    assert all(reason in found[title].reason for title in facts.SMART)


def ufs(tmp_path: Path, **values: str) -> Path:
    """The sysfs of a UFS disk: the folder of its host has the health, and is above the folder of the SCSI device."""
    host = tmp_path / "sys/devices/platform/1d84000.ufshc"
    scsi = host / "host0/target0:0:0/0:0:0:0"
    for folder in (scsi, host / "health_descriptor", tmp_path / "sys/block/sda/queue"):
        folder.mkdir(parents=True)
    (tmp_path / "sys/block/sda/device").symlink_to(scsi)
    for name, text in values.items():
        (host / "health_descriptor" / name).write_text(text)
    return tmp_path / "sys"


def test_a_ufs_device(tmp_path: Path) -> None:
    sys_ = ufs(tmp_path, eol_info="0x01\n", life_time_estimation_a="0x03\n", life_time_estimation_b="0x0B\n")
    (sys_ / "block/sda/device/rev").write_text("0204\n")
    found = by_title(facts.gather(sys_, "sda", absent))
    assert found["firmware revision"].value == "0204"
    assert found["life time, type A"].value == "20 to 30 % used"
    assert found["life time, type B"].value == "more than 100 % used"
    assert found["spare blocks"].value == "normal"
    assert found["spare blocks"].source.endswith("1d84000.ufshc/health_descriptor/eol_info")
    assert "health" not in found, "smartctl knows a UFS device only as SCSI"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0x00\n", "the device leaves the value undefined"),
        ("", "the device did not answer"),
        (None, "does not report"),
    ],
)
def test_a_ufs_device_that_does_not_tell_its_health(tmp_path: Path, text: str | None, reason: str) -> None:
    found = by_title(facts.gather(ufs(tmp_path, **{} if text is None else {"eol_info": text}), "sda", absent))
    assert (found["spare blocks"].value, reason in found["spare blocks"].reason) == ("", True)


def test_a_virtual_disk_has_no_health(tmp_path: Path) -> None:
    found = by_title(facts.gather(ssd(tmp_path, "vda"), "vda"))
    assert found["health"].reason == "vda is neither eMMC, SD, SATA, UFS nor NVMe"
    assert facts.identity(tmp_path / "sys", "vda") == ""
