# SPDX-License-Identifier: Apache-2.0
"""The English texts of the agent's messages, by code. The panel adds its own texts (evenkeel_panel/texts.py).

A text is a sentence without its full stop, in the syntax of str.format(), with named parameters. A translation is
another table with the same codes.
"""

_WEIGHT = "weight must be a whole number from 1 to 10000"
_FIXED = "fixed share must be a whole number of percent from 1 to 100, or 0 for none"

# What to do. The panel comes first: a board has no log-in for a shell, unless its owner enables one.
_JOURNAL = "look for {unit} on the page System, Journal, or see 'journalctl -u {unit}'"
_RESTART = "restart the board on the page System, or see 'systemctl status {unit}'"
_FAILED = _JOURNAL + ", then restart the board"

TEXTS = {
    # what failed, and why
    "for-app": "{reason} (app {app})",
    "stays": "the {what} of {app} stays {value}: {reason}",
    "unknown-app": "there is no app {app!r:.80} in apps.d",
    "weight-undo-too-late": "the weight was changed again and is {value} now, so nothing was undone; enter the weight that you"
    " want",
    "fixed-share-undo-too-late": "the fixed share was changed again and is {value} now, so nothing was undone; enter the fixed"
    " share that you want",
    "app-removed": "app {app} has just been removed from apps.d",
    "app-not-added": "app {app} was not added: {reason}",
    "app-not-removed": "app {app} was not removed: {reason}",
    "app-from-file": "its file is {path}; stop the app on the page Apps, or delete this file and run"
    " 'systemctl reload evenkeeld'",
    "app-too-many": "the board has {limit} added apps, which is the maximum; remove one first",
    "weight-not-a-number": _WEIGHT + ", not {value:.60}",
    "weight-type": _WEIGHT + ", of D-Bus type u, not {type}",
    "fixed-share-not-a-number": _FIXED + ", not {value:.60}",
    "fixed-share-type": "fixed share must be a whole number of percent from 1 to 100, or 0, of D-Bus type u, not {type}",
    "fixed-share-too-much": "{percent} % for {app} is more than the {left} % that are left: {taken}",
    "invalid-argument": "{method}: {reason}",
    "not-changed": "app {app} was not changed: {reason}",
    "not-started": "app {app} was not started: {reason}",
    "not-stopped": "app {app} was not stopped: {reason}",
    "condition": "a condition in {unit} is not met",
    "no-unit": "there is no unit {unit}",
    "job-failed": "the job for {unit} ended as {result}; " + _JOURNAL,
    "outside-slice": "its unit {unit} is in {slice}, not below {apps};"
    " ask the maker of the app to put Slice={apps} into the unit, or do it and run 'systemctl daemon-reload'",
    "caller-left": "the caller has left the bus, so its user cannot be checked: {reason}",
    "polkit-silent": "user {user} is not authorized for {action}: polkit did not decide: {reason}",
    "polkit-no": "user {user} is not authorized for {action}",
    # values that are saved
    "weight-not-saved": "the weight cannot be saved in {folder}: {reason}",
    "fixed-share-not-saved": "the fixed share cannot be saved in {folder}: {reason}",
    "weights-damaged": "the saved weights were damaged{reason} and are kept in {path};"
    " default weights are in use; set the weights again",
    "fixed-shares-damaged": "the saved fixed shares were damaged{reason} and are kept in {path};"
    " no app has a fixed share; set the fixed shares again",
    "weights-unreadable": "{path} cannot be read, so default weights are in use: {reason}",
    "fixed-shares-unreadable": "{path} cannot be read, so no app has a fixed share: {reason}",
    "rename-failed": "{problem} (renaming the file failed: {reason})",
    # the certificate of the panel
    "certificate-unreachable": "the helper that has the certificate cannot be reached at {path}: {reason};"
    " " + _RESTART,
    "certificate-unanswered": "the helper that has the certificate gave no answer: {reason}; the certificate may have changed,"
    " so look at it before you try again; " + _RESTART,
    "certificate-failed": "the certificate cannot be read or changed: {reason}",
    "certificate-keys": "the file must have one private key, and it has {count}",
    "certificate-key-encrypted": "the private key has a password; remove it, for example with 'openssl pkey'",
    "certificate-count": "the file must have 1 to {most} certificates, and it has {count}",
    "certificate-key-other": "the private key does not belong to the first certificate;"
    " put the certificate of the board first",
    "certificate-weak": "the key or the signature is too weak for browsers; use an RSA key of 2048 bits or more, or an EC key",
    "certificate-key-kind": "browsers do not know this kind of key; use an RSA key, or an EC key with the curve P-256 or P-384",
    "certificate-purpose": "the certificate is not for a server; let the authority sign it for the use serverAuth",
    "certificate-unreadable": "the certificate or the key cannot be read; use the format PEM",
    "certificate-expired": "certificate {number} in the file expired on {date}",
    "certificate-early": "certificate {number} in the file is valid from {date} on, and the clock of the board says {now}",
    "certificate-chain": "certificate {number} was not signed by certificate {next}; put each one before the one that has"
    " signed it",
    "certificate-remembered": "browsers that have seen the present certificate refuse a self-signed one for up to a year;"
    " confirm that you want this",
    "panel-certificate-early": "the certificate of the panel is valid from {date} on, and the clock of the board says {now};"
    " set the clock on the page System. If the clock is right, {remedy}",
    "panel-certificate-expired": "the certificate of the panel expired on {date}, and the clock of the board says {now};"
    " check the clock on the page System. If the clock is right, {remedy}",
    "panel-certificate-expiring": "the certificate of the panel expires on {date}; {remedy}",
    "certificate-renew-own": "make a new one on the page System, or run 'ekctl make-certificate'",
    "certificate-renew-signed": "let the authority sign a new one, and install it on the page System or with"
    " 'ekctl install-certificate'",
    "certificate-not-served": "the web server did not accept the new certificate, so the old one is in use again: {reason}",
    # validations
    "validation-unreachable": "validations can be neither started nor shown, because ek-validation cannot be reached at"
    " {path}: {reason}; " + _RESTART,
    "validation-unanswered": "ek-validation gave no answer: {reason}; it may have done what you asked for, so look at the page"
    " Validation or at 'ekctl validate state' before you try again; " + _RESTART,
    "validation-not-started": "ek-validation gave no answer: {reason}; no validation is running, so you can try again; "
    + _RESTART,
    "validation-failed": "the request about a validation failed: {reason}",
    "validation-impossible": "a validation cannot start: {reason}",
    "validation-no-case": "a validation cannot start, because none of its cases can run: {reason}",
    "validation-runs": "a validation is running; wait for its end, or cancel it",
    "validation-none": "no validation is running; look at the list of reports",
    "validation-not-begun": "the validation ended before it began; " + _JOURNAL,
    "validation-unknown": "there is no validation {id}; choose one of the list",
    # problems of the board
    "scheduler-inactive": "evenkeel is not active on {device}: its scheduler is {scheduler};"
    " restart the board on the page System, or run 'echo evenkeel > /sys/block/{device}/queue/scheduler'",
    "no-flash": "no flash device was found; check that the kernel has its driver",
    "data-degraded": "the data partition is not in use{reason}: changes are lost at the next boot",
    "etc-removed": "when the board started, it moved changes in /etc to /run/evenkeel/etc/removed, because no list keeps them"
    " ({count}: {paths}); to keep a file, name it in a list in /etc/evenkeel/keep.d, and copy it back",
    "etc-problems": "when the board started, it could not use all lists of changes in /etc: {reason};"
    " correct the lists in /etc/evenkeel/keep.d, and restart the board",
    "data-full": "the data partition is nearly full ({free} MB are free), so the board may fail to save changes and the"
    " history",
    "systemd-silent": "systemd does not report the state of units, so the state of the apps is unknown: {reason}",
    "counters-unreadable": "{file} of {app} cannot be read: {reason}",
    "counters-unknown": "{file} of {app} has an unknown format: {reason}",
    # problems of an app
    "apps-unreadable": "{folder} cannot be read, so no app is known: {reason}",
    "app-ignored": "apps.d/{file} is ignored: {reason}",
    "app-not-controlled": "app {app} is not controlled: {reason}",
    "app-unreadable": "it cannot be read: {reason}",
    "app-key-missing": "{key} is missing",
    "app-key-not-text": "{key} must be text, not {value:.60}",
    "app-key-not-a-line": "{key} must be one line of printable text",
    "app-key-too-long": "{key} has {length} characters, at most {limit} are allowed",
    "app-name": "its name must be 1 to 32 characters a-z, 0-9 or -, and must not start with -",
    "app-not-utf8": "it is not UTF-8 text",
    "app-not-toml": "it is not TOML: {reason}",
    "app-key-unknown": "unknown key {key:.60}; allowed are {keys}",
    "app-title-empty": "title is empty",
    "app-unit": "unit must be the name of a .service, .scope or .slice, not {unit!r:.60}",
    "app-slice": "unit must be below {apps}, which the slice {unit} is not",
    "app-stats": "stats must be an absolute path without '..', not {path!r:.60}",
    "app-name-taken": "there is already an app with the name {app}",
    "app-unit-taken": "unit {unit} already belongs to the app {app}",
    "weight-not-in-force": "weight {weight} of {app} is not in force: {reason}",
    "io-weight-is": "its io.weight is {content!r:.60}",
    "io-weight-missing": "its cgroup has no io.weight",
    "fixed-share-not-in-force": "fixed share {percent} % of {app} is not in force: {reason}",
    "fixed-share-still-in-force": "fixed share of {app} is still in force: {reason}",
    "fixed-share-on": "{device}: {reason}",
    "fixed-share-full": "all groups with a fixed share together would have more than 100 % of it",
    "fixed-share-capability": "the kernel does not allow it (CAP_SYS_ADMIN is missing)",
    "fixed-share-not-served": "evenkeel no longer serves it",
    "fixed-share-range": "the kernel does not accept this percentage",
    "fixed-share-schedulers": "fixed shares need the scheduler evenkeel, but {devices}",
    "fixed-share-scheduler": "{device} uses the scheduler {scheduler}",
    "fixed-share-no-flash": "no flash device was found",
    "fixed-share-no-file": "its cgroup has no {file}: evenkeel is not loaded, or its version has no fixed shares",
    "fixed-share-file-is": "its {file} is {content!r:.60}",
    "helper-slow": "ek-fixed-share did not answer within {seconds:g} s",
    "helper-unreachable": "ek-fixed-share cannot be reached at {path}: {reason}",
    # problems of the recorder
    "channel-failed": "channel {channels} is not recorded: {reason}",
    "channels-failed": "channels {channels} are not recorded: {reason}",
    "channel-degraded": "channel {channels} is degraded: {reason}",
    "channels-degraded": "channels {channels} are degraded: {reason}",
    "recorder-not-mounted": "the recorder's partition is not mounted, so nothing can be recorded;"
    " " + _RESTART,
    "recorder-failed": "the recorder has failed, so nothing is recorded; " + _FAILED,
    "recorder-restarting": "the recorder has failed, and systemd restarts it; " + _JOURNAL,
    "recorder-silent": "the recorder has not responded for {seconds:.0f} s; restart the board on the page System, or "
    + _JOURNAL,
    "recordings-silent": "the recordings were not read within {seconds:g} s; try again later",
    "recordings-unreachable": "the helper that reads the recordings cannot be reached at {path}: {reason};"
    " " + _RESTART,
    "recordings-ended": "the helper that reads the recordings ended too early: too many downloads run, or it failed;"
    " try again later, or " + _JOURNAL,
    "recordings-unreadable": "the recordings cannot be read: {reason}",
    "not-downloaded": "the download did not begin: {reason}",
    "downloads-full": "too many downloads run; wait until one has ended, then try again",
    "one-channel-csv": "a CSV file has one channel; choose one channel, or the format MCAP",
    "bad-range": "the range ends at {end}, before it begins at {start}; enter a later end",
    # problems of the history
    "history-failed": "the history has failed, so nothing is kept; " + _FAILED,
    "history-restarting": "the history has failed, and systemd restarts it; " + _JOURNAL,
    "history-silent": "the history has not responded for {seconds:.0f} s; restart the board on the page System, or "
    + _JOURNAL,
    "history-damaged": "the history was damaged on {date} and is kept in {path}; a new one has begun;"
    " copy the file if you need it",
    "history-not-saved": "the history cannot be saved, and is kept in memory for at most a day: {reason}",
    "history-lost": "the history has lost {minutes} minutes, because it could not be saved for more than a day",
    # updates
    "update-unavailable": "the update service does not answer: {reason}; try again, or restart the board",
    "update-busy": "an installation is running; wait until it ends",
    "update-failed": "the update was not installed: {reason}; the board runs the same version as before,"
    " but the other slot may be incomplete",
    "update-rolled-back": "slot {slot} (version {version}) was not confirmed in three starts, so the board runs slot"
    " {running} again; install another version",
    "update-interrupted": "the last installation was interrupted, so the other slot is incomplete; install again",
    "slot-unconfirmed": "slot {slot} is not confirmed yet; this takes about a minute after a start. If it stays so,"
    " a health check fails",
    "slot-unhealthy": "slot {slot} was not confirmed because the health check {check} failed: {reason}",
    "not-confirmed": "the slot that runs is not confirmed, so the other one must stay as it is;"
    " wait a minute, or restart up to three times to return to the other one",
    "boot-state-unreadable": "{path} cannot be read: {reason}",
    "server-slow": "the server has not answered within {seconds:g} s; check the URL, then try again later",
    "inspection-runs": "the update service still waits for a server; try again later, or restart the board",
    "bundle-refused": "the bundle was refused: {reason}",
    "no-keyring": "this board accepts no updates, because its image has no update certificate;"
    " ask for an image that was built with KEYRING=FILE",
    "bundle-path": "the panel can install only an uploaded bundle ({path}) or one from a URL",
    "not-installed": "the installation did not begin: {reason}",
    "slot-not-chosen": "the slot for the next boot was not changed: {reason}",
    "no-slot": "the board has no slot {slot}",
    "slot-bad": "slot {slot} was not installed completely, or was not confirmed in three starts; install a bundle first",
    "not-restarted": "the board was not restarted: {reason}",
    "not-switched-off": "the board was not switched off: {reason}",
    "not-reset": "the board was not reset, and nothing is lost: {reason}",
    "reset-unknown": "the boot loader of this board is older than the factory reset, and an update does not replace it;"
    " flash the board again",
    "reset-other-slot": "the other slot starts next; restart the board first, or choose the slot that runs",
    "reset-remains": "the board was not reset, but the order may remain, and the next restart would carry it out: {reason};"
    " do not restart the board before you have saved a backup on the page System, or before"
    " 'grub-editenv /bootstate/grubenv unset RESET' has ended without an error",
    "reset-failed": "the factory reset failed, and is not tried again: {reason}",
    "reset-not-ordered": "{unit} did not write the order; " + _JOURNAL + ", then try again",
    # the system: name, clock, journal
    "system-unreachable": "ek-system cannot be reached at {path}: {reason}; " + _RESTART,
    "name-localhost": "the name localhost means the board itself on every network; choose another name",
    "name-not-set": "the name was not changed: {reason}",
    "unknown-time-zone": "this board has no time zone {zone!r:.64}; choose one of the list on the page System, or of"
    " 'ekctl time-zones'",
    "time-zone-not-set": "the time zone was not changed: {reason}",
    "time-service-silent": "the state of the clock is not known, because systemd-timedated does not answer: {reason}",
    "time-servers-not-saved": "the time servers cannot be saved in {path}: {reason}",
    "time-servers-unreadable": "the saved time servers ({path}) cannot be read, so they are not in use: {reason};"
    " enter them again",
    "time-servers-not-in-use": "the time servers are saved, but the time service did not accept them: {reason}",
    "backup-unknown": "this is not a backup of an Evenkeel board, or it is truncated; choose another file",
    "backup-damaged": "the backup was changed or damaged: its checksum is wrong; choose another file",
    "backup-newer": "the backup has version {version}, and this board reads up to version {known}; update the board first",
    "backup-invalid": "the backup has a value that this board does not accept: {reason}; nothing was changed",
    "backup-not-made": "the backup was not made: {reason}",
    "backup-too-large": "it would have more than {limit} characters; remove apps, priority directories, API tokens or channels"
    " that are not needed",
    "not-restored": "the settings were not restored: {reason}",
    "restore-unfinished": "a restore of the settings is not complete: {reason}; the agent tries again each minute",
    "restore-name": "the name changes from {old} to {new}",
    "restore-zone": "the time zone changes from {old} to {new}",
    "restore-servers": "the time servers change from {old} to {new}",
    "restore-app-added": "the app {app} is added",
    "restore-app-removed": "the app {app} is removed",
    "restore-app-changed": "the title, description, unit or first weight of the app {app} changes",
    "restore-weight": "the weight of {app} changes from {old} to {new}",
    "restore-fixed-share": "the fixed share of {app} changes from {old} to {new}",
    "restore-directories": "the priority directories of {app} change from {old} to {new}",
    "restore-network": "the network settings of {interface} change to {new}",
    "restore-network-absent": "this board has no network interface {interface}, so its settings in the backup are not used",
    "restore-wear-limit": "the wear limit changes from {old} to {new}",
    "restore-alerts": "the receivers of alerts change",
    "restore-user-added": "the user {name} is added, with the role {role}",
    "restore-user-removed": "the user {name} is removed, with all sessions and tokens",
    "restore-user-changed": "the user {name} gets the password, the code and the role ({role}) of the backup",
    "recorder-not-in-backup": "the configuration of the recorder cannot be in a backup: {reason};"
    " correct this file in {folder}",
    "recorder-not-set": "the configuration of the recorder was not changed: {reason}",
    "restore-recorder-group": "the group of all channels without a group of their own changes from {old} to {new} at the next"
    " start of the recorder",
    "restore-recorder-priority": "the priority of the recorder changes from {old} to {new} at its next start",
    "restore-recorder-absent": "this board has no recorder, so the channels of the backup are left out",
    "restore-certificate": "the certificate for {subject}, signed by {issuer}, is left out: a backup has no private keys;"
    " install it again with its key, on the page System",
    "restore-channel-added": "the channel {channel} of the recorder is added: {values}",
    "restore-channel-removed": "the channel {channel} of the recorder is removed; its recording stays",
    "restore-channel-changed": "the channel {channel} of the recorder changes: {values}",
    "restore-channel-comments": "the comments in the file of the channel {channel} change",
    "restore-token-added": "the API token {name} of {user} comes back: it is valid again, with the role {role}, {until}",
    "restore-token-removed": "the API token {name} of {user} is removed",
    "restore-token-changed": "the API token {name} of {user} gets the name, the role ({role}) and the expiry of the backup",
    "preseed-invalid": "evenkeel.toml has an error: {reason}; nothing of it was applied",
    "preseed-name": "name must be 1 to 63 letters, digits or -, without - at either end, and not digits alone",
    "preseed-hash": "password_hash must be an argon2id hash; make one as the guide to the installation shows",
    "preseed-empty": "it has no setting",
    "preseed-no-interface": "the board has no network interface; connect one, or leave the network settings out",
    "preseed-interface": "network needs an interface, because the board does not have exactly one;"
    " choose one of these: {names}",
    "preseed-refused": "the preseed file was not applied: {reason}; correct evenkeel.toml.failed on the EFI system partition,"
    " rename it to evenkeel.toml, and restart the board",
    "preseed-not-new": "evenkeel.toml on the EFI system partition is ignored, because this board is not new: the first-boot"
    " password was changed; delete the file, or reset the board to its factory state",
    "preseed-unfinished": "the preseed file was not applied completely: {reason}; restart the board, which tries again",
    "bundle-not-made": "the support bundle was not made: {reason}",
    "bundle-too-large": "the facts of the agent have more than {limit} bytes",
    "bad-moment": "{field} is not a time: {value}",
    "journal-not-read": "the journal was not read: {reason}",
    "journal-slow": "the search took more than {seconds:g} s; choose a unit, a shorter time or fewer lines",
    "journal-ended": "the helper that reads the journal ended too early; try again, or " + _JOURNAL,
    "journal-unreachable": "the helper that reads the journal cannot be reached at {path}: {reason};"
    " " + _RESTART,
    "journal-unreadable": "{reason}",
    # priority directories
    "app-directories": 'priority_directories must be a list of paths, such as ["/srv/www/top"], not {value}',
    "app-directories-many": "priority_directories has {count} paths, and an app may have {limit}; remove some",
    "directory-path": "{path!r:.80} is not an absolute path without '.', '..' or '//'; write it like /srv/www/top",
    "directory-too-long": "the path of the directory is longer than {limit} bytes; choose a shorter one",
    "directory-listed": "{path} already is a priority directory of {app}, so nothing was changed",
    "directory-not-listed": "{path} is no priority directory of {app}, so nothing was changed;"
    " look at the list of directories",
    "directories-full": "{app} has {limit} priority directories, which is the maximum; remove one first",
    "holds-full": "programs hold {limit} directories already, which is the maximum; wait until one of them ends",
    "directories-not-saved": "the priority directories cannot be saved in {path}, so nothing was changed: {reason}",
    "directories-damaged": "the saved priority directories were damaged and are kept in {path}, so those of the apps' files"
    " are in use; choose the directories again",
    "directories-unreadable": "the saved priority directories ({path}) cannot be read, so those of the apps' files are in"
    " use: {reason}; choose the directories again",
    "pool-unreachable": "the page pool can be neither read nor changed, because ek-pool cannot be reached at {path}:"
    " {reason}; " + _RESTART,
    "pool-no-module": "the page pool is off, because the kernel module evenkeel_pagepool is not loaded;"
    " restart the board on the page System, or run 'modprobe evenkeel_pagepool' and see the kernel log",
    "pool-not-installed": "priority directories are not protected, because the board has no {unit};"
    " install the package evenkeel-pagepool",
    "pool-stopped": "priority directories are not protected, because {unit} is stopped; restart the board on the page System,"
    " or run 'systemctl start {unit}'",
    "pool-failed": "priority directories are not protected, because {unit} has failed; " + _FAILED,
    "pool-busy": "the page pool is off, because another process has {path} open; stop that process",
    "pool-device-failed": "the page pool is off, because {path} cannot be used: {reason}",
    "pool-no-cgroup": "the page pool is off, because the cgroup of the pool ({path}) cannot be used: {reason};"
    " restart the board on the page System, or run 'systemctl restart evenkeel-pool'",
    "pool-not-limited": "memory.low of the pool was not set, so the priority files have the protection of before: {reason};"
    " ek-pool tries again",
    # the wear of the flash
    "wear-used-up": "the life of {device} is used up; save the data of the board now, and replace {device}",
    "wear-limit": "up to {used} % of the life of {device} may be used, and the wear limit is {limit} %; plan to replace"
    " {device}, and let the apps write less: the page Wear shows how much each of them writes",
    "wear-spare": "the device {device} has used {part} % of its spare blocks; save the data of the board, and replace"
    " {device} soon",
    "wear-limit-not-saved": "the wear limit cannot be saved in {path}: {reason}",
    "wear-limit-unreadable": "the wear limit ({path}) cannot be read, so it is {limit} %: {reason}; set it again",
    # alerts
    "alert-not-sent": "an alert was not sent ({receiver}): {reason}; check the settings of the alerts, then send a test",
    "alerts-unreadable": "the settings of the alerts ({path}) cannot be read, so no alert is sent: {reason};"
    " enter them again",
    "alerts-not-saved": "the settings of the alerts cannot be saved in {path}: {reason}",
    "alerts-no-server": "mails need a mail server; enter its name",
    "alerts-plain-password": "a log-in at the mail server needs encryption; choose TLS or STARTTLS",
    "alerts-off": "alerts are off; enter a webhook or a mail address first",
    "alert-test-runs": "a test is still running; wait until it ends",
    # the network
    "network-mode": "the mode must be dhcp or fixed, not {value!r}",
    "network-interface-name": "{name!r} cannot be the name of a network interface; choose one of the list",
    "network-no-interface": "there is no network interface {name!r:.40}; choose one of these: {names}",
    "network-dhcp-more": "with DHCP, a server chooses address, gateway and DNS servers; leave them empty, or choose"
    " a fixed address",
    "network-address-missing": "a fixed address is missing; enter one with its prefix, such as 192.168.1.20/24",
    "network-address-bad": "{value!r} is not an address; enter one with its prefix, such as 192.168.1.20/24",
    "network-prefix-missing": "the address {address} has no prefix, which is the size of its network;"
    " add it, such as {address}/{example}",
    "network-prefix-bad": "a network with the prefix /{prefix} cannot be used; enter a prefix from 1 to {most}",
    "network-address-kind": "the address {address} is {kind} address, which no board can have; enter another one",
    "network-address-network": "the address {address} names the network {network} itself; enter one inside it",
    "network-address-broadcast": "the address {address} is the broadcast address of the network {network};"
    " enter another one inside it",
    "network-gateway-bad": "{value!r} is not the address of a gateway; enter one such as 192.168.1.1, or leave it empty",
    "network-gateway-self": "the gateway {gateway} is the address of the board itself; enter that of the router",
    "network-gateway-outside": "the gateway {gateway} is not in the network {network} of the address;"
    " correct the gateway, the address or its prefix",
    "network-gateway-unusable": "the gateway {gateway} names the whole network {network};"
    " enter the address of the router",
    "network-dns-bad": "{value!r} is not the address of a DNS server; enter addresses such as 192.168.1.1",
    "network-dns-kind": "the address {server} cannot be that of a DNS server; enter the address of another device",
    "network-dns-many": "{count} DNS servers are too many; enter at most {most}",
    "network-same": "the interface {interface} has these settings already, so nothing was changed",
    "network-trial-runs": "a change of {interface} waits for its confirmation for {seconds} s more;"
    " confirm or undo it first",
    "network-no-trial": "no change of the network waits for a confirmation; look at the present settings",
    "network-too-late": "the time to confirm the change is over, so the board has undone it; make the change again",
    "network-too-early": "the change is not in force yet; wait 3 s, then confirm it at the new address",
    "network-not-saved": "the network settings cannot be saved in {path}: {reason}",
    "network-unreachable": "the network settings can be neither read nor changed, because ek-network cannot be"
    " reached at {path}: {reason}; " + _RESTART,
    "network-settings-damaged": "the saved network settings were damaged and are kept in {path}, so the board uses DHCP;"
    " enter the settings again",
    "networkd-silent": "the state of the network is unknown, because {unit} does not answer: {reason};"
    " " + _RESTART,
    "agent-bug": "the agent has a bug ({type}); download the support bundle on the page System for the maker of the board,"
    " or see 'journalctl -u evenkeeld'",
    "external": "{text}",
    # accounts
    "not-logged-in": "the session has ended; log in again",
    "role-missing": "the user {user} has the role {role}, and this needs the role {needed}; ask an administrator",
    "not-from-here": "a caller with an API token may not call {method}; log in to the panel instead",
    "must-change": "change the first password, then continue",
    "wrong-password": "the user name or the password is wrong; try again, or ask an administrator for a new password",
    "wrong-current": "this is not the present password; enter it again",
    "code-required": "enter the code of your authenticator app",
    "wrong-code": "the code is wrong or was used before; wait for the next one, and check the clock of the board",
    "too-many-tries": "there were too many wrong passwords; try again in {seconds} s",
    "busy": "too many log-ins at once; try again in {seconds} s",
    "password-short": "the password needs at least {least} characters, and this one has {length}",
    "password-long": "the password may have at most {most} characters, and this one has {length}",
    "password-same": "the new password must differ from the old one",
    "password-weak": "this password is easy to guess, because {reason}; choose a few words that nobody would put together",
    "weak-common": "it is a common password",
    "weak-name": "it contains the name of the user or of the board",
    "weak-repeats": "it repeats a few characters",
    "weak-row": "it follows the keyboard or the alphabet",
    "unknown-user": "there is no user {name!r:.40}; choose one of the list of users",
    "unknown-session": "there is no session {id!r:.40}: it may have ended already; look at the list of sessions",
    "unknown-token": "there is no token {id!r:.40}: it may be removed already; look at the list of tokens",
    "user-exists": "there is already a user {name}; choose another name",
    "user-name": "a user name has 1 to 32 characters a-z, 0-9, - or _, and begins with a letter",
    "user-root": "the name {name} belongs to the system; choose another one",
    "too-many": "there are already {limit} {what}; remove one first",
    "last-admin": "{name} is the last administrator; give another user this role first",
    "own-account": "you cannot remove your own account or change your own role; ask another administrator",
    "no-totp": "there is no new secret that the code could confirm; make a new secret first",
    "token-role": "a token cannot have a higher role than its user; choose a lower role",
    "accounts-not-saved": "the accounts cannot be saved in {path}: {reason}",
    "accounts-damaged": "the accounts were damaged ({reason}) and are kept in {path};"
    " the user admin has a new first password, which the board prints on its console when it starts",
}
