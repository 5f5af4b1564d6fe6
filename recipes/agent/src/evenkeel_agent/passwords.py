# SPDX-License-Identifier: Apache-2.0
"""Passwords: hashes, first passwords, and the refusal of passwords that are easy to guess.

Hashes are argon2id with 19 MiB, 2 passes and 1 lane (RFC 9106). This is the minimum that OWASP recommends: a board has
little memory. The agent computes one hash at a time, so many log-ins at once take longer but need no more memory.
"""

import re
import secrets
import threading
import unicodedata

from evenkeel_api.messages import Message

from . import frequent

MIN_LENGTH = 10  # characters
MAX_LENGTH = 128
# The characters of first passwords. 0, 1, i, l and o are missing, because some of them look alike. A first password
# has 12 of these 31 characters: 59 bits.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"

# Words that are easy to guess because they are about this product. docs/reference/security-rules.md lists them.
_OWN = frozenset(
    "admin agent board device ekctl evenkeel flash network operator panel recorder scheduler technician viewer".split()  # noqa: SIM905
)
# Words in the most frequent passwords. Digits and signs around such a word do not make it hard to guess.
_COMMON = frozenset(
    """
    abc access account adminadmin administrator alexander america andrew angel anthony apple
    arsenal asdf ashley babygirl bailey barcelona baseball basketball batman brandon buster
    butterfly changeit changeme charlie charlotte cheese chelsea chicken chocolate computer cookie
    corvette danielle default demo diamond dolphin dragon eagle elizabeth everton fender
    ferrari flower football forever freedom friends garfield gateway george ginger guest hannah hardware
    harley heather hello hockey house hunter iloveyou internet jackson jasmine jennifer jessica jordan
    joshua justin killer klaster letmein liverpool login london love lovely maggie manchester maria
    martin master matrix matthew maverick mercedes merlin michael michelle money monkey mother mustang
    natasha nicole nothing number office orange pass passw passwd password passwort
    patrick peanut pepper phoenix please pokemon prince princess private purple qazwsx qwerty qwertz
    rachel ranger raspberry robert root rootroot router samantha samsung scooter secret secure security
    senha server service shadow shop silver snoopy soccer sophie spider starwars steelers summer
    sunshine super superman support sweet system taylor temp test thomas thunder
    trustno user vagrant victoria vision welcome welcome1 whatever william wilson winner winter
    yankees yellow zxcvbn
    """.split()  # noqa: SIM905
)
# rows of keys, and other sequences that people type as a password
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
# the cost of a hash, in passes, KiB of memory, and lanes
COST = {"time_cost": 2, "memory_cost": 19 * 1024, "parallelism": 1}
_one = threading.Lock()  # held while a hash is computed


def normal(password: str) -> str:
    """PASSWORD in Unicode form NFKC, so that the same password gives the same bytes on every keyboard and system."""
    return unicodedata.normalize("NFKC", password)


def first_password() -> str:
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))


def digest(password: str) -> str:
    """The hash of PASSWORD. Takes up to a second on a slow board."""
    from argon2 import PasswordHasher

    with _one:
        return str(PasswordHasher(**COST).hash(normal(password)))


# the hash with which a password is compared if the user does not exist
_DUMMY = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$VtNbS5rj7ZqGVDYqWjGbB0oZ7DvB5Vsxr3pmDh4bUFs"


def matches(stored: str | None, password: str) -> bool:
    """Whether PASSWORD has the hash STORED. False if STORED is None, because there is no such user.

    That case takes as long as the other, so that the time does not reveal which user names exist.
    """
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

    A password is easy to guess in four cases:

    - It repeats a few characters.
    - Fewer than four characters remain without the rows of keys in it.
    - Fewer than four letters remain without the rows of keys, years and common words in it. Digits and signs that
      stand for letters (p4ssword) count as these letters.
    - The list of frequent passwords and words has it, also without the digits and signs around it.
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
        for word in sorted((*_OWN, *_COMMON, *names), key=len, reverse=True):
            left = left.replace(word, " ")
        left = re.sub(r"(19|20)\d\d", "", left)
        if left != form and len(_without_rows(re.sub(r"[\W\d_]", "", left))) < 4:
            return "weak-name" if named else "weak-common"
    for form in (text, text.translate(_LEET)):
        if frequent.listed(form) or frequent.listed(re.sub(r"^[\W\d_]+|[\W\d_]+$", "", form)):
            return "weak-common"
    return None


def _repeats(text: str) -> bool:
    """Whether TEXT repeats one piece of up to five characters, or has fewer than four different characters."""
    if len(set(text)) < 4:
        return True
    return any(text == (text[:size] * len(text))[: len(text)] for size in range(1, 6))


def _without_rows(text: str) -> str:
    """TEXT without pieces of four or more characters that follow a row of keys in either direction, or are all equal."""
    for row in (*_ROWS, *(row[::-1] for row in _ROWS)):
        for size in range(len(row), 3, -1):
            for start in range(len(row) - size + 1):
                text = text.replace(row[start : start + size], "")
    return re.sub(r"(.)\1{3,}", "", text)
