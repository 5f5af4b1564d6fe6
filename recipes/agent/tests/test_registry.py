# SPDX-License-Identifier: Apache-2.0
"""apps.d: accepted files, refused files, and the text of the refusals."""

import os
from pathlib import Path

import pytest
from evenkeel_agent.registry import AppError, load, parse, state, to_toml
from hypothesis import given
from hypothesis import strategies as st

GOOD = 'title = "Player"\nunit = "evenkeel-player.service"\n'
CONF = Path(__file__).resolve().parents[3] / "conf/apps.d"


def test_defaults_and_all_keys() -> None:
    app = parse("player", GOOD.encode())
    assert (app.name, app.title, app.weight, app.description, app.stats) == ("player", "Player", 100, "", "")
    app = parse(
        "player", (GOOD + 'weight = 10000\ndescription = "Plays."\nstats = "/run/p/p.json"\n').encode()
    )
    assert (app.weight, app.description, app.stats) == (10000, "Plays.", "/run/p/p.json")


@pytest.mark.parametrize(
    "unit", ["a.service", "a@b.service", "x.scope", "evenkeel-apps-a.slice", "a\\\\x2db.service"]
)
def test_units(unit: str) -> None:
    assert parse("a", f"title = 'A'\nunit = '{unit}'".encode()).unit == unit


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "title is missing"),
        ('title = "A"', "unit is missing"),
        ('title = " "\nunit = "a.service"', "title is empty"),
        ('title = 5\nunit = "a.service"', "title must be text, not 5"),
        (f'title = "{"x" * 41}"\nunit = "a.service"', "title has 41 characters, at most 40"),
        ('title = "a\\nb"\nunit = "a.service"', "one line of printable text"),
        ('title = "a\\u0000b"\nunit = "a.service"', "one line of printable text"),
        ('title = "A"\nunit = "a"', "must be the name of a .service, .scope or .slice, not 'a'"),
        ('title = "A"\nunit = "a.socket"', "must be the name of"),
        ('title = "A"\nunit = "../a.service"', "must be the name of"),
        ('title = "A"\nunit = "a@.service"', "must be the name of"),
        ('title = "A"\nunit = "-.slice"', "unit must be below evenkeel-apps.slice"),
        ('title = "A"\nunit = "system.slice"', "unit must be below evenkeel-apps.slice"),
        ('title = "A"\nunit = "evenkeel-apps.slice"', "unit must be below evenkeel-apps.slice"),
        ('title = "A"\nunit = "evenkeel-appsx.slice"', "unit must be below evenkeel-apps.slice"),
        ('title = "A"\nunit = "a b.service"', "must be the name of"),
        (GOOD + "weight = 0", "weight must be a whole number from 1 to 10000, not 0"),
        (GOOD + "weight = 10001", "not 10001"),
        (GOOD + "weight = -1", "not -1"),
        (GOOD + "weight = true", "not True"),
        (GOOD + "weight = 100.0", "not 100.0"),
        (GOOD + 'weight = "100"', "not '100'"),
        (GOOD + "weight = " + "9" * 5000, "not TOML"),
        (GOOD + "weight = 0x" + "f" * 5000, "a far larger number"),
        (GOOD + "priority = 5", "unknown key 'priority'"),
        (GOOD + 'stats = "run/x"', "stats must be an absolute path"),
        (GOOD + 'stats = "/run/../etc/shadow"', "stats must be an absolute path"),
        ("title = ", "not TOML"),
        (GOOD + GOOD, "not TOML"),
        ("a = " + "[" * 100000, "not TOML"),
    ],
    ids=lambda value: value[:30],
)
def test_a_bad_file_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(AppError) as caught:
        parse("a", text.encode())
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "A", "-a", "a_b", "a.b", "a" * 33, "é"])
def test_bad_names(name: str) -> None:
    with pytest.raises(AppError, match="its name must be"):
        parse(name, GOOD.encode())


def test_one_bad_file_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text('title = "B"\nunit = "b.service"\n')
    (tmp_path / "a.toml").write_text('title = "A"\nunit = "a.service"\nweight = 0\n')
    (tmp_path / "c.toml").write_text('title = "C"\nunit = "b.service"\n')
    (tmp_path / "d.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "e.toml").mkdir()
    (tmp_path / "f.toml").write_text(GOOD + "#" * 70000)
    os.mkfifo(tmp_path / "g.toml")
    (tmp_path / "h.toml").symlink_to("nowhere")
    (tmp_path / "README").write_text("not an app")
    registry = load(str(tmp_path))
    assert list(registry.apps) == ["b"]
    assert list(map(str, registry.problems)) == [
        "apps.d/a.toml is ignored: weight must be a whole number from 1 to 10000, not 0",
        "apps.d/c.toml is ignored: unit b.service already belongs to the app b",
        "apps.d/d.toml is ignored: it is not UTF-8 text",
        "apps.d/e.toml is ignored: it cannot be read: not a regular file",
        "apps.d/f.toml is ignored: it cannot be read: longer than 65536 bytes",
        "apps.d/g.toml is ignored: it cannot be read: not a regular file",
        "apps.d/h.toml is ignored: it cannot be read: No such file or directory",
    ]


def test_added_apps_follow_those_of_the_owner(tmp_path: Path) -> None:
    own, added = tmp_path / "own", tmp_path / "added"
    for folder in (own, added):
        folder.mkdir()
    (own / "m.toml").write_text('title = "M"\nunit = "m.service"\n')
    (added / "a.toml").write_bytes(to_toml("A", "", "a.service", 5))
    (added / "m.toml").write_bytes(to_toml("M2", "", "m2.service", 5))
    (added / "x.toml").write_bytes(to_toml("X", "", "m.service", 5))
    (added / "y.toml").symlink_to(own / "m.toml")
    registry = load(str(own), str(added))
    assert [(app.name, app.title, app.added) for app in registry.apps.values()] == [
        ("a", "A", True),
        ("m", "M", False),
    ]
    assert list(map(str, registry.problems)) == [
        "apps.d/m.toml is ignored: there is already an app with the name m",
        "apps.d/x.toml is ignored: unit m.service already belongs to the app m",
        "apps.d/y.toml is ignored: it cannot be read: Too many levels of symbolic links",
    ]


@given(st.text(max_size=50), st.text(max_size=50), st.integers(1, 10_000))
def test_a_written_file_is_read_back_or_refused(title: str, description: str, value: int) -> None:
    try:
        app = parse("a", to_toml(title, description, "a.service", value))
    except AppError:
        assert not title.strip() or len(title) > 40 or not (title + description).isprintable()
        return
    assert (app.title, app.description, app.weight) == (title, description, value)


def test_without_a_directory_there_are_no_apps(tmp_path: Path) -> None:
    registry = load(str(tmp_path / "none"))
    assert (registry.apps, registry.problems) == ({}, [])
    (tmp_path / "file").write_text("")
    assert list(map(str, load(str(tmp_path / "file")).problems)) == [
        f"{tmp_path}/file cannot be read, so no app is known: Not a directory"
    ]


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(str.encode),
        st.lists(
            st.tuples(
                st.sampled_from(["title", "unit", "weight", "stats", "x"]),
                st.sampled_from(
                    ['"a"', "1", "-1", "1e9", "true", "[]", "{}", '"a.service"', "1979-05-27", "nan"]
                ),
            ),
            max_size=5,
        ).map(lambda pairs: "\n".join(f"{k} = {v}" for k, v in pairs).encode()),
    )
)
def test_any_file_is_an_app_or_refused(content: bytes) -> None:
    try:
        app = parse("a", content)
    except AppError:
        return
    assert 1 <= app.weight <= 10000
    assert type(app.weight) is int


@pytest.mark.skipif(not CONF.is_dir(), reason="the folder conf/apps.d is not part of this package")
def test_the_apps_of_this_repository_are_accepted() -> None:
    assert load(str(CONF)).problems == []


def test_the_state_differs_after_each_change_of_a_file(tmp_path: Path) -> None:
    folder, added = tmp_path / "apps.d", tmp_path / "added"
    for one in (folder, added):
        one.mkdir()
    seen = [state("/nonexistent", "/nonexistent")]

    def changed() -> bool:
        found = state(str(folder), str(added))
        assert state(str(folder), str(added)) == found
        new = found not in seen
        seen.append(found)
        return new

    path = folder / "x.toml"
    path.write_text("a")
    assert changed()
    path.write_text("ab")
    assert changed()
    status = path.stat()
    path.write_text("cd")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert changed(), "the same size and time, as after a copy that keeps times"
    (added / "y.toml").write_text("")
    assert changed()
    (folder / "z.toml").symlink_to("/nonexistent")
    assert changed()
    (folder / "notes.txt").write_text("")
    assert not changed()
    path.unlink()
    assert changed()
