# SPDX-License-Identifier: Apache-2.0
# The kernel's serial console, PORT,SPEED: the first that the machine names, or
# what EVENKEEL_CONSOLE says. That may be several, separated by spaces, of which the last is
# /dev/console; or none: no console= at all, so that the firmware says which (arm64: stdout-path of
# a device tree, ACPI's SPCR). A recipe that hangs on it is the machine's.
PACKAGE_ARCH = "${MACHINE_ARCH}"

EVENKEEL_CONSOLE ?= "${@evenkeel_console(d)}"
def evenkeel_console(d):
    first = ((d.getVar('SERIAL_CONSOLES') or '').split() or [''])[0]
    speed, _, port = first.partition(';')
    # of an x86 board's firmware the kernel does not take it
    return '%s,%s' % (port, speed) if port else 'ttyS0,115200' if d.getVar('TARGET_ARCH') == 'x86_64' else 'none'
