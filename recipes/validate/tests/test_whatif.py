# SPDX-License-Identifier: Apache-2.0
"""What-if: what apps would get on a fitted device. ek-sim is built and runs, as it does for a user."""

import json
from pathlib import Path

import pytest
from evenkeel_validate import __main__ as cli
from evenkeel_validate import model, whatif
from evenkeel_validate.errors import ValidateError
from evenkeel_validate.model import Fitted

SIM = Path(__file__).resolve().parents[3] / "recipes/scheduler/src/sim"
JOBS = ["weight=200,r,seq,bs=128k,qd=4", "w,seq,bs=1m,qd=4"]


@pytest.fixture
def preset(tmp_path: Path) -> Path:
    """A preset as `ek-validate model` writes it."""
    params = {"channels": 1, "dies": 4, "t_prog_us": 1000, "link_read_mbps": 200, "link_write_mbps": 100}
    path = tmp_path / "measured.toml"
    path.write_text(model.preset(Fitted(params, {"a": 0.01}, 3, 'the "device"'), "measured") + "\n")
    return path


def test_two_apps_get_what_their_weights_say(preset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["what-if", str(preset), "--sim", str(SIM), *JOBS]
    assert cli.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    reader, writer = found["jobs"]
    assert [job["job"] for job in (reader, writer)] == JOBS
    for job, share in ((reader, 2 / 3), (writer, 1 / 3)):
        assert job["together"] == pytest.approx(job["of_share"] * share * job["alone"])
        assert job["of_share"] > 0.9
    # without weights, writes push reads back
    assert reader["without_evenkeel"] < reader["together"]
    assert found["light"]["p99"] < found["light"]["none"]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "On a device fitted to the validation the 'device':"
    assert out[2].endswith(JOBS[0])


@pytest.mark.parametrize(
    ("jobs", "words"),
    [(["bs=1"], "a job needs bs from 512"), (["2*w"], "write each group as a job of its own"),
     (["w,in=1/50"], "write each group as a job"), (["weight=x,w"], "the weight 'x' is no number"),
     (["weight=0,w"], "weight 1-10000"), (["sideways"], "sideways")],
)  # fmt: skip
def test_a_wrong_job_is_an_error(
    preset: Path, capsys: pytest.CaptureFixture[str], jobs: list[str], words: str
) -> None:
    assert cli.main(["what-if", str(preset), "--sim", str(SIM), *jobs]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["x = 1", "[a]\n[b]", "[a]\nset = 1", '[a]\nset = "x=1,y"\nabout = ""', "{", "\x00"]
)
def test_what_is_no_preset_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "measured.toml"
    path.write_text(content)
    with pytest.raises(ValidateError, match="is no preset"):
        whatif.read(path)
    with pytest.raises(ValidateError, match="No such file"):
        whatif.read(tmp_path / "absent")


def test_a_preset_of_another_flash_model_is_an_error(preset: Path) -> None:
    preset.write_text(preset.read_text().replace("channels", "xchannels"))
    with pytest.raises(ValidateError, match="xchannels"):
        whatif.ask(whatif.read(preset), JOBS, SIM)
