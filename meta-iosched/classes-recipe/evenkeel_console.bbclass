# SPDX-License-Identifier: Apache-2.0
# EVENKEEL_CONSOLE: the kernel's serial console, as PORT,SPEED. The default is the first
# entry of the machine's SERIAL_CONSOLES. Several consoles are separated by spaces; the last
# one becomes /dev/console. With "none" there is no console= parameter, and the firmware
# chooses (arm64: stdout-path of the device tree, or ACPI's SPCR table). A recipe that uses
# this variable is specific to the machine.
PACKAGE_ARCH = "${MACHINE_ARCH}"

EVENKEEL_CONSOLE ?= "${@evenkeel_console(d)}"
def evenkeel_console(d):
    first = ((d.getVar('SERIAL_CONSOLES') or '').split() or [''])[0]
    speed, _, port = first.partition(';')
    # On x86 the kernel does not take the console from the firmware, so "none" would leave it without a console.
    return '%s,%s' % (port, speed) if port else 'ttyS0,115200' if d.getVar('TARGET_ARCH') == 'x86_64' else 'none'
