# SPDX-License-Identifier: Apache-2.0
"""Passwords: hashes, first passwords, and passwords that are easy to guess.

Hashes are argon2id with 19 MiB, 2 passes, 1 lane (RFC 9106; the OWASP minimum, because the memory of a board is
small). One hash is computed at a time, so many log-ins at once cost time, not memory.
"""

import re
import secrets
import threading
import unicodedata

from evenkeel_api.messages import Message

MIN_LENGTH = 10
MAX_LENGTH = 128
# Without 0 1 i l o, which look alike. 12 of 31 characters are 59 bits.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"

# Words of which the most frequent passwords are made. With digits and signs around them they stay easy to guess.
_COMMON = frozenset(
    """
    abc access account admin adminadmin administrator alexander america andrew angel anthony apple
    arsenal asdf ashley babygirl bailey barcelona baseball basketball batman board brandon buster
    butterfly changeit changeme charlie charlotte cheese chelsea chicken chocolate computer cookie
    corvette danielle default demo device diamond dolphin dragon eagle elizabeth evenkeel everton fender
    ferrari flower football forever freedom friends garfield gateway george ginger guest hannah hardware
    harley heather hello hockey house hunter iloveyou internet jackson jasmine jennifer jessica jordan
    joshua justin killer klaster letmein liverpool login london love lovely maggie manchester maria
    martin master matrix matthew maverick mercedes merlin michael michelle money monkey mother mustang
    natasha network nicole nothing number office operator orange pass passw passwd password passwort
    patrick peanut pepper phoenix please pokemon prince princess private purple qazwsx qwerty qwertz
    rachel ranger raspberry robert root rootroot router samantha samsung scooter secret secure security
    senha server service shadow shop silver snoopy soccer sophie spider starwars steelers summer
    sunshine super superman support sweet system taylor technician temp test thomas thunder
    trustno user vagrant victoria viewer vision welcome welcome1 whatever william wilson winner winter
    yankees yellow zxcvbn
    """.split()  # noqa: SIM905
)
_ROWS = (
    "abcdefghijklmnopqrstuvwxyz",
    "01234567890123456789",
    "qwertyuiop",
    "qwertzuiop",
    "asdfghjkl",
    "zxcvbnm",
    "yxcvbnm",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p",
    "1q2w3e4r5t6y7u8i9o0p",
    "azertyuiop",
)
_LEET = str.maketrans(
    {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i"}
)
_one = threading.Lock()


def normal(password: str) -> str:
    """NFKC, so that the same password typed on another system gives the same bytes."""
    return unicodedata.normalize("NFKC", password)


def first_password() -> str:
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))


def digest(password: str) -> str:
    """The hash of PASSWORD. Takes up to a second on a slow board."""
    from argon2 import PasswordHasher

    with _one:
        return str(PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1).hash(normal(password)))


_DUMMY = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$VtNbS5rj7ZqGVDYqWjGbB0oZ7DvB5Vsxr3pmDh4bUFs"


def matches(stored: str | None, password: str) -> bool:
    """Whether PASSWORD has the hash STORED. Without one it takes as long, so that the time reveals no user names."""
    from argon2 import PasswordHasher
    from argon2.exceptions import Argon2Error, InvalidHash

    if len(password) > MAX_LENGTH:
        return False
    with _one:
        try:
            return bool(PasswordHasher().verify(stored or _DUMMY, normal(password))) and stored is not None
        except (Argon2Error, InvalidHash):
            return False


def refusal(new: str, current: str, user: str, host: str) -> Message | None:
    """Why NEW is not acceptable, or None if it is."""
    if len(new) < MIN_LENGTH:
        return Message("password-short", least=MIN_LENGTH, length=len(new))
    if len(new) > MAX_LENGTH:
        return Message("password-long", most=MAX_LENGTH, length=len(new))
    if normal(new) == normal(current) or new.strip().lower() == current.strip().lower():
        return Message("password-same")
    if reason := weakness(new, user, host):
        return Message("password-weak", reason=Message(reason))
    return None


def weakness(password: str, user: str = "", host: str = "") -> str | None:
    """The code of the reason why PASSWORD is easy to guess, or None.

    What counts is what remains when repetitions, rows of keys and common words are taken away: fewer than four
    characters of it do not protect a password. Digits and signs in place of letters count as the letters.
    """
    text = normal(password).lower()
    if _repeats(text):
        return "weak-repeats"
    rest = _without_rows(text)
    if len(rest) < 4:
        return "weak-row"
    names = [name.lower() for name in (user, host) if len(name) >= 4]
    named = any(name in text for name in names)
    for form in (text, text.translate(_LEET)):
        left = form
        for word in sorted((*_COMMON, *names), key=len, reverse=True):
            left = left.replace(word, " ")
        left = re.sub(r"(19|20)\d\d", "", left)
        if left != form and len(_without_rows(re.sub(r"[\W\d_]", "", left))) < 4:
            return "weak-name" if named else "weak-common"
    return None


def _repeats(text: str) -> bool:
    """Whether it is one piece of up to five characters, again and again, or has fewer than four different ones."""
    if len(set(text)) < 4:
        return True
    return any(text == (text[:size] * len(text))[: len(text)] for size in range(1, 6))


def _without_rows(text: str) -> str:
    """TEXT without pieces of four or more characters that follow a row of keys, in either direction."""
    for row in (*_ROWS, *(row[::-1] for row in _ROWS)):
        for size in range(len(row), 3, -1):
            for start in range(len(row) - size + 1):
                text = text.replace(row[start : start + size], "")
    return re.sub(r"(.)\1{3,}", "", text)
