# SPDX-License-Identifier: Apache-2.0
"""The catalogue of messages: the texts of the agent's messages and of the panel's own messages, by code.

A text is in the syntax of str.format(). A translation is another table with the same codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenkeel_api.messages import render
from evenkeel_api.texts import TEXTS as AGENT_TEXTS

if TYPE_CHECKING:
    from evenkeel_api.messages import Note

TEXTS = {
    **AGENT_TEXTS,
    # errors of any page; for Werkzeug's own errors, by HTTP status
    "http-400": "the panel cannot read this request. Nothing was changed. Go back, reload the page, then try again",
    "http-405": "this address takes no request of this kind. Nothing was changed. Go to the overview, and open the page from"
    " there",
    "http-413": "what was sent is larger than this form may be. Nothing was changed. Enter less, or choose a smaller file",
    "http-other": "the panel cannot handle this request",
    "no-page": "this panel has no page {path}. Check the address",
    "log-in-first": "log in first",
    "change-password-first": "change the first password first",
    "from-another-site": "the request came from another site. Nothing was changed. Use the panel's own pages",
    "form-old": "the form's protection token is missing or no longer valid. Nothing was changed. Reload the page and try again",
    "settings-not-saved": "the panel's database reported an error: {reason}. Nothing was changed. Check whether the data"
    " partition is full, then try again",
    "panel-failed": "the panel has an internal error. Try again. If it fails again, open the page System, and download the"
    " support bundle for the maker of the board",
    # the API
    "api-token-needed": "a change by the API needs a token: Authorization: Bearer TOKEN",
    "api-no-method": "the API has no method {method}. /api/v1/openapi.json lists the methods",
    "api-method": "{method} is called with {verb}",
    # parameters of an address
    "parameter-missing": "the parameter {what} is missing. Add it to the address",
    "parameter-choice": "the parameter {what} must be one of {choices}",
    "bad-parameter": "the parameter {what} is not valid: {reason}. Correct the address",
    "api-arguments": "the arguments of {method} are not valid: {reason}",
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
    "history-saving": "the history is just being saved, so the page shows its state of {reason} ago. Reload it in a moment",
    "history-live-silent": "the history service does not answer, so the last minutes are missing: {reason}",
    "history-rows": "{count} damaged rows of the history are left out",
    "history-changes-unreadable": "the changes cannot be shown: {reason}. Reload the page in a moment",
    "history-ends-unreadable": "the ends of validations and updates cannot be shown: {reason}. Reload the page in a moment",
    "history-changes-cut": "the page shows only the newest {count} changes of this span. Zoom in to see older ones",
    "history-no-table": "the history has no table {typed}. Its tables are {choices}",
    "history-span": "the span",
    "history-span-1": "the first span",
    "history-span-2": "the second span",
    "history-bad-time": "the parameter {what} must be a time in seconds since 1970, or a date and time in UTC such as"
    " 2026-05-04T13:30",
    "history-backwards": "{span} must end after it starts. Choose a later end or an earlier start",
    "history-short": "{span} must have at least {seconds} seconds. Choose a longer one",
    "history-long": "{span} must have at most two years. Choose a shorter one",
    "history-app-long": "the name of the app is too long. Choose the app from the list",
    "history-no-end": "the span must have an end. Add the time at which it ends",
    "history-early-end": "the end must be at least {seconds} seconds after the start of 1970. Choose a later end",
    "overview-no-throughput": "the history service does not answer, so the throughput is not known: {reason}."
    " If the board has just started, wait a moment. Otherwise restart it on the page System",
    "wear-no-life": "the device {device} does not report how much of its life is used, so the panel cannot tell how"
    " long it lasts",
    "wear-no-report": "no report of {device} is saved yet. Look again in five minutes",
    "wear-over": "the life of {device} is used up",
    "wear-over-basis": "It may refuse writes at any time",
    "wear-hardly-written": "it is not known yet how long {device} lasts, because hardly anything was written since its"
    " first report",
    "wear-any-day": "the life of {device} may end any day: {least} % or more of it is used",
    "wear-no-rate": "the device {device} can take at least {amount} more. The panel cannot tell how long this lasts,"
    " because the history covers less than an hour",
    "wear-no-writes": "the device {device} can take at least {amount} more, and nothing is written to it",
    "wear-at-least": "at today's rate, {device} lasts at least {time}",
    "wear-between": "at today's rate, the life of {device} ends between {first} and {last}",
    "wear-on": "at today's rate, the life of {device} ends on {first}",
    "wear-rate": "Today's rate is {amount} a day: the mean of the last {days} days, for a board that is always on",
    "wear-lower-bound": "This is a lower bound, not a date: the device reports steps of 10 %, and it has reported fewer"
    " than two. The bound rises with time",
    "wear-assumption": "The panel assumes that each written byte wears the device as much as before",
    "wear-watched": "The reports since {date} count",
    "wear-limit-missing": "the wear limit is missing. Enter a whole number from 1 to 100 %, or “off”",
    "wear-limit-set": "the board warns when up to {percent} % of the life of a device may be used",
    "wear-limit-off": "the board has no wear limit now. It still warns when a device runs out of spare blocks",
    # why an action in the audit log failed, by the kind of the agent's error
    "outcome-UnknownApp": "no such app",
    "outcome-InvalidWeight": "bad weight",
    "outcome-InvalidFixedShare": "bad fixed share",
    "outcome-InvalidArgument": "bad value",
    "outcome-NotAuthorized": "not allowed",
    "outcome-NotLoggedIn": "not logged in",
    "outcome-PasswordMustChange": "first password not changed",
    "outcome-WrongPassword": "wrong password",
    "outcome-WrongCode": "wrong code",
    "outcome-CodeRequired": "code missing",
    "outcome-TooManyTries": "too many tries",
    "outcome-PasswordRefused": "password too weak",
    "outcome-UnknownAccount": "no such user or token",
    "outcome-Conflict": "not possible then",
    "outcome-UnitNotFound": "unit not installed",
    "outcome-UnitOutsideSlice": "unit not for apps",
    "outcome-Failed": "failed",
    "settings-damaged": "the settings of the panel were damaged ({reason}) and are kept in {path}, so users must log in again;"
    " nothing needs to be set again, and this message ends after a day",
    "settings-not-open": "the settings of the panel ({path}) cannot be opened: {reason}",
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
    "running-undo-too-late": "{title} was started or stopped again since. Nothing was undone. Use Start or Stop",
    "add-app-undo-too-late": "{title} was changed since it was added. Nothing was undone. Remove it here if you want",
    "remove-app-undo-too-late": "the removal of {app} cannot be undone any more: it is a day old, or its name or unit is in use"
    " again. Nothing was changed. Add the app as a new one",
    "add-app-again-partly": "{title} is listed again with its weight, but not with all its other settings. {reasons} Set them"
    " again by hand",
    "what-if": "not applied yet. With it, when all apps are busy: {parts}",
    "what-if-weight": "not applied yet. As long as {title} has a fixed share, its weight changes nothing: {parts}",
    "what-if-too-much": "not applied yet. It does not fit: the other apps leave {left} %",
    "add-app-no-unit": "the unit is missing. Enter its name, such as dashcam.service",
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
    "user-ask-reset": "the present password of {user} ends, and so do the code at log-in, all sessions and all API tokens."
    " The next page shows a first password, with which {user} can log in again",
    "user-ask-remove": "all sessions and API tokens of {user} end. The audit log keeps the rows of {user}",
    "user-removed": "the user {user} was removed",
    "role-set": "the user {user} has the role {role} now",
    "alerts-saved": "the settings are saved. Send a test to see whether the messages arrive",
    "alert-test-sent": "the test was sent. Look whether it has arrived",
    "alert-test-begun": "the test takes longer than usual. Reload this page in a minute to see its result",
    "alert-test-failed": "the test was not sent. The reason is below. Correct the settings, then send another test",
    "alerts-webhook-rule": "a webhook begins with http:// or https://, and has no spaces and no user before the host."
    " Nothing was changed",
    "alerts-mail-rule": "a mail address has the form name@example.org. Nothing was changed",
    "alerts-server-rule": "enter the host name of the mail server, such as mail.example.org. Nothing was changed",
    "alerts-port-rule": "the port must be a whole number from 1 to 65535. Nothing was changed",
    "alerts-security-rule": "choose the encryption from the list. Nothing was changed",
    "alerts-line-rule": "user and password may have at most 200 characters, in one line. Nothing was changed",
    "upload-type": "an upload has the header Content-Type: {type}. Nothing was stored. Use the page Updates, or correct the"
    " header",
    "upload-size": "a bundle has more than 0 bytes and at most 2 GiB. Choose the file of a bundle",
    "upload-busy": "another upload is running. Wait until it ends, then try again",
    "upload-no-space": "the bundle has {megabytes:.0f} MB, but the data partition has space for {free:.0f} MB only. Free some"
    " space, or install from a URL, which needs no space",
    "upload-interrupted": "the upload was interrupted. Nothing was installed. Try again",
    "update-role": "only an administrator may update the board",
    "no-bundle": "there is no uploaded bundle. Upload one first",
    "bundle-removed": "the uploaded bundle was removed",
    "not-removed": "an installation is running. Remove the bundle when it has ended",
    "installation-begun": "the installation has begun",
    "slot-chosen": "the board starts slot {slot} next time",
    "recorder-starting": "the recorder is starting. Wait a moment",
    "recorder-stopped": "the recorder is stopped, so nothing is recorded. To start it, restart the board on the page System,"
    " or run 'systemctl start ek-recorder'",
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
    "network-no-form": "there is no network interface {interface}. Open the page Network, and choose one of the list",
    "network-confirmed": "the change is confirmed and stays",
    "network-reverted": "the change is undone. The old settings are in force again in a moment",
    "network-to-dhcp": "automatic settings (DHCP)",
    "network-form-rule": "choose Automatic or Fixed, and enter at most 64 characters for each address. Nothing was changed",
    "network-last-expired": "the last change was undone, because nobody confirmed it in time. If you want it, make it again,"
    " and confirm it at the new address",
    "network-last-reverted": "the last change was undone by an administrator",
    "network-last-restarted": "the last change was undone, because the board restarted before anybody confirmed it. If you"
    " want it, make it again",
    "clock-synchronised": "the clock is right: {server} sets it",
    "clock-waiting": "the clock may be wrong, because no time server has answered yet. If it stays so, enter a time server"
    " that the board can reach",
    "clock-off": "the clock may be wrong, because the time service is stopped. To start it, restart the board on"
    " the page System, or run 'systemctl start systemd-timesyncd' on it",
    "clock-missing": "the clock may be wrong, because the image of this board has no time service. Build an image with the"
    " package systemd-timesyncd",
    "clock-unknown": "it is not known whether the clock is right. Reload the page in a moment",
    "board-name-rule": "a name has 1 to 63 letters, digits or “-”. It neither begins nor ends with “-”, and is not a number."
    " Nothing was changed",
    "board-name-set": "the board is called {name} now",
    "time-zone-rule": "choose the time zone from the list. Nothing was changed",
    "time-zone-set": "the time zone is {zone} now. An app that runs sees it when it starts again",
    "time-servers-rule": "enter at most 8 host names or addresses with spaces between them, such as ntp.example.org. Nothing"
    " was changed",
    "time-servers-set": "the time servers are saved. Reload this page in a minute to see whether one answers",
    "time-servers-automatic": "the board uses the time servers that its network names",
    "power-off-not-confirmed": "the board was not switched off. Confirm first that somebody can switch it on again",
    "unit-rule": "a unit has letters, digits and the characters : - _ . @ only. Correct it, or leave it empty",
    "backup-missing": "no file is chosen. Choose the file of a backup",
    "backup-restored": "the settings of the backup are those of the board now. If your password has changed, log in again",
    "backup-restored-network": "the other settings of the backup are those of the board now. Confirm the network settings",
    "backup-large": "the file has more than {limit} characters. Choose a file that the page System has made. To restore a"
    " larger backup, run 'ekctl restore FILE' on the board",
    "backup-same": "the backup has the same settings as this board. Nothing needs to be restored",
    "setup-role": "only an administrator can set up the board. Nothing was changed. Ask an administrator",
    "setup-step": "there is no such step. Nothing was changed. Choose one of: {steps}",
    "certificate-missing": "no file is chosen. Choose the files of the certificate and of its key. Nothing was changed",
    "certificate-long": "the files have more than {most} characters. Choose only the certificate, the intermediate"
    " certificates, and the key. Nothing was changed",
    "certificate-installed": "the certificate is installed, and is valid until {date}. Reload the page: the browser must not"
    " warn any more. Its fingerprint is {fingerprint}",
    "certificate-made": "the board uses a new self-signed certificate, valid until {date}. Your browser warns of it when it"
    " connects again: compare the fingerprint {fingerprint}",
    "validation-writes": "it writes {amount} into {where}. The file is removed at the end",
    "validation-unproven": "if the device is slow, it writes less. The next run of the same profile will know the exact amount",
    "validation-wears": "this is {percent} % of the endurance of the device, if each block endures 3,000 erase cycles",
    "validation-wear-unknown": "it is not known which part of the endurance this is",
    "validation-takes": "its {cases} measurements take about {time}, and at most {most}",
    "validation-slows": "meanwhile, it is one group alongside the apps, with the weight 100. Apps keep their share. Updates,"
    " backups and apps without a weight are slower",
    "validation-goes-on": "no app is paused",
    "validation-pauses-all": "all apps are paused for up to {most}. Meanwhile they do not answer, and can be neither"
    " started nor stopped. Updates and backups are slower",
    "validation-pauses": "all apps are paused until the validation ends. They do not answer, and can be neither started nor"
    " stopped. Updates and backups are slower",
    "validation-slows-now": "apps keep their share. Updates, backups and apps without a weight are slower until the validation"
    " ends",
    "validation-unweighed": "the scheduler {scheduler} is measured now, so weights and fixed shares of apps are not enforced",
    "validation-discards": "it discards free space again and again. No file loses data. On an eMMC, apps may stall for tens of"
    " milliseconds",
    "validation-discards-alone": "it discards free space again and again. No file loses data",
    "validation-schedulers": "the scheduler of the device changes for a while ({schedulers}). While another one than evenkeel"
    " is active, weights and fixed shares of apps are not enforced, and the board reports this as a problem",
    "validation-schedulers-alone": "the scheduler of the device changes for a while ({schedulers}), and the board reports"
    " this as a problem",
    "validation-evicts": "it reads a file that is larger than the page cache. Afterwards, programs must read their files from"
    " the flash again",
    "validation-choice": "choose profile and topic from the lists. Nothing was started",
    "validation-begun": "the validation has begun. It goes on if you leave this page",
    "validation-cancelled": "the validation ends now. Its report stays, and is marked partial",
    "validation-two": "two reports are needed. Choose the first and the second one in the list",
    "directory-missing": "choose an app, and enter the path of a directory. Nothing was changed",
    "directory-added": "{path} is a priority directory of {app} now",
    "directory-removed": "{path} is no priority directory of {app} any more. Its files stay in the cache until other files"
    " need the memory",
    "session-ended": "the session was ended",
    "token-made": "the token “{name}” is {token}. Note it now: this page does not show it again",
    "token-rule": "give the token a name of at most 64 characters, and choose its role and its time from the lists. No token"
    " was made",
    "token-removed": "the token was removed",
    "totp-on": "from now on, your log-in needs a code",
    "totp-off": "your log-in needs no code any more",
}

# Headings of pages with an error, by code, or by HTTP status. They have no full stop.
HEADINGS = {
    "NotAuthorized": "Your role does not include this",
    "AgentUnreachable": "The agent does not answer",
    "TooManyTries": "Too many tries",
    "refused": "The board refused this",
    "form-old": "The form is out of date",
    "settings-not-saved": "The panel cannot save",
    "panel-failed": "The panel has failed",
    "400": "The request cannot be read",
    "401": "Log in first",
    "403": "This is not allowed",
    "404": "There is nothing here",
    "405": "This address does not take the request",
    "409": "This is not possible now",
    "413": "The form is too large",
    "415": "This type of file cannot be used",
    "422": "A value cannot be used",
    "503": "This is not available now",
}

_FAULTS = "Read the reason, and look it up in /usr/share/doc/ek-recorder/recorder.md under “Faults and their outcome”"
_SCHEDULER = "Check on the page Apps that the scheduler is evenkeel. The agent tries again by itself"
_AGAIN = "Try again in a minute. If it fails again, restart the board on the page System"
_SPACE = "Look on the overview whether the data partition is full. If not, restart the board on the page System, then try again"
_CORRECT = "Correct the value, then try again"
_CLOCK = "Check the clock on the page System"
_AGENT = (
    "Wait a minute: the board starts the agent again by itself. If it stays so, switch the board off and on"
)
_LIST = "Reload the page, and choose an app of the list"
_HISTORY = "Make space on the data partition. If this does not help, restart the board on the page System"
# What to do about a problem or after a refusal, by the code of its message. A text that has its remedy after the last "; "
# needs no entry. What the user can do on the panel comes first: a board has no log-in for a shell, unless its owner enables
# one.
REMEDIES = {
    # problems
    "settings-not-open": "Check the data partition. The panel tries again by itself, and users may have to log in again",
    "data-degraded": "Restart the board on the page System. If the problem stays, download the support bundle there for the"
    " maker of the board, or read the report of the check in /run/evenkeel/data-fsck",
    "systemd-silent": "Wait a minute: the agent asks again by itself. If the problem stays, restart the board",
    "counters-unreadable": "Restart the board on the page System. If the problem stays, install an update: the module evenkeel"
    " may be missing",
    "counters-unknown": "Install an update on the page Updates: kernel module and agent must be of the same version",
    "apps-unreadable": "Restart the board on the page System. If the problem stays, check the folder, then run"
    " 'systemctl reload evenkeeld'",
    "app-ignored": "The other apps still work. Ask the maker of the app to correct the file. Then restart the board on the page"
    " System, or run 'systemctl reload evenkeeld'",
    "app-not-controlled": "Ask the maker of the app to put 'Slice=evenkeel-apps.slice' into its unit. Then restart the board on"
    " the page System",
    "weight-not-in-force": _SCHEDULER,
    "fixed-share-not-in-force": _SCHEDULER,
    "fixed-share-still-in-force": _SCHEDULER,
    "weights-unreadable": "Check the data partition. The first weight that you set replaces the file",
    "fixed-shares-unreadable": "Check the data partition. The first fixed share that you set replaces the file",
    "accounts-not-saved": "Check the data partition. The agent tries again by itself",
    "data-full": "Remove the uploaded bundle on the page Updates, or files that are not needed below /var",
    "accounts-damaged": "Restart the board, if necessary by its power switch: its console then shows the first password of"
    " admin. Log in with it, and add the users again",
    "channel-failed": _FAULTS,
    "channels-failed": _FAULTS,
    "channel-degraded": _FAULTS,
    "channels-degraded": _FAULTS,
    "pool-device-failed": "Restart the board on the page System, or run 'systemctl restart evenkeel-pool'",
    "history-not-saved": _HISTORY,
    "history-lost": _HISTORY,
    "update-failed": "Check the bundle, and install it again on the page Updates",
    "restore-unfinished": "Wait a minute: the agent tries again by itself. If the problem stays, restore the backup again",
    "time-servers-not-in-use": "Wait a minute: the agent tries again by itself. If the problem stays, enter the servers"
    " again on the page System",
    "slot-unconfirmed": "Wait a minute. If the problem stays, the next lines say which health check fails",
    "slot-unhealthy": "Restart the board on the page System. If the check fails again, install another version on the page"
    " Updates, or run 'ek-health' on the board, which names what a check has found",
    "reset-failed": "Check the flash of the board on the page Wear. Then order the reset again, or flash the board",
    # refusals
    "for-app": _CORRECT,
    "invalid-argument": _CORRECT,
    "weight-type": _CORRECT,
    "fixed-share-type": _CORRECT,
    "bad-moment": "Enter a time in UTC, such as 2026-11-25 10:00:00",
    "stays": _AGAIN,
    "unknown-app": _LIST,
    "app-removed": _LIST,
    "app-not-added": "Correct the form, then add the app again",
    "app-not-removed": _AGAIN,
    "fixed-share-too-much": "Enter a lower share, or lower that of another app first",
    "not-changed": "Ask the maker of the app",
    "not-started": "Look for the app on the page System, Journal, then start it again",
    "not-stopped": "Look for the app on the page System, Journal, then stop it again",
    "caller-left": "Try again",
    "polkit-silent": _AGAIN,
    "polkit-no": "Ask an administrator, or do it on the panel as a user whose role includes it",
    "weight-not-saved": _SPACE,
    "fixed-share-not-saved": _SPACE,
    "time-servers-not-saved": _SPACE,
    "directories-not-saved": _SPACE,
    "wear-limit-not-saved": _SPACE,
    "alerts-not-saved": _SPACE,
    "network-not-saved": _SPACE,
    "certificate-failed": _AGAIN,
    "certificate-keys": "Choose the file of the certificate, and the file of its key",
    "certificate-count": "Choose only the certificate of the board and the intermediate certificates",
    "certificate-expired": f"{_CLOCK}. If it is right, let the authority sign a new certificate",
    "certificate-early": f"{_CLOCK}. If it is right, wait until that time",
    "certificate-not-served": _AGAIN,
    "validation-failed": _AGAIN,
    "validation-impossible": "Read the reason, then start the validation again on the page Validation",
    "validation-no-case": "Choose another profile or topic",
    "not-downloaded": "Try again in a minute. If it fails again, look on the page Recorder for the reason",
    "bundle-refused": "Choose a bundle that was made for this kind of board, and signed by its owner",
    "bundle-path": "Upload the bundle on the page Updates, or enter its URL there",
    "not-installed": "Read the reason, then install the bundle again on the page Updates",
    "slot-not-chosen": "Look on the page Updates at the state of the slots, then try again",
    "no-slot": "Choose a slot on the page Updates",
    "not-restarted": "Try again in a minute. If it fails again, switch the board off and on",
    "not-switched-off": "Try again in a minute. If it fails again, stop the apps on the page Apps, then switch the power off",
    "not-reset": _AGAIN,
    "name-not-set": _AGAIN,
    "time-zone-not-set": _AGAIN,
    "backup-not-made": _AGAIN,
    "recorder-not-set": _AGAIN,
    "not-restored": "Read the reason, then restore the backup again on the page System",
    "bundle-not-made": _AGAIN,
    "journal-not-read": _AGAIN,
    "directory-listed": "Choose another directory",
    "network-same": "Enter other settings",
    "network-mode": "Choose Automatic or Fixed",
    "agent-silent": _AGENT,
    "agent-not-running": _AGENT,
    "agent-stopped": _AGENT,
    "agent-not-allowed": "Install an update, or flash the board",
    "agent-error": _AGENT,
    "agent-slow": "Look in a minute whether the change was made. If it stays so, restart the board on the page System",
    "agent-failed": _AGENT,
    "agent-unreadable": "Install an update on the page Updates: panel and agent must be of the same version",
    "bus-unreachable": _AGENT,
}
_NO_REMEDY = (
    "Look for the reason on the page System, under Journal. If you do not find it, download the support bundle there for"
    " the maker of the board"
)


def text(code: str, /, **parameters: Any) -> str:
    """The message as a sentence, with capital letter and full stop."""
    return _finish(render(TEXTS, code, parameters))


def heading(code: str) -> str:
    """The heading of a page with the error CODE; "" if it has none of its own."""
    return HEADINGS.get(code, "")


def phrase(code: str, /, **parameters: Any) -> str:
    """The message as a part of a sentence."""
    return render(TEXTS, code, parameters)


def sentence(note: Note) -> str:
    """A message of the agent as a sentence. If the panel does not know its code, the English text in NOTE is used."""
    return _finish(plain(note))


def plain(note: Note) -> str:
    """A message of the agent without capital letter and full stop."""
    return render(TEXTS, note.code, note.parameters, note.text)


def refusal(note: Note) -> str:
    """Why the agent refused a call, and what to do."""
    said = sentence(note)
    return (
        said
        if note.code not in REMEDIES or _has_remedy(note.code, note.parameters)
        else f"{said} {remedy(note.code)}"
    )


def _has_remedy(code: str, parameters: Mapping[str, Any]) -> bool:
    """Whether the text of CODE, or of a message in its PARAMETERS, has a remedy after a “; ”."""
    inner = (value for value in parameters.values() if isinstance(value, Mapping))
    return "; " in TEXTS.get(code, "") or any(
        _has_remedy(str(each.get("code")), each.get("parameters") or {}) for each in inner
    )


def explained(note: Note) -> tuple[str, str]:
    """What is wrong and what to do, from a message about a problem: each one or more sentences."""
    reason, _, remedy_text = TEXTS.get(note.code, "").rpartition("; ")
    if note.code in REMEDIES or not reason:
        return sentence(note), remedy(note.code, **note.parameters)
    parts = [render({**TEXTS, note.code: part}, note.code, note.parameters) for part in (reason, remedy_text)]
    return _finish(parts[0]), _finish(parts[1])


def remedy(code: str, /, **parameters: Any) -> str:
    """What to do about the problem CODE: one or more sentences."""
    return _finish(render({**TEXTS, **REMEDIES}, code, parameters) if code in REMEDIES else _NO_REMEDY)


def _finish(found: str) -> str:
    return f"{found[:1].upper()}{found[1:].rstrip('.')}."
