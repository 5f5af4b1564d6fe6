# SPDX-License-Identifier: Apache-2.0
"""The catalogue of messages: the texts of the agent's messages and of the panel's own messages, by code.

A text is in the syntax of str.format(). A translation is another table with the same codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenkeel_api.messages import render
from evenkeel_api.texts import TEXTS as AGENT_TEXTS

if TYPE_CHECKING:
    from evenkeel_api.messages import Note

TEXTS = {
    **AGENT_TEXTS,
    "agent-silent": "the agent does not answer",
    "agent-not-running": "the agent does not answer: it is not running",
    "agent-stopped": "the agent does not answer: it stopped before it answered",
    "agent-not-allowed": "the agent does not answer: the message bus does not allow the panel to call it",
    "agent-error": "the agent does not answer: {reason}",
    "agent-slow": "the agent did not answer within {seconds:g} s",
    "agent-failed": "the call to the agent failed: {reason}",
    "agent-unreadable": "the agent's answer cannot be read: {reason}",
    "bus-unreachable": "the message bus cannot be reached: {reason}",
    "weight-missing": "the weight is missing. {rule}",
    "fixed-share-missing": "the fixed share is missing. {rule}",
    "history-unreadable": "the history cannot be read: {reason}. If the board has just started, try again in a minute",
    "history-live-silent": "the history service does not answer, so the last minutes are missing: {reason}",
    "history-rows": "{count} damaged rows of the history are left out",
    "no-number": "“{typed}” is not a number. {rule}",
    "not-whole": "“{typed}” is not a whole number. {rule}",
    "too-high": "{typed} is more than {most}{unit}. {rule}",
    "too-low": "{typed} is less than {least}{unit}. {rule}",
    "weight-rule": "Enter a whole number from 1 to 10000",
    "fixed-share-rule": "Enter a whole number from 1 to 100 %, or “off”",
    "in-force": "{what} is in force",
    "saved-but": "{what} is saved. {problem}",
    "saved-not-yet": "{what} is saved, but not in force yet",
    "saved-at-start": "{what} is saved. It applies when {title} starts",
    "weight-is": "Weight {value}",
    "fixed-share-is": "Fixed share {value} %",
    "fixed-share-off": "Fixed share “off”",
    "fixed-share-ended": "the fixed share is off. The weight decides again",
    "weight-unknown": "the weight was {value} and may have changed. Look again in a moment",
    "fixed-share-unknown": "the fixed share was {value} and may have changed. Look again in a moment",
    "weight-still": "the weight is still {value}",
    "fixed-share-still": "the fixed share is still {value}",
    "starting": "{title} is starting",
    "stopping": "{title} is stopping",
    "starting-slowly": "{title} takes a long time to start. Watch its state on this page",
    "stopping-slowly": "{title} takes a long time to stop. Watch its state on this page",
    "no-lookup": "{reason} The panel cannot look up the app “{app}”. Try again in a moment",
    "no-such-app": "there is no app “{app}” on this board. Nothing was changed. Reload the page",
    "new-password-differs": "the two new passwords are not the same. Enter the new password again",
    "first-login-code": "enter your password again, together with the code of your authenticator app",
    "user-added": "the user {user} can log in with the first password {password}."
    " Note it now: this page does not show it again",
    "password-reset": "the first password of {user} is {password}. Note it now: this page does not show it again",
    "user-removed": "the user {user} was removed",
    "role-set": "the user {user} has the role {role} now",
    "no-bundle": "there is no uploaded bundle. Upload one first",
    "bundle-removed": "the uploaded bundle was removed",
    "not-removed": "an installation is running. Remove the bundle when it has ended",
    "installation-begun": "the installation has begun",
    "slot-chosen": "the board starts slot {slot} next time",
    "recorder-starting": "the recorder is starting. Wait a moment",
    "recorder-stopped": "the recorder is stopped, so nothing is recorded. To start it, run 'systemctl start ek-recorder'",
    "recorder-not-installed": "this board has no recorder, because its image was built without it",
    "recorder-unknown": "the state of the recorder is not known, because systemd does not answer. This page recovers by itself",
    "recorder-configuration": "the configuration in the files is not in force: {reason}",
    "not-all-record": "not every channel records. The table has the reasons",
    "lost-none": "nothing lost since the recorder started",
    "lost-none-since": "nothing lost since {since}",
    "lost-some": "{count} records lost since the recorder started. The table has the reasons",
    "lost-some-since": "{count} records lost since {since}. The table has the reasons",
    "lost-unknown": "an unknown number of records was lost at the last start. The table has the reasons",
    "lost-unknown-since": "an unknown number of records was lost at the start on {since}. The table has the reasons",
    "lost-both": "at least {count} records lost since the recorder started. The table has the reasons",
    "lost-both-since": "at least {count} records lost since {since}. The table has the reasons",
    "lost-overrun": "{count} because the flash was slower than the program",
    "lost-absent": "{count} while the program was not connected",
    "lost-failed": "{count} because the flash could not be written",
    "lost-writer": "{count} because the program sent invalid data",
    "lost-restart": "unknown number, because the recorder or the board was not shut down cleanly",
    "bad-time": "“{typed}” is not a time. Enter a time in UTC, such as 2026-11-25 10:00:00",
    "bad-choice": "the choice under {what} is not known. Choose one of: {choices}",
    "bad-download": "the channels or the incident are not known. Reload the page, then choose again",
    "no-channel": "no channel is chosen. Choose at least one",
    "no-time": "no time is entered. Enter a time under From or To, or choose another time",
    "session-ended": "the session was ended",
    "token-made": "the token “{name}” is {token}. Note it now: this page does not show it again",
    "token-removed": "the token was removed",
    "totp-on": "from now on, your log-in needs a code",
    "totp-off": "your log-in needs no code any more",
}


def text(code: str, /, **parameters: Any) -> str:
    """The message as a sentence, with capital letter and full stop."""
    return _finish(render(TEXTS, code, parameters))


def phrase(code: str, /, **parameters: Any) -> str:
    """The message as a part of a sentence."""
    return render(TEXTS, code, parameters)


def sentence(note: Note) -> str:
    """A message of the agent as a sentence. If the panel does not know its code, the English text in NOTE is used."""
    return _finish(plain(note))


def plain(note: Note) -> str:
    """A message of the agent without capital letter and full stop."""
    return render(TEXTS, note.code, note.parameters, note.text)


def _finish(found: str) -> str:
    return f"{found[:1].upper()}{found[1:].rstrip('.')}."
